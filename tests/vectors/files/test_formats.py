"""Files of vectors: what is written is read again, to the byte; what is damaged is refused before memory is taken."""

from __future__ import annotations

import contextlib
import gzip
import io
import struct
from pathlib import Path

import numpy as np
import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from nlptools.configs.vectors import FORMATS, NAMES, STREAMED, Convert
from nlptools.errors import BundleError, InputError, OutputError, UsageError
from nlptools.vectors.files import fasttext, formats, npy
from nlptools.vectors.files.array_writer import _LINES
from nlptools.vectors.files.formats import format_of, load, save
from nlptools.vectors.subwords import Subwords, ngram_rows
from nlptools.vectors.table import Vectors
from nlptools.vectors.words import WordList

WORDS = ["</s>", "king", "naïve", "mother-in-law", "a\u00a0b", "東京\u3000", "x" * 70, "\ufeff", "9"]


def vectors(words=WORDS, dimensions=5, seed=0, subwords=None):
    rows = np.random.default_rng(seed).standard_normal((len(words), dimensions), dtype=np.float32)
    rows[0, :3] = [0, 1e-30, 123456790]
    return Vectors(words, rows)


def with_subwords(count=20, dimensions=4, buckets=50):
    rng = np.random.default_rng(1)
    words = ["</s>", *(f"wörd{i}" for i in range(1, count))]
    own = rng.standard_normal((count, dimensions), dtype=np.float32)
    hashed = rng.standard_normal((buckets, dimensions), dtype=np.float32)
    output = rng.standard_normal((count, dimensions), dtype=np.float32)
    kept = Subwords(3, 6, hashed, own, output, {"ws": 7, "t": 0.5, "ntokens": 999})
    return Vectors(
        words, kept.vectors(words, range(len(words))), subwords=kept, counts=list(range(100, 100 - count, -1))
    )


def refused(path, text, format=None, **kw):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(BundleError, match=path.name) as caught:
        load(path, format, **kw)
    assert caught.value.exit_code == 78
    return str(caught.value)


# -- there and back ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.txt", "a.bin", "a.glove", "a.npy", "a", "a.txt.gz", "a.bin.gz", "glove.a.txt.xz"])
def test_every_format_gives_back_words_and_numbers(tmp_path, name):
    made = vectors()
    save(made, str(tmp_path / name))
    found = load(tmp_path / name)
    assert found.words.list() == WORDS
    assert found.matrix.tobytes() == made.matrix.tobytes()
    assert [found.words.place(word) for word in WORDS] == list(range(len(WORDS)))
    assert found.words.place("kin") is None and found.words.place("king\nnaïve") is None


def test_fasttext_text_has_five_digits(tmp_path):
    save(Vectors(["a", "b"], np.array([[1, 0.123456], [-1e-5, 12345678]], np.float32)), str(tmp_path / "a.vec"))
    assert (tmp_path / "a.vec").read_bytes() == b"2 2\na 1 0.12346 \nb -1e-05 1.2346e+07 \n"
    save(load(tmp_path / "a.vec"), str(tmp_path / "b.vec"))
    assert (tmp_path / "b.vec").read_bytes() == (tmp_path / "a.vec").read_bytes()


@pytest.mark.parametrize("name", ["b.txt", "b.bin", "b.glove", "b.npy", "b"])
def test_text_through_another_format_is_the_same_text(tmp_path, name):
    source = tmp_path / "a.txt"
    save(vectors(), str(source))
    formats.convert(str(source), str(tmp_path / name), Convert())
    formats.convert(str(tmp_path / name), str(tmp_path / "c.txt"), Convert())
    assert (tmp_path / "c.txt").read_bytes() == source.read_bytes()


def test_both_kinds_of_word2vec_binary(tmp_path):
    plain = b"2 1\n</s> " + struct.pack("<f", 1.5) + b"b " + struct.pack("<f", -2)
    lined = b"2 1\n</s> " + struct.pack("<f", 1.5) + b"\nb " + struct.pack("<f", -2) + b"\n"
    for data in (plain, lined):
        (tmp_path / "a.bin").write_bytes(data)
        found = load(tmp_path / "a.bin")
        assert (found.words.list(), found.matrix.tolist()) == (["</s>", "b"], [[1.5], [-2]])
    save(found, str(tmp_path / "b.bin"))
    assert (tmp_path / "b.bin").read_bytes() == plain


