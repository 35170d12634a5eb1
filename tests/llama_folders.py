"""Small folders of LLaMA, Mistral, Qwen2 and Qwen3 as transformers writes them, with random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

SIZES: dict[str, Any] = {
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 32,
}
TEXTS = ["the cat sat on the mat and the dog sat on the log", "a cat and a dog"]
LLAMA3 = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 16}  # fmt: skip
FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {}),
    "tied": ("Llama", {"tie_word_embeddings": True, "num_key_value_heads": 4}),
    "one key head": ("Llama", {"num_key_value_heads": 1, "head_dim": 8, "attention_bias": True, "mlp_bias": True}),
    "theta": ("Llama", {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}}),
    "linear": ("Llama", {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0}}),
    "llama3": ("Llama", {"rope_parameters": {**LLAMA3, "rope_theta": 1000.0}}),
    "yarn": ("Llama", {"rope_parameters": {"rope_type": "yarn", "factor": 2.0, "rope_theta": 1000.0,
                                           "original_max_position_embeddings": 16}}),
    "mistral": ("Mistral", {"sliding_window": 5}),
    "mistral without window": ("Mistral", {"sliding_window": None, "head_dim": 16}),
    "qwen2": ("Qwen2", {"tie_word_embeddings": True}),
    "qwen2 with windows": ("Qwen2", {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 2}),
    "qwen3": ("Qwen3", {"head_dim": 20}),
    "qwen3 with biases": ("Qwen3", {"head_dim": 12, "attention_bias": True, "tie_word_embeddings": True}),
}  # fmt: skip


def tokenizer(bos: bool = False, chat: str | None = None) -> Any:
    """A byte-level BPE tokenizer, which puts <s> before a text if `bos`."""
    from tokenizers import ByteLevelBPETokenizer
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator(TEXTS * 5, vocab_size=280, special_tokens=["<s>", "</s>", "<|end|>"])
    if bos:
        trained._tokenizer.post_processor = TemplateProcessing("<s> $A", "<s> $A $B", [("<s>", 0)])
    fast = PreTrainedTokenizerFast(tokenizer_object=trained._tokenizer, bos_token="<s>", eos_token="</s>")
    fast.chat_template = chat
    return fast


def written(
    out: Path, form: str = "llama", bos: bool = False, shard: str = "5GB", dtype: Any = None, **more: Any
) -> Any:
    """A model of transformers with random weights, saved with its tokenizer."""
    import transformers

    family, changes = FORMS[form]
    fast = tokenizer(bos)
    config = getattr(transformers, f"{family}Config")(
        **{**SIZES, "vocab_size": len(fast), "bos_token_id": 0, "eos_token_id": 1, **changes, **more}
    )
    torch.manual_seed(0)
    model = getattr(transformers, f"{family}ForCausalLM")(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    model.to(dtype or torch.float32).save_pretrained(out, max_shard_size=shard)
    fast.save_pretrained(out)
    return type(model).from_pretrained(out, dtype=torch.float32).eval()  # not .float(): it would keep rounded angles
