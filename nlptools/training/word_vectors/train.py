"""Training word vectors from text to file: `train_vectors`."""

from __future__ import annotations

import contextlib
import shlex
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from nlptools import messages
from nlptools.compute.backend import Backend
from nlptools.configs import Compute, Devices, duration, interval
from nlptools.configs.vectors import FORMATS
from nlptools.configs.word_vectors import NAMES, TrainW2V, VectorRun
from nlptools.corpora import word_sequences as data
from nlptools.corpora.word_sequences import Sequences
from nlptools.environment import available_threads
from nlptools.errors import Diverged, Stopped, UsageError, display
from nlptools.files import artifacts, atomic, streams
from nlptools.text import unknown
from nlptools.text.builtin import NamedTokenizer
from nlptools.text.vocab import Vocab
from nlptools.training.engine import run_directory
from nlptools.training.engine.checkpoint import Checkpoints
from nlptools.training.engine.log import Log
from nlptools.training.engine.stop import Stop
from nlptools.training.word_vectors import building, glove
from nlptools.training.word_vectors.building import Tables
from nlptools.training.word_vectors.chunks import Chunks, Plan, Progress
from nlptools.training.word_vectors.trainer import Trainer
from nlptools.vectors.files import directory as bundle_format
from nlptools.vectors.files import formats
from nlptools.vectors.table import Vectors

_FREE = ("output", "format", "workers", "run", "max_time", "save_every", "resume", "force", "device")
_REPORT_SECONDS = 1.0