@pytest.mark.parametrize("newline", [b"", b"\n"])
@pytest.mark.parametrize("numbers", ["random", "spaces", "newlines"])
def test_records_are_found_whatever_the_numbers_look_like(tmp_path, newline, numbers):
    rng = np.random.default_rng(3)
    count, size = 500, 4 * 20
    words = [b"w" * int(n) for n in rng.integers(1, 45, count)]
    # 0x20 and 0x0a in every byte are floats too
    rows = {"random": rng.bytes(count * size), "spaces": b" " * count * size, "newlines": b"\n" * count * size}[numbers]
    body = b"".join(w + b" " + rows[i * size : (i + 1) * size] + newline for i, w in enumerate(words))
    (tmp_path / "a.bin").write_bytes(b"%d 20\n" % count + body)
    found = load(tmp_path / "a.bin")
    assert [word.encode() for word in found.words] == words
    assert found.rows.take(slice(0, count)).tobytes() == rows
    assert found.rows.take([7, 3]).tobytes() == rows[7 * size : 8 * size] + rows[3 * size : 4 * size]


def test_a_broken_binary_file_is_refused_soon(tmp_path):
    (tmp_path / "a.bin").write_bytes(b"1000 50\nking " + b"x" * 4_000_000)  # no space any more
    with pytest.raises(BundleError, match="ends in word"):
        load(tmp_path / "a.bin")
    row = struct.pack("<f", 1)
    (tmp_path / "a.bin").write_bytes(b"2 1\na " + row + b"b\nc " + row)
    with pytest.raises(BundleError, match="word 2 contains a newline"):
        load(tmp_path / "a.bin")


def test_fasttext_model_is_the_same_to_the_byte(tmp_path):
    made = with_subwords()
    save(made, str(tmp_path / "a.bin"), "fasttext")
    found = load(tmp_path / "a.bin")
    np.testing.assert_allclose(found.matrix, made.matrix, atol=1e-6)
    assert found.counts == made.counts
    np.testing.assert_allclose(found["unseen"], made["unseen"], atol=1e-6)
    for name in ("b.bin", "b"):
        formats.convert(str(tmp_path / "a.bin"), str(tmp_path / name), Convert())
    formats.convert(str(tmp_path / "b"), str(tmp_path / "c.bin"), Convert(target_format="fasttext"))
    assert (tmp_path / "a.bin").read_bytes() == (tmp_path / "b.bin").read_bytes() == (tmp_path / "c.bin").read_bytes()


def test_restricting_a_fasttext_model_keeps_its_vectors(tmp_path):
    made = with_subwords()
    save(made, str(tmp_path / "a.bin"), "fasttext")
    formats.convert(str(tmp_path / "a.bin"), str(tmp_path / "b.bin"), Convert(restrict=7))
    found = load(tmp_path / "b.bin")
    assert found.words.list() == made.words.list()[:7]
    np.testing.assert_allclose(found.matrix, made.matrix[:7], atol=1e-6)
    np.testing.assert_allclose(found["wörd99"], made["wörd99"], atol=1e-6)


def test_ngrams_by_hand():
    def fnv(text):
        h = 2166136261
        for byte in text.encode():
            h = ((h ^ ((byte - 256 if byte > 127 else byte) & 0xFFFFFFFF)) * 16777619) & 0xFFFFFFFF
        return h

    def grams(word, low, high):
        marked = f"<{word}>"
        return sorted(
            fnv(marked[i : i + n]) % 1000
            for n in range(low, high + 1)
            for i in range(len(marked) - n + 1)
            if not (n == 1 and (i == 0 or i + n == len(marked)))
        )

    words = ["a", "naïve", "", "東京都", "</s>", "мир😀"]
    for low, high in ((3, 6), (1, 2), (2, 2), (5, 5)):
        owner, rows = ngram_rows(words, low, high, 1000)
        for place, word in enumerate(words):
            expected = [] if word == "</s>" else grams(word, low, high)
            assert sorted(rows[owner == place].tolist()) == expected, (word, low, high)


