"""The tasks `tag` and `roles`: one label per word."""
