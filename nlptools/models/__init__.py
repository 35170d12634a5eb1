"""Whole systems, built out of layers."""
