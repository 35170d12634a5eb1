"""Training an n-gram model from text to bundle: `train_ngrams`."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from nlptools import bundle, messages
from nlptools.configs import Training, ngram
from nlptools.configs.combinations import free_options
from nlptools.configs.lm import TrainLM
from nlptools.configs.units import size
from nlptools.corpora.columns import Column, open_columns
from nlptools.corpora.token_file import TextCounts
from nlptools.environment import available_memory, available_threads, resident_memory
from nlptools.errors import DataError, OutputError, UsageError, display
from nlptools.files import artifacts, atomic, streams, whole_directory
from nlptools.files.streams import LineWriter
from nlptools.inference.ngram_scorer import sentences, total_score
from nlptools.inference.perplexity import perplexities
from nlptools.models.language import arpa
from nlptools.models.language.ngram import Level, NGramConfig, NGrams
from nlptools.text import documents
from nlptools.training import advice
from nlptools.training.engine import run_directory
from nlptools.training.ngrams import counting, kept_counts, smoothing
from nlptools.training.ngrams.counting import CountedLevel
from nlptools.training.ngrams.runs import CountedPart, Merger
from nlptools.training.ngrams.text import CountedText, encoded, read
from nlptools.training.ngrams.weights import fitted_weights
from nlptools.version import __version__

_LEAST = 1 << 12  # tokens counted at a time, at least
_TABLE_BYTES = 36  # of memory for each token and word of an n-gram, for counts and the model
_COUNT_BYTES = 32  # for counts only


def train_ngrams(
    inputs: Sequence[str],
    settings: TrainLM,
    run: Training,
    *,
    encoding_errors: str = "strict",
    invocation: Mapping[str, Any] | None = None,
) -> NGrams:
    """Count the n-grams of `inputs` (files; none or `-`: standard input), smooth them, and write the model to `run.output`.

    The output appears when it is complete. A tokenizer without a vocabulary gets one of all tokens of the text. If the output
    is the model of the same settings and the same text, it is returned as it is.

    Raises:
        UsageError, InputError, DataError, BundleError: see `streams.blocks`, `documents.load_tokenizer`.
        OutputError: the output is something else, or the ARPA file exists, and `run.force` is not set or the output is no
            model.
        StreamError: the disk is full.
    """
    _check(inputs, settings, run)
    marks = _fingerprint(settings)
    before = _finished(settings, run, marks)
    began = time.monotonic()
    memory = size(settings.memory) if settings.memory else available_memory() // 2
    with atomic.scratch_beside(run.output) as scratch:
        text = _read(inputs, settings, scratch, memory, run.force, encoding_errors)
        digests = _digests(settings, text, run.valid)
        if before is not None:
            if before.get("data_sha256") != digests:
                raise run_directory.other_text(Path(run.output))
            return _given_again(text, settings, run, before)
        text, levels = (
            _merged(text, settings, scratch, memory) if settings.merge else _counted(text, settings, scratch, memory)
        )
        _check_order(levels)
        model, metrics = _estimated(levels, text, settings, run.valid, encoding_errors, scratch)
        metrics["seconds"] = time.monotonic() - began
        source: dict[str, Any] = (
            {"merged": list(settings.merge)} if settings.merge else {"inputs": list(inputs) or ["-"]}
        )
        record = {
            "nlptools": __version__,
            "status": "finished",
            "invocation": dict(invocation or {}),
            "settings": asdict(settings),
            "fingerprint": marks,
            "data_sha256": digests,
            "data": {"train": {**source, **asdict(text.counts)}},
            "metrics": metrics,
        }
        kind: dict[str, Any] = {"eos": text.eos, "document": settings.document, "training": record}
        with whole_directory.replacing(run.output) as folder:
            kept = [kept_counts.save(folder, levels)] if settings.keep_counts else []
            bundle.save(folder, "ngram", model, model.arrays(), text.tokenizer, files=kept, **kind)
        if settings.arpa is not None:
            _write_arpa(settings.arpa, model, text, run.force)
    _report(run.output, model, metrics, [*run.held_out, *inputs])
    return model if isinstance(model.levels[0].keys, np.ndarray) else _opened(run.output, model.config)


def _write_arpa(path: str, model: NGrams, text: CountedText, force: bool) -> None:
    assert text.tokenizer.vocab is not None
    with LineWriter(path, force=force) as out:
        words = arpa.names(text.tokenizer.vocab, model.config, text.eos)
        arpa.write(model, words, out, available_threads())


def _given_again(text: CountedText, settings: TrainLM, run: Training, before: Mapping[str, Any]) -> NGrams:
    """The finished model of the same command, and the files that a killed process may not have written or removed."""
    atomic.sweep(run.output)
    model = _opened(run.output, text.config(settings.order))
    if settings.arpa is not None:
        atomic.sweep(settings.arpa)
        if not os.path.exists(settings.arpa):
            _write_arpa(settings.arpa, model, text, run.force)
    messages.note(run_directory.FINISHED.format(display(run.output)))
    _report(run.output, model, before["metrics"], run.held_out)
    return model


def _fingerprint(settings: TrainLM) -> dict[str, Any]:
    """The settings that change the model."""
    free = free_options(settings)
    return run_directory.fingerprint({name: value for name, value in asdict(settings).items() if name not in free})


def _finished(settings: TrainLM, run: Training, marks: Mapping[str, Any]) -> dict[str, Any] | None:
    """The record of the finished run of the same settings in the output, if there is one. Raises OutputError: anything else."""
    output = Path(run.output)
    before = None
    if not run.force and output.is_dir() and any(output.iterdir()):
        defaults = {each.name: each.default for each in fields(settings)}
        before = run_directory.previous(output, run.resume, False, marks, defaults)
    if before is None:
        whole_directory.check_target(run.output, "a model", _is_model, force=run.force)
        if settings.arpa is not None and Path(settings.arpa).is_file() and not run.force:
            raise OutputError(f"{display(settings.arpa)}: exists", hint="--force replaces it")
    return before


def _digests(settings: TrainLM, text: CountedText, valid: str | None) -> dict[str, str | None]:
    """SHA-256 of the text, or of the models that are merged, and of the held-out text."""
    if settings.merge:
        manifests = (Path(path, artifacts.MANIFEST) for path in settings.merge)
        train = " ".join(artifacts.sha256(path) for path in manifests if path.is_file())
    else:
        train = text.digest
    held_out = None if valid is None or not Path(valid).is_file() else artifacts.sha256(Path(valid))
    return {"train": train, "valid": held_out}


def _opened(output: str, config: NGramConfig) -> NGrams:
    """The model in a new directory, its tables mapped."""
    found = open_columns(Path(output, "model.safetensors"))
    names = range(1, config.order + 1)
    levels = [Level(found[f"keys.{n}"], found[f"log_probs.{n}"], found.get(f"backoffs.{n}")) for n in names]
    return NGrams(config, levels).mapped()


def _left(memory: int) -> int:
    """The bytes of `memory` that are left for counts, at least an eighth."""
    return max(memory - resident_memory(), memory // 8)


def _read(
    inputs: Sequence[str], settings: TrainLM, scratch: Path, memory: int, force: bool, errors: str
) -> CountedText:
    """The text, which is in a file if its tables might not fit in memory; without ids if models are merged."""
    began = time.monotonic()
    tokenizer = documents.load_tokenizer(settings.tokenizer, settings.vocab, settings.document)
    if settings.merge:
        if tokenizer.vocab is None:
            raise UsageError(
                f"--tokenizer {settings.tokenizer} has no vocabulary", hint="--tokenizer may be one of the models"
            )
        eos = documents.end_of_text(tokenizer, settings.tokenizer)
        return CountedText(tokenizer, eos, TextCounts(), np.zeros(0, np.int32))
    most = memory // (_TABLE_BYTES * settings.order)
    place: dict[str, Any] = {"folder": scratch, "most": most, "force": force, "errors": errors}
    text = read(inputs, tokenizer, settings.tokenizer, settings.document, **place)
    messages.note(
        f"text: {messages.counted(text.counts.tokens, 'token')} in {messages.counted(text.counts.documents, 'document')},"
        f" {text.config(settings.order).vocab_size:,} types ({time.monotonic() - began:.1f} s)"
    )
    return text


def _counted(
    text: CountedText, settings: TrainLM, scratch: Path, memory: int
) -> tuple[CountedText, list[CountedLevel]]:
    """The text and its counts, which are in files if all tables might not fit in memory."""
    order, config = settings.order, text.config(settings.order)
    assert text.tokenizer.vocab is not None
    left = _left(memory)
    merger = Merger(config, scratch, left // 2)
    part = len(text)
    if len(text) * _TABLE_BYTES * order > left:
        part = max(_LEAST, left // 2 // (_COUNT_BYTES * order))
    runs, lead = list[CountedPart](), np.zeros(0, np.int64)
    for piece in text.pieces(part):
        begins = not runs or lead[-1:] == text.eos
        ids = sentences(piece, text.eos, config.bos, text.tokenizer.vocab.unk, bool(begins))
        ids = np.concatenate([lead, ids])
        levels = counting.count(ids, config, len(lead), available_threads())
        if part >= len(text):
            return text, levels
        runs.append(merger.write(levels))
        lead = ids[-max(1, order - 1) :]
    messages.note(f"memory: {len(text):,} tokens counted in {len(runs)} parts, in files beside the output")
    return text, merger.merged(runs)


def _merged(text: CountedText, settings: TrainLM, scratch: Path, memory: int) -> tuple[CountedText, list[CountedLevel]]:
    """The text, which has no ids, with the sizes of those of other models, and the sum of their counts, in files."""
    config = text.config(settings.order)
    runs, sizes = zip(*(kept_counts.load(path, text.tokenizer, config) for path in settings.merge), strict=True)
    levels = Merger(config, scratch, _left(memory) // 2).merged(runs)
    return replace(text, counts=sum(sizes, TextCounts())), levels


def _check_order(levels: Sequence[CountedLevel]) -> None:
    """Raise DataError if the text has no n-grams of some length."""
    longest = sum(len(level) > 0 for level in levels)
    if longest < len(levels):
        raise DataError(
            f"the text is too small for --order {len(levels)}: with <s> and </s>, its longest document has {longest} tokens",
            hint=f"--order {longest} is the highest possible",
        )


def _estimated(
    levels: Sequence[CountedLevel], text: CountedText, settings: TrainLM, valid: str | None, errors: str, scratch: Path
) -> tuple[NGrams, dict[str, Any]]:
    """The model, in files if the counts are, and its sizes and quality."""
    config = text.config(settings.order)
    assert text.tokenizer.vocab is not None
    held_out = None
    if valid is not None:
        held_out = list(encoded([valid], text.tokenizer, text.eos, settings.document, errors))
    folder = scratch if isinstance(levels[-1].suffixes, Column) else None
    method = _method(settings, levels, config, held_out)
    model = smoothing.estimate(levels, config, method, _limits(settings), folder, available_threads())
    metrics: dict[str, Any] = {"ngrams": [len(level) for level in model.levels]}
    if held_out is not None:
        measured = perplexities(*total_score(model.mapped(), held_out, text.eos, text.tokenizer.vocab.unk))
        metrics |= {f"valid_{name}": measured[name] for name in ("loss", "perplexity")}
    return model, metrics


def _check(inputs: Sequence[str], options: TrainLM, run: Training) -> None:
    """Raise UsageError for options that cannot be combined, before text is counted."""
    if not options.merge:
        streams.check_inputs(inputs, run.held_out)
    elif inputs:
        raise UsageError(f"--merge takes the place of text, but {display(inputs[0])} is given as well")
    options.check()
    if options.smoothing == "jelinek-mercer" and options.weights is None and run.valid is None:
        raise UsageError("--smoothing jelinek-mercer needs --weights, or --valid to fit them to")


def _is_model(folder: Path) -> bool:
    return (folder / "training.json").is_file() and (folder / "config.json").is_file()


def _report(output: str, model: NGrams, metrics: Mapping[str, Any], texts: Sequence[str]) -> None:
    name = display(output)
    sizes = ", ".join(f"{len(level):,} {n}-grams" for n, level in enumerate(model.levels, 1))
    valid = f", validation perplexity {metrics['valid_perplexity']:.2f}" if "valid_perplexity" in metrics else ""
    messages.note(f"{name}: {sizes} in {metrics['seconds']:.1f} s{valid}")
    messages.note(f"try: {advice.of_language_model(name, texts)}")


def _limits(options: TrainLM) -> tuple[int, ...]:
    return () if options.prune is None else ngram.limits(options.prune)


def _method(
    options: TrainLM, levels: Sequence[CountedLevel], config: NGramConfig, valid: Sequence[Any] | None
) -> smoothing.Smoothing:
    """The smoothing that the options name."""
    if options.smoothing == "add-k":
        return smoothing.add_k(options.add, config.vocab_size)
    if options.smoothing == "jelinek-mercer":
        if options.weights is not None:
            numbers = ngram.weights(options.weights)
        else:
            assert valid is not None
            held_out = np.concatenate([ids for ids, _ in valid])
            numbers = fitted_weights(levels, config, sentences(held_out, int(held_out[-1]), config.bos, None))
            messages.note("weights: " + ", ".join(f"{number:.4f}" for number in numbers))
        return smoothing.jelinek_mercer(
            np.array(numbers) / np.cumsum([max(0.0, 1 - sum(numbers)) + numbers[0], *numbers[1:]])
        )
    return {
        "kneser-ney": smoothing.kneser_ney,
        "absolute": smoothing.absolute,
        "witten-bell": smoothing.witten_bell,
    }[options.smoothing]
