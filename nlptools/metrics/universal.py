"""Tags, morphology and dependency trees of sentences in CoNLL-U, compared with gold ones: the words are the same.

Zeman et al. 2018, the CoNLL 2018 shared task (K18-2001), on gold tokenization, where its F1 is the share of right words. As
there, all words count, punctuation included; relations are compared without their subtypes (`nmod:poss` is `nmod`), unless
`subtypes`; `ufeats` and `alltags` compare the features of Universal Dependencies alone; `clas` is the F1 of content words,
selected by their relation.
Shapes: N sentences, W words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from nlptools.configs.evaluate import Evaluate
from nlptools.configs.metrics import MetricRequest
from nlptools.errors import DataError, shown
from nlptools.files import streams
from nlptools.formats.conll import CONLLU
from nlptools.formats.examples import UniversalSentence
from nlptools.formats.reading_options import Options
from nlptools.formats.tag_schemes import place_of
from nlptools.formats.universal import DEPREL, FEATS, HEAD, UPOS, XPOS, read_universal
from nlptools.metrics.metric import Evaluation, MetricData, SavedRows, Sums, Table, Values, ratio

Fields = Sequence[str]  # the ten columns of a word
# relations of content words, and attributes that count for ufeats
_CONTENT = (
    "nsubj obj iobj csubj ccomp xcomp obl vocative expl dislocated advcl advmod discourse nmod appos nummod acl amod conj fixed"
    " flat compound list parataxis orphan goeswith reparandum root dep"
)
_UNIVERSAL = (
    "PronType NumType Poss Reflex Foreign Abbr Gender Animacy Number Case Definite Degree VerbForm Mood Tense Aspect Voice"
    " Evident Polarity Person Polite"
)
CONTENT, UNIVERSAL = frozenset(_CONTENT.split(" ")), frozenset(_UNIVERSAL.split(" "))


def features_of(text: str) -> list[str]:
    """`Attribute=Value` of a morphology, sorted; none for `_`."""
    return [] if text == "_" else sorted(text.split("|"))


def _universal_features(fields: Fields) -> list[str]:
    return [pair for pair in features_of(fields[FEATS]) if pair.partition("=")[0] in UNIVERSAL]


def relation(fields: Fields) -> str:
    """The relation without its subtype."""
    return fields[DEPREL].partition(":")[0]


class _Metric(NamedTuple):
    """What of a word is compared, and the label that a report has a line for; without subtypes of relations."""

    compared: Callable[[Fields], Hashable]
    label: Callable[[Fields], str]


_WORDS = {  # metrics with one decision per word
    "upos": _Metric(lambda fields: fields[UPOS], lambda fields: fields[UPOS]),
    "xpos": _Metric(lambda fields: fields[XPOS], lambda fields: fields[XPOS]),
    "feats": _Metric(lambda fields: tuple(features_of(fields[FEATS])), lambda fields: fields[UPOS]),
    "ufeats": _Metric(lambda fields: tuple(_universal_features(fields)), lambda fields: fields[UPOS]),
    "alltags": _Metric(
        lambda fields: (fields[UPOS], fields[XPOS], *_universal_features(fields)), lambda fields: fields[UPOS]
    ),
    "uas": _Metric(lambda fields: fields[HEAD], relation),
    "las": _Metric(lambda fields: (fields[HEAD], relation(fields)), relation),
}
_WITH_SUBTYPES = {"las": _Metric(lambda fields: (fields[HEAD], fields[DEPREL]), lambda fields: fields[DEPREL])}
_OF_TREES = ("uas", "las", "clas")
_COLUMNS: dict[str, Callable[[Fields], Hashable]] = {"feats": _WORDS["feats"].compared, "deprel": relation}


def share(gold: Sequence[UniversalSentence], predicted: Sequence[UniversalSentence], columns: Sequence[str]) -> float:
    """The share of words that are right in all of some columns, by their names; 0 without words."""
    compared = [_COLUMNS.get(name, itemgetter(CONLLU.index(name))) for name in columns]
    right = total = 0
    for ours, theirs in zip(gold, predicted, strict=True):
        total += len(ours.fields)
        right += sum(all(f(a) == f(b) for f in compared) for a, b in zip(ours.fields, theirs.fields, strict=True))
    return right / max(1, total)


def read_pair(gold: str, predicted: str, trees: bool, errors: str = "strict") -> MetricData:
    """The sentences of both files.

    Args:
        trees: heads are needed, and must be trees in both.

    Raises:
        DataError: a malformed file, or other words than in the gold file; with file and line.
        InputError, StreamError: see `streams.blocks`.
    """
    options = Options(trees=trees)
    sides = [list(read_universal(path, options, errors)) for path in streams.check_inputs([gold, predicted])]
    return MetricData(sides[1], sides[0], (gold, predicted))


def needs_trees(metrics: Sequence[str]) -> bool:
    """Whether one of the metrics compares heads."""
    return any(name in _OF_TREES for name in metrics)


def requested(requests: Sequence[MetricRequest], data: MetricData, options: Evaluate) -> Evaluation:
    """The metric that `nlptools evaluate` is asked for."""
    return evaluate(requests[0].metric, data.references, data.predictions, options.subtypes)


def evaluate(
    metric: str, gold: Sequence[UniversalSentence], predicted: Sequence[UniversalSentence], subtypes: bool = False
) -> Evaluation:
    """A metric of N sentences; the unit is a sentence. The details count correct, predicted and gold words of each relation
    or part of speech, or values of each attribute.

    Raises:
        DataError: no words, or the sentences have other words.
    """
    _check_words(gold, predicted)
    words = _WITH_SUBTYPES.get(metric, _WORDS.get(metric)) if subtypes else _WORDS.get(metric)
    pairs: Callable[[Fields], list[tuple[str, Hashable]]]
    if words is not None:
        pairs = lambda fields: [(words.label(fields), words.compared(fields))]  # noqa: E731
    elif metric == "clas":
        las = (_WITH_SUBTYPES if subtypes else _WORDS)["las"]
        pairs = lambda fields: [(las.label(fields), las.compared(fields))] if relation(fields) in CONTENT else []  # noqa: E731
    else:
        pairs = lambda fields: [(pair.partition("=")[0], pair) for pair in features_of(fields[FEATS])]  # noqa: E731
    return _counted(metric, gold, predicted, pairs, subtypes and metric in ("las", "clas"))


def _counted(
    metric: str,
    gold: Sequence[UniversalSentence],
    predicted: Sequence[UniversalSentence],
    pairs: Callable[[Fields], list[tuple[str, Hashable]]],
    subtypes: bool,
) -> Evaluation:
    """F1 of the decisions of all words; with one decision per word, this is their share that is right.

    `pairs`: the decisions of a word, each a label for the details and what is compared.
    """
    table = np.zeros((len(gold), 3), np.int64)  # correct, predicted, gold
    types: dict[str, Counter[str]] = {}
    for n, (ours, theirs) in enumerate(zip(gold, predicted, strict=True)):
        for right, found in zip(ours.fields, theirs.fields, strict=True):
            sides = pairs(right), pairs(found)
            known = {value for _, value in sides[1]}
            counts = {
                "correct": [label for label, value in sides[0] if value in known],
                "predicted": [label for label, _ in sides[1]],
                "gold": [label for label, _ in sides[0]],
            }
            for column, (name, labels) in enumerate(counts.items()):
                table[n, column] += len(labels)
                for label in labels:
                    types.setdefault(label, Counter())[name] += 1
    relations = (("subtypes", "counted" if subtypes else "ignored"),) if metric in ("las", "clas") else ()
    punctuation = (("punctuation", "counted"),) if metric in ("uas", "las") else ()
    return Evaluation((metric,), Sums(table), _f1, "sentences", (*relations, *punctuation),
                      {"types": {name: {key: types[name][key] for key in ("correct", "predicted", "gold")}
                                 for name in sorted(types)}}, columns=_COUNTED)  # fmt: skip


def merged(requests: Sequence[MetricRequest], saved: SavedRows, options: Evaluate) -> Evaluation:
    """The metric of saved rows, without details."""
    return Evaluation((requests[0].metric,), Sums(saved.table), _f1, "sentences", saved.items, columns=_COUNTED)


_COUNTED = ("correct", "predicted", "gold")


def _f1(sums: Table) -> Values:
    """(B, 3) correct, predicted and gold -> (B, 1)."""
    return ratio(2 * sums[:, :1], sums[:, 1:2] + sums[:, 2:])


def _check_words(gold: Sequence[UniversalSentence], predicted: Sequence[UniversalSentence]) -> None:
    """Raise DataError unless both sides have the same words, at least one."""
    if not any(sentence.words for sentence in gold):
        raise DataError("no words", path=gold[0].place.path if gold else None)
    for n, (ours, theirs) in enumerate(zip(gold, predicted), 1):
        for word, (right, found) in enumerate(zip(ours.words, theirs.words)):
            if right != found:
                where = place_of(ours, word)
                raise place_of(theirs, word).error(f"word {shown(found)}, expected {shown(right)} as in {where}", _HINT)
        if len(ours.words) != len(theirs.words):
            counts = f"{len(theirs.words)} words in sentence {n}, expected {len(ours.words)} as in {ours.place}"
            raise theirs.place.error(counts, _HINT)
    if len(gold) != len(predicted):
        raise DataError(
            f"{len(predicted)} sentences, expected {len(gold)}", path=predicted[0].place.path if predicted else None
        )


_HINT = "predictions are compared with gold ones of the same words"
