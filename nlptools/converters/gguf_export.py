"""Writes a model as a GGUF file, which llama.cpp and the programs built on it read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from torch import Tensor

from nlptools import messages
from nlptools.bundle import Bundle
from nlptools.errors import BundleError, UsageError, display
from nlptools.files import gguf_writer, streams
from nlptools.files.gguf_file import TYPES, Value
from nlptools.inference import gguf_bundle
from nlptools.inference.embedding.sentence_steps import SentenceSteps
from nlptools.inference.gguf_bundle import (
    DEFAULT_PROMPT,
    DOCUMENT,
    INCLUDE_PROMPT,
    MAX_LENGTH,
    NORMALIZE,
    PROMPT_NAMES,
    PROMPT_TEXTS,
)
from nlptools.inference.opening import Opened, open_model
from nlptools.models import registry, text_ends
from nlptools.models.contract import LanguageModel
from nlptools.models.huggingface import gguf_layouts
from nlptools.models.huggingface.gguf_encoders import POOLINGS
from nlptools.models.huggingface.gguf_names import GGUFLayout
from nlptools.text import chat_templates, gguf_vocabulary, text_boundaries
from nlptools.text.exported_json import Inexpressible
from nlptools.text.gguf_vocabulary import PREFIX

_FILE_TYPES = {"F32": 0, "F16": 1, "Q8_0": 7, "BF16": 32}  # "general.file_type" of llama.cpp
_FULL = ("position_embd.weight", "token_types.weight")  # never rounded, as nothing with one dimension
_LARGEST_F16 = 65504.0
_QUANTIZATION_VERSION = 2


def convert(source: str, target: str, *, quantize: str = "none", force: bool = False) -> None:
    """Write the language model or the encoder in the directory `source` to the file `target`.

    Args:
        quantize: the type of matrices: none (F32), f16, bf16, q8_0. Norms and biases stay in F32.

    Raises:
        InputError, BundleError: see `open_model`; or a tokenizer or a variant of the model that llama.cpp does not have.
        UsageError: a model of a family that llama.cpp does not have, or with the head of a task.
        Unavailable: the package gguf is not installed.
        OutputError, StreamError: see `streams.LineWriter`.
    """
    gguf_bundle.require_package(target)
    kind = "F32" if quantize == "none" else quantize.upper()
    with streams.LineWriter(target, force=force, layout=None) as out:
        opened = open_model(source)
        metadata, tensors = _content(opened)
        metadata |= {
            "general.name": Path(source).resolve().name,
            "general.file_type": _FILE_TYPES[kind],
            "general.quantization_version": _QUANTIZATION_VERSION,
        }
        types = {name: _type(name, tensor, kind) for name, tensor in tensors.items()}
        out.write(gguf_writer.begin(metadata, {name: (types[name], tuple(tensors[name].shape)) for name in tensors}))
        for name, tensor in tensors.items():
            out.write(gguf_writer.padded(_numbers(name, tensor, types[name])))
    messages.note(f"{display(target)}: {len(tensors)} tensors, {_counted(types)}")


def _counted(types: Mapping[str, int]) -> str:
    names = [TYPES[number].name for number in types.values()]
    return ", ".join(f"{names.count(name)} in {name}" for name in sorted(set(names)))


def _content(opened: Opened) -> tuple[dict[str, Value], dict[str, Tensor]]:
    """The metadata and the tensors of the file."""
    loaded = opened.bundle
    if opened.has_task:
        raise UsageError(f"{display(str(opened.path))} has the head of a task, which a GGUF file cannot hold")
    if loaded.family not in (registry.LANGUAGE, registry.READER, registry.ENCODER):
        raise UsageError(f"{display(str(opened.path))} is neither a language model nor an encoder")
    try:
        metadata, tensors = gguf_layouts.written(loaded.arch, loaded.model.config, loaded.weights())
        size = loaded.model.config.vocab_size
        metadata |= gguf_vocabulary.metadata(loaded.tokenizer, size) | _ends(loaded, opened.steps is not None)
    except Inexpressible as error:
        raise BundleError(f"{display(str(opened.path))}: the tokenizer cannot be written as GGUF: {error}") from None
    except BundleError as error:
        raise BundleError(f"{display(str(opened.path))}: {error}") from None
    if opened.steps is not None:
        layout = gguf_layouts.by_arch(str(metadata["general.architecture"]))
        metadata |= _pooling(opened.steps, layout)
        tensors |= {f"{name}.weight": each.weight for name, each in zip(layout.dense, opened.steps.dense, strict=False)}
    template = chat_templates.source_of(opened.path)
    if template is not None:
        metadata["tokenizer.chat_template"] = template
    left_out = [head for head in loaded.heads if head != "pooler"]
    if left_out:
        messages.note(f"left out, since llama.cpp has no such heads: {', '.join(left_out)}")
    return metadata, tensors


def _ends(loaded: Bundle[LanguageModel], is_pooled: bool) -> dict[str, Value]:
    """The tokens around texts."""
    ids: dict[str, int | None]
    more: dict[str, Value] = {}
    if loaded.family == registry.ENCODER:
        around = text_ends.around(loaded.arch, loaded.tokenizer, loaded.config)
        if around is None or around.last is None:
            raise Inexpressible("it has no token after texts")
        ids, adds = {"bos": around.first, "eos": around.last}, (around.first is not None, True)
        if around.first is not None:
            ids |= {"cls": around.first, "seperator": around.last}
    else:
        ids, adds = {"bos": loaded.start, "eos": loaded.eos}, (loaded.prepends_start, False)
        if is_pooled:
            before, after = text_boundaries.around_text(loaded.tokenizer, loaded.path)
            if max(len(before), len(after)) > 1:
                raise Inexpressible("it has several tokens before or after texts")
            ids, adds = {"bos": [*before, loaded.start][0], "eos": [*after, loaded.eos][0]}, (bool(before), bool(after))
        ids |= {"eot": next(iter(loaded.ends), None)}
        more = {DOCUMENT: loaded.document}
    named = {f"{PREFIX}{name}_token_id": id for name, id in ids.items() if id is not None}
    return {**named, **{f"{PREFIX}add_{name}_token": adds[name == "eos"] for name in ("bos", "eos")}, **more}


def _pooling(steps: SentenceSteps, layout: GGUFLayout) -> dict[str, Value]:
    """The pooling of a sentence-transformers directory. Raises UsageError for other steps."""
    number = POOLINGS.get("+".join(steps.pooling))
    plain = all(each.bias is None and each.activation == "none" for each in steps.dense)
    if number is None or len(steps.dense) not in (0, len(layout.dense)) or not plain or steps.lowercase:
        layers = f"with {len(layout.dense)} plain" if layout.dense else "without"
        raise UsageError(
            f"llama.cpp pools by {', '.join(POOLINGS)}, {layers} dense layers in a {layout.arch},"
            " and without another lower-casing",
            hint="nlptools export writes such a model as ONNX",
        )
    sizes: dict[str, Value] = {}
    for name, dense in zip(layout.dense, steps.dense, strict=False):
        sizes[layout.key(f"{name}_feat_out")], sizes[layout.key(f"{name}_feat_in")] = dense.weight.shape
    length: dict[str, Value] = {} if steps.max_length is None else {MAX_LENGTH: steps.max_length}
    return {layout.key("pooling_type"): number, NORMALIZE: steps.normalize, **length, **sizes, **_prompts(steps)}


def _prompts(steps: SentenceSteps) -> dict[str, Value]:
    """The prompts, which llama.cpp leaves out."""
    if not steps.prompts:
        return {}
    if steps.default_prompt is not None:
        messages.warn(f"llama.cpp does not put {steps.prompts[steps.default_prompt]!r} before texts, as nlptools does")
    default: dict[str, Value] = {} if steps.default_prompt is None else {DEFAULT_PROMPT: steps.default_prompt}
    named: dict[str, Value] = {PROMPT_NAMES: [*steps.prompts], PROMPT_TEXTS: [*steps.prompts.values()]}
    return {**named, **default, INCLUDE_PROMPT: steps.include_prompt}


def _type(name: str, tensor: Tensor, kind: str) -> int:
    """The number of the type that a tensor is stored in."""
    if tensor.dim() < 2 or name in _FULL:
        kind = "F32"
    elif tensor.shape[-1] % TYPES[gguf_writer.type_number(kind)].numbers:
        kind = "F16"  # rows that are no whole number of blocks
    return gguf_writer.type_number(kind)


def _numbers(name: str, tensor: Tensor, kind: int) -> bytes:
    """The numbers of a tensor in a type. Raises BundleError for numbers that it cannot hold."""
    from gguf import GGMLQuantizationType, quants

    values = tensor.detach().float().numpy()
    if TYPES[kind].name == "F16" and np.abs(values).max(initial=0) > _LARGEST_F16:
        raise BundleError(
            f"{name} has numbers above {_LARGEST_F16:,.0f}, which F16 cannot hold", hint="--quantize bf16"
        )
    return np.ascontiguousarray(quants.quantize(values, GGMLQuantizationType(kind))).tobytes()
