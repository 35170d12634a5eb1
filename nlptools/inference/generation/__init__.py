"""Decoding: sampling, beam search, constraints, forced decoding."""
