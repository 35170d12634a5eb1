"""Rows of words and bags of n-grams, by hand; batches of bags."""

from __future__ import annotations

from itertools import islice, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlptools.batches.bags import BagBatches, bag_rows, text_lengths
from nlptools.batches.encoder_rows import EncoderRows
from nlptools.batches.features import Features
from nlptools.batches.text_rows import TextEncoding, TextNGrams, character_buckets, word_buckets
from nlptools.text.builtin import NamedTokenizer
from nlptools.text.vocab import Vocab
from nlptools.vectors.subwords import ngram_rows

TOKENIZER = NamedTokenizer("whitespace", Vocab(["<pad>", "<unk>", "a", "b", "c"]))
BUCKETS = 1000


def bag(longest: int = 2, characters: tuple[int, int] | None = None, known: list[int] | None = None) -> TextEncoding:
    """Words in five rows, n-grams behind them; without `known` those of two texts."""
    made = TextEncoding(TOKENIZER, 1, 0, TextNGrams(longest, characters, BUCKETS, 5, np.array(known or [], np.int64)))
    if known is not None:
        return made
    found = made.buckets([("a b c",), ("b b",)])
    return TextEncoding(TOKENIZER, 1, 0, TextNGrams(longest, characters, BUCKETS, 5, found))


def rows(features: Features) -> list[list[int]]:
    bounds = features.rows.bounds
    return [features.rows.ids[a:b].tolist() for a, b in pairwise(bounds)]


def test_rows_are_the_words_and_an_empty_text_is_one_that_is_unknown() -> None:
    found = TextEncoding(TOKENIZER, 1).rows([("a b",), ("",), ("new c",), ("",)])
    assert rows(found) == [[2, 3], [1], [1, 4], [1]] and found.cut == 0 and not found.rows.types.any()


def test_two_texts_stand_one_behind_the_other() -> None:
    found = TextEncoding(TOKENIZER, 1).rows([("a b", "c"), ("", "a a a")])
    assert rows(found) == [[2, 3, 4], [1, 2, 2, 2]]
    assert found.rows.types.tolist() == [0, 0, 1, 0, 1, 1, 1]


def test_what_is_too_long_is_cut_and_counted() -> None:
    found = TextEncoding(TOKENIZER, 1, max_length=3).rows([("a b c a",), ("a",), ("a b c",)])
    assert rows(found) == [[2, 3, 4], [2], [2, 3, 4]] and found.cut == 1
    found = TextEncoding(TOKENIZER, 1, max_length=3).rows([("a b c a", "b"), ("a", "c")])
    assert rows(found) == [[2, 3, 3], [2, 4]] and found.cut == 1


def test_bigrams_by_hand() -> None:
    def bucket(*ids: int) -> int:
        state = ids[0]
        for id in ids[1:]:
            state = (state * 116049371 + id) % 2**64
        return state % BUCKETS

    pairs = word_buckets(np.array([2, 3, 4, 3, 3]), np.array([3, 0, 2]), 3, BUCKETS)
    assert pairs[0][0].tolist() == [bucket(2, 3), bucket(3, 4), bucket(3, 3)] and pairs[0][1].tolist() == [0, 0, 2]
    assert pairs[1][0].tolist() == [bucket(2, 3, 4)] and pairs[1][1].tolist() == [0]
    known = sorted([bucket(2, 3), bucket(3, 4)])
    found = rows(bag(known=known).rows([("a b c b",), ("b",), ("",)]))
    # c b has no row and is left out; the n-grams come after the words
    assert found == [[2, 3, 4, 3, 5 + known.index(bucket(2, 3)), 5 + known.index(bucket(3, 4))], [3], []]


def test_all_ngrams_of_the_training_texts_have_rows_of_their_own() -> None:
    found = rows(bag().rows([("a b c",), ("b b",)]))
    assert found[0][:3] == [2, 3, 4] and found[1][:2] == [3, 3]
    assert sorted(found[0][3:] + found[1][2:]) == [5, 6, 7]
    pair = bag().rows([("a b", "b c")])
    assert pair.rows.types.tolist() == [0, 0, 0, 1, 1, 1] and sorted(rows(pair)[0]) == sorted(
        [2, 3, 3, 4, *found[0][3:]]
    )


def test_characters_as_fasttext_has_them() -> None:
    buckets, owners = character_buckets([["ab", "c"], [], ["ab"]], 2, 3, BUCKETS)
    _, of_ab = ngram_rows(["ab"], 2, 3, BUCKETS)
    _, of_c = ngram_rows(["c"], 2, 3, BUCKETS)
    assert buckets.tolist() == [*of_ab, *of_c, *of_ab]
    assert owners.tolist() == [0] * (len(of_ab) + len(of_c)) + [2] * len(of_ab)
    # a word that is unknown has those that it shares with known ones
    known = rows(bag(1, (1, 1)).rows([("bx",)]))
    assert known[0][0] == 1 and len(known[0]) == 2


@given(st.lists(st.text("abc ", max_size=12), min_size=1, max_size=6))
def test_a_text_has_the_same_row_wherever_it_stands(texts: list[str]) -> None:
    encoding = bag(3, (1, 2))
    together = rows(encoding.rows([(text,) for text in texts]))
    assert together == [rows(encoding.rows([(text,)]))[0] for text in texts]


def made(count: int, texts: int) -> Features:
    rng = np.random.default_rng(0)
    lengths = rng.integers(0, 4, (count, texts))
    types = np.repeat(np.tile(np.arange(texts), count), lengths.ravel()).astype(np.uint8)
    bounds = np.concatenate([[0], np.cumsum(lengths.sum(1))])
    targets = {"label": np.arange(count), "weight": np.ones(count, np.float32)}
    return Features(EncoderRows(rng.integers(0, 9, bounds[-1]).astype(np.int32), types, bounds), targets)


@pytest.mark.parametrize("texts", [1, 2])
def test_batches_of_bags_hold_every_example_once_and_go_on_anywhere(texts: int) -> None:
    features = made(23, texts)
    lengths = text_lengths(features, texts)
    assert lengths.sum() == len(features.rows.ids)
    source = BagBatches(features, 5, texts=texts, seed=1)
    batches = list(islice(source, 10))
    assert source.epoch == pytest.approx(2.0)
    for epoch in (batches[:5], batches[5:]):
        assert sorted(i for b in epoch for i in b.targets[0]) == list(range(23))
    assert [i for b in batches[:5] for i in b.targets[0]] != [i for b in batches[5:] for i in b.targets[0]]
    for b in batches:
        ids, each = bag_rows(features, lengths, b.targets[0])
        assert ids.tolist() == b.ids.tolist() and each.tolist() == b.lengths.tolist()
        assert b.weight == len(b.targets[0]) and len(b.lengths) == texts * len(b.targets[0])
    other = BagBatches(features, 5, texts=texts, seed=1)
    for _ in islice(other, 7):
        pass
    again = BagBatches(features, 5, texts=texts, seed=1)
    again.restore(other.state())
    for b, expected in zip(islice(again, 3), batches[7:], strict=True):
        assert b.ids.tolist() == expected.ids.tolist() and b.targets[0].tolist() == expected.targets[0].tolist()
