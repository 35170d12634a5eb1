"""Attention weights of lines, between words or tokens.

Vig 2019, "A multiscale visualization of attention in the Transformer model" (arXiv:1906.05714). From tokens to words as in
Clark et al. 2019, "What does BERT look at?" (arXiv:1906.04341, section 4.1): attention to a word is summed over its tokens,
attention from a word averaged, so that each row still sums to 1.
Shapes: L chosen layers, H chosen heads, T tokens that attend, S tokens that are attended to, Q and K words.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from nlptools.arrays import Array, Floats
from nlptools.configs.attend import Attend
from nlptools.errors import UsageError
from nlptools.files.line_records import unescape
from nlptools.files.streams import LineBlock
from nlptools.formats.examples import Place
from nlptools.inference.attention_rows import SELF, AttentionRow, ReadsAttention, RowTokens
from nlptools.plots.attention_maps import AttentionMap


class AttentionMapper:
    """Computes the attention of lines, one at a time."""

    def __init__(self, reader: ReadsAttention, settings: Attend) -> None:
        """Raises UsageError for a layer, head or kind of attention that the model does not have."""
        self.reader, self.settings = reader, settings
        self.part = settings.part or next(iter(reader.sizes))
        if self.part not in reader.sizes:
            known = ", ".join(reader.sizes)
            if known == SELF:
                raise UsageError("--part is for translation models, which have several kinds of attention")
            raise UsageError(f"--part {self.part}: the model has no such attention, only: {known}")
        layers, heads = reader.sizes[self.part]
        self.layers = _chosen("--layer", settings.layers, layers)
        self.heads = _chosen("--head", settings.heads, heads)

    def maps(self, block: LineBlock) -> Iterator[AttentionMap]:
        """The attention of each line. Raises DataError, see `ReadsAttention.row`."""
        for number, line in enumerate(block.lines, block.start):
            yield self.map(line, Place(block.path, number))

    @torch.inference_mode()
    def map(self, line: str, place: Place) -> AttentionMap:
        """The attention of a line; one without tokens has no words. Raises DataError, see `ReadsAttention.row`."""
        part = None if self.part == SELF else self.part
        row = self._row(line, place) if line else None
        if row is None or not row.queries.ids:
            nothing = np.zeros((len(self.layers), len(self.heads), 0, 0), np.float32)
            found = AttentionMap(line, [], [], self.layers, self.heads, nothing, part=part)
        else:
            rows, columns = self._wanted(row, place), self._shown(row.keys)
            queries, keys = (
                [each.names[number] for number in chosen] for each, chosen in ((row.queries, rows), (row.keys, columns))
            )
            weights = self._weights(row)[:, :, rows][..., columns]
            found = AttentionMap(line, queries, keys, self.layers, self.heads, weights, part=part)
        return found.averaged() if self.settings.mean else found

    def _row(self, line: str, place: Place) -> AttentionRow:
        texts = [line] if "\t" not in line else [unescape(text) for text in line.split("\t")]
        return self.reader.row(texts, self.part, self.settings.per == "word", place)

    def _wanted(self, row: AttentionRow, place: Place) -> list[int]:
        """The numbers of the rows to show. Raises DataError if the line has none of the words of --query."""
        names, wanted = row.queries.names, self.settings.query
        found = [number for number in self._shown(row.queries) if not wanted or names[number] in wanted]
        if wanted and not found:
            message = f"none of the words of --query ({', '.join(wanted)}) is in the line"
            raise place.error(message, f"its words are {' '.join(names)}")
        return found

    def _shown(self, words: RowTokens) -> list[int]:
        """The numbers of the words to show."""
        return [number for number, special in enumerate(words.special) if self.settings.special or not special]

    def _weights(self, row: AttentionRow) -> Floats:
        """(L, H, Q, K). Layers after the last chosen one are not computed."""
        last, heads = max(self.layers), [head - 1 for head in self.heads]
        found: dict[int, Floats] = {}
        for layer, weights_1HTS in zip(range(1, last + 1), row.weights, strict=False):
            if layer in self.layers:
                found[layer] = by_word(weights_1HTS[0, heads].cpu().numpy(), row.queries, row.keys)
        return np.stack([found[layer] for layer in self.layers])


def by_word(weights_HTS: Array, queries: RowTokens, keys: RowTokens) -> Array:
    """(H, T, S) -> (H, Q, K): sums over the tokens that are attended to, means over those that attend."""
    if len(keys.starts) < len(keys.ids):
        weights_HTS = np.add.reduceat(weights_HTS, keys.starts, axis=2)
    if len(queries.starts) < len(queries.ids):
        counts = np.diff(queries.starts, append=len(queries.ids)).astype(np.float32)
        weights_HTS = np.add.reduceat(weights_HTS, queries.starts, axis=1) / counts[:, None]
    return weights_HTS


def _chosen(flag: str, numbers: list[int], count: int) -> list[int]:
    """The numbers from 1, without repetitions; all if there are none. Raises UsageError for one out of range."""
    for number in numbers:
        if abs(number) > count:
            what = flag.removeprefix("--")
            raise UsageError(
                f"{flag} {number}: the model has {count} {what}{'s' * (count > 1)}", hint=f"expected 1 to {count}"
            )
    return list(dict.fromkeys(number % (count + 1) for number in numbers)) or list(range(1, count + 1))
