"""Training a language model from text to bundle: `train_lm`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nlptools import bundle, messages
from nlptools.batches.windows import ContiguousStreams, ShuffledWindows
from nlptools.compute.backend import Backend
from nlptools.configs import Compute, Training
from nlptools.configs.lm import TrainLM
from nlptools.corpora import token_file
from nlptools.corpora.token_file import Corpus, TextCounts
from nlptools.errors import BundleError, UsageError, display
from nlptools.files import artifacts, streams
from nlptools.inference import scoring
from nlptools.metrics.criterion import LOSS, Criterion
from nlptools.models import registry
from nlptools.models.contract import LanguageModel
from nlptools.models.huggingface import directories
from nlptools.text import tokenizer as tokenizers
from nlptools.text.tokenizer import Tokenizer
from nlptools.text.vocab import Vocab
from nlptools.training.engine.job import Spooled, Trained, run_job
from nlptools.training.engine.loop import Evaluate
from nlptools.training.objectives import CausalLM


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
        Diverged: see `training.engine.loop.fit`.
    """
    run.check()
    compute = compute or Compute()
    inputs = streams.check_inputs(inputs, run.held_out)
    tokenizer, eos = _tokenizer(settings)
    _config(settings, tokenizer, eos)
    task = _LanguageModel(settings, run, compute.seed, inputs, tokenizer, eos, encoding_errors)
    return run_job(task, run, compute, invocation)


@dataclass(frozen=True)
class _LanguageModel:
    """Next-token prediction, as `training.engine.job.Task`."""

    options: TrainLM
    run: Training
    seed: int
    inputs: Sequence[str]
    tokenizer: Tokenizer
    eos: int
    encoding_errors: str
    unit: str = "tokens"
    criterion: Criterion = LOSS
    measures: tuple[str, ...] = ("loss", "perplexity")

    def settings(self) -> dict[str, Any]:
        return asdict(self.options)

    def spool(self, directory: Path, backend: Backend, held_out: bool) -> Spooled[Corpus]:
        train = self._spool(self.inputs, directory / "train.bin", backend, self.run.force)
        valid = None
        if held_out and self.run.valid is not None:
            valid = self._spool([self.run.valid], directory / "valid.bin", backend)
        return Spooled(train, valid, self.inputs, self.run.held_out)

    def _spool(self, inputs: Sequence[str], path: Path, backend: Backend, force: bool | None = None) -> Corpus:
        blocks = streams.all_blocks(inputs, self.encoding_errors)
        return token_file.spool(blocks, path, self.tokenizer, self.eos, self.options.document, backend.threads, force)

    def open(self, paths: list[str | None]) -> Spooled[Corpus]:
        train, valid = (None if p is None else token_file.open_spooled(Path(p)) for p in paths)
        assert train is not None
        return Spooled(train, valid, self.inputs, self.run.held_out)

    def announce(self, data: Spooled[Corpus], seconds: float) -> None:
        def described(counts: TextCounts) -> str:
            unknown = f", {counts.unknown:,} unknown" if counts.unknown else ""
            tokens, documents = messages.counted(counts.tokens, "token"), messages.counted(counts.documents, "document")
            return f"{tokens} in {documents}{unknown}"

        held_out = f"; validation: {described(data.valid.counts)}" if data.valid else ""
        messages.note(f"text: {described(data.train.counts)}{held_out} ({seconds:.1f} s)")

    def model(self) -> Any:
        """A new model, or the one of --init."""
        config = _config(self.options, self.tokenizer, self.eos)
        model = registry.model_class(self.options.arch)(config)
        torch.manual_seed(self.seed)
        model.initialize()
        if self.options.init is not None:
            model.load_state_dict(bundle.load(self.options.init).weights())
        return model

    def objective(self, model: LanguageModel) -> CausalLM:
        return CausalLM(model)

    def source(self, data: Spooled[Corpus], model: Any, backend: Backend) -> Any:
        kind = ContiguousStreams if registry.model_class(self.options.arch).streams else ShuffledWindows
        where = {"rank": backend.rank, "world_size": backend.world_size}
        return kind(data.train, self.options.context, self.run.batch_size, seed=self.seed, **where)

    def evaluate(self, data: Spooled[Corpus], backend: Backend) -> Evaluate | None:
        """Measures the validation text as `score --per total` does."""
        valid = data.valid
        if valid is None:
            return None

        def evaluate(model: LanguageModel, stop: Any) -> dict[str, float] | None:
            scored = scoring.score_stream(
                model,
                [(np.asarray(valid.ids[1:], np.int64), valid.counts)],
                backend,
                eos=self.eos,
                stop=stop if backend.world_size == 1 else None,
            )
            return None if scored is None else scoring.perplexities(*scored)

        return evaluate

    def save(
        self, directory: Path, model: LanguageModel, weights: Mapping[str, Any], record: Mapping[str, Any]
    ) -> None:
        options = self.options
        bundle.save(
            directory,
            options.arch,
            model,
            weights,
            self.tokenizer,
            eos=self.eos,
            document=options.document,
            training=record,
        )

    def advice(self, name: str) -> str:
        return f"echo 'Some words' | nlptools generate {name}    or: nlptools score {name} FILE"


