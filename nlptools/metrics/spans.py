"""Entity F1: an entity of a tagged sentence is correct if its first token, last token and type are right.

Tjong Kim Sang & Buchholz 2000 (W00-0726) and Tjong Kim Sang & De Meulder 2003 (W03-0419). The user names the scheme by
which tags become entities (its rules are in `formats.tag_rules`):

    conlleval                                 as conlleval.pl (version of 2004-01-26) counts, to the printed digit. It
                                              is for IOB1 and IOB2; of other prefixes it knows only E, [ and ], and reads
                                              B after E of the same type, or S after S, as one phrase
    lenient                                   the same for IOB1 and IOB2; knows all of B I E S, and reads L and U as E and S.
                                              seqeval's default mode, which has no L and U
    iob1 iob2 ioe1 ioe2 iobes (bioes) bilou   tags that break the scheme form no entity. seqeval's strict mode

Departures from seqeval: only `nlptools evaluate` without --scheme looks for the scheme of tags; `BPER`, `O-PER` and prefixes that
the scheme lacks are errors; hyphens at the edges of a type belong to it. A bare `B` has the type `_`, as in seqeval.
Departure from conlleval: a sentence break follows the last sentence, whether or not the file ends with an empty line.
All tags are encoded once; the starts and ends of entities are looked up for all pairs of neighbours with numpy.
Shapes: N sentences, T tokens, E entities, C types, B sums (resamples).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nlptools import messages
from nlptools.configs.evaluate import Evaluate
from nlptools.configs.metrics import MetricRequest
from nlptools.errors import UsageError
from nlptools.formats.tag_rules import RULES, neighbours, tags_expected
from nlptools.formats.tag_schemes import is_span_tag
from nlptools.metrics.classification import precision_recall_f1
from nlptools.metrics.metric import (
    Details,
    Evaluation,
    Floats,
    Ints,
    MetricData,
    SavedRows,
    Sums,
    Table,
    Values,
    ratio,
    select,
    titles,
)
from nlptools.metrics.ngrams import END
from nlptools.metrics.tags import Tags, aligned, with_documents

Numbers = NDArray[np.int32]  # one per token: large
Flags = NDArray[np.bool_]

AVERAGES = ("micro", "macro", "weighted")
KINDS = ("precision", "recall", "f1")
_PARTS = ("correct", "predicted", "gold")  # the counts of entities
SCHEMES = tuple(RULES)
_BILOU = {"L": "E", "U": "S"}  # tags of BILOU, which seqeval's lenient mode does not know


def entities(
    gold: Tags | Iterable[Sequence[str]],
    predicted: Tags | Iterable[Sequence[str]],
    scheme: str,
    *,
    averages: Sequence[str] = ("micro",),
    by_type: bool = False,
    raw: bool = False,
    outside: str = "O",
) -> Evaluation:
    """Precision, recall and F1 of entities, and accuracy of tags, all from 0 to 1.

    Args:
        gold, predicted: as returned by `tags.read_tags`, or one sequence of tags per sentence.
        scheme: one of `SCHEMES`.
        averages: "micro": `precision`, `recall`, `f1` of all entities; "macro": the means over the types, and "weighted":
            the means weighted by the number of gold entities, as `macro_precision` and so on.
        by_type: also `precision:TYPE`, `recall:TYPE`, `f1:TYPE`, which the details always hold.
        raw: tags are bare types, each token a separate entity, as with conlleval's -r.
        outside: the raw tag of no entity, as with conlleval's -o.

    A ratio with nothing to divide by is 0. The details hold `tokens`, `correct_tags`, the numbers of `gold`, `predicted`
    and `correct` entities, and under `types` these numbers and the scores of each type.

    Raises:
        DataError: the numbers of sentences or of tokens differ, there are no sentences, or a tag does not fit the scheme.
        UsageError: no such scheme or average, or `raw` with a scheme other than conlleval.
    """
    if scheme not in RULES:
        raise UsageError(f"no such scheme: {scheme!r}, expected one of {', '.join(SCHEMES)}")
    if not averages or not set(averages) <= set(AVERAGES):
        raise UsageError(f"no such averages: {list(averages)}, expected some of {', '.join(AVERAGES)}")
    if scheme != "conlleval" and (raw or outside != "O"):
        raise UsageError("raw tags and their outside tag belong to the scheme conlleval")
    tagged = aligned(gold, predicted)
    counts = _count(tagged, scheme, outside if raw else None)
    return _evaluation(counts, scheme, averages, by_type, raw)


def requested(requests: Sequence[MetricRequest], data: MetricData, options: Evaluate) -> Evaluation:
    """The values of entity-f1 that `nlptools evaluate` is asked for."""
    average, by_type = _averaging(requests, options)
    gold, predicted = aligned(data.references, data.predictions)
    evaluation = entities(
        gold,
        predicted,
        options.scheme or ("conlleval" if options.raw else _noticed((gold, predicted))),
        averages=("micro",) if average == "none" else (average,),
        by_type=by_type,
        raw=options.raw,
        outside=options.outside,
    )
    return _selected(requests, with_documents(evaluation, options), average)


def merged(requests: Sequence[MetricRequest], saved: SavedRows, options: Evaluate) -> Evaluation:
    """The values of entity-f1 of saved rows."""
    place = {name: number for number, name in enumerate(saved.columns)}
    types = sorted({name.partition(":")[2] for name in saved.columns if ":" in name})
    table = saved.table.astype(np.int64)
    correct, predicted, gold = (table[:, [place[f"{part}:{kind}"] for kind in types]] for part in _PARTS)
    counts = _Counts(types, correct, predicted, gold, table[:, place["correct_tags"]], table[:, place["tokens"]])
    average, by_type = _averaging(requests, options)
    evaluation = _evaluation(counts, "", ("micro",) if average == "none" else (average,), by_type, options.raw)
    return _selected(requests, replace(evaluation, items=saved.items), average)


def _averaging(requests: Sequence[MetricRequest], options: Evaluate) -> tuple[str, bool]:
    """The average, and whether values of types are requested. Raises UsageError."""
    average = options.average or "micro"
    if average == "binary":
        raise UsageError("--average binary is for labels: entities have types; expected micro, macro, weighted or none")
    return average, average == "none" or any(":" in request.value for request in requests)


def _selected(requests: Sequence[MetricRequest], evaluation: Evaluation, average: str) -> Evaluation:
    """The requested values."""
    if average != "micro":  # precision is macro_precision, or the precision of each type
        each = {kind: [name for name in evaluation.names if name.startswith(f"{kind}:")] for kind in KINDS}
        each |= {kind: [f"{average}_{kind}"] for kind in KINDS if average != "none"}
        requests = [r._replace(value=value) for r in requests for value in each.get(r.value, [r.value])]
    return select(evaluation, *titles(requests, evaluation.names))


def _noticed(tagged: Sequence[Tags]) -> str:
    """bioes or bilou if tags have prefixes of it that conlleval does not know, with a warning; else conlleval.

    Tags that belong to neither are counted by conlleval's rules.
    """
    names = {name for tags in tagged for name in tags.names[1:]} - {"O"}
    prefixes = {name[0] for name in names if is_span_tag(name)}
    found = "bilou" if prefixes & {"L", "U"} else "bioes" if "S" in prefixes or {"B", "E"} <= prefixes else None
    if found is None:
        return "conlleval"
    if all(map(is_span_tag, names)) and prefixes <= set(RULES[found].prefixes):
        messages.warn(
            f"the tags look like {found}: they count as with --scheme {found}; --scheme conlleval takes CoNLL's rules"
        )
        return found
    messages.warn(f"some tags look like {found}, but not all: conlleval's rules count them; --scheme names others")
    return "conlleval"


def conlleval_lines(evaluation: Evaluation) -> list[str]:
    """The lines that conlleval prints, for the result of `entities`; numbers in percent."""
    details = evaluation.details
    precision, recall, f1 = _percent(details["correct"], details["predicted"], details["gold"])
    lines = [
        f"processed {details['tokens']} tokens with {details['gold']} phrases; "
        f"found: {details['predicted']} phrases; correct: {details['correct']}."
    ]
    if details["tokens"]:
        accuracy = 100 * details["correct_tags"] / details["tokens"]
        lines.append(
            f"accuracy: {accuracy:6.2f}%; precision: {precision:6.2f}%; recall: {recall:6.2f}%; FB1: {f1:6.2f}"
        )
    for name, row in details["types"].items():
        precision, recall, f1 = _percent(row["correct"], row["predicted"], row["gold"])
        padding = " " * (17 - len(name.encode("utf-8", "surrogatepass")))  # the script counts bytes
        line = (
            f"{padding}{name}: precision: {precision:6.2f}%; recall: {recall:6.2f}%; FB1: {f1:6.2f}  {row['predicted']}"
        )
        # The script drops repeated types, but does not recognise the empty type as one.
        lines += [line] * (2 if not name and row["gold"] and row["predicted"] else 1)
    return lines


# -- from tags to counts ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Counts:
    """The statistics of each sentence; C types, in order."""

    types: list[str]
    correct: Ints  # (N, C)
    predicted: Ints  # (N, C)
    gold: Ints  # (N, C)
    correct_tags: Ints  # (N,)
    tokens: Ints  # (N,)


class _Stream(NamedTuple):
    """The tags of all sentences, END after each, as ids of prefix, type and both: (T + N,) each."""

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
    correct, in_predicted, in_gold = (
        table_of(stream, positions) for stream, positions in zip((gold, predicted, gold), at)
    )
    return _Counts(
        types, correct, in_predicted, in_gold, np.add.reduceat(hit, ends - lengths - 1, dtype=np.int64), lengths
    )


def _parse(tags: Tags, scheme: str, outside: str | None) -> list[tuple[str, str]]:
    """Prefix and type of each name of `tags`; the first name, which ends a sentence, is outside of entities."""
    pairs = [("O", "")]
    for number, name in enumerate(tags.names[1:], 1):
        if outside is not None and name != "O":
            name = "O" if name == outside else f"B-{name}"
        prefix, hyphen, kind = name.partition("-")
        if scheme == "conlleval":
            if not hyphen:
                prefix, kind = name, ""
            pairs.append((prefix, "" if kind == "0" else kind))  # Perl treats "0" as empty
            continue
        if scheme == "lenient":
            prefix = _BILOU.get(prefix, prefix)
        if len(prefix) != 1 or prefix not in RULES[scheme].prefixes or (hyphen and (prefix == "O" or not kind)):
            raise tags.error(number, "malformed tag", f", expected {tags_expected(scheme)} ({scheme})")
        pairs.append((prefix, kind if hyphen else "" if prefix == "O" else "_"))
    return pairs


# -- where entities begin and end -------------------------------------------------------------------------------------


def _flags(stream: _Stream, scheme: str) -> tuple[Flags, Flags, Flags]:
    """Start, inside and end, by the rules, for each position and the one before; an O precedes the first."""
    prefixes = RULES[scheme].prefixes
    count = len(prefixes)
    tables = np.zeros((3, count, count, 2), np.bool_)
    for table, rule in zip(tables, neighbours(scheme)):
        for one, other, same_type in rule:
            table[prefixes.index(one), prefixes.index(other), int(same_type)] = True
    before = np.concatenate([stream.prefix[-1:], stream.prefix[:-1]])  # the last position ends a sentence: an O
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

    An entity continues from its start as long as `inside` holds; the next one may start only where it stops. Without
    `end` at that position it is no entity.
    """
    within = _last(start) > _last(~(start | inside))
    begins = np.flatnonzero(start & ~(inside & np.concatenate([[False], within[:-1]])))
    stops = np.flatnonzero(~inside)  # the end of the last sentence is a stop
    after = stops[np.searchsorted(stops, begins, side="right")]
    whole = end[after]
    return begins[whole], after[whole]


