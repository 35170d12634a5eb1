"""The tasks of `finetune`: a table, and a module with the options of each."""
