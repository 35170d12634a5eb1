"""What a trained model says: sampling, beams, and what it thinks of what is given."""
