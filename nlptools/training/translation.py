"""Training an encoder-decoder from sentence pairs to bundle: `train_seq2seq`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nlptools import bundle, messages
from nlptools.batches.pairs import PairBatches
from nlptools.compute.backend import Backend
from nlptools.configs import Compute
from nlptools.configs.lm import Generate
from nlptools.configs.seq2seq import PairTraining, TrainSeq2Seq
from nlptools.corpora import parallel
from nlptools.corpora import sentence_pairs as pairs
from nlptools.corpora.parallel import ParallelCorpus, ParallelCounts
from nlptools.corpora.segmentations import Sampling
from nlptools.errors import BundleError, UsageError
from nlptools.files import artifacts, streams
from nlptools.inference.generation import decoding, forced
from nlptools.inference.scoring import perplexity
from nlptools.metrics.criterion import LOSS, Criterion
from nlptools.metrics.translation.bleu import Bleu
from nlptools.models import registry
from nlptools.models.contract import EncoderDecoder
from nlptools.models.huggingface import directories
from nlptools.models.translation.vocabularies import Vocabularies
from nlptools.text import tokenizer as tokenizers
from nlptools.text import tokenizer_pairs
from nlptools.text.tokenizer import Tokenizer
from nlptools.training.engine.job import Spooled, Trained, run_job
from nlptools.training.engine.loop import Evaluate
from nlptools.training.objectives import Seq2Seq

BLEU = Criterion("bleu", higher_is_better=True)
_TEXTS = "valid.tsv"  # the held-out pairs as they are, beside the tokens


def train_seq2seq(
    inputs: Sequence[str],
    settings: TrainSeq2Seq,
    run: PairTraining,
    compute: Compute | None = None,
    *,
    encoding_errors: str = "strict",
    invocation: Mapping[str, Any] | None = None,
) -> Trained:
    """Train an encoder-decoder on lines of `source TAB target` (files; none or `-`: standard input) into `run.output`.

    With `settings.source` and `settings.target` the pairs come from those two files instead. The same call continues a
    run that was stopped. `invocation` goes into the training record.

    Raises:
        UsageError, InputError, DataError, BundleError, Unavailable: before anything is computed.
        OutputError: the directory holds something else, or is locked.
        Stopped: by a signal or `run.max_time`, with everything saved.
        Diverged: see `training.engine.loop.fit`.
    """
    settings.check()
    run.check()
    compute = compute or Compute()
    text = _Texts(tuple(inputs), settings, run, encoding_errors)
    text.check()
    source, target = _tokenizers(settings)
    config = _config(settings, source, target)
    task = _EncoderDecoder(settings, run, compute.seed, text, source, target, config)
    return run_job(task, run, compute, invocation)


@dataclass(frozen=True)
class _Texts:
    """Where the pairs come from."""

    inputs: Sequence[str]
    options: TrainSeq2Seq
    run: PairTraining
    errors: str

    def check(self) -> None:
        """Raises InputError or UsageError when something cannot be opened."""
        streams.check_inputs(self.train_names, self.run.held_out)

    @property
    def train_names(self) -> list[str]:
        """Files to train on."""
        if self.options.source is None or self.options.target is None:
            return list(self.inputs) or ["-"]
        if self.inputs:
            raise UsageError("--source and --target do not go with an INPUT")
        return [self.options.source, self.options.target]

    def train(self) -> Iterator[pairs.PairBlock]:
        """The pairs to train on."""
        return self._read(self.train_names, self.options.source is not None)

    def valid(self) -> Iterator[pairs.PairBlock]:
        """The held-out pairs."""
        return self._read(self.run.held_out, self.run.valid is None)

    def _read(self, names: list[str], side_by_side: bool) -> Iterator[pairs.PairBlock]:
        if side_by_side:
            return pairs.read_parallel(names[0], names[1], self.errors)
        return pairs.read_pairs(names, self.errors)


@dataclass(frozen=True)
class _EncoderDecoder:
    """Target tokens given the source, as `training.engine.job.Task`."""

    options: TrainSeq2Seq
    run: PairTraining
    seed: int
    texts: _Texts
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    config: Vocabularies  # the sizes of the model
    unit: str = "target tokens"

    @property
    def criterion(self) -> Criterion:
        return BLEU if self.run.measures_bleu and self.run.best == "bleu" else LOSS

    @property
    def measures(self) -> tuple[str, ...]:
        return ("loss", "perplexity", "bleu") if self.run.measures_bleu else ("loss", "perplexity")

    def settings(self) -> dict[str, Any]:
        return asdict(self.options)

    def spool(self, directory: Path, backend: Backend, held_out: bool) -> Spooled[ParallelCorpus]:
        options = self.options
        sampling = Sampling(options.sample, options.sample, self.seed) if options.sample else None
        train = self._spool(
            self.texts.train(),
            directory / "train",
            backend,
            max_source_length=self._longest(options.max_source_length),
            max_target_length=self._longest(options.max_target_length),
            long=options.long,
            sampling=sampling,
            force=self.run.force,
        )
        valid = None
        if held_out and self.run.held_out:
            blocks = pairs.kept(self.texts.valid(), directory / _TEXTS)
            most = self._longest(0)
            more = {"max_source_length": most, "max_target_length": most, "what": "validation data"}
            valid = self._spool(blocks, directory / "valid", backend, **more)
        return Spooled(train, valid, self.texts.train_names, self.run.held_out)

    def _spool(self, blocks: Iterator[pairs.PairBlock], path: Path, backend: Backend, **more: Any) -> ParallelCorpus:
        return parallel.spool(
            blocks, path, self.source_tokenizer, self.target_tokenizer, threads=backend.threads, **more
        )

    def _longest(self, option: int) -> int:
        """Most tokens of a side: the option, and what a model with learned positions can read; 0: any."""
        most = self.config.max_positions
        return option if most is None else min(option or most, most - 1)

    def open(self, paths: list[str | None]) -> Spooled[ParallelCorpus]:
        train, valid = (None if p is None else parallel.open_spooled(Path(p)) for p in paths)
        assert train is not None
        return Spooled(train, valid, self.texts.train_names, self.run.held_out)

    def announce(self, data: Spooled[ParallelCorpus], seconds: float) -> None:
        valid = f"; validation: {_described(data.valid.counts)}" if data.valid else ""
        messages.note(f"text: {_described(data.train.counts)}{valid} ({seconds:.1f} s)")

    def model(self) -> Any:
        """A new model, or the one of --init."""
        model = registry.model_class(f"seq2seq-{self.options.arch}")(self.config)
        torch.manual_seed(self.seed)
        model.initialize()
        if self.options.init is not None:
            model.load_state_dict(bundle.load(self.options.init).weights())
        return model

    def objective(self, model: EncoderDecoder) -> Seq2Seq:
        return Seq2Seq(model, self.options.label_smoothing, self.options.r_drop)

    def source(self, data: Spooled[ParallelCorpus], model: Any, backend: Backend) -> PairBatches:
        return PairBatches(
            data.train,
            batch_tokens=self.run.batch_tokens,
            batch_size=self.run.batch_size,
            seed=self.seed,
            pad=self.config.pad,
            eos=self.config.eos,
            start=self.config.pad,
            rank=backend.rank,
            world_size=backend.world_size,
        )

    def evaluate(self, data: Spooled[ParallelCorpus], backend: Backend) -> Evaluate | None:
        if data.valid is None:
            return None
        held_out = _HeldOut(self, data.valid, backend)
        return held_out.measure

    def save(
        self, directory: Path, model: EncoderDecoder, weights: Mapping[str, Any], record: Mapping[str, Any]
    ) -> None:
        bundle.save_pair(
            directory,
            f"seq2seq-{self.options.arch}",
            model,
            weights,
            self.source_tokenizer,
            self.target_tokenizer,
            training=record,
        )

    def advice(self, name: str) -> str:
        return f"nlptools generate {name} < SOURCES > OUTPUT; nlptools bleu REFERENCES < OUTPUT"


class _HeldOut:
    """Held-out pairs: their loss, and the BLEU of real translations of their sources. Ranks share the work."""

    def __init__(self, task: _EncoderDecoder, valid: ParallelCorpus, backend: Backend) -> None:
        self.task, self.backend = task, backend
        mine = range(backend.rank, len(valid), backend.world_size)
        self.pairs = [(_row(valid.source, i), _row(valid.target, i)) for i in mine]
        self.eos = task.config.eos
        if task.run.measures_bleu:
            # BLEU compares texts: empty targets count, and so do characters that the tokenizer lacks
            blocks = pairs.read_pairs([str(valid.path.parent / _TEXTS)], "replace")
            texts = [pair for block in blocks for pair in zip(block.sources, block.targets, strict=True)]
            mine_too = texts[backend.rank :: backend.world_size]
            self.references = [target for _, target in mine_too]
            sources = task.source_tokenizer.encode_lines([source for source, _ in mine_too], backend.threads)
            most = task._longest(0) or None
            self.sources = [source[:most] for source in sources]

    def measure(self, model: EncoderDecoder, stop: Callable[[], bool]) -> dict[str, float] | None:
        """Loss (nats per target token, no smoothing), perplexity and BLEU."""
        single = self.backend.world_size == 1
        stop_here = stop if single else None
        scores = forced.pair_scores(model, self.pairs, self.backend, eos=self.eos, stop=stop_here)
        if scores is None:
            return None
        total, count = self.backend.sum(
            [float(sum(s.sum(dtype=np.float64) for s in scores)), float(sum(map(len, scores)))]
        )
        numbers = {"loss": -total / count, "perplexity": perplexity(-total / count)}
        if self.task.run.measures_bleu:
            bleu = self._bleu(model, stop_here)
            if bleu is None:
                return None
            numbers["bleu"] = bleu
        return numbers

    def _bleu(self, model: EncoderDecoder, stop: Callable[[], bool] | None) -> float | None:
        beam = self.task.run.valid_beam
        settings = Generate(beam=beam if beam > 1 else 0, temperature=0)
        sources = [source for source in self.sources if source]
        vocab = self.task.target_tokenizer.vocab
        assert vocab is not None
        never = vocab.never_generated(self.eos, model.output.vocab_size)
        continuations = decoding.translate(
            model, sources, settings, self.backend, eos=self.eos, forbidden=never, stop=stop
        )
        if continuations is None:
            return None
        outputs = iter(continuations)
        texts = [self.task.target_tokenizer.decode(next(outputs)[0].ids) if source else "" for source in self.sources]
        metric = Bleu()
        statistics = metric.statistics(texts, [self.references])
        total = self.backend.sum([float(x) for x in statistics.sum(0)])
        return metric.score(np.array(total)).score


def _row(sentences: Any, i: int) -> np.ndarray:
    return np.asarray(sentences.ids[sentences.offsets[i] : sentences.offsets[i + 1]], np.int64)


def _tokenizers(settings: TrainSeq2Seq) -> tuple[Tokenizer, Tokenizer]:
    """The tokenizers of both sides, of --init where that is the --tokenizer. Raises BundleError when one has no ids or no
    end token.
    """
    if settings.target_tokenizer is None and settings.tokenizer == settings.init:
        return tokenizer_pairs.load_pair(settings.init)
    source = _tokenizer("--tokenizer", settings.tokenizer, settings.vocab)
    target = source
    if settings.target_tokenizer is not None:
        target = _tokenizer("--target-tokenizer", settings.target_tokenizer, None)
    return tokenizer_pairs.pair(source, target)


def _tokenizer(option: str, name: str, vocab: str | None) -> Tokenizer:
    tokenizer = tokenizers.load(name, vocab=vocab)
    if tokenizer.vocab is None:
        hint = "give one with --vocab" if option == "--tokenizer" else "give a vocabulary, a model or a bundle"
        raise UsageError(f"{option} {name} has no vocabulary", hint=f"{hint}; build-vocab makes one")
    return tokenizer


def _config(settings: TrainSeq2Seq, source: Tokenizer, target: Tokenizer) -> Any:
    """The sizes of the model. Raises UsageError, BundleError when --init does not go with the rest."""
    pad, eos, source_size, target_size = tokenizer_pairs.special_ids(source, target)
    if settings.init is not None:
        return _given_config(settings, (pad, eos, source_size, target_size))
    tokens = {"source_vocab_size": source_size, "target_vocab_size": target_size, "pad": pad, "eos": eos}
    return registry.config_class(f"seq2seq-{settings.arch}").from_options(settings, **tokens)


def _given_config(settings: TrainSeq2Seq, tokens: tuple[int, int, int, int]) -> Any:
    """The configuration of --init, with the dropouts of this run. Raises UsageError or BundleError when it is another."""
    bundle.check_directory(Path(str(settings.init)))
    arch, config = directories.config_from_hf(artifacts.read_json(Path(str(settings.init)) / "config.json"))
    if registry.find(arch).family != registry.ENCODER_DECODER:
        raise UsageError(f"--init {settings.init} is a language model", hint="train-lm goes on with those")
    if arch != f"seq2seq-{settings.arch}":
        raise UsageError(f"--init {settings.init} has --arch {arch.removeprefix('seq2seq-')}, not {settings.arch}")
    if (config.pad, config.eos, config.source_vocab_size, config.target_vocab_size) != tokens:
        raise BundleError(f"{settings.init}: its tokens are not those of the tokenizer")
    return replace(config, **{f: getattr(settings, f) for f in vars(config) if f.endswith("dropout")})


def _described(counts: ParallelCounts) -> str:
    """The number of pairs and tokens read, and of pairs left out or cut."""
    pairs = messages.counted(counts.pairs, "pair")
    parts = [f"{pairs}, {counts.source_tokens:,} source and {counts.target_tokens:,} target tokens"]
    unknown = counts.source_unknown + counts.target_unknown
    parts += [f"{unknown:,} unknown"] if unknown else []
    left_out = {"empty": counts.empty, "too long": counts.skipped}
    parts += [f"{number:,} left out ({why})" for why, number in left_out.items() if number]
    parts += [f"{counts.cut:,} cut"] if counts.cut else []
    return ", ".join(parts)
