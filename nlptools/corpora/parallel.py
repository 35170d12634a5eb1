"""Token ids of a parallel text, in memory-mapped files, with what is needed to say whose ids they are.

Ids are uint16 when the vocabulary allows, else uint32, without marks at either end. With subword regularization the
files hold the words of each sentence too, and the tables of their segmentations: see `nlptools.corpora.segmentations`.
Memory grows with the number of different words of a text that is to be segmented at random, and with nothing else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from nlptools.corpora.array_files import ArrayFiles, open_arrays
from nlptools.corpora.segmentations import Sampling, Segmentations, Sentences, Words, offsets_of
from nlptools.corpora.sentence_pairs import PairBlock
from nlptools.errors import DataError
from nlptools.files.line_records import escape
from nlptools.text.tokenizer import Tokenizer

SIDES = ("source", "target")
_TABLES = ("first", "cumulative", "offsets", "ids")  # of Segmentations


@dataclass(frozen=True)
class Counts:
    """What a parallel text holds. Lengths and tokens count pieces, without marks at the ends."""

    pairs: int = 0  # that were kept
    source_tokens: int = 0
    target_tokens: int = 0
    source_unknown: int = 0  # tokens that stand for what the vocabulary lacks
    target_unknown: int = 0
    empty: int = 0  # pairs left out because a side has no tokens
    skipped: int = 0  # pairs left out because a side is too long
    cut: int = 0  # pairs kept with a side, or both, cut short

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(a + b for a, b in zip(asdict(self).values(), asdict(other).values(), strict=True)))


class ParallelCorpus:
    """Pairs of sentences as token ids, memory-mapped; the best segmentations, or those of an epoch, drawn at random."""

    def __init__(self, path: Path, record: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        self.path = path
        self.counts = Counts(**record["counts"])
        self.digest: str = record["sha256"]  # of the text, as lines of `source TAB target`
        self.sampling = Sampling(**record["sampling"]) if record["sampling"] else None
        self._limits: dict[str, int] = record["limits"]
        self._arrays = arrays
        self.source, self.target = (
            Sentences(arrays[f"{side}.ids"], offsets_of(arrays[f"{side}.lengths"])) for side in SIDES
        )

    def __len__(self) -> int:
        """Pairs."""
        return self.counts.pairs

    def draw(self, seed: int, epoch: int) -> tuple[Sentences, Sentences]:
        """Source and target sentences of an epoch. A side without sampling is always the same, the best one.

        A function of `seed` and `epoch`, and of the tables, which are part of the files.
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
    """The corpus that `spool` left at `path`.

    Raises:
        InputError: there is none, or not all of it.
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
) -> ParallelCorpus:
    """Encode pairs into files `path`.*, with counts and the text's SHA-256 in `path`.json, in place of what is there.

    Pairs with an empty side are left out and counted.

    Args:
        max_source_length, max_target_length: most tokens of a side; 0: no limit. They hold for segmentations drawn at
            random, too.
        long: what happens to a pair that is longer: "skip" leaves it out, "cut" keeps its beginning.
        sampling: which sides are to be segmented at random; see `ParallelCorpus.draw`.
        what: the name of the data where there is none.

    Raises:
        DataError: no pair is left, and what `blocks` raises.
        StreamError: disk full or another write error.
        UsageError: a tokenizer whose text cannot be segmented at random.
    """
    assert long in ("skip", "cut"), long
    limits = (max_source_length, max_target_length)
    sides = [
        _Side(name, tokenizer, limit, getattr(sampling, name, None))
        for name, tokenizer, limit in zip(SIDES, (source_tokenizer, target_tokenizer), limits)
    ]
    digest, counts = hashlib.sha256(), Counts()
    with ArrayFiles(path) as files:
        for block in blocks:
            digest.update(_text(block))
            counts += _spool_block(block, sides, long == "cut", threads, files)
        if not counts.pairs:
            raise _no_data(counts, what)
        for side in sides:
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
    """One of the two languages while it is written."""

    def __init__(self, name: str, tokenizer: Tokenizer, limit: int, alpha: float | None) -> None:
        assert tokenizer.vocab is not None
        self.name, self.tokenizer, self.limit = name, tokenizer, limit
        self.unk = tokenizer.vocab.unk
        self.dtype = "uint16" if len(tokenizer.vocab) <= 1 << 16 else "uint32"
        self.words = None if alpha is None else Words(tokenizer, alpha, f"sampling the {name} side")

    def encode(self, lines: list[str], threads: int) -> tuple[np.ndarray, np.ndarray]:
        """The ids of all lines, flat, and the length of each."""
        encoded = self.tokenizer.encode_lines(lines, threads)
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
        return np.fromiter(chain.from_iterable(encoded), np.int64, int(lengths.sum())), lengths

    def too_long(self, lengths: np.ndarray) -> np.ndarray:
        return lengths > self.limit if self.limit else np.zeros(len(lengths), np.bool_)

    def write(self, ids: np.ndarray, lengths: np.ndarray, kept: np.ndarray, files: ArrayFiles) -> tuple[int, int]:
        """Write the kept sentences, cut to the limit; returns the number of their tokens and of the unknown ones."""
        shown = np.where(kept, np.minimum(lengths, self.limit) if self.limit else lengths, 0)
        places = np.arange(len(ids)) - np.repeat(offsets_of(lengths)[:-1], lengths)
        ids, lengths = ids[places < np.repeat(shown, lengths)], shown[kept]
        files.append(f"{self.name}.ids", ids.astype(self.dtype))
        files.append(f"{self.name}.lengths", lengths.astype(np.uint32))
        if self.words is not None and len(lengths):
            words, per_sentence = self.words.number(Sentences(ids, offsets_of(lengths)))
            files.append(f"{self.name}.words", words)
            files.append(f"{self.name}.word_counts", per_sentence)
        return len(ids), 0 if self.unk is None else int((ids == self.unk).sum())

    def write_tables(self, files: ArrayFiles, seed: int) -> None:
        if self.words is not None:
            for part in self.words.tables(seed):
                for name, array in part.items():
                    files.append(f"{self.name}.table.{name}", array)


def _spool_block(block: PairBlock, sides: list[_Side], cuts: bool, threads: int, files: ArrayFiles) -> Counts:
    source, target = sides
    source_ids, source_lengths = source.encode(block.sources, threads)
    target_ids, target_lengths = target.encode(block.targets, threads)
    full = (source_lengths > 0) & (target_lengths > 0)
    long = full & (source.too_long(source_lengths) | target.too_long(target_lengths))
    kept = full if cuts else full & ~long
    source_tokens, source_unknown = source.write(source_ids, source_lengths, kept, files)
    target_tokens, target_unknown = target.write(target_ids, target_lengths, kept, files)
    return Counts(
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
    """The pairs as lines of a table, whichever way they came."""
    rows = [f"{escape(a)}\t{escape(b)}\n" for a, b in zip(block.sources, block.targets, strict=True)]
    return "".join(rows).encode("utf-8", "surrogatepass")


def _no_data(counts: Counts, what: str) -> DataError:
    if not (counts.empty or counts.skipped):
        return DataError(f"no {what}: the input has no pairs")
    told = [f"{counts.empty} with an empty side"] * bool(counts.empty)
    told += [f"{counts.skipped} with a side that is too long"] * bool(counts.skipped)
    return DataError(f"no {what}: no pair is left ({', '.join(told)})")
