"""Approximate nearest neighbors by a graph, for searches in millions of vectors.

Malkov & Yashunin 2018, "Efficient and robust approximate nearest neighbor search using hierarchical navigable small world graphs"
(arXiv:1603.09320), by the package hnswlib. The graph gives candidates; their scores are computed again, exactly. An index is a
directory: the graph, and a record with the sum of the vectors that it is of.
Shapes: Q queries, V vectors, D dimensions.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nlptools import messages
from nlptools.arrays import Floats, Longs
from nlptools.errors import BundleError, Unavailable, UsageError, display
from nlptools.files import artifacts, progress, whole_directory
from nlptools.vectors.comparisons import METRICS
from nlptools.vectors.nearest import Neighbor, nearest_to
from nlptools.vectors.rows import scaled

if TYPE_CHECKING:
    from nlptools.vectors.table import Vectors

_SPACES = {"cosine": "cosine", "euclidean": "l2", "dot": "ip"}
_GRAPH, _RECORD = "graph.bin", "index.json"
_LINKS, _BUILD, _SEARCH = 16, 200, 200  # links of a vector; candidates while building and, at least, while searching
_CHECKED = 100  # queries that are also searched exactly


class GraphIndex:
    """See the module's docstring.

    Attributes:
        recall: the share of the true neighbors that were found, of the first queries; None before the first.
    """

    def __init__(self, table: Vectors, metric: str, graph: Any) -> None:
        self.table, self.metric, self.graph = table, metric, graph
        self._found = self._true = self._checked = 0

    @classmethod
    def opened(cls, directory: str, table: Vectors, metric: str) -> GraphIndex:
        """The index in a directory, which is made if it does not exist.

        Raises:
            Unavailable: without hnswlib.
            UsageError: the index is of other vectors, or for another metric.
            BundleError: it is damaged.
        """
        package = _package()
        where = Path(directory)
        record = {"vectors": len(table), "dimensions": table.dimensions, "metric": metric, "sha256": _digest(table)}
        if not (where / _RECORD).is_file():
            graph = _built(package, table, metric)
            whole_directory.check_target(directory, "an index", lambda path: False, force=False)
            with whole_directory.replacing(directory) as folder:
                graph.save_index(str(folder / _GRAPH))
                artifacts.write_json(folder / _RECORD, record)
                artifacts.write_manifest(folder, [_GRAPH, _RECORD])
            return cls(table, metric, graph)
        if not artifacts.verify(where):
            raise BundleError(f"{display(directory)}: no {artifacts.MANIFEST}: not an index of neighbors")
        if artifacts.read_json(where / _RECORD) != record:
            message = f"{display(directory)}: an index of other vectors, or for another --metric"
            raise UsageError(message, hint="name a new directory for the index, or remove this one")
        graph = package.Index(space=_SPACES[metric], dim=table.dimensions)
        graph.load_index(str(where / _GRAPH), max_elements=len(table))
        return cls(table, metric, graph)

    def nearest_to(self, rows: Floats, k: int) -> list[list[Neighbor]]:
        """The approximate neighbors of each query (Q, D), nearest first."""
        count = min(k, len(self.table))
        self.graph.set_ef(max(_SEARCH, 4 * count))
        labels, _ = self.graph.knn_query(np.asarray(rows, np.float32), k=count)
        found = [self._scored(row, places) for row, places in zip(rows, labels.astype(np.int64), strict=True)]
        self._check(rows, found, count)
        return found

    def _scored(self, row: Floats, places: Longs) -> list[Neighbor]:
        """The neighbors at `places`, by exact scores."""
        metric = METRICS[self.metric]
        vectors, query = self.table.take(places.tolist()).astype(np.float64), row[None].astype(np.float64)
        if metric.unit:
            vectors, query = scaled(vectors), scaled(query)
        scores = metric.exact(vectors, np.repeat(query, len(vectors), 0).astype(np.float32))
        order = np.argsort(-scores, kind="stable")
        return [Neighbor(self.table.words[int(places[i])], metric.sign * float(scores[i])) for i in order]

    def _check(self, rows: Floats, found: list[list[Neighbor]], k: int) -> None:
        """Compare the first queries with the exact search."""
        some = min(_CHECKED - self._checked, len(rows))
        if some <= 0:
            return
        exact = nearest_to(self.table, rows[:some], k, metric=self.metric)
        for own, true in zip(found, exact, strict=False):
            sign = METRICS[self.metric].sign
            least = sign * true[-1].score - 1e-6
            hits = sum(sign * each.score >= least for each in own)
            self._found, self._true = self._found + min(hits, len(true)), self._true + len(true)
        self._checked += some

    def finish(self) -> None:
        """Report the recall."""
        if self._true:
            queries = messages.counted(self._checked, "query", "queries")
            messages.note(
                f"recall of the index {self._found / self._true:.4f}, of {queries} compared with the exact search"
            )


def _package() -> Any:
    try:
        import hnswlib
    except ImportError:
        raise Unavailable("--index needs the package hnswlib", extra="ann") from None
    return hnswlib


def _digest(table: Vectors) -> str:
    """SHA-256 of all vectors."""
    total = hashlib.sha256()
    for _, block in table.blocks(check=False):
        total.update(np.ascontiguousarray(block).data)
    return total.hexdigest()


def _built(package: Any, table: Vectors, metric: str) -> Any:
    """A new graph."""
    graph = package.Index(space=_SPACES[metric], dim=table.dimensions)
    graph.init_index(max_elements=len(table), ef_construction=_BUILD, M=_LINKS, random_seed=1)
    messages.note(f"building the index of {messages.counted(len(table), 'vector')}")
    for start, block in table.blocks():
        graph.add_items(np.asarray(block, np.float32), np.arange(start, start + len(block)))
        progress.ahead(start)
    return graph
