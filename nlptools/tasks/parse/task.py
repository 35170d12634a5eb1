"""The task parse: the head of each word and its relation to it, and on request columns of tags by the same model.

Dozat & Manning 2017 (`layers.biaffine`) on the token that represents each word. The loss is the sum of the cross-entropies of the
heads, of the relations to the gold heads, and of the columns. The words of all rows of a sentence are scored together, so that
arcs of long sentences reach from row to row. Prediction finds the best tree with one root (`tasks.parse.trees`), then the best
relation of each arc; `root` is the relation of the root alone.
Departures: no tags as input, since the encoder knows them.
Shapes: N sentences, M words of the longest, W words of all, B rows, T tokens of a row, V size of a word's vectors, L relations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nlptools import bundle
from nlptools.batches.features import Features
from nlptools.batches.pairs import cut_batches
from nlptools.batches.windows import NO_TARGET
from nlptools.configs.finetuning import Predict
from nlptools.configs.tasks.files import Files
from nlptools.errors import BundleError
from nlptools.formats.examples import UniversalSentence
from nlptools.formats.universal import DEPREL, ROOT
from nlptools.json_types import JsonObject
from nlptools.layers.biaffine import DependencyHead
from nlptools.metrics import universal
from nlptools.models.tasks.heads import TaskHeads
from nlptools.models.tasks.task_model import TaskModel
from nlptools.tasks.labels import gold
from nlptools.tasks.parse.trees import best_tree
from nlptools.tasks.tag.columns import Annotated, ColumnTags, losses_of, numbered, word_outputs
from nlptools.tasks.tag.features import WordFeatures

_WORDS = 2048  # scored together, padding included


@dataclass(frozen=True)
class Parsing(ColumnTags):
    """See the module's docstring.

    Attributes:
        relations: (L,), learned.
    """

    relations: tuple[str, ...] = ()

    learns: ClassVar[tuple[str, ...]] = ("labels", "relations")
    bests: ClassVar[tuple[str, ...]] = ("loss", "uas", "las")
    trees: ClassVar[bool] = True
    window: ClassVar[int] = 1024

    @classmethod
    def from_bundle(cls, loaded: bundle.Bundle[TaskModel], settings: Predict, files: Files) -> Self:
        """See `ColumnTags`."""
        known = loaded.model.num_relations if isinstance(loaded.model, TaskHeads) else 0
        relations = loaded.config.get("relations")
        if not isinstance(relations, list) or len(set(map(str, relations))) != known:
            raise BundleError(f"config.json: relations is {relations!r:.80}, expected {known} names")
        return replace(super().from_bundle(loaded, settings, files), relations=tuple(map(str, relations)))

    @property
    def num_relations(self) -> int:
        return len(self.relations)

    @property
    def extra_heads(self) -> tuple[str, ...]:
        return ("tokens",) if self.columns else ()

    def layers_of(self, model: TaskHeads) -> dict[str, nn.Module]:
        return {} if model.arcs is None else {"arcs": model.arcs}

    @property
    def numbers(self) -> tuple[str, ...]:
        return ("loss", *self.columns, "uas", "las")

    # -- examples -----------------------------------------------------------------------------------------------------

    def learn(self, examples: Sequence[UniversalSentence]) -> Self:
        relations = tuple(sorted({relation for e in examples for relation in e.column(DEPREL)}))
        return replace(super().learn(examples), relations=relations)

    def count_labels(self, examples: Sequence[UniversalSentence]) -> Counter[str]:
        """The relations."""
        return Counter(relation for e in examples for relation in e.column(DEPREL))

    def known(self) -> Mapping[str, Sequence[str]]:
        return {**super().known(), "deprel": self.relations}

    def targets(self, examples: Sequence[UniversalSentence]) -> dict[str, np.ndarray]:
        heads = np.array([head for e in examples for head in gold(e.heads)], np.int64)
        return {"head": heads, "relation": numbered(examples, "deprel", self.relations), **super().targets(examples)}

    def row_targets(self, words: WordFeatures) -> dict[str, np.ndarray]:
        """`begins`: whether a row begins its sentence."""
        begins, _ = words.edges(np.arange(len(words.rows)))
        return {"begins": begins.astype(np.uint8)}

    # -- training and prediction --------------------------------------------------------------------------------------

    def loss(self, logits: Tensor, *targets: Tensor, arcs: DependencyHead | None = None) -> Tensor:
        assert arcs is not None
        begins, heads, relations, *labels, weight = targets
        real = heads != NO_TARGET
        sentence = (begins.long().cumsum(0) - 1)[:, None].expand_as(heads)[real]
        heads, vectors = heads[real], logits[..., len(self.labels) :][real]
        by_arc, by_relation = _losses(arcs, vectors, torch.bincount(sentence), heads, relations[real])
        total = ((by_arc + by_relation) * weight[real]).sum()
        return total + super().loss(logits[..., : len(self.labels)], *labels, weight) if labels else total

    def decode(
        self,
        outputs: Sequence[np.ndarray],
        features: Features,
        examples: Sequence[UniversalSentence],
        arcs: DependencyHead | None = None,
    ) -> list[Annotated]:
        assert arcs is not None
        scores, sentences = word_outputs(outputs, features), features.more.sentences
        found = self.tagged(scores[:, : len(self.labels)], sentences, examples)
        for some in _batches(np.diff(sentences)):
            words = [slice(sentences[n], sentences[n + 1]) for n in some]
            vectors = np.concatenate([scores[each, len(self.labels) :] for each in words])
            parsed = self._parsed(arcs, torch.from_numpy(vectors).to(arcs.root.device), [examples[n] for n in some])
            for n, (heads, relations, loss) in zip(some, parsed, strict=True):
                columns = {**found[n].columns, "head": list(map(str, heads)), "deprel": relations}
                found[n] = Annotated(columns, found[n].loss + loss)
        return found

    @torch.inference_mode()
    def _parsed(
        self, arcs: DependencyHead, vectors: Tensor, examples: Sequence[UniversalSentence]
    ) -> Iterator[tuple[list[int], list[str], float]]:
        """Heads, relations and loss of some sentences, from the vectors (W, V) of their words."""
        lengths = torch.tensor([len(e.words) for e in examples], device=vectors.device)
        grid, real = padded_words(vectors, lengths)
        scores = arcs.arc_scores(grid).double().cpu().numpy()
        trees = [best_tree(scores[n, :length, : length + 1]) for n, length in enumerate(lengths.tolist())]
        heads = torch.zeros(real.shape, dtype=torch.int64)
        heads[real.cpu()] = torch.from_numpy(np.concatenate(trees))
        chosen = self._relations(arcs.relation_scores(grid, heads.to(grid.device)).cpu(), heads)
        losses = torch.zeros(len(vectors))
        if all(e.heads is not None for e in examples):
            right = np.array([head for e in examples for head in gold(e.heads)], np.int64)
            named = numbered(examples, "deprel", self.relations)
            put = (torch.from_numpy(each).to(grid.device) for each in (right, named))
            losses = sum(_losses(arcs, vectors, lengths, *put), torch.zeros((), device=grid.device)).cpu()
        start = 0
        for n, tree in enumerate(trees):
            relations = [self.relations[i] for i in chosen[n, : len(tree)].tolist()]
            yield tree.tolist(), relations, float(losses[start : start + len(tree)].double().sum())
            start += len(tree)

    def _relations(self, scores: Tensor, heads: Tensor) -> Tensor:
        """The best relation of each arc: (S, M, L) and (S, M) -> (S, M). Only the root gets `root`, if the model has it."""
        if ROOT in self.relations:
            number = self.relations.index(ROOT)
            scores[..., number] = torch.where(heads == 0, torch.inf, -torch.inf)
        return scores.argmax(-1)

    def more_measures(
        self, examples: Sequence[UniversalSentence], predicted: Sequence[UniversalSentence]
    ) -> dict[str, float]:
        """UAS and LAS as in `evaluate`."""
        return {
            "uas": universal.share(examples, predicted, ("head",)),
            "las": universal.share(examples, predicted, ("head", "deprel")),
        }

    def label_settings(self) -> JsonObject:
        return {**super().label_settings(), "relations": list(self.relations)}


def padded_words(vectors: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Vectors (W, V) of the words of sentences, one after the other -> (S, M, V), and which are words (S, M) bool."""
    real = torch.arange(int(lengths.max()), device=vectors.device) < lengths[:, None]
    grid = vectors.new_zeros(*real.shape, vectors.shape[1])
    grid[real] = vectors
    return grid, real


