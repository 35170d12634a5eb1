"""Attention maps: speed compared with transformers.

    python benchmarks/attention_maps_speed.py [--shape 12,768,12] [--length 512] [--models bert,gpt2] [--rounds 3]

The attention weights of all layers and heads for a line of 512 tokens, by a BERT and by a GPT-2 (12 layers of 768 and 12 heads
unless --shape says otherwise; random weights, which take as long as any others). transformers computes them with its eager
attention and `output_attentions=True`, without an output head; nlptools as `attend` does, in float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from side_by_side import Job, bench, separate

MODELS = ("bert", "gpt2")


def main() -> None:
    with bench(__doc__, shape="12,768,12", length=512, models=MODELS) as run:
        shape, length = run.options.shape, run.options.length
        for model in run.options.models:
            make(run.folder / model, model, *map(int, shape.split(",")), length)
            sides = {f"{name}, fp32": separate(side, run.folder / model, length) for name, side in SIDES.items()}
            title = f"attention of a line of {length} tokens, {model.upper()} {shape}"
            run.compare(title, "lines/s", sides, check=differences)


def make(folder: Path, model: str, layers: int, hidden: int, heads: int, length: int) -> None:
    """A model with random weights, and a tokenizer that is not used, as transformers saves them."""
    from transformers import BertConfig, BertModel, GPT2Config, GPT2Model

    torch.manual_seed(0)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(995))]
    made: Any
    if model == "bert":
        sizes = {"hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads}
        made = BertModel(
            BertConfig(**sizes, vocab_size=len(words), intermediate_size=4 * hidden, initializer_range=0.1)
        )
    else:
        places = {"n_embd": hidden, "n_layer": layers, "n_head": heads, "n_positions": max(length, 32)}
        made = GPT2Model(GPT2Config(**places, vocab_size=len(words), eos_token_id=3, initializer_range=0.1))
    made.save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")


def line(length: int) -> torch.Tensor:
    """(1, T) ids."""
    return torch.randint(5, 1000, (1, length), generator=torch.Generator().manual_seed(1))


def theirs(folder: Path, length: int) -> Job:
    """The attentions of transformers."""
    from transformers import AutoModel

    model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()

    @torch.inference_mode()
    def attentions() -> tuple[int, Any]:
        return 1, [layer.numpy() for layer in model(line(length), output_attentions=True).attentions]

    return attentions


def ours(folder: Path, length: int) -> Job:
    """The same by the models that `attend` opens."""
    from nlptools import bundle
    from nlptools.compute.backend import Backend
    from nlptools.configs import Compute

    found: Any = bundle.load(folder).model
    model = Backend.detect(Compute(precision="fp32")).for_inference(found)
    model = model.encoder if folder.name == "bert" else model
    layers = model.attention_size[0]

    @torch.inference_mode()
    def attentions() -> tuple[int, Any]:
        return 1, [
            weights.numpy() for _, weights in zip(range(layers), model.attention_weights(line(length)), strict=False)
        ]

    return attentions


def differences(results: Mapping[str, Any]) -> str:
    """How far the weights are apart."""
    one, other = results.values()
    most = max(float(abs(a - b).max()) for a, b in zip(one, other, strict=True))
    return f"weights differ by at most {most:.0e}"


SIDES = {"transformers": theirs, "nlptools": ours}

if __name__ == "__main__":
    main()
