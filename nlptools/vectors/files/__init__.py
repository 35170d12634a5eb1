"""File formats of word vectors."""
