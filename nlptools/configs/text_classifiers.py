"""Settings of models without pretraining: `finetune --scratch`."""

from __future__ import annotations

from nlptools.configs import word_taggers

HEADS = 4  # attention heads of a transformer
ARCHITECTURES = ("mean", "bag", "cnn", "lstm", "gru", "rnn", "transformer")
SCRATCH = ("logistic", *ARCHITECTURES, "vit")  # for one text, with a logistic regression; for pictures
LOGISTIC_VALUES = ("counts", "numbers")
# Share of words that are unknown in training, drawn anew each time (Iyyer et al. 2015).
WORD_DROPOUT = {"mean": 0.3, "cnn": 0.3, "lstm": 0.4, "gru": 0.4, "rnn": 0.4, "transformer": 0.1}

_COMMON: dict[str, object] = {"lr": 1e-3, "epochs": 5.0, "batch_size": 32, "warmup": 0.0, "weight_decay": 0.0}
_RECURRENT = {**_COMMON, "epochs": 6.0, "dim": 100, "hidden_size": 128, "dropout": 0.5}
# Defaults of options for each --scratch, tuned on movie reviews (SST-2).
PRESETS: dict[str, dict[str, object]] = {
    "logistic": {**_COMMON, "lr": 0.03, "epochs": 10.0},
    "mean": {**_COMMON, "lr": 3e-3, "dim": 100, "hidden_size": 100, "dropout": 0.5},
    "bag": {
        "lr": 0.08,
        "epochs": 6.0,
        "batch_size": 0,  # a step costs its 0.4 ms however few examples it has, but few data want many steps
        "warmup": 0.0,
        "weight_decay": 0.0,
        "clip": 0.0,
        "dim": 16,
        "dropout": 0.0,
    },
    "cnn": {**_COMMON, "epochs": 4.0, "dim": 100, "hidden_size": 100, "dropout": 0.5},
    "lstm": _RECURRENT,
    "gru": _RECURRENT,
    "rnn": _RECURRENT,
    "vit": {**_COMMON, "epochs": 30.0, "warmup": 0.1, "hidden_size": 64, "depth": 4, "dropout": 0.1},
    "transformer": {**_COMMON, "warmup": 0.1, "dim": 128, "hidden_size": 128, "depth": 2, "dropout": 0.2},
}


def _options(values: dict[str, object]) -> str:
    return " ".join(f"--{name.replace('_', '-')} {value}" for name, value in values.items())


# The defaults of each --scratch as options, a paragraph for each, for the manual.
DEFAULTS = "\n\n".join(f"{name}: {_options(values)}" for name, values in {**PRESETS, **word_taggers.PRESETS}.items())
