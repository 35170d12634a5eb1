"""Fine-tuning of encoders: a file per kind of task (`kind.Kind` is the contract), and the training that all share."""
