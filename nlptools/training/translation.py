"""Training an encoder-decoder from sentence pairs to bundle: `train_seq2seq`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from torch import Tensor

from nlptools import bundle, messages
from nlptools.batches.pairs import PairBatches
from nlptools.batches.source import Share
from nlptools.compute.backend import Backend
from nlptools.configs import Compute
from nlptools.configs.generation import Generate
from nlptools.configs.seq2seq import PairTraining, SourceImages, TrainSeq2Seq
from nlptools.corpora import parallel
from nlptools.corpora import sentence_pairs as pairs
from nlptools.corpora.parallel import ParallelCorpus, ParallelCounts
from nlptools.corpora.segmentations import Sampling, Sentences
from nlptools.errors import BundleError, UsageError
from nlptools.files import artifacts, hub_cache, streams
from nlptools.files.images import COLOR, PatchGrid
from nlptools.inference.generation import decoding, forced
from nlptools.inference.perplexity import perplexity
from nlptools.metrics.criterion import LOSS, Criterion
from nlptools.metrics.translation.bleu import Bleu
from nlptools.models import registry
from nlptools.models.contract import EncoderDecoder
from nlptools.models.translation.vocabularies import Vocabularies
from nlptools.text import pair_format, pixels, tokenizer_pairs
from nlptools.text.pair_format import PairFormat, PairMarks
from nlptools.text.pixels import Pixels
from nlptools.text.tokenizer import Tokenizer
from nlptools.training import advice, initial
from nlptools.training.engine.job import Trained, run_job
from nlptools.training.engine.loop import Evaluate
from nlptools.training.engine.spooled import Spooled, SpooledTask
from nlptools.training.objectives import Seq2Seq

BLEU = Criterion("bleu", higher_is_better=True)
_TEXTS = "valid.tsv"  # the held-out pairs as text, next to their tokens


def train_seq2seq(
    inputs: Sequence[str],
    settings: TrainSeq2Seq,
    run: PairTraining,
    compute: Compute | None = None,
    *,
    encoding_errors: str = "strict",
    invocation: Mapping[str, object] | None = None,
) -> Trained:
    """Train an encoder-decoder on lines of `source TAB target` (files; none or `-`: standard input) into `run.output`.

    With `settings.source` and `settings.target` the pairs come from those two files instead. The same call continues a
    stopped run. `invocation` goes into the training record. Raises as `engine.job.run_job`.
    """
    if type(settings) is TrainSeq2Seq:
        settings = registry.options_class(settings.architecture, TrainSeq2Seq)(**settings.shared)
    settings.check()
    run.check()
    compute = compute or Compute()
    inputs = streams.check_inputs(_train_names(inputs, settings), run.held_out)
    source, target = _tokenizers(settings)
    config = _config(settings, source, target)
    form = _format(settings, source, config)
    form.marks(settings.source_lang, settings.target_lang)  # raises for a language that the model does not know
    task = _EncoderDecoder(settings, run, compute.seed, inputs, source, target, config, form, encoding_errors)
    return run_job(task, run, compute, invocation)


@dataclass(frozen=True)
class _EncoderDecoder(SpooledTask[ParallelCorpus]):
    """Target tokens given the source, as `training.engine.job.TrainingRun`."""

    options: TrainSeq2Seq
    run: PairTraining
    seed: int
    inputs: Sequence[str]
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    config: Vocabularies  # the sizes of the model
    format: PairFormat
    encoding_errors: str
    unit: str = "target tokens"

    @property
    def criterion(self) -> Criterion:
        return BLEU if self.run.measures_bleu else LOSS

    @property
    def measures(self) -> tuple[str, ...]:
        return ("loss", "perplexity", "bleu") if self.run.measures_bleu else ("loss", "perplexity")

    def encode(self, path: Path, backend: Backend, held_out: bool) -> ParallelCorpus:
        options = self.options
        how: dict[str, Any]
        if held_out:
            blocks = pairs.kept(self._read(self.run.held_out, self.run.valid is None), path.parent / _TEXTS)
            longest = self.longest(0)
            how = {"max_source_length": longest, "max_target_length": longest, "what": "validation data"}
        else:
            blocks = self._read(self.inputs, options.source is not None)
            how = {
                "max_source_length": self.longest(options.max_source_length),
                "max_target_length": self.longest(options.max_target_length),
                "long": options.long,
                "force": self.run.force,
                "sampling": Sampling(options.sample, options.sample, self.seed) if options.sample else None,
            }
        tokenizers = self.source_tokenizer, self.target_tokenizer
        return parallel.spool(blocks, path, *tokenizers, threads=backend.threads, **how)

    def _read(self, names: Sequence[str], side_by_side: bool) -> Iterator[pairs.PairBlock]:
        if side_by_side:
            blocks = pairs.read_parallel(names[0], names[1], self.encoding_errors)
        else:
            blocks = pairs.read_pairs(names, self.encoding_errors, self.options.text_column, self.options.delimiter)
        length = self.config.source_length
        return blocks if length is None else pairs.in_parts(blocks, pixels.at_a_time(length))

    def longest(self, option: int) -> int:
        """Maximum tokens of a side: the option, and the limit of a model with learned positions; 0: no limit."""
        most, marks = self.config.max_positions, self.marks
        return option if most is None else min(option or most, most - max(marks.of_source, len(marks.read)))

    @property
    def marks(self) -> PairMarks:
        """The tokens around sources and targets."""
        return self.format.marks(self.options.source_lang, self.options.target_lang)

    def reopen(self, path: Path) -> ParallelCorpus:
        return parallel.open_spooled(path)

    def describe(self, counts: ParallelCounts) -> str:
        source = counts.source_tokens // self.config.ids_per_position
        parts = [f"{messages.counted(counts.pairs, 'pair')}, {source:,} source"]
        parts[0] += f" and {counts.target_tokens:,} target tokens"
        unknown = counts.source_unknown + counts.target_unknown
        parts += [f"{unknown:,} unknown"] if unknown else []
        left_out = {"empty": counts.empty, "too long": counts.skipped}
        parts += [f"{number:,} left out ({why})" for why, number in left_out.items() if number]
        parts += [f"{counts.cut:,} cut"] if counts.cut else []
        return ", ".join(parts)

    def model(self) -> EncoderDecoder:
        model = initial.model(self.options.architecture, self.config, self.seed, self.options.init)
        return cast(EncoderDecoder, model)

    def objective(self, model: EncoderDecoder) -> Seq2Seq:
        return Seq2Seq(model, self.options.label_smoothing, self.options.r_drop)

    def source(self, data: Spooled[ParallelCorpus], model: EncoderDecoder, backend: Backend) -> PairBatches:
        run, world_size = self.run, backend.world_size
        if run.batch_tokens:
            tokens, share = Share.of(run.batch_tokens, run.global_batch, backend.rank, world_size)
            most = run.batch_size * world_size
        else:
            tokens = 0
            most, share = Share.of(run.batch_size, run.global_batch, backend.rank, world_size)
        return PairBatches(
            data.train,
            batch_tokens=tokens,
            batch_size=most,
            seed=self.seed,
            pad=self.config.pad,
            marks=self.marks,
            ids_per_position=self.config.ids_per_position,
            share=share,
        )

    def evaluate(self, data: Spooled[ParallelCorpus], backend: Backend) -> Evaluate[EncoderDecoder] | None:
        if data.valid is None:
            return None
        held_out = _HeldOut(self, data.valid, backend)
        return held_out.measure

    def save(
        self, directory: Path, model: EncoderDecoder, weights: Mapping[str, Tensor], record: Mapping[str, object]
    ) -> None:
        bundle.save_pair(
            directory,
            self.options.architecture,
            model,
            weights,
            self.source_tokenizer,
            self.target_tokenizer,
            training=record,
            form=self.format,
            languages=(self.options.source_lang, self.options.target_lang),
        )

    def advice(self, name: str) -> str:
        options, run = self.options, self.run
        return advice.of_translator(
            name, [run.valid, *self.inputs], [run.valid_source, options.source], options.text_column
        )


class _HeldOut:
    """Held-out pairs: their loss, and the BLEU of real translations of their sources. Ranks share the work."""

    def __init__(self, task: _EncoderDecoder, valid: ParallelCorpus, backend: Backend) -> None:
        self.task, self.backend = task, backend
        mine = range(backend.rank, len(valid), backend.world_size)
        self.pairs = [(_row(valid.source, i), _row(valid.target, i)) for i in mine]
        if task.run.measures_bleu:
            # BLEU compares texts: empty targets count, and so do characters that the tokenizer lacks
            blocks = pairs.read_pairs([str(valid.path.parent / _TEXTS)], "replace")
            texts = [pair for block in blocks for pair in zip(block.sources, block.targets, strict=True)]
            mine_too = texts[backend.rank :: backend.world_size]
            self.references = [target for _, target in mine_too]
            sources = task.source_tokenizer.encode_lines([source for source, _ in mine_too], backend.threads)
            most = task.longest(0) or None
            self.sources = [source[:most] for source in sources]

    def measure(self, model: EncoderDecoder, stop: Callable[[], bool]) -> dict[str, float] | None:
        """Loss (nats per target token, no smoothing), perplexity and BLEU."""
        single = self.backend.world_size == 1
        stop_here = stop if single else None
        scores = forced.pair_scores(model, self.pairs, self.backend, marks=self.task.marks, stop=stop_here)
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
        sources = [source for source in self.sources if source]
        vocab = self.task.target_tokenizer.vocab
        assert vocab is not None
        never = vocab.never_generated(self.task.config.eos, model.output.vocab_size)
        greedy = Generate(beam=0, temperature=0)
        continuations = decoding.translate(
            model, sources, greedy, self.backend, marks=self.task.marks, forbidden=never, stop=stop
        )
        if continuations is None:
            return None
        outputs = iter(continuations)
        texts = [self.task.target_tokenizer.decode(next(outputs)[0].ids) if source else "" for source in self.sources]
        metric = Bleu()
        statistics = metric.statistics(texts, [self.references])
        total = self.backend.sum([float(x) for x in statistics.sum(0)])
        return metric.score(np.array(total)).score


def _row(sentences: Sentences, i: int) -> np.ndarray:
    return np.asarray(sentences.ids[sentences.offsets[i] : sentences.offsets[i + 1]], np.int64)


def _train_names(inputs: Sequence[str], options: TrainSeq2Seq) -> Sequence[str]:
    """Files to train on. Raises UsageError for an input in addition to --source and --target."""
    if options.source is None or options.target is None:
        return inputs
    if inputs:
        raise UsageError("--source and --target cannot be combined with an INPUT")
    return [options.source, options.target]


def _tokenizers(settings: TrainSeq2Seq) -> tuple[Tokenizer, Tokenizer]:
    """The tokenizers of both sides. Raises UsageError, BundleError if one has no vocabulary or no end token."""
    if _has_own_tokenizer(settings):
        assert settings.init is not None
        return tokenizer_pairs.load_pair(hub_cache.locate(settings.init))
    source = target = initial.load_tokenizer("--tokenizer", settings.tokenizer, settings.vocab)
    if settings.images is not None:
        return _of_images(settings.images, target, settings.init)
    if settings.target_tokenizer is not None:
        target = initial.load_tokenizer("--target-tokenizer", settings.target_tokenizer)
    return tokenizer_pairs.pair(source, target)


def _of_images(images: SourceImages, target: Tokenizer, init: str | None) -> tuple[Tokenizer, Tokenizer]:
    """As `_tokenizers`, for sources that are images. Raises UsageError for another tokenizer than the one of `init`."""
    if init is not None:
        raise UsageError(f"--init {init}: a model of images keeps its tokenizer", hint=f"expected --tokenizer {init}")
    target, _ = tokenizer_pairs.pair(target)
    pad, eos, *_ = tokenizer_pairs.special_ids(target)
    return Pixels(PatchGrid(images.height, images.width, COLOR, images.patch), images.resize, pad, eos), target


def _has_own_tokenizer(settings: TrainSeq2Seq) -> bool:
    """Whether a model that training starts from keeps its tokenizer."""
    return settings.target_tokenizer is None and settings.tokenizer == settings.init


def _format(settings: TrainSeq2Seq, source: Tokenizer, config: Vocabularies) -> PairFormat:
    """The tokens around sources and targets."""
    if settings.init is None or not _has_own_tokenizer(settings):
        form = pair_format.plain(config.start_token, config.eos)
        return replace(form, path=settings.tokenizer)
    directory = hub_cache.locate(settings.init)
    data = artifacts.read_json(directory / "config.json")
    return pair_format.read(directory, data, source, config.start_token, config.eos)


def _config(settings: TrainSeq2Seq, source: Tokenizer, target: Tokenizer) -> Vocabularies:
    """The sizes of the model. Raises UsageError, BundleError if they, or --init, do not fit the other options."""
    pad, eos, source_size, target_size = tokenizer_pairs.special_ids(source, target)
    tokens = {"source_vocab_size": source_size, "target_vocab_size": target_size, "pad": pad, "eos": eos}
    arch = settings.architecture
    if settings.init is None:
        return cast(Vocabularies, registry.config_class(arch).from_options(settings, **tokens))
    config = cast(Vocabularies, initial.given_config(settings.init, arch, settings))
    if _has_own_tokenizer(settings):  # which may have fewer tokens than the model
        return config
    if any(vars(config)[name] != value for name, value in tokens.items()):
        raise BundleError(f"{settings.init}: its vocabulary differs from the vocabulary of the tokenizer")
    return config
