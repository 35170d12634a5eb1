"""The tasks tag and roles: a label for each word, alone or as a part of a span.

Devlin et al. 2019, section 5.3: a linear layer on the first piece of each word, of a GPT the last. Long sentences become
overlapping rows, and each word is answered for by the one in which it has most context. Semantic roles: Shi & Lin 2019
(arXiv:1904.05255), one predicate at a time; see `tasks.tag.features` for both. `crf`: a conditional random field over the
words (`layers.crf`).
Departures: spans are learnt and predicted as IOB2, whatever their scheme in the files; of their tags the best sequence that
keeps to the scheme is taken, not the best tag of each word by itself. With a field, and in windows, the words that a row
answers for are a sequence of their own in training; in prediction a sentence is one.
Shapes: N sentences, W words, B rows of a batch, T tokens of a row, K labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from nlptools import bundle, messages
from nlptools.batches.encoder_rows import padded
from nlptools.batches.features import WEIGHT, Encoding, Features
from nlptools.configs.finetuning import Files, Finetune, Predict
from nlptools.errors import DataError, UsageError
from nlptools.files import streams
from nlptools.formats import tag_schemes
from nlptools.formats.columns import fields_of
from nlptools.formats.readers import read
from nlptools.formats.reading_options import Options
from nlptools.layers.crf import Crf
from nlptools.metrics import classification, spans
from nlptools.metrics.criterion import Criterion
from nlptools.tasks import task as kind
from nlptools.tasks.tag import output
from nlptools.tasks.tag.decoding import Constraints, Transitions, best_tags, constraints
from nlptools.tasks.tag.features import IGNORED, WordFeatures, number_labels, word_features

_AUTO = "auto"
_INSIDE = "iob2"  # the scheme of all labels that are parts of spans
_SENTENCES = 64  # whose likelihood is computed at a time


class Tagged(NamedTuple):
    """What a model says of a sentence."""

    tags: list[str]  # (W,)
    scores: np.ndarray  # (W, K)
    crf: Crf | None = None


@dataclass(frozen=True)
class Tags:
    """See the module's docstring; fulfils `kind.Kind`.

    Attributes:
        name: tag or roles.
        options: how files are read.
        given: the scheme that the user names, or auto.
        best: the number to choose by, or auto.
        crf: with a conditional random field.
        all_pieces: every piece of a word learns its label, not the first alone.
        labels: (K,), learnt; of spans in IOB2.
        scheme: of the labels: iob2, or plain; learnt.
        written: the scheme of the files, and of what is predicted; learnt.
        columns: how many the files have, 0 where it is not known; learnt.
    """

    name: str
    options: Options
    given: str = _AUTO
    best: str = _AUTO
    crf: bool = False
    all_pieces: bool = False
    labels: tuple[str, ...] = ()
    scheme: str = tag_schemes.PLAIN
    written: str = tag_schemes.PLAIN
    columns: int = 0
    head: str = "tokens"
    unit: str = "words"

    @staticmethod
    def new(settings: Finetune, files: Files) -> Tags:
        """See `kind.new`."""
        name, given = settings.task, _scheme_of(files)
        if settings.class_weights != "none":
            raise UsageError(f"--class-weights does not go with --task {name}")
        if settings.best not in (_AUTO, "loss", "accuracy", "f1"):
            raise UsageError(f"--best {settings.best}: expected one of auto, loss, accuracy, f1")
        if name == "roles" and given != _AUTO:
            raise UsageError("--scheme: roles are read as they stand, they have no scheme")
        if files.layout == "lines":
            raise UsageError("--layout lines: words between spaces have no tags to learn from")
        options = kind.options(files)
        return Tags(name, options, given, settings.best, settings.crf, settings.label_pieces == "all")

    @staticmethod
    def opened(found: bundle.Bundle, settings: Predict, files: Files) -> Tags:
        """See `kind.opened`. The tags of a model that is not ours are of the scheme that the user names, or of none."""
        if settings.probabilities or settings.top_k > 1 or settings.submission or settings.pair:
            raise UsageError("--probabilities, --top-k, --submission and --pair do not go with a model that tags")
        model: Any = found.model
        name, noted = kind.noted(found.config, "name", "tag"), kind.noted(found.config, "scheme", "")
        given = _scheme_of(files)
        scheme = written = given if given != _AUTO else tag_schemes.PLAIN
        if noted:
            scheme = tag_schemes.PLAIN if noted == tag_schemes.PLAIN else _INSIDE
            written = tag_schemes.find_scheme(noted) if given == _AUTO else given
            if scheme == tag_schemes.PLAIN and written != scheme:
                raise UsageError(f"--scheme {given}: the model's tags stand for words, not for spans")
        spans_of = kind.noted(found.config, "role_spans", "heads")
        made = Tags(name, replace(kind.options(files, labelled=False), role_spans=spans_of), given)
        labels, columns = kind.labels_of(found.config, model.num_labels), kind.noted(found.config, "columns", 0)
        made = replace(made, crf="crf" in model.heads, labels=labels, scheme=scheme, written=written, columns=columns)
        made._allowed()  # the labels are of the scheme
        return made

    @property
    def more_heads(self) -> tuple[str, ...]:
        """See `kind.more_heads`."""
        return ("crf",) if self.crf else ()

    @property
    def num_labels(self) -> int:
        return len(self.labels)

    @property
    def criterion(self) -> Criterion:
        usual = "accuracy" if self.scheme == tag_schemes.PLAIN else "f1"
        name = usual if self.best == _AUTO else self.best
        return Criterion(name, higher_is_better=name != "loss")

    @property
    def measures(self) -> tuple[str, ...]:
        chosen = self.criterion.name
        of_spans = () if self.scheme == tag_schemes.PLAIN else ("precision", "recall", "f1")
        return (*(name for name in ("answers", "loss", "accuracy", *of_spans) if name != chosen), chosen)

    # -- examples -----------------------------------------------------------------------------------------------------

    def read(self, names: Sequence[str], labelled: bool, errors: str) -> Iterator[Any]:
        options = replace(self.options, labelled=labelled)
        found: Iterator[Any] = read(self.name, names, options, errors)
        if self.name == "roles":
            return found
        if not labelled:
            return self._checked(names, errors)
        made, scheme = tag_schemes.as_iob2(found, None if self.given == _AUTO else self.given)
        return iter([replace(e, scheme=scheme) for e in made])

    def _checked(self, names: Sequence[str], errors: str) -> Iterator[Any]:
        """The sentences of files that look like those of training, or whose layout the user names."""
        usual = (1, self.columns, self.columns - 1)  # words alone; all; all but the tags
        for name in streams.check_inputs(names):
            unknown = self.columns > 0 and self.options.layout == _AUTO
            found: Iterator[Any] = read(self.name, [name], self.options, errors)
            for e in found:
                row = next((row for row in e.rows if row.word is not None), None)
                if unknown and row is not None and (width := len(fields_of(row.text))) not in usual:
                    raise DataError(
                        f"{width} columns, the files that the model was trained on had {self.columns}",
                        path=e.place.path,
                        line=tag_schemes.place_of(e, 0).line,
                        hint="--layout lines: a sentence per line, words between spaces; --layout conll: any columns",
                    )
                unknown = unknown and row is None
                yield e

    def learn(self, examples: Sequence[Any]) -> Tags:
        path, written, columns = examples[0].place.path, _INSIDE, 0
        if self.name == "tag":
            written = examples[0].scheme
            columns = len(fields_of(next(row.text for row in examples[0].rows if row.word is not None)))
            if len(examples) == 1 and 2 * sum(" " in word for word in examples[0].words) > len(examples[0].words):
                told = "one sentence, and most of its words have spaces in them"
                hint = "texts with a label each are --task classify; a blank line stands between sentences"
                raise DataError(told, path=path, line=examples[0].place.line, hint=hint)
        scheme = tag_schemes.PLAIN if written == tag_schemes.PLAIN else _INSIDE
        seen = {tag for e in examples for tag in _gold(e)}
        if len(seen) < 2:
            told = f"every tag is {min(seen)!r}" if seen else "there are no words"
            raise DataError(f"only one class: {told}", path=path, hint="--label-column names the column of the tags")
        if self.best == "f1" and scheme == tag_schemes.PLAIN:
            raise UsageError("--best f1: these tags stand for words, not for spans")
        labels = tuple(sorted(seen)) if scheme == tag_schemes.PLAIN else _span_labels(seen)
        return replace(self, labels=labels, scheme=scheme, written=written, columns=columns)

    def learned(self) -> dict[str, Any]:
        told = {"scheme": self.scheme, "written": self.written, "columns": self.columns}
        return {"labels": list(self.labels), **told}

    def restored(self, learned: Mapping[str, Any]) -> Tags:
        return replace(self, **{**learned, "labels": tuple(learned["labels"])})

    def check(self, examples: Sequence[Any]) -> None:
        known, unseen = set(self.labels), 0
        first: DataError | None = None
        for e in examples:
            for word, tag in enumerate(_gold(e)):
                if tag in known:
                    continue
                place = e.place if self.name == "roles" else tag_schemes.place_of(e, word)
                told, cure = (
                    f"the tag {tag!r} was not seen in training",
                    "take its sentence out, or train on examples of it",
                )
                if self.name == "tag":
                    told += f" (seen: {kind.some(self.labels)})"
                fault = DataError(told, path=place.path, line=place.line, hint=cure)
                if self.name == "tag":
                    raise fault
                unseen, first = unseen + 1, first or fault
        if unseen:  # many roles are rare
            words = "word" if unseen == 1 else "words"
            messages.warn(f"{first}; {unseen:,} {words} with such roles, counted as missed")

    def features(self, examples: Sequence[Any], encoding: Encoding, labelled: bool) -> Features:
        words = word_features(
            [e.words for e in examples],
            encoding.tokenizer,
            max_length=encoding.max_length,
            marks=encoding.marks,
            predicates=[e.predicate for e in examples] if self.name == "roles" else None,
            threads=encoding.threads,
        )
        rows = words.rows if encoding.types > 1 else replace(words.rows, types=np.zeros_like(words.rows.types))
        starts = np.searchsorted(words.words[:-1], words.sentences)  # the first row of each sentence
        made = Features(rows, examples=starts, cut=words.cut_words, more=words)
        if not labelled:
            return made
        labels = words.piece_labels(number_labels(map(_gold, examples), self.labels), self.all_pieces)
        targets = {"label": labels, WEIGHT: (labels != IGNORED).astype(np.float32)}
        if self.crf:
            begins, ends = words.edges(np.arange(len(rows)))
            targets = {"begins": begins.astype(np.uint8), "ends": ends.astype(np.uint8), **targets}
        return replace(made, targets=targets, per_token=("label", WEIGHT))

    # -- learning -----------------------------------------------------------------------------------------------------

    def begin(self, model: Any) -> None:
        allowed = self._allowed()
        if self.crf and allowed is not None:
            model.crf.restrict(*(torch.from_numpy(part) for part in vars(allowed).values()))

    def _allowed(self) -> Constraints | None:
        """Which tags may stand where; None: any."""
        return None if self.scheme == tag_schemes.PLAIN else constraints(self.labels, self.scheme)

    def loss(self, logits: Tensor, *targets: Tensor, crf: Crf | None = None) -> Tensor:
        *edges, label, weight = targets
        if crf is None:
            each = F.cross_entropy(logits.transpose(1, 2), label, reduction="none", ignore_index=IGNORED)
            return (each * weight).sum()
        real = label != IGNORED
        order = (~real).to(torch.int8).argsort(dim=1, stable=True)  # the words first
        order = order[:, : int(real.sum(1).max())]
        scores = logits.gather(1, order[:, :, None].expand(-1, -1, logits.shape[2]))
        found = crf.log_likelihood(scores, label.gather(1, order), real.gather(1, order), (edges[0] > 0, edges[1] > 0))
        return -(found * weight.amax(1)).sum()

    # -- predicting ---------------------------------------------------------------------------------------------------

    def decode(
        self, outputs: Sequence[np.ndarray], features: Features, examples: Sequence[Any], crf: Crf | None = None
    ) -> list[Tagged]:
        words: WordFeatures = features.more
        flat = np.concatenate([np.zeros((0, self.num_labels), np.float32), *outputs])
        starts = np.repeat(words.rows.bounds[:-1], np.diff(words.words))
        scores = flat[starts + words.speaker]  # (W, K)
        between = None
        if crf is not None:
            weights = (crf.follows, crf.begins, crf.ends)
            between = Transitions(*(weight.detach().float().cpu().numpy() for weight in weights))
        best = best_tags(scores, words.sentences, self._allowed(), between)
        names = [self.labels[i] for i in best]
        return [Tagged(names[a:b], scores[a:b], crf) for a, b in pairwise(words.sentences.tolist())]

    def measure(self, predictions: Sequence[Tagged], examples: Sequence[Any]) -> dict[str, float]:
        gold, said = [_gold(e) for e in examples], [p.tags for p in predictions]
        found = {
            "answers": float(len({tag for tags in said for tag in tags})),
            "loss": self._measured(predictions, gold),
        }
        if self.scheme == tag_schemes.PLAIN:
            return {**found, **classification.tagging_accuracy(gold, said).values()}
        return {**found, **spans.entities(gold, said, "conlleval").values()}

    def _measured(self, predictions: Sequence[Tagged], gold: Sequence[Sequence[str]]) -> float:
        """The loss per word, of words with labels that are known."""
        numbers = number_labels(gold, self.labels)
        scores = np.concatenate([p.scores for p in predictions])
        known = numbers != IGNORED
        crf = predictions[0].crf
        if crf is None:
            logs = torch.from_numpy(scores).double().log_softmax(-1).numpy()
            return -float(logs[known, numbers[known]].sum()) / max(1, int(known.sum()))
        bounds = np.cumsum([0, *map(len, gold)])
        whole = np.flatnonzero([known[a:b].all() for a, b in pairwise(bounds)])
        lengths = np.diff(bounds)
        whole = whole[np.argsort(lengths[whole], kind="stable")]
        total = 0.0
        for i in range(0, len(whole), _SENTENCES):
            some = whole[i : i + _SENTENCES]
            places = padded(np.arange(len(numbers)), bounds, some, 0)
            mask = np.arange(places.shape[1]) < lengths[some][:, None]
            device = crf.follows.device
            found, labels, real = (torch.from_numpy(a).to(device) for a in (scores[places], numbers[places], mask))
            with torch.inference_mode():
                total -= float(crf.log_likelihood(found, labels, real).double().sum())
        return total / max(1, int(lengths[whole].sum()))

    def lines(
        self, predictions: Sequence[Tagged], examples: Sequence[Any], settings: Predict, first: bool
    ) -> list[str]:
        if self.name == "roles":
            return output.roles(examples, [p.tags for p in predictions], settings.columns)
        source = tag_schemes.PLAIN if self.scheme == tag_schemes.PLAIN else self.scheme
        said = [tag_schemes.convert(p.tags, source, self.written) for p in predictions]
        return output.tags(examples, said, self.options, settings.columns)

    def config(self) -> dict[str, Any]:
        task = {"name": self.name, "scheme": self.written, "columns": self.columns}
        if self.name == "roles":
            task["role_spans"] = self.options.role_spans
        return {
            "id2label": {str(i): label for i, label in enumerate(self.labels)},
            "label2id": {label: i for i, label in enumerate(self.labels)},
            "nlptools": {"task": task},
        }


def _scheme_of(files: Files) -> str:
    """The scheme that the user names, or auto. Raises UsageError."""
    return files.scheme if files.scheme == _AUTO else tag_schemes.find_scheme(files.scheme)


def _gold(example: Any) -> tuple[str, ...]:
    """The labels of the words of an example that has them."""
    found = example.tags if hasattr(example, "tags") else example.roles
    assert found is not None
    labels: tuple[str, ...] = found
    return labels


def _span_labels(seen: set[str]) -> tuple[str, ...]:
    """O, and the tags of each type that was seen: how a span goes on, too, where any does."""
    prefixes = "BI" if any(tag.startswith("I-") for tag in seen) else "B"
    kinds = sorted({tag[2:] for tag in seen if tag != "O"})
    return ("O", *(f"{prefix}-{name}" for name in kinds for prefix in prefixes))
