"""The version of nlptools."""

__version__ = "0.1.0"
