"""Architectures by name: strings, imported on use."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from typing import Any

from nlptools.errors import BundleError

# name -> (class of the model, class of its configuration): language models
ARCHITECTURES = {
    "transformer": ("nlptools.models.language.gpt:GPT", "nlptools.configs.lm:GPTConfig"),
    "lstm": ("nlptools.models.language.recurrent:LSTM", "nlptools.configs.lm:LSTMConfig"),
}
# encoder-decoders, by the name that --arch has for them
ENCODER_DECODERS = {
    "seq2seq-transformer": (
        "nlptools.models.translation.transformer:Transformer",
        "nlptools.configs.seq2seq:TransformerConfig",
    ),
    "seq2seq-rnn": ("nlptools.models.translation.recurrent:Recurrent", "nlptools.configs.seq2seq:RecurrentConfig"),
    "seq2seq-convolution": (
        "nlptools.models.translation.convolutional:Convolution",
        "nlptools.configs.seq2seq:ConvolutionConfig",
    ),
}
# encoders, with whatever heads they have
ENCODERS = {"bert": ("nlptools.models.encoders.bert:BertWithHeads", "nlptools.configs.encoders:EncoderConfig")}
# GPTs with heads of tasks in place of the next word
TASK_GPTS = {"gpt-tasks": ("nlptools.models.tasks.gpt:GPTWithHeads", "nlptools.configs.lm:GPTConfig")}
# classifiers of texts that were not pretrained
TEXT_CLASSIFIERS = {
    "text-classifier": (
        "nlptools.models.tasks.text_classifiers:TextClassifier",
        "nlptools.configs.text_classifiers:TextClassifierConfig",
    ),
}


def model_class(name: str) -> Any:
    """The class of an architecture's model. Raises BundleError for an unknown name."""
    return _resolve(name, 0)


def config_class(name: str) -> Any:
    """The dataclass of an architecture's configuration. Raises BundleError for an unknown name."""
    return _resolve(name, 1)


def _resolve(name: str, column: int) -> Any:
    known = {**ARCHITECTURES, **ENCODER_DECODERS, **ENCODERS, **TASK_GPTS, **TEXT_CLASSIFIERS}
    if name not in known:
        close = get_close_matches(name, known, n=1)
        guess = f"did you mean {close[0]}? " if close else ""
        raise BundleError(f"unknown architecture {name!r} ({guess}known: {', '.join(known)})")
    module, attribute = known[name][column].split(":")
    return getattr(import_module(module), attribute)
