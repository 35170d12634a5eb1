"""Equality with the sentencepiece package, and what becomes of damaged model files."""

from __future__ import annotations

import io
import random
import struct
import subprocess
import sys

import pytest
from conftest import ALL, environment, examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nlptools.errors import BundleError
from nlptools.text import learning, sentencepiece_file
from nlptools.text import pieces as pieces_module
from nlptools.text.pieces import SentencePiece
from nlptools.text.tokenizer import load

sentencepiece = pytest.importorskip("sentencepiece")
pytestmark = pytest.mark.reference

KINDS = ("unigram", "bpe", "char", "bytes", "identity")


@pytest.fixture(scope="module")
def models(english):
    """Models that the package itself trained."""
    found = {}
    for kind in KINDS:
        writer = io.BytesIO()
        extra = {"bytes": {"byte_fallback": True}, "identity": {"normalization_rule_name": "identity"}}.get(kind, {})
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(english[:1500]),
            model_writer=writer,
            vocab_size=600,
            model_type=kind if kind in ("bpe", "char") else "unigram",
            hard_vocab_limit=False,
            user_defined_symbols=["<sep>", "cla"],
            minloglevel=2,
            **extra,
        )
        found[kind] = writer.getvalue()
    return found


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("many", [0, 10**9])  # with numpy and without
def test_ids_and_pieces_on_every_line(models, kind, many, english, monkeypatch):
    ours = SentencePiece(models[kind], "m")
    theirs = sentencepiece.SentencePieceProcessor(model_proto=models[kind])
    lines = [
        *english[:: 1 if ALL else 4],
        "",
        " ",
        "日本語 ünï 🎉🎉 x",
        "a<sep>b class",
        "a\0b",
        "x\ny",
        "Ⅳ ﬁ …",
        "▁ ▅ ⁇",
    ]
    ids, pieces = theirs.encode(lines), theirs.encode(lines, out_type=str)
    assert ours.encode_lines(lines, threads=2) == ids
    assert ours.tokens_lines(lines, threads=2) == pieces
    as_text = "\n".join(" ".join(map(str, row)) for row in ids)
    monkeypatch.setattr(pieces_module, "MANY", many)
    for threads in (1, 2):
        assert ours.text_of_ids(lines, threads) == as_text
        assert ours.text_of_pieces(lines, threads) == "\n".join(map(" ".join, pieces))
    for start in range(0, len(lines), 100):  # few lines take another way
        part = slice(start, start + 100)
        assert ours.text_of_ids(lines[part]) == "\n".join(" ".join(map(str, row)) for row in ids[part])
    assert ours.decode_lines(ids, threads=2) == theirs.decode(ids)
    assert [ours.decode_tokens(row) for row in pieces[:500]] == [theirs.decode(row) for row in pieces[:500]]
    assert [ours.ids_of(row) for row in pieces] == ids or kind == "bytes"
    assert ours.vocab.tokens == [theirs.id_to_piece(id) for id in range(len(theirs))]


def test_the_public_way_gives_the_same(models, english, monkeypatch):
    ours = SentencePiece(models["unigram"], "m")
    monkeypatch.setattr(pieces_module, "MANY", 0)
    fast = ours.text_of_ids(english)
    monkeypatch.setattr(ours, "_buffers", lambda lines, threads: None)
    assert ours.text_of_ids(english) == fast


@pytest.fixture(scope="module")
def pairs(models):
    return [(SentencePiece(m, "m"), sentencepiece.SentencePieceProcessor(model_proto=m)) for m in models.values()]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(60), deadline=None)
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=50))
def test_any_text(pairs, text):
    for ours, theirs in pairs:
        assert ours.encode(text) == theirs.encode(text)
        assert ours.tokens(text) == theirs.encode(text, out_type=str)
        spans = ours.offsets(text)
        assert len(spans) == len(ours.tokens(text))
        assert all(0 <= a <= b <= len(text) for a, b in spans)


def test_nbest(models, english):
    theirs = sentencepiece.SentencePieceProcessor(model_proto=models["unigram"])
    ours = SentencePiece(models["unigram"], "m")
    for line in english[:50]:
        assert ours.nbest(line, 4) == theirs.nbest_encode(line, nbest_size=4, out_type=str)
        assert ours.nbest(line, 4, ids=True) == theirs.nbest_encode(line, nbest_size=4, out_type=int)


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_sampling_has_the_package_s_distribution(models, kind, english):
    ours = SentencePiece(models[kind], "m")
    draws = 4000
    text = "the set"
    mine, other = {}, {}
    for i in range(draws):
        for counts, pieces in (
            (mine, ours.sample(text, 0.3, random.Random(i))),
            (other, ours._processor.encode(text, out_type=str, enable_sampling=True, alpha=0.3, nbest_size=-1)),
        ):
            counts[tuple(pieces)] = counts.get(tuple(pieces), 0) + 1
    for pieces in mine.keys() | other.keys():
        assert abs(mine.get(pieces, 0) - other.get(pieces, 0)) < 0.05 * draws
    # at the edge it is the best segmentation, or one as good
    scores = dict(zip(ours._pieces.texts, ours._pieces.scores, strict=True))
    for line in english[:200]:
        drawn = ours.sample(line, {"unigram": 200.0, "bpe": 0.0}[kind], random.Random(1))
        if kind == "bpe":
            assert drawn == ours.tokens(line)
        elif all(piece in scores for piece in drawn):
            best = sum(scores[piece] for piece in ours.tokens(line))
            assert sum(scores[piece] for piece in drawn) == pytest.approx(best, abs=0.02)


