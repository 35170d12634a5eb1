"""Batches for bidirectional language models: every word is a target once in each direction."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from nlptools.batches.source import Share
from nlptools.batches.spelled_texts import SpelledBatch, SpelledTexts
from nlptools.corpora.token_file import Corpus, TextCounts
from nlptools.text.byte_spelling import boundaries, spell

EOS, UNK = 1, 0
TOKENS = ["<unk>", "</s>", *"abcdefgh"]
FURTHER = ["xx", "yy", "zz"]
ALL = [*TOKENS, *FURTHER]
# texts of 0 to 30 words, some of them outside the vocabulary
TEXTS = [np.random.default_rng(n).integers(2, len(ALL), n).tolist() for n in (5, 0, 30, 1, 12, 13, 6)]


def source(length: int = 6, **more: int) -> SpelledTexts:
    ids = np.array([EOS, *(i for text in TEXTS for i in (*text, EOS))], np.uint32)
    corpus = Corpus(Path("ids"), ids, TextCounts(tokens=len(ids) - 1), "", spell(FURTHER))
    return SpelledTexts(corpus, TOKENS, length, 3, eos=EOS, unk=UNK, seed=1, **more)


def epoch(batches: SpelledTexts) -> list[SpelledBatch]:
    iterator = iter(batches)
    return [next(iterator) for _ in range(int(batches.batches_per_epoch))]


def words(batch: SpelledBatch) -> np.ndarray:
    """(B, T) the words that the spellings are of; <s> and </s> for the boundaries."""
    names = {row.tobytes(): word for row, word in zip(spell(ALL), ALL, strict=True)}
    names |= {row.tobytes(): word for row, word in zip(boundaries(), ("<s>", "</s>"), strict=True)}
    return np.array([names[row.tobytes()] for row in batch.spellings])[batch.places]


@pytest.mark.parametrize("length", [1, 6, 100])
def test_every_word_is_a_target_once_in_each_direction(length: int) -> None:
    expected = Counter(i if i < len(TOKENS) else UNK for text in TEXTS for i in (*text, EOS))
    first = source(length)
    for batches in (first, first):  # two epochs
        made = epoch(batches)
        for side in ("following", "preceding"):
            assert Counter(i for b in made for i in getattr(b, side).ravel().tolist() if i >= 0) == expected
        assert sum(b.num_targets for b in made) == sum(expected.values())


def test_targets_are_the_neighbours_of_each_word() -> None:
    ids = {word: i if i < len(TOKENS) else UNK for i, word in enumerate(ALL)} | {"<s>": EOS, "</s>": EOS}
    for batch in epoch(source()):
        assert len(batch.spellings) == len(np.unique(batch.places)), "each different word once"
        for row, length, after, before in zip(
            words(batch), batch.lengths, batch.following, batch.preceding, strict=True
        ):
            targets = [ids[word] for word in row[:length]]
            assert after.tolist() == [*targets[1:], *[-1] * (len(row) - length + 1)]
            assert before.tolist() == [-1, *targets[:-1], *[-1] * (len(row) - length)]
            assert "<s>" not in row[1:length] and "</s>" not in row[: length - 1]


def test_long_texts_are_cut_elsewhere_in_each_epoch_and_batches_hold_similar_lengths() -> None:
    batches = source()
    one, two = ({words(b)[i, 0] + words(b)[i, 1] for b in epoch(batches) for i in range(len(b.places))} for _ in "ab")
    assert one != two
    assert all(b.places.size <= 3 * 7 for b in epoch(batches))


def test_ranks_share_the_batches_and_make_equally_many_steps() -> None:
    whole = sum(b.num_targets for b in epoch(source()))
    parts = [epoch(source(share=Share(rank, 2))) for rank in (0, 1)]
    assert len(parts[0]) == len(parts[1])
    assert sum(b.num_targets for part in parts for b in part) == whole


def test_a_source_continues_where_it_was() -> None:
    batches = source()
    iterator = iter(batches)
    for _ in range(3):
        next(iterator)
    again = source()
    again.restore(batches.state())
    for a, b in zip(iterator, iter(again), strict=False):
        assert all(np.array_equal(x, y) for x, y in zip(vars(a).values(), vars(b).values(), strict=True))
        if batches.state()["epoch"] > 1:
            break
