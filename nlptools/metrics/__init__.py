"""Scores of predictions against references; standard library and numpy only."""
