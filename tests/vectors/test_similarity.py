"""Word pairs: the layouts of published files, and cosines by definition."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nlptools.errors import BundleError, DataError, InputError
from nlptools.vectors.similarity import read, similarities
from nlptools.vectors.subwords import Subwords
from nlptools.vectors.table import Vectors
from nlptools.vectors.vocabulary import EvaluationVocabulary

EXPECTED = [("love", "sex"), ("tiger", "cat")], [6.77, 7.35]


@pytest.mark.parametrize(
    ("name", "text", "headers"),
    [
        ("ws.tsv", "# The collection\n# Word 1\tWord 2\tHuman (mean)\nlove\tsex\t6.77\ntiger\tcat\t7.35\n", 0),
        ("ws.txt", "love sex 6.77\r\n\r\ntiger  cat 7.35", 0),
        ("combined.csv", "Word 1,Word 2,Human (mean)\nlove,sex,6.77\ntiger,cat,7.35\n", 1),
        ("set1.csv", "Word 1,Word 2,Human (mean),1,2\nlove,sex,6.77,9,6\ntiger,cat,7.35,9,7\n", 1),
        ("SimLex.txt", "word1\tword2\tPOS\tSimLex999\tAssoc\nlove\tsex\tN\t6.77\t1\ntiger\tcat\tN\t7.35\t2\n", 1),
        ("SimVerb.txt", "love\tsex\tV\t6.77\tNONE\ntiger\tcat\tV\t7.35\tSYNONYMS\n", 0),
        ("first.tsv", "score\tone\tother\n6.77\tlove\tsex\n7.35\ttiger\tcat\n", 1),
        ("first.txt", "6.77 love sex\n7.35 tiger cat\n", 0),
        ("first.csv", "6.77,love,sex,NONE\n7.35,tiger,cat,SYNONYMS\n", 0),
        ("men.CSV", ",word1,word2,similarity\n0,love,sex,6.77\n1,tiger,cat,7.35\n", 1),
        ("men.txt", "love-n sex-n 6.77\ntiger-n cat-v 7.35\n", 0),
        ("quoted.csv", '"love", sex , 6.77\n"tiger","cat",7.35\n', 0),
        ("named", "word1 word2 score\nlove sex 6.77\ntiger cat 7.35\n", 1),
        ("spaced.tsv", "\ufefflove \t sex\t 6.77 \ntiger\tcat\t735e-2\t\n", 0),
    ],
)
def test_layouts(tmp_path, capsys, name, text, headers):
    (tmp_path / name).write_text(text, encoding="utf-8", newline="")
    found = read(str(tmp_path / name))
    assert (found.words, found.scores.tolist()) == EXPECTED
    notes = capsys.readouterr().err
    assert notes.count("read as a header") == headers
    assert notes.count("read without the parts of speech") == (name == "men.txt")


@settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.sampled_from('ab1.\t ,"\n#\r-_en\u0661'), max_size=40), st.sampled_from(["f", "f.csv"]))
def test_any_text_is_pairs_or_refused(tmp_path, text, name):
    (tmp_path / name).write_text(text, encoding="utf-8", newline="")
    try:
        found = read(str(tmp_path / name))
    except DataError:
        return
    assert len(found.words) == len(found.scores) > 0 and np.isfinite(found.scores).all()
    assert all(one and other for one, other in found.words)


def test_words_may_hold_what_separates_elsewhere(tmp_path):
    (tmp_path / "a.tsv").write_text("new york\ta,b\t1\n#1 hit\tx\t2\n")
    assert read(str(tmp_path / "a.tsv")).words == [("new york", "a,b")]
    (tmp_path / "a.csv").write_text('"a,b",1984,3\n')
    assert read(str(tmp_path / "a.csv")).words == [("a,b", "1984")]
    (tmp_path / "b.tsv").write_text("7\t8\t1.5\n9\t10\t2.5\n")
    assert read(str(tmp_path / "b.tsv")).words == [("7", "8"), ("9", "10")]


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a", b"", "no word pairs"),
        ("a", b"# only\n\n", "no word pairs"),
        ("a", b"a b 1\nc d 2\ne f\n", "a:3: expected two words and a finite number, got 'e f'"),
        ("a", b"a b 1\nc d nan\n", "a:2: expected two words and a finite"),
        ("a", b"a b nan\nc d 1\n", "a:1: expected"),
        ("a", b"a b 1\nc d 2\ne f inf\n", "a:3: expected"),
        ("a", b"a b 1\nc d 2\ne f x\n", "a:3: expected"),
        ("a", b"a b 1\nc d 2\ne f 1_0\n", "a:3: expected"),
        ("a", "a b 1\nc d 2\ne f ٣\n".encode(), "a:3: expected"),
        ("a", b"a b 1\nnew york c 2\n", "a:2: expected"),
        ("a", b"a b x\n", "a:1: expected"),
        ("a", b"a b\nc d 1\n", "a:1: expected"),
        ("a.csv", b"a,b\nc,d,1\n", "a.csv:1: expected"),
        ("a", b"word word score\na b x\n", "a:2: expected"),
        ("a.tsv", b"a\tb\t1\n\td\t2\n", "a.tsv:2: expected"),
        ("a.tsv", b"a\tb\t2\nc\td\t2\na\tb\tN\t1\n", "a.tsv:3: expected"),
        ("a.csv", b"a,b,1\nc d 2\n", "a.csv:2: expected"),
        ("a.csv", b"0,a,b,1\n1,c,d,2\n", "a.csv:2: expected"),
        ("a.csv", b'a,b,1\n"a"b,c,1\n', "a.csv:2: not valid CSV"),
        ("a", b"a b 1\nc \xff 2\n", "a:2: invalid UTF-8"),
    ],
)
def test_bad_files(tmp_path, name, data, said):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(DataError, match=said):
        read(str(tmp_path / name))
    with pytest.raises(InputError):
        read(str(tmp_path / "missing"))


def test_cosines():
    rows = np.array([[2, 0], [3, 4], [0, 0], [-1, 0], [3, 4]], np.float32)
    vocabulary = EvaluationVocabulary(Vectors(["a", "b", "zero", "c", "B"], rows))
    pairs = [("a", "b"), ("A", "c"), ("b", "B"), ("a", "zero"), ("a", "x"), ("x", "x")]
    found = similarities(vocabulary, pairs)
    assert found[:4] == pytest.approx([0.6, -1, 1, 0], abs=1e-7) and np.isnan(found[4:]).all()
    kept = similarities(EvaluationVocabulary(vocabulary.vectors, fold=False), pairs)
    assert kept[2] == 1 and np.isnan(kept[1])
    assert np.isnan(similarities(EvaluationVocabulary(vocabulary.vectors, 1), pairs)[0])
    assert similarities(vocabulary, []).tolist() == []


def test_a_word_beside_itself_is_always_as_near():
    rows = np.random.default_rng(0).standard_normal((200, 7), dtype=np.float32)
    vocabulary = EvaluationVocabulary(Vectors([f"w{i}" for i in range(200)], rows))
    assert (similarities(vocabulary, [(f"w{i}", f"w{i}") for i in range(200)]) == 1).all()


def test_words_of_subwords():
    rng = np.random.default_rng(0)
    own, buckets = (rng.standard_normal((n, 8), dtype=np.float32) for n in (2, 500))
    kept = Subwords(3, 6, buckets, own)
    words = ["international", "cat"]
    vectors = Vectors(words, kept.vectors(words, range(len(words))), subwords=kept)
    pairs = [("international", "internationally"), ("cat", "é")]
    assert np.isnan(similarities(EvaluationVocabulary(vectors), pairs)).all()
    found = similarities(EvaluationVocabulary(vectors, 1), [*pairs, ("international", "cat")], subwords=True)
    one, other = vectors["international"], kept.compose("internationally")
    expected = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
    assert found[0] == pytest.approx(expected, abs=1e-6)
    one, other = vectors["international"], vectors["cat"]  # behind the first word, with its own vector
    assert found[2] == pytest.approx(one @ other / np.linalg.norm(one) / np.linalg.norm(other), abs=1e-6)


def test_vectors_that_are_not_finite():
    rows = np.array([[1, 0], [0, 1], [np.inf, 1]], np.float32)
    vocabulary = EvaluationVocabulary(Vectors(list("abc"), rows))
    assert similarities(vocabulary, [("a", "b")]).tolist() == [0]
    with pytest.raises(BundleError, match="word 3 is not finite"):
        similarities(vocabulary, [("a", "c")])
