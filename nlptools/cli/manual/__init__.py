"""Manual pages, shell completions and their texts."""
