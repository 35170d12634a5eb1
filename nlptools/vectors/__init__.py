"""Word vectors: their files, tables of them, nearest neighbours and analogies."""
