"""The task `parse`: dependency trees of sentences."""
