"""GloVe: counts of pairs beside a loop with a dictionary, updates beside autograd and beside a loop over entries."""

from __future__ import annotations

import json
import math
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import Run, examples
from hypothesis import given, settings
from hypothesis import strategies as st

from nlptools.errors import DataError, NlptoolsError, UsageError
from nlptools.training.word_vectors import cooccurrences, glove
from nlptools.training.word_vectors.chunks import ChunkProgress, Plan
from nlptools.training.word_vectors.cooccurrences import PAIR, Cooccurrences, count
from nlptools.training.word_vectors.glove import Glove
from nlptools.vectors.files.formats import load

V, D = 9, 4


# -- counting ---------------------------------------------------------------------------------------------------------


def naive(ids: list[int], window: int, symmetric: bool, weighted: bool) -> dict[tuple[int, int], float]:
    """The counts, one pair of tokens after the other."""
    found: dict[tuple[int, int], float] = defaultdict(float)
    for place, word in enumerate(ids):
        for distance in range(1, window + 1):
            if distance > place or V in ids[place - distance : place + 1]:
                break
            found[word, ids[place - distance]] += 1 / distance if weighted else 1
            if symmetric:
                found[ids[place - distance], word] += 1 / distance if weighted else 1
    return dict(found)


def unfolded(counts: Cooccurrences) -> dict[tuple[int, int], float]:
    """The counts with mirror images."""
    found = {(row, column): number for row, column, number in counts.pairs.tolist()}
    assert len(found) == len(counts.pairs)
    if counts.symmetric:
        assert all(row <= column for row, column in found)
        found |= {(column, row): number for (row, column), number in found.items()}
    return found


