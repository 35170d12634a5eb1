"""Task files as they are published: what fine-tuning learns from and prediction answers, read and written back."""
