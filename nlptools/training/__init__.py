"""Training: objectives, the training loop, and one module or folder per kind of model."""
