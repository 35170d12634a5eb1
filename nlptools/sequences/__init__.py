"""Sequences of words or other items: phrases joined in them, random walks that make them."""
