"""The task `reward`: how good a response to a prompt is."""
