"""Text as token ids in memory-mapped files on disk; no torch."""
