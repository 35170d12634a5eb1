"""Pairs of tokenizers: ids, paddings that agree, tags of languages, directories there and back."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path
from typing import Any

import pytest
from conftest import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nlptools.errors import BundleError
from nlptools.text import huggingface, learning
from nlptools.text.builtin import NamedTokenizer
from nlptools.text.marian import Marian
from nlptools.text.pieces import SentencePiece
from nlptools.text.tokenizer import load
from nlptools.text.tokenizer_pairs import load_pair, pair, save_pair, special_ids
from nlptools.text.vocab import Vocab

FRA = ">>fra<<"
TEXTS = ["", " ", "abc  de", "a\tb", "日本 zz abc", "bad cab", "<pad> a </s>", f"{FRA} abc", f"{FRA}abc", f"a {FRA}", FRA,
         ">>deu<< abc", ">>", "\ud800 a"]  # fmt: skip


def learned(size: int, letters: str = "abcdefgh", lowercase: bool = False, **more: Any) -> SentencePiece:
    rng = random.Random(letters)
    words = ["".join(rng.choice(letters) for _ in range(rng.randint(1, 6))) for _ in range(200)]
    lines = [" ".join(rng.choice(words) for _ in range(8)) for _ in range(300)]
    return SentencePiece(learning.train_sentencepiece(lines, "unigram", size, **more), "m", lowercase)


@pytest.fixture(scope="module")
def long() -> SentencePiece:
    """A model with a tag and a padding of its own in the middle."""
    return learned(120, special=(FRA, "<pad>"))


@pytest.fixture(scope="module")
def short() -> SentencePiece:
    return learned(90, "mnopqrst")


def words(*tokens: str) -> NamedTokenizer:
    return NamedTokenizer("words", Vocab(["<unk>", "<s>", "</s>", *tokens]))


def byte_bpe(size: int) -> huggingface.HuggingFace:
    return huggingface.HuggingFace(learning.train_byte_bpe(["the cat sat on the mat"] * 20, size), "t")


# -- one tokenizer for both sides -------------------------------------------------------------------------------------


def test_a_joint_model_keeps_its_ids_and_gets_a_padding_at_the_end(long: SentencePiece) -> None:
    source, target = pair(long)
    assert source is target and isinstance(source, Marian) and source.kind == "marian"
    assert source.vocab.tokens == [t if t != "<pad>" else "<pad_3>" for t in long.vocab.tokens] + ["<pad>"]
    assert special_ids(long) == special_ids(source) == special_ids(source, target) == (120, 2, 121, 121)
    assert (source.vocab.pad, source.vocab.eos, source.vocab.unk, source.vocab.bos) == (120, 2, 0, 1)
    plain = [text for text in TEXTS if not text.startswith(FRA)]
    assert source.encode_lines(plain) == long.encode_lines(plain)
    assert source.tokens_lines(plain) == long.tokens_lines(plain)
    assert [source.offsets(text) for text in plain] == [long.offsets(text) for text in plain]
    assert pair(source) == (source, source) and pair(source, target) == (source, target)


def test_a_padding_that_is_the_last_piece_is_the_padding() -> None:
    sentencepiece = pytest.importorskip("sentencepiece")
    writer = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["abc cab bca ab ba"] * 9), model_writer=writer, vocab_size=12, pad_id=11, minloglevel=2
    )
    plain = SentencePiece(writer.getvalue(), "m")
    made = pair(plain)[0]
    assert made.vocab and made.vocab.tokens == plain.vocab.tokens and made.vocab.tokens[-1] == "<pad>"
    assert special_ids(plain) == special_ids(made) == (11, 2, 12, 12) and made.encode("abc") == plain.encode("abc")
    source, target = pair(plain, learned(80))  # it makes room for the other side's
    assert special_ids(source, target) == (80, 2, 81, 81) and source.encode("abc") == plain.encode("abc")


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.one_of(st.sampled_from(TEXTS), st.text("abcdz é<>fr/sunkpd", max_size=20), st.text(max_size=8))))
def test_laws_of_every_tokenizer(long: SentencePiece, short: SentencePiece, texts: list[str]) -> None:
    tokenizers = [pair(long)[0], *pair(long, short), *pair(short, long)]
    for made in tokenizers:
        assert isinstance(made, Marian)
        rows, shown = made.encode_lines(texts), made.tokens_lines(texts)
        assert rows == [made.encode(text) for text in texts] and shown == [made.tokens(text) for text in texts]
        for text, ids, tokens in zip(texts, rows, shown, strict=True):
            assert len(ids) == len(tokens) == len(made.offsets(text))
            assert not made.vocab.marks & set(ids), "text never becomes a special token"
            assert all(0 <= id < len(made.vocab) for id in ids)
            assert all(
                made.vocab.id(token) == id for token, id in zip(tokens, ids, strict=True) if id != made.vocab.unk
            )
            assert made.decode([*ids, made.vocab.eos or 0, made.vocab.pad or 0]) == made.decode(ids)
            if made.vocab.unk not in ids:
                assert made.decode(ids) == made.decode_tokens(tokens)


def test_decoding(long: SentencePiece) -> None:
    made = pair(long)[0]
    assert made.decode(made.encode("abc dab")) == "abc dab"
    assert made.decode([]) == made.decode([2, 120, 1]) == ""
    for bad in ([121], [-1], [0, 500]):
        with pytest.raises(IndexError):
            made.decode(bad)


def test_tags_of_languages_come_off_the_beginning_only(long: SentencePiece) -> None:
    other = {t: i for i, t in enumerate(["</s>", "<unk>", ">>deu<<", *long.vocab.tokens[5:], "<pad>"])}
    made = Marian(long, other, {})
    assert made.tokens(">>deu<< abc") == [">>deu<<", *long.tokens(" abc")]
    assert made.encode(">>deu<<abc") == [2, *made.encode("abc")] and made.encode(">>deu<<") == [2]
    assert made.offsets(">>deu<<") == [(0, 7)]
    assert made.offsets(">>deu<< abc")[0] == (0, 7) and made.offsets(">>deu<<abc")[-1][1] == 10
    assert 2 not in made.encode("a >>deu<<") and 2 not in made.encode(">>eng<< a>>deu<<")
    assert made.encode_lines(["a", ">>deu<< a", "b"]) == [made.encode("a"), [2, *made.encode("a")], made.encode("b")]


def test_a_piece_of_the_other_side_is_no_unknown_word(short: SentencePiece) -> None:
    ids = {t: i for i, t in enumerate(["</s>", "<unk>", *short.vocab.tokens[3:], "é", "<pad>"])}
    made = Marian(short, ids, {})
    assert made.encode("né")[-1] == ids["é"] and made.encode("nö")[-1] == made.vocab.unk == 1
    assert made.encode("mn") == [ids[piece] for piece in short.tokens("mn")]
    assert made.decode(made.encode("né")) == "né"


# -- two tokenizers ---------------------------------------------------------------------------------------------------


def test_the_padding_has_one_id_on_both_sides(long: SentencePiece, short: SentencePiece) -> None:
    source, target = pair(long, short)
    assert special_ids(source, target) == (90, 2, 121, 91)
    assert source.vocab and source.vocab.pad == 90 and len(source.vocab) == 121
    assert [id - (id > 90) for id in source.encode("abc fed hgab")] == long.encode("abc fed hgab")
    assert target.encode("mno pts") == short.encode("mno pts")
    with pytest.raises(ValueError, match=r"call pair\(\) first"):
        special_ids(long, short)

    source, target = pair(short, long)  # the shorter side is filled up
    assert special_ids(source, target) == special_ids(short, long) == (120, 2, 121, 121)
    assert source.vocab and source.vocab.tokens[89:] == [short.vocab.tokens[89], *(f"<unused_{i}>" for i in range(90, 120)),
                                                         "<pad>"]  # fmt: skip
    assert source.encode("mno") == short.encode("mno")
    assert all(a is b for a, b in zip(pair(source, target), (source, target), strict=True))


def test_words(tmp_path: Path) -> None:
    a, b = words("x", "y", "z"), words("u")
    assert special_ids(a) == (6, 2, 7, 7) and pair(a)[0].vocab.tokens[-1] == "<pad>"  # type: ignore[union-attr]
    source, target = pair(a, b)
    assert source.vocab and source.vocab.tokens == ["<unk>", "<s>", "</s>", "x", "<pad>", "y", "z"]
    assert special_ids(source, target) == (4, 2, 7, 5) and source.encode("x y z") == [3, 5, 6]
    assert source.decode([3, 4, 5]) == "x y"
    source, target = pair(b, a)
    assert source.vocab and source.vocab.tokens[3:] == ["u", "<unused_4>", "<unused_5>", "<pad>"]
    assert special_ids(source, target) == (6, 2, 7, 7)
    own = words("<pad>", "x")
    assert pair(own) == (own, own) and special_ids(own) == (3, 2, 5, 5)
    assert special_ids(*pair(own, a)) == (3, 2, 5, 7)  # the target has room for it in the middle
    with pytest.raises(BundleError, match="padding ids differ: source 3, target 4"):
        pair(own, words("x", "<pad>"))
    with pytest.raises(BundleError, match="but the target has"):
        pair(words("1", "2", "3", "<pad>"), words("1"))


def test_tokenizers_that_cannot_be_added_to() -> None:
    small, large = byte_bpe(260), byte_bpe(264)
    assert pair(small) == (small, small) and special_ids(small) == (260, 0, 261, 261)
    assert special_ids(small, large) == (264, 0, 265, 265)
    with pytest.raises(BundleError, match="is another token of the source"):
        pair(large, small)


def test_ends_of_sentences(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="no token for the end of a sentence") as raised:
        special_ids(load("bytes"))
    assert raised.value.hint
    with pytest.raises(BundleError, match="has no vocabulary"):
        special_ids(load("words"))
    with pytest.raises(BundleError, match="end-of-sentence ids differ: source 2, target 0") as raised:
        special_ids(words("a"), NamedTokenizer("words", Vocab(["</s>", "<unk>", "a", "b"])))
    assert raised.value.hint and "same special tokens" in raised.value.hint
    bert = NamedTokenizer("words", Vocab(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a"]))
    assert special_ids(bert) == (0, 3, 5, 5)
    made = huggingface.from_json(_saved(tmp_path, {"pad_token": "<|endoftext|>"}) / "tokenizer.json")
    assert made.vocab.pad == made.vocab.eos == 0
    assert special_ids(made)[:2] == (260, 0), "what ends a sentence does not pad it as well"


def _saved(directory: Path, config: dict[str, str]) -> Path:
    byte_bpe(260).save(directory)
    (directory / "tokenizer_config.json").write_text(json.dumps(config))
    return directory


# -- directories ------------------------------------------------------------------------------------------------------


def test_there_and_back(tmp_path: Path, long: SentencePiece, short: SentencePiece) -> None:
    lower = learned(90, "mnopqrst", lowercase=True)
    many = NamedTokenizer("words", Vocab(["</s>", "<unk>", *(f"w{i}" for i in range(299))]))
    cases: list[tuple[Any, Any, list[str]]] = [
        (long, None, ["source.spm", "target.spm", "vocab.json"]),
        (long, short, ["source.spm", "target.spm", "target_vocab.json", "vocab.json"]),
        (short, long, ["source.spm", "target.spm", "target_vocab.json", "vocab.json"]),
        (lower, None, ["nlptools_tokenizer.json", "source.spm", "target.spm", "vocab.json"]),
        (words("abc", "de"), None, ["nlptools_tokenizer.json", "vocab.tsv"]),
        (words("a", "b"), words("mno"), ["nlptools_tokenizer.json", "target/nlptools_tokenizer.json", "target/vocab.tsv",
                                         "vocab.tsv"]),
        (byte_bpe(260), many, ["target/vocab.tsv", "tokenizer.json"]),
        (long, lower, ["nlptools_tokenizer.json", "source.spm", "target/source.spm"]),
    ]  # fmt: skip
    for number, (source, target, expected) in enumerate(cases):
        out = tmp_path / str(number)
        out.mkdir()
        first, last = pair(source, target)
        names = save_pair(out, first, last)
        assert sorted(names) == sorted(p.relative_to(out).as_posix() for p in out.rglob("*") if p.is_file())
        assert set(expected) - {"nlptools_tokenizer.json"} <= set(names)
        found = load_pair(out)
        assert (found[0] is found[1]) == (target is None)
        for ours, theirs in zip((first, last), found, strict=True):
            assert ours.vocab and theirs.vocab and ours.vocab.tokens == theirs.vocab.tokens
            assert ours.encode_lines(TEXTS) == theirs.encode_lines(TEXTS) and ours.lowercase == theirs.lowercase
            assert (ours.vocab.pad, ours.vocab.eos) == (theirs.vocab.pad, theirs.vocab.eos)
        assert load(out).encode_lines(TEXTS) == first.encode_lines(TEXTS)
        again = tmp_path / f"{number} again"
        again.mkdir()
        assert save_pair(again, *found) == names
        assert all((again / name).read_bytes() == (out / name).read_bytes() for name in names)


def test_lower_case(tmp_path: Path) -> None:
    made = learned(90, "mnopqrst")
    save_pair(tmp_path, made)
    assert load(tmp_path, lowercase=True).encode("MNO") == made.encode("mno") != load(tmp_path).encode("MNO")


def test_directories_that_are_no_good(tmp_path: Path, long: SentencePiece) -> None:
    save_pair(tmp_path, long)
    good = (tmp_path / "vocab.json").read_text()
    ids = json.loads(good)
    cases = {
        "expected an object of token: id": json.dumps({**ids, "a": 1.0}),
        "not valid JSON": good[:-9],
        "expected a JSON object": "[1]",
        "vocab.json: two tokens have one id": json.dumps({**ids, "new": 7}),
        "vocab.json: ids up to 99999999": json.dumps({**ids, "new": 99_999_999}),
        "vocab.json: ids up to 120 for": json.dumps({**ids, "new": -1}),
        "vocab.json: the vocabulary has no <unk>": json.dumps({k: v for k, v in ids.items() if k != "<unk>"}),
        "vocab.json: the vocabulary has no <pad>": json.dumps({k: v for k, v in ids.items() if k != "<pad>"}),
        "vocab.json: ids up to -1": "{}",
        "vocab.json: not valid": "[" * 100_000,
    }
    for said, text in cases.items():
        (tmp_path / "vocab.json").write_text(text)
        with pytest.raises(BundleError) as raised:
            load_pair(tmp_path)
        assert said in str(raised.value) and str(raised.value).startswith(str(tmp_path))
    (tmp_path / "vocab.json").write_text(good)
    (tmp_path / "target.spm").write_bytes(b"x")
    with pytest.raises(BundleError, match=r"target\.spm: not a valid SentencePiece model"):
        load_pair(tmp_path)
    (tmp_path / "target.spm").unlink()
    assert load_pair(tmp_path)[1].encode("abc") == long.encode("abc")
    (tmp_path / "tokenizer_config.json").write_text('{"separate_vocabs": true}')
    with pytest.raises(BundleError, match=r"target_vocab\.json: no such file"):
        load_pair(tmp_path)
    (tmp_path / "source.spm").rename(tmp_path / "spiece.model")
    with pytest.raises(BundleError, match=r"spiece\.model: this kind of model does not use"):
        load_pair(tmp_path)


def test_gaps_between_ids_are_filled(tmp_path: Path, long: SentencePiece) -> None:
    ids = {t: 2 * i for i, t in enumerate(["</s>", "<unk>", *long.vocab.tokens[5:], "<pad>"])}
    made = Marian(long, ids, {})
    assert len(made.vocab) == 2 * len(ids) - 1 and made.vocab.token(1) == "<unused_1>"
    save_pair(tmp_path, made)
    assert load_pair(tmp_path)[0].encode_lines(TEXTS) == made.encode_lines(TEXTS)
