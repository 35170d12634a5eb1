"""The task `answer`: questions about a text."""