def _losses(
    arcs: DependencyHead, vectors: Tensor, lengths: Tensor, heads: Tensor, relations: Tensor
) -> tuple[Tensor, Tensor]:
    """The losses of the heads and of the relations of W words: (W,) each.

    Args:
        vectors: (W, V); lengths: (S,), of the sentences; heads, relations: (W,), the latter NO_TARGET where unknown.
    """
    grid, real = padded_words(vectors, lengths)
    positions = torch.arange(grid.shape[1] + 1, device=grid.device)
    possible = (positions <= lengths[:, None])[:, None] & (positions != positions[1:, None])  # not the word itself
    scores = arcs.arc_scores(grid).masked_fill(~possible, -torch.inf)
    of_words = heads.new_zeros(real.shape)
    of_words[real] = heads
    return (
        F.cross_entropy(scores[real], heads, reduction="none"),
        losses_of(arcs.relation_scores(grid, of_words)[real], relations),
    )


def _batches(lengths: np.ndarray) -> list[np.ndarray]:
    """Sentences of similar length that are scored together; those without words are left out."""
    order = np.argsort(-lengths, kind="stable")
    order = order[lengths[order] > 0]
    bounds = cut_batches(lengths[order], _WORDS)
    return [order[a:b] for a, b in pairwise(bounds)]
