"""The task tag: a label for each word, of columns of text as CoNLL and Universal Dependencies publish them.

Devlin et al. 2019, section 5.3: a linear layer on the first piece of each word. Long sentences become overlapping rows, and
each word is answered for by the one in which it has most context; see `data.word_features`.
Departure: of tags that stand for spans (IOB2 and so on) the best sequence that keeps to the scheme is taken, not the best
tag of each word by itself.
Shapes: W words of a sentence, B rows of a batch, T tokens of a row, K tags.
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

from nlptools import bundle
from nlptools.configs.finetuning import Files, Finetune, Predict
from nlptools.data.features import WEIGHT, Encoding, Features
from nlptools.data.tag_decoding import best_tags, constraints
from nlptools.data.tasks import schemes
from nlptools.data.tasks.columns import with_tags
from nlptools.data.tasks.examples import TaggedSentence
from nlptools.data.tasks.options import Options
from nlptools.data.tasks.reading import read
from nlptools.data.word_features import WordFeatures, number_labels, word_features
from nlptools.errors import DataError, UsageError
from nlptools.finetuning import kind
from nlptools.metrics import classification, spans
from nlptools.train.loop import Criterion


class Tagged(NamedTuple):
    """The tags of a sentence, and the log-probability of each tag at each word."""

    tags: list[str]
    logs: np.ndarray  # (W, K)


@dataclass(frozen=True)
class Tags:
    """See the module's docstring; fulfils `kind.Kind`.

    Attributes:
        options: how files are read.
        best: the number to choose by, or auto.
        labels: (K,), learnt.
        scheme: of `schemes.SCHEMES`, or plain; learnt.
    """

    options: Options
    best: str = "auto"
    labels: tuple[str, ...] = ()
    scheme: str = schemes.PLAIN
    name: str = "tag"
    head: str = "tokens"
    unit: str = "words"

    @staticmethod
    def new(settings: Finetune, files: Files) -> Tags:
        """See `kind.new`."""
        if settings.class_weights != "none":
            raise UsageError("--class-weights does not go with --task tag")
        if settings.best not in ("auto", "loss", "accuracy", "f1"):
            raise UsageError(f"--best {settings.best}: expected one of auto, loss, accuracy, f1")
        return Tags(kind.options(files), settings.best)

    @staticmethod
    def opened(found: bundle.Bundle, settings: Predict, files: Files) -> Tags:
        """See `kind.opened`. Of a model that is not ours no scheme is known."""
        if settings.probabilities or settings.top_k > 1 or settings.submission or settings.pair:
            raise UsageError("--probabilities, --top-k, --submission and --pair do not go with a model that tags")
        model: Any = found.model
        scheme = schemes.find_scheme(kind.noted(found.config, "scheme", schemes.PLAIN))
        labels = kind.labels_of(found.config, model.num_labels)
        return Tags(kind.options(files, labelled=False), labels=labels, scheme=scheme)

    @property
    def num_labels(self) -> int:
        return len(self.labels)

    @property
    def criterion(self) -> Criterion:
        usual = "accuracy" if self.scheme == schemes.PLAIN else "f1"
        name = usual if self.best == "auto" else self.best
        return Criterion(name, higher_is_better=name != "loss")

    @property
    def measures(self) -> tuple[str, ...]:
        chosen = self.criterion.name
        some = ("answers", "loss", "accuracy", *(() if self.scheme == schemes.PLAIN else ("precision", "recall", "f1")))
        return (*(name for name in some if name != chosen), chosen)

    # -- examples -----------------------------------------------------------------------------------------------------

    def read(self, names: Sequence[str], labelled: bool, errors: str) -> Iterator[Any]:
        return read(self.name, names, replace(self.options, labelled=labelled), errors)

    def learn(self, examples: Sequence[TaggedSentence]) -> Tags:
        labels = tuple(sorted({tag for e in examples for tag in _tags(e)}))
        path = examples[0].place.path
        if len(labels) < 2:
            told = f"every tag is {labels[0]!r}" if labels else "there are no words"
            raise DataError(f"only one class: {told}", path=path, hint="--label-column names the column of the tags")
        made = replace(self, labels=labels, scheme=schemes.detect(map(_tags, examples)))
        if self.best == "f1" and made.scheme == schemes.PLAIN:
            raise UsageError("--best f1: these tags stand for words, not for spans")
        return made

    def learned(self) -> dict[str, Any]:
        return {"labels": list(self.labels), "scheme": self.scheme}

    def restored(self, learned: Mapping[str, Any]) -> Tags:
        return replace(self, labels=tuple(learned["labels"]), scheme=str(learned["scheme"]))

    def check(self, examples: Sequence[TaggedSentence]) -> None:
        known = set(self.labels)
        for e in examples:
            for word, tag in enumerate(_tags(e)):
                if tag not in known:
                    place = schemes.place_of(e, word)
                    raise DataError(
                        f"the tag {tag!r} was not seen in training (seen: {kind.some(self.labels)})",
                        path=place.path,
                        line=place.line,
                        hint="take its sentence out, or train on examples of it",
                    )

    def features(self, examples: Sequence[TaggedSentence], encoding: Encoding, labelled: bool) -> Features:
        words = word_features(
            [e.words for e in examples], encoding.tokenizer, max_length=encoding.max_length, threads=encoding.threads
        )
        made = Features(words.rows, cut=words.cut_words, more=words)
        if not labelled:
            return made
        tags = words.piece_labels(number_labels(map(_tags, examples), self.labels))
        targets = {"tag": tags, WEIGHT: (tags >= 0).astype(np.float32)}
        return replace(made, targets=targets, per_token=("tag", WEIGHT))

    # -- learning and predicting --------------------------------------------------------------------------------------

    def begin(self, model: Any) -> None:
        """Nothing to do."""

    def loss(self, logits: Tensor, *targets: Tensor) -> Tensor:
        tag, weight = targets
        real = tag >= 0
        each = F.cross_entropy(logits[real], tag[real], reduction="none")
        return (each * weight[real]).sum()

    def decode(
        self, outputs: Sequence[np.ndarray], features: Features, examples: Sequence[TaggedSentence]
    ) -> list[Tagged]:
        words: WordFeatures = features.more
        scores = np.zeros((len(words.first), self.num_labels), np.float32)
        for row, logits in enumerate(outputs):
            mine = slice(words.words[row], words.words[row + 1])
            scores[mine] = logits[words.first[mine]]
        logs = torch.from_numpy(scores).log_softmax(-1).numpy()
        allowed = None if self.scheme == schemes.PLAIN else constraints(self.labels, self.scheme)
        best = best_tags(logs, words.sentences, allowed)
        names = [self.labels[i] for i in best]
        ends = words.sentences.tolist()
        return [Tagged(names[a:b], logs[a:b]) for a, b in pairwise(ends)]

    def measure(self, predictions: Sequence[Tagged], examples: Sequence[TaggedSentence]) -> dict[str, float]:
        gold, said = [_tags(e) for e in examples], [p.tags for p in predictions]
        logs = np.concatenate([p.logs for p in predictions])
        numbers = number_labels(gold, self.labels)
        found = {"answers": float(len({tag for tags in said for tag in tags}))}
        found["loss"] = -float(logs[np.arange(len(numbers)), numbers].mean())
        if self.scheme == schemes.PLAIN:
            return {**found, **classification.tagging_accuracy(gold, said).values()}
        return {**found, **spans.entities(gold, said, "conlleval").values()}

    def lines(
        self, predictions: Sequence[Tagged], examples: Sequence[TaggedSentence], settings: Predict, first: bool
    ) -> list[str]:
        if settings.columns:
            return [line for e, p in zip(examples, predictions, strict=True) for line in with_tags(e, p.tags)]
        # what stands behind the last sentence of a file of columns is no sentence
        every = self.options.layout == "lines"
        kept = [p for e, p in zip(examples, predictions, strict=True) if e.words or every]
        return [" ".join(p.tags) for p in kept]

    def config(self) -> dict[str, Any]:
        return {
            "id2label": {str(i): label for i, label in enumerate(self.labels)},
            "label2id": {label: i for i, label in enumerate(self.labels)},
            "nlptools": {"task": {"name": self.name, "scheme": self.scheme}},
        }


def _tags(sentence: TaggedSentence) -> tuple[str, ...]:
    assert sentence.tags is not None
    return sentence.tags
