"""Equality with sacrebleu's tokenizers, and with transformers on the files that both read."""

from __future__ import annotations

import random
import unicodedata
from unittest import mock

import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from nlptools.text import mteval
from nlptools.text.tokenizer import load

pytestmark = pytest.mark.reference
ASSIGNED = st.text(
    st.characters(exclude_categories=["Cs", "Cn"]).filter(lambda c: unicodedata.category(c) != "Cn"), max_size=60
)
QUIRKS = st.text(alphabet="ab01.,-'\"&;<>ampltquo skiped\n\t\u00a0\u2028…„“²½€|{}[]~^", max_size=60)


def theirs(name):
    if name == "13a":
        from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a as Kind
    else:
        from sacrebleu.tokenizers.tokenizer_intl import TokenizerV14International as Kind
    return Kind()


@pytest.mark.parametrize("name", ["13a", "intl"])
def test_equal_to_sacrebleu(name, english):
    pytest.importorskip("sacrebleu")
    ours, reference = load(name), theirs(name)
    generator = random.Random(1)
    samples = [
        "1990.",
        "3,a ... 1,000-2,000 x.y",
        "<skipped> a-\nb &quot;&amp;lt; &apos;",
        *english,
        *("".join(generator.choices("ab1 .,-&;€…²", k=30)) for _ in range(1500)),
    ]
    for text in samples:
        assert " ".join(ours.tokens(text)) == reference(text)


@pytest.mark.parametrize("name", ["13a", "intl"])
@settings(max_examples=examples(150), deadline=None)
@given(text=ASSIGNED | QUIRKS)
def test_equal_to_sacrebleu_on_any_text(name, text):
    pytest.importorskip("sacrebleu")
    ours = load(name)
    assert " ".join(ours.tokens(text)) == theirs(name)(text)
    spans = ours.offsets(text)
    assert len(spans) == len(ours.tokens(text))
    assert all(0 <= a < b <= len(text) for a, b in spans)


@settings(max_examples=examples(150), deadline=None)
@given(text=ASSIGNED | QUIRKS)
def test_long_lines_equal_sacrebleu(text):
    pytest.importorskip("sacrebleu")
    long = (text.replace("\n", " ") or "a") * 3
    with mock.patch.object(mteval, "_LONG", 2):
        assert " ".join(mteval.split_intl([long])[0]) == theirs("intl")(long)


def test_a_line_of_megabytes(english):
    """Slow substitutions took 4 s for each million characters of this, so that a line of 50 MB had no end."""
    pytest.importorskip("sacrebleu")
    short = " ".join(english[:200])
    once = theirs("intl")(short + " ")
    assert mteval.split_intl([(short + " ") * 100])[0] == once.split() * 100
    assert len(mteval.split_intl(["a.1," * 1_000_000])[0]) == 3_999_999  # the last comma stays


def test_bert_vocab_txt_equals_transformers(tmp_path, english):
    transformers = pytest.importorskip("transformers")
    letters = [chr(c) for c in range(33, 127) if not chr(c).isupper()]
    words = ["the", "module", "##s", "##ing", "class", "state", "##ment", "is", "not"]
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *("##" + c for c in letters), *words]
    tokens = list(dict.fromkeys(tokens))
    (tmp_path / "vocab.txt").write_text("\n".join(tokens) + "\n")
    ours = load(tmp_path / "vocab.txt")
    bert = transformers.BertTokenizer(vocab=str(tmp_path / "vocab.txt"), do_lower_case=True)
    if len(bert) != len(tokens):  # before version 5
        bert = transformers.BertTokenizerFast(vocab_file=str(tmp_path / "vocab.txt"), do_lower_case=True)
    for line in [*english[:300], "Ünï çödé 日本 x", ""]:
        assert ours.encode(line) == bert(line, add_special_tokens=False)["input_ids"]


def test_gpt2_files_equal_the_json(tmp_path, english, run):
    (tmp_path / "t.txt").write_text("\n".join(english[:500]))
    assert run("build-vocab", "--kind", "byte-bpe", "--size", "400", "-o", "bb", "t.txt").code == 0
    json, classic = load(tmp_path / "bb" / "tokenizer.json"), load(tmp_path / "bb" / "vocab.json")
    assert json.encode_lines(english) == classic.encode_lines(english)
    assert json.vocab.eos == classic.vocab.eos == 0
