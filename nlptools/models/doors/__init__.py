"""Doors to and from the directories of other packages, one family of models per file."""
