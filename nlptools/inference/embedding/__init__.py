"""Lines to vectors."""
