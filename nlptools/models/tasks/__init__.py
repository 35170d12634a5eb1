"""Models with task heads: fine-tuned encoders and GPTs, and text classifiers."""
