"""Maps of word vectors in two and three dimensions, as tables, pictures and pages."""
