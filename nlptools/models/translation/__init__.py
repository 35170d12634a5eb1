"""Encoder-decoders, for translation and summarization."""
