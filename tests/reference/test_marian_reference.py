"""MarianMT and Pegasus directories: ours open in transformers, theirs open here, with the same ids and logits."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from nlptools import bundle
from nlptools.models import registry
from nlptools.models.huggingface import directories
from nlptools.text import learning, tokenizer_pairs
from nlptools.text.pieces import SentencePiece

transformers = pytest.importorskip("transformers")
pytestmark = [pytest.mark.reference, pytest.mark.filterwarnings("ignore")]

SIZES = {
    "hidden_size": 32,
    "encoder_layers": 3,
    "decoder_layers": 2,
    "encoder_heads": 4,
    "decoder_heads": 2,
    "encoder_intermediate_size": 48,
    "decoder_intermediate_size": 40,
    "max_position_embeddings": 64,
}


def lines(letters: str, count: int = 400) -> list[str]:
    rng = random.Random(letters)
    words = ["".join(rng.choice(letters) for _ in range(rng.randint(1, 6))) for _ in range(200)]
    return [" ".join(rng.choice(words) for _ in range(8)) for _ in range(count)]


def model_of(letters: str, size: int, special: tuple[str, ...] = (), kind: str = "unigram") -> SentencePiece:
    return SentencePiece(learning.train_sentencepiece(lines(letters), kind, size, special=special), "m")


@pytest.fixture(scope="module")
def tokenizers() -> dict[str, SentencePiece]:
    return {
        "source": model_of("abcdefghé", 130, (">>fra<<", "<pad>")),
        "target": model_of("lmnopqrß", 110, kind="bpe"),
    }


def tiny(norm: str, joint: bool, tokenizers: dict[str, SentencePiece], **changes: Any) -> tuple[Any, Any, Any]:
    """(a model with weights of all kinds, tokenizer of the source, tokenizer of the target)"""
    source, target = tokenizer_pairs.pair(tokenizers["source"], None if joint else tokenizers["target"])
    pad, eos, source_size, target_size = tokenizer_pairs.special_ids(source, target)
    arch = "seq2seq-transformer"
    config = registry.config_class(arch)(
        source_size, target_size, pad, eos, norm=norm, share_embeddings=joint, **{**SIZES, **changes}
    )
    torch.manual_seed(1)
    model = registry.model_class(arch)(config)
    model.initialize()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not name.endswith("embedding.weight"):
                parameter.add_(torch.randn_like(parameter) * 0.1)
        model.output_bias[:pad] = torch.randn(pad) * 0.1
    return model.eval(), source, target


def save(directory: Path, model: Any, source: Any, target: Any) -> Path:
    directory.mkdir()
    bundle.save_pair(
        directory, "seq2seq-transformer", model, model.state_dict(), source, target, training={"by": "a test"}
    )
    return directory


def batch(config: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(source, its mask, what the decoder reads): rows of unequal length."""
    source = torch.randint(4, config.source_vocab_size - 1, (3, 7))
    mask = torch.arange(7)[None] < torch.tensor([7, 5, 2])[:, None]
    source[~mask] = config.pad
    read = torch.randint(4, config.num_classes, (3, 6))
    read[:, 0] = config.pad
    return source, mask, read


def differ(model: Any, theirs: Any) -> float:
    """The largest difference of logits on a random batch."""
    source, mask, read = batch(model.config)
    with torch.inference_mode():
        hidden, _ = model(read, model.encode(source, mask))
        ours = model.output.logits(hidden)
        out = theirs(input_ids=source, attention_mask=mask.long(), decoder_input_ids=read).logits
    assert ours.std() > 0.1
    return float((ours - out[..., : ours.shape[-1]]).abs().max())


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("norm", "joint"), [("post", True), ("post", False), ("pre", True)])
@pytest.mark.parametrize("changes", [{}, {"activation": "swish", "scale_embedding": False}], ids=["relu", "swish"])
def test_our_directory_opens_there(tmp_path: Path, tokenizers: Any, norm: str, joint: bool, changes: Any) -> None:
    model, source, target = tiny(norm, joint, tokenizers, **changes)
    out = save(tmp_path / "m", model, source, target)
    kind = transformers.MarianMTModel if norm == "post" else transformers.PegasusForConditionalGeneration
    theirs, told = kind.from_pretrained(out, output_loading_info=True)
    assert not told["missing_keys"] and not told["unexpected_keys"] and not told["mismatched_keys"]
    assert differ(model, theirs.eval()) < 1e-4
    loaded = bundle.load(out)
    assert (
        loaded.arch == "seq2seq-transformer"
        and loaded.target_tokenizer is not None
        and loaded.model.config == model.config
    )
    assert all(torch.equal(tensor, model.state_dict()[name]) for name, tensor in loaded.weights().items())
    probabilities = theirs(
        input_ids=torch.tensor([[5, model.config.eos]]), decoder_input_ids=torch.tensor([[source.vocab.pad]])
    )
    assert probabilities.logits.softmax(-1)[0, 0, model.config.pad] == 0


