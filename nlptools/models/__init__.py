"""Whole models, built out of layers."""
