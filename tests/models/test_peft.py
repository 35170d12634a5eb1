"""Directories of adapters: the names and shapes that PEFT has, the sum of base and adapters by hand, what is refused."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from nlptools import bundle
from nlptools.configs.lora import LoRA
from nlptools.errors import BundleError
from nlptools.files import artifacts
from nlptools.models.huggingface import peft
from nlptools.training import lora
from tests.tasks.tiny_tasks import encoder, gpt
from tests.tiny_bundles import words_bundle


def adapters(tmp_path: Path, base: Path, **settings: Any) -> Path:
    """A directory of random adapters for the model in `base`."""
    loaded = bundle.load(base)
    chosen = LoRA(**{"lora": 2, "lora_alpha": 3.0, **settings})
    model: Any = loaded.model
    lora.adapt(model, loaded.arch, chosen, 0, {})
    for module in model.modules():
        if hasattr(module, "lora_B"):
            torch.nn.init.normal_(module.lora_B, std=0.1)
    adapter, out = peft.Adapter(chosen, str(base.resolve()), ""), tmp_path / "adapters"
    out.mkdir()
    how: dict[str, Any] = {"training": {}, "adapter": adapter}
    if loaded.arch == "bert":
        bundle.save_encoder(out, model, model.state_dict(), loaded.tokenizer, **how)
    else:
        bundle.save(
            out, loaded.arch, model, model.state_dict(), loaded.tokenizer, eos=loaded.eos, document="line", **how
        )
    return out


def change(path: Path, **values: Any) -> None:
    """Change adapter_config.json, as another program might have written it."""
    data = json.loads((path / peft.CONFIG).read_text()) | values
    (path / peft.CONFIG).write_text(json.dumps(data))


LAYOUTS: dict[str, tuple[Any, str, list[str], dict[str, tuple[int, int]]]] = {
    "bert": (
        encoder,
        "bert.encoder.layer.1.",
        ["attention.output.dense", "intermediate.dense", "key", "output.dense", "query", "value"],
        {"attention.self.query": (32, 32), "attention.self.value": (32, 32), "intermediate.dense": (32, 64),
         "output.dense": (64, 32)},
    ),
    "gpt2": (
        gpt,
        "transformer.h.1.",
        ["attn.c_proj", "c_attn", "c_fc", "mlp.c_proj"],
        {"attn.c_attn": (32, 96), "attn.c_proj": (32, 32), "mlp.c_fc": (32, 64), "mlp.c_proj": (64, 32)},
    ),
    "llama": (
        lambda path: words_bundle(path, "modern"),
        "model.layers.1.",
        ["down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj"],
        {"self_attn.q_proj": (32, 32), "self_attn.k_proj": (32, 16), "self_attn.v_proj": (32, 16),
         "mlp.gate_proj": (32, 48), "mlp.down_proj": (48, 32)},
    ),
}  # fmt: skip


def inside(layer: str) -> str:
    """The name of a layer in a model without heads, as the encoders here are: BertModel."""
    return layer.removeprefix("bert.")


@pytest.mark.parametrize("family", LAYOUTS)
def test_layout(tmp_path: Path, family: str) -> None:
    make, layer, targets, shapes = LAYOUTS[family]
    path = adapters(tmp_path, make(tmp_path / "base"))
    tensors = artifacts.load_tensors(path / "adapter_model.safetensors")
    for name, (inputs, outputs) in shapes.items():
        assert tuple(tensors[f"base_model.model.{inside(layer)}{name}.lora_A.weight"].shape) == (2, inputs)
        assert tuple(tensors[f"base_model.model.{inside(layer)}{name}.lora_B.weight"].shape) == (outputs, 2)
    data = artifacts.read_json(path / "adapter_config.json")
    assert data["target_modules"] == targets and data["fan_in_fan_out"] == (family == "gpt2")
    assert (data["peft_type"], data["r"], data["lora_alpha"], data["bias"]) == ("LORA", 2, 3, "none")
    assert data["base_model_name_or_path"] == str((tmp_path / "base").resolve())
    assert data["task_type"] == ("FEATURE_EXTRACTION" if family == "bert" else "CAUSAL_LM")
    assert not (path / "model.safetensors").exists() and artifacts.verify(path)


def test_targets_of_attention(tmp_path: Path) -> None:
    path = adapters(tmp_path, gpt(tmp_path / "base"), lora_targets="attention")
    assert artifacts.read_json(path / "adapter_config.json")["target_modules"] == ["attn.c_proj", "c_attn"]
    tensors = artifacts.load_tensors(path / "adapter_model.safetensors")
    assert len(tensors) == 2 * 2 * 2 and not any("mlp" in name for name in tensors)


@pytest.mark.parametrize("family", LAYOUTS)
@pytest.mark.parametrize("rslora", [False, True])
def test_sum_by_hand(tmp_path: Path, family: str, rslora: bool) -> None:
    make, layer, _, shapes = LAYOUTS[family]
    path = adapters(tmp_path, make(tmp_path / "base"))
    change(path, use_rslora=rslora)
    base, tensors = artifacts.load_weights(tmp_path / "base"), artifacts.load_tensors(path / peft.WEIGHTS)
    whole = peft.load_weights(path)
    assert whole.keys() == base.keys()
    for name in shapes:
        up, down = (tensors[f"base_model.model.{inside(layer)}{name}.lora_{which}.weight"] for which in "BA")
        product = up @ down * (3 / math.sqrt(2) if rslora else 3 / 2)
        product = product.t() if family == "gpt2" else product
        torch.testing.assert_close(whole[f"{layer}{name}.weight"], base[f"{layer}{name}.weight"] + product)
    changed = {name for name in base if not torch.equal(whole[name], base[name])}
    assert len(changed) == sum(".lora_A." in name for name in tensors)


def test_base_by_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = adapters(tmp_path, gpt(tmp_path / "base"))
    expected = bundle.load(path).weights()
    change(path, base_model_name_or_path="../base")
    monkeypatch.chdir("/")
    assert all(torch.equal(expected[name], tensor) for name, tensor in bundle.load(path).weights().items())
    shutil.move(tmp_path / "base", tmp_path / "moved")
    with pytest.raises(BundleError, match=r"adapters of '?\.\./base'?, which is not a model directory here"):
        bundle.load(path)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"peft_type": "IA3"}, "peft_type 'IA3' is not supported, expected LORA"),
        ({"use_dora": True}, "use_dora is not supported"),
        ({"alpha_pattern": {"c_attn": 4}}, "alpha_pattern is not supported"),
        ({"init_lora_weights": "pissa"}, "init_lora_weights 'pissa' is not supported"),
        ({"lora_alpha": "16"}, "lora_alpha is '16', expected a number"),
        ({"lora_alpha": -3}, "lora_alpha is -3, expected a number above 0"),
        ({"lora_alpha": 10**400}, "lora_alpha is 1000"),
        ({"r": 0}, "the rank r is 0, expected a whole number from 1"),
        ({"r": True}, "the rank r is True"),
        ({"r": 10**9}, "the rank r is 1000000000"),
        ({"r": 3}, "c_attn have rank 2, expected 3"),
        ({"rank_pattern": {"c_attn": 4}, "r": 5}, "have rank 2, expected 5 or 4"),
        ({"rank_pattern": [2]}, r"rank_pattern is \[2\]"),
        ({"use_rslora": "no"}, "use_rslora is 'no'"),
        ({"bias": "some"}, "bias is 'some'"),
        ({"target_modules": []}, r"target_modules is \[\], expected names of modules"),
        ({"target_modules": 3}, "target_modules is 3"),
        ({"target_modules": ["c_attn"]}, "target_modules does not name transformer.h.0..*, which has matrices"),
        (
            {"target_modules": ["attn.c_proj", "c_attn", "c_fc", "mlp.c_proj", "wpe"]},
            "names wpe, which has no matrices",
        ),
        ({"target_modules": r".*\.c_attn"}, "target_modules does not name"),
        ({"target_modules": r"(.*c_\w"}, "is not a pattern"),
        ({"layers_to_transform": "all"}, "layers_to_transform is 'all'"),
        ({"base_model_name_or_path": None}, "base_model_name_or_path is None, expected a model"),
    ],
)
def test_refused(tmp_path: Path, values: dict[str, Any], message: str) -> None:
    path = adapters(tmp_path, gpt(tmp_path / "base"))
    change(path, **values)
    with pytest.raises(BundleError, match=message):
        bundle.load(path)


def test_a_target_without_matrices(tmp_path: Path) -> None:
    path = adapters(tmp_path, gpt(tmp_path / "base"))
    tensors = artifacts.load_tensors(path / peft.WEIGHTS)
    (path / artifacts.MANIFEST).unlink()
    artifacts.save_tensors(path / peft.WEIGHTS, {name: each for name, each in tensors.items() if ".h.1." not in name})
    with pytest.raises(BundleError, match=r"target_modules names transformer.h.1.attn.c_attn \(and 3 more\)"):
        bundle.load(path)
    for said in ({"layers_to_transform": [0]}, {"exclude_modules": r".*\.h\.1\..*"}, {"target_modules": r"(.*)*c_\w+"}):
        change(path, **{"target_modules": ["attn.c_proj", "c_attn", "c_fc", "mlp.c_proj"], **said})
        bundle.load(path)


def head_adapters(tmp_path: Path, arch: str, targets: list[str], untied: bool = False, **settings: Any) -> Path:
    """Adapters as PEFT writes them, of a language model in the layout of its family. The base layer of an embedding or of an
    output matrix with adapters is saved, too.
    """
    tied = {"tie_word_embeddings": False} if untied else {}
    base = words_bundle(tmp_path / "base", arch, **tied)
    path, weights = tmp_path / "adapters", artifacts.load_weights(base)
    path.mkdir()
    (embedding,) = (name for name in weights if name.endswith(("embed_tokens.weight", "wte.weight")))
    weights = {"lm_head.weight": weights[embedding], **weights}
    torch.manual_seed(1)
    tensors = {}
    for name, weight in weights.items():
        module = name.removesuffix(".weight")
        V, D = weight.shape if weight.dim() == 2 else (0, 0)
        if module.rsplit(".", 1)[-1] not in targets:
            continue
        if name == embedding:
            tensors |= {
                f"{module}.lora_embedding_A": torch.randn(2, V),
                f"{module}.lora_embedding_B": torch.randn(D, 2),
            }
        elif name == "lm_head.weight":
            tensors |= {f"{module}.lora_A.weight": torch.randn(2, D), f"{module}.lora_B.weight": torch.randn(V, 2)}
        tensors[f"{module}.base_layer.weight"] = weight.clone()
    artifacts.save_tensors(path / peft.WEIGHTS, {f"base_model.model.{name}": each for name, each in tensors.items()})
    data = {
        "peft_type": "LORA",
        "r": 2,
        "lora_alpha": 4,
        "target_modules": targets,
        "base_model_name_or_path": str(base),
    }
    (path / peft.CONFIG).write_text(json.dumps({**data, **settings}))
    return path


EMBEDDINGS = {"modern": "embed_tokens", "transformer": "wte"}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("arch", EMBEDDINGS)
@pytest.mark.parametrize("untied", [False, True])
@pytest.mark.parametrize("targets", ["output", "embedding", "both"])
def test_modules_whose_base_layer_is_saved(
    call: Any, capsys: Any, tmp_path: Path, arch: str, untied: bool, targets: str
) -> None:
    chosen = {"output": ["lm_head"], "embedding": [EMBEDDINGS[arch]], "both": ["lm_head", EMBEDDINGS[arch]]}[targets]
    path = head_adapters(tmp_path, arch, chosen, untied)
    base: dict[str, Any] = bundle.load(tmp_path / "base").weights()
    tensors = {
        name.removeprefix("base_model.model."): each
        for name, each in artifacts.load_tensors(path / peft.WEIGHTS).items()
    }
    ours: Any = bundle.load(path).model
    rows = ours.config.vocab_size
    first = base["token_embedding.weight"][:rows]
    last = base.get("output_matrix.weight", base["token_embedding.weight"])[:rows]
    a, b = (next((t for n, t in tensors.items() if n.endswith(f"lora_embedding_{x}")), None) for x in "AB")
    if a is not None and b is not None:
        first = first + 2.0 * (b @ a).t()
    if targets != "embedding":
        last = last + 2.0 * tensors["lm_head.lora_B.weight"] @ tensors["lm_head.lora_A.weight"]
    torch.testing.assert_close(ours.token_embedding.weight[:rows], first)
    torch.testing.assert_close(ours.output_matrix.weight[:rows], last)
    # every command computes with the same weights
    assert call("convert", "adapters", "whole").code == 0
    commands = (("score",), ("generate", "--temperature", "0", "--max-new-tokens", "4"))
    lines = {model: [call(*command, model, stdin="w1 w2 w3\n").lines for command in commands] for model in
             ("adapters", "whole", "base")}  # fmt: skip
    assert lines["adapters"] == lines["whole"] and lines["adapters"][0] != lines["base"][0]


def test_what_two_tied_matrices_become(tmp_path: Path) -> None:
    """A matrix that is trained as a whole leaves the other one as it is, unless the settings tie both."""
    path = head_adapters(tmp_path, "modern", ["embed_tokens"], modules_to_save=["embed_tokens"])
    new = torch.randn(50, 32)
    artifacts.save_tensors(path / peft.WEIGHTS, {"base_model.model.model.embed_tokens.weight": new})
    change(path, target_modules=None)
    loaded: Any = bundle.load(path).model
    assert torch.equal(loaded.token_embedding.weight[:50], new) and not torch.equal(
        loaded.output_matrix.weight[:50], new
    )
    for changes in ({"ensure_weight_tying": True}, {"modules_to_save": None}):
        change(path, modules_to_save=["embed_tokens"], ensure_weight_tying=False)
        change(path, **changes)
        tied: Any = bundle.load(path).model
        assert tied.config.tie_word_embeddings and torch.equal(tied.token_embedding.weight[:50], new)
    same = {"lm_head.base_layer.weight": new, "lm_head.weight": new + 1}
    artifacts.save_tensors(path / peft.WEIGHTS, same)
    with pytest.raises(BundleError, match=r"lm_head\.weight occurs twice, with different numbers"):
        bundle.load(path)


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("transformer.h.0.attn.c_attn.lora_A.weight", (3, 32), "do not belong together"),
        ("transformer.h.0.attn.c_attn.lora_B.weight", (95, 2), r"for shape \(32, 95\)"),
        ("transformer.h.9.attn.c_attn.lora_A.weight", (2, 32), "only one of its two matrices"),
        ("transformer.h.0.attn.c_attn.lora_magnitude_vector.weight", (96,), "lora_magnitude_vector.weight is not supp"),
        ("transformer.h.0.attn.c_attn.weight.lora_A.default.weight", (2, 32), "lora_A.default.weight is not supported"),
        ("transformer.wte.lora_embedding_A", (2, 32), "wte has only one of its two matrices"),
        ("lm_head.weight", (23, 32), "wte.weight has 23 rows"),
        ("h.0.attn.c_attn.lora_A.weight", (2, 32), "only one of its two matrices"),
        ("transformer.h.0.attn.q_proj.weight", (32, 32), "unknown weight h.0.attn.q_proj.weight"),
        ("score.bias", (2,), "unknown weight score.bias"),
    ],
)
def test_damaged(tmp_path: Path, name: str, shape: tuple[int, ...], message: str) -> None:
    path = adapters(tmp_path, gpt(tmp_path / "base"))
    tensors = artifacts.load_tensors(path / peft.WEIGHTS)
    (path / artifacts.MANIFEST).unlink()
    artifacts.save_tensors(path / peft.WEIGHTS, tensors | {f"base_model.model.{name}": torch.zeros(shape)})
    with pytest.raises(BundleError, match=message):
        bundle.load(path)
