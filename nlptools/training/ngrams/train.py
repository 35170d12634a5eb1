"""Training an n-gram model from text to bundle: `train_ngrams`."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Self

import numpy as np

from nlptools import bundle, messages
from nlptools.arrays import Longs
from nlptools.configs import RunDirectory, Threads
from nlptools.configs.architectures import ngram
from nlptools.configs.architectures.ngram import NGramOptions
from nlptools.configs.units import size
from nlptools.corpora.columns import Column, open_columns
from nlptools.corpora.token_file import TextCounts
from nlptools.environment import available_memory, available_threads, resident_memory
from nlptools.errors import DataError, OutputError, UsageError, display
from nlptools.files import artifacts, atomic, streams, whole_directory
from nlptools.files.json_fields import child
from nlptools.files.streams import LineWriter
from nlptools.inference.ngram_scorer import sentences, total_score
from nlptools.inference.perplexity import perplexities
from nlptools.json_types import JsonObject
from nlptools.models.language import arpa
from nlptools.models.language.ngram import Level, NGramConfig, NGrams
from nlptools.text import documents
from nlptools.training import advice
from nlptools.training.engine import finished_files, lifecycle
from nlptools.training.engine.lifecycle import Outcome
from nlptools.training.engine.run_directory import RECORD, Record, RunSettings
from nlptools.training.ngrams import counting, kept_counts, smoothing
from nlptools.training.ngrams.counting import CountedLevel
from nlptools.training.ngrams.runs import CountedPart, Merger
from nlptools.training.ngrams.text import CountedText, encoded, read
from nlptools.training.ngrams.weights import fitted_weights

_LEAST = 1 << 12  # tokens counted at a time, at least
_TABLE_BYTES = 36  # of memory for each token and word of an n-gram, for counts and the model
_COUNT_BYTES = 32  # for counts only


def train_ngrams(
    inputs: Sequence[str],
    settings: NGramOptions,
    run: RunDirectory,
    compute: Threads | None = None,
    *,
    encoding_errors: str = "strict",
    invocation: Mapping[str, object] | None = None,
) -> NGrams:
    """Count the n-grams of `inputs` (files; none or `-`: standard input), smooth them, and write the model to `run.output`.

    The output appears when it is complete. A tokenizer without a vocabulary gets one of all tokens of the text. If the output
    is already the model of the same settings and text, it is returned unchanged.

    Raises:
        UsageError, InputError, DataError, BundleError: see `streams.blocks`, `documents.load_tokenizer`.
        OutputError: the output is something else, or the ARPA file exists, and `run.force` is not set or the output is no
            model.
        StreamError: the disk is full.
    """
    _check(inputs, settings, run)
    lifecycle.refuse_processes()
    replaces = run.force or finished_files.is_finished(Path(run.output))
    if settings.arpa is not None and Path(settings.arpa).is_file() and not replaces:
        raise OutputError(f"{display(settings.arpa)}: exists", hint="--force replaces it")
    threads = (compute or Threads()).threads or available_threads()
    trainer = _NGrams(inputs, settings, run, threads, encoding_errors, time.monotonic())
    output = Path(run.output)
    model = lifecycle.run(trainer, output, resume=run.resume, force=run.force, invocation=invocation).model
    return model if isinstance(model.levels[0].keys, np.ndarray) else _opened(run.output, model.config)


@dataclass(frozen=True)
class _Read:
    """The text of a run, and a directory for its counts. Implements `run_directory.RunData`."""

    text: CountedText
    scratch: Path
    memory: int
    names: dict[str, list[str]]  # of the text files, or of the merged models
    sums: dict[str, str | None]

    def digests(self) -> dict[str, str | None]:
        return self.sums

    def record(self) -> Record:
        return {"train": {**self.names, **asdict(self.text.counts)}}


@dataclass(frozen=True)
class _Counted(Outcome):
    """The model of a run."""

    model: NGrams
    text: CountedText
    levels: Sequence[CountedLevel]  # empty if the model existed already


@dataclass(frozen=True)
class _NGrams:
    """A run from text to an n-gram model, in one pass. Implements `lifecycle.RunTrainer`."""

    inputs: Sequence[str]
    options: NGramOptions
    run: RunDirectory
    threads: int
    encoding_errors: str
    began: float
    before: JsonObject | None = None  # the record of the run, if it is finished already
    in_one_pass: bool = True

    def settings(self) -> RunSettings:
        return RunSettings.of(self.options)

    def read(self, place: Path) -> _Read:
        options, run = self.options, self.run
        memory = size(options.memory) if options.memory else available_memory() // 2
        text = _read(self.inputs, options, place, memory, run.force, self.encoding_errors)
        names = {"merged": list(options.merge)} if options.merge else {"inputs": list(self.inputs) or ["-"]}
        return _Read(text, place, memory, names, _digests(options, text, run.valid))

    def continuing(self, before: JsonObject) -> Self:
        return replace(self, before=before)

    def describe(self) -> Record:
        return {}

    def train(self, data: _Read, record: Record) -> _Counted:
        options = self.options
        if self.before is not None:
            model = _opened(self.run.output, data.text.config(options.order))
            return _Counted(0, child(self.before, "metrics", RECORD), None, model, data.text, [])
        count = _merged if options.merge else partial(_counted, threads=self.threads)
        text, levels = count(data.text, options, data.scratch, data.memory)
        _check_order(levels)
        held_out = None
        if self.run.valid is not None:
            held_out = list(encoded([self.run.valid], text.tokenizer, text.eos, options.document, self.encoding_errors))
        model, metrics = _estimated(levels, text, options, held_out, data.scratch, self.threads)
        metrics["seconds"] = time.monotonic() - self.began
        record["data"] = replace(data, text=text).record()
        return _Counted(0, metrics, None, model, text, levels)

    def save(self, outcome: _Counted, record: Record) -> None:
        """Write the whole model at once, and the ARPA file. For a finished run, only do what a killed process has left undone."""
        options, output = self.options, self.run.output
        if self.before is None:
            with whole_directory.replacing(output) as folder:
                bundle.save(
                    folder,
                    "ngram",
                    outcome.model,
                    outcome.model.arrays(),
                    outcome.text.tokenizer,
                    eos=outcome.text.eos,
                    document=options.document,
                    training=record,
                    files=[kept_counts.save(folder, outcome.levels)] if options.keep_counts else [],
                )
        if options.arpa is not None:
            atomic.sweep(options.arpa)
            if self.before is None or not os.path.exists(options.arpa):
                _write_arpa(options.arpa, outcome.model, outcome.text, self.run.force, self.threads)

    def report(self, outcome: _Counted) -> None:
        _report(self.run.output, outcome.model, outcome.metrics, [*self.run.held_out, *self.inputs])


def _write_arpa(path: str, model: NGrams, text: CountedText, force: bool, threads: int) -> None:
    assert text.tokenizer.vocab is not None
    with LineWriter(path, force=force) as out:
        words = arpa.names(text.tokenizer.vocab, model.config, text.eos)
        arpa.write(model, words, out, threads)


def _digests(settings: NGramOptions, text: CountedText, valid: str | None) -> dict[str, str | None]:
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
    """The bytes of `memory` that remain for counts, at least an eighth."""
    return max(memory - resident_memory(), memory // 8)


def _read(
    inputs: Sequence[str], settings: NGramOptions, scratch: Path, memory: int, force: bool, errors: str
) -> CountedText:
    """The text, in a file if its tables might not fit in memory; without ids if models are merged."""
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
    text = read(
        inputs, tokenizer, settings.tokenizer, settings.document, folder=scratch, most=most, force=force, errors=errors
    )
    messages.note(
        f"text: {messages.counted(text.counts.tokens, 'token')} in {messages.counted(text.counts.documents, 'document')},"
        f" {text.config(settings.order).vocab_size:,} types ({time.monotonic() - began:.1f} s)"
    )
    return text


def _counted(
    text: CountedText, settings: NGramOptions, scratch: Path, memory: int, *, threads: int
) -> tuple[CountedText, list[CountedLevel]]:
    """The text and its counts, in files if the tables might not fit in memory."""
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
        levels = counting.count(ids, config, len(lead), threads)
        if part >= len(text):
            return text, levels
        runs.append(merger.write(levels))
        lead = ids[-max(1, order - 1) :]
    messages.note(f"memory: {len(text):,} tokens counted in {len(runs)} parts, in files next to the output")
    return text, merger.merged(runs)


def _merged(
    text: CountedText, settings: NGramOptions, scratch: Path, memory: int
) -> tuple[CountedText, list[CountedLevel]]:
    """The text, without ids, with the sizes of the texts of merged models, and the sum of their counts, in files."""
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
    levels: Sequence[CountedLevel],
    text: CountedText,
    settings: NGramOptions,
    held_out: Sequence[tuple[Longs, TextCounts]] | None,
    scratch: Path,
    threads: int,
) -> tuple[NGrams, Record]:
    """The model, in files if the counts are, and its sizes and quality."""
    config = text.config(settings.order)
    assert text.tokenizer.vocab is not None
    folder = scratch if isinstance(levels[-1].suffixes, Column) else None
    method = _method(settings, levels, config, held_out)
    model = smoothing.estimate(levels, config, method, _limits(settings), folder, threads)
    metrics: Record = {"ngrams": [len(level) for level in model.levels]}
    if held_out is not None:
        measured = perplexities(*total_score(model.mapped(), held_out, text.eos, text.tokenizer.vocab.unk))
        metrics |= {f"valid_{name}": measured[name] for name in ("loss", "perplexity")}
    return model, metrics


def _check(inputs: Sequence[str], options: NGramOptions, run: RunDirectory) -> None:
    """Raise UsageError for options that cannot be combined, before text is counted."""
    if not options.merge:
        streams.check_inputs(inputs, run.held_out)
    elif inputs:
        raise UsageError(f"--merge replaces text as the input, but {display(inputs[0])} is also given")
    options.check()
    if options.smoothing == "jelinek-mercer" and options.interpolation is None and run.valid is None:
        raise UsageError("--smoothing jelinek-mercer requires --interpolation, or --valid to fit the weights to")


def _report(output: str, model: NGrams, metrics: Mapping[str, object], texts: Sequence[str]) -> None:
    name = display(output)
    sizes = ", ".join(f"{len(level):,} {n}-grams" for n, level in enumerate(model.levels, 1))
    valid = f", validation perplexity {metrics['valid_perplexity']:.2f}" if "valid_perplexity" in metrics else ""
    messages.note(f"{name}: {sizes} in {metrics['seconds']:.1f} s{valid}")
    messages.note(f"try: {advice.of_language_model(name, texts)}")


def _limits(options: NGramOptions) -> tuple[int, ...]:
    return () if options.prune is None else ngram.limits(options.prune)


def _method(
    options: NGramOptions,
    levels: Sequence[CountedLevel],
    config: NGramConfig,
    valid: Sequence[tuple[Longs, TextCounts]] | None,
) -> smoothing.Smoothing:
    """The smoothing that the options name."""
    if options.smoothing == "add-k":
        return smoothing.add_k(options.add, config.vocab_size)
    if options.smoothing == "jelinek-mercer":
        if options.interpolation is not None:
            numbers = ngram.weights(options.interpolation)
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