def test_training_equals_the_package_s(english):
    writer = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(english[:1000]), model_writer=writer, vocab_size=400, minloglevel=2
    )
    ours = learning.train_sentencepiece(english[:1000], "unigram", 400)
    theirs = sentencepiece_file.check(writer.getvalue(), "m")
    found = sentencepiece_file.check(ours, "m")
    assert (found.texts, found.scores) == (theirs.texts, theirs.scores)


# -- files that are no good -------------------------------------------------------------------------------------------


def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def piece(text, score=0.0, kind=1):
    return field(1, field(1, text) + b"\x15" + struct.pack("<f", score) + b"\x18" + varint(kind))


UNK = piece(b"<unk>", kind=2)


@pytest.mark.parametrize(
    ("model", "wrong"),
    [
        (b"", "no pieces"),
        (b"garbage", ""),
        (b"\0" * 100, ""),
        (UNK, None),
        (piece(b"a"), "0 unknown-word pieces"),
        (UNK + piece(b"b", kind=2), "2 unknown-word pieces"),
        (UNK + piece(b"a") + piece(b"a"), "occurs twice"),
        (UNK + piece(b""), "a piece of 0 bytes"),
        (UNK + piece(b"a" * 1024), None),
        (UNK + piece(b"a" * 1025), "a piece of 1025 bytes"),
        (UNK + piece(b"a\0b"), "NUL"),
        (UNK + piece(b"\xff"), "damaged"),
        (UNK + piece(b"a", float("nan")), "a score of nan"),
        (UNK + piece(b"a", float("-inf")), "a score of -inf"),
        (UNK + piece(b"a", kind=9), "type 9"),
        (UNK + varint(1 << 3 | 2) + varint(2**40), "truncated"),
        (UNK + field(3, field(2, b"abc")), "damaged"),
        (UNK + field(3, field(2, struct.pack("<I", 2**31) + b"\0" * 99)), "wrong size"),
        (UNK + field(3, field(2, struct.pack("<I", 1024) + b"\xff\xff\xff\x7f" * 256 + b"\0")), "out of bounds"),
        (UNK + field(5, field(2, struct.pack("<I", 1024) + b"\xff\xff\xff\xff" * 256 + b"\0")), "outside"),
        (
            UNK + field(3, field(2, struct.pack("<I", 1024) + b"\0" * 1024 + b"a\0" + b"b" * 1025 + b"\0")),
            "text of 1025 bytes",
        ),
    ],
)
def test_handmade_files(model, wrong):
    if wrong is None:
        sentencepiece_file.check(model, "m")
        return
    with pytest.raises(BundleError, match=f"m: not a valid SentencePiece model: .*{wrong}"):
        sentencepiece_file.check(model, "m")


def test_every_built_in_character_map_passes(english):
    for rule in ("nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity"):
        writer = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(english[:50]),
            model_writer=writer,
            vocab_size=90,
            hard_vocab_limit=False,
            normalization_rule_name=rule,
            minloglevel=2,
        )
        sentencepiece_file.check(writer.getvalue(), rule)


def test_damaged_files_end_with_78(models, run, tmp_path):
    model = models["unigram"]
    for i, bad in enumerate([b"", b"no model", model[:1000], model[: len(model) // 2], model[:-3], model[7:]]):
        (tmp_path / f"{i}.model").write_bytes(bad)
        done = run("tokenize", "-t", f"{i}.model", stdin="a b c\n")
        assert (done.code, done.out) == (78, b"")
        assert done.err.count("\n") == 1


FUZZ = """
import random, sys
from nlptools.errors import NlptoolsError
from nlptools.text.pieces import SentencePiece
model = bytearray(open(sys.argv[1], "rb").read())
generator = random.Random(int(sys.argv[2]))
small = model.find(bytes([0x1a]), len(model) - 260000)
for i in range(int(sys.argv[3])):
    bad = bytearray(model)
    for _ in range(generator.choice([1, 1, 2, 8])):
        place = generator.randrange(len(bad)) if generator.random() < 0.3 else generator.randrange(min(len(bad), 16000))
        bad[place] ^= 1 << generator.randrange(8)
    if generator.random() < 0.2:
        del bad[generator.randrange(len(bad)):]
    try:
        tokenizer = SentencePiece(bytes(bad), "m")
        tokenizer.tokens("The module <sep> isn't \\u00fcn\\u00ef \\u2163 here")
        tokenizer.decode(tokenizer.encode("The class statement"))
    except NlptoolsError:
        pass
"""


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_bit_flips_never_crash(models, kind, tmp_path):
    path = tmp_path / "m.model"
    path.write_bytes(models[kind])
    done = subprocess.run(
        [sys.executable, "-c", FUZZ, str(path), "1", "60"], capture_output=True, env=environment(), timeout=200
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]


def test_loading_by_name(models, tmp_path):
    for name in ("tokenizer.model", "spiece.model"):
        directory = tmp_path / name.replace(".", "-")
        directory.mkdir()
        (directory / name).write_bytes(models["bpe"])
        assert load(directory).kind == "sentencepiece"
