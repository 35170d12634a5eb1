"""Defaults of taggers of words without pretraining: `finetune --task tag --scratch`."""

from __future__ import annotations

ARCHITECTURES = ("cnn", "lstm", "gru", "rnn", "transformer")
CHARACTERS = ("cnn", "lstm", "none")
FEATURES = ("input", "output", "both", "none")  # where the vectors of an ELMo are in a network

_COMMON: dict[str, object] = {
    "lr": 2e-3,
    "epochs": 15.0,
    "batch_size": 16,
    "warmup": 0.0,
    "weight_decay": 0.0,
    "dim": 100,
    "characters": "cnn",
    "dropout": 0.5,
}
# Defaults of options for each --scratch with the task tag; the LSTM as in Ma & Hovy 2016, but with Adam instead of SGD.
PRESETS: dict[str, dict[str, object]] = {
    "tag lstm": {**_COMMON, "hidden_size": 200},
    "tag gru": {**_COMMON, "hidden_size": 200},
    "tag rnn": {**_COMMON, "lr": 1e-3, "hidden_size": 200},
    "tag cnn": {**_COMMON, "lr": 1e-3, "hidden_size": 256, "depth": 4, "dropout": 0.3},
    "tag transformer": {**_COMMON, "lr": 5e-4, "warmup": 0.1, "hidden_size": 256, "depth": 2, "dropout": 0.2},
}

_READER: dict[str, object] = {
    **_COMMON,
    "lr": 1e-3,
    "epochs": 8.0,
    "batch_size": 32,
    "hidden_size": 200,
    "layers": "mix",
}
# Defaults of options for each --features; of tags as with --scratch lstm, so that they can be compared.
FEATURES_PRESETS: dict[str, dict[str, object]] = dict.fromkeys(FEATURES, _READER) | {
    f"tag {name}": {**PRESETS["tag lstm"], "layers": "mix"} for name in FEATURES
}