def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs, ranges and blocks of a few pairs."""
    monkeypatch.setattr(cooccurrences, "RUN", 50)
    monkeypatch.setattr(cooccurrences, "RANGE", 7)
    monkeypatch.setattr(cooccurrences, "BLOCK", 5)


@pytest.mark.parametrize("small", [False, True])
def test_counts_are_those_of_a_loop(tmp_path_factory: Any, small: bool) -> None:
    place = tmp_path_factory.mktemp("counts") / "pairs"

    @given(st.lists(st.integers(0, V), max_size=80), st.integers(1, 7), st.booleans(), st.booleans())
    @settings(max_examples=examples(60), deadline=None)
    def check(ids: list[int], window: int, symmetric: bool, weighted: bool) -> None:
        expected = naive(ids, window, symmetric, weighted)
        how: dict[str, Any] = {"window": window, "symmetric": symmetric, "weighted": weighted}
        if not expected:
            with pytest.raises(DataError, match="no two words"):
                count(np.array(ids, np.int32), V, place, **how)
            return
        found = unfolded(count(np.array(ids, np.int32), V, place, **how))
        assert found.keys() == expected.keys()
        assert all(math.isclose(found[pair], expected[pair], rel_tol=1e-6) for pair in expected)
        assert [path.name for path in place.parent.iterdir()] == ["pairs"]  # no runs are left behind

    with pytest.MonkeyPatch.context() as patch:
        if small:
            small_parts(patch)
        check()


def test_counts_by_hand(tmp_path: Path) -> None:
    ids = np.array([0, 1, 0, V, 1, 2], np.int32)
    assert unfolded(count(ids, V, tmp_path / "p", window=2)) == {
        (0, 0): 1,  # each of the two is half a context of the other
        (0, 1): 2, (1, 0): 2, (1, 2): 1, (2, 1): 1,
    }  # fmt: skip
    assert unfolded(count(ids, V, tmp_path / "p", window=2, symmetric=False)) == {
        (1, 0): 1,
        (0, 1): 1,
        (0, 0): 0.5,
        (2, 1): 1,
    }
    assert unfolded(count(ids, V, tmp_path / "p", window=2, symmetric=False, weighted=False))[0, 0] == 1


def test_counts_do_not_depend_on_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_parts(monkeypatch)
    ids = np.random.default_rng(1).integers(0, V + 1, 700).astype(np.int32)
    for workers in (1, 2, 3):
        count(ids, V, tmp_path / str(workers), window=3, workers=workers)
    one = (tmp_path / "1").read_bytes()
    assert one and one == (tmp_path / "2").read_bytes() == (tmp_path / "3").read_bytes()


@pytest.mark.parametrize("words", [1, 2, 3, 1000, 300_001, 1 << 26])
def test_keys_are_one_to_one(words: int) -> None:
    scrambling = cooccurrences._Scrambling(words, 1000)
    generator = np.random.default_rng(1)
    rows, columns = generator.integers(0, words, (2, 500)).astype(np.uint64)
    rows[:2], columns[:2] = 0, words - 1
    keys = scrambling.key(rows, columns)
    assert int(keys.max()) < 1 << scrambling.bits
    back = scrambling.pair(keys)
    assert np.array_equal(back[0], rows) and np.array_equal(back[1], columns)


def test_too_many_words_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="too many"):
        count(np.zeros(5, np.int32), 1 << 30, tmp_path / "p", window=1000)


def test_a_process_that_dies_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_parts(monkeypatch)
    monkeypatch.setattr(cooccurrences, "reduced", lambda *_: exit(3))
    with pytest.raises(NlptoolsError, match="ended with status 3"):
        count(np.zeros(500, np.int32), V, tmp_path / "p", window=2, workers=2)
    assert not [path for path in tmp_path.iterdir() if "run" in path.name]


# -- training ---------------------------------------------------------------------------------------------------------


def pairs(number: int, symmetric: bool = True) -> Cooccurrences:
    """Distinct pairs with counts on both sides of x_max."""
    generator = np.random.default_rng(2)
    every = [(i, j) for i in range(V) for j in range(i if symmetric else 0, V)]
    chosen = generator.permutation(len(every))[:number]
    made = np.empty(number, PAIR)
    made["row"], made["column"] = np.array(every)[chosen].T
    made["count"] = generator.exponential(10, number)
    return Cooccurrences(made, symmetric)


def tables(scale: float = 1.0) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    made = {name: torch.zeros(*shape) for name, shape in glove.shapes(V, D).items()}
    glove.initialize(made, generator)
    made["rows"][0::2, :-1] *= scale
    made["rows"][1::2, :-2] *= scale
    made["rows"][1::2, -1] *= scale
    return made


def model(made: dict[str, torch.Tensor], text: Cooccurrences, **options: Any) -> Glove:
    lr, epochs, chunk, workers = (
        options.pop(k, d) for k, d in (("lr", 0.05), ("epochs", 3), ("chunk", 8), ("workers", 1))
    )
    return Glove(
        made, text, Plan(len(text.pairs), epochs, lr, 5, chunk=chunk), workers, x_max=10, alpha=0.75, **options
    )


def objective(rows: torch.Tensor, pair: Any, mirrored: bool) -> torch.Tensor:
    """f(X) (w.c + b + b' - log X)^2 / 2 of one entry, from the formula."""
    i, j, x = (int(pair[1]), int(pair[0]), float(pair[2])) if mirrored else (int(pair[0]), int(pair[1]), float(pair[2]))
    word, context = rows[2 * i], rows[2 * j + 1]
    error = word[:D] @ context[:D] + word[D] + context[D + 1] - math.log(x)
    return min(1.0, (x / 10) ** 0.75) * error**2 / 2


@pytest.mark.parametrize("symmetric", [True, False])
def test_a_step_goes_down_the_gradient(symmetric: bool) -> None:
    made, text, lr = tables(20.0), pairs(40, symmetric), 0.05
    made["squares"].uniform_(0, 3)
    before = {name: table.double().clone() for name, table in made.items()}
    trained = model(made, text)
    places, logs, weights = trained._entries(text, slice(0, None), 1.0, None)
    losses = torch.empty_like(logs)
    trained.step(places.flatten(1), logs.flatten(), weights.flatten(), losses)
    total, squares = torch.zeros_like(before["rows"]), before["squares"].clone()
    expected = []
    for pair in text.pairs:
        for mirrored in (False, True)[: 1 + (symmetric and pair["row"] != pair["column"])]:
            rows = before["rows"].clone().requires_grad_()
            loss = objective(rows, pair, mirrored)
            (gradient,) = torch.autograd.grad(loss, rows)
            gradient[0::2, -1] = gradient[1::2, -2] = 0  # these are ones, no parameters
            total += gradient
            squares += (lr * gradient) ** 2
            expected.append(loss.item())
    assert torch.allclose(losses[weights > 0].double(), torch.tensor(expected, dtype=torch.float64), rtol=1e-4)
    assert torch.allclose(made["squares"].double(), squares, atol=1e-5)
    assert torch.allclose(made["rows"].double(), before["rows"] - lr * total / (1 + squares).sqrt(), atol=1e-5)
    assert (made["rows"][0::2, -1] == 1).all() and (made["rows"][1::2, -2] == 1).all()


def test_training_is_a_loop_over_entries() -> None:
    text, epochs = pairs(30, symmetric=False), 3
    made = tables()
    rows, squares = made["rows"].double().numpy().copy(), 1 + made["squares"].double().numpy()
    trained = model(made, text, epochs=epochs)
    trained.pairs = 1
    order = []
    entries = trained._entries

    def watched(*args: Any) -> Any:
        found = entries(*args)
        order.extend(found[0][:, :, 0].T.tolist())
        return found

    trained._entries = watched  # type: ignore[method-assign]
    trained.run(ChunkProgress(), trained.plan.total, lambda _: False)
    counts = {(2 * int(i), 2 * int(j) + 1): float(x) for i, j, x in text.pairs.tolist()}
    assert len(order) == epochs * 30
    for epoch in range(epochs):  # each pair once in each epoch, in another order
        assert sorted(map(tuple, order[epoch * 30 : epoch * 30 + 30])) == sorted(counts)
    assert order[:30] != order[30:60]
    for word, context in order:
        x, w, c = counts[word, context], rows[word].copy(), rows[context].copy()
        error = 0.05 * min(1, (x / 10) ** 0.75) * (w[:D] @ c[:D] + w[D] + c[D + 1] - math.log(x))
        for row, gradient in ((word, np.r_[error * c[:D], error, 0]), (context, np.r_[error * w[:D], 0, error])):
            squares[row] += gradient**2
            rows[row] -= gradient / np.sqrt(squares[row])
    assert np.abs(made["rows"].numpy() - rows).max() < 1e-5


def test_large_steps_are_nearly_those_of_single_pairs() -> None:
    ends = []
    for size in (1, 10):
        made = tables()
        trained = model(made, pairs(45), epochs=40)
        trained.pairs = size
        progress = ChunkProgress()
        trained.run(progress, trained.plan.total, lambda _: False)
        ends.append(progress.loss)
    assert ends[0] < 0.5 and abs(ends[0] - ends[1]) < 0.1 * ends[0]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("lr", [0.05, 1.0, 1e3, 1e8])
def test_no_learning_rate_runs_away(lr: float) -> None:
    made = tables()
    model(made, pairs(45), lr=lr, epochs=50).run(ChunkProgress(), 50 * 6, lambda _: False)
    assert made["rows"].isfinite().all() and float(made["rows"].abs().max()) < 100


def test_going_on_is_never_having_stopped() -> None:
    whole, parts = tables(), tables()
    model(whole, pairs(45)).run(ChunkProgress(), 18, lambda _: False)
    progress = ChunkProgress()
    while progress.chunk < 18:  # a new trainer each time, as after a restart
        model(parts, pairs(45)).run(progress, 18, lambda progress: progress.chunk % 4 == 0)
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
    assert progress.done == 3 * 45


def test_vectors_to_start_from() -> None:
    made = tables()
    vectors = torch.randn(3, D)
    glove.start_from(made, torch.tensor([1, 4, 8]), vectors)
    assert torch.allclose(glove.sums(made)[[1, 4, 8]], vectors, atol=1e-6)
    assert not torch.equal(made["rows"][2, :D], made["rows"][3, :D])  # word and context are free to differ
    assert (made["rows"][0::2, -1] == 1).all() and (made["rows"][1::2, -2] == 1).all()


# -- the command ------------------------------------------------------------------------------------------------------

GROUPS = [[f"{name}{i}" for i in range(6)] for name in ("cat", "sun", "sea", "ice")]
GLOVE = ("train-w2v", "--model", "glove", "--dim", "8")


def sentences(seed: int = 1, number: int = 2000) -> str:
    """Sentences whose words come from one group each, with frequent words from everywhere."""
    generator = random.Random(seed)
    lines = []
    for _ in range(number):
        group = generator.choice(GROUPS)
        lines.append(" ".join(generator.choice(group if generator.random() < 0.8 else ["the", "of"]) for _ in range(9)))
    return "\n".join(lines) + "\n"


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glove, "CHUNK", 50)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "options", [[], ["--workers", "2"], ["--deterministic"], ["--no-symmetric"], ["--no-distance-weighting"]], ids=str
)
def test_words_of_the_same_contexts_become_neighbors(
    call: Run, tmp_path: Path, small_chunks: None, options: list[str]
) -> None:
    done = call(*GLOVE, *options, "--epochs", "30", "-o", "v.bin", stdin=sentences())
    assert done.code == 0, done.err
    assert "co-occurrences: " in done.err and "pairs/s" in done.err
    vectors = load(tmp_path / "v.bin")
    words = [word for group in GROUPS for word in group]
    found = vectors.nearest(words, 5)
    right = [neighbor.word[:3] == word[:3] for word, near in zip(words, found, strict=True) for neighbor in near or []]
    assert np.mean(right) > 0.9


