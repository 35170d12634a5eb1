"""Trained models at work: loading, scoring, generation, embedding, prediction, export."""
