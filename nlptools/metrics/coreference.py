"""Coreference chains compared with gold chains: MUC, B-cubed, CEAF_e, LEA, and the average of CoNLL-2012.

MUC: Vilain et al. 1995 (M95-1005), the links that are missing. B-cubed: Bagga & Baldwin 1998, the chain of each mention.
CEAF_e: Luo 2005 (H05-1004), each gold chain against one predicted chain at most, by phi_4. LEA: Moosavi & Strube 2016
(P16-1060), the links of each chain, weighted by its size. `conll` is the mean F1 of the first three (Pradhan et al. 2012,
W12-4501). Values lie between 0 and 1 and are as the official scorer defines them (Pradhan et al. 2014, P14-2006): a mention is
right if its span is; chains of one mention count as any chain (they have no link for MUC, and one to themselves for LEA);
numerators and denominators are summed over documents.
Departure from the official scorer: a span that is repeated in the gold chains, or among wrong mentions, counts once.
Shapes: N documents, G gold and P predicted chains of one, B sums (resamples).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from nlptools.configs.evaluate import Evaluate
from nlptools.configs.metrics import CHAIN_METRICS, MetricRequest
from nlptools.errors import DataError, display, shown
from nlptools.formats.chains import read_key
from nlptools.formats.examples import Chain
from nlptools.messages import counted
from nlptools.metrics.assignment import best_assignment
from nlptools.metrics.metric import Evaluation, Floats, MetricData, SavedRows, Sums, Table, ratio, select

Chains = Sequence[Chain]  # of a document
PARTS = ("recall", "precision")
_AVERAGED = ("muc", "b-cubed", "ceaf-e")  # into conll


def coreference(gold: Sequence[Chains], predicted: Sequence[Chains]) -> Evaluation:
    """All metrics: F1 as NAME, NAME:recall, NAME:precision, and `conll`. The unit is a document.

    Args:
        gold, predicted: the chains of each document, each chain a sequence of (first word, last word).

    Raises:
        DataError: no documents, or unequal numbers of them.
    """
    if len(gold) != len(predicted):
        raise DataError(f"unequal numbers of documents: {len(gold)} gold, {len(predicted)} predicted")
    if not gold:
        raise DataError("no documents")
    return _evaluation(np.array([_statistics(_unique(g), _unique(p)) for g, p in zip(gold, predicted, strict=True)]))


def _evaluation(table: Table) -> Evaluation:
    """All metrics of N documents with these statistics: (N, C)."""
    metrics = CHAIN_METRICS[:-1]
    names = [name for metric in metrics for name in (metric, *(f"{metric}:{part}" for part in PARTS))]

    def scores(sums: Table) -> Floats:
        shares = ratio(sums[:, 0::2], sums[:, 1::2]).reshape(len(sums), len(metrics), 2)
        f1 = ratio(2 * shares.prod(2), shares.sum(2))
        conll = f1[:, [metrics.index(name) for name in _AVERAGED]].mean(1)
        return np.concatenate([np.concatenate([f1[:, :, None], shares], 2).reshape(len(sums), -1), conll[:, None]], 1)

    columns = tuple(f"{m}:{part}:{number}" for m in metrics for part in PARTS for number in ("correct", "all"))
    names.append(CHAIN_METRICS[-1])
    return Evaluation(tuple(names), Sums(table), scores, "documents", (("match", "exact"),), columns=columns)


def _unique(chains: Chains) -> list[list[tuple[int, int]]]:
    """The chains without repeated mentions and without those that have no other."""
    seen: set[tuple[int, int]] = set()
    unique = []
    for chain in chains:
        spans = [(first, last) for first, last in dict.fromkeys(map(tuple, chain)) if (first, last) not in seen]
        seen.update(spans)
        unique.append(spans)
    return [spans for spans in unique if spans]


def _statistics(gold: list[list[tuple[int, int]]], predicted: list[list[tuple[int, int]]]) -> list[float]:
    """For each metric: numerator and denominator of the recall, then of the precision."""
    row = {span: g for g, spans in enumerate(gold) for span in spans}
    column = {span: p for p, spans in enumerate(predicted) for span in spans}
    shared = Counter((g, column[span]) for span, g in row.items() if span in column)
    common = np.zeros((len(gold), len(predicted)))
    for place, count in shared.items():
        common[place] = count
    sizes = np.array(list(map(len, gold)), float), np.array(list(map(len, predicted)), float)
    similarity = _entity_similarity(common, *sizes)
    ceaf = [similarity, float(len(gold)), similarity, float(len(predicted))]
    recall, precision = _of_mentions(common, *sizes), _of_mentions(common.T, *sizes[::-1])
    muc, b_cubed, lea = ([*recall[i], *precision[i]] for i in range(3))
    return [*muc, *b_cubed, *ceaf, *lea]


def _of_mentions(common: Table, sizes: Table, others: Table) -> tuple[tuple[float, float], ...]:
    """Numerator and denominator of MUC, B-cubed and LEA.

    Args:
        common: (G, P), the number of mentions that a chain shares with each of the other chains.
        sizes: (G,), the mentions of each chain.
        others: (P,), the mentions of each of the other chains.
    """
    found, mentions = common.sum(1), float(sizes.sum())
    parts = (common > 0).sum(1) + sizes - found  # a missing mention is a part by itself
    muc = float((sizes - parts).sum()), float((sizes - 1).sum())
    b_cubed = float(((common**2).sum(1) / np.maximum(1, sizes)).sum()), mentions
    links, all_links = (common * (common - 1) / 2).sum(1), sizes * (sizes - 1) / 2
    alone = sizes == 1
    links = np.where(alone, (common * (others == 1)).sum(1), links)
    lea = float((sizes * links / np.where(alone, 1, np.maximum(1, all_links))).sum()), mentions
    return muc, b_cubed, lea


def _entity_similarity(common: Table, sizes: Table, others: Table) -> float:
    """The similarity phi_4 of the best assignment of chains to chains."""
    rows, columns = np.flatnonzero(common.any(1)), np.flatnonzero(common.any(0))
    if not len(rows):
        return 0.0
    similar = (2 * common / (sizes[:, None] + others))[np.ix_(rows, columns)]
    return float(sum(similar[place] for place in best_assignment(similar)))


def requested(requests: Sequence[MetricRequest], data: MetricData, options: Evaluate) -> Evaluation:
    """The values that `nlptools evaluate` is asked for."""
    return _selected(coreference(data.references, data.predictions), requests)


def merged(requests: Sequence[MetricRequest], saved: SavedRows, options: Evaluate) -> Evaluation:
    """The values of saved rows."""
    return _selected(_evaluation(saved.table), requests)


def _selected(evaluation: Evaluation, requests: Sequence[MetricRequest]) -> Evaluation:
    values = [r.metric if r.value in ("", "f1") else f"{r.metric}:{r.value}" for r in requests]
    return select(evaluation, values, values)


def read_files(gold: str, predicted: str, errors: str = "strict") -> MetricData:
    """The chains of the documents of two files, in the order of the first.

    Raises:
        DataError: a document is missing in one of the files, or has another number of words there. And see `chains.read_key`.
    """
    keys, responses = ({document.name: document for document in read_key(path, errors)} for path in (gold, predicted))
    for these, others, other_path in ((keys, responses, predicted), (responses, keys, gold)):
        for name, document in these.items():
            if name not in others:
                hint = "both files have the same documents; one without chains has - in the last column"
                message = f"document {shown(name)} is missing in {display(other_path)}"
                raise document.place.error(message, hint)
    for name, response in responses.items():
        key = keys[name]
        if len(key.words) != len(response.words):
            message = (
                f"{counted(len(response.words), 'word')} in document {shown(name)}, {len(key.words)} in {key.place}"
            )
            raise response.place.error(message, "both files have the same words, a line for each")
    right = [keys[name].chains or () for name in keys]
    return MetricData([responses[name].chains or () for name in keys], right, (gold, predicted))
