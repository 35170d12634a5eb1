"""Presets of `train-lm`: sizes and training options by name, with their sources."""

from __future__ import annotations


def _zaremba(steps: int, clip: float, **more: object) -> dict[str, object]:
    """A model of Zaremba et al. 2014. They add up the losses of the steps of a sequence: with the mean over all tokens that
    is optimized here, learning rates are `steps` times as large, and the largest norm of the gradient is as much smaller.
    """
    common = {"arch": "lstm", "layers": 2, "untied": True, "batch_size": 20, "warmup": 0, "optimizer": "sgd"}
    rates = {"lr": float(steps), "clip": clip / steps, "weight_decay": 0.0, "schedule": "epoch-decay"}
    return {**common, **rates, "context": steps, **more}


def _elmo(hidden: int, cells: int, highways: int, **more: object) -> dict[str, object]:
    """A model of Peters et al. 2018 (arXiv:1802.05365)."""
    sizes = {"arch": "elmo", "layers": 2, "hidden": hidden, "cells": cells, "highways": highways}
    return {**sizes, "dropout": 0.1, **more}


_GPT3 = {"context": 2048, "batch_size": 2, "accumulate": 128, "warmup": 715, "weight_decay": 0.1, "beta2": 0.95}
PRESETS: dict[str, dict[str, object]] = {
    "tiny": {"layers": 4, "hidden": 128, "context": 128, "batch_size": 16, "lr": 2e-3},
    # the 10.6M-parameter character model of nanoGPT's README
    "small-char": {"layers": 6, "hidden": 384, "heads": 6, "context": 256, "batch_size": 64, "dropout": 0.2},
    # Radford et al. 2018, section 4.1
    "gpt1": {
        "layers": 12,
        "hidden": 768,
        "heads": 12,
        "context": 512,
        "post_norm": True,
        "dropout": 0.1,
        "batch_size": 64,
        "epochs": 100,
        "lr": 2.5e-4,
        "warmup": 2000,
        "min_lr": 0.0,
        "weight_decay": 0.01,
        "beta2": 0.999,
    },
    # Radford et al. 2019
    "gpt2": {"layers": 12, "hidden": 768, "heads": 12, "context": 1024, "batch_size": 8, "lr": 6e-4},
    "gpt2-medium": {"layers": 24, "hidden": 1024, "heads": 16, "context": 1024, "batch_size": 8, "lr": 3e-4},
    "gpt2-large": {"layers": 36, "hidden": 1280, "heads": 20, "context": 1024, "batch_size": 8, "lr": 2.5e-4},
    "gpt2-xl": {"layers": 48, "hidden": 1600, "heads": 25, "context": 1024, "batch_size": 8, "lr": 2e-4},
    # Brown et al. 2020 (arXiv:2005.14165), table 2.1 and appendix B: batches of 0.5M tokens, of gpt3-xl 1M, and a warm-up of
    # 375M. Departures: every layer attends to all tokens, where GPT-3 has sparse attention in every other layer; gpt3-xl has
    # 16 heads of 128, as the 24 of the table do not divide its width.
    "gpt3-small": {"layers": 12, "hidden": 768, "heads": 12, "lr": 6e-4, **_GPT3},
    "gpt3-medium": {"layers": 24, "hidden": 1024, "heads": 16, "lr": 3e-4, **_GPT3},
    "gpt3-large": {"layers": 24, "hidden": 1536, "heads": 16, "lr": 2.5e-4, **_GPT3},
    "gpt3-xl": {"layers": 24, "hidden": 2048, "heads": 16, "lr": 2e-4, **_GPT3, "accumulate": 256, "warmup": 358},
    # a LLaMA of the size of small-char
    "modern-small": {
        "arch": "modern",
        "layers": 6,
        "hidden": 384,
        "heads": 6,
        "context": 256,
        "batch_size": 16,
        "lr": 2e-3,
    },
    # SmolLM-135M (Hugging Face 2024): sizes of its config.json, the peak rate of its published training settings
    "smollm-135m": {
        "arch": "modern",
        "layers": 30,
        "hidden": 576,
        "heads": 9,
        "key_value_heads": 3,
        "intermediate": 1536,
        "context": 2048,
        "batch_size": 8,
        "lr": 3e-3,
    },
    # the hidden layer of Bengio et al. 2003, wider, with dropout and a tied output, for Penn Treebank on two cores: valid 141.0
    "bengio": {
        "arch": "feedforward",
        "layers": 1,
        "hidden": 320,
        "order": 6,
        "dropout": 0.2,
        "context": 64,
        "batch_size": 32,
        "epochs": 4,
        "optimizer": "muon",
        "lr": 1e-2,
        "clip": 0.5,
    },
    # the residual layers, long local window and averaged far context of Sun & Iyyer 2021, at that size: valid 120.6
    "nplm": {
        "arch": "feedforward",
        "layers": 4,
        "hidden": 320,
        "order": 16,
        "far": 128,
        "dropout": 0.2,
        "context": 128,
        "batch_size": 16,
        "epochs": 4,
        "optimizer": "muon",
        "lr": 1e-2,
        "clip": 0.5,
    },
    # for Penn Treebank, where Dai et al. 2019 report 54.5 (test) with 24M parameters. They published no recipe ("a
    # regularization game"); sizes and rates come from later implementations that aim at it. Variational dropout and the mean
    # of weights (--average) are part of the published result.
    "transformer-xl": {
        "arch": "transformer-xl",
        "layers": 16,
        "hidden": 380,
        "heads": 10,
        "intermediate": 900,
        "context": 70,
        "memory_length": 70,
        "dropout": 0.5,
        "attention_dropout": 0.2,
        "batch_size": 20,
        "epochs": 150,
        "lr": 4e-4,
        "warmup": 5000,
        "weight_decay": 1.2e-6,
        "beta2": 0.999,
        "clip": 0.25,
    },
    # for Penn Treebank on two cores: valid 93.0
    "small-transformer-xl": {
        "arch": "transformer-xl",
        "layers": 4,
        "hidden": 256,
        "heads": 4,
        "context": 64,
        "memory_length": 64,
        "pre_norm": True,
        "dropout": 0.05,
        "attention_dropout": 0.0,
        "batch_size": 32,
        "epochs": 4,
        "optimizer": "muon",
        "lr": 1e-2,
    },
    # Recurrent recipes for the Penn Treebank: words (-t whitespace), one line a document, vocabulary of the training text, 10,000
    # words with <unk>. The published perplexities are for test text read as one stream (`score --carry`).
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
    # Sizes of the models that AllenNLP published (allennlp.org/elmo): 13.6M, 28.0M and 93.6M weights without the softmax. Peters
    # et al. 2018 train the last for 10 epochs with dropout 0.1 and 8,192 sampled words, in batches of 7,680 words. Departures:
    # AdamW for Adagrad, and whole lines, up to --context words, for stretches of 20.
    "elmo-small": _elmo(128, 1024, 1, context=64, batch_size=32, lr=2e-3),
    "elmo-medium": _elmo(256, 2048, 1, context=64, batch_size=32, lr=1e-3),
    "elmo-original": _elmo(512, 4096, 2, context=64, batch_size=120, lr=5e-4, sampled=8192, epochs=10.0),
    # for Penn Treebank in less than an hour of two cores: tied (Press & Wolf 2017, arXiv:1608.05859), and narrower than the
    # medium LSTM of Zaremba et al., for more epochs in that time: valid 88.6, and 84.0 after 8.9 epochs
    "lstm-hour": {
        "arch": "lstm",
        "layers": 2,
        "hidden": 400,
        "output_bias": True,
        "dropout": 0.25,
        "context": 35,
        "batch_size": 64,
        "optimizer": "muon",
        "lr": 2.5e-2,
        "beta2": 0.99,
        "clip": 0.5,
        "epochs": 6.0,
    },
}
