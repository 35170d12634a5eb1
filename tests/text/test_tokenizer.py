"""Laws that hold for every tokenizer: there and back, offsets, batches, saving and loading."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from conftest import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nlptools.configs.text import BuildVocab
from nlptools.errors import BundleError, InputError, UsageError
from nlptools.text import mecab, tokenization, vocabulary_building
from nlptools.text.tokenizer import NAMES, load
from nlptools.text.vocab import Vocab

TEXTS = [
    "",
    " ",
    "Hello, world! It isn't.",
    "two  spaces\tand a tab",
    "line\nend",
    "ünï ▁ \\▁ 日本語 🎉 \u2028 \x00 \u00a0x",
    "İstanbul STRASSE",
    "&amp; &lt;b&gt; -\njoined <skipped>",
    "\ud800 lone",
]
RULES = tuple(name for name in NAMES if name not in mecab.NAMES)  # these need further packages: see test_mecab.py
KINDS = (*RULES, "unigram", "bpe", "sp-char", "wordpiece", "byte-bpe", "tsv")


@pytest.fixture(scope="module")
def made(tmp_path_factory, english):
    """The tokenizers by kind, learned from a little English."""
    directory = tmp_path_factory.mktemp("tokenizers")
    text = directory / "text.txt"
    text.write_text("\n".join(english[:1500]) + "\n", encoding="utf-8")

    def learn(kind, name, **more):
        vocabulary_building.build_vocab([str(text)], BuildVocab(kind=kind, output=str(directory / name), **more))
        return directory / name

    special = ("<unk>", "<s>", "</s>")
    found = {}
    for name in ("whitespace", "ascii-whitespace", "words", "13a", "intl", "zh"):
        tokens = dict.fromkeys(token for line in english for token in load(name).tokens(line))
        found[name] = load(name, vocab=Vocab([*special, *tokens]))
    found["char"] = load("char", vocab=Vocab([*special, *dict.fromkeys("▁\n" + "".join(map(chr, range(33, 127))))]))
    found["bytes"] = load("bytes")
    found["unigram"] = load(learn("unigram", "u.model", size=500))
    found["bpe"] = load(learn("bpe", "b.model", size=500))
    found["sp-char"] = load(learn("char", "c.model"))
    found["wordpiece"] = load(learn("wordpiece", "wp", size=500))
    found["byte-bpe"] = load(learn("byte-bpe", "bb", size=500))
    found["tsv"] = load(learn("words", "v.tsv", size=500))
    return found


@pytest.mark.sampled(5)
@pytest.mark.parametrize("kind", KINDS)
def test_batches_equal_lines_and_threads_do_not_matter(made, kind, english):
    tokenizer = made[kind]
    lines = TEXTS + english[:600]
    assert tokenizer.encode_lines(lines, threads=2) == [tokenizer.encode(line) for line in lines]
    assert tokenizer.tokens_lines(lines, threads=2) == [tokenizer.tokens(line) for line in lines]
    assert tokenizer.encode_lines([]) == []


@pytest.mark.parametrize("kind", KINDS)
def test_offsets_cut_the_text(made, kind, english):
    tokenizer = made[kind]
    for text in TEXTS[:-1] + english[:100]:
        spans = tokenizer.offsets(text)
        assert len(spans) == len(tokenizer.tokens(text))
        assert all(0 <= a <= b <= len(text) for a, b in spans)
        assert spans == sorted(spans)
        if kind in ("whitespace", "words", "intl", "zh", "tsv"):
            assert [text[a:b] for a, b in spans] == tokenizer.tokens(text)
        if kind in ("char", "bytes"):
            assert "".join(dict.fromkeys(spans) and [text[a:b] for a, b in dict.fromkeys(spans)]) == text


def test_offsets_of_13a_cover_entities():
    assert load("13a").offsets("a &amp; b") == [(0, 1), (2, 7), (8, 9)]


@pytest.mark.parametrize("name", RULES)
def test_offsets_of_lowercased_text(name):
    tokenizer = load(name, lowercase=True)
    text = "İx ABC İ"
    assert len(tokenizer.offsets(text)) == len(tokenizer.tokens(text))
    assert all(0 <= a < b <= len(text) for a, b in tokenizer.offsets(text))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(100), deadline=None)
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_there_and_back_exactly(made, text):
    for kind in ("bytes", "byte-bpe"):
        tokenizer = made[kind]
        if "<|endoftext|>" not in text:
            assert tokenizer.decode(tokenizer.encode(text)) == text
            assert tokenizer.decode_tokens(tokenizer.tokens(text)) == text
    characters = load("char")
    assert characters.decode_tokens(characters.tokens(text)) == text
    assert all(" " not in token for kind in KINDS for token in made[kind].tokens(text.replace("\n", " ")))


def test_there_and_back_of_english(made, english):
    for line in english[:400]:
        plain = " ".join(line.split())
        for kind in ("unigram", "bpe", "sp-char"):
            tokenizer = made[kind]
            if tokenizer.vocab.unk not in (ids := tokenizer.encode(line)):
                assert tokenizer.decode(ids) == plain
                assert tokenizer.decode_tokens(tokenizer.tokens(line)) == plain
        for kind in ("whitespace", "char"):
            ids = made[kind].encode(line)
            if made[kind].vocab.unk not in ids:
                assert made[kind].decode(ids) == (plain if kind == "whitespace" else line)


@pytest.mark.parametrize("kind", KINDS)
def test_save_and_load(made, kind, tmp_path, english):
    tokenizer = made[kind]
    names = tokenizer.save(tmp_path)
    assert sorted(names) == sorted(path.name for path in tmp_path.iterdir())
    again = load(tmp_path)
    assert again.kind == tokenizer.kind
    assert again.vocab.tokens == tokenizer.vocab.tokens
    lines = TEXTS + english[:100]
    assert again.encode_lines(lines) == tokenizer.encode_lines(lines)
    for role in ("pad", "unk", "bos", "eos", "cls", "sep", "mask"):
        assert getattr(again.vocab, role) == getattr(tokenizer.vocab, role)


@pytest.mark.parametrize("kind", ["char", "words", "bytes"])
def test_lower_case_is_remembered(kind, tmp_path):
    load(kind, lowercase=True).save(tmp_path)
    assert load(tmp_path).tokens("ABC") == load(kind).tokens("abc")


def test_words_are_split_before_they_are_lowercased(tmp_path):
    text = "I saw him. He left the U.S. for Dr. No."
    load("words", lowercase=True).save(tmp_path)
    for tokenizer in (load("words", lowercase=True), load(tmp_path)):
        assert tokenizer.tokens(text) == [token.lower() for token in load("words").tokens(text)]
        assert tokenizer.tokens(text)[:6] == ["i", "saw", "him", ".", "he", "left"]
        assert tokenizer.offsets(text) == load("words").offsets(text)


def test_lower_case_of_pieces_is_remembered(made, tmp_path):
    for kind in ("unigram", "byte-bpe"):
        directory = tmp_path / kind
        directory.mkdir()
        made[kind].save(directory)
        load(directory, lowercase=True).save(directory)
        assert load(directory).tokens("THE MODULE") == made[kind].tokens("the module")


def test_special_tokens(made):
    assert (made["unigram"].vocab.unk, made["unigram"].vocab.bos, made["unigram"].vocab.eos) == (0, 1, 2)
    assert made["unigram"].vocab.pad is None
    pieces = made["wordpiece"].vocab
    assert [pieces.pad, pieces.unk, pieces.cls, pieces.sep, pieces.mask] == [0, 1, 2, 3, 4]
    assert made["byte-bpe"].vocab.bos == made["byte-bpe"].vocab.eos == 0
    assert made["char"].decode([1, *made["char"].encode("a b"), 2]) == "a b"


def test_ids_out_of_range(made):
    for kind in KINDS:
        for bad in (len(made[kind].vocab), -1):
            with pytest.raises(IndexError):
                made[kind].decode([bad])


def test_without_vocabulary():
    with pytest.raises(UsageError, match="has no vocabulary"):
        load("words").encode("a")
    with pytest.raises(UsageError):
        load("words").decode([1])


def test_names_and_paths(tmp_path, made):
    with pytest.raises(InputError, match="no such tokenizer"):
        load("wrods")
    with pytest.raises(BundleError, match="no tokenizer in this directory"):
        load(tmp_path)
    with pytest.raises(UsageError, match="own vocabulary"):
        load("bytes", vocab=Vocab(["a"]))
    other = tmp_path / "x.bin"
    other.write_bytes(b"")
    with pytest.raises(BundleError, match="not a known name of a tokenizer file"):
        load(other)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"a": NaN}',
        '{"a": 1e999}',
        "[" * 100_000,
        '{"version": "1.0"}',
        '{"model": {"type": "BPE"}}',
        "\ud800",
    ],
)
def test_bad_tokenizer_json(tmp_path, text):
    path = tmp_path / "tokenizer.json"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    with pytest.raises(BundleError):
        load(path)


def test_bad_vocab_files(tmp_path):
    (tmp_path / "vocab.txt").write_text("a\nb\n")
    with pytest.raises(BundleError, match=r"no \[UNK\]"):
        load(tmp_path / "vocab.txt")
    (tmp_path / "vocab.json").write_text('{"a": 0, "b": "x"}')
    (tmp_path / "merges.txt").write_text("#version: 0.2\na b\n")
    with pytest.raises(BundleError, match="token: id"):
        load(tmp_path / "vocab.json")
    (tmp_path / "vocab.json").write_text('{"a": 0, "b": 1}')
    with pytest.raises(BundleError, match="merges"):
        load(tmp_path / "vocab.json")  # the merge makes a token that is not there
    (tmp_path / "nlptools_tokenizer.json").write_text(json.dumps({"kind": "nonsense"}))
    with pytest.raises(BundleError, match="unknown kind"):
        load(tmp_path)


def test_tokenizer_json_with_spaces_in_tokens(tmp_path):
    """Such tokens are shown with U+2581, and read back."""
    from tokenizers import AddedToken, Tokenizer, models

    inner = Tokenizer(models.WordLevel({"a b": 0, "?": 1}, unk_token="?"))
    inner.add_tokens([AddedToken("c d")])
    inner.save(str(tmp_path / "tokenizer.json"))
    tokenizer = load(tmp_path)
    assert tokenizer.tokens("a b") == ["a▁b"]
    assert tokenizer.decode_tokens(["a▁b"]) == "a b"


def test_the_python_functions(made, english):
    ids = list(tokenization.tokenize(["the module", ""], made["unigram"]))
    assert ids == [" ".join(made["unigram"].tokens("the module")), ""]
    assert list(tokenization.tokenize(["Hello, world."])) == ["Hello , world ."]


def test_nothing_heavy_is_imported():
    code = (
        "import sys, nlptools.text.tokenization, nlptools.cli.tokenize, nlptools.cli.build_vocab\n"
        "bad = {'torch', 'numpy', 'sentencepiece', 'tokenizers', 'transformers', 'rich'} & set(sys.modules)\n"
        "sys.exit(str(bad) if bad else 0)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
