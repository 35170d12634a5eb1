"""ARPA files: what is written is read again; files of other tools; refused files."""

from __future__ import annotations

import numpy as np
import pytest

from nlptools.errors import DataError
from nlptools.files.streams import LineWriter
from nlptools.models.language import arpa, arpa_lines
from nlptools.models.language.ngram import BOS, EOS, SPECIAL, NGramConfig, NGrams
from nlptools.text.vocab import Vocab
from nlptools.training.ngrams import smoothing
from tests.test_ngrams import flat, model, sentences

SMALL = """\\data\\
ngram 1=4
ngram 2=3

\\1-grams:
-1.5\t<unk>
-99\t<s>\t-0.3
-0.7\t</s>
-0.4\ta b\u00a0\t-0.2

\\2-grams:
-0.1\t<s> a b\u00a0
-0.5\ta b\u00a0 </s>
-0.9\ta b\u00a0 a b\u00a0

\\end\\
""".replace("a b\u00a0", "a\vb\u00a0")


WORDS = [*SPECIAL, "é", *("x" * length for length in (1, 6, 7, 8, 40))]  # of one, two and six cells


def written(fast: NGrams, path, threads: int = 1) -> str:
    with LineWriter(str(path), force=True) as out:
        arpa.write(fast, WORDS, out, threads)
    return path.read_text()


def read(text: str, path) -> tuple[NGrams, list[str]]:
    path.write_bytes(text.encode())
    return arpa.read(str(path))


@pytest.mark.parametrize("order", [1, 2, 4])
@pytest.mark.parametrize(("rows", "threads"), [(3, 1), (7, 2), (1 << 15, 1)])
def test_written_files_are_read_again(order, rows, threads, tmp_path, monkeypatch):
    monkeypatch.setattr(arpa, "ROWS", rows)
    text = sentences(1)
    fast = model(text, order, smoothing.kneser_ney)
    written(fast, tmp_path / "lm.arpa", threads)
    again, words = arpa.read(str(tmp_path / "lm.arpa"))
    assert words == WORDS
    for old, new in zip(fast.levels, again.levels, strict=True):
        np.testing.assert_array_equal(new.keys, old.keys)
        np.testing.assert_allclose(new.log_probs, old.log_probs, atol=1e-7, rtol=1e-6)
    ids = flat(text)
    np.testing.assert_allclose(again.score(ids).log_probs, fast.score(ids).log_probs, atol=1e-6)


def test_numbers_have_as_many_digits_as_they_need():
    values = np.array(
        [0, -0.5, -1.23456789, -12.0000004, -99, -np.inf, 0.25, -9.99999999, -0.0, -0.99999999], np.float32
    )
    texts = [b"0", b"-0.500000000", b"-1.2345679", b"-12", b"-99", b"-99", b"0.250000000", b"-10", b"0", b"-1"]
    cells = arpa_lines.number_cells(values, b"\t")
    assert [row.tobytes().replace(b"\0", b"") for row in cells] == [b"\t" + text for text in texts]


def test_numbers_are_read_as_they_were():
    draw = np.random.default_rng(0)
    sizes = 10 ** draw.uniform(-9, 1.9, 20_000)
    values = -sizes.astype(np.float32)
    cells = arpa_lines.number_cells(values, b"\n")
    again = np.array([float(row.tobytes().replace(b"\0", b"")) for row in cells], np.float32)
    exact = sizes > 2**-6
    np.testing.assert_array_equal(again[exact], values[exact])
    np.testing.assert_allclose(again[~exact], values[~exact], atol=1e-9, rtol=0)


