"""The common part of the tasks tag and roles: a label for each word, by itself or as a part of a span.

Devlin et al. 2019, section 5.3: a linear layer on the first piece of each word, in a GPT on the last. Long sentences become
overlapping rows, and the prediction for a word comes from the row in which it has most context (`tasks.tag.features`).
`crf`: a conditional random field over the words (`layers.crf`).
Decoding takes the best tag of each word by itself, or the best sequence that keeps to the scheme (`--decoding`), in `predict`
and in the validation of `finetune` alike.
Departures: spans are learned and predicted as IOB2, whatever their scheme in the files. With a CRF and windows, the words of
each row are one sequence in training; in prediction a whole sentence is.
Shapes: N sentences, W words, B rows of a batch, T tokens of a row, K labels.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import ClassVar, NamedTuple, Self, TypeVar, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nlptools import bundle
from nlptools.batches.encoder_rows import bounds_of, padded
from nlptools.batches.features import WEIGHT, Encoding, Features
from nlptools.batches.spelled_words import WordEncoding
from nlptools.batches.windows import NO_TARGET
from nlptools.configs.finetuning import Finetune, Predict
from nlptools.configs.tasks.files import Files
from nlptools.errors import BundleError, DataError, UsageError, display, shown
from nlptools.formats import tag_schemes
from nlptools.formats.examples import PredicateSentence, TaggedSentence
from nlptools.formats.reading_options import TagColumns, at_spaces
from nlptools.json_types import JsonObject
from nlptools.layers.crf import Crf
from nlptools.metrics import spans
from nlptools.metrics.tags import tagging_accuracy
from nlptools.models.tasks.heads import TaskHeads
from nlptools.models.tasks.task_model import TaskModel
from nlptools.tasks.ensembles import mean_of_tags
from nlptools.tasks.labels import id2label, labels_of
from nlptools.tasks.tag.decoding import TagTransitions, best_tags, constraints
from nlptools.tasks.tag.features import WordFeatures, number_labels, word_features
from nlptools.tasks.task import AUTO, TaskOf, check_best, reading_options, saved_setting
from nlptools.text.words import split_words

SPLITS = {"words": split_words, "whitespace": at_spaces}  # of lines of text
_INSIDE = "iob2"  # the scheme of all labels of spans
UNSEEN_HINT = "remove its sentence, or add examples of it to the training data"
_SENTENCES = 64  # likelihoods that are computed together

W = TypeVar("W", bound=TaggedSentence | PredicateSentence)


class Tagged(NamedTuple):
    """The prediction for a sentence."""

    tags: list[str]  # (W,)
    scores: np.ndarray  # (W, K)
    crf: Crf | None = None


@dataclass(frozen=True)
class WordLabels(TaskOf[W, Tagged, Encoding | WordEncoding]):
    """See the module's docstring.

    Attributes:
        given: the value of --scheme, a known scheme or auto.
        crf: with a conditional random field.
        labels: (K,), learned; of spans in IOB2.
        scheme: of the labels: iob2, or plain; learned.
        written: the scheme of the files and of the output; learned.
        columns: of the files, 0 if unknown; learned.
        decoding: argmax or scheme; a conditional random field always decodes by the scheme.
        default_decoding: the value of `decoding` in training, and in prediction without --decoding.
    """

    given: str = AUTO
    crf: bool = False
    labels: tuple[str, ...] = ()
    scheme: str = tag_schemes.PLAIN
    written: str = tag_schemes.PLAIN
    columns: int = 0
    decoding: str = "argmax"

    default_decoding: ClassVar[str] = "argmax"
    unit: ClassVar[str] = "words"
    reads_words: ClassVar[bool] = True
    learns: ClassVar[tuple[str, ...]] = ("labels", "scheme", "written", "columns")
    in_common: ClassVar[tuple[str, ...]] = ("labels", "scheme")

    @classmethod
    def from_options(cls, settings: Finetune, files: Files) -> WordLabels[W]:
        given, best = _scheme_of(files), check_best(settings, cls.bests)
        if files.layout == "lines":
            raise UsageError("--layout lines: lines of text have no tags to learn from")
        options = replace(reading_options(files), role_spans=settings.role_spans)
        return cls(settings.task, options, best, given, settings.crf, decoding=cls.default_decoding)

    @classmethod
    def from_bundle(cls, loaded: bundle.Bundle[TaskModel], settings: Predict, files: Files) -> Self:
        """See `Task`. The tags of a model that is not ours have the scheme of --scheme, or none."""
        model = loaded.model
        name, saved = saved_setting(loaded.config, "name", "tag"), saved_setting(loaded.config, "scheme", "")
        given = _scheme_of(files)
        scheme = written = given if given != AUTO else tag_schemes.PLAIN
        if saved:
            scheme = tag_schemes.PLAIN if saved == tag_schemes.PLAIN else _INSIDE
            with _fault_of(loaded):
                written = tag_schemes.find_scheme(saved) if given == AUTO else given
            if scheme == tag_schemes.PLAIN and written != scheme:
                raise UsageError(f"--scheme {given}: the model's tags are of words, not of spans")
        if settings.to == "entities" and scheme == tag_schemes.PLAIN:
            hint = None if saved else "--scheme names the scheme of its tags"
            raise UsageError("--to entities: the model's tags are of words, not of spans", hint=hint)
        role_spans = saved_setting(loaded.config, "role_spans", "heads")
        labels, columns = labels_of(loaded.config, model.num_labels), saved_setting(loaded.config, "columns", 0)
        options = replace(
            reading_options(files),
            labelled=False,
            tagged=TagColumns(columns, frozenset(labels)),
            role_spans=role_spans,
            words_of=SPLITS[settings.split],
        )
        task = cls(
            name,
            options,
            given=given,
            crf="crf" in model.heads,
            labels=labels,
            scheme=scheme,
            written=written,
            columns=columns,
        )
        with _fault_of(loaded) if saved or given == AUTO else nullcontext():
            task._allowed()  # raises where the labels are not of the scheme
        if settings.decoding == "argmax" and task.crf:
            raise UsageError(
                "--decoding argmax: the model has a conditional random field, which decodes the whole sentence"
            )
        if settings.decoding == "scheme" and scheme == tag_schemes.PLAIN:
            if saved:
                raise UsageError("--decoding scheme: the model's tags are of words, not of spans")
            raise UsageError("--decoding scheme: config.json does not name the scheme", hint="--scheme names it")
        return replace(task, decoding=settings.decoding or cls.default_decoding)

    @property
    def extra_heads(self) -> tuple[str, ...]:
        return ("crf",) if self.crf else ()

    def layers_of(self, model: TaskHeads) -> dict[str, nn.Module]:
        return {} if model.crf is None else {"crf": model.crf}

    @property
    def num_labels(self) -> int:
        return len(self.labels)

    @property
    def numbers(self) -> tuple[str, ...]:
        of_spans = () if self.scheme == tag_schemes.PLAIN else ("precision", "recall", "f1")
        return ("loss", "accuracy", *of_spans)

    # -- examples -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def gold(self, example: W) -> tuple[str, ...]:
        """The labels of the words of a labelled example."""

    def written_in(self, examples: Sequence[W]) -> tuple[str, int]:
        """The scheme of the training files and the number of their columns, 0 if it does not matter."""
        return _INSIDE, 0

    def predicates(self, examples: Sequence[W]) -> list[int] | None:
        """The word of each example that its labels depend on; None if they depend on none."""
        return None

    def learn(self, examples: Sequence[W]) -> Self:
        written, columns = self.written_in(examples)
        scheme = tag_schemes.PLAIN if written == tag_schemes.PLAIN else _INSIDE
        seen = set(self.count_labels(examples))
        if len(seen) < 2:
            reason = f"every tag is {shown(min(seen))}" if seen else "there are no words"
            hint = "--label-column names the column of the tags"
            raise DataError(f"only one class: {reason}", path=examples[0].place.path, hint=hint)
        if self.best == "f1" and scheme == tag_schemes.PLAIN:
            raise UsageError("--best f1: these tags are of words, not of spans")
        labels = tuple(sorted(seen)) if scheme == tag_schemes.PLAIN else _span_labels(seen)
        return replace(self, labels=labels, scheme=scheme, written=written, columns=columns)

    def count_labels(self, examples: Sequence[W]) -> Counter[str]:
        return Counter(tag for e in examples for tag in self.gold(e))

    def unseen(self, examples: Sequence[W]) -> Iterator[tuple[W, int, str]]:
        """The words with labels that the training data lacks: the example, the number of the word and its label."""
        known = set(self.labels)
        for e in examples:
            yield from ((e, word, tag) for word, tag in enumerate(self.gold(e)) if tag not in known)

    def features(self, examples: Sequence[W], encoding: Encoding | WordEncoding, labelled: bool) -> Features:
        words = word_features([e.words for e in examples], encoding, predicates=self.predicates(examples))
        starts = np.searchsorted(words.words[:-1], words.sentences)  # the first row of each sentence
        tables = encoding.tables(chain.from_iterable(e.words for e in examples))
        features = Features(words.rows, examples=starts, cut=words.cut_words, tables=tables, more=words)
        if not labelled:
            return features
        labels = words.piece_labels(number_labels(map(self.gold, examples), self.labels))
        targets = {"label": labels, WEIGHT: (labels != NO_TARGET).astype(np.float32)}
        if self.crf:
            begins, ends = words.edges(np.arange(len(words.rows)))
            targets = {"begins": begins.astype(np.uint8), "ends": ends.astype(np.uint8), **targets}
        return replace(features, targets=targets, per_token=("label", WEIGHT))

    # -- training -----------------------------------------------------------------------------------------------------

    def begin(self, model: nn.Module) -> None:
        allowed = self._allowed()
        if self.crf and allowed is not None:
            cast(Crf, model.get_submodule("crf")).restrict(*(torch.from_numpy(part) for part in allowed))

    def _allowed(self) -> TagTransitions | None:
        """Which tags may follow which; None: any."""
        return None if self.scheme == tag_schemes.PLAIN else constraints(self.labels, self.scheme)

    def loss(self, logits: Tensor, *targets: Tensor, crf: Crf | None = None) -> Tensor:
        *edges, label, weight = targets
        if crf is None:
            each = F.cross_entropy(logits.transpose(1, 2), label, reduction="none", ignore_index=NO_TARGET)
            return (each * weight).sum()
        real = label != NO_TARGET
        order = (~real).to(torch.int8).argsort(dim=1, stable=True)  # the words first
        order = order[:, : int(real.sum(1).max())]
        scores = logits.gather(1, order[:, :, None].expand(-1, -1, logits.shape[2]))
        likelihood = crf.log_likelihood(
            scores, label.gather(1, order), real.gather(1, order), (edges[0] > 0, edges[1] > 0)
        )
        return -(likelihood * weight.amax(1)).sum()

    # -- prediction ---------------------------------------------------------------------------------------------------

    def decode(
        self, outputs: Sequence[np.ndarray], features: Features, examples: Sequence[W], crf: Crf | None = None
    ) -> list[Tagged]:
        words: WordFeatures = features.more
        flat = np.concatenate([np.zeros((0, self.num_labels), np.float32), *outputs])
        scores = flat[words.tokens]  # (W, K)
        return self._tagged(scores, words.sentences, _transitions(crf), crf)

    def _tagged(
        self, scores: np.ndarray, sentences: np.ndarray, between: TagTransitions | None, crf: Crf | None = None
    ) -> list[Tagged]:
        """The best tags of sentences, from scores (W, K); `sentences` (N + 1,): the first word of each, and the end."""
        allowed = self._allowed() if self.decoding == "scheme" or between is not None else None
        best = best_tags(scores, sentences, allowed, between)
        names = [self.labels[i] for i in best]
        return [Tagged(names[a:b], scores[a:b], crf) for a, b in pairwise(sentences.tolist())]

    def combined(self, predictions: Sequence[Sequence[Tagged]]) -> list[Tagged]:
        sentences = bounds_of(np.array([len(p.tags) for p in predictions[0]], np.int64))
        logits = [np.concatenate([p.scores for p in each]) for each in predictions]
        scores, between = mean_of_tags(logits, [_transitions(each[0].crf) for each in predictions])
        return self._tagged(scores, sentences, between)

    def measure(self, predictions: Sequence[Tagged], examples: Sequence[W]) -> dict[str, float]:
        right, predicted = [self.gold(e) for e in examples], [p.tags for p in predictions]
        numbers = {
            "answers": float(len({tag for tags in predicted for tag in tags})),
            "loss": self._measured(predictions, right),
        }
        if self.scheme == tag_schemes.PLAIN:
            return {**numbers, **tagging_accuracy(right, predicted).values()}
        return {**numbers, **spans.entities(right, predicted, "conlleval").values()}

    def _measured(self, predictions: Sequence[Tagged], right: Sequence[Sequence[str]]) -> float:
        """The loss per word, of the words with known labels."""
        numbers = number_labels(right, self.labels)
        scores = np.concatenate([p.scores for p in predictions])
        known = numbers != NO_TARGET
        crf = predictions[0].crf
        if crf is None:
            logs = torch.from_numpy(scores).double().log_softmax(-1).numpy()
            return -float(logs[known, numbers[known]].sum()) / max(1, int(known.sum()))
        bounds = np.cumsum([0, *map(len, right)])
        whole = np.flatnonzero([known[a:b].all() for a, b in pairwise(bounds)])
        lengths = np.diff(bounds)
        whole = whole[np.argsort(lengths[whole], kind="stable")]
        total = 0.0
        for i in range(0, len(whole), _SENTENCES):
            some = whole[i : i + _SENTENCES]
            places = padded(np.arange(len(numbers)), bounds, some, 0)
            mask = np.arange(places.shape[1]) < lengths[some][:, None]
            device = crf.follows.device
            scored, labels, real = (torch.from_numpy(a).to(device) for a in (scores[places], numbers[places], mask))
            with torch.inference_mode():
                total -= float(crf.log_likelihood(scored, labels, real).double().sum())
        return total / max(1, int(lengths[whole].sum()))

    def written_tags(self, prediction: Tagged) -> list[str]:
        """The tags of a prediction in the scheme of the output."""
        return tag_schemes.convert(prediction.tags, self.scheme, self.written)

    def label_settings(self) -> JsonObject:
        return id2label(self.labels)

    def own_settings(self) -> JsonObject:
        return {"scheme": self.written, "columns": self.columns}


def _transitions(crf: Crf | None) -> TagTransitions | None:
    """The scores of neighbours, first and last tags of a conditional random field."""
    if crf is None:
        return None
    weights = (crf.follows, crf.begins, crf.ends)
    return TagTransitions(*(weight.detach().float().cpu().numpy() for weight in weights))


def _scheme_of(files: Files) -> str:
    """The scheme of --scheme, or auto. Raises UsageError."""
    return files.scheme if files.scheme == AUTO else tag_schemes.find_scheme(files.scheme)


def _span_labels(seen: set[str]) -> tuple[str, ...]:
    """O, and the tags of each seen type: B- alone if no seen span has two words, else B- and I-."""
    prefixes = "BI" if any(tag.startswith("I-") for tag in seen) else "B"
    types = sorted({tag[2:] for tag in seen if tag != "O"})
    return ("O", *(f"{prefix}-{name}" for name in types for prefix in prefixes))


@contextmanager
def _fault_of(loaded: bundle.Bundle[object]) -> Iterator[None]:
    """Blame the model directory, not the options, for tags that do not fit their scheme."""
    try:
        yield
    except UsageError as error:
        raise BundleError(f"{display(str(loaded.path))}: {error}") from None
