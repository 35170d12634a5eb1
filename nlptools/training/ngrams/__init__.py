"""Counting and smoothing of n-grams."""