def test_names_are_different_and_without_white_space():
    tokens = [
        "<unk>",
        "</s>",
        "a b",
        "a<0x20>b",
        "<a<0x20>b>",
        "<s>x",
        "<UNK>",
        "\0",
        "<0x00>",
        "",
        "\u2028",
        "<s>",
        "<12>",
    ]
    vocab = Vocab(tokens)
    words = arpa.names(vocab, NGramConfig(14, 1, 13), 1)
    assert len(set(words)) == 14 and all(word.encode().split() == [word.encode()] for word in words)
    assert (words[0], words[1], words[13]) == (
        "<unk>",
        "</s>",
        "<s>",
    )  # the <s> of the model is not a token of the text
    assert words[2] == "<<a<0x20>b>>" and words[3:6] == ["a<0x20>b", "<a<0x20>b>", "<s>x"]
    assert words[10] == "\u2028", "white space that is not ASCII is a part of words"
    assert not {"<UNK>", "<s>"} & set(words[2:13]) and words[12] == "<12>"


def test_a_small_file_of_another_tool(tmp_path):
    small, words = read(SMALL, tmp_path / "a.arpa")
    a = words.index("a\vb\u00a0")
    scored = small.score(np.array([BOS, a, EOS, BOS, 0, a, a, a, EOS]))
    expected = [0, -0.1, -0.5, 0, -1.5 - 0.3, -0.4, -0.9, -0.9, -0.5]
    np.testing.assert_allclose(scored.log_probs, expected, rtol=1e-6)
    assert scored.lengths.tolist()[1:3] == [2, 2]


@pytest.mark.parametrize(
    "change",
    [
        ("\n", "\r\n"),
        ("\t", " "),
        ("\\data\\", "# made by hand\n\n\\data\\"),
        ("=", " = "),
        ("=", "=\t"),
        ("=", "=   "),
        ("ngram ", "ngram \t "),
        ("\n\n", "\n"),
        ("\n\n\\end", "\n\\end"),
        ("\n\n", "\n \t\n\n\n"),
        ("grams:\n", "grams:\n\n"),
        ("-0.4", "\n  -0.4"),
        ("\nngram 2", "\n\nngram 2"),
        ("<s> ", "<s>\t"),
        ("<s> ", "<s>  "),
        ("\\data\\", "\ufeff\\data\\"),
        ("\\end\\\n", "\\end\\"),
    ],
)
def test_variants_of_the_layout(change, tmp_path):
    text = SMALL.replace("\v", "").replace("\u00a0", "")
    ids = np.array([BOS, 3, 3, EOS])
    expected, _ = read(text, tmp_path / "a.arpa")
    assert change[0] in text
    changed, _ = read(text.replace(*change), tmp_path / "b.arpa")
    np.testing.assert_array_equal(changed.score(ids).log_probs, expected.score(ids).log_probs)


def test_words_that_no_text_has_are_named_and_counted(tmp_path, capsys):
    """In Latin-1, and with a vertical tab inside; names that words have already are taken."""
    path = tmp_path / "a.arpa"
    path.write_bytes(
        b"\\data\\\nngram 1=7\n\n\\1-grams:\n-1\t<unk>\n-99\t<s>\n-1\t</s>\n-.5\tcaf\xe9\n-.6\tcaf\\xe9\n-.7\tcaf\xc3\xa9\n"
        b"-.8\ta\x0bb\n\\end\\\n"
    )
    with pytest.raises(DataError, match=r"a\.arpa:8: the word 'caf\\\\xe9' is invalid UTF-8"):
        arpa.read(str(path))
    small, words = arpa.read(str(path), "replace")
    assert words[3:] == ["<caf\\xe9>", "caf\\xe9", "café", "a\vb"]
    np.testing.assert_allclose(small.levels[0].log_probs[3:], [-0.5, -0.6, -0.7, -0.8], rtol=1e-6)
    said = capsys.readouterr().err
    assert "1 word with invalid UTF-8, which no text has" in said and "1 word with white space" in said


def test_words_without_special_ones_and_in_capitals(tmp_path):
    text = SMALL.replace("-1.5\t<unk>\n", "").replace("ngram 1=4", "ngram 1=3")
    small, words = read(text.replace("<s>", "<S>").replace("</s>", "</S>"), tmp_path / "a.arpa")
    assert words[:3] == ["<unk>", "<s>", "</s>"]
    assert small.levels[0].log_probs[0] == -99


