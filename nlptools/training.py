"""Training a language model from text to bundle: `train_lm`."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nlptools import bundle, messages, scoring, streams
from nlptools.backend import Backend
from nlptools.configs import Compute, Training
from nlptools.configs.lm import TrainLM
from nlptools.data import corpus
from nlptools.data.corpus import Corpus, Counts
from nlptools.data.windows import ContiguousStreams, ShuffledWindows
from nlptools.errors import BundleError, OutputError, Stopped, UsageError, display
from nlptools.models import hf, registry
from nlptools.objectives import CausalLM
from nlptools.text import tokenizer as tokenizers
from nlptools.text.tokenizer import Tokenizer
from nlptools.train import rundir
from nlptools.train.checkpoint import Checkpoints
from nlptools.train.log import Log
from nlptools.train.loop import Fit, Result, fit

# Settings that do not make it another run: how long, how often, how fast.
_FREE = (
    *("steps", "epochs", "max_time", "save_every", "valid_every", "log_every", "keep", "patience"),
    *("resume", "force", "track", "dry_run", "output", "threads", "compile", "device"),
)


@dataclass(frozen=True)
class Trained:
    """What a run left behind."""

    directory: Path
    steps: int
    metrics: dict[str, float]


def train_lm(
    inputs: Sequence[str],
    settings: TrainLM,
    run: Training,
    compute: Compute | None = None,
    *,
    encoding_errors: str = "strict",
    invocation: Mapping[str, Any] | None = None,
) -> Trained:
    """Train a language model on the text of `inputs` (files; none or `-`: standard input) into `run.output`.

    The same call continues a run that was stopped. `invocation` goes into the training record.

    Raises:
        UsageError, InputError, DataError, BundleError, Unavailable: before anything is computed.
        OutputError: the directory holds something else, or is locked.
        Stopped: by a signal or `run.max_time`, with everything saved.
        Diverged: see `train.loop.fit`.
    """
    settings.check()
    compute = compute or Compute()
    inputs = streams.check_inputs(inputs)
    if run.valid is not None:
        streams.check_inputs([run.valid])
    tokenizer, eos = _tokenizer(settings)
    backend = Backend.detect(compute)
    job = _Job(Path(run.output), settings, run, compute, tokenizer, eos, backend, encoding_errors, invocation or {})
    try:
        if run.dry_run:
            return job.dry_run(inputs)
        if not backend.is_main:
            return job.follow()
        with rundir.locked(job.directory):
            return job.lead(inputs)
    finally:
        backend.close()


@dataclass
class _Job:
    """A training run on its way from text to bundle."""

    directory: Path
    settings: TrainLM
    run: Training
    compute: Compute
    tokenizer: Tokenizer
    eos: int
    backend: Backend
    encoding_errors: str
    invocation: Mapping[str, Any]

    def lead(self, inputs: Sequence[str]) -> Trained:
        """The main process: spools the text, keeps the record, saves the bundle."""
        marks = self._fingerprint()
        before = rundir.previous(self.directory, self.run.resume, self.run.force, marks)
        data = self.directory / "data"
        data.mkdir(exist_ok=True)
        for left in data.glob(".*"):  # what a killed run left half-written
            left.unlink()
        began = time.monotonic()
        train = self._spool(inputs, data / "train.bin")
        valid = None if self.run.valid is None else self._spool([self.run.valid], data / "valid.bin")
        _announce(train, valid, time.monotonic() - began)
        sums = {"train": train.digest, "valid": None if valid is None else valid.digest}
        if before is not None and before.get("data_sha256") != sums:
            raise OutputError(f"{display(self.run.output)}: holds a run on other text", hint="--force replaces it")
        record = self._record(inputs, train, valid, sums, marks, before)
        bundle.write_json(self.directory / rundir.RECORD, record)
        self.backend.broadcast([str(data / "train.bin"), str(data / "valid.bin") if valid else None])
        return self._train(train, valid, record)

    def follow(self) -> Trained:
        """The other processes: open what the main one spooled, and train along."""
        paths = self.backend.broadcast(None)
        train, valid = (None if p is None else corpus.open_spooled(Path(p)) for p in paths)
        assert train is not None
        return self._train(train, valid, {})

    def dry_run(self, inputs: Sequence[str]) -> Trained:
        """Build everything, take two steps, report; write nothing that stays."""
        import tempfile

        with tempfile.TemporaryDirectory(prefix="nlptools-dry-") as scratch:
            train = self._spool(inputs, Path(scratch) / "train.bin")
            _announce(train, None, 0.0)
            model = self._model()
            state = Fit(CausalLM(model), self._source(train), self.backend, self.run, None)
            state.objective.train()
            state.working.train()
            state.step()
            begin = time.perf_counter()
            row = state.step()
            seconds = time.perf_counter() - begin
            messages.note(
                f"dry run: {_num_weights(model):,} weights, {state.total} steps of {row['targets']:.0f} tokens,"
                f" {row['targets'] / seconds:,.0f} tokens/s, about {_clock(seconds * state.total)} in all,"
                f" peak memory {self.backend.peak_memory() / 2**30:.1f} GiB on {self.backend.device}"
                f" ({self.backend.precision})"
            )
        return Trained(self.directory, 0, {"loss": row["loss"]})

    def _spool(self, inputs: Sequence[str], path: Path) -> Corpus:
        blocks = streams.all_blocks(inputs, self.encoding_errors)
        return corpus.spool(blocks, path, self.tokenizer, self.eos, self.settings.document, self.backend.threads)

    def _train(self, train: Corpus, valid: Corpus | None, record: dict[str, Any]) -> Trained:
        model = self._model()
        main = self.backend.is_main
        checkpoints = Checkpoints(self.directory, self.run.keep)
        if main:
            checkpoints.clean()
        objective, source = CausalLM(model), self._source(train)
        total = self.run.steps or math.ceil(source.batches_per_epoch * self.run.epochs / self.run.accumulate)
        if main:
            messages.note(
                f"model: {_num_weights(model):,} weights on {self.backend.device} in {self.backend.precision},"
                f" {source.batches_per_epoch:,.0f} batches per epoch"
            )
        log = Log(self.directory if main else None, total, track=self.run.track)
        try:
            evaluate = None if valid is None else lambda m, stop: self._evaluate(m, valid, stop)
            result = fit(objective, source, self.backend, self.run, evaluate=evaluate, checkpoints=checkpoints, log=log)
        finally:
            log.close()
        return self._finish(model, checkpoints, result, record)

    def _finish(self, model: Any, checkpoints: Checkpoints, result: Result, record: dict[str, Any]) -> Trained:
        """Save the bundle: the weights of the best validation where there is one, else the last."""
        progress = result.progress
        metrics = {"steps": progress.step, "tokens": progress.tokens, "seconds": progress.seconds}
        if progress.best is not None:
            metrics.update({"valid_loss": progress.best, "valid_perplexity": math.exp(progress.best)})
        if not self.backend.is_main:
            if not result.finished:
                raise Stopped(f"stopped ({result.stopped})")
            return Trained(self.directory, progress.step, metrics)
        best = checkpoints.best()
        weights = model.state_dict() if best is None else checkpoints.load(best)[0]
        record.update(status="finished" if result.finished else "stopped", metrics=metrics)
        bundle.save(
            self.directory,
            self.settings.arch,
            model,
            weights,
            self.tokenizer,
            eos=self.eos,
            document=self.settings.document,
            training=record,
        )
        name = display(str(self.directory))
        if not result.finished:
            raise Stopped(
                f"stopped by {result.stopped} after step {progress.step}, everything is saved in {name}",
                hint="the same command continues",
            )
        said = f", validation perplexity {math.exp(progress.best):.2f}" if progress.best is not None else ""
        messages.note(f"{name}: {progress.step} steps in {_clock(progress.seconds)}{said}")
        messages.note(f"try: echo 'Some words' | nlptools generate {name}    or: nlptools score {name} FILE")
        return Trained(self.directory, progress.step, metrics)

    def _model(self) -> Any:
        """A new model, or the one of --init, on the device."""
        config = self._config()
        model = registry.model_class(self.settings.arch)(config)
        torch.manual_seed(self.compute.seed)  # the same weights in every process
        model.initialize()
        self.backend.seed(self.compute.seed)
        if self.settings.init is not None:
            loaded = bundle.load(self.settings.init)
            model.load_state_dict(loaded.weights())
        if self.backend.device.type == "cpu" and not model.runs_in_16_bits:
            self.backend = replace(self.backend, precision="fp32")
        return model.to(self.backend.device)

    def _config(self) -> Any:
        assert self.tokenizer.vocab is not None
        s, vocab_size = self.settings, max(len(self.tokenizer.vocab), self.eos + 1)
        if s.init is not None:
            arch, config = hf.config_from_hf(bundle.read_json(Path(s.init) / "config.json"))
            if arch != s.arch:
                raise UsageError(f"--init {s.init} is a {arch}, --arch says {s.arch}")
            if config.vocab_size != vocab_size:
                raise BundleError(f"{s.init}: has {config.vocab_size} tokens, the tokenizer {vocab_size}")
            dropouts: dict[str, Any] = {f: s.dropout for f in vars(config) if f.endswith("_dropout")}
            return replace(config, **dropouts)
        kind = registry.config_class(s.arch)
        if s.arch == "lstm":
            return kind(vocab_size, s.hidden, s.layers, hidden_dropout=s.dropout)
        return kind(
            vocab_size,
            s.hidden,
            s.layers,
            s.heads,
            s.context,
            embedding_dropout=s.dropout,
            hidden_dropout=s.dropout,
            attention_dropout=s.dropout,
        )

    def _source(self, train: Corpus) -> Any:
        kind = ContiguousStreams if registry.model_class(self.settings.arch).streams else ShuffledWindows
        where = {"rank": self.backend.rank, "world_size": self.backend.world_size}
        return kind(train, self.settings.context, self.run.batch_size, seed=self.compute.seed, **where)

    def _evaluate(self, model: Any, valid: Corpus, stop: Any) -> dict[str, float] | None:
        """The numbers that `score --per total` gives for the validation text."""
        single = self.backend.world_size == 1
        scored = scoring.score_stream(
            model,
            [(np.asarray(valid.ids[1:], np.int64), valid.counts)],
            self.backend,
            eos=self.eos,
            stop=stop if single else None,
        )
        return None if scored is None else scoring.perplexities(*scored)

    def _fingerprint(self) -> dict[str, Any]:
        both = {**asdict(self.settings), **asdict(self.run), **asdict(self.compute)}
        kept = {key: value for key, value in both.items() if key not in _FREE}
        return rundir.fingerprint(kept, processes=self.backend.world_size)

    def _record(
        self,
        inputs: Sequence[str],
        train: Corpus,
        valid: Corpus | None,
        sums: dict[str, str | None],
        marks: Mapping[str, Any],
        before: Mapping[str, Any] | None,
    ) -> dict[str, Any]:
        """training.json: enough to know, and to repeat, how the model was made."""
        parts = [*(before or {}).get("parts", []), time.strftime("%Y-%m-%dT%H:%M:%S%z")]
        return {
            **rundir.circumstances(),
            "status": "running",
            "invocation": dict(self.invocation),
            "settings": {**asdict(self.settings), **asdict(self.run), **asdict(self.compute)},
            "fingerprint": dict(marks),
            "data": {
                "train": {"inputs": list(inputs), "sha256": train.digest, **asdict(train.counts)},
                "valid": valid and {"inputs": [self.run.valid], "sha256": valid.digest, **asdict(valid.counts)},
            },
            "data_sha256": sums,
            "seed": self.compute.seed,
            "parts": parts,  # when each part of an interrupted run began
            "backend": self.backend.describe(),
            "metrics": {},
        }


def _tokenizer(settings: TrainLM) -> tuple[Tokenizer, int]:
    """The tokenizer and its end-of-text token. Raises BundleError when it has no ids or no such token."""
    tokenizer = tokenizers.load(settings.tokenizer, vocab=settings.vocab)
    if tokenizer.vocab is None:
        raise UsageError(
            f"--tokenizer {settings.tokenizer} has no vocabulary",
            hint="give one with --vocab; build-vocab makes it",
        )
    eos = tokenizer.vocab.eos if tokenizer.vocab.eos is not None else tokenizer.vocab.sep
    if eos is None:
        raise BundleError(
            f"{display(settings.tokenizer)}: no end-of-text token (</s>, <|endoftext|> or [SEP]) in the vocabulary",
            hint="build-vocab --special '</s>' puts one there",
        )
    return tokenizer, eos


def _announce(train: Corpus, valid: Corpus | None, seconds: float) -> None:
    def told(counts: Counts) -> str:
        unknown = f", {counts.unknown:,} unknown" if counts.unknown else ""
        return f"{counts.tokens:,} tokens in {counts.documents:,} documents{unknown}"

    held_out = f"; validation: {told(valid.counts)}" if valid is not None else ""
    messages.note(f"text: {told(train.counts)}{held_out} ({seconds:.1f} s)")


def _num_weights(model: Any) -> int:
    return sum(p.numel() for p in model.parameters())


def _clock(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"
