"""Training of word vectors: windows over blocks of tokens, tables of rows, several processes over shared tables."""