def _config(options: TrainLM, tokenizer: Tokenizer, eos: int) -> Any:
    """The sizes of the model. Raises UsageError, BundleError when they, or --init, do not fit the other options."""
    assert tokenizer.vocab is not None
    vocab_size = max(len(tokenizer.vocab), eos + 1)
    if options.init is None:
        if options.arch not in registry.names(registry.LANGUAGE):
            known = ", ".join(registry.names(registry.LANGUAGE))
            raise UsageError(f"--arch {options.arch} is not a language model, expected one of {known}")
        return registry.config_class(options.arch).from_options(options, vocab_size)
    bundle.check_directory(Path(options.init))
    arch, config = directories.config_from_hf(artifacts.read_json(Path(options.init) / "config.json"))
    if registry.find(arch).family == registry.ENCODER_DECODER:
        raise UsageError(f"--init {options.init} is an encoder-decoder", hint="train-seq2seq goes on with those")
    if arch != options.arch:
        raise UsageError(f"--init {options.init} is a {arch}, --arch says {options.arch}")
    if config.vocab_size != vocab_size:
        raise BundleError(f"{options.init}: has {config.vocab_size} tokens, the tokenizer {vocab_size}")
    dropouts: dict[str, Any] = {f: options.dropout for f in vars(config) if f.endswith("dropout")}
    return replace(config, **dropouts)


def _tokenizer(settings: TrainLM) -> tuple[Tokenizer, int]:
    """The tokenizer and its end-of-text token. Raises BundleError when it has no ids or no such token.

    For bytes, the end of text is an id after the last byte. Characters of documents of several lines include the line end.
    """
    vocab = None if settings.vocab is None else Vocab.load(settings.vocab)
    if vocab is not None and settings.tokenizer == "char" and settings.document != "line" and "\n" not in vocab.ids:
        vocab = Vocab([*vocab.tokens, "\n"], [*vocab.counts, 0])
    tokenizer = tokenizers.load(settings.tokenizer, vocab)
    if tokenizer.vocab is None:
        raise UsageError(
            f"--tokenizer {settings.tokenizer} has no vocabulary",
            hint="give one with --vocab; build-vocab makes it",
        )
    if tokenizer.kind == "bytes":
        return tokenizer, len(tokenizer.vocab)
    eos = tokenizer.vocab.eos if tokenizer.vocab.eos is not None else tokenizer.vocab.sep
    if eos is None:
        raise BundleError(
            f"{display(settings.tokenizer)}: no end-of-text token (</s>, <|endoftext|> or [SEP]) in the vocabulary",
            hint="build-vocab --special '</s>' puts one there",
        )
    return tokenizer, eos
