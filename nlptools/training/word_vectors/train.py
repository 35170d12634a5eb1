"""Training word vectors from text to file: `train_vectors`."""

from __future__ import annotations

import contextlib
import math
import shlex
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from nlptools import messages
from nlptools.compute.backend import Backend, available_threads
from nlptools.configs import Compute, Devices, duration, interval
from nlptools.configs.vectors import FORMATS
from nlptools.configs.word_vectors import NAMES, TrainW2V, VectorRun
from nlptools.corpora import word_sequences as data
from nlptools.corpora.word_sequences import Sequences
from nlptools.errors import Diverged, OutputError, Stopped, UsageError, display
from nlptools.files import artifacts, atomic, streams
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

    Without `run` nothing is written. The same call continues a run that was stopped, if it has a directory.

    Raises:
        UsageError, InputError, DataError, BundleError, Unavailable: before anything is computed.
        OutputError: the output exists, or the directory of the run holds something else.
        Stopped: by a signal or `run.max_time`, with everything saved.
        Diverged: the learning rate is too high.
    """
    write, run, devices = run is not None, run or VectorRun(), devices or Devices()
    kind = output_format(run)
    settings.check(kind)
    inputs = streams.check_inputs(inputs, [] if run.valid is None else [run.valid])
    directory = run.run or (run.output if kind == "bundle" and write else None)
    if directory is None and run.max_time is not None:
        raise UsageError("--max-time has nowhere to save to", hint="--run DIR, or -o DIR")
    if write and (directory is None or Path(directory) != Path(run.output)):
        formats.check_target(run.output, kind, run.force)
    job = _Job(settings, run, devices, encoding_errors, dict(invocation or {}))
    try:
        with _workplace(directory) as place:
            found = job.train(inputs, place, kept=directory is not None)
            if directory is not None and write:
                job.save(found, kind, place)
    except _Interrupted as error:
        signal.raise_signal(error.signal)
        raise Stopped("stopped", hint="--run DIR would have kept what was done") from None
    if directory is None and write:
        job.save(found, kind, None)
    return found


class _Interrupted(Exception):
    """A signal came, and there is nothing to go on from."""

    def __init__(self, signal: signal.Signals) -> None:
        super().__init__(signal.name)
        self.signal = signal


def output_format(run: VectorRun) -> str:
    """The format that is written, by our names. Raises UsageError."""
    if run.format is not None:
        return NAMES.get(run.format, run.format)
    return formats.format_of(run.output)


@contextlib.contextmanager
def _workplace(directory: str | None) -> Iterator[Path]:
    """The directory of the run, locked; or one that is removed afterwards."""
    if directory is None:
        with atomic.scratch_directory("nlptools-w2v-") as scratch:
            yield scratch
    else:
        with run_directory.locked(Path(directory)):
            yield Path(directory)


@dataclass(frozen=True)
class _Work:
    """What is trained, on what, and where."""

    text: Sequences
    valid: Sequences | None
    tables: Tables
    backend: Backend
    cores: int
    place: Path


@dataclass
class _Job:
    """A training run on its way from text to vectors."""

    settings: TrainW2V
    run: VectorRun
    devices: Devices
    encoding_errors: str
    invocation: dict[str, Any]

    def train(self, inputs: Sequence[str], place: Path, kept: bool) -> Vectors:
        """Train in the directory `place`; `kept` tells whether it outlives this."""
        run, settings = self.run, self.settings
        marks = run_directory.fingerprint(
            {k: v for k, v in {**asdict(settings), **asdict(run), **asdict(self.devices)}.items() if k not in _FREE}
        )
        before = run_directory.previous(place, run.resume, run.force, marks) if kept else None
        backend = Backend.detect(Compute(**asdict(self.devices)))
        cores = run.workers or available_threads()
        start = None if settings.init is None else formats.load(settings.init, errors=self.encoding_errors)
        text, valid = self._spool(inputs, place, start, cores)
        sums = {"train": text.digest, "valid": None if valid is None else valid.digest}
        if before is not None and before.get("data_sha256") != sums:
            raise OutputError(f"{display(str(place))}: holds a run on other text", hint="--force replaces it")
        self._record = {
            **run_directory.circumstances(),
            "invocation": self.invocation,
            "settings": {**asdict(settings), **asdict(run), **asdict(self.devices), "lr": settings.rate},
            "fingerprint": marks,
            "data": {"inputs": list(inputs), "words": text.tokens, "left_out": text.left_out},
            "data_sha256": sums,
            "seed": self.devices.seed,
            "backend": backend.describe(),
        }
        if kept:
            artifacts.write_json(place / run_directory.RECORD, {**self._record, "status": "running"})
        made = building.tables(settings, text, start, self.devices.seed, backend.device)
        self._fit(_Work(text, valid, made, backend, cores, place), Checkpoints(place, 2) if kept else None)
        return building.vectors(settings, text, made, run.output)

    def _spool(
        self, inputs: Sequence[str], place: Path, start: Vectors | None, cores: int
    ) -> tuple[Sequences, Sequences | None]:
        """The ids of the text, and of the held-out text."""
        (place / "data").mkdir(exist_ok=True)
        began = time.monotonic()
        settings = self.settings
        vocab = None if settings.vocab is None else Vocab.load(settings.vocab)
        text = data.spool(
            inputs,
            place / "data" / "train.bin",
            min_count=settings.min_count,
            vocab=vocab,
            more_words=() if start is None else start.words,
            workers=cores,
            errors=self.encoding_errors,
        )
        messages.note(
            f"text: {text.tokens:,} words, {len(text.words):,} different ones ({text.left_out:,} others left out; "
            f"{time.monotonic() - began:.1f} s)"
        )
        if self.run.valid is None:
            return text, None
        words = Vocab(text.words, text.counts.tolist(), special={})
        path = place / "data" / "valid.bin"
        return text, data.spool([self.run.valid], path, vocab=words, errors=self.encoding_errors)

    def _fit(self, work: _Work, checkpoints: Checkpoints | None) -> None:
        """Train the tables, epoch by epoch."""
        trainer, made = self._trainer(work), work.tables
        plan, progress = trainer.plan, Progress()
        if checkpoints is not None:
            checkpoints.clean()
            found = checkpoints.load_last()
            if found is not None:
                for name, table in found[0].items():
                    made[name].copy_(table)
                progress = Progress(**found[2])
        directory = None if checkpoints is None else work.place
        log = Log(directory, plan.total, unit=trainer.unit, show=True)
        log.begin(progress.chunk)
        try:
            with Stop(None if self.run.max_time is None else duration(self.run.max_time)) as stop:
                _Epochs(trainer, made, progress, stop, log, checkpoints, self.run).go(work.valid)
        finally:
            log.close()
        if stop.reason is not None and progress.chunk < plan.total:
            self._stop(stop.reason, directory)
        if progress.loss > 1.2 * trainer.unlearned:
            messages.warn(
                f"the loss, {progress.loss:.2f}, is above the {trainer.unlearned:.2f} of vectors that know nothing: "
                f"a lower --lr than {plan.lr:g}?"
            )
        if not all(bool(torch.isfinite(table).all()) for table in made.values()):
            raise Diverged("the vectors are not finite", hint=f"a lower --lr than {plan.lr:g}")
        self._progress, self._unit = progress, trainer.unit

    def _trainer(self, work: _Work) -> Chunks:
        """What trains the tables."""
        settings, seed, text, cores = self.settings, self.devices.seed, work.text, work.cores
        device = work.backend.device
        alone = self.devices.deterministic or settings.loss == "softmax" or device.type != "cpu"
        torch.set_num_threads(cores if alone else 1)
        workers = 1 if alone else cores
        if settings.model == "glove":
            data = work.place / "data"
            return glove.trainer(settings, text, work.valid, work.tables, data, seed, workers, cores)
        plan = Plan(len(text.ids), settings.epochs, settings.rate, seed, tokens=building.STEP[settings.model])
        model = building.model(settings, text, work.tables, work.backend)
        return Trainer(model, text.ids, len(text.words), plan, min(workers, plan.chunks), device)

    def _stop(self, reason: str, directory: Path | None) -> None:
        """End as the signal would have, or tell how to go on."""
        if directory is None:
            raise _Interrupted(signal.Signals[reason])
        raise Stopped(
            f"stopped by {reason}, everything is saved in {display(str(directory))}",
            hint="the same command continues" + (", without --force" if self.run.force else ""),
        )

    def save(self, found: Vectors, kind: str, place: Path | None) -> None:
        """Write the vectors, and say what was made and what may come next; `place` is the directory of the run."""
        progress, run, unit = self._progress, self.run, self._unit
        if self.settings.subwords is not None and not FORMATS[kind].ngrams:
            messages.note("n-grams are left out: unknown words will have no vectors (--format fasttext keeps them)")
        if place is not None and place == Path(run.output):
            bundle_format.write_files(place, found, force=True)
        else:
            formats.save(found, run.output, kind, force=run.force)
        if place is not None:
            metrics = {unit if name == "done" else name: value for name, value in asdict(progress).items()}
            artifacts.write_json(
                place / run_directory.RECORD, {**self._record, "status": "finished", "metrics": metrics}
            )
        speed = progress.done / max(1e-9, progress.seconds)
        messages.note(f"trained on {progress.done:,} {unit} in {progress.seconds:.1f} s, {speed:,.0f} {unit}/s")
        if run.output != "-":
            # one that means something, in most texts
            word = shlex.quote(next((w for w in found.words[100:1000] if len(w) > 3), found.words[len(found) // 2]))
            messages.note(f"try: echo {word} | nlptools neighbors {shlex.quote(display(run.output))}")


@dataclass
class _Epochs:
    """The way through all epochs, with what happens between them."""

    trainer: Chunks
    tables: Tables
    progress: Progress
    stop: Stop
    log: Log
    checkpoints: Checkpoints | None
    run: VectorRun

    def go(self, valid: Sequences | None) -> None:
        """Train until all is done or it is time to stop; report, measure and save on the way."""
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
                self.log.valid({"step": progress.chunk, "epoch": progress.chunk / plan.chunks, "loss": loss})
            epoch = finished and saves.epochs is not None
            if self.stop.requested or epoch or self._is_due() or progress.chunk == plan.total:
                self._save()
            if self.stop.requested:
                break

    def _look(self, progress: Progress) -> bool:
        """Report; tells whether this part of the training should end."""
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
        loss = {"loss": progress.loss} if math.isfinite(progress.loss) else {}  # nothing was left to learn from
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
