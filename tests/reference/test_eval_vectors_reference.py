"""Analogies and word similarity beside gensim: the same counts, section by section, and the same correlations."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nlptools.configs.eval_vectors import EvalVectors
from nlptools.vectors.evaluation import evaluate
from nlptools.vectors.nearest import EPSILON
from nlptools.vectors.table import Vectors
from tests.real_data import published

models = pytest.importorskip("gensim.models")
pytestmark = [pytest.mark.reference, pytest.mark.filterwarnings("ignore")]


def a_world(seed, kinds=6, each=14, variants=25):
    """Words in pairs that differ by the relation of their kind, more or less, some of them twice in different case."""
    rng = np.random.default_rng(seed)
    words, rows = [], []
    for kind in range(kinds):
        relation = rng.standard_normal(20)
        for i in range(each):
            base = rng.standard_normal(20)
            words += [f"k{kind}a{i}", f"K{kind}b{i}"]
            rows += [base, base + relation + rng.standard_normal(20) * 0.9]
    for i in rng.choice(len(words), variants, replace=False):
        words.append(words[i].swapcase())
        rows.append(rows[i] + rng.standard_normal(20) * 0.3)
    order = rng.permutation(len(words))
    return [words[i] for i in order], np.array(rows, np.float32)[order] * rng.uniform(0.5, 2, (len(words), 1))


def both(words, rows):
    theirs = models.KeyedVectors(vector_size=rows.shape[1])
    theirs.add_vectors(words, rows.astype(np.float32))
    return Vectors(words, rows.astype(np.float32)), theirs


def analogies(path, seed, kinds=6, each=14):
    """Questions of each kind, in sections; words of other kinds, unknown words and other case here and there."""
    rng = np.random.default_rng(seed)
    lines = []
    for kind in range(kinds):
        lines.append(f": {'gram' if kind > 2 else 'kind '}{kind}")
        for _ in range(60):
            i, j = rng.integers(0, each, 2)
            question = [f"k{kind}a{i}", f"K{kind}b{i}", f"k{kind}a{j}", f"K{kind}b{j}"]
            if rng.random() < 0.1:
                question[rng.integers(4)] = rng.choice(["nowhere", f"k{(kind + 1) % kinds}a{i}"])
            if rng.random() < 0.2:
                question = [word.swapcase() for word in question]
            lines.append(" ".join(question))
    lines.append(": empty")
    Path(path).write_text("\n".join(lines) + "\n")
    return str(path)


def pairs(path, seed, kinds=6, each=14):
    """Word pairs with scores in steps, so that many are equal."""
    rng = np.random.default_rng(seed)
    lines = ["# a comment"]
    for _ in range(150):
        # not a word beside itself: gensim computes cosines from 0.9999999 to 1.0000001, which do not tie
        i, j = rng.choice(kinds * each, 2, replace=False)
        one, other = (f"k{n % kinds}a{n // kinds}" for n in (i, j))
        lines.append(f"{one}\t{other if rng.random() < 0.9 else 'nowhere'}\t{rng.integers(0, 11) / 2}")
    Path(path).write_text("\n".join(lines) + "\n")
    return str(path)


OPTIONS = [
    ({}, {}),
    ({"restrict": 120}, {"restrict_vocab": 120}),
    ({"case": "keep"}, {"case_insensitive": False}),
    ({"unknown": "wrong", "restrict": 150}, {"dummy4unknown": True, "restrict_vocab": 150}),
    ({"unknown": "wrong", "case": "keep"}, {"dummy4unknown": True, "case_insensitive": False}),
]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("ours", "theirs"), OPTIONS)
def test_analogies(tmp_path, seed, ours, theirs):
    vectors, model = both(*a_world(seed))
    path = analogies(tmp_path / "q.txt", seed)
    total, sections = model.evaluate_word_analogies(path, **theirs)
    found = {score.name: score for score in evaluate(vectors, EvalVectors(analogies=(path,), **ours))}
    names = [section["section"] for section in sections[:-1]]
    assert [*names, "semantic", "syntactic", "total"] == list(found)
    solved = 0
    for section in sections:
        ours = found["total" if section["section"] == "Total accuracy" else section["section"]]
        right, wrong = len(section["correct"]), len(section["incorrect"])
        solved += right
        assert ours.correct == right
        assert ours.value == (pytest.approx(right / (right + wrong)) if right + wrong else None)
        assert (ours.count if theirs.get("dummy4unknown") else ours.answered) == right + wrong
    assert found["total"].value == pytest.approx(total) and solved > 50


def test_gensim_looks_at_five_words_only(tmp_path):
    """Where more than five words differ only in case from those of the question, it gives up: a departure."""
    rng = np.random.default_rng(0)
    a, b, c = np.eye(20)[:3]
    words = ["man", "woman", "rome", *("Rome", "ROme", "ROMe", "ROME", "roMe", "rOme"), "answer", "other"]
    rows = np.array([a, b, c, *[b - a + c] * 6, b - a + 0.9 * c, rng.standard_normal(20)])
    vectors, model = both(words, rows)
    (tmp_path / "q").write_text(": s\nman woman rome answer\n")
    [section, _] = model.evaluate_word_analogies(str(tmp_path / "q"))[1]
    assert len(section["incorrect"]) == 1
    [_, total] = evaluate(vectors, EvalVectors(analogies=(str(tmp_path / "q"),)))
    assert total.correct == 1


@pytest.mark.parametrize("seed", range(3))
def test_3cosmul(tmp_path, seed):
    """gensim evaluates with 3CosAdd alone; its search by 3CosMul adds another number to the denominator."""
    vectors, model = both(*a_world(seed, variants=0))
    path = analogies(tmp_path / "q.txt", seed)
    expected, close = {}, set()
    for place, line in enumerate(Path(path).read_text().split("\n")):
        words = line.split(" ")
        if len(words) == 4 and all(word in model for word in words):
            a, b, c, answer = words
            best = model.most_similar_cosmul(positive=[b, c], negative=[a], topn=2)
            expected[place] = best[0][0] == answer
            if best[0][1] < best[1][1] * (1 + 10 * EPSILON):
                close.add(place)
    settings = EvalVectors(analogies=(path,), method="mul", case="keep")
    total = evaluate(vectors, settings)[-1]
    assert total.answered == len(expected) and abs(total.correct - sum(expected.values())) <= len(close)
    assert total.correct > 50 and len(close) < 0.1 * len(expected)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("ours", "theirs"), OPTIONS)
def test_pairs(tmp_path, seed, ours, theirs):
    vectors, model = both(*a_world(seed))
    path = pairs(tmp_path / "pairs.tsv", seed)
    pearson, spearman, unknown = model.evaluate_word_pairs(path, **theirs)
    found = {score.name: score for score in evaluate(vectors, EvalVectors(pairs=(path,), **ours))}
    assert found["pearson"].value == pytest.approx(pearson[0], abs=1e-6)
    assert found["spearman"].value == pytest.approx(spearman[0], abs=1e-12)
    assert 100 * (1 - found["spearman"].answered / found["spearman"].count) == pytest.approx(unknown)
    assert found["spearman"].answered < found["spearman"].count == 150


def test_published_files(tmp_path):
    """questions-words.txt and WordSim-353 on vectors that answer about half of the questions."""
    asked, compared = published("analogies", "questions-words.txt"), published("wordsim", "wordsim353.tsv")
    rng = np.random.default_rng(0)
    rows: dict[str, np.ndarray] = {}
    section, few = 0, []
    for line in asked.read_text().split("\n"):
        words = line.lower().split()
        if line.startswith(":"):
            section, few = section + 1, []
            relation = rng.standard_normal(50)
        elif words and len(few) < 150:  # gensim takes milliseconds for each
            few.append(line)
            for one, other in (words[:2], words[2:]):
                rows.setdefault(one, rng.standard_normal(50))
                rows.setdefault(other, rows[one] + relation + 1.3 * rng.standard_normal(50))
        if line.startswith(":") or (words and len(few) < 150):
            with open(tmp_path / "q.txt", "a") as out:
                out.write(line + "\n")
    for line in compared.read_text().split("\n"):
        for word in line.lower().split("\t")[:2] if "\t" in line else ():
            rows.setdefault(word, rng.standard_normal(50))
    words = [word for word in rows if rng.random() < 0.97]
    vectors, model = both(words, np.array([rows[word] for word in words]))
    total, sections = model.evaluate_word_analogies(str(tmp_path / "q.txt"))
    pearson, spearman, _ = model.evaluate_word_pairs(str(compared))
    found = evaluate(vectors, EvalVectors(analogies=(str(tmp_path / "q.txt"),), pairs=(str(compared),)))
    values = {score.name: score for score in found}
    assert [values[part["section"]].correct for part in sections[:-1]] == [
        len(part["correct"]) for part in sections[:-1]
    ]
    assert 0.1 < total < 0.9 and values["total"].value == pytest.approx(total)
    assert values["spearman"].value == pytest.approx(spearman[0], abs=1e-5)
    assert values["pearson"].value == pytest.approx(pearson[0], abs=1e-6)