def test_int8(tmp_path):
    made = vectors([f"w{i}" for i in range(300)], 40)
    save(made, str(tmp_path / "a.txt"))
    formats.convert(str(tmp_path / "a.txt"), str(tmp_path / "q"), Convert(quantize="int8"))
    found = load(tmp_path / "q")
    assert (tmp_path / "q/vectors.npy").stat().st_size < 300 * 40 + 200
    error = np.abs(found.matrix - made.matrix).max(axis=1)
    assert (error <= np.abs(made.matrix).max(axis=1) / 253).all() and error.max() > 0
    with pytest.raises(UsageError, match="directory"):
        formats.convert(str(tmp_path / "a.txt"), str(tmp_path / "q.npy"), Convert(quantize="int8"))


def test_normalize_and_restrict(tmp_path):
    save(vectors(), str(tmp_path / "a.txt"))
    formats.convert(str(tmp_path / "a.txt"), str(tmp_path / "b"), Convert(normalize=True, restrict=4))
    found = load(tmp_path / "b")
    assert found.words.list() == WORDS[:4]
    np.testing.assert_allclose(np.linalg.norm(found.matrix, axis=1), 1, atol=1e-6)


# -- words ------------------------------------------------------------------------------------------------------------


def test_words_with_spaces_are_read_from_the_right(tmp_path):
    (tmp_path / "glove.840B.txt").write_text("the 1 2\n. . . 3 4\nat name@domain.com 5 6\n7 8 9\n10 11 12 13\n")
    found = load(tmp_path / "glove.840B.txt")
    assert found.words.list() == ["the", ". . .", "at name@domain.com", "7", "10 11"]
    assert found.matrix.tolist() == [[1, 2], [3, 4], [5, 6], [8, 9], [12, 13]]
    (tmp_path / "a.txt").write_text("2 2\nnew york 1 2 \r\nb 3 4 \r\n")
    assert load(tmp_path / "a.txt").words.list() == ["new york", "b"]
    (tmp_path / "h.glove").write_text("1 2\na 3 4\n")  # -write-header 1
    assert load(tmp_path / "h.glove").matrix.tolist() == [[3, 4]]


def test_of_repeated_words_the_first_is_kept(tmp_path, capsys):
    (tmp_path / "a.txt").write_text("4 1\na 1\nb 2\na 3\na 4\n")
    found = load(tmp_path / "a.txt")
    assert (found.words.list(), found.matrix.tolist()) == (["a", "b"], [[1], [2]])
    assert "2 repeated words" in capsys.readouterr().err
    (tmp_path / "a.bin").write_bytes(
        b"3 1\n" + b"".join(w + b" " + struct.pack("<f", i) for i, w in enumerate([b"a", b"a", b"b"]))
    )
    assert load(tmp_path / "a.bin")["a"].tolist() == [0]
    formats.convert(str(tmp_path / "a.bin"), str(tmp_path / "b.txt"), Convert())
    assert (tmp_path / "b.txt").read_text() == "2 1\na 0\nb 2\n"
    assert "1 repeated word;" in capsys.readouterr().err


@given(
    st.lists(
        st.text(st.characters(exclude_characters="\n", exclude_categories=("Cs",)), max_size=5), min_size=1, max_size=90
    )
)
@settings(max_examples=examples(50))
def test_places_with_and_without_a_dictionary(words):
    made = WordList.of(words)
    first = {word: words.index(word) for word in words}
    assert made.find([*words, "nowhere", "at\nall"]) == first
    assert made.find(words[:3]) == {word: first[word] for word in words[:3]}
    for _ in range(3):
        for word in [*words, "nowhere at all"]:
            assert made.place(word) == first.get(word)
    assert made.find([*words, "nowhere"]) == first


