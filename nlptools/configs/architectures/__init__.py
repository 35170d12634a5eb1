"""The options of each architecture of a training command. The rows of `models.registry` name these classes."""
