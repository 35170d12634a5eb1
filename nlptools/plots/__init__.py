"""Training curves, on the terminal and as pictures."""
