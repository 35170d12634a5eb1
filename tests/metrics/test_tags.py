"""Gold and predicted tags: from one file or two, compared, encoded; refusals that name the line."""

from __future__ import annotations

import gzip
from itertools import chain

import numpy as np
import pytest

from nlptools.errors import DataError, InputError, UsageError
from nlptools.metrics import tags as module
from nlptools.metrics.tags import encode, read_tags, tagging_accuracy


def sentences(tags):
    """The tags of each sentence as text."""
    flat = np.array(tags.names, object)[tags.codes]
    ends = np.cumsum(tags.lengths + 1)
    return [flat[end - length - 1 : end - 1].tolist() for end, length in zip(ends, tags.lengths)]


@pytest.fixture
def write(tmp_path):
    def write(text, name="file"):
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return str(path)

    return write


def test_compressed_and_in_many_blocks(write, monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 3)
    text = "".join(f"w{i} O B-{i % 3}\n" + "\n" * (i % 4 == 0) for i in range(50))
    plain, packed = write(text), write(gzip.compress(text.encode()), "file.gz")
    first, second = (read_tags([path]) for path in (plain, packed))
    assert [sentences(side) for side in first] == [sentences(side) for side in second]
    assert [*chain.from_iterable(sentences(first[1]))] == [f"B-{i % 3}" for i in range(50)]
    assert np.array_equal(first[0].lengths, [1, *[4] * 12, 1])
    assert first[1].line(2, 1) == 9


def test_one_file_holds_both_in_its_last_columns(write):
    gold, predicted = read_tags([write("a X O B-A\nb X B-A O\n\nc X O O\n")])
    assert sentences(gold) == [["O", "B-A"], ["O"]]
    assert sentences(predicted) == [["B-A", "O"], ["O"]]


def test_two_files_hold_one_each(write):
    gold, predicted = read_tags([write("a X O\nb X B-A\n", "gold"), write("\nB-A\nO\n", "predicted")])
    assert (sentences(gold), sentences(predicted)) == ([["O", "B-A"]], [["B-A", "O"]])


def test_words_of_two_files_are_compared(write):
    paths = [write("a O\n\nb O\nc O\n", "gold"), write("a X O\n\n\nb X O\nd X O\n", "predicted")]
    with pytest.raises(DataError, match=r"predicted:4: the words of sentence 2 differ from .*gold line 3"):
        read_tags(paths)


def test_malformed_files(write):
    with pytest.raises(DataError, match="file:3: 1 column, expected 2"):
        read_tags([write("a O\n\nb\n")])
    with pytest.raises(DataError, match="file:2: 3 columns, expected 2"):
        read_tags([write("a O\na b O\n")])
    with pytest.raises(DataError, match="file:2: 1 column, expected the gold and"):
        read_tags([write("\na\n")])
    with pytest.raises(DataError, match="file:2: invalid UTF-8"):
        read_tags([write(b"a O\n\xff O\n")])
    with pytest.raises(InputError, match="no such file"):
        read_tags(["nowhere"])
    for paths in ([], ["a"] * 3, "path"):
        with pytest.raises(UsageError, match="one file"):
            read_tags(paths)


def test_files_that_differ_in_length(write):
    gold = write("a O\n\nb O\nc O\n\nd O\n", "gold")
    with pytest.raises(DataError, match=r"sentence 2 has 2 tokens in .*gold line 3 and 1 in .*other line 3$"):
        read_tags([gold, write("a O\n\nb O\n\nd O\n", "other")])
    told = r"other: unequal numbers of sentences: 3 of gold tags, 2 of predictions; sentence 2 has 2 tokens"
    with pytest.raises(DataError, match=told):
        read_tags([gold, write("a O\n\nd O\n", "other")])


def test_encoded_tags_know_their_places():
    side = encode([["A", "B"], [], ["B"]])
    assert sentences(side) == [["A", "B"], [], ["B"]]
    assert [side.place(i) for i in (0, 1, 2, 4)] == [(0, 0), (0, 1), (0, 2), (2, 0)]
    assert side.line(0) is None


def test_tagging_by_hand():
    gold = [["D", "N", "V"], [], ["N"], ["D", "N"]]
    predicted = [["D", "N", "N"], [], ["V"], ["D", "N"]]
    made = tagging_accuracy(gold, predicted)
    assert (made.names, made.count, made.unit) == (("accuracy",), 4, "sentences")
    assert made.values() == {"accuracy": 4 / 6}
    assert made.details["confusion"] == [[2, 0, 0], [0, 2, 1], [0, 1, 0]]
    weights = np.array([[2, 0, 1, 1], [0, 4, 0, 0], [0, 0, 4, 0], [0, 0, 0, 4]])
    assert made.compute(weights).tolist() == [[6 / 9], [0.0], [0.0], [1.0]]


def test_tags_that_are_not_declared():
    with pytest.raises(DataError, match=r"^label 'Q' of token 2 in sentence 3 is none of those declared: N$"):
        tagging_accuracy([["N"], [], ["N", "Q", "N"]], [["N"], [], ["N"] * 3], ["N"])
    with pytest.raises(DataError, match=r"^label 'Q' of token 1 in sentence 3 is none of those declared: N"):
        tagging_accuracy([["N"], [], ["N", "N"]], [["N"], [], ["Q", "N"]], ["N"])
    with pytest.raises(DataError, match=r"^label '' of token 2 in sentence 1 is empty$"):
        tagging_accuracy([["N", "N"]], [["N", ""]])


def test_sentences_that_differ():
    with pytest.raises(DataError, match=r"^sentence 2 has 1 tokens in the gold tags and 2 in the predictions"):
        tagging_accuracy([["N"], ["N"]], [["N"], ["N", "V"]])
    with pytest.raises(DataError, match="no tokens: the 2 sentences are empty"):
        tagging_accuracy([[], []], [[], []])
    with pytest.raises(DataError, match="unequal numbers of sentences: 1 of gold tags, 0 of predictions"):
        tagging_accuracy([["N"]], [])
    with pytest.raises(DataError, match="no sentences"):
        tagging_accuracy([], [])
