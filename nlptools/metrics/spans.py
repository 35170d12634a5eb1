"""Entity F1: entities of tagged sentences that have the right first token, last token and type.

Tjong Kim Sang & Buchholz 2000 (W00-0726) and Tjong Kim Sang & De Meulder 2003 (W03-0419) for the measure; Ramshaw &
Marcus 1995 (W95-0107) and Tjong Kim Sang & Veenstra 1999 (E99-1023) for the schemes. How tags become entities has to
be named:

    conlleval                                 as conlleval.pl (version of 2004-01-26) counts, to the printed digit. Made
                                              for IOB1 and IOB2; of other prefixes it knows E, [ and ] only, and takes
                                              B after E of the same type, or S after S, for one phrase
    lenient                                   the same for IOB1 and IOB2; knows B I E S; L and U are read as
                                              E and S. seqeval's default mode, which has no L and U
    iob1 iob2 ioe1 ioe2 iobes (bioes) bilou   tags against the scheme make no entity. seqeval's strict mode

Departures from seqeval: the scheme is never guessed; `BPER`, `O-PER` and prefixes foreign to the scheme are errors;
hyphens at the edges of a type belong to it. A bare `B` has the type `_`, as there.
Departure from conlleval: a sentence break follows the last sentence, whether or not the file ends with an empty line.
All tags are numbered once; where entities begin and end is looked up for all pairs of neighbours with numpy.
Shapes: N sentences, T tokens, E entities, C types, B resamples.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nlptools.errors import DataError, UsageError, display
from nlptools.formats.conll import Tags, check_aligned, encode
from nlptools.metrics.measures import Measures
from nlptools.metrics.ngrams import END
from nlptools.metrics.resampling import Values, Weights

Ints = NDArray[np.int64]
Numbers = NDArray[np.int32]  # one per token: large
Flags = NDArray[np.bool_]

AVERAGES = ("micro", "macro", "weighted")


class Rules(NamedTuple):
    """What two neighbouring tags mean.

    A rule is the prefix before, the prefix now, and how their types compare: `=` same, `/` other, `*` either. `*` is
    any prefix; `?` is one that conlleval does not know.
    """

    prefixes: str
    start: str  # an entity may begin now
    inside: str  # an entity that has begun goes on now
    end: str  # an entity that does not go on now was whole


RULES = {
    "conlleval": Rules(
        "OBIE[].?",
        "OB* OI* OE* BB* IB* EE* EI* *[* *]* *B/ *I/ *E/ *?/",
        "",
        "BB* BO* IB* IO* EE* EI* EO* [** ]** B*/ I*/ E*/ ?*/",
    ),
    "lenient": Rules("OBIES", "*B* *S* OI* OE* EI* EE* SI* SE* BI/ BE/ II/ IE/", "BI= BE= II= IE=", "***"),
    "iob1": Rules("OBI", "OI* BI* II/ IB= BB=", "BI= II=", "IO* IB* II/ BO* BI/ BB="),
    "iob2": Rules("OBI", "*B*", "BI= II=", "***"),
    "ioe1": Rules("OIE", "OI* EI* II/ EE=", "II= IE=", "IO* II/ IE/ EI= EE="),
    "ioe2": Rules("OIE", "OI* OE* EI* EE* II/ IE/", "II= IE=", "E**"),
    "iobes": Rules("OBIES", "*B* *S*", "BI= BE= II= IE=", "E** S**"),
    "bilou": Rules("OBILU", "*B* *U*", "BI= BL= II= IL=", "L** U**"),
}
RULES["bioes"] = RULES["iobes"]
SCHEMES = tuple(RULES)
_BILOU = {"L": "E", "U": "S"}  # seqeval's lenient mode has no BILOU, whose tags these are


def entities(
    gold: Tags | Iterable[Sequence[str]],
    predicted: Tags | Iterable[Sequence[str]],
    scheme: str,
    *,
    averages: Sequence[str] = ("micro",),
    by_type: bool = False,
    raw: bool = False,
    outside: str = "O",
) -> Measures:
    """Precision, recall and F1 of entities, and accuracy of tags, all from 0 to 1.

    Args:
        gold, predicted: what `conll.read_tags` gives, or one sequence of tags per sentence.
        scheme: one of `SCHEMES`.
        averages: "micro" gives `precision`, `recall`, `f1` of all entities; "macro", the mean over the types, and
            "weighted", that by the number of gold entities, give `macro_precision` and so on.
        by_type: also `precision:TYPE`, `recall:TYPE`, `f1:TYPE`. They are in the details anyway.
        raw: tags are bare types, each token an entity of its own, as with conlleval's -r.
        outside: the raw tag of no entity, as with conlleval's -o.

    What has nothing to divide by is 0. The details hold `tokens`, `correct_tags`, the numbers of `gold`, `predicted`
    and `correct` entities, and under `types` these numbers and the scores of each type.

    Raises:
        DataError: the numbers of sentences or of tokens differ, there are no sentences, or a tag is not of the scheme.
        UsageError: no such scheme or average, or `raw` with a scheme other than conlleval.
    """
    if scheme not in RULES:
        raise UsageError(f"no such scheme: {scheme!r}, expected one of {', '.join(SCHEMES)}")
    if not averages or not set(averages) <= set(AVERAGES):
        raise UsageError(f"no such averages: {list(averages)}, expected some of {', '.join(AVERAGES)}")
    if scheme != "conlleval" and (raw or outside != "O"):
        raise UsageError("raw tags and their outside tag belong to the scheme conlleval")
    tagged = [tags if isinstance(tags, Tags) else encode(tags) for tags in (gold, predicted)]
    check_aligned(*tagged)
    if not len(tagged[0].lengths):
        raise DataError("no sentences", path=tagged[0].path)
    counts = _count(tagged, scheme, outside if raw else None)
    return _measures(counts, scheme, averages, by_type, raw)


def conlleval_lines(measures: Measures) -> list[str]:
    """What conlleval prints, line by line, for the result of `entities`; numbers in percent."""
    told = measures.details
    precision, recall, f1 = _percent(told["correct"], told["predicted"], told["gold"])
    lines = [
        f"processed {told['tokens']} tokens with {told['gold']} phrases; "
        f"found: {told['predicted']} phrases; correct: {told['correct']}."
    ]
    if told["tokens"]:
        accuracy = 100 * told["correct_tags"] / told["tokens"]
        lines.append(
            f"accuracy: {accuracy:6.2f}%; precision: {precision:6.2f}%; recall: {recall:6.2f}%; FB1: {f1:6.2f}"
        )
    for name, row in told["types"].items():
        precision, recall, f1 = _percent(row["correct"], row["predicted"], row["gold"])
        padding = " " * (17 - len(name.encode("utf-8", "surrogatepass")))  # the script counts bytes
        line = (
            f"{padding}{name}: precision: {precision:6.2f}%; recall: {recall:6.2f}%; FB1: {f1:6.2f}  {row['predicted']}"
        )
        # The script drops a type that it has just seen, but does not recognise the empty one.
        lines += [line] * (2 if not name and row["gold"] and row["predicted"] else 1)
    return lines


# -- from tags to counts ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Counts:
    """What each sentence adds to the scores; C types, in order."""

    types: list[str]
    correct: Ints  # (N, C)
    predicted: Ints  # (N, C)
    gold: Ints  # (N, C)
    correct_tags: Ints  # (N,)
    tokens: Ints  # (N,)


class _Stream(NamedTuple):
    """The tags of all sentences, END between them, as numbers of prefix, type and both: (T + N,) each."""

    prefix: Numbers
    kind: Numbers
    label: Numbers


def _count(tagged: Sequence[Tags], scheme: str, outside: str | None) -> _Counts:
    """Count the entities of gold and predicted tags, which are aligned, by sentence and type."""
    parsed = [_parse(tags, scheme, outside) for tags in tagged]
    types = sorted({kind for tags in parsed for _, kind in tags})
    kinds = {kind: number for number, kind in enumerate(types)}
    labels = {label: number for number, label in enumerate({label for tags in parsed for label in tags})}
    known = RULES[scheme].prefixes
    streams = []
    for tags, pairs in zip(tagged, parsed):
        table = np.array(
            [(known.index(p if p in known else "?"), kinds[kind], labels[p, kind]) for p, kind in pairs], np.int32
        )
        streams.append(_Stream(*(column[tags.codes] for column in table.T)))
    gold, predicted = streams
    match = _match_conlleval if scheme == "conlleval" else _match
    at = match(gold, predicted, _flags(gold, scheme), _flags(predicted, scheme))

    lengths = tagged[0].lengths
    ends = np.cumsum(lengths + 1)

    def table_of(stream: _Stream, positions: Ints) -> Ints:
        cells = np.searchsorted(ends, positions, side="right") * len(types) + stream.kind[positions]
        return np.bincount(cells, minlength=len(lengths) * len(types)).reshape(len(lengths), len(types))

    hit = (gold.label == predicted.label) & (tagged[0].codes != END)
    correct, found, wanted = (table_of(stream, positions) for stream, positions in zip((gold, predicted, gold), at))
    return _Counts(types, correct, found, wanted, np.add.reduceat(hit, ends - lengths - 1, dtype=np.int64), lengths)


def _parse(tags: Tags, scheme: str, outside: str | None) -> list[tuple[str, str]]:
    """Prefix and type of each name of `tags`; the first, which ends a sentence, is outside of entities."""
    pairs = [("O", "")]
    for number, name in enumerate(tags.names[1:], 1):
        if outside is not None and name != "O":
            name = "O" if name == outside else f"B-{name}"
        prefix, hyphen, kind = name.partition("-")
        if scheme == "conlleval":
            if not hyphen:
                prefix, kind = name, ""
            pairs.append((prefix, "" if kind == "0" else kind))  # to Perl, "0" is as good as nothing
            continue
        if scheme == "lenient":
            prefix = _BILOU.get(prefix, prefix)
        if len(prefix) != 1 or prefix not in RULES[scheme].prefixes or (hyphen and (prefix == "O" or not kind)):
            _refuse(tags, number, scheme)
        pairs.append((prefix, kind if hyphen else "" if prefix == "O" else "_"))
    return pairs


def _refuse(tags: Tags, number: int, scheme: str) -> None:
    """Name the first place of a tag that does not belong to the scheme."""
    sentence, token = tags.place(int(np.flatnonzero(tags.codes == number)[0]))
    expected = ", ".join(f"{prefix}-TYPE" for prefix in RULES[scheme].prefixes[1:])
    where = "" if tags.path is not None else f" of token {token + 1} in sentence {sentence + 1}"
    raise DataError(
        f"malformed tag {display(tags.names[number])!r}{where}, expected O, {expected} ({scheme})",
        path=tags.path,
        line=tags.line(sentence, token),
    )


# -- where entities begin and end -------------------------------------------------------------------------------------


def _flags(stream: _Stream, scheme: str) -> tuple[Flags, Flags, Flags]:
    """Start, inside and end, by the rules, at each position and the one before; an O stands before the first."""
    rules = RULES[scheme]
    count = len(rules.prefixes)
    tables = np.zeros((3, count, count, 2), np.bool_)
    axes = (rules.prefixes, rules.prefixes, "/=")
    for table, written in zip(tables, rules[1:]):
        for rule in written.split():
            table[np.ix_(*([sign == "*" or sign == known for known in axis] for sign, axis in zip(rule, axes)))] = True
    before = np.concatenate([stream.prefix[-1:], stream.prefix[:-1]])  # the last is the end of a sentence: an O
    same = stream.kind == np.concatenate([stream.kind[-1:], stream.kind[:-1]])
    pair = (before * count + stream.prefix) * 2 + same
    start, inside, end = (table.ravel()[pair] for table in tables)
    return start, inside, end


def _match(
    gold: _Stream, predicted: _Stream, gold_flags: tuple[Flags, ...], predicted_flags: tuple[Flags, ...]
) -> tuple[Ints, Ints, Ints]:
    """First tokens of the correct, the predicted and the gold entities."""
    (gold_start, gold_end), (start, end) = _spans(*gold_flags), _spans(*predicted_flags)
    ends = np.full(len(gold.kind), -1, gold_end.dtype)
    ends[gold_start] = gold_end
    correct = start[(ends[start] == end) & (gold.kind[start] == predicted.kind[start])]
    return correct, start, gold_start


def _spans(start: Flags, inside: Flags, end: Flags) -> tuple[Ints, Ints]:
    """First token, and the one after the last, of each entity: (E,) each.

    From its start, an entity goes on as long as `inside` holds; only where it stops may the next one start. Without
    `end` at that place it is none.
    """
    within = _last(start) > _last(~(start | inside))
    begins = np.flatnonzero(start & ~(inside & np.concatenate([[False], within[:-1]])))
    stops = np.flatnonzero(~inside)  # the end of the last sentence is one
    after = stops[np.searchsorted(stops, begins, side="right")]
    whole = end[after]
    return begins[whole], after[whole]


def _last(flags: Flags) -> Numbers | Ints:
    """The place of the last flag so far, -1 before the first: (T + N,)."""
    place = np.arange(len(flags), dtype=np.int32 if len(flags) < 2**31 else np.int64)
    place[~flags] = -1
    return np.maximum.accumulate(place, out=place)


def _match_conlleval(
    gold: _Stream, predicted: _Stream, gold_flags: tuple[Flags, ...], predicted_flags: tuple[Flags, ...]
) -> tuple[Ints, Ints, Ints]:
    """Last tokens of the correct phrases, first tokens of the predicted and of the gold ones.

    The script reads on: where both start a phrase of one type, it is right until further notice; where one ends or the
    types differ, it is so no longer; where both end, it was right. Phrases that start are counted, whether or not
    they end, which only prefixes unknown to the script can bring about.
    """
    (gold_start, _, gold_end), (start, _, end) = gold_flags, predicted_flags
    same = gold.kind == predicted.kind
    agreed = _last(gold_start & start & same)
    broken = _last(gold_end | end | ~same)
    right = (agreed >= broken) & (agreed >= 0)
    correct = np.flatnonzero(gold_end[1:] & end[1:] & right[:-1])
    if right[-1]:
        correct = np.append(correct, len(same) - 1)
    return correct, np.flatnonzero(start), np.flatnonzero(gold_start)


# -- from counts to scores --------------------------------------------------------------------------------------------


def _measures(counts: _Counts, scheme: str, averages: Sequence[str], by_type: bool, raw: bool) -> Measures:
    parts = (counts.correct, counts.predicted, counts.gold, counts.correct_tags[:, None], counts.tokens[:, None])
    table = np.concatenate(parts, axis=1).astype(np.float64)  # (N, 3 C + 2): exact, and a fast matrix product
    size = len(counts.types)
    found = np.flatnonzero(counts.predicted.any(axis=0) | counts.gold.any(axis=0))

    def compute(weights: Weights) -> Values:
        sums = weights.astype(np.float64) @ table
        correct, predicted, gold = np.split(sums[:, : 3 * size], 3, axis=1)
        each = _scores(correct, predicted, gold)  # (3, B, C)
        columns: list[Values] = []
        for average in averages:
            if average == "micro":
                columns += [*_scores(correct.sum(axis=1), predicted.sum(axis=1), gold.sum(axis=1))]
            else:
                share = gold if average == "weighted" else (predicted + gold > 0).astype(np.float64)
                columns += [*_ratio((each * share).sum(axis=2), share.sum(axis=1)[None])]
        columns.append(_ratio(sums[:, -2], sums[:, -1]))
        if by_type:
            columns += [each[score][:, kind] for kind in found for score in range(3)]
        return np.stack(columns, axis=1)

    scores = ("precision", "recall", "f1")
    names = [score if average == "micro" else f"{average}_{score}" for average in averages for score in scores]
    names.append("accuracy")
    if by_type:
        names += [f"{score}:{counts.types[kind]}" for kind in found for score in scores]
    signature = (("metric", "entities"), ("scheme", scheme), *((("tags", "raw"),) if raw else ()))
    return Measures(tuple(names), len(table), "sentences", compute, signature, _details(counts, found))


def _details(counts: _Counts, found: Ints) -> dict[str, Any]:
    """The counts of all sentences, and by type."""
    totals = {"gold": counts.gold.sum(0), "predicted": counts.predicted.sum(0), "correct": counts.correct.sum(0)}
    each = _scores(*(totals[key].astype(np.float64) for key in ("correct", "predicted", "gold")))
    rows = {
        counts.types[kind]: {
            **{key: int(total[kind]) for key, total in totals.items()},
            **{key: float(score[kind]) for key, score in zip(("precision", "recall", "f1"), each)},
        }
        for kind in found
    }
    return {
        "tokens": int(counts.tokens.sum()),
        "correct_tags": int(counts.correct_tags.sum()),
        **{key: int(total.sum()) for key, total in totals.items()},
        "types": rows,
    }


def _scores(correct: Values, predicted: Values, gold: Values) -> Values:
    """Precision, recall and F1, stacked in front."""
    return np.stack([_ratio(correct, predicted), _ratio(correct, gold), _ratio(2 * correct, predicted + gold)])


def _ratio(part: Values, whole: Values) -> Values:
    """`part` / `whole`; 0 where there is nothing to divide by."""
    return np.divide(part, whole, out=np.zeros(np.broadcast_shapes(part.shape, whole.shape)), where=whole > 0)


def _percent(correct: int, predicted: int, gold: int) -> tuple[float, float, float]:
    """Precision, recall and F1 in percent, in the script's order of operations."""
    precision = 100 * correct / predicted if predicted else 0.0
    recall = 100 * correct / gold if gold else 0.0
    return precision, recall, 2 * precision * recall / (precision + recall) if precision + recall else 0.0
