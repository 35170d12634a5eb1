"""Pretraining of encoders from text: `pretrain-bert`."""
