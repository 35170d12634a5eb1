"""How well texts answer queries, and lines in this order: `rerank`.

A model of two texts (a cross-encoder, from `finetune --task rank` or of sentence-transformers) gives a score for each pair; an
encoder of one text gives the cosine of both vectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np

from nlptools import messages
from nlptools.compute import memory
from nlptools.compute.backend import Backend
from nlptools.configs.embed import Embed
from nlptools.configs.finetuning import Predict
from nlptools.configs.rerank import Rerank
from nlptools.configs.tasks.files import Files
from nlptools.errors import BundleError, display
from nlptools.files import progress
from nlptools.formats.examples import Place, TextExample
from nlptools.formats.ranked_lines import RankedLine
from nlptools.inference.embedding.text_embedder import TextEmbedder, of_encoder
from nlptools.inference.opening import Asked, Opened
from nlptools.inference.prediction import TaskMember
from nlptools.layers.quantized import Rounding
from nlptools.models.encoders.bert_with_heads import BertWithHeads
from nlptools.models.tasks.heads import TaskHeads
from nlptools.vectors.rows import scaled

WINDOW = 4096  # pairs that are sorted by length together, unless a query has more
_TASKS = ("rank", "regress")


class ScoresPairs(Protocol):
    """A model that measures how well texts answer queries."""

    @property
    def roundings(self) -> Sequence[Rounding]:
        """See `quantization.Quantizable`."""

    def scores(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The score of each (query, text), higher is better."""

    def finish(self) -> None:
        """Called at the end: report how much was cut."""


class CrossEncoder:
    """A model that reads both texts. See `uses`."""

    def __init__(self, member: TaskMember, settings: Rerank) -> None:
        self.member, self.settings, self.cut = member, settings, 0

    @classmethod
    def opened(cls, asked: Asked[Rerank], opened: Opened[TaskHeads]) -> CrossEncoder:
        """Raises BundleError for a model of another task, or of several labels."""
        memory.expect_new_shapes()
        settings = asked.settings or Rerank()
        predict = Predict(max_length=settings.max_length, batch_tokens=settings.batch_tokens)
        files = Files(text_column=("1", "2"))
        member = TaskMember.of(opened.bundle, Backend.detect(asked.compute), predict, files)
        if member.task.name not in _TASKS or member.task.num_labels != 1:
            raise BundleError(
                f"{display(str(opened.path))}: a model of the task {member.task.name}, expected one score of two texts",
                hint="finetune --task rank trains one",
            )
        return cls(member, settings)

    @property
    def roundings(self) -> list[Rounding]:
        """See `quantization.Quantizable`."""
        return [self.member.rounding]

    def scores(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """See `ScoresPairs`."""
        examples = [TextExample(pair, None, Place("-", 0)) for pair in pairs]
        features = self.member.task.features(examples, self.member.encoding, False)
        self.cut += features.cut
        batch_tokens = self.settings.batch_tokens
        scores = self.member.predict(
            examples, features, batch_tokens, lambda share: progress.ahead(int(share * len(pairs)))
        )
        return cast(list[float], scores)

    def finish(self) -> None:
        """See `ScoresPairs`."""
        if self.cut:
            messages.warn(f"cut {messages.counted(self.cut, 'pair')} longer than the maximum length of the model")


@dataclass(frozen=True)
class CosineRanker:
    """An encoder of single texts. See `uses`."""

    embedder: TextEmbedder

    @classmethod
    def opened(cls, asked: Asked[Rerank], opened: Opened[BertWithHeads]) -> CosineRanker:
        """Raises UsageError for a maximum length that the model does not have."""
        settings = asked.settings or Rerank()
        embed = Embed(max_length=settings.max_length, batch_tokens=settings.batch_tokens)
        return cls(of_encoder(Asked(asked.path, embed, asked.compute), opened))

    @property
    def roundings(self) -> list[Rounding]:
        """See `quantization.Quantizable`."""
        return self.embedder.roundings

    def scores(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """See `ScoresPairs`. A text that occurs several times is embedded once."""
        places = {text: place for place, text in enumerate(dict.fromkeys(text for pair in pairs for text in pair))}
        rows = scaled(self.embedder.embed([*places]))
        first, second = (rows[[places[pair[side]] for pair in pairs]] for side in range(2))
        cosines: list[float] = np.einsum("ij,ij->i", first, second).tolist()
        return cosines

    def finish(self) -> None:
        """See `ScoresPairs`."""
        self.embedder.finish()


def reranked(
    ranker: ScoresPairs, groups: Iterator[list[RankedLine]], top_k: int = 0, window: int = WINDOW
) -> Iterator[tuple[RankedLine, float]]:
    """The lines of each group with their scores, the best first; equal ones in their order. `top_k`: see `Rerank`.

    Args:
        groups: the lines of a query each.
        window: lines that are scored together; groups are whole.
    """
    held: list[list[RankedLine]] = []
    for group in groups:
        held.append(group)
        if sum(map(len, held)) >= window:
            yield from _scored(ranker, held, top_k)
            held = []
    yield from _scored(ranker, held, top_k)


def _scored(ranker: ScoresPairs, groups: list[list[RankedLine]], top_k: int) -> Iterator[tuple[RankedLine, float]]:
    if not groups:
        return
    scores = iter(ranker.scores([(line.query, line.text) for group in groups for line in group]))
    for group in groups:
        found = sorted(((line, next(scores)) for line in group), key=lambda pair: -pair[1])
        yield from found[: top_k or None]
    progress.done(sum(map(len, groups)))
