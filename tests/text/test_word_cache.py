"""Words looked up: the same ids as the tokenizer's own, whatever the text."""

from __future__ import annotations

import string
from itertools import chain

import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from nlptools.text import tokenizer as tokenizers
from nlptools.text import word_cache
from nlptools.text.vocab import Vocab
from nlptools.text.word_cache import WordCache, fits

package = pytest.importorskip("tokenizers")
from nlptools.text.huggingface import BERT_SPECIAL, HuggingFace, wordpiece  # noqa: E402

PIECES = [*string.ascii_letters, *".,!'[]σςΣéе中本1", "the", "un", "play", "##ing", "##s", "##able", "##σ", "##1"]
IDS = {token: id for id, token in enumerate([*BERT_SPECIAL, *PIECES, *("##" + c for c in string.ascii_letters)])}
TOKENIZERS = {
    lower: HuggingFace(wordpiece(IDS, lowercase=lower, strip_accents=lower), "made") for lower in (True, False)
}
TEXT = st.text(
    st.sampled_from("abTHEing playsun  .,!-(\"'\t\u00a0\u2028\u3000\x01\x85\x1c\u0301é中本Σς1\u200b\ufffd\ud800")
) | st.lists(
    st.sampled_from(
        ["playing", "the", "[MASK]", "[CLS]x", "[SEP]", "a[SEP]", "[sep]", "unplayable", " ", "", "Éa", "x" * 101]
    )
).map(" ".join)


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.lists(TEXT | st.text(), max_size=6), max_size=3), st.booleans())
def test_the_ids_are_the_tokenizers_own(parts: list[list[str]], lower: bool) -> None:
    cache = WordCache(TOKENIZERS[lower])
    for lines in parts:
        expected = TOKENIZERS[lower].encode_lines(lines)
        ids, lengths = cache.encode_lines(lines)
        assert ids.tolist() == [id for row in expected for id in row]
        assert lengths.tolist() == [len(row) for row in expected]


def test_a_separator_that_text_can_become() -> None:
    """A special token that is a word: text in upper case becomes it, too."""
    made = package.Tokenizer(package.models.WordPiece({"[UNK]": 0, "end": 1, "a": 2, "##a": 3}, unk_token="[UNK]"))
    made.normalizer = package.normalizers.BertNormalizer(lowercase=True, strip_accents=True)
    made.pre_tokenizer = package.pre_tokenizers.BertPreTokenizer()
    made.add_special_tokens(["end"])
    tokenizer = HuggingFace(made, "made", {"sep_token": "end"})
    assert fits(tokenizer)
    lines = ["a aa END a", "end a", "b"]
    ids, lengths = WordCache(tokenizer).encode_lines(lines)
    assert ids.tolist() == [2, 2, 3, 1, 2, 1, 2, 0]
    assert lengths.tolist() == [5, 2, 1]


def test_it_forgets_when_it_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_cache, "MOST_CHARACTERS", 100)
    cache = WordCache(TOKENIZERS[True])
    for lines in (["the playing", "un"], ["abc"], ["the s"], ["the playing"]):
        assert cache.encode_lines(lines)[0].tolist() == list(chain.from_iterable(TOKENIZERS[True].encode_lines(lines)))
        assert len(cache._numbers) <= 5


def test_which_tokenizers_it_fits() -> None:
    assert fits(TOKENIZERS[True])
    assert not fits(HuggingFace(wordpiece(IDS, lowercase=False, strip_accents=False), "made", lowercase=True))
    assert not fits(tokenizers.load("whitespace", Vocab(["a"])))
    greedy = wordpiece(IDS, lowercase=True, strip_accents=True)
    greedy.add_special_tokens([package.AddedToken("[E]", lstrip=True)])
    assert not fits(HuggingFace(greedy, "made"))
    spaced = wordpiece(IDS, lowercase=True, strip_accents=True)
    spaced.add_special_tokens(["[New York]"])
    assert not fits(HuggingFace(spaced, "made"))
    other = wordpiece(IDS, lowercase=True, strip_accents=True)
    other.pre_tokenizer = package.pre_tokenizers.Metaspace()
    assert not fits(HuggingFace(other, "made"))
    plain = package.Tokenizer(package.models.BPE({"a": 0}, []))
    assert not fits(HuggingFace(plain, "made"))
