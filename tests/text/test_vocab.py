"""Vocabularies: files, special tokens, what is refused."""

from __future__ import annotations

import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from nlptools.errors import BundleError, InputError
from nlptools.text.vocab import Vocab


@settings(deadline=None, max_examples=examples(50))
@given(tokens=st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=1, unique=True))
def test_save_and_load(tmp_path_factory, tokens):
    path = tmp_path_factory.mktemp("vocab") / "v.tsv"
    vocab = Vocab([*tokens], range(len(tokens)))
    vocab.save(path)
    again = Vocab.load(path)
    if tokens[0].startswith("\ufeff"):
        return  # a byte order mark at the start of a file is dropped
    assert again.tokens == tokens
    assert again.counts == list(range(len(tokens)))


def test_ids_tokens_and_unknown():
    vocab = Vocab(["<unk>", "<s>", "</s>", "a"])
    assert (vocab.unk, vocab.bos, vocab.eos, vocab.pad, vocab.cls, vocab.mask) == (0, 1, 2, None, None, None)
    assert len(vocab) == 4
    assert vocab.id("a") == 3
    assert vocab.id("zzz") == 0
    assert vocab.token(3) == "a"
    with pytest.raises(IndexError):
        vocab.token(4)
    with pytest.raises(IndexError):
        vocab.token(-1)
    with pytest.raises(KeyError):
        Vocab(["a"]).id("b")


@pytest.mark.parametrize(
    ("tokens", "roles"),
    [
        (["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}),
        (["<|endoftext|>", "a"], {"bos": 0, "eos": 0}),
        (["<s>", "<pad>", "</s>", "<unk>", "<mask>"], {"bos": 0, "pad": 1, "eos": 2, "unk": 3, "mask": 4}),
    ],
)
def test_usual_names(tokens, roles):
    vocab = Vocab(tokens)
    for role in ("pad", "unk", "bos", "eos", "cls", "sep", "mask"):
        assert getattr(vocab, role) == roles.get(role)


@pytest.mark.parametrize(
    ("data", "wrong"),
    [
        (b"", "empty vocabulary"),
        (b"a\t1\na\t2\n", "v.tsv:2: token 'a' is also on line 1"),
        (b"a\tx\n", "v.tsv:1: expected token TAB count"),
        (b"a\t1\t2\n", "v.tsv:1"),
        (b"a\t-1\n", "v.tsv:1"),
        (b"a\t1\n\t3\n", "v.tsv:2: an empty token"),
        (b"a\t1\n\xff\t1\n", "v.tsv:2: invalid UTF-8"),
    ],
)
def test_refused_files(tmp_path, data, wrong):
    path = tmp_path / "v.tsv"
    path.write_bytes(data)
    with pytest.raises(BundleError, match=wrong.replace(".", r"\.")):
        Vocab.load(path)


def test_missing_file(tmp_path):
    with pytest.raises(InputError):
        Vocab.load(tmp_path / "none.tsv")
    with pytest.raises(InputError):
        Vocab.load(tmp_path)
