"""Token ids of sequences: the vocabulary, what is left out, several processes, faults."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from multiprocessing.context import ForkProcess
from pathlib import Path

import numpy as np
import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from nlptools.corpora import word_sequences
from nlptools.errors import DataError, StreamError
from nlptools.text.vocab import Vocab


def spool(folder: Path, text: str | bytes, **options):
    path = folder / "text"
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    return word_sequences.spool([str(path)], folder / "ids.bin", **{"min_count": 1, **options})


def lines(found: word_sequences.Sequences) -> list[list[str]]:
    """The sequences that the ids stand for."""
    out: list[list[str]] = [[]]
    for id in found.ids.tolist():
        if id == len(found.words):
            out.append([])
        else:
            out[-1].append(found.words[id])
    return [line for line in out if line]


def test_words_by_falling_count(tmp_path):
    found = spool(tmp_path, "b a b\nc b a\n\nd\n", min_count=2)
    assert found.words == ["b", "a"] and found.counts.tolist() == [3, 2]
    assert lines(found) == [["b", "a", "b"], ["b", "a"]]
    assert (found.tokens, found.left_out) == (5, 2)


@settings(max_examples=examples(100), deadline=None)
@given(text=st.text(st.sampled_from("ab \n\t\r\x0b\x85\u2028é</s>"), max_size=80), workers=st.integers(1, 3))
def test_what_comes_in_comes_out(tmp_path_factory, text, workers):
    folder = tmp_path_factory.mktemp("ids")
    expected = [
        [word for word in line.removesuffix("\r").replace("\t", " ").split(" ") if word] for line in text.split("\n")
    ]
    expected = [line for line in expected if line]
    if not expected:
        with pytest.raises(DataError, match="no words"):
            spool(folder, text, workers=workers)
        return
    found = spool(folder, text, workers=workers)
    assert lines(found) == expected
    counts = Counter(word for line in expected for word in line)
    assert dict(zip(found.words, found.counts.tolist(), strict=True)) == counts
    assert sorted(found.counts.tolist(), reverse=True) == found.counts.tolist()


@pytest.mark.parametrize("size", [40, 1000])
def test_processes_and_chunks_do_not_matter(tmp_path, monkeypatch, size):
    generator = np.random.default_rng(1)
    text = "".join(" ".join(map(str, generator.zipf(1.3, 12))) + "\n" for _ in range(500))
    one = spool(tmp_path, text, min_count=2)
    ids = np.array(one.ids)
    monkeypatch.setattr(word_sequences, "CHUNK", size)
    for workers in (1, 2, 3):
        again = spool(tmp_path, text, min_count=2, workers=workers)
        assert again.words == one.words and again.tokens == one.tokens and again.digest == one.digest
        assert np.array_equal(again.ids, ids)
    started = iter([True, False, False])
    begin = ForkProcess.start

    def start(process):
        if not next(started):
            raise BlockingIOError(11, "Resource temporarily unavailable")
        begin(process)

    monkeypatch.setattr(ForkProcess, "start", start)
    again = spool(tmp_path, text, min_count=2, workers=3)
    assert again.words == one.words and again.digest == one.digest and np.array_equal(again.ids, ids)
    assert next(started, None) is None
    assert sorted(p.name for p in tmp_path.iterdir()) == ["ids.bin", "text"]


@pytest.mark.parametrize("size", [37, 1 << 20])
@pytest.mark.parametrize("length", [999, 1000, 1001, 2000, 2500])
def test_an_endless_line_is_cut(tmp_path, monkeypatch, length, size):
    monkeypatch.setattr(word_sequences, "CHUNK", size)
    words = [f"w{i % 7}" for i in range(length)]
    found = spool(tmp_path, "x y\n" + " ".join(words) + " \nz")
    expected = [["x", "y"], *(words[i : i + 1000] for i in range(0, length, 1000)), ["z"]]
    assert lines(found) == expected


def test_a_given_vocabulary(tmp_path):
    vocab = Vocab(["c", "a", "z"], [10, 20, 30], special={})
    found = spool(tmp_path, "a b c a\nb b", vocab=vocab, min_count=5)
    assert found.words == ["c", "a", "z"] and found.counts.tolist() == [10, 20, 30]
    assert lines(found) == [["a", "c", "a"]] and found.left_out == 3
    assert spool(tmp_path, "a b c a", vocab=Vocab(["c", "a"], special={})).counts.tolist() == [1, 2]


def test_words_that_are_kept_whatever_their_count(tmp_path):
    found = spool(tmp_path, "a a a b c", min_count=2, more_words=["c", "q"])
    assert found.words == ["a", "c", "q"] and found.counts.tolist() == [3, 1, 0]


def test_an_empty_vocabulary_says_what_to_lower(tmp_path):
    with pytest.raises(DataError, match="most frequent occurs 2 times") as caught:
        spool(tmp_path, "a b a", min_count=5)
    assert "--min-count 2" in str(caught.value.hint)


def test_invalid_utf8_has_a_place(tmp_path):
    with pytest.raises(DataError, match=r"text:3: invalid UTF-8 at byte 3"):
        spool(tmp_path, b"a\nb\nc \xff d\n")
    found = spool(tmp_path, b"\xef\xbb\xbfa\nb \xff d\n", errors="ignore")
    assert lines(found) == [["a"], ["b", "d"]]
    assert spool(tmp_path, b"a \xff", errors="replace").words == ["a", "\ufffd"]


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("name", ["ids", "ids.0"])
def test_a_full_disk_is_told(tmp_path, monkeypatch, workers, name):
    monkeypatch.setattr(word_sequences, "CHUNK", 1000)
    path = tmp_path / "text"
    path.write_text("some words here\n" * 100_000)
    (tmp_path / name).symlink_to("/dev/full")
    with pytest.raises(StreamError, match="no space left"):
        word_sequences.spool([str(path)], tmp_path / "ids", min_count=1, workers=workers)


def test_all_inputs_are_read_and_end_sequences(tmp_path):
    for name, text in (("a", "x y"), ("b", "z\n")):
        (tmp_path / name).write_text(text)
    found = word_sequences.spool([str(tmp_path / "a"), str(tmp_path / "b")], tmp_path / "ids", min_count=1)
    assert lines(found) == [["x", "y"], ["z"]]


def test_words_are_counted_without_a_copy_of_the_text(tmp_path):
    ids = np.random.default_rng(1).integers(0, 50, 3_000_001, dtype=np.int32)
    ids.tofile(tmp_path / "ids")
    mapped = np.memmap(tmp_path / "ids", np.int32, "r")
    tracemalloc.start()
    counts = word_sequences.occurrences(mapped, 51)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert np.array_equal(counts, np.bincount(ids, minlength=51)) and most < ids.nbytes
