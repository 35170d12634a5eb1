"""The pre-tokenizers of byte-level BPE that llama.cpp knows, by its names, and their form in a tokenizer.json.

A file of llama.cpp has the name of a pre-tokenizer; its pattern is in the program (`llama-vocab.cpp`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from nlptools.json_types import Json, JsonObject

_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_WORDS = r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_BYTES: JsonObject = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
_MAPPED: JsonObject = {**_BYTES, "use_regex": False}
_DIGITS: JsonObject = {"type": "Digits", "individual_digits": True}


def _split(digits: str) -> JsonObject:
    pattern: JsonObject = {"Regex": _CONTRACTIONS + _WORDS % digits}
    return {"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False}


@dataclass(frozen=True)
class PreTokenizerName:
    """A pre-tokenizer.

    Attributes:
        name: in the files that `convert` writes.
        steps: in a tokenizer.json.
        whole: whether words that are tokens are not split, whatever the merges say ("ignore_merges").
        others: names with the same pattern.
    """

    name: str
    steps: tuple[JsonObject, ...]
    whole: bool = False
    others: tuple[str, ...] = ()

    @property
    def pre_tokenizer(self) -> JsonObject:
        """The pre-tokenizer of a tokenizer.json."""
        return dict(self.steps[0]) if len(self.steps) == 1 else {"type": "Sequence", "pretokenizers": [*self.steps]}


KNOWN = (
    PreTokenizerName(
        "gpt-2",
        (_BYTES,),
        others=("mpt", "olmo", "jais", "phi-2", "jina-v1-en", "jina-v2-code", "roberta-bpe", "modern-bert", "exaone4"),
    ),
    PreTokenizerName("llama-bpe", (_split("{1,3}"), _MAPPED), whole=True, others=("llama3", "llama-v3", "falcon3")),
    PreTokenizerName("qwen2", (_split(""), _MAPPED), others=("deepseek-r1-qwen",)),
    PreTokenizerName("smollm", (_DIGITS, _BYTES), others=("codeshell", "exaone")),
)


def by_name(name: str) -> PreTokenizerName | None:
    """The pre-tokenizer that a file names; None: unknown."""
    return next((each for each in KNOWN if name == each.name or name in each.others), None)


def named(pre_tokenizer: Mapping[str, Json], whole: bool) -> PreTokenizerName | None:
    """The name of the pre-tokenizer of a tokenizer.json; None: llama.cpp has none. `whole`: see `PreTokenizerName`."""
    listed = pre_tokenizer.get("pretokenizers", [dict(pre_tokenizer)])
    steps = [_plain(step) for step in listed if isinstance(step, dict)] if isinstance(listed, list) else []
    for each in KNOWN:
        if steps == [_plain(step) for step in each.steps] and whole == each.whole:
            return each
    return None


def described(pre_tokenizer: Mapping[str, Json]) -> str:
    """A pre-tokenizer for messages."""
    return json.dumps(pre_tokenizer, ensure_ascii=False)


def _plain(step: Mapping[str, Json]) -> JsonObject:
    """A step without the settings that change no token, and with the defaults that are left out."""
    out = {key: value for key, value in step.items() if key != "trim_offsets"}
    return {"use_regex": True, **out} if out.get("type") == "ByteLevel" else out
