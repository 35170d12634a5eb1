"""Sequences of words or other items: joining phrases, random walks."""
