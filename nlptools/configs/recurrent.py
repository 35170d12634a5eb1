"""Options of recurrent language models that need more than a line."""

from __future__ import annotations

import re
from typing import Any

from nlptools.errors import UsageError

ARCHITECTURES = ("rnn", "lstm", "gru")
OPTIONS: dict[str, Any] = {"architectures": ARCHITECTURES, "section": "Options of recurrent models"}


def adaptive_cutoffs(text: str | None, vocab_size: int) -> tuple[int, ...]:
    """The numbers of --adaptive, () without it. Raises UsageError unless they are below the size of the vocabulary."""
    limits = () if text is None else cutoffs(text)
    if limits and limits[-1] >= vocab_size:
        raise UsageError(f"--adaptive {text}: the vocabulary has {vocab_size} tokens, expected less")
    return limits


def cutoffs(text: str) -> tuple[int, ...]:
    """The numbers in a text such as `2000,10000`, ascending from 1 on. Raises UsageError."""
    numbers = tuple(map(int, text.split(","))) if re.fullmatch(r"\d{1,9}(,\d{1,9})*", text) else ()
    if not numbers or list(numbers) != sorted({0, *numbers})[1:]:
        raise UsageError(f"not ascending numbers of tokens: {text!r}, expected something like 2000,10000")
    return numbers


def _zaremba(steps: int, clip: float, **more: Any) -> dict[str, Any]:
    """A model of Zaremba et al. 2014. They add up the losses of the steps of a sequence: with the mean over all tokens that
    is optimized here, learning rates are `steps` times as large, and the largest norm of the gradient is as much smaller.
    """
    common = {"arch": "lstm", "layers": 2, "untied": True, "batch_size": 20, "warmup": 0, "optimizer": "sgd"}
    rates = {"lr": float(steps), "clip": clip / steps, "weight_decay": 0.0, "schedule": "epoch-decay"}
    return {**common, **rates, "context": steps, **more}


# Recipes for the Penn Treebank: words, one line a document, vocabulary of the training text, 10,000 words with <unk>.
# The published perplexities are of test text that is read as one stream (`score --carry`).
PRESETS: dict[str, dict[str, Any]] = {
    # Zaremba et al. 2014 (arXiv:1409.2329), section 4.1: non-regularized LSTM, 4.6M weights; test 114.5
    "zaremba-small": _zaremba(20, 5, hidden=200, initial_range=0.1, epochs=13.0, decay=2.0, decay_after=4),
    # medium, 20M weights: valid 86.2, test 82.7
    "zaremba-medium": _zaremba(
        35, 5, hidden=650, initial_range=0.05, dropout=0.5, epochs=39.0, decay=1.2, decay_after=6
    ),
    # large, 66M weights: valid 82.2, test 78.4
    "zaremba-large": _zaremba(
        35, 10, hidden=1500, initial_range=0.04, dropout=0.65, epochs=55.0, decay=1.15, decay_after=14
    ),
    # Merity et al. 2018 (arXiv:1708.02182), 24M weights; valid 61.2, test 58.8 before their further training (the command
    # and the figures of the README of salesforce/awd-lstm-lm). Needs --valid.
    "awd-lstm": {
        "arch": "lstm",
        "layers": 3,
        "hidden": 1150,
        "embedding": 400,
        "output_bias": True,
        "context": 70,
        "vary_context": True,
        "batch_size": 20,
        "dropout": 0.4,
        "locked_dropout": True,
        "input_dropout": 0.4,
        "layer_dropout": 0.25,
        "word_dropout": 0.1,
        "weight_dropout": 0.5,
        "activation_penalty": 2.0,
        "change_penalty": 1.0,
        "optimizer": "asgd",
        "asgd_patience": 5,
        "schedule": "constant",
        "lr": 30.0,
        "warmup": 0,
        "clip": 0.25,
        "weight_decay": 1.2e-6,
        "epochs": 500.0,
        "carry": True,
    },
    # A medium LSTM that two processor cores train in an hour: the optimizer and the schedule make up for few epochs
    "lstm-hour": {
        "arch": "lstm",
        "layers": 2,
        "hidden": 650,
        "output_bias": True,
        "context": 35,
        "batch_size": 20,
        "dropout": 0.5,
        "locked_dropout": True,
        "word_dropout": 0.1,
        "lr": 3e-3,
        "beta2": 0.99,
        "weight_decay": 0.01,
        "clip": 0.5,
        "schedule": "linear",
        "min_lr": 0.01,
        "epochs": 11.0,
    },
}
