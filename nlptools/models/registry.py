"""Architectures by name: strings, imported on use."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from typing import Any

from nlptools.errors import BundleError

# name -> (class of the model, class of its configuration)
ARCHITECTURES = {
    "transformer": ("nlptools.models.gpt:GPT", "nlptools.configs.lm:GPTConfig"),
    "lstm": ("nlptools.models.lstm:LSTM", "nlptools.configs.lm:LSTMConfig"),
}


def model_class(name: str) -> Any:
    """The class of an architecture's model. Raises BundleError for an unknown name."""
    return _resolve(name, 0)


def config_class(name: str) -> Any:
    """The dataclass of an architecture's configuration. Raises BundleError for an unknown name."""
    return _resolve(name, 1)


def _resolve(name: str, column: int) -> Any:
    if name not in ARCHITECTURES:
        close = get_close_matches(name, ARCHITECTURES, n=1)
        guess = f"did you mean {close[0]}? " if close else ""
        raise BundleError(f"unknown architecture {name!r} ({guess}known: {', '.join(ARCHITECTURES)})")
    module, attribute = ARCHITECTURES[name][column].split(":")
    return getattr(import_module(module), attribute)
