"""Words with their spelling as rows, tables and batches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nlptools.batches.encoder_rows import EncoderRows
from nlptools.batches.features import Features
from nlptools.batches.spelled_words import WordBatches, WordEncoding, word_input
from nlptools.text.builtin import NamedTokenizer
from nlptools.text.spelling import BEGIN, END, FIRST, UNKNOWN
from nlptools.text.vocab import Vocab


def encoding(words: str, lowercase: bool = True, alphabet: str | None = "ab") -> WordEncoding:
    return WordEncoding(NamedTokenizer("whitespace", Vocab(["<pad>", "<unk>", *words.split()]), lowercase), alphabet)


def test_words_are_looked_up_in_lower_case() -> None:
    assert encoding("a b").numbers(["A", "a", "c", "<pad>", "<unk>", "new york"]).tolist() == [2, 2, 1, 1, 1, 1]
    cased = encoding("A a b", lowercase=False)
    assert cased.numbers(["A", "a", "B", "C"]).tolist() == [2, 3, 4, 1], "a word with capitals, else its lower case"


def test_tables_hold_each_different_word_once(capfd: pytest.CaptureFixture[str]) -> None:
    words = ["b", "ax", "b", "Ax"]
    made = encoding("a ax")
    pieces, which = made.pieces(words)
    assert pieces.ids.tolist() == [0, 1, 2] and pieces.lengths.tolist() == [1, 1, 1] and which.tolist() == [0, 1, 0, 2]
    tables = made.tables(words)
    assert tables["words"].tolist() == [1, 3, 3] and tables["bounds"].tolist() == [0, 3, 7, 11]
    a, b = FIRST, FIRST + 1
    expected = [BEGIN, b, END, BEGIN, a, UNKNOWN, END, BEGIN, UNKNOWN, UNKNOWN, END]
    assert tables["letters"].tolist() == expected
    assert len(encoding("a", alphabet=None).tables(words)["letters"]) == 0
    unknown = encoding("a", alphabet="").tables(["b", "ax"])["letters"].tolist()
    assert unknown == [BEGIN, UNKNOWN, END, BEGIN, UNKNOWN, UNKNOWN, END], "no character is known"
    assert not capfd.readouterr().err
    made.tables(["a" * 64, "b" * 65])
    assert "1 word is longer than 64 characters" in capfd.readouterr().err


def features() -> Features:
    """Two rows: ax b, b."""
    rows = EncoderRows(np.array([1, 0, 0], np.int32), np.zeros(3, np.uint8), np.array([0, 2, 3]))
    targets = {"label": np.array([5, 6, 7]), "weight": np.ones(3, np.float32)}
    return Features(rows, targets, ("label", "weight"), tables=encoding("ax b").tables(["b", "ax", "aaa"]))


def test_a_batch_has_its_words_once() -> None:
    found = word_input(features(), np.array([0, 1]))
    assert found.words.tolist() == [3, 2], "the word that does not occur is left out"
    assert found.letters.tolist() == [[BEGIN, FIRST + 1, END, 0], [BEGIN, FIRST, UNKNOWN, END]]
    assert found.mask.tolist() == [[True, True], [True, False]]
    assert found.words[found.places][found.mask].tolist() == [2, 3, 3]
    (batch,) = [WordBatches(features(), 2, seed=1, pad=0)._batch([np.array([1, 0])], 0, slice(None))]
    assert batch.weight == 3 and batch.words[batch.ids][batch.mask].tolist() == [3, 2, 3]
    assert batch.targets[0].tolist() == [[7, -1], [5, 6]] and batch.letters.tolist() == found.letters.tolist()


def test_tables_are_saved_and_part_of_the_digest(tmp_path: Path) -> None:
    made = features()
    made.save(tmp_path / "x")
    found = Features.open(tmp_path / "x")
    assert {name: array.tolist() for name, array in found.tables.items()} == {
        name: array.tolist() for name, array in made.tables.items()
    }
    assert found.digest == made.digest
    made.tables["letters"][1] += 1
    assert found.digest != made.digest
