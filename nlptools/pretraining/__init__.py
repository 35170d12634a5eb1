"""Pretraining encoders from text: `pretrain-bert`."""
