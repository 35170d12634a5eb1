"""Sequences as BERT makes them, packed in rows: every token from its document, each about once an epoch, exact resuming."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from nlptools.batches import sentence_groups
from nlptools.batches.masking import Masking, MaskingVocabulary, vocabulary
from nlptools.batches.pretraining import (
    Layout,
    Phase,
    PretrainingBatch,
    PretrainingBatches,
    in_order_batches,
    phases,
)
from nlptools.batches.source import Share
from nlptools.corpora.documents import Documents, spool
from nlptools.errors import UsageError
from nlptools.files import streams
from tests.real_data import published

PAD, UNK, CLS, SEP, MASK = range(5)
FIRST = 10  # the token at place p of the text is FIRST + p, so that tokens tell where they come from
MOST = 20_000


def vocab() -> MaskingVocabulary:
    special = np.isin(np.arange(MOST), [PAD, CLS, SEP, MASK])
    return MaskingVocabulary(PAD, CLS, SEP, MASK, special, np.arange(FIRST, MOST), np.arange(MOST) % 3 > 0)


VOCAB = vocab()


def texts(*documents: list[int]) -> Documents:
    """Documents of sentences of these lengths."""
    lengths = np.array([n for sentences in documents for n in sentences], np.int64)
    arrays = {
        "ids": (FIRST + np.arange(lengths.sum())).astype(np.uint32),
        "sentences": np.concatenate([[0], np.cumsum(lengths)]),
        "documents": np.concatenate([[0], np.cumsum([len(sentences) for sentences in documents])]),
    }
    return Documents(Path("made"), {"counts": {}, "sha256": ""}, arrays)


def many(seed: int, documents: int = 30, longest: int = 12) -> Documents:
    random = np.random.default_rng(seed)
    return texts(*(random.integers(1, longest, random.integers(1, 20)).tolist() for _ in range(documents)))


class Sequence(NamedTuple):
    """A training sequence as places in the text: of its first segment, and of its second one."""

    first: tuple[int, ...]
    second: tuple[int, ...]
    label: int | None
    shown: tuple[int, ...]  # with masks


def read(batch: PretrainingBatch, length: int) -> list[Sequence]:
    """The sequences of a batch, whose shape is checked on the way."""
    B, T = batch.ids.shape
    assert length == T
    assert all(array.dtype == np.int64 for array in vars(batch).values())
    whole = batch.ids.copy().reshape(-1)
    whole[batch.masked] = batch.targets
    assert (batch.targets >= FIRST).all()
    out = []
    for row in range(B):
        numbers = batch.sequences[row]
        real = numbers > 0
        assert (np.diff(numbers[real], prepend=0) >= 0).all()
        assert (np.diff(real.astype(int)) <= 0).all()  # padding on the right
        assert (whole.reshape(B, T)[row][~real] == PAD).all()
        assert not batch.positions[row][~real].any()
        assert not batch.types[row][~real].any()
        for number in range(1, numbers.max() + 1):
            places = np.flatnonzero(numbers == number)
            assert np.array_equal(batch.positions[row][places], np.arange(len(places)))
            assert row * T + places[0] == batch.firsts[len(out)]
            tokens, types = whole[row * T + places], batch.types[row][places]
            ends = np.flatnonzero(tokens == SEP)
            assert tokens[0] == CLS
            assert ends[-1] == len(tokens) - 1
            assert np.array_equal(types, np.arange(len(tokens)) > ends[0])
            first, second = tokens[1 : ends[0]] - FIRST, tokens[ends[0] + 1 : -1] - FIRST
            if len(ends) == 1:
                second = second[:0]
            for segment in (first, second):
                assert (np.diff(segment) == 1).all()
            label = int(batch.next_sentence[len(out)]) if len(batch.next_sentence) else None
            shown = batch.ids.reshape(-1)[row * T + places]
            out.append(Sequence(tuple(first.tolist()), tuple(second.tolist()), label, tuple(shown.tolist())))
    assert len(out) == len(batch.firsts)
    return out


def epoch_of(source: PretrainingBatches) -> list[PretrainingBatch]:
    """The batches of the epoch in which the source is."""
    begin, out, state = source.state()["epoch"], [], source.state()
    for batch in source:
        out.append(batch)
        state = source.state()
        if state["epoch"] != begin:
            break
    source.restore(state)
    return out


def equal(one: PretrainingBatch, other: PretrainingBatch) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(vars(one).values(), vars(other).values(), strict=True))


def document_of(documents: Documents, place: int) -> int:
    return int(np.searchsorted(documents.sentences[documents.documents], place, "right"))


# -- what is in a sequence ----------------------------------------------------------------------------------------------


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.lists(st.integers(1, 15), min_size=1, max_size=12), min_size=2, max_size=8),
    st.integers(8, 40),
    st.booleans(),
    st.sampled_from(["token", "word", "span"]),
    st.integers(0, 1000),
)
def test_pairs_come_from_documents(lengths: list[list[int]], length: int, packed: bool, unit: str, seed: int) -> None:
    documents = texts(*lengths)
    layout = Layout(VOCAB, Masking(unit=unit), pack=packed, pool_tokens=100)
    seen: list[int] = []
    for batch in epoch_of(PretrainingBatches(documents, layout, [Phase(length, 3)], seed=seed)):
        for found in read(batch, length):
            assert found.first
            assert found.second
            homes = {document_of(documents, place) for place in found.first}
            assert len(homes) == 1
            second_homes = {document_of(documents, place) for place in found.second}
            assert len(second_homes) == 1
            assert (homes != second_homes) == found.label
            seen += found.first
            if not found.label:
                assert found.second[0] > found.first[-1]
                seen += found.second
                if len(found.shown) < length:  # nothing was cut: the second segment goes on with the first
                    assert found.second[0] == found.first[-1] + 1
                    assert found.second[0] in documents.sentences
    assert len(seen) == len(set(seen))  # what is not a random segment is used once at most
    if length == 40 and max(map(max, lengths)) < 3:
        assert len(seen) > 0.8 * len(documents.ids)


def test_all_sentences_are_used_where_nothing_must_be_cut() -> None:
    documents = texts(*([1] * n for n in (5, 17, 1, 30, 8)))
    batches = epoch_of(PretrainingBatches(documents, Layout(VOCAB), [Phase(8, 4)], seed=2))
    found = [one for batch in batches for one in read(batch, 8)]
    seen = [place for one in found for place in (*one.first, *(() if one.label else one.second))]
    assert sorted(seen) == list(range(61))


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.lists(st.integers(1, 30), min_size=1, max_size=12), min_size=1, max_size=8),
    st.integers(8, 30),
    st.booleans(),
    st.integers(0, 1000),
)
def test_single_segments_use_every_token_once(lengths: list[list[int]], length: int, packed: bool, seed: int) -> None:
    documents = texts(*lengths)
    layout = Layout(VOCAB, next_sentence=False, pack=packed, pool_tokens=100)
    seen: list[int] = []
    for batch in epoch_of(PretrainingBatches(documents, layout, [Phase(length, 3)], seed=seed)):
        assert batch.next_sentence.shape == (0,)
        for found in read(batch, length):
            assert not found.second
            assert len({document_of(documents, place) for place in found.first}) == 1
            seen += found.first

    assert sorted(seen) == list(range(len(documents.ids)))


def test_half_of_the_second_segments_are_random() -> None:
    made = plan(texts(*([1] * 900 for _ in range(100))), 24, short=0.0)
    assert made.random.mean() == pytest.approx(0.5, abs=0.03)
    alone = plan(texts(*([3] for _ in range(50))), 60)
    assert alone.random.all()  # there is nothing that could follow


def plan(documents: Documents, length: int, seed: int = 0, **settings: float) -> sentence_groups.Instances:
    (pool,) = sentence_groups.pools(documents, seed, 0, 1 << 24)
    random = np.random.default_rng(seed)
    return sentence_groups.plan(documents, pool, length, next_sentence=True, random=random, **settings)


def test_a_share_of_the_sequences_is_short() -> None:
    documents = texts(*([1] * 1000 for _ in range(100)))
    lengths = plan(documents, 64).lengths
    assert np.mean(lengths < 64) == pytest.approx(0.1, abs=0.02 + 100 / len(lengths))
    assert lengths.min() < 15
    assert np.mean(plan(documents, 64, short=0.0).lengths < 64) < 0.07  # the ends of documents


def test_too_long_pairs_lose_tokens_of_the_longer_side_at_both_ends() -> None:
    documents = texts(*([20, 4] for _ in range(300)))
    made = plan(documents, 25, short=0.0)
    assert (made.lengths == 25).sum() > 250
    kept = made.take(~made.random)
    assert set(kept.first_length.tolist()) == {18}  # 20 + 4 - 22 too many, all from the first
    assert set(kept.second_length.tolist()) == {4}
    fronts = kept.first - documents.sentences[np.searchsorted(documents.sentences, kept.first, "right") - 1]
    assert fronts.mean() == pytest.approx(1, abs=0.3)
    assert set(fronts.tolist()) == {0, 1, 2}
    both = texts(*([20, 20] for _ in range(10)))
    kept = plan(both, 20, short=0.0).take(slice(None))
    assert set(kept.first_length.tolist()) == {9}
    assert set(kept.second_length.tolist()) == {8}  # of equal ones, the second loses the odd token


def test_long_documents_are_cut_elsewhere_each_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentence_groups, "STRETCH", 7)
    documents = texts([2] * 50, [2] * 3, [2] * 7)
    cuts = []
    for epoch in range(3):
        pools = sentence_groups.pools(documents, 1, epoch, 40)
        assert len(pools) == 3
        runs = sorted((int(a), int(b)) for pool in pools for a, b in zip(pool.first, pool.end))
        assert [a for a, _ in runs[1:]] == [b for _, b in runs[:-1]]
        assert (runs[0][0], runs[-1][1]) == (0, 60)
        assert max(b - a for a, b in runs) <= 7
        assert {50, 53} <= {a for a, _ in runs}
        cuts.append(tuple(runs))
    assert len(set(cuts)) > 1


def test_one_document_has_no_other() -> None:
    with pytest.raises(UsageError, match="one document") as error:
        PretrainingBatches(texts([3, 3, 3]), Layout(VOCAB), [Phase(16, 2)], seed=1)
    assert "--objective mlm" in str(error.value.hint)
    with pytest.raises(UsageError, match="one document"):
        next(in_order_batches(texts([3, 3, 3]), Layout(VOCAB), Phase(16, 2)))
    assert next(iter(PretrainingBatches(texts([3]), Layout(VOCAB, next_sentence=False), [Phase(16, 2)], seed=1)))
    with pytest.raises(UsageError, match="too short"):
        PretrainingBatches(many(1), Layout(VOCAB), [Phase(7, 2)], seed=1)


# -- batches ------------------------------------------------------------------------------------------------------------


def test_batches_have_one_shape_and_little_padding() -> None:
    random = np.random.default_rng(1)
    documents = texts(*(random.integers(1, 12, 100).tolist() for _ in range(30)))
    for next_sentence in (True, False):
        layout = Layout(VOCAB, next_sentence=next_sentence)
        batches = epoch_of(PretrainingBatches(documents, layout, [Phase(64, 4)], seed=1))
        assert {batch.ids.shape for batch in batches} == {(4, 64)}
        assert np.mean([batch.sequences == 0 for batch in batches[:-1]]) < 0.02
        assert max(batch.sequences.max() for batch in batches) > 1


def test_without_packing_a_row_is_a_sequence() -> None:
    layout = Layout(VOCAB, pack=False)
    for batch in epoch_of(PretrainingBatches(many(3), layout, [Phase(24, 4)], seed=1)):
        assert len(batch.firsts) == batch.sequences.max(axis=1).sum()
        assert batch.sequences.max() == 1


def test_special_tokens_are_never_hidden_nor_drawn() -> None:
    source = PretrainingBatches(many(4), Layout(VOCAB), [Phase(32, 4)], seed=1)
    for batch in islice(source, 20):
        assert (batch.targets >= FIRST).all()
        put = batch.ids.reshape(-1)[batch.masked]
        assert ((put >= FIRST) | (put == MASK)).all()
        assert len(batch.masked) >= len(batch.firsts)
        assert (np.diff(batch.masked) > 0).all()
        assert (np.diff(batch.firsts) > 0).all()


def test_a_sentence_begins_a_word_whatever_its_first_piece() -> None:
    """Where no piece begins a word, sentences are words: hidden whole or not at all."""
    documents = texts(*([3] * 20 for _ in range(10)))
    inner = MaskingVocabulary(PAD, CLS, SEP, MASK, VOCAB.special, VOCAB.replacements, VOCAB.special)
    layout = Layout(inner, Masking(0.3, 1.0, 0.0, "word"), short=0.0)
    for batch in in_order_batches(documents, layout, Phase(23, 4)):
        hidden = set(batch.targets.tolist())
        whole = [one for found in read(batch, 23) for one in (*found.first, *found.second)]
        for start in {place - place % 3 for place in whole}:
            sentence = [place for place in whole if place - place % 3 == start]
            kept = {place + FIRST in hidden for place in sentence}
            assert len(kept) == 1 or len(sentence) > len(set(sentence))  # a sentence may be in two sequences


@settings(max_examples=examples(25), deadline=None)
@given(st.integers(0, 60), st.integers(0, 100), st.booleans(), st.integers(1, 2))
def test_going_on_is_as_never_stopped(stop: int, seed: int, next_sentence: bool, world_size: int) -> None:
    def source() -> PretrainingBatches:
        layout = Layout(VOCAB, next_sentence=next_sentence, pool_tokens=300)
        steps = (Phase(16, 3, 25), Phase(32, 2))
        return PretrainingBatches(documents, layout, steps, seed=seed, share=Share(world_size - 1, world_size))

    documents = many(seed, 20)
    whole = source()
    list(islice(whole, stop))
    state, epoch = whole.state(), whole.epoch
    later = source()
    later.restore(dict(state))
    assert later.state() == state
    assert later.epoch == epoch
    for one, other in islice(zip(whole, later, strict=True), 12):
        assert equal(one, other)
    assert whole.state() == later.state()


def test_epochs_and_seeds_differ() -> None:
    documents = many(5)
    source = PretrainingBatches(documents, Layout(VOCAB), [Phase(32, 4)], seed=1)
    one, two = epoch_of(source), epoch_of(source)
    assert source.epoch == 2
    assert not any(equal(a, b) for a, b in zip(one, two))
    other = PretrainingBatches(documents, Layout(VOCAB), [Phase(32, 4)], seed=2)
    assert not any(equal(a, b) for a, b in zip(one, epoch_of(other)))
    same = PretrainingBatches(documents, Layout(VOCAB), [Phase(32, 4)], seed=1)
    assert all(equal(a, b) for a, b in zip(one, epoch_of(same), strict=True))


def test_epochs_are_counted() -> None:
    for pool_tokens in (1 << 24, 700):
        layout = Layout(VOCAB, pool_tokens=pool_tokens)
        source = PretrainingBatches(many(6), layout, [Phase(32, 2)], seed=1)
        expected, reached = source.batches_per_epoch, [source.epoch]
        batches = iter(source)
        while reached[-1] < 1:
            next(batches)
            reached.append(source.epoch)
        assert reached == sorted(set(reached))
        assert reached[-1] == 1
        assert len(reached) - 1 == pytest.approx(expected, rel=0.25 if pool_tokens == 700 else 0)


def test_ranks_share_an_epoch() -> None:
    documents, layout = many(7), Layout(VOCAB, pool_tokens=500)

    def sequences(rank: int, world_size: int, batch_size: int) -> list[list[tuple[int, ...]]]:
        phase = Phase(32, batch_size)
        source = PretrainingBatches(documents, layout, [phase], seed=1, share=Share(rank, world_size))
        return [[(*found.first, -1, *found.second) for found in read(batch, 32)] for batch in epoch_of(source)]

    alone, ranks = sequences(0, 1, 4), [sequences(rank, 2, 4) for rank in range(2)]
    assert len(ranks[0]) == len(ranks[1]) == len(alone)
    for together, one, other in zip(alone, *ranks):
        assert sorted(together) == sorted(one + other)


def test_masks_of_ranks_and_steps_differ() -> None:
    documents = texts([400], [400])
    layout = Layout(VOCAB, Masking(0.3), next_sentence=False, short=0.0)
    phase = [Phase(402, 2)]
    masks = {
        tuple(batch.masked.tolist())
        for rank in range(2)
        for batch in islice(PretrainingBatches(documents, layout, phase, seed=1, share=Share(rank, 2)), 3)
    }
    assert len(masks) == 6


# -- phases -------------------------------------------------------------------------------------------------------------


def test_the_length_is_a_function_of_the_step() -> None:
    steps = (Phase(16, 4, 5), Phase(64, 1, 3), Phase(32, 2))
    source = PretrainingBatches(many(8), Layout(VOCAB), steps, seed=1)
    shapes = [batch.ids.shape for batch in islice(source, 12)]
    assert shapes == [(4, 16)] * 5 + [(1, 64)] * 3 + [(2, 32)] * 4
    assert source.state()["epoch"] >= 2  # a phase begins with a new epoch


def test_phases_by_shares() -> None:
    assert phases(((128, 0.9), (512, 0.1)), 1000, 4096) == (Phase(128, 32, 900), Phase(512, 8))
    assert phases(((128, 1.0),), 10, 200) == (Phase(128, 1),)
    for wrong in (((128, 0.9),), ((128, 1.1), (512, -0.1))):
        with pytest.raises(UsageError, match="shares"):
            phases(wrong, 10, 4096)
    with pytest.raises(UsageError, match="too small for a row of 512"):
        phases(((128, 0.9), (512, 0.1)), 10, 500)


# -- held-out text ------------------------------------------------------------------------------------------------------


def test_held_out_sequences_have_the_same_masks_in_any_batch() -> None:
    documents = many(9)

    def sequences(layout: Layout, batch_size: int, world_size: int = 1) -> list[Sequence]:
        return sorted(
            found
            for rank in range(world_size)
            for batch in in_order_batches(
                documents, layout, Phase(32, batch_size), seed=3, rank=rank, world_size=world_size
            )
            for found in read(batch, 32)
        )

    layout = Layout(VOCAB, Masking(unit="word"), pool_tokens=700)
    expected = sequences(layout, 4)
    assert sequences(layout, 4) == expected
    assert sequences(layout, 7) == expected
    assert sequences(layout, 2, 3) == expected
    assert sequences(Layout(VOCAB, Masking(unit="word"), pack=False, pool_tokens=700), 3) == expected
    alone = Layout(VOCAB, next_sentence=False, short=0.0)
    seen: list[int] = []
    for batch in in_order_batches(documents, alone, Phase(32, 4)):
        seen += [place for found in read(batch, 32) for place in found.first]
    assert sorted(seen) == list(range(len(documents.ids)))


def test_real_text(tmp_path: Path) -> None:
    """Padding under 2 %, the share of masks, about as many random pairs as others."""
    pytest.importorskip("tokenizers")
    from nlptools.text.huggingface import HuggingFace, wordpiece

    letters = "abcdefghijklmnopqrstuvwxyz0123456789.,"
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *("##" + letter for letter in letters)]
    tokenizer = HuggingFace(
        wordpiece({token: id for id, token in enumerate(tokens)}, lowercase=True, strip_accents=True), "made"
    )
    file = str(published("enwiki_slice", "valid.txt"))
    documents = spool(streams.all_blocks([file]), tmp_path / "t", tokenizer, longest=509, sentences="auto")
    source = PretrainingBatches(documents, Layout(vocabulary(tokenizer)), [Phase(512, 4)], seed=1)
    batches = epoch_of(source)
    assert len(batches) == source.batches_per_epoch
    assert np.mean([batch.sequences == 0 for batch in batches[:-1]]) < 0.02
    assert np.mean(np.concatenate([batch.next_sentence for batch in batches])) == pytest.approx(0.52, abs=0.05)
