"""Analogies: files as they come, and answers that equal all scores computed one by one."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from nlptools.errors import BundleError, DataError, InputError
from nlptools.vectors import analogies, table
from nlptools.vectors.analogies import RIGHT, UNKNOWN, WRONG, Analogy, read, solve
from nlptools.vectors.nearest import EPSILON
from nlptools.vectors.rows import unit
from nlptools.vectors.subwords import Subwords
from nlptools.vectors.table import Vectors
from nlptools.vectors.vocabulary import EvaluationVocabulary


def made(count=60, dimensions=6, seed=0, variants=0):
    """Words `w0` and so on, of which the last ones differ from the first ones in case only."""
    rows = np.random.default_rng(seed).standard_normal((count, dimensions), dtype=np.float32)
    words = [f"w{i}" for i in range(count - variants)] + [f"W{i}" for i in range(variants)]
    return Vectors(words, rows)


def by_definition(vectors, question, method, restrict, fold):
    """RIGHT, WRONG or UNKNOWN, by a loop over all words in float64."""
    size = restrict or len(vectors)
    names = [word.upper() if fold else word for word in vectors.words[:size]]
    asked = [word.upper() if fold else word for word in question]
    if not set(asked) <= set(names):
        return UNKNOWN
    rows = vectors.matrix.astype(np.float64)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    a, b, c = (rows[:size] @ rows[names.index(word)] for word in asked[:3])
    add = c + b - a
    mul = (b + 1) / 2 * (c + 1) / 2 / ((a + 1) / 2 + EPSILON)
    for row in np.argsort(-(add if method == "add" else mul)):
        if names[row] not in asked[:3]:
            return RIGHT if names[row] == asked[3] else WRONG
    return WRONG


# -- files ------------------------------------------------------------------------------------------------------------


def test_read(tmp_path):
    text = (
        b"\xef\xbb\xbf: capital-common-countries\r\nAthens Greece\tBerlin  Germany \r\n\n: gram 1\n: empty\n  a b c d"
    )
    (tmp_path / "q.txt").write_bytes(text)
    with gzip.open(tmp_path / "q.txt.gz", "wb") as out:
        out.write(text)
    for name in ("q.txt", "q.txt.gz"):
        found = read(str(tmp_path / name))
        assert found.sections == ["capital-common-countries", "gram 1", "empty"]
        assert found.places.tolist() == [0, 2]
        assert found.questions == [Analogy("Athens", "Greece", "Berlin", "Germany"), Analogy(*"abcd")]


def test_questions_before_the_first_section(tmp_path):
    (tmp_path / "q").write_text("a b c d\n: x\ne f g h\n")
    found = read(str(tmp_path / "q"))
    assert found.sections == ["", "x"] and found.places.tolist() == [0, 1]


def test_lines_end_at_newlines_alone(tmp_path):
    (tmp_path / "q").write_text(": s\na\u00a0b c\u2028d e f\n", encoding="utf-8")
    assert read(str(tmp_path / "q")).questions == [Analogy("a\u00a0b", "c\u2028d", "e", "f")]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b": x\na b c d\na b c\n", r"q:3: expected four words, got 3: 'a b c'"),
        (b": x\na b c d e\n", r"q:2: expected four words, got 5"),
        (b":x\n", r"q:1: expected four words, got 1"),
        (b"", "no analogies"),
        (b": x\n\n: y\n", "no analogies"),
        (b": x\na b c \xff\n", "q:2: invalid UTF-8"),
    ],
)
def test_bad_files(tmp_path, data, said):
    (tmp_path / "q").write_bytes(data)
    with pytest.raises(DataError, match=said):
        read(str(tmp_path / "q"))
    with pytest.raises(InputError):
        read(str(tmp_path / "missing"))


# -- answers ----------------------------------------------------------------------------------------------------------


def test_a_parallelogram():
    rows = np.array([[1, 1, 0.1], [1, -1, 0.1], [0, 1, 0.9], [0, -1, 0.9], [9, 9, 1]], np.float32)
    vocabulary = EvaluationVocabulary(Vectors(["king", "queen", "man", "woman", "throne"], rows))
    asked = [
        Analogy("man", "king", "woman", "queen"),
        Analogy("Man", "KING", "woman", "Queen"),
        Analogy("man", "king", "woman", "throne"),
        Analogy("man", "king", "woman", "woman"),  # no answer: the question names it
        Analogy("man", "king", "woman", "duchess"),
        Analogy("earl", "king", "woman", "queen"),
    ]
    for method in ("add", "mul"):
        assert solve(vocabulary, asked, method=method).tolist() == [RIGHT, RIGHT, WRONG, WRONG, UNKNOWN, UNKNOWN]
    kept = EvaluationVocabulary(vocabulary.vectors, fold=False)
    assert solve(kept, asked[:2]).tolist() == [RIGHT, UNKNOWN]
    assert solve(EvaluationVocabulary(vocabulary.vectors, 3), asked[:1]).tolist() == [UNKNOWN]
    assert solve(vocabulary, []).tolist() == []


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.tuples(*[st.integers(0, 45)] * 4), min_size=1, max_size=30),
    st.sampled_from(["add", "mul"]),
    st.sampled_from([0, 30, 58]),
    st.booleans(),
    st.integers(0, 3),
)
def test_by_definition(numbers, method, restrict, fold, seed):
    vectors = made(seed=seed, variants=20)
    asked = [Analogy(*(f"w{n}" if n % 3 else f"W{n}" for n in row)) for row in numbers]
    found = solve(EvaluationVocabulary(vectors, restrict, fold=fold), asked, method=method)
    assert found.tolist() == [by_definition(vectors, question, method, restrict, fold) for question in asked]


@pytest.mark.parametrize("method", ["add", "mul"])
def test_random_words_are_answered_now_and_then(method):
    """That what the test above compares is not all wrong: here the expected word is the one that scores best."""
    vectors = made(variants=20)
    vocabulary = EvaluationVocabulary(vectors, fold=True)
    asked = [Analogy("w1", "w2", "w3", word) for word in vectors.words]
    solved = solve(vocabulary, asked, method=method)
    answers = {asked[i].expected.upper() for i in np.flatnonzero(solved == RIGHT)}
    assert len(answers) == 1 and not answers & {"W1", "W2", "W3"}


@pytest.mark.parametrize("method", ["add", "mul"])
def test_blocks_and_batches_change_nothing(monkeypatch, method):
    vectors = made(900, variants=100)
    rng = np.random.default_rng(1)
    asked = [Analogy(*(f"w{n}" for n in row)) for row in rng.integers(0, 40, (200, 4))]
    vocabulary = EvaluationVocabulary(vectors)
    asked += [Analogy(*q[:3], word) for q in asked[:9] for word in vectors.words[:800]]
    whole = solve(vocabulary, asked, method=method)
    assert (whole == RIGHT).sum() >= 9
    for name, value in (("_WIDTH", 7), ("_COSINES", 1), ("_BATCH", 5)):
        monkeypatch.setattr(analogies, name, value)
    monkeypatch.setattr(table, "BLOCK_NUMBERS", 6 * 290)
    assert (solve(vocabulary, asked, method=method) == whole).all()


def test_the_first_of_equal_words_counts():
    rows = np.array([[1, 0], [0, 1], [1, 1], [1, 0.1], [-1, 0.1], [0.9, 0.8]], np.float32)
    vocabulary = EvaluationVocabulary(Vectors(["Paris", "France", "b", "paris", "PARIS", "france"], rows))
    assert vocabulary.place("pARIS") == 0 and vocabulary.rows(0) == [0, 3, 4]
    assert vocabulary.first.tolist() == [0, 1, 2, 0, 0, 1]
    # the nearest row, "paris", is no answer to a question that names it; of the rows of the answer, any will do
    assert solve(vocabulary, [Analogy("b", "b", "paris", "FRANCE")]).tolist() == [RIGHT]
    kept = EvaluationVocabulary(vocabulary.vectors, fold=False)
    assert kept.place("pARIS") is None and kept.rows(0) == [0]
    asked = [Analogy("b", "b", "Paris", word) for word in ("paris", "france", "FRANCE")]
    assert solve(kept, asked).tolist() == [RIGHT, WRONG, UNKNOWN]


def test_a_table_without_words():
    vocabulary = EvaluationVocabulary(Vectors([], np.empty((0, 3), np.float32)))
    assert solve(vocabulary, [Analogy(*"abcd")]).tolist() == [UNKNOWN]


def test_nothing_left_to_answer():
    vocabulary = EvaluationVocabulary(Vectors(["a", "b", "c"], np.eye(3, dtype=np.float32)))
    for expected in "abc":
        assert solve(vocabulary, [Analogy("a", "b", "c", expected)]).tolist() == [WRONG]


def test_words_of_subwords_ask_and_are_no_answers():
    rng = np.random.default_rng(0)
    own, buckets = (rng.standard_normal((n, 8), dtype=np.float32) for n in (3, 500))
    kept = Subwords(3, 6, buckets, own)
    words = ["international", "nation", "cat"]
    vectors = Vectors(words, kept.vectors(words, range(len(words))), subwords=kept)
    asked = [
        Analogy("cat", "cat", "internationally", "international"),
        Analogy("cat", "cat", "international", "internationally"),
        Analogy("é", "cat", "nation", "international"),
    ]
    vocabulary = EvaluationVocabulary(vectors)
    assert solve(vocabulary, asked).tolist() == [UNKNOWN] * 3
    assert solve(vocabulary, asked, subwords=True).tolist()[:2] == [RIGHT, UNKNOWN]
    # behind the first words, the file's own vector
    rows = np.array([[1, 0], [0, 1], [1, 0.1]], np.float32)
    short = EvaluationVocabulary(Vectors(["x", "y", "z"], rows), 2)
    assert solve(short, [Analogy("y", "y", "z", "x")], subwords=True).tolist() == [RIGHT]


def test_rows_of_zeros_and_long_ones():
    assert unit(np.array([[3, 4], [0, 0], [3e38, 0], [3e-39, 4e-39]], np.float32)) == pytest.approx(
        np.array([[0.6, 0.8], [0, 0], [1, 0], [0.6, 0.8]]), abs=1e-5
    )
    rows = np.array([[0, 0], [3e38, 0], [0, 1e-30], [1, 1]], np.float32)
    vocabulary = EvaluationVocabulary(Vectors(["zero", "long", "short", "both"], rows))
    assert solve(vocabulary, [Analogy("zero", "long", "short", "both")]).tolist() == [RIGHT]


def test_vectors_that_are_not_finite():
    rows = np.array([[1, 0], [0, np.nan], [1, 1], [1, 2]], np.float32)
    for expected in "abd":
        with pytest.raises(BundleError, match="word 2 is not finite"):
            solve(EvaluationVocabulary(Vectors(list("abcd"), rows)), [Analogy("a", "c", "d", expected)])


@pytest.mark.parametrize("name", ["msr.csv", "MSR.CSV", "msr.csv.gz"])
def test_commas_separate_the_words_of_csv(tmp_path, name):
    """As MSR's analogies come."""
    path = tmp_path / name
    data = b"good,better,rough,rougher\nbetter,good,rougher,rough\n"
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    found = analogies.read(str(path)).questions
    assert [tuple(question) for question in found] == [tuple(line.split(",")) for line in data.decode().split()]


