"""Directories of LLaMA, Mistral, Qwen2 and Qwen3: theirs open here, ours open in transformers, with the same logits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from llama_folders import FORMS, LLAMA3, written
from tiny_models import tiny

from nlptools import bundle
from nlptools.errors import BundleError
from nlptools.files import artifacts
from nlptools.models.huggingface import directories

pytestmark = [pytest.mark.reference, pytest.mark.filterwarnings("ignore")]
forms = pytest.mark.parametrize("form", FORMS)


def ids(size: int, rows: int = 2, length: int = 32) -> torch.Tensor:
    return torch.randint(3, size, (rows, length), generator=torch.Generator().manual_seed(1))


@pytest.mark.sampled(4)
@forms
@torch.inference_mode()
def test_their_directory_opens_here_and_ours_there(form: str, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    theirs = written(tmp_path / "theirs", form)
    loaded = bundle.load(tmp_path / "theirs")
    x = ids(theirs.config.vocab_size)
    expected = theirs(x).logits
    ours = loaded.model.output.logits(loaded.model(x)[0])
    assert loaded.arch == "modern" and (ours - expected).abs().max() < 1e-4
    # in steps, with the cache: keys have fewer heads, windows move
    state, steps = loaded.model.start(2, 4), []
    for part in x.split([3, 1, 9, 1, 1, 17], 1):
        hidden, state = loaded.model(part, state)
        steps.append(loaded.model.output.logits(hidden))
    assert (torch.cat(steps, 1) - expected).abs().max() < 2e-4

    (tmp_path / "ours").mkdir()
    more = {"eos": 1, "document": "line", "training": {}}
    bundle.save(tmp_path / "ours", "modern", loaded.model, loaded.weights(), loaded.tokenizer, **more)
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "ours").eval()
    assert type(again) is type(theirs) or form == "mistral without window"  # which is a LLaMA
    assert (again(x).logits - expected).abs().max() < 1e-5
    config = json.loads((tmp_path / "ours/config.json").read_text())
    assert directories.config_from_hf(config) == ("modern", loaded.model.config)  # type: ignore[attr-defined]


@pytest.mark.parametrize("form", ["llama", "mistral", "qwen3"])
def test_configurations_of_transformers_4_are_read(form: str, tmp_path: Path) -> None:
    written(tmp_path, form, rope_parameters={**LLAMA3, "rope_theta": 1234.0})
    config = json.loads((tmp_path / "config.json").read_text())
    new = directories.config_from_hf(config)
    assert config.pop("rope_parameters") and new[1].rope_theta == 1234.0
    assert directories.config_from_hf({**config, "rope_theta": 1234.0, "rope_scaling": LLAMA3}) == new
    old = {("type" if key == "rope_type" else key): value for key, value in LLAMA3.items()}
    again = directories.config_from_hf({**config, "rope_theta": 1234.0, "rope_scaling": old})[1]
    assert again.rope_scaling == old and again != new[1]  # the earliest name of the key, kept as it is


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@torch.inference_mode()
def test_shards_of_16_bits_with_old_buffers_open(dtype: torch.dtype, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    theirs = written(tmp_path, "llama", shard="60KB", dtype=dtype)
    shards = sorted(tmp_path.glob("model-*.safetensors"))
    assert len(shards) > 2 and not (tmp_path / "model.safetensors").exists()
    save_file({**load_file(shards[0]), "model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(6)}, shards[0],
              metadata={"format": "pt"})  # fmt: skip
    loaded = bundle.load(tmp_path)
    x = ids(theirs.config.vocab_size)
    assert (loaded.model.output.logits(loaded.model(x)[0]) - theirs(x).logits).abs().max() < 1e-4
    shards[1].unlink()
    with pytest.raises(BundleError, match=shards[1].name):
        bundle.load(tmp_path)


@torch.inference_mode()
def test_a_tied_model_with_a_stored_output_matrix_and_a_bare_one_open(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    theirs = written(tmp_path, "tied")
    file, x = tmp_path / "model.safetensors", ids(theirs.config.vocab_size)
    kept = load_file(file)
    twice = {**kept, "lm_head.weight": kept["model.embed_tokens.weight"].clone()}
    bare = {name.removeprefix("model."): tensor for name, tensor in kept.items()}
    for weights in (twice, bare):
        save_file(weights, file, metadata={"format": "pt"})
        loaded = bundle.load(tmp_path)
        assert (loaded.model.output.logits(loaded.model(x)[0]) - theirs(x).logits).abs().max() < 1e-4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"model_type": "gemma3n_text"},
            "the family 'gemma3n_text' are not supported; the nearest that is: 'gemma3_text'",
        ),
        ({"model_type": "mixtral"}, "the family 'mixtral' are not supported; the nearest that is: 'mistral'"),
        ({"architectures": ["LlamaForSequenceClassification"]}, "no weight score.weight"),
        ({"hidden_act": "mish"}, "activation 'mish' is not supported"),
        ({"num_key_value_heads": 3}, "4 attention heads are not a multiple of 3 key-value heads"),
        ({"head_dim": 7}, "heads of an even size, not of 7"),
        (
            {"rope_parameters": {"rope_type": "proportional", "factor": 2.0}},
            "'proportional' is not supported, expected default, lin",
        ),
        ({"rope_parameters": {"rope_type": "linear", "factor": 0}}, "factor is 0, expected a number above 0"),
        ({"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.5}}, "part of each head"),
        ({"rope_parameters": {"rope_theta": "x"}}, "rope_theta is 'x', expected a number"),
        ({"rope_parameters": 3}, "rope_scaling is 3, expected an object"),
        ({"sliding_window": -1, "model_type": "mistral"}, "sliding_window is -1"),
        ({"model_type": "qwen2", "layer_types": ["sliding_attention"] * 3}, "layer_types has layers with a window"),
        ({"num_attention_heads": 0}, "num_attention_heads is 0"),
        ({"hidden_size": "48"}, "hidden_size is '48'"),
        ({"intermediate_size": 90}, r"up_proj.weight has shape \(80, 48\), config.json says \(90, 48\)"),
        (
            {"num_attention_heads": 6, "head_dim": 12},
            r"q_proj.weight has shape \(48, 48\), config.json says \(72, 48\)",
        ),
    ],
)
def test_what_is_not_supported_is_refused(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    written(tmp_path)
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
    with pytest.raises(BundleError, match=message):
        bundle.load(tmp_path)


def test_missing_and_unknown_weights_are_refused(tmp_path: Path) -> None:
    written(tmp_path)
    weights = artifacts.load_weights(tmp_path)
    for change, message in (({"model.layers.0.mlp.extra.weight": torch.ones(1)}, "unknown weight"), ({}, "no weight")):
        kept = {**weights, **change}
        if not change:
            del kept["model.layers.1.self_attn.k_proj.weight"]
        artifacts.save_tensors(tmp_path / "model.safetensors", kept)
        with pytest.raises(BundleError, match=message):
            bundle.load(tmp_path)


def test_what_no_family_can_express_keeps_our_names() -> None:
    for changes, family in (
        ({}, "llama"),
        ({"query_key_norm": True}, "qwen3"),
        ({"sliding_window": 4}, "mistral"),
        ({"attention_bias": True}, "qwen2"),
        ({"attention_bias": True, "query_key_norm": True}, "nlptools-modern"),
        ({"output_bias": True}, "nlptools-modern"),
        ({"sliding_window": 4, "feed_forward_bias": True}, "nlptools-modern"),
    ):
        model = tiny("modern", **changes)
        data = json.loads(json.dumps(directories.config_to_hf("modern", model.config)))
        assert data["model_type"] == family, changes
        assert directories.config_from_hf(data) == ("modern", model.config)
        weights = directories.weights_to_hf("modern", model.state_dict(), model.config)
        back = directories.weights_from_hf("modern", weights, model.state_dict(), model.config)
        for name, tensor in model.state_dict().items():
            rows = 50 if name == "token_embedding.weight" else len(tensor)
            assert torch.equal(tensor[:rows], back[name][:rows]), name


@pytest.mark.parametrize("options", [("--key-value-heads", 2), ("--qk-norm", "--untied", "--rope-theta", 500)])
def test_what_train_lm_writes_opens_there(fork, options: tuple[Any, ...], tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    from transformers import AutoModelForCausalLM

    (tmp_path / "text").write_text("the cat sat on the mat\na dog sat on the log\n" * 20)
    done = fork("train-lm", "-t", "bytes", "--arch", "modern", "--layers", 2, "--hidden", 32, "--heads", 4, "--context", 16,
               "--intermediate", 48, "--steps", 3, "--batch-size", 4, *options, "-q", "-o", "lm", "text")  # fmt: skip
    assert done.code == 0, done.err
    loaded, theirs = bundle.load(tmp_path / "lm"), AutoModelForCausalLM.from_pretrained(tmp_path / "lm").eval()
    family = "Qwen3ForCausalLM" if "--qk-norm" in options else "LlamaForCausalLM"
    assert type(theirs).__name__ == family and theirs.config.tie_word_embeddings == ("--untied" not in options)
    x = ids(256, length=16)
    with torch.inference_mode():
        assert (loaded.model.output.logits(loaded.model(x)[0]) - theirs(x).logits).abs().max() < 1e-4