def test_missing_contexts_are_added(tmp_path, capsys):
    text = (
        "\\data\\\nngram 1=5\nngram 2=1\nngram 3=1\nngram 4=1\n\n\\1-grams:\n-1\t<unk>\n-99\t<s>\t-.1\n-1\t</s>\n-.5\ta\t-.2\n"
        "-.6\tb\t-.3\n\n\\2-grams:\n-.4\ta a\t-.1\n\n\\3-grams:\n-.3\ta a b\n\n\\4-grams:\n-.2\tb a b a\n\n\\end\\\n"
    )
    small, words = read(text, tmp_path / "a.arpa")
    assert "2 n-grams that begin longer ones are missing" in capsys.readouterr().err
    a, b = words.index("a"), words.index("b")
    scored = small.score(np.array([BOS, b, a, b, a])).log_probs
    np.testing.assert_allclose(scored, [0, -0.6 - 0.1, -0.5 - 0.3, -0.6 - 0.2, -0.2], rtol=1e-6)


@pytest.mark.parametrize(
    ("change", "line", "message"),
    [
        (("ngram 2=3", "ngram 2=4"), 16, "3 2-grams, the head announces 4"),
        (("ngram 2=3", "ngram 2=2"), 16, "3 2-grams, the head announces 2"),
        (("ngram 1=4", "ngram 2=4"), 2, "expected `ngram 1=`"),
        (("ngram 2=3", "ngram 2=" + "9" * 5000), 3, "expected `ngram 2=` and a number"),
        (("ngram 2=3", "ngram 2=3\nngram"), 4, "expected `ngram 3=` and a number"),
        (("-0.5", "0.5"), 13, "the log10 probability is 0.5"),
        (("-0.5", "nan"), 13, "expected a number"),
        (("-0.5", "x"), 13, "expected a number"),
        (("-0.5\ta", "-0.5\tc\ta"), 13, "expected a number, 2 words"),
        (("\\2-grams", "\\3-grams"), 11, "expected \\2-grams:"),
        (("\\end\\", ""), 16, "the file ends, expected \\end\\"),
        (("\\end\\", "\\end\\\nmore"), 17, "text after \\end\\"),
        (("\\data\\", "hello"), 1, "'hello', expected \\data\\"),
        (("<s> a", "<s> c"), 12, "not among the single words"),
        (("</s>\n-0.9", "</s>\n-0.5\ta\vb\u00a0 </s>\n-0.9"), 17, "4 2-grams, the head announces 3"),
        (("-0.7\t</s>", "-0.7\t<unk>"), 8, "a word occurs twice"),
    ],
)
def test_damaged_files_are_refused_with_the_line(change, line, message, tmp_path):
    assert change[0] in SMALL
    with pytest.raises(DataError) as raised:
        read(SMALL.replace(*change, 1), tmp_path / "a.arpa")
    assert message in str(raised.value)
    assert f":{line}:" in str(raised.value)


def test_an_n_gram_that_is_there_twice_is_refused(tmp_path):
    with pytest.raises(DataError, match="a 2-gram occurs twice"):
        read(SMALL.replace("-0.9\ta\vb\u00a0 a\vb\u00a0", "-0.5\ta\vb\u00a0 </s>"), tmp_path / "a.arpa")


def test_kenlm_reads_what_is_written(tmp_path):
    kenlm = pytest.importorskip("kenlm")
    text = sentences(2, 200)
    fast = model(text, 5, smoothing.kneser_ney)
    written(fast, tmp_path / "lm.arpa")
    theirs = kenlm.Model(str(tmp_path / "lm.arpa"))
    for words in text + sentences(9, 20):
        ours = float(fast.score(np.array(words)).log_probs.sum())
        assert theirs.score(" ".join(WORDS[i] for i in words[1:-1])) == pytest.approx(ours, abs=1e-4)
