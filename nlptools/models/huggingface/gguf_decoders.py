"""The decoders in GGUF files: LLaMA and its kin, GPT-2.

llama.cpp turns neighbouring numbers of a head in a LLaMA, where the folders have pairs k and k + K/2: rows of queries and keys
are permuted. GPT-2's linear maps are transposed.
"""

from __future__ import annotations

from dataclasses import replace

from nlptools.models.huggingface.gguf_names import GGUFLayout
from nlptools.models.huggingface.gguf_rotary import ROTARY, rotary_from, rotary_to

BLOCK = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
LLAMA = GGUFLayout(
    "llama",
    ("llama", "mistral"),
    {
        "context_length": "max_position_embeddings",
        "embedding_length": "hidden_size",
        "block_count": "num_hidden_layers",
        "feed_forward_length": "intermediate_size",
        "attention.head_count": "num_attention_heads",
        "attention.head_count_kv": "num_key_value_heads",
        "attention.layer_norm_rms_epsilon": "rms_norm_eps",
        "rope.freq_base": "rope_theta",
    },
    "model.layers.",
    {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"},
    BLOCK,
    also=ROTARY,
    fixed={"hidden_act": ("silu",)},
    writes=rotary_to,
    reads=rotary_from,
    permuted=True,
)
_GPT2 = GGUFLayout(
    "gpt2",
    ("gpt2",),
    {
        "context_length": "n_positions",
        "embedding_length": "n_embd",
        "block_count": "n_layer",
        "feed_forward_length": "n_inner",
        "attention.head_count": "n_head",
        "attention.layer_norm_epsilon": "layer_norm_epsilon",
    },
    "h.",
    {"wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm", "lm_head": "output"},
    {
        "ln_1": "attn_norm",
        "attn.c_attn": "attn_qkv",
        "attn.c_proj": "attn_output",
        "ln_2": "ffn_norm",
        "mlp.c_fc": "ffn_up",
        "mlp.c_proj": "ffn_down",
    },
    prefix="transformer.",
    fixed={"activation_function": ("gelu_new",)},
    reads=lambda file, layout: {"tie_word_embeddings": "output.weight" not in file.tensors},
    transposed=("attn_qkv.weight", "attn_output.weight", "ffn_up.weight", "ffn_down.weight"),
)
DECODERS = (
    LLAMA,
    replace(LLAMA, arch="qwen2", model_types=("qwen2",), permuted=False),
    replace(
        LLAMA,
        arch="qwen3",
        model_types=("qwen3",),
        fixed={**LLAMA.fixed, "attention_bias": (False,)},
        permuted=False,
    ),
    _GPT2,
)
