"""Tests of `nlptools.training.preferences`."""
