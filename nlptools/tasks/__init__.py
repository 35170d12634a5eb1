"""The tasks of `finetune` and `predict`, one folder each; `task` holds the contract."""
