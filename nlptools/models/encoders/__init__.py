"""Bidirectional encoders: BERT, ELECTRA and their relatives."""