def test_deterministic_runs_give_the_same_bytes_with_any_number_of_workers(call: Run, small_chunks: None) -> None:
    common = (*GLOVE, "-q", "--deterministic", "--epochs", "2")
    one = call(*common, "--workers", "1", stdin=sentences())
    assert one.code == 0 and one.out
    assert call(*common, "--workers", "3", stdin=sentences()).out == one.out
    assert call(*common, "--seed", "2", stdin=sentences()).out != one.out


@pytest.mark.sampled(law="a stopped run goes on")
def test_a_stopped_run_goes_on(call: Run, tmp_path: Path, small_chunks: None) -> None:
    (tmp_path / "text").write_text(sentences())
    common = (*GLOVE, "text", "--deterministic", "--epochs", "2")
    assert call(*common, "-o", "whole.txt").code == 0
    codes = []
    while not codes or codes[-1] == 75:
        codes.append(call(*common, "--run", "kept", "--max-time", "0.0001s", "-o", "parts.txt").code)
    assert codes[-1] == 0 and len(codes) > 4
    assert (tmp_path / "parts.txt").read_bytes() == (tmp_path / "whole.txt").read_bytes()
    other = call(*common, "--no-symmetric", "--run", "kept", "-o", "other.txt")
    assert other.code == 73 and "symmetric" in other.err


