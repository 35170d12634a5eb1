"""Text in, the same ids out: what a model of ours reads of a text is what transformers makes of it from the directory alone."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import each_value
from tiny_encoder_decoders import tiny as tiny_pair
from tiny_models import tiny

from nlptools import bundle
from nlptools.configs import Compute
from nlptools.configs.embed import Embed
from nlptools.configs.generation import Generate
from nlptools.inference import loading
from nlptools.models.encoders.bert import EncoderConfig
from nlptools.models.encoders.bert_with_heads import BertWithHeads
from nlptools.models.language.gpt import GPT
from nlptools.models.tasks.with_heads import WithHeads
from nlptools.tasks import task
from nlptools.text import documents, learning, tokenizer_pairs
from nlptools.text.boundaries import Boundaries
from nlptools.text.builtin import NamedTokenizer
from nlptools.text.huggingface import HuggingFace
from nlptools.text.pieces import SentencePiece
from nlptools.text.tokenizer import load

transformers = pytest.importorskip("transformers")
pytestmark = [pytest.mark.reference, pytest.mark.filterwarnings("ignore")]

FP32 = Compute(device="cpu", precision="fp32", threads=1)
TEXT = [
    f"the {a} naïve cat\tsaw {b} of 12 dogs, {a}{b}." for a in ("big", "small") for b in ("none", "many", "all")
] * 9
TEXTS = ["the small cat", " big dogs", "naïve café 漢字, 12", "x"]
STRANGE = [
    "",
    " ",
    "  two  spaces ",
    "\tx",
    "\u3000a",
    "\ufb01ne \u00bd",
    "e\u0301",
    "x\u00a0y",
    "\U0001f44d\U0001f3fd ok",
]
STRANGE += ["A<sep>b c", "<sep><se>big 12 x<sep>", "bigbig<sep> <sep>1212 漢字 漢<sep>字漢"]
MARKED = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def named(kind: str, lowercase: bool = False) -> NamedTokenizer:
    """A tokenizer of ours with the tokens of the first strange texts as its vocabulary."""
    alone = NamedTokenizer(kind, lowercase=lowercase)
    if kind == "bytes":
        return alone
    counts = learning.count_words([TEXT[:6], STRANGE[:-4]], alone)
    return NamedTokenizer(kind, learning.word_vocab(counts, learning.WORD_SPECIAL), lowercase)


def tokenizer(kind: str) -> Any:
    """A tokenizer of a kind, in a state that a directory may have it in."""
    if kind in ("whitespace", "ascii-whitespace", "char", "bytes"):
        return named(kind)
    if kind in ("unigram", "bpe"):
        special = ["[PAD]", "[CLS]", "[SEP]", "[MASK]"]
        return SentencePiece(
            learning.train_sentencepiece(TEXT, kind, 120, special=special[: 4 * (kind == "unigram")]), "x"
        )
    if kind == "wordpiece":
        return HuggingFace(learning.train_wordpiece(TEXT, 150), "x")
    if kind == "marked bytes":  # for an encoder
        return HuggingFace(learning.train_byte_bpe(TEXT, 300, special=MARKED), "x")
    if kind == "with <s>":  # as published: it adds a start token and an end token that our models do not have
        trained = learning.train_byte_bpe(TEXT, 300, special=("<s>", "</s>", "<pad>", "<unk>"))
        data = json.loads(trained.to_str())
        steps = [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
        end = [{"SpecialToken": {"id": "</s>", "type_id": 0}}]
        ids = {name: {"id": name, "ids": [i], "tokens": [name]} for i, name in enumerate(("<s>", "</s>"))}
        template = {"type": "TemplateProcessing", "single": steps + end, "pair": steps + end, "special_tokens": ids}
        template["pair"] = [*steps, *end, {"Sequence": {"id": "B", "type_id": 1}}]
        trims = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
        data["post_processor"] = {"type": "Sequence", "processors": [trims, template]}
        config = {"tokenizer_class": "LlamaTokenizer", "add_bos_token": False, "bos_token": "<s>", "eos_token": "</s>"}
        return HuggingFace(type(trained).from_str(json.dumps(data)), "x", config)
    return HuggingFace(learning.train_byte_bpe(TEXT, 300), "x")


def end_of(made: Any) -> int:
    return documents.end_of_text(made, "x")


def theirs(path: Path) -> Any:
    return transformers.AutoTokenizer.from_pretrained(path)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("arch", "kind"),
    [
        *each_value(("modern", "transformer", "lstm"), ("byte-bpe", "wordpiece", "with <s>", "unigram", "bpe")),
        *(("modern", kind) for kind in ("whitespace", "ascii-whitespace", "char", "bytes")),
    ],
)
def test_language_models(tmp_path: Path, arch: str, kind: str) -> None:
    made = tokenizer(kind)
    model = tiny(arch, vocab_size=max(len(made.vocab), end_of(made) + 1), num_hidden_layers=1)
    how: dict[str, Any] = {"eos": end_of(made), "document": "line", "training": {}}
    bundle.save(tmp_path, arch, model, model.state_dict(), made, **how)
    loaded: Any = loading.load(tmp_path, compute=FP32)
    seen: list[torch.Tensor] = []
    loaded.bundle.model.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    there = theirs(tmp_path)
    for text in TEXTS:
        seen.clear()
        loaded.generate_batch([text], Generate(max_new_tokens=1, temperature=0))
        assert seen[0][0].tolist() == there(text).input_ids, text
    # a directory that is written again says the same
    again = tmp_path / "again"
    again.mkdir()
    bundle.save(again, arch, model, model.state_dict(), load(tmp_path), **how)
    assert there(TEXTS).input_ids == theirs(again)(TEXTS).input_ids


def test_files_from_before_read_the_same(tmp_path: Path) -> None:
    made = tokenizer("byte-bpe")
    model = tiny("modern", vocab_size=len(made.vocab), num_hidden_layers=1)
    bundle.save(tmp_path, "modern", model, model.state_dict(), made, eos=end_of(made), document="line", training={})
    settings = Embed(unit="sentence")

    def results() -> tuple[Any, Any]:
        (one,) = loading.load(tmp_path, compute=FP32).generate_batch(TEXTS[:1], Generate(max_new_tokens=4))  # type: ignore[union-attr]
        return one, loading.load(tmp_path, compute=FP32, settings=settings).embed(TEXTS)  # type: ignore[union-attr]

    before = results()
    made.save(tmp_path)  # without the tokens around texts
    (tmp_path / "manifest.json").unlink()
    assert theirs(tmp_path)("x").input_ids != [end_of(made), *made.encode("x")]
    after = results()
    assert str(before[0]) == str(after[0]) and (before[1] == after[1]).all()


@pytest.mark.parametrize("kind", ["wordpiece", "marked bytes", "unigram"])
@pytest.mark.parametrize("form", ["encoder", "decoder"])
def test_models_of_tasks(tmp_path: Path, kind: str, form: str) -> None:
    made = tokenizer(kind)
    V, D, N, length = len(made.vocab), 8, 1, 64
    model: Any
    if form == "encoder":
        model = BertWithHeads(EncoderConfig(V, D, N, 2, 12, max_position_embeddings=length), ("pooler", "sequence"), 2)
        how: dict[str, Any] = {}
    else:
        config = tiny("transformer", vocab_size=V, num_hidden_layers=1, max_position_embeddings=length).config
        model = WithHeads(GPT(config), ("sequence",), 2)
        ends = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"), end_of(made))
        how = {"arch": "transformer-tasks", "more": ends}
    model.initialize()
    bundle.save_encoder(tmp_path, model, model.state_dict(), made, training={}, **how)
    encoding, opened = task.encoding(bundle.load(tmp_path), 0, 1), theirs(tmp_path)
    for texts in [(text,) for text in TEXTS] + [(text, TEXTS[0]) for text in TEXTS]:
        rows = encoding.rows([texts]).rows
        found = opened(*texts)
        assert rows.ids.tolist() == found["input_ids"], texts
        assert rows.types.tolist() == list(found.get("token_type_ids", rows.types))


@pytest.mark.parametrize("kind", ["with <s>"])
def test_encoder_decoders(tmp_path: Path, kind: str) -> None:
    made = tokenizer(kind)
    pad, eos, size, _ = tokenizer_pairs.special_ids(made)
    model = tiny_pair("rnn", size=size, pad=pad, eos=eos)
    bundle.save_pair(tmp_path, "seq2seq-rnn", model, model.state_dict(), made, training={})
    for text in TEXTS:
        assert theirs(tmp_path)(text).input_ids == [*made.encode(text), eos], text


SETTINGS: dict[str, dict[str, Any]] = {
    "bytes for unknown characters": {"byte_fallback": True},
    "spaces as they are": {
        "normalization_rule_name": "identity",
        "remove_extra_whitespaces": False,
        "byte_fallback": True,
        "allow_whitespace_only_pieces": True,
    },
    "no space before a text": {"add_dummy_prefix": False},
    "pieces of several words": {"split_by_whitespace": False},
    "lower case": {"normalization_rule_name": "nmt_nfkc_cf"},
}


@pytest.mark.parametrize("kind", ["unigram", "bpe", "char"])
def test_settings_of_sentencepiece(kind: str) -> None:
    import io

    import sentencepiece

    symbols = {"symbols": {"user_defined_symbols": ["<sep>", "<se", "big", "12"]}}
    for name, settings in {**SETTINGS, **symbols}.items():
        if kind == "char" and name == "pieces of several words":
            continue
        model = io.BytesIO()
        sizes = {"vocab_size": 330, "hard_vocab_limit": False, "model_type": kind, "minloglevel": 2}
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(TEXT), model_writer=model, **sizes, **settings)
        ours = SentencePiece(model.getvalue(), "x")
        same, _ = ours.as_json()
        unknown = ours.vocab.unk
        for text in [*TEXT[:6], *TEXTS, *STRANGE]:
            assert same.encode(text, add_special_tokens=False).ids == ours.encode(text), (name, text)
            if unknown not in ours.encode(text):
                assert same.decode(ours.encode(text)) == ours.decode(ours.encode(text)), (name, text)


def test_tokenizers_of_ours(tmp_path: Path) -> None:
    texts = [*TEXT[:6], *TEXTS, *STRANGE, "\\ \u2581 \\\u2581\\", "a\x1cb\x85c\u2003d\x0be", "\nx\n"]
    texts += ["ΟΔΟΣ ΣΑΣ Σ.", "ΑΣ\u0301 Α.Σ b", "\u0130ẞǅ <0x41> na\u0308ive\U0001f468\u200d\U0001f469"]
    for kind, lowercase in product(("whitespace", "ascii-whitespace", "char", "bytes"), (False, True)):
        made = named(kind, lowercase)
        made.save(tmp_path, Boundaries())
        opened = theirs(tmp_path)
        for text in texts:
            found = opened(text, return_offsets_mapping=True)
            assert found.input_ids == made.encode(text), (kind, lowercase, text)
            assert lowercase or found.offset_mapping == made.offsets(text), (kind, text)
            if not lowercase and made.vocab.unk not in found.input_ids:  # type: ignore[union-attr]
                assert opened.decode(found.input_ids) == made.decode(made.encode(text)), (kind, text)


def test_what_cannot_be_written_says_why(tmp_path: Path) -> None:
    whole = SentencePiece(learning.train_sentencepiece(TEXT, "word", 20), "x")
    vocab = learning.word_vocab(learning.count_words([TEXT], NamedTokenizer("whitespace")), ("</s>",))
    for made, why in (
        (NamedTokenizer("words", named("whitespace").vocab), "it has no form for the rules of words"),
        (NamedTokenizer("13a", named("whitespace").vocab), "it has no form for the rules of 13a"),
        (NamedTokenizer("whitespace", vocab), "its vocabulary has no <unk>"),
        (whole, "a model of words makes one token of neighbouring unknown words"),
    ):
        assert made.json_obstacle() == why and "tokenizer.json" not in made.save(tmp_path, Boundaries())
    for kind in ("whitespace", "char", "bytes", "unigram", "bpe", "wordpiece"):
        assert not tokenizer(kind).json_obstacle()
