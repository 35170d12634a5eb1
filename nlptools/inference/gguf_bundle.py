"""A GGUF file, the format of llama.cpp, opened as a model directory is: weights, tokenizer, pooling and chat template.

Quantized weights become float32. Keys under "nlptools." are ours: settings that llama.cpp does not have.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import Tensor

from nlptools import bundle
from nlptools.errors import BundleError, Unavailable, display, reading
from nlptools.files import gguf_file, hub_cache
from nlptools.files.gguf_file import TYPES, GGUFFile
from nlptools.inference.embedding.sentence_steps import Dense, SentenceSteps
from nlptools.json_types import JsonObject
from nlptools.models.contract import LanguageModel
from nlptools.models.huggingface import directories, gguf_layouts
from nlptools.models.huggingface.gguf_encoders import POOLINGS
from nlptools.text import gguf_tokenizer
from nlptools.text.gguf_vocabulary import PREFIX
from nlptools.text.tokenizer import Tokenizer

DOCUMENT, NORMALIZE, MAX_LENGTH = (f"nlptools.{name}" for name in ("document", "normalize", "max_length"))
# the names and the texts of the prompts of a sentence-transformers directory, the default one, and whether it is pooled
PROMPT_NAMES, PROMPT_TEXTS, DEFAULT_PROMPT, INCLUDE_PROMPT = (
    "nlptools.prompt.names",
    "nlptools.prompt.texts",
    "nlptools.prompt.default",
    "nlptools.prompt.include",
)
_ADDS_START = ("llama",)  # tokenizers that put a token before each text, if the file does not set it


def load(path: Path) -> bundle.Bundle:
    """The model of a GGUF file as a bundle, on the CPU in float32.

    Raises:
        InputError: no such file.
        BundleError: see `gguf_file.read`; or a model or a tokenizer that is not supported.
        Unavailable: the package gguf is not installed.
    """
    require_package(str(path))
    file = read(path)
    with _naming(file):
        data = gguf_layouts.config_of(file)
        sizes = directories.config_from_hf(data)[1]
        held = sum(prod(place.shape) for place in file.tensors.values())
        if sizes.least_weights() > held:
            raise BundleError(
                f"damaged: a model of at least {sizes.least_weights():,} weights, the file holds {held:,}"
            )
        tokenizer = gguf_tokenizer.read(file)
        bundle.check_tokenizer(path, tokenizer, data)
        tensors = _tensors(file, [name for name in file.tensors if name not in _dense_names(file)])
        data = gguf_layouts.with_scaling(data, tensors)
        arch, model = directories.build(data, gguf_layouts.weights_of(file, tensors, data), path)
    document = file.text(DOCUMENT)
    bos, eos = _special(file, tokenizer)
    config: JsonObject = {**data, **({"nlptools": {"document": document}} if document else {})}
    config |= {"bos_token_id": eos if bos is None else bos, "eos_token_id": eos}
    turn = file.id(f"{PREFIX}eot_token_id")
    adds = file.flag(f"{PREFIX}add_bos_token", file.text(f"{PREFIX}model") in _ADDS_START)
    ends = () if turn in (None, eos) else (turn,)
    return bundle.Bundle(
        path, arch, cast(LanguageModel, model), tokenizer, config, {}, bos=bos if adds else None, ends=ends
    )


@contextmanager
def _naming(file: GGUFFile) -> Iterator[None]:
    """A context in which a BundleError names the GGUF file, not the files of a folder."""
    try:
        yield
    except BundleError as error:
        name = display(str(file.path))
        text = re.sub(rf"^({re.escape(name)}|config\.json|model\.safetensors): ", "", str(error)).replace(
            "config.json says", "the metadata says"
        )
        raise BundleError(f"{name}: {text}", hint=error.hint) from None


def read(path: Path) -> GGUFFile:
    """The description of a GGUF file. Raises InputError where there is none, and as `gguf_file.read`."""
    if not path.exists():
        raise hub_cache.no_model(path)
    return gguf_file.read(path)


def require_package(path: str) -> None:
    """Raise Unavailable unless the package gguf is installed."""
    if importlib.util.find_spec("gguf") is None:
        raise Unavailable(f"{display(path)}: GGUF files need the package gguf", extra="gguf")


def _special(file: GGUFFile, tokenizer: Tokenizer) -> tuple[int | None, int]:
    """The tokens at the beginning and at the end of texts. Raises BundleError if there is none at the end."""
    vocab = tokenizer.vocab
    assert vocab is not None
    found = (file.id(f"{PREFIX}{name}_token_id") for name in ("bos", "eos"))
    bos, eos = (id if id is not None and id < len(vocab) else None for id in found)
    for end in (eos, vocab.eos, vocab.sep):
        if end is not None:
            return bos, end
    raise file.bad("no end-of-text token")


def _dense_names(file: GGUFFile) -> list[str]:
    """The tensors of the linear layers after the pooling."""
    names = [f"{name}.weight" for name in gguf_layouts.layout_of(file).dense]
    return [name for name in names if name in file.tensors]


def _tensors(file: GGUFFile, names: Iterable[str]) -> dict[str, Tensor]:
    """These tensors in float32."""
    from gguf import GGMLQuantizationType, quants

    out = {}
    with reading(file.path):
        content = np.memmap(file.path, np.uint8, mode="r")
        for name in names:
            place = file.tensors[name]
            raw = content[place.start : place.start + place.size]
            rows = raw.reshape(*place.shape[:-1], -1)
            numbers = quants.dequantize(rows, GGMLQuantizationType(place.type))
            out[name] = torch.from_numpy(np.array(numbers, np.float32).reshape(place.shape))
    return out


def steps(path: Path) -> SentenceSteps | None:
    """The pooling of the model in a GGUF file; None: it has none. Raises BundleError for one that is not supported."""
    file = read(path)
    number = file.metadata.get(gguf_layouts.layout_of(file).key("pooling_type"), 0)
    if number == 0:
        return None
    name = next((name for name, value in POOLINGS.items() if value == number), None)
    if name is None:
        raise file.bad(f"pooling {number!r:.20} is not supported, expected {', '.join(POOLINGS)}")
    length = file.metadata.get(MAX_LENGTH)
    most = length if type(length) is int and length > 2 else None
    dense = tuple(Dense(weight, None, "none") for weight in _tensors(file, _dense_names(file)).values())
    normalize, include = file.flag(NORMALIZE, True), file.flag(INCLUDE_PROMPT, True)
    return SentenceSteps(path, (name,), include, dense, normalize, most, False, *_prompts(file))


def _prompts(file: GGUFFile) -> tuple[dict[str, str], str | None]:
    """The prompts, and the name of the default one."""
    names, texts, default = file.texts(PROMPT_NAMES), file.texts(PROMPT_TEXTS), file.text(DEFAULT_PROMPT) or None
    if len(names) != len(texts):
        raise file.bad(f"{len(names)} names of prompts, {len(texts)} texts")
    if default is not None and default not in names:
        raise file.bad(f"no prompt named {default!r:.80}")
    return dict(zip(names, texts, strict=True)), default


def describe(path: Path) -> dict[str, dict[str, object]]:
    """The sections model, tokenizer and training of `describe`. The weights are not read."""
    file = read(path)
    layout, tokenizer = gguf_layouts.layout_of(file), gguf_tokenizer.read(file)
    assert tokenizer.vocab is not None
    prefix = f"{layout.arch}."
    sizes = {key.removeprefix(prefix): value for key, value in file.metadata.items() if key.startswith(prefix)}
    special = {role: tokenizer.vocab.token(id) for role, id in tokenizer.vocab.roles.items()}
    return {
        "model": {
            "family": layout.arch,
            "name": file.text("general.name"),
            "weights": sum(prod(place.shape) for place in file.tensors.values()),
            "types": sorted({TYPES[place.type].name for place in file.tensors.values()}),
            **{key: value for key, value in sizes.items() if isinstance(value, (int, float, str))},
            "chat template": "tokenizer.chat_template" in file.metadata,
        },
        "tokenizer": {
            "kind": file.text(f"{PREFIX}model"),
            "pre-tokenizer": file.text(f"{PREFIX}pre"),
            "tokens": len(tokenizer.vocab),
            "special": special,
        },
        "files": {path.name: f"{path.stat().st_size:,} bytes"},
    }
