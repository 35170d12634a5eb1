"""Readers of published file layouts, one for each, for training and evaluation."""
