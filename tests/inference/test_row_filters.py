"""Filters from rows to their new keys: what the commands write for the same lines."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_bundles import words_bundle
from tiny_encoders import encoder_bundle

import nlptools
from nlptools.configs import Compute
from nlptools.configs.embed import Embed
from nlptools.configs.generation import Generate
from nlptools.configs.scoring import Score
from nlptools.configs.text import Tokenize
from nlptools.corpora.row_parts import InputRow
from nlptools.errors import DataError, UsageError
from nlptools.inference import row_filters
from nlptools.json_types import JsonObject

COMPUTE = Compute(device="cpu", precision="fp32", threads=1)
TEXTS = ["w1 w2 w3", "", "w5", "w4 w4"]


def test_filters(tmp_path: Path) -> None:
    lm, encoder = str(words_bundle(tmp_path / "lm")), str(encoder_bundle(tmp_path / "bert"))
    vectors = row_filters.embedder(encoder, Embed(), COMPUTE)(["the cat", "a mat"], 0)
    expected = nlptools.load(encoder, compute=COMPUTE).embed(["the cat", "a mat"]).tolist()
    assert [row["embedding"] for row in vectors] == expected
    model = nlptools.load(lm, settings=Generate(), compute=COMPUTE)
    totals = row_filters.scorer(lm, Score(), COMPUTE)(TEXTS, 0)
    assert [(row["logprob"], row["tokens"]) for row in totals] == model.totals(TEXTS, Score())
    settings = Generate(max_new_tokens=4, num_samples=2)
    whole = [[each.text for each in row] for row in model.generate(TEXTS, settings, seed=3)]
    generate = row_filters.generator(lm, settings, COMPUTE, 3)
    assert [row["generated"] for part in (generate(TEXTS[:1], 0), generate(TEXTS[1:], 1)) for row in part] == whole
    tokens = row_filters.tokenizer(Tokenize(lowercase=True))(["A b.", ""], 0)
    assert tokens == [{"tokens": "a b ."}, {"tokens": ""}]
    with pytest.raises(UsageError, match="one by one"):
        row_filters.scorer(lm, Score(carry=True), COMPUTE)


def test_a_bad_row_has_its_own_error() -> None:
    calls = []

    def work(texts: list[str], first: int) -> list[JsonObject]:
        calls.append(len(texts))
        if "bad" in texts:
            raise DataError("too long")
        if "odd" in texts:
            raise KeyError("odd")
        if "broken" in texts:
            raise RuntimeError("out of memory")
        return [{"number": number} for number in range(first, first + len(texts))]

    texts = [f"t{i}" for i in range(64)]
    texts[5], texts[40] = "bad", "odd"
    found = row_filters.answers(work, texts, 100)
    assert found[5] == {"error": "too long"} and found[40] == {"error": "KeyError: 'odd'"}
    assert [row.get("number") for i, row in enumerate(found) if i not in (5, 40)] == [
        100 + i for i in range(64) if i not in (5, 40)
    ]
    assert len(calls) == 1 + 2 * 2 * 6 - 2, "two halves at each of six levels, for each bad row"
    with pytest.raises(RuntimeError, match="out of memory"):
        row_filters.answers(work, ["a", "broken"], 0)


def test_rows_keep_their_keys_and_numbers() -> None:
    rows = [InputRow({"id": 0}, "a"), InputRow({"id": 1}, "", "not valid JSON"), InputRow({"id": 2}, "c")]
    found = row_filters.filtered(lambda texts, first: [{"n": first + i, "t": t} for i, t in enumerate(texts)], rows, 7)
    assert found == [{"id": 0, "n": 7, "t": "a"}, {"id": 1, "error": "not valid JSON"}, {"id": 2, "n": 9, "t": "c"}]
