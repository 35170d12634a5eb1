"""Training word vectors from text to file: `train_vectors`."""

from __future__ import annotations

import contextlib
import shlex
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Self

import torch

from nlptools import messages
from nlptools.batches.source import CHECKPOINT
from nlptools.compute.backend import Backend
from nlptools.configs import Compute, Devices
from nlptools.configs.units import duration
from nlptools.configs.vectors import FORMATS
from nlptools.configs.word_vectors import NAMES, TrainW2V, VectorRun
from nlptools.corpora import word_sequences as data
from nlptools.corpora.word_sequences import Sequences
from nlptools.environment import available_threads
from nlptools.errors import Diverged, OutputError, Stopped, UsageError, display, reading
from nlptools.files import artifacts, atomic, directory_lock, replaced_run, streams
from nlptools.files.json_fields import built, child
from nlptools.json_types import JsonObject
from nlptools.text import unknown
from nlptools.text.builtin import NamedTokenizer
from nlptools.text.vocab import Vocab
from nlptools.training.engine import finished_files, lifecycle, run_directory
from nlptools.training.engine.checkpoint import Checkpoints
from nlptools.training.engine.lifecycle import Outcome
from nlptools.training.engine.log import Log
from nlptools.training.engine.run_directory import RECORD, Record, RunSettings
from nlptools.training.engine.stop import Stop
from nlptools.training.word_vectors import building, glove
from nlptools.training.word_vectors.building import Tables
from nlptools.training.word_vectors.chunks import Advance, ChunkProgress, Chunks, Plan
from nlptools.training.word_vectors.epochs import Epochs
from nlptools.training.word_vectors.merging import MergedChunks
from nlptools.training.word_vectors.trainer import Trainer
from nlptools.vectors.files import directory as bundle_format
from nlptools.vectors.files import formats
from nlptools.vectors.table import Vectors


def train_vectors(
    inputs: Sequence[str],
    settings: TrainW2V,
    run: VectorRun | None = None,
    devices: Devices | None = None,
    *,
    encoding_errors: str = "strict",
    invocation: Mapping[str, object] | None = None,
) -> Vectors:
    """Train word vectors on the sequences of tokens in `inputs` (files; none or `-`: standard input).

    Without `run` nothing is written. The same call continues a stopped run, unless the output is standard output.

    Raises:
        UsageError, InputError, DataError, BundleError, Unavailable: before anything is computed.
        OutputError: the output exists, or the run directory holds something else.
        Stopped: by a signal or `run.max_time`, with everything saved.
        Diverged: the learning rate is too high.
    """
    write, run, devices = run is not None, run or VectorRun(), devices or Devices()
    kind = output_format(run)
    settings.check(kind)
    if settings.model == "glove":
        lifecycle.refuse_processes("--model glove")
    inputs = streams.check_inputs(inputs, [] if run.valid is None else [run.valid])
    directory = _run_directory(run, kind) if write else None
    if directory is None:
        lifecycle.refuse_processes("training without -o PATH or --run DIR")
    if directory is None and run.max_time is not None:
        raise UsageError("--max-time needs a place to save to", hint="give -o PATH or --run DIR")
    before = None
    if directory is not None and kind != "bundle" and not run.force and run.resume != "never":
        before = finished_files.recall(Path(run.output), directory)
    if write and directory != Path(run.output) and before is None:
        formats.check_target(run.output, kind, run.force)
    # only the full softmax multiplies large matrices; everything else is float32
    softmax = settings.loss == "softmax"
    backend = Backend.detect(Compute(**asdict(devices), precision="auto" if softmax else "fp32"))
    backend = backend if softmax else replace(backend, precision_by="model")
    try:
        start = None if settings.init is None else formats.load(settings.init, errors=encoding_errors)
        job = _WordVectors(settings, run, kind, devices, encoding_errors, inputs, backend, start, directory)
        if directory is None:
            return job.run_once(write)
        if before is not None:
            return job.given_again(directory, before) if backend.is_main else formats.load(run.output, kind)
        if not backend.is_main:
            return job.follow(directory)
        if job.is_beside:
            messages.note(f"{display(str(directory))} keeps the state: the same command continues a stopped run")
        vectors = lifecycle.run(job, directory, resume=run.resume, force=run.force, invocation=invocation).vectors
        job.remove(directory)
        assert vectors is not None
        return vectors
    finally:
        backend.close()


