"""Corpora and windows: every token is a target exactly once per epoch, and a source goes on where it stood."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from nlptools import errors
from nlptools.batches.source import Share
from nlptools.batches.windows import ContiguousStreams, ShuffledWindows
from nlptools.corpora import token_file
from nlptools.corpora.token_file import Corpus, TextCounts
from nlptools.files.streams import LineBlock
from nlptools.text import tokenizer as tokenizers
from nlptools.text.tokenizer import Tokenizer

SOURCES = [ShuffledWindows, ContiguousStreams]


def numbered(path: Path, length: int) -> Corpus:
    """A corpus whose ids are their own positions."""
    return Corpus(path, np.arange(length, dtype="uint32"), TextCounts(tokens=length), "")


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("length", [2, 5, 17, 100, 203])
@pytest.mark.parametrize("world_size", [1, 2])
def test_each_token_is_a_target_once_per_epoch(kind: type, length: int, world_size: int, tmp_path: Path) -> None:
    data = numbered(tmp_path / "ids", length)
    for epoch in range(2):
        seen: Counter[int] = Counter()
        for rank in range(world_size):
            source = kind(data, 8, 3, seed=4, share=Share(rank, world_size))
            for batch in source:
                if source.epoch >= epoch and (source._epoch == epoch):
                    real = batch.targets[batch.targets >= 0]
                    assert batch.num_targets == len(real)
                    # what follows a token is the next one
                    assert np.array_equal(batch.ids[batch.targets >= 0] + 1, real)
                    seen.update(real.tolist())
                if source._epoch > epoch or source.epoch >= epoch + 1:
                    break
        assert seen == Counter(range(1, length)), epoch


@pytest.mark.parametrize("kind", SOURCES)
def test_a_source_goes_on_where_it_stood(kind: type, tmp_path: Path) -> None:
    data = numbered(tmp_path / "ids", 150)
    source = kind(data, 8, 3, seed=4)
    batches, states = [], []
    for batch, _ in zip(source, range(25)):
        batches.append(batch)
        states.append(source.state())
    for i in (0, 5, 6, 7, 13, 20):
        again = kind(data, 8, 3, seed=4)
        again.restore(states[i])
        for expected, found in zip(batches[i + 1 :], again):
            assert np.array_equal(expected.ids, found.ids) and np.array_equal(expected.targets, found.targets)
            assert expected.continues == found.continues


def test_streams_go_on_from_batch_to_batch(tmp_path: Path) -> None:
    source = ContiguousStreams(numbered(tmp_path / "ids", 100), 7, 3, seed=1)
    before = None
    for batch, _ in zip(source, range(5)):
        if batch.continues:
            assert before is not None and np.array_equal(batch.ids[:, 0], before + 1)
        before = batch.ids[:, -1]


def test_epochs_are_shuffled_and_cut_differently(tmp_path: Path) -> None:
    source = ShuffledWindows(numbered(tmp_path / "ids", 900), 8, 1, seed=1)
    epochs: list[list[int]] = [[], []]
    for batch in source:
        if source._epoch > 1:
            break
        epochs[source._epoch].append(int(batch.targets[0, 0]))
    assert epochs[0] != sorted(epochs[0]) and set(epochs[0]) != set(epochs[1])


@pytest.fixture
def words(tmp_path: Path) -> Tokenizer:
    (tmp_path / "v.tsv").write_text("<unk>\t0\n</s>\t0\na\t1\nb\t1\nc\t1\n")
    return tokenizers.load(str(tmp_path / "v.tsv"))


def blocks(*files: list[str]) -> list[LineBlock]:
    """Files of lines, each line a block of its own."""
    return [LineBlock(f"f{n}", i + 1, [line]) for n, lines in enumerate(files) for i, line in enumerate(lines)]


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ("line", [1, 2, 3, 1, 1, 4, 1, 0, 1, 3, 1]),
        ("paragraph", [1, 2, 3, 1, 4, 0, 3, 1]),
        ("file", [1, 2, 3, 4, 0, 1, 3, 1]),
    ],
)
def test_documents_end_where_told(words: Tokenizer, tmp_path: Path, document: str, expected: list[int]) -> None:
    text = blocks(["a b", "", "c", "z"], ["b"])
    spooled = token_file.spool(text, tmp_path / "train.bin", words, 1, document, 1)
    assert spooled.ids.tolist() == expected
    assert spooled.counts.words == 5 and spooled.counts.unknown == 1
    assert spooled.counts.tokens == len(expected) - 1
    again = token_file.open_spooled(tmp_path / "train.bin")
    assert again.counts == spooled.counts and again.digest == spooled.digest
    assert not list(tmp_path.glob(".*"))


def test_counts_are_those_of_wc(tmp_path: Path) -> None:
    text = ["a b  c", "", "é ☃"]
    spooled = token_file.spool(blocks(text), tmp_path / "b.bin", tokenizers.load("bytes"), 256, "line", 1)
    raw = "\n".join(text) + "\n"
    assert spooled.counts.bytes == len(raw.encode()) and spooled.counts.lines == 3
    assert spooled.counts.words == len(raw.split())


def test_text_without_words_is_refused(words: Tokenizer, tmp_path: Path) -> None:
    with pytest.raises(errors.DataError, match="no training data"):
        token_file.spool(blocks([" ", ""]), tmp_path / "t.bin", words, 1, "line", 1)
    assert not list(tmp_path.glob("*t.bin*"))