def test_words_that_a_format_has_no_room_for(tmp_path):
    with pytest.raises(UsageError, match="space"):
        save(vectors(["new york"]), str(tmp_path / "a.bin"))
    assert not list(tmp_path.iterdir())
    with pytest.raises(UsageError, match="byte 0"):
        save(vectors(["a\0b"]), str(tmp_path / "a.bin"), "fasttext")


# -- damage -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "first line"),
        ("king 1 2\n", "first line"),
        ("1000000000000 300\nking 1 2\n", "promises 1,000,000,000,000"),
        ("1 99999999999\nking 1 2\n", "dimensions"),
        ("1 0\nking\n", "0 dimensions"),
        ("2 2\na 1.25 2.25\n", ":2: the header says 2 words, 1 lines"),
        ("1 2\na 1 2\nb 1 2\n", "2 lines follow"),
        ("2 2\na 1 2\nb 1\n", ":3: expected a word and 2 numbers"),
        ("2 2\na 1 2\nb 1 2 3\n", ":3: expected 2 numbers, found more"),
        ("2 2\na 1 2\nb 1 two\n", ":3: expected a finite number, found 'two'"),
        ("2 2\na 1 nan\nb 1 2\n", ":2: .*nan"),
        ("2 2\na 1 2\nb 1e99 2\n", ":3: .*1e99"),
        ("2 2\na 1 2\nb 1\t5 2\n", ":3: "),
        ("2 2\na 1 2\nb 1_0 2\n", ":3: "),
        ("2 2\na 1 2\nb 1\v2 \n", ":3: "),
        ("2 2\na 1 2\nb 1  2\n", ":3: "),
        ("2 2\na 1  \nb 1\t2 3\n", ":2: "),
        (b"2 2\na 1 2\n\xff 1 2\n", ":3: the word is not valid UTF-8"),
    ],
)
def test_damaged_text(tmp_path, text, said):
    import re

    assert re.search(said, refused(tmp_path / "a.txt", text))


def test_damaged_glove(tmp_path):
    assert ":2: expected a word and 2 numbers" in refused(tmp_path / "a.glove", "a 1 2\nb 1\n")
    assert "expected a word and numbers" in refused(tmp_path / "a.glove", "a b\n")
    refused(tmp_path / "a.glove", "")
    refused(tmp_path / "a.txt.gz", gzip.compress(b"9 1\na 1\n"))
    refused(tmp_path / "a.txt.gz", gzip.compress(b"1 1\na 1\n" * 50)[:-12])


def test_damaged_binary(tmp_path):
    row = struct.pack("<2f", 1, 2)
    path = tmp_path / "a.bin"
    assert "promises" in refused(path, b"1000000000000 300\nking " + row)
    assert "ends in word 2" in refused(path, b"2 2\na " + row + b"bbbbbbbbbbbbbb " + row[:4])
    assert "goes on" in refused(path, b"1 2\na " + row + b"b " + row)
    assert "not valid UTF-8" in refused(path, b"1 2\n\xe6\x9d " + row)
    refused(path, b"")
    refused(path, b"2\n")
    refused(path, b"\x00" * 500)
    path.write_bytes(b"1 2\n\xe6\x9d " + row)
    assert load(path, errors="replace").words.list() == ["\ufffd"]
    path.write_bytes(b"2 2\na " + row + b"b " + struct.pack("<2f", 1, float("nan")))
    with pytest.raises(BundleError, match="word 2 is not finite"):
        load(path).nearest(["a"])


def test_every_cut_and_many_flips_of_a_fasttext_model_are_refused_or_read(tmp_path):
    path = tmp_path / "a.bin"
    save(with_subwords(5, 2, 3), str(path), "fasttext")
    whole = path.read_bytes()
    for end in range(0, len(whole), 3):
        refused(path, whole[:end], "fasttext")
    refused(path, whole + b"x", "fasttext")
    rng = np.random.default_rng(0)
    for _ in range(300):
        broken = bytearray(whole)
        broken[rng.integers(len(whole))] = rng.integers(256)
        path.write_bytes(broken)
        with contextlib.suppress(BundleError):
            load(path, "fasttext").nearest(["wörd1", "other"], 2)


