"""Files of similar texts: pairs, pairs with scores, triplets and more negatives, in every layout."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nlptools.errors import DataError, UsageError
from nlptools.formats.reading_options import Options
from nlptools.formats.text_groups import read_groups


def read(path: Path, text: str, **options: object) -> list[tuple[tuple[str, ...], float | None]]:
    path.write_text(text)
    return [(e.texts, e.score) for e in read_groups(str(path), Options(**options))]  # type: ignore[arg-type]


def test_tables(tmp_path: Path) -> None:
    file = tmp_path / "a.tsv"
    assert read(file, "a\tb\nc\td\n") == [(("a", "b"), None), (("c", "d"), None)]
    assert read(file, "a\tb\t0.5\nc\td\t1\n") == [(("a", "b"), 0.5), (("c", "d"), 1.0)]
    assert read(file, "a\tb\tx\ty\nc\td\t\nc\td\n") == [(("a", "b", "x", "y"), None), *[(("c", "d"), None)] * 2]
    named = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\n1\ta\tb\t4.5\n"
    assert read(file, named) == [(("a", "b"), 4.5)]
    assert read(file, "negative\tquery\tpassage\tid\nx\ta\tb\t7\n") == [(("a", "b", "x"), None)]
    assert read(file, "u\tv\tw\na\tb\t3\n", header=True, text_column=("v", "u"), label_column="w") == [
        (("b", "a"), 3.0)
    ]
    assert read(file, "a\tb\t3\n", text_column=("1,3",)) == [(("a", "3"), None)]
    assert read(tmp_path / "a.csv", 'anchor,positive\n"a, b",c\n') == [(("a, b", "c"), None)]
    assert read(file, "") == []


def test_objects(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    rows = [
        {"anchor": "a", "positive": "b", "negative": ["x", "y"]},
        {"anchor": "a", "positive": "b", "negative_1": "x", "negative_2": None},
        {"sentence1": "a", "sentence2": "b", "score": 2},
    ]
    wanted = [(("a", "b", "x", "y"), None), (("a", "b", "x"), None), (("a", "b"), 2.0)]
    assert read(file, "".join(json.dumps(row) + "\n" for row in rows)) == wanted
    assert read(file, '{"q": "a", "t": "b", "n": "c"}\n', text_column=("q", "t", "n")) == [(("a", "b", "c"), None)]
    assert read(tmp_path / "a.txt", '{"query": "a", "answer": "b"}\n') == [(("a", "b"), None)]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ('{"anchor": "a"}\n', {}, ":1: no texts: expected keys such as anchor and positive"),
        ('{"anchor": 1, "positive": "b"}\n', {}, ":1: 'anchor' is '1', expected text"),
        (
            '{"anchor": "a", "positive": "b", "negative": [1]}\n',
            {},
            ":1: 'negative': expected a text or a list of texts",
        ),
        ('{"anchor": "a", "positive": "b", "score": "x"}\n', {}, ":1: expected a finite number, got 'x'"),
        ('{"anchor": "a", "positive": "b", "negative": "c", "score": 1}\n', {}, ":1: a score and more than two texts"),
        ('{"anchor": "a", "positive": "b"}\n', {"label_column": "s"}, ":1: no score: no key 's'"),
    ],
)
def test_refusals(tmp_path: Path, text: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(DataError) as refused:
        read(tmp_path / "a.jsonl", text, **options)
    assert message in str(refused.value)


def test_one_column_is_not_enough(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="expected at least two texts"):
        read(tmp_path / "a.tsv", "a\tb\n", text_column=("1",))
    with pytest.raises(DataError, match=r"a\.tsv:2: 3 columns, the first line has 2"):
        read(tmp_path / "a.tsv", "a\tb\nc\td\te\n")
