"""Foreign models to ours, and ours to foreign ones, where this needs another library."""
