"""Metrics of translations: BLEU, chrF, TER; tables of systems and their significance tests."""
