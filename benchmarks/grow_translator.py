"""Make a larger translator from a small trained one, so that decoding can be timed without training it.

    python benchmarks/grow_translator.py SMALL LARGE [--width 2] [--inner 2] [--layers 2]

SMALL and LARGE are MarianMT directories. Units are copied and what reads them is divided, and layers that change nothing are
put behind the others (Chen et al. 2016, "Net2Net", arXiv:1511.05641), so LARGE costs what its shape costs and still
translates. Its translations are those of SMALL nearly, not quite: computed positions have other frequencies in between.
Timing decoders on random weights would not do, as their sentences do not end, and training this shape takes an hour.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import safetensors.torch
import side_by_side
import torch
from torch import Tensor


def wider(name: str, weight: Tensor, width: int, inner: int) -> Tensor:
    """A weight of the small model with its units copied, and divided by the copies where it reads them."""
    if name.startswith("final_logits_bias"):
        return weight
    if "embed_tokens" in name or name.startswith("model.shared") or name == "lm_head.weight":
        return weight.repeat_interleave(width, 1) / width**0.5  # embeddings are multiplied by the root of the width
    if ".fc1." in name:
        out = weight.repeat(inner * width, *([1] * (weight.dim() - 1)))
        return out.repeat_interleave(width, 1) / width if weight.dim() == 2 else out
    if ".fc2." in name:
        out = weight.repeat_interleave(width, 0)
        return out.repeat(1, inner * width) / (inner * width) if weight.dim() == 2 else out
    if re.search(r"\.(q|k|v)_proj\.", name):  # whole heads are copied, so that each keeps its size
        out = weight.repeat(width, *([1] * (weight.dim() - 1)))
        return out.repeat_interleave(width, 1) / width if weight.dim() == 2 else out
    if ".out_proj." in name:
        out = weight.repeat_interleave(width, 0)
        return out.repeat(1, width) / width if weight.dim() == 2 else out
    return weight.repeat_interleave(width, 0)  # norms


def deeper(weights: dict[str, Tensor], side: str, layers: int, times: int) -> dict[str, Tensor]:
    """`times` as many layers: behind each one stand some whose sublayers give nothing.

    A norm of what has been normed changes nothing, so the scale and shift of the last norm go to the last of the copies.
    """
    out = {}
    pattern = re.compile(rf"model\.{side}\.layers\.(\d+)\.(.+)")
    for name, weight in weights.items():
        found = pattern.fullmatch(name)
        if not found:
            out[name] = weight
            continue
        layer, part = int(found[1]), found[2]
        for copy in range(times):
            value = weight
            if "layer_norm" in part and not (copy == times - 1 and part.startswith("final_layer_norm")):
                neutral = torch.ones_like(weight) if part.endswith("weight") else torch.zeros_like(weight)
                first = copy == 0 and not part.startswith("final_layer_norm")
                value = weight if first else neutral
            elif copy and re.match(r"(self_attn\.out_proj|encoder_attn\.out_proj|fc2)\.", part):
                value = torch.zeros_like(weight)
            out[f"model.{side}.layers.{layer * times + copy}.{part}"] = value.clone()
    return out


def grow(small: Path, large: Path, width: int, inner: int, layers: int) -> dict[str, int]:
    """Write `large`; returns its sizes."""
    shutil.copytree(small, large, ignore=shutil.ignore_patterns("manifest.json", "checkpoints", "data", "log.jsonl"))
    config = json.loads((small / "config.json").read_text(encoding="utf-8"))
    weights = safetensors.torch.load_file(small / "model.safetensors")
    weights = {name: wider(name, weight, width, inner) for name, weight in weights.items()}
    for side in ("encoder", "decoder"):
        weights = deeper(weights, side, config[f"{side}_layers"], layers)
        config[f"{side}_layers"] *= layers
        config[f"{side}_attention_heads"] *= width
        config[f"{side}_ffn_dim"] *= inner * width
    last = f"model.decoder.layers.{config['decoder_layers'] - 1}.final_layer_norm"
    for part in ("weight", "bias"):  # logits are sums over the copies, too
        weights[f"{last}.{part}"] /= width**0.5
    config["d_model"] *= width
    if "num_hidden_layers" in config:
        config["num_hidden_layers"] = config["encoder_layers"]
    (large / "config.json").write_text(json.dumps(config, indent=2), encoding="utf-8")
    safetensors.torch.save_file(
        {n: w.contiguous() for n, w in weights.items()}, large / "model.safetensors", {"format": "pt"}
    )
    return {name: config[name] for name in ("encoder_layers", "d_model", "encoder_attention_heads", "encoder_ffn_dim")}


def main() -> None:
    arguments = side_by_side.options(__doc__, "/small", "/large", width=2, inner=2, layers=2)
    print(grow(arguments.small, arguments.large, arguments.width, arguments.inner, arguments.layers))


if __name__ == "__main__":
    main()
