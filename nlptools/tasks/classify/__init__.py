"""The tasks `classify`, `pair` and `regress`: one or two texts and a label or a number."""
