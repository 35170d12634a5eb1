"""The task seq2seq of `finetune`: more training of an encoder-decoder, as `train-seq2seq --init` does it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields

from nlptools import bundle
from nlptools.configs import Compute, Training
from nlptools.configs.finetuning import Finetune, FinetuneTraining
from nlptools.configs.seq2seq import PairTraining, TrainSeq2Seq
from nlptools.configs.tasks.files import Files
from nlptools.errors import UsageError
from nlptools.files import artifacts, hub_cache
from nlptools.models import registry
from nlptools.models.huggingface import directories
from nlptools.models.translation.vocabularies import Vocabularies
from nlptools.training.engine.job import Trained
from nlptools.training.translation import train_seq2seq

_DROPOUTS = ("dropout", "attention_dropout", "activation_dropout")


def finetune(
    inputs: Sequence[str],
    settings: Finetune,
    run: FinetuneTraining,
    compute: Compute,
    files: Files,
    *,
    encoding_errors: str = "strict",
    invocation: Mapping[str, object] | None = None,
) -> Trained:
    """Train the encoder-decoder in `settings.model` on lines of `source TAB target`.

    Raises:
        UsageError: a setting of another task, or a model that is no encoder-decoder; see also `train_seq2seq`.
    """
    model = hub_cache.locate(str(settings.model))
    bundle.check_directory(model)
    arch, sizes = directories.config_from_hf(artifacts.read_json(model / "config.json"))
    if not isinstance(sizes, Vocabularies):
        raise UsageError(
            f"--task seq2seq: {settings.model} is not an encoder-decoder", hint="train-seq2seq trains one from scratch"
        )
    architecture = registry.options_class(arch, TrainSeq2Seq)
    known = {field.name for field in fields(architecture)}
    rates: dict[str, float] = {name: getattr(sizes, name, 0.0) for name in _DROPOUTS if name in known}
    options = architecture(
        tokenizer=str(model),
        init=str(model),
        max_source_length=settings.max_length,
        max_target_length=settings.max_length,
        long="cut",
        source_lang=settings.source_lang,
        target_lang=settings.target_lang,
        **rates,
    )
    same = {field.name: getattr(run, field.name) for field in fields(Training)}
    training = PairTraining(**same, batch_tokens=0, best="loss" if settings.best == "loss" else "bleu")
    return train_seq2seq(inputs, options, training, compute, encoding_errors=encoding_errors, invocation=invocation)
