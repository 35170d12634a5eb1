"""The task `choice`: which of several endings continues a context."""
