"""What turns lines into vectors: `embed`."""
