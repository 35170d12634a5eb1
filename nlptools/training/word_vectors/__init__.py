"""Training of word vectors: `train-w2v`."""
