"""Coreference metrics: the published values of the official scorer's test cases, laws, and files."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import numpy as np
import pytest
from conftest import Run

from nlptools import evaluate
from nlptools.errors import DataError
from nlptools.formats.examples import Chain
from nlptools.metrics.assignment import best_assignment
from nlptools.metrics.coreference import coreference, read_files

Values = dict[str, tuple[float, ...]]  # metric -> recall, precision and, if it is published, F1

# The chains of the test cases A to N of reference-coreference-scorers and coval; a letter is a mention, B a span next to b.
CASES: dict[str, tuple[str, str, Values]] = {
    "A1": ("a bc def", "a bc def", {"muc": (1, 1, 1), "b-cubed": (1, 1, 1), "ceaf-e": (1, 1, 1), "lea": (1, 1, 1)}),
    "A2": (
        "a bc def",
        "a de",
        {"muc": (1 / 3, 1, 0.5), "b-cubed": (7 / 18, 1, 14 / 25), "ceaf-e": (0.6, 0.9, 0.72), "lea": (1 / 3, 1, 0.5)},
    ),
    "A3": (
        "a bc def",
        "a bcx defy z",
        {
            "muc": (1, 3 / 5, 0.75),
            "b-cubed": (1, (4 + 7 / 12) / 9, 110 / 163),
            "ceaf-e": (0.88571, 0.66429, 0.75918),
            "lea": (1, 4 / 9),
        },
    ),
    "A4": (
        "a bc def",
        "a bcx dy z",
        {
            "muc": (1 / 3, 1 / 3, 1 / 3),
            "b-cubed": (5 / 9, 17 / 42),
            "ceaf-e": (0.73333, 0.55, 0.62857),
            "lea": (0.5, 2 / 7),
        },
    ),
    "A5": (
        "a bc def",
        "a bcxB dy z",
        {
            "muc": (1 / 3, 1 / 4, 2 / 7),
            "b-cubed": (5 / 9, 5 / 16),
            "ceaf-e": (0.68889, 0.51667, 0.59048),
            "lea": (0.5, 5 / 24),
        },
    ),
    "A6": (
        "a bc def",
        "a bcx dy Bz",
        {
            "muc": (1 / 3, 1 / 4, 2 / 7),
            "b-cubed": (5 / 9, 17 / 48),
            "ceaf-e": (0.73333, 0.55, 0.62857),
            "lea": (0.5, 0.25),
        },
    ),
    "A7": (  # the second b is a repetition and does not count
        "a bc def",
        "a bcxb dy z",
        {
            "muc": (1 / 3, 1 / 3, 1 / 3),
            "b-cubed": (5 / 9, 17 / 42),
            "ceaf-e": (0.73333, 0.55, 0.62857),
            "lea": (0.5, 2 / 7),
        },
    ),
    "A8": (
        "a bc def",
        "a bcx dy bz",
        {"muc": (1 / 3, 1 / 3), "b-cubed": (5 / 9, 17 / 42), "ceaf-e": (0.73333, 0.55), "lea": (0.5, 2 / 7)},
    ),
    "A9": (
        "a bc def",
        "a bcx dy bbbbbbbbbbz",
        {"muc": (1 / 3, 1 / 3), "b-cubed": (5 / 9, 17 / 42), "ceaf-e": (0.73333, 0.55), "lea": (0.5, 2 / 7)},
    ),
    "A10": ("a bc def", "a b c d e f", {"muc": (0, 0, 0), "b-cubed": (0.5, 1, 2 / 3), "lea": (1 / 6, 1 / 6)}),
    "A11": (
        "a bc def",
        "abcdef",
        {"muc": (1, 3 / 5, 0.75), "b-cubed": (1, 7 / 18, 14 / 25), "lea": (5 / 6, 4 / 15)},
    ),
    "A12": ("a bc def", "a x y c d e z", {"muc": (0, 0, 0), "b-cubed": (13 / 36, 4 / 7), "lea": (1 / 6, 1 / 7)}),
    "A13": (
        "a bc def",
        "axycdez",
        {"muc": (1 / 3, 1 / 6, 2 / 9), "b-cubed": (17 / 36, 6 / 49), "lea": (1 / 6, 1 / 21)},
    ),
    "B1": ("ab cde", "bcx de", {"lea": (1 / 5, 2 / 5)}),
    "C1": ("ab cde fg", "bcx de fg", {"lea": (3 / 7, 4 / 7)}),
    "D1": (
        "12345 67 89ABC",
        "12345 6789ABC",
        {"muc": (1, 0.9), "b-cubed": (1, 16 / 21), "lea": (1, (5 + 77 / 21) / 12)},
    ),
    "E1": (
        "12345 67 89ABC",
        "1234589ABC 67",
        {"muc": (1, 0.9), "b-cubed": (1, 7 / 12), "lea": (1, (200 / 45 + 2) / 12)},
    ),
    "F1": ("ABCD", "AB CD", {"muc": (2 / 3, 1), "lea": (1 / 3, 1)}),
    "G1": ("AB CD", "ABCD", {"muc": (1, 2 / 3), "lea": (1, 1 / 3)}),
    "H1": ("ABCD", "ABCD", {"muc": (1, 1), "lea": (1, 1)}),
    "J1": ("ABC", "AC", {"muc": (1 / 2, 1), "lea": (1 / 3, 1)}),
    "K1": ("BCDEGHJ", "ABC DEF GHI", {"muc": (0.5, 0.5, 0.5), "lea": (1 / 7, 1 / 3)}),
    "L1": ("ABC DEFG", "AB CD FGH", {"muc": (2 / 5, 2 / 4), "lea": ((1 + 4 / 6) / 7, 3 / 7)}),
    "M1": ("abcdef", "abcdef", {"muc": (1, 1), "b-cubed": (1, 1), "ceaf-e": (1, 1), "lea": (1, 1)}),
    "M2": ("abcdef", "a b c d e f", {"muc": (0, 0, 0), "lea": (0, 0, 0)}),
    "M3": ("abcdef", "ab cde f", {"lea": (4 / 15, 5 / 6)}),
    "M4": ("abcdef", "abcxyz", {"lea": (1 / 5, 1 / 5)}),
    "M5": ("abcdef", "a b c x y z", {"muc": (0, 0, 0), "lea": (0, 0, 0)}),
    "M6": ("abcdef", "ab cxy z", {"lea": (1 / 15, 1 / 3)}),
    "N1": ("a b c d e f", "a b c d e f", {"muc": (0, 0, 0), "b-cubed": (1, 1), "ceaf-e": (1, 1), "lea": (1, 1, 1)}),
    "N2": ("a b c d e f", "abcdef", {"muc": (0, 0, 0), "lea": (0, 0, 0)}),
    "N3": ("a b c d e f", "ab cde f", {"lea": (1 / 6, 1 / 6)}),
    "N4": ("a b c d e f", "a b c x y z", {"muc": (0, 0, 0), "lea": (0.5, 0.5, 0.5)}),
    "N5": ("a b c d e f", "abcxyz", {"lea": (0, 0, 0)}),
    "N6": ("a b c d e f", "ab cxy z", {"lea": (0, 0, 0)}),
}


def chains(text: str) -> list[Chain]:
    return [tuple((3 * ord(letter), 3 * ord(letter) + 1) for letter in word) for word in text.split()]


def parts(values: dict[str, float], metric: str) -> list[float]:
    return [values[f"{metric}:recall"], values[f"{metric}:precision"], values[metric]]


def test_the_official_test_cases_have_their_published_values() -> None:
    for case, (key, response, expected) in CASES.items():
        values = coreference([chains(key)], [chains(response)]).values()
        for metric, published in expected.items():
            found = parts(values, metric)
            assert found[: len(published)] == pytest.approx(published, abs=1e-5), (case, metric)
            recall, precision, f1 = found
            assert f1 == pytest.approx(2 * recall * precision / (recall + precision) if recall + precision else 0)
        assert values["conll"] == pytest.approx(np.mean([values[name] for name in ("muc", "b-cubed", "ceaf-e")]))


def some_chains(rng: random.Random) -> list[Chain]:
    spans = rng.sample([(i, i + j) for i in range(5) for j in range(3)], rng.randrange(1, 12))
    cuts = sorted({0, len(spans), *(rng.randrange(len(spans)) for _ in range(3))})
    return [tuple(spans[a:b]) for a, b in itertools.pairwise(cuts)]


def test_laws() -> None:
    rng = random.Random(0)
    for _ in range(50):
        gold, predicted = ([some_chains(rng) for _ in range(3)] for _ in range(2))
        values, swapped = coreference(gold, predicted).values(), coreference(predicted, gold).values()
        for metric in ("muc", "b-cubed", "ceaf-e", "lea"):
            recall, precision, f1 = parts(values, metric)
            assert [precision, recall, f1] == pytest.approx(parts(swapped, metric))
            assert all(0 <= value <= 1 for value in (recall, precision, f1))
            if metric != "muc":
                assert coreference(gold, gold).values()[metric] == pytest.approx(1)
        assert coreference(gold, [[], [], []]).values()["conll"] == 0
    whole = coreference([*gold, *predicted], [*predicted, *gold])  # the rows of documents add up
    halves = coreference(gold, predicted), coreference(predicted, gold)
    assert whole.rows.total() == pytest.approx(halves[0].rows.total() + halves[1].rows.total())


def test_the_assignment_is_the_best_of_all() -> None:
    rng = np.random.default_rng(0)
    for _ in range(100):
        rows, columns = rng.integers(1, 6, 2)
        scores = rng.integers(0, 4, (rows, columns)) * rng.random()
        pairs = best_assignment(scores)
        assert len(pairs) == min(rows, columns) == len({i for i, _ in pairs}) == len({j for _, j in pairs})
        wide = scores if rows <= columns else scores.T
        best = max(
            sum(wide[i, j] for i, j in enumerate(order))
            for order in itertools.permutations(range(len(wide[0])), len(wide))
        )
        assert sum(scores[pair] for pair in pairs) == pytest.approx(best)


@pytest.mark.reference
def test_the_assignment_has_the_sum_of_scipy() -> None:
    from scipy.optimize import linear_sum_assignment

    scores = np.random.default_rng(0).random((40, 60))
    assert sum(scores[pair] for pair in best_assignment(scores)) == pytest.approx(
        scores[linear_sum_assignment(scores, maximize=True)].sum()
    )


def test_python() -> None:
    found = evaluate("lea", predictions=[[[(0, 0), (2, 3)]]], references=[[[(0, 0), (2, 3), (5, 5)]]])
    assert found.values() == {"lea": pytest.approx(0.5)} and found.signature().startswith("match:exact|unit:documents")
    with pytest.raises(DataError, match="1 gold, 2 predicted"):
        evaluate("lea", predictions=[[], []], references=[[]])


def document(name: str, *cells: str) -> str:
    rows = (f"{name} 0 {i} w{i} {cell}" if cell else "" for i, cell in enumerate(cells))
    return "\n".join([f"#begin document ({name}); part 000", *rows, "#end document", ""])


def test_files(run: Run, tmp_path: Path) -> None:
    gold, predicted = tmp_path / "key.conll", tmp_path / "response.conll"
    gold.write_text(document("a", "(0", "(1)", "0)", "", "(0)", "(1)") + document("b", "(12)|(3", "3)", "(12)", "(3)"))
    predicted.write_text(document("b", "(5)", "-", "(5)", "-") + document("a", "(0", "(1)", "0)", "", "(0)", "(1)"))
    done = run("evaluate", "-m", "muc", "lea:recall", "conll", "-r", gold, predicted, "-w", "3")
    assert [line.split("\t")[:4] for line in done.lines] == [
        ["muc", "0.857", "2", "documents"],
        ["lea:recall", "0.750", "2", "documents"],
        ["conll", "0.857", "2", "documents"],
    ]


def test_files_that_do_not_fit(tmp_path: Path) -> None:
    key = document("a", "(0", "-", "0)", "(0)")
    gold, predicted = tmp_path / "key", tmp_path / "response"
    gold.write_text(key)
    cases = (
        (document("b", "-", "-", "-", "-"), "key:1: document '(a); part 000' is missing in"),
        (key + document("b", "-"), "response:7: document '(b); part 000' is missing in"),
        (document("a", "(0)"), "response:1: 1 word in document '(a); part 000', 4 in"),
        (key + key, "response:7: a second document '(a); part 000'"),
        ("", "response: no documents"),
        (key.replace("#begin", "#x"), "response:1: a word outside a document"),
        (key.replace("#end document", ""), "response:1: document '(a); part 000' does not end"),
        (document("a", "(0", "-", "-", "(0)"), "response:2: a mention of chain 0 begins that does not end"),
        (document("a", "(0)", "1)", "-", "-"), "response:3: a mention of chain 1 ends that has not begun"),
        (document("a", "(0)", "1|(2)", "-", "-"), "response:3: the column of chains is '1|(2)'"),
        (document("a", "(0)", "(x)", "-", "-"), "response:3: the column of chains is '(x)'"),
    )
    for text, message in cases:
        predicted.write_text(text)
        with pytest.raises(DataError) as raised:
            read_files(str(gold), str(predicted))
        assert message in str(raised.value) and raised.value.hint, raised.value