def train_vectors(
    inputs: Sequence[str],
    settings: TrainW2V,
    run: VectorRun | None = None,
    devices: Devices | None = None,
    *,
    encoding_errors: str = "strict",
    invocation: Mapping[str, Any] | None = None,
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
    inputs = streams.check_inputs(inputs, [] if run.valid is None else [run.valid])
    directory = _run_directory(run, kind) if write else None
    if directory is None and run.max_time is not None:
        raise UsageError("--max-time needs a place to save to", hint="give -o PATH or --run DIR")
    if write and directory != Path(run.output):
        formats.check_target(run.output, kind, run.force)
    # only the full softmax multiplies large matrices; everything else is float32
    softmax = settings.loss == "softmax"
    backend = Backend.detect(Compute(**asdict(devices), precision="auto" if softmax else "fp32"))
    backend = backend if softmax else replace(backend, precision_by="model")
    start = None if settings.init is None else formats.load(settings.init, errors=encoding_errors)
    job = _Job(settings, run, kind, devices, encoding_errors, inputs, backend, start)
    if directory is not None:
        return job.run_in(directory, invocation or {})
    if write:
        messages.note("a stopped run with standard output cannot be continued: -o FILE or --run DIR keeps its state")
    with atomic.scratch_directory("nlptools-w2v-") as scratch:
        (scratch / "data").mkdir()
        trained = job.train(job.read(scratch / "data"), scratch, None)
    if trained.stopped is not None:
        signal.raise_signal(signal.Signals[trained.stopped])
        raise Stopped("stopped", hint="-o FILE or --run DIR keeps the state of the run")
    vectors = job.vectors(trained)
    if write:
        job.save(vectors, trained, None)
    return vectors


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
    """The ids of a text, and of a held-out text. Implements `run_directory.Data`."""

    train: Sequences
    valid: Sequences | None
    inputs: Sequence[str]

    def digests(self) -> dict[str, str | None]:
        return {"train": self.train.digest, "valid": None if self.valid is None else self.valid.digest}

    def record(self) -> dict[str, Any]:
        return {"inputs": list(self.inputs), "words": self.train.tokens, "left_out": self.train.left_out}


@dataclass(frozen=True)
class _Trained:
    """Tables, and the progress of their training."""

    text: Sequences
    tables: Tables
    progress: Progress
    unit: str
    stopped: str | None  # the reason, if training stopped early

    @property
    def metrics(self) -> dict[str, Any]:
        return {self.unit if name == "done" else name: value for name, value in asdict(self.progress).items()}


@dataclass(frozen=True)
class _Job:
    """A training run from text to vectors; its directory has the lifecycle of `run_directory`."""

    settings: TrainW2V
    run: VectorRun
    kind: str  # the format of the output
    devices: Devices
    encoding_errors: str
    inputs: Sequence[str]
    backend: Backend
    start: Vectors | None  # the vectors of --init

    @property
    def cores(self) -> int:
        return self.run.workers or available_threads()

    @property
    def is_beside(self) -> bool:
        """Whether the run directory is FILE.run, which is removed when FILE is written."""
        return self.run.run is None and self.kind != "bundle"

    def run_in(self, directory: Path, invocation: Mapping[str, Any]) -> Vectors:
        """Train in a run directory and write the vectors. Raises as `train_in` and `vectors.files.formats.save` do."""
        with run_directory.locked(directory):
            if self.is_beside:
                messages.note(f"{display(str(directory))} keeps the state: the same command continues a stopped run")
            try:
                trained = self.train_in(directory, invocation)
                vectors = self.vectors(trained)
                self.save(vectors, trained, directory)
            except Diverged:
                self._clear(directory)
                raise
            self._clear(directory)
        if self.is_beside:
            with contextlib.suppress(OSError):
                directory.rmdir()
        return vectors

    def _clear(self, directory: Path) -> None:
        if self.is_beside:
            run_directory.clear(directory)

    def train_in(self, directory: Path, invocation: Mapping[str, Any]) -> _Trained:
        """Train in a run directory, or continue the run that was stopped there.

        Raises:
            OutputError: the directory holds something else.
            Stopped: by a signal or `run.max_time`, with everything saved.
        """
        run, settings, devices = self.run, asdict(self.settings), asdict(self.devices)
        chosen = {**settings, **asdict(run), **devices}
        marks = run_directory.fingerprint({key: value for key, value in chosen.items() if key not in _FREE})
        force = run.force and run.resume != "must"
        text, before = run_directory.begin(directory, run.resume, force, marks, self.read)
        job = self._continuing((before or {}).get("backend", {}))
        record = run_directory.record(
            before,
            text,
            marks,
            invocation=dict(invocation),
            settings={**chosen, "lr": self.settings.rate},
            seed=self.devices.seed,
            backend=job.backend.describe(),
        )
        artifacts.write_json(directory / run_directory.RECORD, record)
        trained = job.train(text, directory, Checkpoints(directory, 2))
        record.update(status="finished" if trained.stopped is None else "stopped", metrics=trained.metrics)
        artifacts.write_json(directory / run_directory.RECORD, record)
        if trained.stopped is not None:
            error = run_directory.stopped(directory, trained.stopped, trained.progress.chunk, force)
            if force:  # without it, an existing output would be refused
                error.hint = "the same command with --resume must continues"
            raise error
        return trained

    def _continuing(self, before: Mapping[str, Any]) -> _Job:
        """This run in the precision that its record, `before`, names."""
        return replace(self, backend=self.backend.continuing(before)) if self.settings.loss == "softmax" else self

    def read(self, place: Path) -> _Text:
        """Encode the texts into files of `place`."""
        began = time.monotonic()
        settings = self.settings
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

    def train(self, text: _Text, place: Path, checkpoints: Checkpoints | None) -> _Trained:
        """Train new tables, or the tables of the last checkpoint; without `checkpoints` nothing is saved."""
        tables = building.tables(self.settings, text.train, self.start, self.devices.seed, self.backend.device)
        trainer, progress = self._trainer(text, tables, place / "data"), Progress()
        plan = trainer.plan
        if checkpoints is not None:
            checkpoints.clean()
            last = checkpoints.load_last()
            if last is not None:
                for name, table in last[0].items():
                    tables[name].copy_(table)
                progress = Progress(**last[2])
        log = Log(None if checkpoints is None else place, plan.total, unit=trainer.unit, show=True)
        log.begin(progress.chunk)
        try:
            with Stop(None if self.run.max_time is None else duration(self.run.max_time)) as stop:
                _Epochs(trainer, tables, progress, stop, log, checkpoints, self.run, not self.is_beside).go(text.valid)
        finally:
            log.close()
        reason = stop.reason if progress.chunk < plan.total else None
        if reason is None:
            _check(trainer, tables, progress)
        return _Trained(text.train, tables, progress, trainer.unit, reason)

    def vectors(self, trained: _Trained) -> Vectors:
        """The trained vectors."""
        return building.vectors(self.settings, trained.text, trained.tables, self.run.output)

    def _trainer(self, text: _Text, tables: Tables, place: Path) -> Chunks:
        """The trainer of the tables; GloVe's counts are written to files of `place`."""
        settings, seed, train, cores = self.settings, self.devices.seed, text.train, self.cores
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

    def save(self, vectors: Vectors, trained: _Trained, directory: Path | None) -> None:
        """Write the vectors, and report the speed and a command to try; `directory` is the run directory, if any."""
        progress, unit, run, kind = trained.progress, trained.unit, self.run, self.kind
        if self.settings.subwords is not None and not FORMATS[kind].ngrams:
            messages.note("n-grams are left out: unknown words will have no vectors (--to fasttext keeps them)")
        if directory == Path(run.output):
            bundle_format.write_files(directory, vectors, force=True)
        else:
            formats.save(vectors, run.output, kind, force=run.force)
        speed = progress.done / max(1e-9, progress.seconds)
        messages.note(f"trained on {progress.done:,} {unit} in {progress.seconds:.1f} s, {speed:,.0f} {unit}/s")
        if run.output != "-":
            # in most texts this is a content word
            word = next((w for w in vectors.words[100:1000] if len(w) > 3), vectors.words[len(vectors) // 2])
            messages.note(f"try: echo {shlex.quote(word)} | nlptools neighbors {shlex.quote(display(run.output))}")


def _check(trainer: Chunks, tables: Tables, progress: Progress) -> None:
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


@dataclass
class _Epochs:
    """The loop over all epochs, with reports, validations and checkpoints in between."""

    trainer: Chunks
    tables: Tables
    progress: Progress
    stop: Stop
    log: Log
    checkpoints: Checkpoints | None
    run: VectorRun
    keep: bool  # whether to save a checkpoint at the end

    def go(self, valid: Sequences | None) -> None:
        """Train until all epochs are done or a stop is requested; report, validate and save meanwhile."""
        plan, progress = self.trainer.plan, self.progress
        saves = interval(self.run.save_every)
        self._saved = self._reported = time.monotonic()
        while progress.chunk < plan.total:
            end = (progress.chunk // plan.chunks + 1) * plan.chunks
            self._due = saves.seconds
            self.trainer.run(progress, end, self._look)
            finished = progress.chunk >= end
            self._report(always=finished or self.stop.requested)
            if finished and valid is not None:
                loss = self.trainer.held_out(valid.ids)
                if loss is None:
                    messages.warn(
                        "no pairs of words in the held-out text", kind="no pairs in the held-out text", most=1
                    )
                else:
                    self.log.valid({"step": progress.chunk, "epoch": progress.chunk / plan.chunks, "loss": loss})
            epoch = finished and saves.epochs is not None
            last = progress.chunk == plan.total
            if self.stop.requested or self._is_due() or (self.keep if last else epoch):
                self._save()
            if self.stop.requested:
                break

    def _look(self, progress: Progress) -> bool:
        """Report; returns whether to interrupt training for a checkpoint or a stop."""
        self._report()
        return self.stop.requested or self._is_due()

    def _is_due(self) -> bool:
        return self.checkpoints is not None and self._due is not None and time.monotonic() - self._saved >= self._due

    def _report(self, always: bool = False) -> None:
        now, progress, plan = time.monotonic(), self.progress, self.trainer.plan
        if not always and now - self._reported < _REPORT_SECONDS:
            return
        self._reported = now
        chunk = min(plan.total, int(progress.done / max(1, self.trainer.size) * plan.chunks))
        unit = self.trainer.unit
        loss = {} if progress.loss is None else {"loss": progress.loss}
        self.log.train(
            {
                "step": chunk,
                **loss,
                "lr": self.trainer.rate(chunk / plan.total),
                unit: progress.done,
                f"{unit}_per_second": progress.done / max(1e-9, progress.seconds),
            }
        )

    def _save(self) -> None:
        if self.checkpoints is not None:
            self.checkpoints.save(self.progress.chunk, dict(self.tables), {}, asdict(self.progress))
            self._saved = time.monotonic()
