"""The task seq2seq: a text that is said of another. It goes on with what `train-seq2seq` trained, and by the same means."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from nlptools import bundle
from nlptools.compute.backend import Backend
from nlptools.configs import Compute, Training
from nlptools.configs.finetuning import Files, Finetune, FinetuneTraining, Predict, changed
from nlptools.configs.seq2seq import PairTraining, TrainSeq2Seq, Translate
from nlptools.errors import UsageError
from nlptools.files import artifacts, streams
from nlptools.files.line_records import escape, unescape
from nlptools.inference.translation import Translator
from nlptools.models import registry
from nlptools.models.huggingface import directories
from nlptools.training.engine.job import Trained
from nlptools.training.translation import train_seq2seq

_TRAINED = ("task", "model", "best", "max_length")  # settings that have a meaning here
_PREDICTED = ("columns", "max_length", "window")
_DROPOUTS = ("dropout", "attention_dropout", "activation_dropout")


def finetune(
    inputs: Sequence[str],
    settings: Finetune,
    run: FinetuneTraining,
    compute: Compute,
    files: Files,
    *,
    encoding_errors: str = "strict",
    invocation: Mapping[str, Any] | None = None,
) -> Trained:
    """Go on training the encoder-decoder in `settings.model`, on lines of `source TAB target`.

    Raises:
        UsageError: a setting of other tasks, or a model that says no text; and all that `train_seq2seq` raises.
    """
    _refuse(settings, _TRAINED)
    _refuse(files, ())
    if settings.best not in ("auto", "loss"):
        raise UsageError(f"--best {settings.best}: expected auto, which is BLEU, or loss")
    model = Path(str(settings.model))
    bundle.check_directory(model)
    arch, sizes = directories.config_from_hf(artifacts.read_json(model / "config.json"))
    if registry.find(arch).family != registry.ENCODER_DECODER:
        raise UsageError(
            f"--task seq2seq: {settings.model} is no encoder-decoder", hint="train-seq2seq makes one from the beginning"
        )
    rates: dict[str, Any] = {name: getattr(sizes, name, 0.0) for name in _DROPOUTS}
    options = TrainSeq2Seq(
        tokenizer=str(model),
        init=str(model),
        arch=arch.removeprefix("seq2seq-"),
        max_source_length=settings.max_length,
        max_target_length=settings.max_length,
        long="cut",
        **rates,
    )
    same = {field.name: getattr(run, field.name) for field in fields(Training)}
    training = PairTraining(**same, batch_tokens=0, best="loss" if settings.best == "loss" else "bleu")
    return train_seq2seq(inputs, options, training, compute, encoding_errors=encoding_errors, invocation=invocation)


def lines(
    found: bundle.Bundle,
    backend: Backend,
    settings: Predict,
    files: Files,
    names: Sequence[str],
    errors: str = "strict",
) -> Iterator[list[str]]:
    """What `predict` writes for lines of `source`, or `source TAB target`, some at a time: what the model says.

    Raises:
        UsageError: a setting of other tasks.
    """
    _refuse(settings, _PREDICTED)
    _refuse(files, ())
    translator = Translator([found], backend)
    options = Translate(max_source_length=settings.max_length, window=settings.window)
    for block in streams.all_blocks(names, errors):
        for start in range(0, len(block.lines), settings.window):
            some = block.lines[start : start + settings.window]
            sources = [unescape(line.partition("\t")[0]) for line in some]
            said = [escape(row[0].text) for row in translator.translate_batch(sources, None, options)]
            yield [f"{line}\t{text}" for line, text in zip(some, said, strict=True)] if settings.columns else said
    translator.warn_of_unknown()


def _refuse(settings: Any, known: Sequence[str]) -> None:
    """Raise UsageError for a setting that says nothing to this task."""
    given = changed(settings, [field.name for field in fields(settings) if field.name not in known])
    if given:
        raise UsageError(
            f"{given[0]} does not go with --task seq2seq", hint="train-seq2seq --init and generate do more"
        )
