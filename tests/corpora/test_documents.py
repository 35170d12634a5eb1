"""Documents on disk: every token where it belongs, documents end where they should, long and empty sentences counted."""

from __future__ import annotations

import os
import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from nlptools.corpora.documents import DocumentCounts, Documents, open_spooled, spool
from nlptools.errors import DataError, InputError, UsageError
from nlptools.files import streams
from nlptools.files.streams import LineBlock
from nlptools.text import tokenizer as tokenizers
from nlptools.text.vocab import Vocab
from tests.real_data import published

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "dog.", "E", "Fox."]
TOKENIZER = tokenizers.load("whitespace", Vocab(WORDS))


def read(documents: Documents) -> list[list[list[str]]]:
    """The tokens of each sentence of each document."""
    ids, starts = documents.ids, documents.sentences
    sentences = [[WORDS[id] for id in ids[a:b]] for a, b in pairwise(starts)]
    return [sentences[a:b] for a, b in pairwise(documents.documents)]


def test_by_hand(tmp_path: Path) -> None:
    blocks = [LineBlock("x", 1, ["", "a b", "c", " ", ""]), LineBlock("x", 6, ["b x a", "c"]), LineBlock("y", 1, ["a"])]
    made = spool(blocks, tmp_path / "train", TOKENIZER, longest=10)
    assert read(made) == [[["a", "b"], ["c"]], [["b", "[UNK]", "a"], ["c"]], [["a"]]]
    assert made.counts == DocumentCounts(tokens=8, sentences=5, documents=3, bytes=20, unknown=1)
    assert made.ids.dtype == np.uint16
    assert len(made) == 3
    again = open_spooled(tmp_path / "train")
    assert read(again) == read(made)
    assert (again.counts, again.digest) == (made.counts, made.digest)


def test_long_sentences_are_cut(tmp_path: Path) -> None:
    made = spool([LineBlock("x", 1, ["a b c a b", "a b", "", "c c c c"])], tmp_path / "t", TOKENIZER, longest=2)
    assert read(made) == [[["a", "b"], ["c", "a"], ["b"], ["a", "b"]], [["c", "c"], ["c", "c"]]]
    assert (made.counts.cut, made.counts.sentences) == (2, 6)


def test_running_text_is_split(tmp_path: Path) -> None:
    blocks = [LineBlock("x", 1, ["E a dog. E b Fox. E", "Fox."]), LineBlock("x", 3, ["", "E dog."])]
    made = spool(blocks, tmp_path / "t", TOKENIZER, longest=9, sentences="auto")
    assert read(made) == [[["E", "a", "dog."], ["E", "b", "Fox."], ["E"], ["Fox."]], [["E", "dog."]]]


def test_an_empty_sentence_hands_its_beginning_on(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    from nlptools.text.huggingface import HuggingFace, wordpiece

    tokenizer = HuggingFace(
        wordpiece({word: id for id, word in enumerate(WORDS)}, lowercase=False, strip_accents=False), "made"
    )
    nothing = "\x01"  # which BERT's tokenizer drops
    blocks = [LineBlock("x", 1, ["a", "", nothing]), LineBlock("x", 4, [nothing, "b", nothing, "c", "", nothing, ""])]
    for threads in (1, 8):  # words looked up, and not
        made = spool(blocks, tmp_path / "t", tokenizer, longest=9, threads=threads)
        assert read(made) == [[["a"]], [["b"], ["c"]]]
        assert made.counts.empty == 4


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.lists(st.sampled_from(["", " ", "a", "b c", "a b c b"]), max_size=6), max_size=4), st.integers(1, 4))
def test_however_it_is_read_the_result_is_the_same(parts: list[list[str]], longest: int) -> None:
    lines = [line for part in parts for line in part]
    expected: list[list[list[str]]] = [[]]
    for line in lines:
        words = line.split()
        if not words:
            expected.append([])
        expected[-1] += [words[i : i + longest] for i in range(0, len(words), longest)]
    expected = [document for document in expected if document]
    with tempfile.TemporaryDirectory() as folder:
        blocks = [LineBlock("x", 1, part) for part in parts]
        if not expected:
            with pytest.raises(DataError, match="no training data"):
                spool(blocks, Path(folder, "t"), TOKENIZER, longest=longest)
            assert os.listdir(folder) == []
            return
        made = spool(blocks, Path(folder, "t"), TOKENIZER, longest=longest)
        assert read(made) == expected
        assert made.counts.tokens == sum(len(line.split()) for line in lines)


def test_the_digest_tells_texts_apart(tmp_path: Path) -> None:
    def digest(*blocks: LineBlock) -> str:
        return spool(blocks, tmp_path / "t", TOKENIZER, longest=9).digest

    one = digest(LineBlock("x", 1, ["a", "b"]))
    assert one == digest(LineBlock("x", 1, ["a"]), LineBlock("x", 2, ["b"]))
    assert one != digest(LineBlock("x", 1, ["a"]), LineBlock("y", 1, ["b"]))  # two documents
    assert one != digest(LineBlock("x", 1, ["a", "", "b"]))


def test_what_cannot_be_done_is_said(tmp_path: Path) -> None:
    block = LineBlock("x", 1, ["a"])
    with pytest.raises(UsageError, match="no vocabulary"):
        spool([block], tmp_path / "t", tokenizers.load("whitespace"), longest=9)
    with pytest.raises(UsageError, match="expected one of lines, auto"):
        spool([block], tmp_path / "t", TOKENIZER, longest=9, sentences="words")
    with pytest.raises(DataError, match="no held-out data"):
        spool([], tmp_path / "t", TOKENIZER, longest=9, what="held-out data")
    with pytest.raises(InputError):
        open_spooled(tmp_path / "t")


def test_an_error_while_reading_comes_through(tmp_path: Path) -> None:
    (tmp_path / "bad").write_bytes(b"a\n\xff\n")
    with pytest.raises(DataError, match="invalid UTF-8"):
        spool(streams.all_blocks([str(tmp_path / "bad")]), tmp_path / "t", TOKENIZER, longest=9)
    assert os.listdir(tmp_path) == ["bad"]


def test_real_text(tmp_path: Path) -> None:
    file = str(published("enwiki_slice", "valid.txt"))
    tokenizer = tokenizers.load("bytes")
    made = {
        kind: spool(streams.all_blocks([file]), tmp_path / kind, tokenizer, longest=1 << 20, sentences=kind)
        for kind in ("lines", "auto")
    }
    lines = Path(file).read_text(encoding="utf-8").split("\n")
    assert made["lines"].ids.astype(np.uint8).tobytes().decode() == "".join(lines)
    assert "".join(made["auto"].ids.astype(np.uint8).tobytes().decode().split()) == "".join("".join(lines).split())
    assert len(made["lines"]) == len(made["auto"]) > 100
    assert made["auto"].counts.sentences > 1.5 * made["lines"].counts.sentences