def test_the_loss_falls_on_other_text_too(call: Run, tmp_path: Path) -> None:
    (tmp_path / "text").write_text(sentences())
    (tmp_path / "held-out").write_text(sentences(2, 500))
    done = call(*GLOVE, "text", "--valid", "held-out", "--epochs", "4", "-o", "made")
    assert done.code == 0, done.err
    record = json.loads((tmp_path / "made/training.json").read_text())
    rows = [json.loads(line) for line in (tmp_path / "made/log.jsonl").read_text().split("\n") if line]
    number = max(row.get("pairs", 0) for row in rows)
    assert record["metrics"]["pairs"] == number > 0
    losses = {kind: [row["loss"] for row in rows if row["kind"] == kind] for kind in ("train", "valid")}
    assert len(losses["valid"]) == 4 and losses["valid"] == sorted(losses["valid"], reverse=True)
    assert losses["train"][-1] < losses["train"][0]
    assert all(row["lr"] == 0.05 for row in rows if row["kind"] == "train")  # AdaGrad's falls by itself


def test_held_out_counts_are_scaled_to_the_text(tmp_path: Path) -> None:
    ids = np.random.default_rng(4).integers(0, V, 500).astype(np.int32)
    text = count(np.tile(np.append(ids, V), 4).astype(np.int32), V, tmp_path / "text", window=3)
    part = count(ids, V, tmp_path / "part", window=3)
    made = tables(10.0)
    expected, number = 0.0, 0
    for pair in text.pairs:  # a quarter as often as these counts say, in the held-out text
        quarter = np.array([(pair["row"], pair["column"], pair["count"] / 4)], PAIR)[0]
        for mirrored in (False, True)[: 1 + (pair["row"] != pair["column"])]:
            error = objective(made["rows"].double(), pair, mirrored) / min(1, (pair["count"] / 10) ** 0.75)
            expected += float(error) * min(1, (quarter["count"] / 10) ** 0.75)
            number += 1
    assert model(made, text, valid=(part, 4.0)).held_out(ids) == pytest.approx(expected / number, rel=1e-4)


def test_going_on_from_vectors(call: Run, tmp_path: Path) -> None:
    (tmp_path / "start.txt").write_text("2 8\ncat1 " + " ".join("12345678") + "\nnowhere 8 7 6 5 4 3 2 1\n")
    done = call(*GLOVE, "--init", "start.txt", "--lr", "1e-9", "--epochs", "1", "-o", "v.txt", stdin=sentences())
    assert done.code == 0, done.err
    found = load(tmp_path / "v.txt")
    assert np.allclose(found["cat1"], np.arange(1, 9), atol=1e-4) and np.allclose(
        found["nowhere"], np.arange(8, 0, -1), atol=1e-4
    )
    refused = call(*GLOVE, "--dim", "5", "--init", "start.txt", "-o", "w.txt", stdin=sentences())
    assert refused.code == 78 and "8 dimensions, but --dim is 5" in refused.err


@pytest.mark.parametrize("format", ["text", "binary", "fasttext", "glove", "vec", "npy", "bundle"])
def test_formats(call: Run, tmp_path: Path, format: str) -> None:
    done = call(*GLOVE, "--epochs", "1", "--to", format, "-o", "v", stdin=sentences(number=100))
    assert done.code == 0, done.err
    names = {"text": "word2vec", "binary": "word2vec-binary"}
    assert load(tmp_path / "v", names.get(format, format)).matrix.shape == (26, 8)


def test_what_cannot_be_counted_is_refused(call: Run) -> None:
    alone = call(*GLOVE, "--min-count", "1", stdin="a\nb\nc\n")
    assert (alone.code, alone.out) == (65, b"") and "no two words" in alone.err
    assert call(*GLOVE, "--loss", "hs", stdin="a b\n").code == 2
    assert call(*GLOVE, stdin="").code == 65
