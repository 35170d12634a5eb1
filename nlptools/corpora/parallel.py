"""Token ids of a parallel text in memory-mapped files, with the counts and the SHA-256 of the text.

Ids are uint16 if the vocabulary allows, else uint32, without special tokens. With subword regularization the files also
hold the words of each sentence and the tables of their segmentations: see `nlptools.corpora.segmentations`. Memory use
does not depend on the length of the text, except on the number of distinct words of a side with random segmentation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from nlptools.corpora.array_files import ArrayFiles, open_arrays
from nlptools.corpora.counts import Counts
from nlptools.corpora.segmentations import DistinctWords, Sampling, Segmentations, Sentences, offsets_of
from nlptools.corpora.sentence_pairs import PairBlock
from nlptools.errors import DataError, InvalidText
from nlptools.files import json_fields
from nlptools.files.line_records import escape
from nlptools.json_types import JsonObject
from nlptools.text.flat_ids import flat_ids, heads, id_type
from nlptools.text.tokenizer import Tokenizer
from nlptools.text.unknown import UnknownTokens

SIDES = ("source", "target")
_Encoded = tuple[np.ndarray, np.ndarray]  # flat ids of many sentences, and the length of each
_TABLES = ("first", "cumulative", "offsets", "ids")  # of Segmentations


@dataclass(frozen=True)
class ParallelCounts(Counts):
    """Counts of a parallel text. Tokens are counted without special tokens."""

    pairs: int = 0  # pairs that are kept
    source_tokens: int = 0
    target_tokens: int = 0
    source_unknown: int = 0  # unknown tokens
    target_unknown: int = 0
    empty: int = 0  # pairs omitted because a side has no tokens
    skipped: int = 0  # pairs omitted because a side is too long
    cut: int = 0  # pairs kept with one or both sides truncated


class ParallelCorpus:
    """Pairs of sentences as token ids, memory-mapped: the best segmentations, or random ones for each epoch."""

    def __init__(self, path: Path, record: JsonObject, arrays: dict[str, np.ndarray]) -> None:
        self.path, where = path, str(path)
        self.counts = json_fields.built(ParallelCounts, json_fields.child(record, "counts", where), where)
        self.digest = json_fields.text(record, "sha256", where)  # of the text, as lines of `source TAB target`
        sampling, limits = (json_fields.child(record, name, where) for name in ("sampling", "limits"))
        self.sampling = json_fields.built(Sampling, sampling, where) if sampling else None
        self._limits = {name: json_fields.whole(limits, name, where) for name in limits}
        self._arrays = arrays
        self.source, self.target = (
            Sentences(arrays[f"{side}.ids"], offsets_of(arrays[f"{side}.lengths"])) for side in SIDES
        )

    def __len__(self) -> int:
        """Number of pairs."""
        return self.counts.pairs

    def draw(self, seed: int, epoch: int) -> tuple[Sentences, Sentences]:
        """Source and target sentences of an epoch; a side without sampling always has its best segmentations.

        The result depends only on `seed`, `epoch` and the tables in the files.
        """
        source, target = (self._draw(side, np.random.default_rng([seed, epoch, i])) for i, side in enumerate(SIDES))
        return source, target

    def _draw(self, side: str, random: np.random.Generator) -> Sentences:
        if f"{side}.words" not in self._arrays:
            best: Sentences = getattr(self, side)
            return best
        tables = Segmentations(**{name: self._arrays[f"{side}.table.{name}"] for name in _TABLES})
        offsets = offsets_of(self._arrays[f"{side}.word_counts"])
        return tables.draw(self._arrays[f"{side}.words"], offsets, random, self._limits[side])


def open_spooled(path: Path) -> ParallelCorpus:
    """Open the corpus that `spool` wrote to `path`.

    Raises:
        InputError: a file is missing.
        DataError: a file is damaged.
    """
    return ParallelCorpus(path, *open_arrays(path))


def spool(
    blocks: Iterable[PairBlock],
    path: Path,
    source_tokenizer: Tokenizer,
    target_tokenizer: Tokenizer,
    *,
    max_source_length: int = 0,
    max_target_length: int = 0,
    long: str = "skip",
    threads: int,
    sampling: Sampling | None = None,
    what: str = "training data",
    force: bool | None = None,
) -> ParallelCorpus:
    """Encode pairs into files `path`.*, with counts and the text's SHA-256 in `path`.json; existing files are replaced.

    Pairs with an empty side are omitted and counted.

    Args:
        max_source_length, max_target_length: maximum number of tokens of a side, also of random segmentations; 0: no
            limit.
        long: "skip" omits longer pairs, "cut" truncates them.
        sampling: the sides with random segmentation; see `ParallelCorpus.draw`.
        what: the name of the data in messages.
        force: accept texts of mostly unknown tokens, with a warning; None: accept them without one.

    Raises:
        DataError: no pair is left, or more than half of the tokens of a side are unknown; also the errors of `blocks`.
        StreamError: disk full or another write error.
        UsageError: a tokenizer that does not support random segmentation.
    """
    assert long in ("skip", "cut"), long
    limits = (max_source_length, max_target_length)
    sides = [
        _Side(name, tokenizer, limit, getattr(sampling, name, None), what)
        for name, tokenizer, limit in zip(SIDES, (source_tokenizer, target_tokenizer), limits)
    ]
    digest, counts = hashlib.sha256(), ParallelCounts()
    with ArrayFiles(path) as files:
        for block in blocks:
            digest.update(_text(block))
            counts += _spool_block(block, sides, long == "cut", threads, files)
        if not counts.pairs:
            raise _no_data(counts, what)
        for side in sides:
            if force is not None:
                side.unknown.report(force)
            side.write_tables(files, sampling.seed if sampling else 0)
        files.commit(
            {
                "sha256": digest.hexdigest(),
                "counts": asdict(counts),
                "sampling": asdict(sampling) if sampling else None,
                "limits": dict(zip(SIDES, limits)),
            }
        )
    return open_spooled(path)


class _Side:
    """One of the two languages while its files are written."""

    def __init__(self, name: str, tokenizer: Tokenizer, limit: int, alpha: float | None, what: str) -> None:
        assert tokenizer.vocab is not None
        self.name, self.tokenizer, self.limit = name, tokenizer, limit
        self.unknown = UnknownTokens(tokenizer, f"the {name} side of the {what}")
        self.dtype = id_type(len(tokenizer.vocab))
        self.words = None if alpha is None else DistinctWords(tokenizer, alpha, f"sampling the {name} side")

    def too_long(self, lengths: np.ndarray) -> np.ndarray:
        return lengths > self.limit if self.limit else np.zeros(len(lengths), np.bool_)

    def write(self, lines: Sequence[str], kept: np.ndarray, encoded: _Encoded, files: ArrayFiles) -> tuple[int, int]:
        """Write the kept sentences, truncated to the limit; returns the numbers of their tokens and unknown tokens."""
        ids, lengths = encoded
        written = np.where(kept, np.minimum(lengths, self.limit) if self.limit else lengths, 0)
        ids, lengths = heads(ids, lengths, written), written[kept]
        files.append(f"{self.name}.ids", ids.astype(self.dtype))
        files.append(f"{self.name}.lengths", lengths.astype(np.uint32))
        if self.words is not None and len(lengths):
            words, per_sentence = self.words.number(Sentences(ids, offsets_of(lengths)))
            files.append(f"{self.name}.words", words)
            files.append(f"{self.name}.word_counts", per_sentence)
        return len(ids), self.unknown.count(lines, ids)

    def write_tables(self, files: ArrayFiles, seed: int) -> None:
        if self.words is not None:
            for part in self.words.tables(seed):
                for name, array in part.items():
                    files.append(f"{self.name}.table.{name}", array)


def _spool_block(block: PairBlock, sides: list[_Side], cuts: bool, threads: int, files: ArrayFiles) -> ParallelCounts:
    source, target = sides
    try:
        sources = flat_ids(source.tokenizer.encode_lines(block.sources, threads))
    except InvalidText as error:
        raise DataError(str(error), path=block.path, line=block.start + error.row, hint=error.hint) from None
    targets = flat_ids(target.tokenizer.encode_lines(block.targets, threads))
    full = (sources[1] > 0) & (targets[1] > 0)
    long = full & (source.too_long(sources[1]) | target.too_long(targets[1]))
    kept = full if cuts else full & ~long
    source_tokens, source_unknown = source.write(block.sources, kept, sources, files)
    target_tokens, target_unknown = target.write(block.targets, kept, targets, files)
    return ParallelCounts(
        pairs=int(kept.sum()),
        source_tokens=source_tokens,
        target_tokens=target_tokens,
        source_unknown=source_unknown,
        target_unknown=target_unknown,
        empty=int((~full).sum()),
        skipped=0 if cuts else int(long.sum()),
        cut=int(long.sum()) if cuts else 0,
    )


def _text(block: PairBlock) -> bytes:
    """The pairs as lines of `source TAB target`, for both forms of input."""
    rows = [f"{escape(a)}\t{escape(b)}\n" for a, b in zip(block.sources, block.targets, strict=True)]
    return "".join(rows).encode("utf-8", "surrogatepass")


def _no_data(counts: ParallelCounts, what: str) -> DataError:
    if not (counts.empty or counts.skipped):
        return DataError(f"no {what}: the input has no pairs")
    reasons = [f"{counts.empty} with an empty side"] * bool(counts.empty)
    reasons += [f"{counts.skipped} with a side that is too long"] * bool(counts.skipped)
    return DataError(f"no {what}: no pair is left ({', '.join(reasons)})")
