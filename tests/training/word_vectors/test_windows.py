"""Tiles: which pairs of tokens they hold, and how they thin out."""

from __future__ import annotations

import numpy as np
import torch
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from nlptools.training.word_vectors.huffman import huffman
from nlptools.training.word_vectors.negatives import Negatives
from nlptools.training.word_vectors.windows import ContextWindows

V = 9


def pairs(ids: list[int], radius: int, tile: int, *, shrink: bool = False, seed: int = 1) -> list[tuple[int, int]]:
    windows = ContextWindows(radius, tile, torch.cat([torch.ones(V), torch.zeros(1)]), shrink=shrink)
    tiles = windows.tiles(torch.tensor(ids, dtype=torch.int64), torch.Generator().manual_seed(seed))
    inside = windows.inside(tiles)
    windows._patterns = None
    assert torch.equal(windows.inside(tiles), inside)  # the way for large windows
    assert torch.equal(inside.sum(-1, keepdim=True), tiles.counts)
    found = []
    for n, t, c in inside.nonzero().tolist():
        assert inside[n, t, c] == 1
        found.append((int(tiles.tokens[n, t]), int(tiles.contexts[n, c])))
    return sorted(found)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.integers(0, V), max_size=60), st.integers(1, 6), st.integers(1, 9))
def test_full_windows_hold_every_pair_of_a_sequence(ids: list[int], radius: int, tile: int) -> None:
    expected = []
    sentence: list[int] = []
    for id in [*ids, V]:
        if id != V:
            sentence.append(id)
            continue
        for i, word in enumerate(sentence):
            expected += [
                (word, sentence[j]) for j in range(max(0, i - radius), min(len(sentence), i + radius + 1)) if j != i
            ]
        sentence = []
    assert pairs(ids, radius, tile) == sorted(expected)


def test_radii_are_uniform() -> None:
    windows = ContextWindows(5, 32, torch.cat([torch.ones(V), torch.zeros(1)]))
    tiles = windows.tiles(torch.zeros(64_000, dtype=torch.int64), torch.Generator().manual_seed(1))
    shares = torch.bincount(tiles.left.flatten(), minlength=6)[1:] / 64_000
    assert (shares - 0.2).abs().max() < 0.01
    assert torch.equal(tiles.left, tiles.right) is False  # at the ends
    assert (tiles.left != tiles.right).sum() <= 10


def test_frequent_words_are_thinned_out() -> None:
    keep = torch.tensor([0.25, 1.0, 0.0])
    windows = ContextWindows(2, 8, keep)
    ids = torch.tensor([0, 1] * 8000)
    tiles = windows.tiles(ids, torch.Generator().manual_seed(1))
    real = tiles.left + tiles.right > 0
    kept = tiles.tokens[real]
    assert (kept == 1).sum() == 8000
    assert abs(int((kept == 0).sum()) - 2000) < 150


def test_nothing_is_no_tile() -> None:
    assert pairs([], 3, 4) == [] and pairs([V, V], 3, 4) == []


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.integers(0, 1000), min_size=1, max_size=30).filter(any), st.integers(1, 500), st.integers(0, 99))
def test_negatives_follow_the_power_of_the_counts(counts: list[int], number: int, seed: int) -> None:
    drawn = Negatives(np.array(counts), 0.75, torch.device("cpu")).draw(
        (number, 2), torch.Generator().manual_seed(seed)
    )
    found = torch.bincount(drawn.flatten(), minlength=len(counts)).numpy()
    expected = np.array(counts) ** 0.75 / (np.array(counts) ** 0.75).sum() * 2 * number
    assert drawn.shape == (number, 2) and (np.abs(found - expected) < 1 + 1e-6).all()


def test_negatives_are_drawn_without_order_and_without_bias() -> None:
    counts = np.array([1000, 0, 300, 5, 1])
    generator, sums, firsts = torch.Generator().manual_seed(2), torch.zeros(5), torch.zeros(5)
    negatives = Negatives(counts, 0.75, torch.device("cpu"))
    for _ in range(4000):
        drawn = negatives.draw((7,), generator)
        sums += torch.bincount(drawn, minlength=5)
        firsts[drawn[0]] += 1
    expected = torch.from_numpy(counts**0.75 / (counts**0.75).sum()).float()
    assert (sums / 28_000 - expected).abs().max() < 0.005
    assert (firsts / 4000 - expected).abs().max() < 0.03


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.integers(0, 1000), min_size=1, max_size=40))
def test_codes_are_free_of_prefixes_and_of_the_best_length(counts: list[int]) -> None:
    import heapq

    lengths, nodes, turns = huffman(np.array(counts))
    starts = lengths.cumsum() - lengths
    codes = ["".join(map(str, turns[s : s + n])) for s, n in zip(starts, lengths, strict=True)]
    assert len(set(codes)) == len(codes)
    assert not any(a != b and b.startswith(a) for a in codes for b in codes)
    root = len(counts) - 2
    for s, n in zip(starts, lengths, strict=True):
        assert not n or nodes[s] == root
        assert len(set(nodes[s : s + n].tolist())) == n and (nodes[s : s + n] >= 0).all()
    heap, least = list(counts), 0
    heapq.heapify(heap)
    while len(heap) > 1:
        both = heapq.heappop(heap) + heapq.heappop(heap)
        least += both
        heapq.heappush(heap, both)
    assert int((lengths * np.array(counts)).sum()) == least