def _run_directory(run: VectorRun, kind: str) -> Path | None:
    """Where the state of a run is kept: --run, the output if it is a directory, or FILE.run; None for standard output."""
    if run.run is not None or kind == "bundle":
        return Path(run.run or run.output)
    return None if formats.is_nameless(run.output) else Path(f"{run.output}.run")


def output_format(run: VectorRun) -> str:
    """The output format by its name in `vectors.files.formats`. Raises UsageError."""
    if run.format is not None:
        return NAMES.get(run.format, run.format)
    return formats.format_of(run.output)


@dataclass(frozen=True)
class _Text:
    """The ids of a text, and of a held-out text. Implements `run_directory.RunData`."""

    train: Sequences
    valid: Sequences | None
    inputs: Sequence[str]

    def digests(self) -> dict[str, str | None]:
        return {"train": self.train.digest, "valid": None if self.valid is None else self.valid.digest}

    def record(self) -> JsonObject:
        return {"inputs": list(self.inputs), "words": self.train.tokens, "left_out": self.train.left_out}


@dataclass(frozen=True)
class _Trained(Outcome):
    """The end of a run in chunks."""

    progress: ChunkProgress
    unit: str
    vectors: Vectors | None  # None: training was stopped


@dataclass(frozen=True)
class _WordVectors:
    """A training run from text to vectors, in chunks. Implements `lifecycle.RunTrainer`."""

    options: TrainW2V
    run: VectorRun
    kind: str  # the format of the output
    devices: Devices
    encoding_errors: str
    inputs: Sequence[str]
    backend: Backend
    start: Vectors | None  # the vectors of --init
    directory: Path | None  # where the state of the run is kept
    in_one_pass: bool = False

    @property
    def cores(self) -> int:
        return self.run.workers or available_threads()

    @property
    def is_beside(self) -> bool:
        """Whether the run directory is FILE.run, which is removed when FILE is written."""
        return self.run.run is None and self.kind != "bundle"

    def given_again(self, directory: Path, before: JsonObject) -> Vectors:
        """The vectors of the same command, which has finished with the record `before`.

        Raises:
            OutputError: it was another command, or had another text.
        """
        name = display(self.run.output)
        different = self.settings().changed(before)
        if before.get("format") != self.kind:
            different.append("format")
        if different:
            said = f"{name}: exists, from a run with other settings ({', '.join(different)})"
            raise OutputError(said, hint="--force replaces it")
        with directory_lock.locked(directory):
            with atomic.scratch_directory("nlptools-w2v-") as scratch:
                if self.read(scratch).digests() != before["data_sha256"]:
                    raise OutputError(f"{name}: exists, from a run on other text", hint="--force replaces it")
            atomic.sweep(self.run.output)
            if finished_files.is_finished(directory):  # the run was killed before it could remember it
                finished_files.remember(Path(self.run.output), directory)
                self._clear(directory)
        self.remove(directory)
        messages.note(run_directory.FINISHED.format(name))
        return formats.load(self.run.output, self.kind)

    def run_once(self, write: bool) -> Vectors:
        """Train without a run directory. Raises Stopped: everything is lost."""
        if write:
            messages.note(
                "a stopped run with standard output cannot be continued: -o FILE or --run DIR keeps its state"
            )
        with atomic.scratch_directory("nlptools-w2v-") as scratch:
            (scratch / "data").mkdir()
            trained = self._train(self.read(scratch / "data"), scratch, None)
        if trained.stopped is not None:
            signal.raise_signal(signal.Signals[trained.stopped])
            raise Stopped("stopped", hint="-o FILE or --run DIR keeps the state of the run")
        assert trained.vectors is not None
        if write:
            self._write(trained.vectors)
            self.report(trained)
        return trained.vectors

    def _clear(self, directory: Path) -> None:
        if self.is_beside:
            replaced_run.clear(directory)

    def remove(self, directory: Path) -> None:
        """Remove FILE.run, if it is empty."""
        if self.is_beside:
            with contextlib.suppress(OSError):
                directory.rmdir()

    def settings(self) -> RunSettings:
        return RunSettings.of(self.options, self.run, self.devices)

    def continuing(self, before: JsonObject) -> Self:
        """In the precision of the run that continues."""
        if self.options.loss != "softmax":
            return self
        return replace(self, backend=self.backend.continuing(child(before, "backend", RECORD)))

    def describe(self) -> Record:
        return {
            "settings": {**self.settings().values, "lr": self.options.rate},
            "format": self.kind,
            "replaces": finished_files.state(Path(self.run.output)),
            "seed": self.devices.seed,
            "backend": self.backend.describe(),
        }

    def read(self, place: Path) -> _Text:
        """Encode the texts into files of `place`."""
        began = time.monotonic()
        settings = self.options
        vocab = None if settings.vocab is None else Vocab.load(settings.vocab)
        text = data.spool(
            self.inputs,
            place / "train.bin",
            min_count=settings.min_count,
            vocab=vocab,
            more_words=() if self.start is None else self.start.words,
            workers=self.cores,
            errors=self.encoding_errors,
        )
        messages.note(
            f"text: {text.tokens:,} words, {len(text.words):,} different ones ({text.left_out:,} others left out; "
            f"{time.monotonic() - began:.1f} s)"
        )
        if vocab is not None:
            tokenizer = NamedTokenizer("whitespace", Vocab([*vocab.tokens, ""], special={"unk": len(vocab)}))
            total = text.tokens + text.left_out
            unknown.report(tokenizer, "the training data", text.left_out, total, text.sample, self.run.force)
        if self.run.valid is None:
            return _Text(text, None, self.inputs)
        words = Vocab(text.words, text.counts.tolist(), special={})
        valid = data.spool([self.run.valid], place / "valid.bin", vocab=words, errors=self.encoding_errors)
        return _Text(text, valid, self.inputs)

    def follow(self, directory: Path) -> Vectors:
        """Train in another process than the main one, on the text that the main one has read."""
        lead: tuple[JsonObject, JsonObject] = self.backend.broadcast(None)
        facts, backend = lead
        text = _Text(data.opened(directory / "data" / "train.bin", facts), None, self.inputs)
        trained = self.continuing({"backend": backend})._train(text, directory, Checkpoints(directory, 2))
        if trained.vectors is None:
            raise Stopped("", exit_code=run_directory.stopped_status())  # the main process alone reports it
        return trained.vectors

    def train(self, data: _Text, record: Record) -> _Trained:
        assert self.directory is not None
        if self.backend.world_size > 1:
            self.backend.broadcast((data.train.facts(), record["backend"]))
        try:
            return self._train(data, self.directory, Checkpoints(self.directory, 2))
        except Diverged:
            self._clear(self.directory)
            raise

    def _train(self, text: _Text, place: Path, checkpoints: Checkpoints | None) -> _Trained:
        """Train new tables, or the tables of the last checkpoint; without `checkpoints` nothing is saved."""
        tables = building.tables(self.options, text.train, self.start, self.devices.seed, self.backend.device)
        trainer, progress = self._trainer(text, tables, place / "data"), ChunkProgress()
        plan = trainer.plan
        backend, main = self.backend, self.backend.is_main
        if checkpoints is not None:
            if main:
                checkpoints.clean()
            last = checkpoints.load_last()
            if last is not None:
                with reading(CHECKPOINT):
                    for name, table in tables.items():
                        table.copy_(last[0][name])
                progress = built(ChunkProgress, last[2], CHECKPOINT)
        processes = backend.processes
        if processes and main:
            messages.note(f"training{processes}")
        log = Log(place if main and checkpoints is not None else None, plan.total, unit=trainer.unit, show=main)
        log.begin(progress.chunk)
        try:
            with Stop(None if self.run.max_time is None else duration(self.run.max_time)) as stop:
                advance: Advance = trainer.run
                if backend.world_size > 1:
                    last_rows = ("output",) if self.options.loss == "hs" else ()  # the root of the tree is the last one
                    advance = MergedChunks(trainer, tables, backend, last_rows, stop).run
                kept = checkpoints if main else None
                ends = self.run, not self.is_beside, advance
                Epochs(trainer, tables, progress, stop, log, kept, *ends).go(text.valid)
        finally:
            log.close()
        reason = stop.reason if progress.chunk < plan.total else None
        vectors = None
        if reason is None:
            if main:
                _check(trainer, tables, progress)
            vectors = building.vectors(self.options, text.train, tables, self.run.output)
        metrics = {trainer.unit if name == "done" else name: value for name, value in asdict(progress).items()}
        return _Trained(progress.chunk, metrics, reason, progress, trainer.unit, vectors)

    def _trainer(self, text: _Text, tables: Tables, place: Path) -> Chunks:
        """The trainer of the tables; GloVe's counts are written to files of `place`."""
        settings, seed, train, cores = self.options, self.devices.seed, text.train, self.cores
        device = self.backend.device
        softmax = settings.loss == "softmax"
        alone = self.devices.deterministic or softmax or device.type != "cpu"
        # threads that share a sum over the pairs of a full softmax round it differently from a single one
        torch.set_num_threads(1 if not alone or (self.devices.deterministic and softmax) else cores)
        workers = 1 if alone else cores
        if settings.model == "glove":
            return glove.trainer(settings, train, text.valid, tables, place, seed, workers, cores)
        plan = Plan(len(train.ids), settings.epochs, settings.rate, seed, tokens=building.STEP[settings.model])
        model = building.model(settings, train, tables, self.backend)
        return Trainer(model, train.ids, len(train.words), plan, min(workers, plan.chunks), device)

    def save(self, outcome: _Trained, record: Record) -> None:
        """Write the record and, if training is finished, the vectors; then remove FILE.run."""
        assert self.directory is not None
        artifacts.write_json(self.directory / run_directory.RECORD, record)
        if outcome.vectors is not None:
            self._write(outcome.vectors)
            if self.kind != "bundle":
                finished_files.remember(Path(self.run.output), self.directory)
            self._clear(self.directory)

    def _write(self, vectors: Vectors) -> None:
        if self.options.subwords is not None and not FORMATS[self.kind].ngrams:
            messages.note("n-grams are left out: unknown words will have no vectors (--to fasttext keeps them)")
        if self.directory == Path(self.run.output):
            bundle_format.write_files(self.directory, vectors, force=True)
        else:
            formats.save(vectors, self.run.output, self.kind, force=self.run.force)

    def report(self, outcome: _Trained) -> None:
        progress, unit, vectors = outcome.progress, outcome.unit, outcome.vectors
        speed = progress.done / max(1e-9, progress.seconds)
        messages.note(f"trained on {progress.done:,} {unit} in {progress.seconds:.1f} s, {speed:,.0f} {unit}/s")
        if self.run.output != "-" and vectors is not None:
            # in most texts this is a content word
            word = next((w for w in vectors.words[100:1000] if len(w) > 3), vectors.words[len(vectors) // 2])
            messages.note(f"try: echo {shlex.quote(word)} | nlptools neighbors {shlex.quote(display(self.run.output))}")


def _check(trainer: Chunks, tables: Tables, progress: ChunkProgress) -> None:
    """Warn of a loss above the loss of untrained vectors. Raises Diverged: the tables contain numbers that are not finite."""
    lr = trainer.plan.lr
    if progress.loss is None:
        if trainer.plan.total:
            messages.note("no pairs of words to train on: the vectors are the initial ones")
    elif progress.loss > 1.2 * trainer.untrained_loss:
        messages.warn(
            f"the loss, {progress.loss:.2f}, is above {trainer.untrained_loss:.2f}, the loss of untrained vectors: "
            f"try a lower --lr than {lr:g}"
        )
    if not all(bool(torch.isfinite(table).all()) for table in tables.values()):
        raise Diverged("the vectors are not finite", hint=f"use a lower --lr than {lr:g}")
