"""Masks: as many as asked for, never on special tokens, words and spans whole, the same draws for the same numbers."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlptools.batches.masking import UNITS, Masking, MaskingVocabulary, hide, vocabulary
from nlptools.errors import BundleError, UsageError
from nlptools.text import tokenizer as tokenizers
from nlptools.text.vocab import Vocab

PAD, UNK, CLS, SEP, MASK, UNUSED = range(6)
V = 40  # even tokens begin words, odd ones go on with them
ORDINARY = np.arange(6, V)
TOY = MaskingVocabulary(
    PAD, CLS, SEP, MASK, np.isin(np.arange(V), [PAD, CLS, SEP, MASK]), ORDINARY, np.arange(V) % 2 == 0
)


def rows(lengths: list[int], seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Sequences of so many tokens, each followed by padding, and the number of the sequence of each position."""
    random = np.random.default_rng(seed)
    ids = [np.r_[CLS, random.choice(ORDINARY, n), SEP, PAD] for n in lengths]
    return np.concatenate(ids), np.repeat(np.arange(len(lengths)), np.array(lengths, np.int64) + 3)


@given(st.lists(st.integers(0, 30), min_size=1, max_size=6), st.sampled_from(UNITS), st.floats(0.01, 0.9), st.data())
def test_laws(lengths: list[int], unit: str, rate: float, data: st.DataObject) -> None:
    mask_share = data.draw(st.floats(0, 1))
    masking = Masking(rate, mask_share, data.draw(st.floats(0, 1 - mask_share)), unit)
    salt = data.draw(st.integers(0, 2**64 - 1))
    ids, sequence = rows(lengths, salt)
    before = ids.copy()
    out, hidden, targets = hide(ids, sequence, TOY, masking, salt=salt)
    assert np.array_equal(ids, before)
    assert np.array_equal(before[hidden], targets)
    assert (np.diff(hidden) > 0).all()
    assert np.isin(targets, ORDINARY).all()
    assert np.isin(out[hidden], [*ORDINARY, MASK]).all()
    shown = np.ones(len(ids), np.bool_)
    shown[hidden] = False
    assert np.array_equal(out[shown], before[shown])
    counts = np.bincount(sequence[hidden], minlength=len(lengths))
    for count, length in zip(counts, lengths):
        assert (count > 0) == (length > 0)
        if unit == "token" and length:
            assert count == max(1, round(rate * length))
    again = hide(ids, sequence, TOY, masking, salt=salt)
    assert all(np.array_equal(a, b) for a, b in zip(again, (out, hidden, targets)))


@given(st.lists(st.integers(0, 30), min_size=1, max_size=6), st.integers(0, 1000))
def test_words_are_hidden_whole(lengths: list[int], salt: int) -> None:
    ids, sequence = rows(lengths, salt)
    _, hidden, _ = hide(ids, sequence, TOY, Masking(unit="word"), salt=salt)
    inside = set(hidden.tolist())
    for place in range(1, len(ids)):
        if ids[place] > UNUSED and ids[place] % 2 and ids[place - 1] > UNUSED:  # goes on with the word before
            assert (place in inside) == (place - 1 in inside)


@pytest.mark.parametrize("unit", UNITS)
def test_shares_of_many(unit: str) -> None:
    ids, sequence = rows([120] * 2000)
    out, hidden, targets = hide(ids, sequence, TOY, Masking(unit=unit), salt=5)
    assert len(hidden) / (120 * 2000) == pytest.approx(0.15, abs=0.002)
    kinds = np.mean(out[hidden] == MASK), np.mean(out[hidden] == targets)
    assert kinds[0] == pytest.approx(0.8, abs=0.02)
    assert kinds[1] == pytest.approx(0.1 + 0.1 / len(ORDINARY), abs=0.01)
    drawn = Counter(out[hidden][(out[hidden] != MASK) & (out[hidden] != targets)].tolist())
    assert drawn.keys() == set(ORDINARY.tolist())
    assert max(drawn.values()) < 2 * min(drawn.values())
    places = np.bincount((hidden % 123) - 1, minlength=120)  # every place as often as any
    assert places.min() > 0.75 * places.mean()
    assert places.max() < 1.25 * places.mean()


def test_lengths_of_spans() -> None:
    """Geometric up to ten words: a share of 0.2 of them have one word, 0.8 ** 9 of them ten."""
    one_piece = replace(TOY, begins=np.ones(V, np.bool_))
    ids, sequence = rows([5000] * 100)
    out, hidden, _ = hide(ids, sequence, one_piece, Masking(0.02, 1.0, 0.0, "span"), salt=3)
    starts = np.flatnonzero(np.diff(hidden, prepend=-2) != 1)
    lengths = np.diff(starts, append=len(hidden))
    assert np.mean(lengths == 1) == pytest.approx(0.2, abs=0.03)
    assert np.mean(lengths == 10) == pytest.approx(0.8**9, abs=0.03)
    assert np.mean(lengths > 10) < 0.05  # two side by side
    assert (out[hidden] == MASK).all()


