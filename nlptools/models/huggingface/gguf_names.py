"""How an architecture of llama.cpp names sizes and weights in GGUF files."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from nlptools.files.gguf_file import GGUFFile, Value
from nlptools.json_types import Json, JsonObject

Metadata = dict[str, Value]
Weights = Mapping[str, Tensor]


@dataclass(frozen=True)
class GGUFLayout:
    """The files of one architecture of llama.cpp.

    Attributes:
        arch: in the file.
        model_types: in config.json; the first is read.
        sizes: keys in the file, after the architecture: fields of config.json.
        also: further keys in the file that `reads` reads.
        fixed: fields of config.json that have one value there, and these values; the first is read.
        marks: fields of config.json that tell a layout from the next ones with the same model type.
        marking: a tensor that tells it from the next ones with the same architecture; "": none.
        prefix: before names of weights in the folder, which those in `top` and `layer` do not have.
        layer: before the number of a layer, in the folder.
        file_layer: before it, in the file.
        top, block: names in the folder: names in the file.
        writes, reads: more of the metadata, and of config.json. Both raise BundleError for what is not supported.
        prepared: our configuration and weights, as the family of the first model type has them. Raises UsageError.
        windows: whether layers may have sliding windows.
        causal: whether positions do not see later ones.
        norm_offset: what is added to the weights of norms in the file.
        permuted: whether rows of queries and keys are permuted.
        transposed: linear maps (in, out) in the folder.
        stacked: whether queries, keys and values are one matrix in the file, and three in the folder.
        dense: names of the linear layers after the pooling, which this architecture can have.
    """

    arch: str
    model_types: tuple[str, ...]
    sizes: Mapping[str, str]
    layer: str
    top: Mapping[str, str]
    block: Mapping[str, str]
    prefix: str = ""
    file_layer: str = "blk."
    also: tuple[str, ...] = ()
    fixed: Mapping[str, tuple[Json, ...]] = field(default_factory=dict)
    marks: Mapping[str, Json] = field(default_factory=dict)
    marking: str = ""
    writes: Callable[[JsonObject, GGUFLayout], Metadata] = lambda data, layout: {}
    reads: Callable[[GGUFFile, GGUFLayout], JsonObject] = lambda file, layout: {}
    prepared: Callable[[Any, Weights], tuple[Any, Weights]] = lambda config, weights: (config, weights)
    windows: bool = False
    causal: bool = True
    norm_offset: float = 0.0
    permuted: bool = False
    transposed: tuple[str, ...] = ()
    stacked: bool = False
    dense: tuple[str, ...] = ()

    def has(self, data: JsonObject) -> bool:
        """Whether a config.json has this layout, unless one before it has it."""
        return data["model_type"] in self.model_types and all(data.get(name) == self.marks[name] for name in self.marks)

    def key(self, name: str) -> str:
        """A key of the metadata."""
        return f"{self.arch}.{name}"

    def theirs(self, name: str) -> str | None:
        """The name in the file of a weight in the folder; None: there is none."""
        module, kind = name.removeprefix(self.prefix).rsplit(".", 1)
        in_block = re.fullmatch(re.escape(self.layer) + r"(\d+)\.(.+)", module)
        if in_block is None:
            return f"{self.top[module]}.{kind}" if module in self.top else None
        number, part = in_block.groups()
        return f"{self.file_layer}{number}.{self.block[part]}.{kind}" if part in self.block else None

    def ours(self, name: str) -> str | None:
        """The name in the folder of a weight in the file; None: there is none."""
        module, _, kind = name.rpartition(".")
        in_block = re.fullmatch(re.escape(self.file_layer) + r"(\d+)\.(.+)", module)
        names, part = (self.top, module) if in_block is None else (self.block, in_block[2])
        found = next((ours for ours, theirs in names.items() if theirs == part), None)
        if found is None:
            return None
        return f"{'' if in_block is None else self.layer + in_block[1] + '.'}{found}.{kind}"