def _last(flags: Flags) -> Numbers | Ints:
    """The position of the last flag so far, -1 before the first: (T + N,)."""
    place = np.arange(len(flags), dtype=np.int32 if len(flags) < 2**31 else np.int64)
    place[~flags] = -1
    return np.maximum.accumulate(place, out=place)


def _match_conlleval(
    gold: _Stream, predicted: _Stream, gold_flags: tuple[Flags, ...], predicted_flags: tuple[Flags, ...]
) -> tuple[Ints, Ints, Ints]:
    """Last tokens of the correct phrases, first tokens of the predicted and of the gold ones.

    The script reads token by token. Where both sides start a phrase of the same type, it assumes that the phrase is
    correct; where one side ends or the types differ, it drops the assumption; where both end, it counts a correct phrase.
    Phrases are counted at their start, whether or not they end; only prefixes unknown to the script start one without end.
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


def _evaluation(counts: _Counts, scheme: str, averages: Sequence[str], by_type: bool, raw: bool) -> Evaluation:
    parts = (counts.correct, counts.predicted, counts.gold, counts.correct_tags[:, None], counts.tokens[:, None])
    table = np.concatenate(parts, axis=1)  # (N, 3 C + 2)
    size = len(counts.types)
    found = np.flatnonzero(counts.predicted.any(axis=0) | counts.gold.any(axis=0))

    def scores(sums: Table) -> Floats:
        correct, predicted, gold = np.split(sums[:, : 3 * size], 3, axis=1)
        each = precision_recall_f1(correct, predicted, gold)  # (3, B, C)
        columns: list[Values] = []
        for average in averages:
            if average == "micro":
                columns += [*precision_recall_f1(correct.sum(axis=1), predicted.sum(axis=1), gold.sum(axis=1))]
            else:
                share = gold if average == "weighted" else (predicted + gold > 0).astype(np.float64)
                columns += [*ratio((each * share).sum(axis=2), share.sum(axis=1)[None])]
        columns.append(ratio(sums[:, -2], sums[:, -1]))
        if by_type:
            columns += [each[kind][:, type] for type in found for kind in range(3)]
        return np.stack(columns, axis=1)

    names = [kind if average == "micro" else f"{average}_{kind}" for average in averages for kind in KINDS]
    names.append("accuracy")
    if by_type:
        names += [f"{kind}:{counts.types[type]}" for type in found for kind in KINDS]
    signature = (("metric", "entities"), ("scheme", scheme), *((("tags", "raw"),) if raw else ()))
    columns = tuple(f"{part}:{kind}" for part in _PARTS for kind in counts.types)
    details = _details(counts, found)
    return Evaluation(
        tuple(names), Sums(table), scores, "sentences", signature, details, columns=(*columns, "correct_tags", "tokens")
    )


def _details(counts: _Counts, found: Ints) -> Details:
    """The counts over all sentences, in all and by type."""
    totals = {"gold": counts.gold.sum(0), "predicted": counts.predicted.sum(0), "correct": counts.correct.sum(0)}
    each = precision_recall_f1(*(totals[key].astype(np.float64) for key in ("correct", "predicted", "gold")))
    rows = {
        counts.types[kind]: {
            **{key: int(total[kind]) for key, total in totals.items()},
            **{key: float(score[kind]) for key, score in zip(KINDS, each)},
        }
        for kind in found
    }
    return {
        "tokens": int(counts.tokens.sum()),
        "correct_tags": int(counts.correct_tags.sum()),
        **{key: int(total.sum()) for key, total in totals.items()},
        "types": rows,
    }


def _percent(correct: int, predicted: int, gold: int) -> tuple[float, float, float]:
    """Precision, recall and F1 in percent, in the script's order of operations."""
    precision = 100 * correct / predicted if predicted else 0.0
    recall = 100 * correct / gold if gold else 0.0
    return precision, recall, 2 * precision * recall / (precision + recall) if precision + recall else 0.0
