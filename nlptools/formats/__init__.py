"""Published file layouts, one reader each, for training and evaluation alike."""
