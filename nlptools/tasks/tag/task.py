"""The tasks tag and roles: a label for each word, by itself or as a part of a span.

Devlin et al. 2019, section 5.3: a linear layer on the first piece of each word, in a GPT on the last. Long sentences become
overlapping rows, and the prediction for a word comes from the row in which it has most context. Semantic roles: Shi & Lin
2019 (arXiv:1904.05255), one predicate at a time; see `tasks.tag.features` for both. `crf`: a conditional random field over
the words (`layers.crf`).
Decoding takes the best tag of each word by itself, or the best sequence that keeps to the scheme (`--decoding`), in `predict`
and in the validation of `finetune` alike. The former is the default for tags: the labels of a foreign model do not show its
scheme (B-X and I-X may be IOB1 or IOB2), and decoding by the wrong scheme gives wrong tags. Roles are always IOB2.
Departures: spans are learned and predicted as IOB2, whatever their scheme in the files. With a CRF and windows, the words of
each row are one sequence in training; in prediction a whole sentence is.
Shapes: N sentences, W words, B rows of a batch, T tokens of a row, K labels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import chain, compress, pairwise
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nlptools import bundle, messages
from nlptools.batches.encoder_rows import padded
from nlptools.batches.features import WEIGHT, Encoding, Features
from nlptools.batches.spelled_words import WordEncoding
from nlptools.batches.windows import NO_TARGET
from nlptools.configs.finetuning import Files, Finetune, Predict
from nlptools.errors import BundleError, DataError, UsageError, display, shown
from nlptools.files import streams
from nlptools.files.artifacts import JsonObject
from nlptools.formats import tag_schemes
from nlptools.formats.conll import split_tabs
from nlptools.formats.examples import PredicateSentence
from nlptools.formats.readers import read
from nlptools.formats.reading_options import TagColumns, at_spaces
from nlptools.layers.crf import Crf
from nlptools.metrics import spans
from nlptools.metrics.tags import tagging_accuracy
from nlptools.models.tasks.heads import TaskHeads
from nlptools.tasks.tag import output
from nlptools.tasks.tag.decoding import TagTransitions, best_tags, constraints
from nlptools.tasks.tag.features import WordFeatures, number_labels, word_features
from nlptools.tasks.task import (
    AUTO,
    TaskOf,
    check_best,
    gold,
    id2label,
    labels_of,
    listed,
    reading_options,
    saved_setting,
)
from nlptools.text.words import split_words

_SPLITS = {"words": split_words, "whitespace": at_spaces}  # of lines of text
_DECODING = {"tag": "argmax", "roles": "scheme"}  # by default
_INSIDE = "iob2"  # the scheme of all labels of spans
_SENTENCES = 64  # likelihoods that are computed together


class Tagged(NamedTuple):
    """The prediction for a sentence."""

    tags: list[str]  # (W,)
    scores: np.ndarray  # (W, K)
    crf: Crf | None = None


@dataclass(frozen=True)
class Tagging(TaskOf[Any, Tagged]):
    """See the module's docstring.

    Attributes:
        name: tag or roles.
        given: the value of --scheme, a known scheme or auto.
        crf: with a conditional random field.
        labels: (K,), learned; of spans in IOB2.
        scheme: of the labels: iob2, or plain; learned.
        written: the scheme of the files and of the output; learned.
        columns: of the files, 0 if unknown; learned.
        decoding: argmax or scheme; a conditional random field always decodes by the scheme.
    """

    given: str = AUTO
    crf: bool = False
    labels: tuple[str, ...] = ()
    scheme: str = tag_schemes.PLAIN
    written: str = tag_schemes.PLAIN
    columns: int = 0
    decoding: str = "argmax"

    unit: ClassVar[str] = "words"
    reads_words: ClassVar[bool] = True
    learns: ClassVar[tuple[str, ...]] = ("labels", "scheme", "written", "columns")

    @classmethod
    def from_options(cls, settings: Finetune, files: Files) -> Tagging:
        name, given = settings.task, _scheme_of(files)
        best = check_best(settings, ("loss", "accuracy", "f1"))
        if name == "roles" and given != AUTO:
            raise UsageError("--scheme cannot be combined with --task roles: roles have no scheme")
        if files.layout == "lines":
            raise UsageError("--layout lines: lines of text have no tags to learn from")
        options = reading_options(files, role_spans=settings.role_spans)
        return cls(name, options, best, given, settings.crf, decoding=_DECODING[name])

    @classmethod
    def from_bundle(cls, loaded: bundle.Bundle, settings: Predict, files: Files) -> Tagging:
        """See `Task`. The tags of a model that is not ours have the scheme of --scheme, or none."""
        model: Any = loaded.model
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
        reads = {"role_spans": role_spans, "words_of": _SPLITS[settings.split]}
        options = reading_options(files, labelled=False, tagged=TagColumns(columns, frozenset(labels)), **reads)
        learned: JsonObject = {"labels": labels, "scheme": scheme, "written": written, "columns": columns}
        task = cls(name, options, given=given, crf="crf" in model.heads, **learned)
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
        return replace(task, decoding=settings.decoding or _DECODING[name])

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

    def read(self, names: Sequence[str], labelled: bool, errors: str) -> Iterator[Any]:
        options = replace(self.options, labelled=labelled)
        if self.name == "tag" and not labelled:
            return self._checked(names, errors)
        examples: Iterator[Any] = read(self.name, names, options, errors)
        if self.name == "roles":
            return examples
        sentences, scheme = tag_schemes.as_iob2(examples, None if self.given == AUTO else self.given)
        return iter([replace(e, scheme=scheme) for e in sentences])

    def _checked(self, names: Sequence[str], errors: str) -> Iterator[Any]:
        """The sentences of files with the columns of the training files, or of the layout in --layout. Raises DataError."""
        expected = (1, self.columns, self.columns - 1)  # words alone; all; all but the tags
        for name in streams.check_inputs(names):
            unknown = self.columns > 0 and self.options.layout == AUTO
            examples: Iterator[Any] = read(self.name, [name], self.options, errors)
            for e in examples:
                row = next((row for row in e.rows if row.word is not None), None)
                if unknown and row is not None and (width := len(split_tabs(row.text))) not in expected:
                    raise tag_schemes.place_of(e, 0).error(
                        f"{width} columns, the training files of the model had {self.columns}",
                        "--layout lines: a sentence per line; --layout conll: any columns",
                    )
                unknown = unknown and row is None
                yield e

    def learn(self, examples: Sequence[Any]) -> Tagging:
        path, written, columns = examples[0].place.path, _INSIDE, 0
        if self.name == "tag":
            written = examples[0].scheme
            columns = len(split_tabs(next(row.text for row in examples[0].rows if row.word is not None)))
            if len(examples) == 1 and 2 * sum(" " in word for word in examples[0].words) > len(examples[0].words):
                message = "one sentence, and most of its words contain spaces"
                hint = "--task classify takes texts with a label each; a blank line separates sentences"
                raise examples[0].place.error(message, hint)
        scheme = tag_schemes.PLAIN if written == tag_schemes.PLAIN else _INSIDE
        seen = set(self.count_labels(examples))
        if len(seen) < 2:
            reason = f"every tag is {shown(min(seen))}" if seen else "there are no words"
            raise DataError(f"only one class: {reason}", path=path, hint="--label-column names the column of the tags")
        if self.best == "f1" and scheme == tag_schemes.PLAIN:
            raise UsageError("--best f1: these tags are of words, not of spans")
        labels = tuple(sorted(seen)) if scheme == tag_schemes.PLAIN else _span_labels(seen)
        return replace(self, labels=labels, scheme=scheme, written=written, columns=columns)

    def count_labels(self, examples: Sequence[Any]) -> Counter[str]:
        return Counter(tag for e in examples for tag in _gold(e))

    def check(self, examples: Sequence[Any]) -> None:
        known, unseen = set(self.labels), 0
        first: DataError | None = None
        for e in examples:
            for word, tag in enumerate(_gold(e)):
                if tag in known:
                    continue
                place = e.place if self.name == "roles" else tag_schemes.place_of(e, word)
                message = f"the tag {shown(tag)} was not seen in training"
                if self.name == "tag":
                    message += f" (seen: {listed(self.labels)})"
                hint = "remove its sentence, or add examples of it to the training data"
                fault = place.error(message, hint)
                if self.name == "tag":
                    raise fault
                unseen, first = unseen + 1, first or fault
        if unseen:  # many roles are rare
            words = "word" if unseen == 1 else "words"
            messages.warn(f"{first}; {unseen:,} {words} with such roles, counted as missed")

    def features(self, examples: Sequence[Any], encoding: Encoding | WordEncoding, labelled: bool) -> Features:
        words = word_features(
            [e.words for e in examples],
            encoding,
            predicates=[e.predicate for e in examples] if self.name == "roles" else None,
        )
        starts = np.searchsorted(words.words[:-1], words.sentences)  # the first row of each sentence
        tables = encoding.tables(chain.from_iterable(e.words for e in examples))
        features = Features(words.rows, examples=starts, cut=words.cut_words, tables=tables, more=words)
        if not labelled:
            return features
        labels = words.piece_labels(number_labels(map(_gold, examples), self.labels))
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
        self, outputs: Sequence[np.ndarray], features: Features, examples: Sequence[Any], crf: Crf | None = None
    ) -> list[Tagged]:
        words: WordFeatures = features.more
        flat = np.concatenate([np.zeros((0, self.num_labels), np.float32), *outputs])
        scores = flat[words.tokens]  # (W, K)
        between = None
        if crf is not None:
            weights = (crf.follows, crf.begins, crf.ends)
            between = TagTransitions(*(weight.detach().float().cpu().numpy() for weight in weights))
        allowed = self._allowed() if self.decoding == "scheme" or crf is not None else None
        best = best_tags(scores, words.sentences, allowed, between)
        names = [self.labels[i] for i in best]
        return [Tagged(names[a:b], scores[a:b], crf) for a, b in pairwise(words.sentences.tolist())]

    def measure(self, predictions: Sequence[Tagged], examples: Sequence[Any]) -> dict[str, float]:
        right, predicted = [_gold(e) for e in examples], [p.tags for p in predictions]
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

    def text_lines(
        self, predictions: Sequence[Tagged], examples: Sequence[Any], settings: Predict, first: bool
    ) -> list[str]:
        if self.name == "roles":
            return output.roles(examples, [p.tags for p in predictions], settings.columns)
        converted = [tag_schemes.convert(p.tags, self.scheme, self.written) for p in predictions]
        return output.tags(examples, converted, settings.columns)

    def lines(
        self, predictions: Sequence[Tagged], examples: Sequence[Any], settings: Predict, first: bool
    ) -> list[str]:
        """See `Task`. An example without words holds the lines after the last sentence of a file, unless each line is one."""
        if settings.to != "text":
            kept = [bool(e.words) or e.layout == "lines" for e in examples]
            predictions, examples = list(compress(predictions, kept)), list(compress(examples, kept))
        return super().lines(predictions, examples, settings, first)

    def as_json(self, prediction: Tagged, example: Any, settings: Predict) -> JsonObject:
        tags = tag_schemes.convert(prediction.tags, self.scheme, self.written)
        if settings.to == "entities":
            mended = tag_schemes.mend(tags, self.written)
            return output.entities(example, tag_schemes.spans(mended, self.written)[0])
        predicate = {"predicate": example.predicate} if self.name == "roles" else {}
        return {"words": list(example.words), **predicate, "roles" if self.name == "roles" else "tags": tags}

    def label_settings(self) -> JsonObject:
        return id2label(self.labels)

    def own_settings(self) -> JsonObject:
        roles = {"role_spans": self.options.role_spans} if self.name == "roles" else {}
        return {"scheme": self.written, "columns": self.columns, **roles}


def _scheme_of(files: Files) -> str:
    """The scheme of --scheme, or auto. Raises UsageError."""
    return files.scheme if files.scheme == AUTO else tag_schemes.find_scheme(files.scheme)


def _gold(example: Any) -> tuple[str, ...]:
    """The labels of the words of a labelled example."""
    labels: tuple[str, ...] = gold(example.roles if isinstance(example, PredicateSentence) else example.tags)
    return labels


def _span_labels(seen: set[str]) -> tuple[str, ...]:
    """O, and the tags of each seen type: B- alone if no seen span has two words, else B- and I-."""
    prefixes = "BI" if any(tag.startswith("I-") for tag in seen) else "B"
    types = sorted({tag[2:] for tag in seen if tag != "O"})
    return ("O", *(f"{prefix}-{name}" for name in types for prefix in prefixes))


@contextmanager
def _fault_of(loaded: bundle.Bundle) -> Iterator[None]:
    """Blame the model directory, not the options, for tags that do not fit their scheme."""
    try:
        yield
    except UsageError as error:
        raise BundleError(f"{display(str(loaded.path))}: {error}") from None
