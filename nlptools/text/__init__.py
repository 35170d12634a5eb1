"""Strings to tokens to ids; no torch."""