def test_damaged_directory(tmp_path):
    save(with_subwords(), str(tmp_path / "v"))
    good = {path.name: path.read_bytes() for path in (tmp_path / "v").iterdir()}
    assert {"subwords.npy", "word_rows.npy", "output.npy", "manifest.json"} < set(good)
    for name, data in good.items():
        (tmp_path / "v" / name).write_bytes(data[:-3])
        with pytest.raises(BundleError):
            load(tmp_path / "v")
        (tmp_path / "v" / name).write_bytes(data)
    (tmp_path / "v/manifest.json").write_text('{"format": 1, "files": {"../x": {"size": 1}}}')
    with pytest.raises(BundleError, match="not there"):
        load(tmp_path / "v")
    np.save(tmp_path / "o.npy", np.array([[None]]), allow_pickle=True)
    (tmp_path / "o.vocab.tsv").write_text("a\n")
    with pytest.raises(BundleError, match=r"o\.npy"):
        load(tmp_path / "o.npy")


def test_every_format_of_the_table_has_its_code():
    assert set(NAMES) == {name for name, row in FORMATS.items() if row.code}
    for name in NAMES:
        assert callable(formats.codec(name).read) and callable(formats.codec(name).save), name
    assert set(_LINES) == set(STREAMED) - {"npy"}
    assert FORMATS["fasttext"].magic == fasttext.MAGIC.to_bytes(4, "little") and FORMATS["npy"].magic == npy.MAGIC


@pytest.mark.parametrize("name", NAMES)
def test_every_format_of_the_table_gives_back_what_was_saved(tmp_path, name):
    pattern = next(iter(FORMATS[name].patterns), "*")
    path = str(tmp_path / pattern.replace("*", "a"))
    made = vectors() if name != "vec" else Vectors(["a", "b"], np.array([[0.5, 2], [-1, 3]], np.float32))
    save(made, path, name)
    assert formats.source_format(path) == name
    found = load(path)
    assert found.words.list() == made.words.list() and found.matrix.tobytes() == made.matrix.tobytes()


def test_the_first_byte_of_a_pipe_tells():
    for data, kind in ((npy.MAGIC + b"...", "npy"), (b'{"text"', "jsonl"), (b"3 2\n", "word2vec"), (b"", "word2vec")):
        stream = io.BufferedReader(io.BytesIO(data))
        assert formats._piped_format(stream) == kind and stream.read() == data, "nothing is taken"


# -- names ------------------------------------------------------------------------------------------------------------


def test_names_of_formats(tmp_path):
    names = {"a.txt": "word2vec", "a.bin.gz": "word2vec-binary", "x/glove.6B.50d.txt": "glove", "wiki.vec.gz": "vec",
             "a.npy": "npy", "a": "bundle", "a.b/": "bundle", "-": "word2vec"}  # fmt: skip
    assert {name: format_of(name) for name in names} == names
    with pytest.raises(UsageError, match="--from"):
        format_of("a.magnitude")
    with pytest.raises(UsageError, match="no such format"):
        load(tmp_path / "a.txt", "word3vec")
    for name in ("a.txt", "a.bin", "a.npy", "a"):
        with pytest.raises(InputError):
            load(tmp_path / name)


@pytest.mark.parametrize("name", ["a.txt", "a.npy", "a"])
def test_what_exists_is_replaced_only_by_force(tmp_path, name):
    target = str(tmp_path / name)
    save(vectors(), target)
    with pytest.raises(OutputError, match="exists"):
        save(vectors(seed=1), target)
    save(vectors(seed=1), target, force=True)
    assert load(target).matrix.tobytes() == vectors(seed=1).matrix.tobytes()


def test_other_directories_are_never_replaced(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home/thesis.tex").write_text("all my work")
    with pytest.raises(OutputError, match="something other than"):
        save(vectors(), str(tmp_path / "home"), "bundle", force=True)
    assert [path.name for path in Path(tmp_path).iterdir()] == ["home"]