def test_a_span_is_treated_alike() -> None:
    one_piece = replace(TOY, begins=np.ones(V, np.bool_))
    ids, sequence = rows([200] * 50)
    out, hidden, targets = hide(ids, sequence, one_piece, Masking(0.01, 0.5, 0.0, "span"), salt=3)
    for _, group in groupby(enumerate(hidden.tolist()), lambda pair: pair[1] - pair[0]):
        kinds = {bool(out[place] == MASK) for _, place in group}
        assert len(kinds) == 1
    assert 0 < np.mean(out[hidden] == targets) < 1


def test_the_number_of_a_position_decides() -> None:
    ids, sequence = rows([40])
    twice = hide(np.r_[ids, ids], np.r_[sequence, sequence + 1], TOY, Masking(), salt=1, numbers=np.r_[:43, :43])[0]
    assert np.array_equal(twice[:43], twice[43:])
    assert np.array_equal(twice[:43], hide(ids, sequence, TOY, Masking(), salt=1)[0])
    assert not np.array_equal(twice[:43], hide(ids, sequence, TOY, Masking(), salt=2)[0])
    apart = hide(np.r_[ids, ids], np.r_[sequence, sequence + 1], TOY, Masking(), salt=1)[0]
    assert not np.array_equal(apart[:43], apart[43:])


def test_a_word_begins_where_it_is_said() -> None:
    ids = np.array([CLS, 7, 7, 7, 7, SEP])
    begins = np.array([False, False, False, True, False, False])
    for salt in range(20):
        hidden = hide(ids, np.zeros(6, np.int64), TOY, Masking(unit="word"), salt=salt, begins=begins)[1]
        assert hidden.tolist() in ([1, 2], [3, 4])


def test_masks_out_of_range() -> None:
    for wrong in ({"rate": 0.0}, {"rate": 1.0}, {"mask_share": -0.1}, {"random_share": 0.3}, {"unit": "letter"}):
        with pytest.raises(UsageError):
            Masking(**wrong)  # type: ignore[arg-type]


# -- vocabularies -----------------------------------------------------------------------------------------------------

BERT = ["[PAD]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "play", "##ing", "##"]


def test_a_wordpiece_vocabulary() -> None:
    found = vocabulary(tokenizers.load("whitespace", Vocab(BERT)))
    assert (found.pad, found.cls, found.sep, found.mask, len(found)) == (0, 3, 4, 5, 9)
    assert np.flatnonzero(found.special).tolist() == [0, 3, 4, 5]
    assert found.replacements.tolist() == [6, 7, 8]
    assert np.flatnonzero(~found.begins).tolist() == [7]


@pytest.mark.parametrize("mark", ["\u2581", "\u0120"])
def test_a_vocabulary_with_marked_spaces(mark: str) -> None:
    names = ["<pad>", "<unk>", "<cls>", "<sep>", "<mask>", "<unused_7>", mark + "play", "ing", mark]
    found = vocabulary(tokenizers.load("whitespace", Vocab(names)))
    assert found.replacements.tolist() == [6, 7, 8]
    assert np.flatnonzero(~found.begins).tolist() == [1, 5, 7]


def test_a_vocabulary_of_words() -> None:
    assert vocabulary(tokenizers.load("whitespace", Vocab([*BERT[:6], "play"]))).begins.all()


def test_added_special_tokens(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    from nlptools.text.huggingface import HuggingFace, wordpiece

    made = wordpiece({token: id for id, token in enumerate(BERT)}, lowercase=False, strip_accents=False)
    made.add_special_tokens(["[ENTITY]"])
    made.add_tokens(["emoji"])
    found = vocabulary(HuggingFace(made, "made"))
    assert np.flatnonzero(found.special).tolist() == [0, 3, 4, 5, 9]
    assert found.replacements.tolist() == [6, 7, 8, 10]


def test_a_vocabulary_without_marks() -> None:
    with pytest.raises(BundleError, match=r"no \[CLS\], \[MASK\],"):
        vocabulary(tokenizers.load("whitespace", Vocab(["[PAD]", "[SEP]", "a"])))
    with pytest.raises(BundleError, match="no "):
        vocabulary(tokenizers.load("whitespace"))
    with pytest.raises(BundleError, match="nothing but special"):
        vocabulary(tokenizers.load("whitespace", Vocab(BERT[:6])))
