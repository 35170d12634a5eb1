"""The start of training: a tokenizer with a vocabulary, and a new model or a model in a directory."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import torch
from torch import nn

from nlptools import bundle
from nlptools.configs.lm import TrainLM
from nlptools.configs.seq2seq import TrainSeq2Seq
from nlptools.errors import UsageError
from nlptools.files import hub_cache
from nlptools.models import registry
from nlptools.models.contract import Configuration, Layered
from nlptools.models.huggingface import directories, peft
from nlptools.text import tokenizer as tokenizers
from nlptools.text.tokenizer import Tokenizer
from nlptools.text.vocab import Vocab


def load_tokenizer(option: str, name: str, vocab: str | Vocab | None = None) -> Tokenizer:
    """The tokenizer that `option` names. Raises UsageError if it has no vocabulary; see also `text.tokenizer.load`."""
    tokenizer = tokenizers.load(name, vocab=vocab)
    check_vocabulary(option, name, tokenizer)
    return tokenizer


def check_vocabulary(option: str, name: str, tokenizer: Tokenizer) -> None:
    """Raise UsageError if the tokenizer that `option` names has no vocabulary."""
    if tokenizer.vocab is None:
        raise UsageError(
            f"{option} {name} has no vocabulary", hint="build-vocab learns one, for --tokenizer or --vocab"
        )


def given_config(init: str, arch: str, options: TrainLM | TrainSeq2Seq) -> Configuration:
    """The configuration of the model directory `init`, with the dropouts and penalties of `options`.

    Raises:
        InputError, BundleError: not a model directory.
        UsageError: its architecture is not `arch`.
    """
    path = hub_cache.locate(init)
    bundle.check_directory(path)
    name, config = directories.config_from_hf(peft.read_config(path))
    if directories.tied(name, config) is not None:
        config = directories.as_stored(name, config, peft.load_weights(path))
    if name != arch:
        found, wanted = (registry.find(each).noun for each in (name, arch))
        raise UsageError(f"--init {init}: {found}, expected {wanted}")
    names = [field for field in vars(config) if field.endswith(("dropout", "penalty"))]
    chosen = {field: getattr(options, field, None) for field in names}
    return replace(config, **{field: options.dropout if p is None else p for field, p in chosen.items()})


def model(arch: str, config: Configuration, seed: int, init: str | None) -> nn.Module:
    """A language model or an encoder-decoder, on the CPU in float32, with new weights or those in the directory `init`.

    Raises as `bundle.load`.
    """
    model = registry.build(arch, config)
    torch.manual_seed(seed)
    cast(Layered, model).initialize()
    if init is not None:
        model.load_state_dict(bundle.load(init).weights())
    return model