def test_what_pegasus_cannot_say_stays_ours(tmp_path: Path, tokenizers: Any) -> None:
    model, source, target = tiny("pre", False, tokenizers)
    out = save(tmp_path / "m", model, source, target)
    assert json.loads((out / "config.json").read_text())["model_type"] == "nlptools-seq2seq-transformer"
    loaded = bundle.load(out)
    assert loaded.model.config == model.config
    assert all(torch.equal(tensor, model.state_dict()[name]) for name, tensor in loaded.weights().items())


@pytest.mark.parametrize("kind", ["Marian", "MarianSeparate", "Pegasus"])
def test_their_directory_opens_here(tmp_path: Path, tokenizers: Any, kind: str) -> None:
    separate, pegasus = kind == "MarianSeparate", kind == "Pegasus"
    source, target = tokenizer_pairs.pair(tokenizers["source"], tokenizers["target"] if separate else None)
    pad, eos, source_size, target_size = tokenizer_pairs.special_ids(source, target)
    more = {} if pegasus else {"decoder_vocab_size": target_size, "share_encoder_decoder_embeddings": not separate}
    config = getattr(transformers, kind[:7].removesuffix("S") + "Config" if pegasus else "MarianConfig")(
        vocab_size=source_size,
        d_model=24,
        encoder_layers=1,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=4,
        encoder_ffn_dim=20,
        decoder_ffn_dim=36,
        max_position_embeddings=40,
        activation_function="swish",
        scale_embedding=True,
        pad_token_id=pad,
        eos_token_id=eos,
        decoder_start_token_id=pad,
        forced_eos_token_id=eos,
        **more,
    )
    torch.manual_seed(2)
    theirs = (transformers.PegasusForConditionalGeneration if pegasus else transformers.MarianMTModel)(config).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            if parameter.requires_grad:  # positions are not to be touched
                parameter.add_(torch.randn_like(parameter) * 0.2)
        theirs.final_logits_bias.normal_()
    theirs.save_pretrained(tmp_path / "theirs")
    tokenizer_pairs.save_pair(tmp_path / "theirs", source, target)
    loaded = bundle.load(tmp_path / "theirs")
    assert loaded.model.config.activation == "swish" and differ(loaded.model, theirs) < 1e-4
    again = save(tmp_path / "again", loaded.model, loaded.tokenizer, loaded.target_tokenizer)
    before, after = load_file(tmp_path / "theirs" / "model.safetensors"), load_file(again / "model.safetensors")
    assert after.keys() <= before.keys()
    before["final_logits_bias"][0, pad] = -1e4
    for name, tensor in after.items():
        assert torch.equal(tensor, before[name]), name
    # with the tied copies and the positions written out, as other versions do
    copies = {name: tensor.clone() for name, tensor in theirs.state_dict().items()}
    save_file(copies, tmp_path / "theirs" / "model.safetensors")
    assert any("embed_positions" in name for name in copies) and "lm_head.weight" in copies
    other = bundle.load(tmp_path / "theirs")
    assert all(torch.equal(tensor, other.weights()[name]) for name, tensor in loaded.weights().items())


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda t: t.update({"lm_head.weight": t["model.shared.weight"] + 1}), "untied matrices"),
        (lambda t: t.update({"model.decoder.embed_positions.weight": torch.zeros(9, 32)}), "learned positions"),
        (
            lambda t: t.pop("model.encoder.layers.0.self_attn.k_proj.bias"),
            "no weight encoder.layers.0.self_attn.k_proj",
        ),
        (lambda t: t.update({"model.encoder.layers.0.self_attn.q_proj.bias": torch.zeros(31)}), "has shape (31,)"),
        (lambda t: t.update({"final_logits_bias": torch.zeros(2, 131)}), "final_logits_bias has shape (2, 131)"),
        (lambda t: t.update({"model.layernorm_embedding.weight": torch.zeros(32)}), "unknown weight"),
        (lambda t: t.update({"model.shared.weight": torch.zeros(130, 32)}), "has 130 rows, config.json says 131"),
        (lambda t: t["final_logits_bias"].fill_(torch.nan), "output_bias holds values that are not finite"),
    ],
)
def test_weights_that_do_not_fit(tmp_path: Path, tokenizers: Any, edit: Any, said: str) -> None:
    model, source, target = tiny("post", True, tokenizers)
    out = save(tmp_path / "m", model, source, target)
    tensors = load_file(out / "model.safetensors")
    edit(tensors)
    save_file(tensors, out / "model.safetensors")
    (out / "manifest.json").unlink()
    with pytest.raises(bundle.BundleError, match=said.replace("(", r"\(").replace(")", r"\)")):
        bundle.load(out)


