"""Conversion to and from Hugging Face directories, one file per family of models."""
