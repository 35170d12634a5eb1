"""The training loop and run lifecycle that all trainers share."""
