"""Token ids and batches as numpy arrays; no torch."""
