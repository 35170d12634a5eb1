"""Values in a config.json that no model has: each is refused, and the message names it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from nlptools.errors import BundleError
from nlptools.models.huggingface import directories

SIZES = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
         "max_position_embeddings": 32}  # fmt: skip
LLAMA = {"model_type": "llama", **SIZES, "intermediate_size": 24, "num_key_value_heads": 2}
MISTRAL = {**LLAMA, "model_type": "mistral", "sliding_window": 8}
QWEN = {**LLAMA, "model_type": "qwen2", "use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1}
GPT2 = {"model_type": "gpt2", "vocab_size": 50, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32}
OPT = {"model_type": "opt", **SIZES, "ffn_dim": 24}
DISTILBERT = {"model_type": "distilbert", "vocab_size": 50, "dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24}
T5 = {"model_type": "t5", "vocab_size": 50, "d_model": 16, "d_ff": 24, "d_kv": 8, "num_layers": 2, "num_heads": 2,
      "eos_token_id": 1}  # fmt: skip
BERT = {"model_type": "bert", **SIZES, "intermediate_size": 24}
ELMO = {"model_type": "nlptools-elmo", "vocab_size": 5, "hidden_size": 4, "cell_size": 6, "filters": [[1, 4]]}
OPENED = (LLAMA, MISTRAL, QWEN, GPT2, OPT, BERT, DISTILBERT, T5, ELMO)
YARN = {"rope_type": "yarn", "factor": 2.0}


@pytest.mark.parametrize("base", OPENED, ids=lambda base: str(base["model_type"]))
def test_what_is_changed_below_opens(base: dict[str, Any]) -> None:
    directories.config_from_hf(base)


@pytest.mark.parametrize(
    ("base", "change", "named"),
    [
        (LLAMA, {"rope_theta": 0}, "rope_theta is 0"),
        (LLAMA, {"rope_theta": -1e4}, "rope_theta is -10000.0"),
        (LLAMA, {"rope_theta": 10**400}, "rope_theta is 1000"),
        (LLAMA, {"rope_parameters": {"rope_type": "default", "rope_theta": 0.0}}, "rope_theta is 0.0"),
        (LLAMA, {"partial_rotary_factor": 0}, "in a part of each head (0)"),
        (LLAMA, {"rope_scaling": {"type": "linear", "factor": 10**400}}, "factor is 1000"),
        (LLAMA, {"rope_scaling": {**YARN, "original_max_position_embeddings": -4}}, "max_position_embeddings is -4"),
        (LLAMA, {"rope_scaling": {**YARN, "beta_fast": "x"}}, "beta_fast is 'x'"),
        (LLAMA, {"rope_scaling": {**YARN, "attention_factor": [1]}}, "attention_factor is [1]"),
        (LLAMA, {"head_dim": 0}, "head_dim is 0"),
        (LLAMA, {"num_key_value_heads": 0}, "num_key_value_heads is 0"),
        (LLAMA, {"intermediate_size": 0}, "intermediate_size is 0"),
        (LLAMA, {"sliding_window": -1}, "sliding_window is -1"),
        (MISTRAL, {"sliding_window": -8}, "sliding_window is -8"),
        (MISTRAL, {"sliding_window": 0}, "sliding_window is 0"),
        (QWEN, {"sliding_window": -8}, "sliding_window is -8"),
        (QWEN, {"max_window_layers": -1}, "max_window_layers is -1"),
        (QWEN, {"use_sliding_window": False, "sliding_window": -8}, "sliding_window is -8"),
        (GPT2, {"n_inner": 0}, "n_inner is 0"),
        (GPT2, {"n_positions": 10**30}, "n_positions is 1000"),
        (GPT2, {"n_embd": None}, "no n_embd"),
        (OPT, {"ffn_dim": "x"}, "ffn_dim is 'x'"),
        (DISTILBERT, {"dim": -16}, "dim is -16"),
        (T5, {"d_ff": 0}, "d_ff is 0"),
        (T5, {"d_model": None}, "no d_model"),
        (T5, {"eos_token_id": None}, "eos_token_id is None"),
        (BERT, {"hidden_size": -16}, "hidden_size is -16"),
        (ELMO, {"activation": "swish"}, "activation 'swish'"),
        (ELMO, {"skip": "no"}, "skip is 'no'"),
    ],
    ids=str,
)
def test_absurd_values(base: dict[str, Any], change: dict[str, Any], named: str) -> None:
    with pytest.raises(BundleError, match=re.escape(named)) as raised:
        directories.config_from_hf({**base, **change})
    assert str(raised.value).startswith("config.json: ") and len(str(raised.value)) < 300


@pytest.mark.parametrize("base", [LLAMA, GPT2, BERT], ids=lambda base: str(base["model_type"]))
@pytest.mark.parametrize("value", [{"quant_method": "gptq", "bits": 4}, {"load_in_8bit": True}, "awq"], ids=str)
def test_quantized_weights(base: dict[str, Any], value: Any) -> None:
    with pytest.raises(BundleError, match="quantization_config") as raised:
        directories.config_from_hf({**base, "quantization_config": value})
    assert raised.value.hint and "dequantize" in raised.value.hint
    directories.config_from_hf({**base, "quantization_config": None})
