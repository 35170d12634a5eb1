"""Fine-tuning of pretrained models, and text classifiers trained from scratch: `finetune`."""