def test_the_two_files_of_msr(tmp_path):
    (tmp_path / "word_relationship.questions").write_text("good better rough\nhigh higher sure\nlaw laws age\n")
    (tmp_path / "word_relationship.answers").write_text("JJ_JJR rougher\nJJ_JJR surer\nNN_NNS ages\n")
    found = analogies.read(str(tmp_path / "word_relationship.questions"))
    assert (found.sections, found.places.tolist()) == (["JJ_JJR", "NN_NNS"], [0, 0, 1])
    assert found.questions[1:] == [Analogy("high", "higher", "sure", "surer"), Analogy("law", "laws", "age", "ages")]
    for line in ("good better rough rougher JJ_JJR", "JJ_JJR good better rough rougher"):
        (tmp_path / "one.tsv").write_text(line.replace(" ", "\t") + "\nlaw\tlaws\tage\tages\tNN_NNS\n" + line + "\n")
        found = analogies.read(str(tmp_path / "one.tsv"))
        assert (found.sections, found.places.tolist()) == (["JJ_JJR", "NN_NNS"], [0, 1, 0])
        assert found.questions[0] == Analogy("good", "better", "rough", "rougher")
    (tmp_path / "word_relationship.answers").write_text("JJ_JJR rougher\n")
    with pytest.raises(DataError, match="unequal numbers of lines"):
        analogies.read(str(tmp_path / "word_relationship.questions"))
    (tmp_path / "word_relationship.answers").unlink()
    with pytest.raises(InputError, match=r"word_relationship\.answers"):
        analogies.read(str(tmp_path / "word_relationship.questions"))
