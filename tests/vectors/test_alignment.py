"""Alignment: a rotation that is there is found, whatever the order, the scale and the blocks."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from nlptools.errors import BundleError, DataError, UsageError
from nlptools.vectors import alignment, bilingual, csls
from nlptools.vectors.alignment import align, procrustes
from nlptools.vectors.table import Vectors

WORDS = [f"w{i}" for i in range(600)]
SAME = [(word, word) for word in WORDS]


def rotation(dimensions, seed=0):
    turn, upper = np.linalg.qr(np.random.default_rng(seed).standard_normal((dimensions, dimensions)))
    return turn * np.sign(np.diag(upper))


def rows(count=600, dimensions=20, seed=1):
    """Vectors with a mean far from zero and lengths far from one."""
    rng = np.random.default_rng(seed)
    spread = rng.standard_normal((count, dimensions)) * rng.uniform(0.1, 9, (count, 1))
    return (spread + 0.5).astype(np.float32)


def two(noise=0.0, **kwargs):
    """(source, target, W): the target is the source times W."""
    source, turn = rows(**kwargs), rotation(kwargs.get("dimensions", 20))
    other = source @ turn
    other += noise * np.random.default_rng(5).standard_normal(other.shape) * np.linalg.norm(other, axis=1)[:, None]
    words = WORDS[: len(source)]
    return Vectors(words, source), Vectors(words, other.astype(np.float32)), turn


def solve(source, target, pairs, **kwargs):
    return align(source, target, pairs, **kwargs)


@pytest.mark.parametrize("normalize", ["none", "unit", "center"])
def test_a_rotation_is_recovered(normalize):
    source, target, turn = two()
    made = solve(source, target, SAME[::3], normalize=normalize)
    np.testing.assert_allclose(made.rotation, turn, atol=1e-5)
    test = bilingual.look_up(SAME[1::3], source, target)
    assert set(made.precision(test).values().values()) == {1.0}
    np.testing.assert_allclose(made.rotated_source().matrix, made.normalized_target().matrix, atol=2e-5)


@pytest.mark.parametrize("normalize", ["none", "unit", "center"])
def test_laws(normalize):
    source, target, _ = two(noise=0.1)
    made = solve(source, target, SAME, normalize=normalize)
    np.testing.assert_allclose(made.rotation.T @ made.rotation, np.eye(20), atol=1e-12)
    itself = solve(source, source, SAME, normalize=normalize)
    np.testing.assert_allclose(itself.rotation, np.eye(20), atol=1e-10)
    shuffled = [SAME[i] for i in np.random.default_rng(0).permutation(len(SAME))]
    assert np.array_equal(solve(source, target, shuffled + SAME[:9], normalize=normalize).rotation, made.rotation)
    known = bilingual.look_up(SAME, source, target)
    assert np.array_equal(solve(source, target, known, normalize=normalize).rotation, made.rotation)
    back = solve(target, source, SAME, normalize=normalize)
    np.testing.assert_allclose(back.rotation, made.rotation.T, atol=1e-10)
    longer = Vectors(WORDS, source.matrix * np.float32(8)), Vectors(WORDS, target.matrix * np.float32(0.5))
    np.testing.assert_allclose(solve(*longer, SAME, normalize=normalize).rotation, made.rotation, atol=1e-6)


@given(st.integers(1, 6), st.integers(1, 30), st.integers(0, 1000))
@settings(max_examples=examples(40))
def test_no_orthogonal_matrix_does_better(dimensions, pairs, seed):
    rng = np.random.default_rng(seed)
    one, other = rng.standard_normal((2, pairs, dimensions))
    best = np.linalg.norm(one @ procrustes(one, other) - other)
    for i in range(5):
        assert best <= np.linalg.norm(one @ rotation(dimensions, seed + i) - other) + 1e-9


def test_steps_by_hand():
    table = Vectors(["a", "b", "zero"], np.array([[3, 4], [0, 2], [0, 0]], np.float32))
    assert alignment.Normalization(table, "none").apply(table.matrix).tolist() == table.matrix.tolist()
    np.testing.assert_allclose(
        alignment.Normalization(table, "unit").apply(table.matrix), [[0.6, 0.8], [0, 1], [0, 0]], atol=1e-7
    )
    centered = alignment.Normalization(table, "center", restrict=2)
    np.testing.assert_allclose(centered.mean, [0.3, 0.9], atol=1e-7)
    expected = np.array([[0.3, -0.1], [-0.3, 0.1], [0, 0]])
    expected[:2] /= np.sqrt(0.1)
    np.testing.assert_allclose(centered.apply(table.matrix), expected, atol=1e-6)


def test_refinement_helps_a_poor_dictionary():
    source, target, turn = two(noise=0.15)
    test = bilingual.look_up(SAME, source, target)
    errors, right = [], []
    for rounds in (0, 1, 5):
        made = solve(source, target, SAME[:25], refine=rounds)
        errors.append(np.abs(made.rotation - turn).max())
        right.append(made.precision(test).values()["precision@1:csls"])
    assert errors[0] > errors[1] > 4 * errors[2] and right[0] < right[1] < right[2]
    assert np.array_equal(made.learned[:25], np.stack([np.arange(25)] * 2, axis=1)), "the dictionary stays"


def test_what_cannot_be_aligned(capsys):
    source, target, _ = two()
    with pytest.raises(DataError, match="none of the 1 pairs"):
        solve(source, target, [("w1", "other")])
    with pytest.raises(DataError, match="20 dimensions"):
        solve(source, Vectors(["w1"], np.ones((1, 3), np.float32)), SAME)
    broken = target.matrix.copy()
    for normalize, bad in (("unit", np.nan), ("none", np.inf), ("center", np.inf)):
        broken[7, 3] = bad
        with pytest.raises(BundleError, match="word 8 is not finite"):
            solve(source, Vectors(WORDS, broken), SAME, normalize=normalize)
        with pytest.raises(BundleError, match="word 8 is not finite"):
            made = solve(Vectors(WORDS, broken), target, SAME[:7], restrict=7, normalize=normalize)
            list(made.rotated_source().blocks())
    solve(source, target, SAME[:5])
    assert "5 pairs do not determine a rotation of 20 dimensions" in capsys.readouterr().err
    made = solve(source, target, SAME)
    with pytest.raises(DataError, match="no pair to test on"):
        made.precision(bilingual.look_up([("x", "y")], source, target))
    for prefixes in (["de:"], ["a", "ab"], ["x", "x"], ["a", "b", "c"]):
        with pytest.raises(UsageError, match="prefixes"):
            made.joined(prefixes)


def test_both_in_one_table():
    source, target, _ = two()
    short = Vectors(WORDS[:4], target.matrix[:4])
    made = solve(source, short, SAME)
    table = made.joined(["a:", "b:"])
    assert table.words.list()[:9] == ["a:w0", "b:w0", "a:w1", "b:w1", "a:w2", "b:w2", "a:w3", "b:w3", "a:w4"]
    assert len(table) == 604 and table.words[603] == "a:w599"
    one, other = made.rotated_source(), made.normalized_target()
    for word in ("a:w0", "b:w3", "a:w599"):
        np.testing.assert_array_equal(table[word], {"a": one, "b": other}[word[0]][word[2:]])
    np.testing.assert_array_equal(table.matrix[[1, 3]], other.matrix[:2])
    np.testing.assert_array_equal(np.concatenate([block for _, block in table.blocks()]), table.matrix)
    [[(nearest, _)]] = table.nearest(["a:w2"], 1)
    assert nearest == "b:w2"


# -- CSLS -------------------------------------------------------------------------------------------------------------


def unit(table):
    return (table / np.linalg.norm(table, axis=1, keepdims=True)).astype(np.float32)


def naive_hubness(one, other, k):
    return np.sort((one @ other.T).astype(np.float64), axis=1)[:, -k:].mean(axis=1)


@pytest.mark.parametrize("blocks", [(1024, 8192), (7, 5), (50, 64)])
@pytest.mark.parametrize("k", [1, 10, 90])
def test_in_blocks_as_all_at_once(monkeypatch, blocks, k):
    monkeypatch.setattr(csls, "ROWS", blocks[0])
    monkeypatch.setattr(csls, "COLUMNS", blocks[1])
    one, other = unit(rows(130, 6)), unit(rows(90, 6, seed=2))
    cosines = (one @ other.T).astype(np.float64)
    r_one, r_other = naive_hubness(one, other, k), naive_hubness(other, one, k)
    np.testing.assert_allclose(csls.hubness(one, other, k), r_one, atol=1e-6)
    scores, places = csls.retrieve(one, other, k)
    np.testing.assert_allclose(scores, -np.sort(-cosines, axis=1)[:, :k], atol=1e-6)
    np.testing.assert_allclose(np.take_along_axis(cosines, places, 1), scores, atol=1e-6)
    full = 2 * cosines - r_one[:, None] - r_other
    scores, places = csls.retrieve(one, other, 3, csls.hubness(other, one, k))
    np.testing.assert_allclose(np.take_along_axis(full, places, 1), -np.sort(-full, axis=1)[:, :3], atol=1e-6)
    pairs = csls.mutual_nearest(one, other, k)
    best = full.argmax(axis=1)
    expected = [[i, j] for i, j in enumerate(best) if full[:, j].argmax() == i]
    assert pairs.tolist() == expected and len(expected) > 3


def test_among_equals_the_first(monkeypatch):
    monkeypatch.setattr(csls, "COLUMNS", 4)
    one = np.eye(2, dtype=np.float32)
    other = np.array([[1, 0]] * 11, np.float32)
    assert csls.retrieve(one, other, 6)[1].tolist() == [list(range(6))] * 2


def test_nothing_to_retrieve():
    some, none = np.eye(3, dtype=np.float32), np.empty((0, 3), np.float32)
    assert csls.retrieve(none, some, 2)[1].shape == (0, 2) and csls.retrieve(some, none, 2)[1].shape == (3, 0)
    assert csls.hubness(some, none).tolist() == [0, 0, 0]
    assert len(csls.mutual_nearest(some, none)) == len(csls.mutual_nearest(none, some)) == 0


def test_a_hub_is_no_translation():
    """The second target is near to both sources; CSLS gives the first source the target that is its own."""
    angles = np.radians([0, 40, 80])
    around = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    source, target = around[[0, 1]], np.stack([np.cos(np.radians([-16, 15])), np.sin(np.radians([-16, 15]))], axis=1)
    target = target.astype(np.float32)
    assert csls.retrieve(source, target, 1)[1].tolist() == [[1], [1]]
    assert csls.retrieve(source, target, 1, csls.hubness(target, source, 2))[1].tolist() == [[0], [1]]


# -- dictionaries -----------------------------------------------------------------------------------------------------


def test_lines_of_a_dictionary(tmp_path):
    (tmp_path / "d").write_text("\ufeffHund dog\r\nKatze\tcat\n\nNew York\tnew york\na  b \nHund\thound\n x\u00a0y z\n")
    found = bilingual.read_dictionary(str(tmp_path / "d"))
    assert found == [("Hund", "dog"), ("Katze", "cat"), ("New York", "new york"), ("a", "b"), ("Hund", "hound"),
                     ("x\u00a0y", "z")]  # fmt: skip


@pytest.mark.parametrize("line", ["Hund", "Hund dog 0.5", "Hund\t", "a\tb\tc", "\tdog"])
def test_bad_lines_of_a_dictionary(tmp_path, line):
    (tmp_path / "d").write_text(f"a b\n{line}\n")
    with pytest.raises(DataError, match="d:2: expected a word and its translation"):
        bilingual.read_dictionary(str(tmp_path / "d"))


def test_an_empty_dictionary(tmp_path):
    (tmp_path / "d").write_text("\n \n")
    with pytest.raises(DataError, match="no pairs"):
        bilingual.read_dictionary(str(tmp_path / "d"))


def test_places_and_counts():
    source, target, _ = two()
    pairs = [("w5", "w7"), ("w5", "w6"), ("w5", "w7"), ("w1", "x"), ("w300", "w2"), ("y", "w2")]
    known = bilingual.look_up(pairs, source, target)
    assert known.places.tolist() == [[5, 6], [5, 7], [300, 2]]
    assert (known.pairs, known.words, known.known_words) == (5, 4, 2)
    assert bilingual.coverage(known, "d") == "d: 3 of 5 pairs in the vocabularies (2 of 4 words)"
    assert bilingual.look_up(pairs, source, target, 300).places.tolist() == [[5, 6], [5, 7]]


def test_words_are_held_out_with_all_their_translations():
    source, target, _ = two()
    pairs = [(f"w{i}", f"w{j}") for i in range(100) for j in (i, i + 1)]
    known = bilingual.look_up(pairs, source, target)
    for amount, count in ((0.2, 20), (33, 33)):
        kept, out = bilingual.hold_out(known, amount, 1)
        assert out.words == count and len(out.places) == 2 * count and len(kept.places) == 200 - 2 * count
        assert not set(kept.places[:, 0]) & set(out.places[:, 0])
        again = bilingual.hold_out(bilingual.look_up(pairs[::-1], source, target), amount, 1)[1]
        assert np.array_equal(again.places, out.places)
        assert not np.array_equal(bilingual.hold_out(known, amount, 2)[1].places, out.places)
    for amount in (100, 0.001, 0.999):
        with pytest.raises(UsageError, match="held out"):
            bilingual.hold_out(known, amount, 1)


def test_precision_by_hand():
    """Targets at 0, 10, .. degrees, sources on their side: the rank of a target is how many are nearer, plus one."""
    angles = np.radians(np.arange(12) * 10)
    target = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    places = np.array([[0, 0], [0, 3], [1, 4], [2, 11], [3, 9]])
    ranks = bilingual.ranks(places, target[[0, 0, 0, 0]], target)
    assert ranks.tolist() == [1, 5, 0, 10]
    made = bilingual.precision({"cosine": ranks})
    assert made.values() == {"precision@1:cosine": 0.25, "precision@5:cosine": 0.5, "precision@10:cosine": 0.75}
    assert made.count == 4 and made.unit == "words"
    mean, half = made.intervals(200)["precision@5:cosine"]
    assert 0.4 < mean < 0.6 and 0.3 < half <= 0.5
    assert bilingual.ranks(np.empty((0, 2), np.int64), target, target).tolist() == []
