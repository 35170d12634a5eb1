"""Batches of token ids as numpy arrays; no torch."""
