"""The task similarity of `finetune`: similar vectors for similar texts, by a model in a sentence-transformers directory."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from torch import Tensor

from nlptools import messages
from nlptools.batches.features import WEIGHT, Encoding, FeatureBatches, Features
from nlptools.batches.source import Share
from nlptools.compute.backend import Backend
from nlptools.configs import Compute
from nlptools.configs.finetuning import Finetune, FinetuneTraining
from nlptools.configs.tasks.files import Files
from nlptools.configs.tasks.similarity import dimensions
from nlptools.corpora.counts import Counts
from nlptools.errors import BundleError, DataError, UsageError, display
from nlptools.files import hub_cache, streams
from nlptools.formats.examples import TextGroup
from nlptools.formats.readers import read
from nlptools.inference.embedding import sentence_steps
from nlptools.inference.embedding.sentence_steps import SentenceSteps
from nlptools.inference.opening import Opened, open_model
from nlptools.json_types import JsonObject
from nlptools.metrics.criterion import Criterion
from nlptools.models.tasks.heads import EncoderWithHeads
from nlptools.tasks import task as tasks
from nlptools.text.unknown import UnknownTokens
from nlptools.training.engine.job import Trained, run_job
from nlptools.training.engine.loop import Evaluate
from nlptools.training.engine.spooled import Spooled
from nlptools.training.similarity import bases, evaluation
from nlptools.training.similarity.bases import SentenceBase
from nlptools.training.similarity.objective import ANCHOR, NEGATIVE, POSITIVE, SimilarityLoss, SimilaritySettings

_SCORE = "score"  # the target with the score of an example; in examples with scores alone
_SCORED, _RANKED = ("loss", "pearson", "spearman"), ("loss", "accuracy", "mrr")  # measures, the default criterion last


@dataclass(frozen=True)
class GroupCounts(Counts):
    """Counts of examples, of their texts and of tokens."""

    examples: int = 0
    texts: int = 0
    tokens: int = 0
    cut: int = 0  # examples that lost tokens


@dataclass(frozen=True, eq=False)
class SimilarityData:
    """Examples in files of `Features.save`; the rows of an example are its texts. Implements `spooled.SpooledPart`."""

    path: Path
    features: Features

    @property
    def counts(self) -> GroupCounts:
        features = self.features
        return GroupCounts(features.num_examples, len(features), len(features.rows.ids), features.cut)

    @property
    def digest(self) -> str:
        return self.features.digest

    @property
    def has_scores(self) -> bool:
        """Whether the examples are pairs with scores."""
        return _SCORE in self.features.targets


class RandomBatches(FeatureBatches):
    """Batches of random examples, since the other ones of a batch are the negatives of each; nearly equal in size."""

    def _make_plan(self, epoch: int) -> list[np.ndarray]:
        order = np.random.default_rng([self.seed, epoch]).permutation(self.features.num_examples)
        return np.array_split(order, self.steps)


@dataclass
class _Similarity:
    """The `TrainingRun` of the task. `train` and `valid`: once the data are read."""

    options: Finetune
    run: FinetuneTraining
    inputs: Sequence[str]
    seed: int
    opened: Opened
    base: SentenceBase
    files: Files
    encoding_errors: str
    train: SimilarityData | None = None

    unit = "examples"

    @cached_property
    def steps(self) -> SentenceSteps:
        """The steps of the directory that is written."""
        return _steps(self.opened, self.options)

    @property
    def measures(self) -> tuple[str, ...]:
        """See `TrainingRun`."""
        assert self.train is not None
        known, best = _SCORED if self.train.has_scores else _RANKED, self.options.best
        if best not in ("auto", *known):
            which = "with" if self.train.has_scores else "without"
            raise UsageError(f"--best {best}: examples {which} scores have the measures {', '.join(known)}")
        return known if best == "auto" else (*(name for name in known if name != best), best)

    @property
    def criterion(self) -> Criterion:
        """See `TrainingRun`."""
        name = self.measures[-1]
        return Criterion(name, higher_is_better=name != "loss")

    def settings(self) -> JsonObject:
        base = {} if (adapter := self.base.adapter) is None else {"base": adapter.digest}
        return {**asdict(self.options), **asdict(self.files), **base}

    def spool(self, directory: Path, backend: Backend, held_out: bool) -> Spooled[SimilarityData]:
        encoding = self.base.encoding(self.steps.max_length or 0, backend.threads)
        self.train = self._encoded(directory / "train", self.inputs, encoding, "train")
        valid = None
        if held_out and self.run.held_out:
            valid = self._encoded(directory / "valid", self.run.held_out, encoding, "evaluate")
            if valid.has_scores != self.train.has_scores:
                which = (
                    "no scores, the training data have"
                    if self.train.has_scores
                    else "scores, the training data have none"
                )
                raise DataError(f"the examples have {which}", path=self.run.held_out[0])
        _ = self.measures  # raises UsageError
        return Spooled(self.train, valid, self.inputs, self.run.held_out)

    def open(self, paths: list[str | None]) -> Spooled[SimilarityData]:
        train, valid = (
            None if path is None else SimilarityData(Path(path), Features.open(Path(path))) for path in paths
        )
        assert train is not None
        self.train = train
        return Spooled(train, valid, self.inputs, self.run.held_out)

    def _encoded(self, path: Path, names: Sequence[str], encoding: Encoding, purpose: str) -> SimilarityData:
        """Read and encode examples into files. Raises DataError."""
        examples = read("similarity", names, tasks.reading_options(self.files), self.encoding_errors)
        groups = [e for e in examples if isinstance(e, TextGroup)]
        if not groups:
            raise DataError(f"no examples to {purpose} on", path=names[0])
        features = self._features(groups, encoding)
        if purpose == "train":
            unknown = UnknownTokens(encoding.tokenizer, "the training data")
            some = [text for e in groups[:1000] for text in e.texts]
            unknown.count(some, encoding.tokenizer.encode_lines(some, encoding.threads))
            unknown.report(self.run.force)
        features.save(path)
        return SimilarityData(path, Features.open(path))

    def _features(self, examples: Sequence[TextGroup], encoding: Encoding) -> Features:
        """The rows of the texts of examples. Raises DataError for examples with and without scores."""
        scored = examples[0].score is not None
        for e in examples:
            if (e.score is not None) != scored:
                raise e.place.error(f"{'no score' if scored else 'a score'}, unlike the first example")
        texts = [self.steps.prepared(text) for e in examples for text in e.texts]
        counts = [len(e.texts) for e in examples]
        numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        roles = [role for count in counts for role in (ANCHOR, POSITIVE, *[NEGATIVE] * (count - 2))]
        role = np.array(roles, np.int64)
        targets: dict[str, np.ndarray] = {
            "text": np.fromiter(map(numbers.__getitem__, texts), np.int64, len(texts)),
            "role": role,
            WEIGHT: (role == ANCHOR).astype(np.float32),
        }
        if scored:
            targets[_SCORE] = np.repeat(np.array([e.score for e in examples], np.float32), counts)
        rows = encoding.rows([[text] for text in texts])
        bounds = np.array([0, *itertools.accumulate(counts)], np.int64)
        return replace(rows, targets=targets, examples=bounds)

    def announce(self, data: Spooled[SimilarityData], seconds: float) -> None:
        def described(counts: GroupCounts) -> str:
            cut = f", {messages.counted(counts.cut, 'text')} cut" if counts.cut else ""
            return (
                f"{messages.counted(counts.examples, 'example')}, {messages.counted(counts.texts, 'text')} of"
                f" {messages.counted(counts.tokens, 'token')}{cut}"
            )

        valid = f"; validation: {described(data.valid.counts)}" if data.valid else ""
        messages.note(f"text: {described(data.train.counts)}{valid} ({seconds:.1f} s)")
        scores = self._loss_settings().scores
        if scores is not None:
            messages.note(f"scores: {scores[0]:g} stands for the cosine 0, {scores[1]:g} for 1")

    def model(self) -> EncoderWithHeads:
        return self.base.model(self.seed)

    def _loss_settings(self) -> SimilaritySettings:
        assert self.train is not None
        options, scores = self.options, None
        if self.train.has_scores:
            values = self.train.features.targets[_SCORE]
            low, high = float(values.min()), float(values.max())
            scores = (low, high) if high > low and (low < -1 or high > 1) else None
        sizes = dimensions(options.dims)
        return SimilaritySettings(
            self.steps.pooling, options.scale, options.symmetric, sizes, options.chunk_size, scores, self.steps.dense
        )

    def objective(self, model: EncoderWithHeads) -> SimilarityLoss:
        return SimilarityLoss(model, self._loss_settings())

    def source(self, data: Spooled[SimilarityData], model: EncoderWithHeads, backend: Backend) -> RandomBatches:
        features, pad = data.train.features, self.base.pad
        size = self.run.batch_size or min(1024, max(32, features.num_examples // 32))
        joint, share = Share.of(size, self.run.global_batch, backend.rank, backend.world_size)
        return RandomBatches(features, joint, seed=self.seed, pad=pad, share=share)

    def evaluate(self, data: Spooled[SimilarityData], backend: Backend) -> Evaluate[EncoderWithHeads] | None:
        if data.valid is None:
            return None
        features, size = data.valid.features, self.run.batch_size or 32

        def evaluate(model: EncoderWithHeads, stop: Callable[[], bool]) -> dict[str, float] | None:
            numbers = None
            if backend.is_main:
                objective = self.objective(model)
                alone = stop if backend.world_size == 1 else lambda: False
                rows = evaluation.vectors(objective, features, self.base.pad, backend, alone)
                numbers = None if rows is None else evaluation.measure(objective, rows, features, size)
            shared: dict[str, float] | None = backend.broadcast(numbers)
            return shared

        return evaluate

    def save(
        self, directory: Path, model: EncoderWithHeads, weights: Mapping[str, Tensor], record: Mapping[str, object]
    ) -> None:
        files = sentence_steps.write(directory, self.steps, model.config.hidden_size)
        published = hub_cache.origin(str(self.options.model))
        training = {**record, **({"base": dict(published)} if published else {})}
        self.base.save(directory, model, weights, training, files)

    def advice(self, name: str) -> str:
        file = streams.regular_file([*self.inputs, self.run.valid])
        return shlex.join(["nlptools", "neighbors", name, "--corpus", file or "FILE", "--text", "A text"])


def _steps(opened: Opened, options: Finetune) -> SentenceSteps:
    """The steps of the new directory: the steps of the model, changed by the options. Raises BundleError, UsageError."""
    own, base, where = opened.steps, opened.bundle, display(str(opened.path))
    if own is not None and own.default_prompt is not None and not own.include_prompt:
        raise BundleError(f"{where}: models that leave the prompt out of the pooling cannot be trained")
    longest = options.max_length or (own.max_length if own is not None else None) or base.model.max_context
    if options.max_length and base.model.max_context is not None and options.max_length > base.model.max_context:
        raise UsageError(f"--max-length {options.max_length}: the limit of the model is {base.model.max_context}")
    pooling = (options.pooling,) if options.pooling is not None else own.pooling if own is not None else ("mean",)
    size = len(pooling) * base.model.config.hidden_size
    for dense in own.dense if own is not None else ():
        if dense.weight.shape[1] != size:
            raise UsageError(
                f"--pooling: the dense layers of {where} take {dense.weight.shape[1]} dimensions, not {size}"
            )
        size = dense.weight.shape[0]
    found = dimensions(options.dims)
    if found and found[0] > size:
        raise UsageError(f"--dims {options.dims}: the vectors have {size} dimensions")
    if own is not None:
        return replace(own, encoder=opened.path, pooling=pooling, max_length=longest)
    return SentenceSteps(opened.path, pooling, True, (), True, longest, False, {}, None)


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
    """Train the model in `settings.model` on similar texts. Dense layers after the pooling are not trained.

    Raises:
        UsageError: a model that is no encoder or decoder, or options that it lacks. And the errors of `open_model` and `run_job`.
    """
    names = streams.check_inputs(inputs, run.held_out)
    name = str(settings.model)
    opened = open_model(name)
    base = bases.of(opened, settings, name)
    task = _Similarity(settings, run, names, compute.seed, opened, base, files, encoding_errors)
    _ = task.steps
    return run_job(task, run, compute, invocation)
