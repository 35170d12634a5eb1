"""word2vec's binary files that are larger than a window: read as far as somebody asks, and refused where they are damaged."""

from __future__ import annotations

import numpy as np
import pytest

from nlptools.errors import BundleError
from nlptools.vectors.files.formats import load


def records(words, newline=b"", dimensions=200):
    rows = np.arange(len(words), dtype="<f4")[:, None] + np.linspace(0, 1, dimensions, dtype="<f4")
    return b"".join(word + b" " + row.tobytes() + newline for word, row in zip(words, rows, strict=True))


@pytest.fixture
def windows(monkeypatch):
    """Windows of about 6 records of 200 dimensions, so that a small file is a large one."""
    from nlptools.vectors.files import word2vec_records as module

    monkeypatch.setattr(module, "WINDOW", 64)


@pytest.mark.parametrize("newline", [b"", b"\n"])
def test_records_are_found_when_they_are_needed(tmp_path, windows, newline):
    words = [b"w%d" % i + b"x" * (i % 9) for i in range(300)]
    words[150] = "nai\u0308ve".encode() + b"y" * 20_000  # longer than a window
    (tmp_path / "a.bin").write_bytes(b"300 200\n" + records(words, newline))
    found = load(tmp_path / "a.bin")
    kept = found.rows._records
    assert len(found) == 300 and 0 < kept.found < 9
    assert found.words[40].encode() == words[40] and 40 < kept.found < 60
    assert found.words.place(words[50].decode()) == 50 and kept.found < 70
    assert found.words.place("a space") is None and kept.found < 70  # no word holds one
    assert found.rows.take([100, 3])[:, 0].tolist() == [100, 3] and kept.found < 110
    assert found.rows.take(slice(120, 122))[:, -1].tolist() == [121, 122] and kept.found < 140
    assert found.nearest([words[4].decode()], 1, restrict=50)[0] is not None and kept.found < 140
    places = found.words.find([*(word.decode() for word in words[::3]), "other"])
    assert places == {word.decode(): 3 * i for i, word in enumerate(words[::3])}
    assert [word.encode() for word in found.words] == words and kept.found == 300
    assert found.words[-1].encode() == words[-1] and found.words[2:4] == [words[2].decode(), words[3].decode()]


@pytest.mark.parametrize(
    ("header", "change", "said"),
    [
        (b"301 200\n", lambda data: data + b"x" * 9, "ends in word 301"),
        (b"300 200\n", lambda data: data[:-1], "ends in word 300"),
        (b"299 200\n", lambda data: data, "goes on"),
        (b"300 200\n", lambda data: data + b"x", "goes on"),
        (b"300 200\n", lambda data: data.replace(b"w200", b"w\xff00"), "word 201 is not valid UTF-8 .byte 0xff"),
        (b"300 200\n", lambda data: data.replace(b"w200", b"w\n00"), "word 201 contains a newline"),
        (b"300 201\n", lambda data: data + b"x" * 1300, "word|goes on"),
    ],
)
def test_damage_is_found_by_what_comes_there(tmp_path, windows, header, change, said):
    words = [b"w%d" % i for i in range(300)]
    (tmp_path / "a.bin").write_bytes(header + change(records(words)))
    with pytest.raises(BundleError, match=said):
        load(tmp_path / "a.bin").nearest(["w0"])
    with pytest.raises(BundleError, match=said):
        load(tmp_path / "a.bin").words.place("other")
    with pytest.raises(BundleError, match=said):
        load(tmp_path / "a.bin").words.list()


def test_damage_is_told_every_time(tmp_path, windows):
    (tmp_path / "a.bin").write_bytes(b"300 200\n" + records([b"w%d" % i for i in range(300)]) + b"more")
    found = load(tmp_path / "a.bin")
    for _ in range(2):
        with pytest.raises(BundleError, match="goes on"):
            found.nearest(["w0"])