@pytest.mark.parametrize("joint", [True, False])
def test_their_tokenizer_gives_the_same_ids(tmp_path: Path, tokenizers: Any, joint: bool) -> None:
    source, target = tokenizer_pairs.pair(tokenizers["source"], None if joint else tokenizers["target"])
    tokenizer_pairs.save_pair(tmp_path, source, target)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert isinstance(theirs, transformers.MarianTokenizer)
    pad, eos, source_size, _ = tokenizer_pairs.special_ids(source, target)
    assert (theirs.pad_token_id, theirs.eos_token_id, theirs.vocab_size) == (pad, eos, source_size)
    texts = [
        *lines("abcdefghé", 60),
        "",
        "abc  de ",
        "日本 abc zz",
        ">>fra<< abc",
        ">>fra<<",
        "a >>fra<< b",
        "<",
        "a\tb",
    ]
    found, others = tokenizer_pairs.load_pair(tmp_path)
    assert found.encode_lines(texts) == source.encode_lines(texts)
    for text, ids in zip(texts, found.encode_lines(texts), strict=True):
        assert [*ids, eos] == theirs(text).input_ids, text
    for text in [*lines("abcdefghé" if joint else "lmnopqrß", 60), "", "日本 lmn"]:
        ids = theirs(text_target=text).input_ids
        assert [*others.encode(text), eos] == ids
        if "日" not in text:
            assert others.decode(ids) == theirs.decode(ids, skip_special_tokens=True) == text


def test_two_models_with_one_table_as_the_published_ones_have(tmp_path: Path, tokenizers: Any) -> None:
    """</s> 0, <unk> 1, pieces in an order of their own, those of one side unknown to the model of the other."""
    pieces = {t for model in tokenizers.values() for t in model.vocab.tokens} - {"<s>", "</s>", "<unk>", "<pad>"}
    ids = {t: i for i, t in enumerate(["</s>", "<unk>", ">>deu<<", *sorted(pieces, reverse=True), "<pad>"])}
    (tmp_path / "vocab.json").write_text(json.dumps(ids))
    for side, name in (("source", "source.spm"), ("target", "target.spm")):
        (tmp_path / name).write_bytes(tokenizers[side].model)
    (tmp_path / "tokenizer_config.json").write_text('{"source_lang": "a", "target_lang": "b"}')
    theirs = transformers.MarianTokenizer.from_pretrained(tmp_path)
    source, target = tokenizer_pairs.load_pair(tmp_path)
    assert source is not target and source.vocab.tokens == target.vocab.tokens == list(ids)
    assert tokenizer_pairs.special_ids(source, target) == (len(ids) - 1, 0, len(ids), len(ids))
    for text in [*lines("abcdefghé", 30), *lines("lmnopqrßae", 30), ">>deu<< abc", ">>fra<<m", "m", "ö m lé"]:
        assert [*source.encode(text), 0] == theirs(text).input_ids, text
        assert [*target.encode(text), 0] == theirs(text_target=text).input_ids, text
    tokenizer_pairs.save_pair(tmp_path, source, target)
    again = transformers.MarianTokenizer.from_pretrained(tmp_path)
    assert again("abc m").input_ids == theirs("abc m").input_ids and again.source_lang == "a"


def test_weights_survive_the_way_out_and_back(tokenizers: Any) -> None:
    for norm, joint in (("post", True), ("post", False), ("pre", True)):
        model, *_ = tiny(norm, joint, tokenizers)
        config = json.loads(json.dumps(directories.config_to_hf("seq2seq-transformer", model.config)))
        assert directories.config_from_hf(config) == ("seq2seq-transformer", model.config)
        out = directories.weights_to_hf("seq2seq-transformer", model.state_dict(), model.config)
        assert sum(t.numel() for t in out.values()) >= model.config.least_weights()
        back = directories.weights_from_hf("seq2seq-transformer", out, model.state_dict(), model.config)
        assert back.keys() == model.state_dict().keys()
        assert all(torch.equal(back[name], tensor) for name, tensor in model.state_dict().items())
