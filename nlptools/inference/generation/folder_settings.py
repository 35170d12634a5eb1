"""Settings in a model's generation_config.json, which are not applied: a note names those that would change the text.

Of an encoder-decoder without that file, they are those in config.json, as in `transformers`. The end tokens in it are read
(`text_boundaries.end_tokens`). What only concerns the speed or the form of an answer in other programs, and a setting that is
off, need no note.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path

from nlptools import messages
from nlptools.bundle import Bundle
from nlptools.configs.generation import Generate
from nlptools.errors import display, visible
from nlptools.files import artifacts
from nlptools.json_types import Json
from nlptools.models.huggingface import peft

FILE = "generation_config.json"

# options of the same meaning; the first ones only for sampling
_SAMPLING = {"temperature": "temperature", "top_k": "top_k", "top_p": "top_p", "min_p": "min_p", "typical_p": "typical"}
_OPTIONS = {
    **_SAMPLING,
    "repetition_penalty": "repetition_penalty",
    "no_repeat_ngram_size": "no_repeat_ngram",
    "penalty_alpha": "contrastive",
    "num_beams": "beam",
    "length_penalty": "length_penalty",
    "early_stopping": "early_stopping",
    "min_new_tokens": "min_new_tokens",
    "max_new_tokens": "max_new_tokens",
    "num_return_sequences": "num_samples",
    "stop_strings": "stop",
}
# of encoder-decoders, whose first token counts there
_LENGTHS = {"max_length": "max_new_tokens", "min_length": "min_new_tokens"}
_OF_BEAMS = ("length_penalty", "early_stopping")
# how the next token is chosen: one who sets any of these has chosen between the ways
_WAYS = ("temperature", "beam", "contrastive", *_SAMPLING.values(), "top_n_sigma")
# of the others, values that change nothing, where these are not null, false, 0 or empty
_OFF = {
    **dict.fromkeys(("encoder_repetition_penalty", "num_beam_groups", "guidance_scale"), 1),
    "max_length": 20,  # the default of transformers
}
# what says nothing about the text: tokens that are read elsewhere, speed, the form of an answer
_ELSEWHERE = (
    *("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id", "forced_eos_token_id"),
    "forced_bos_token_id",
)
_OTHERS = ("do_sample", "bad_words_ids", "encoder_no_repeat_ngram_size", "diversity_penalty", "num_beam_groups")
_FORM = ("_", "output_", "return_", "use_", "cache_", "assistant_", "num_assistant_", "prompt_lookup_", "compile_")
_IGNORED = (*_ELSEWHERE, "transformers_version", "low_memory", "disable_compile", "is_assistant", "token_healing")


def note(loaded: Bundle[object], settings: Generate, default: Generate | None = None, *, flags: bool = True) -> None:
    """Write one note with the settings in the file that are not applied; those that the user has chosen are left out.

    Args:
        default: what `settings` are if the user chooses nothing.
        flags: name the options to set them; else the keys of a request.

    Raises:
        BundleError: the file is damaged.
    """
    path = peft.home(Path(loaded.path), ["config.json"]) / FILE
    said = artifacts.read_json(path) if path.is_file() else {}
    effective, default, lengths = settings, default or Generate(), {}
    if loaded.target_tokenizer is not None:  # of an encoder-decoder
        from nlptools.inference.translation import resolved

        if not path.is_file():
            path = path.with_name("config.json")
            said = {key: loaded.config[key] for key in (*_OPTIONS, *_LENGTHS, *_OTHERS) if key in loaded.config}
        effective, lengths = resolved(settings), _lengths(said)
    found = {
        key: value
        for key, value in said.items()
        if value is not None and key not in _IGNORED and not key.startswith(_FORM) and not _is_usual(key, value, loaded)
        if _differs(*lengths.get(key, (key, value)), settings, default, effective)
    }
    if not found:
        return
    listed = ", ".join(f"{key} {json.dumps(value):.80}" for key, value in found.items())
    text = f"{display(str(path))}: not applied: {listed}"
    known = {
        _OPTIONS[key]: value
        for key, value in found.items()
        if key == "stop_strings" or (key in _OPTIONS and isinstance(value, int | float))
    }
    known |= dict(option for key, option in lengths.items() if key in found)
    if "do_sample" in found:
        known.update({"beam": 0} if found["do_sample"] else {"temperature": 0})
    if known and flags:
        text += f"; to apply: {' '.join(_flag(name, value) for name, value in known.items())}"
    elif known:
        text += f"; a request may set {', '.join(known)}"
    messages.note(visible(text))


def _lengths(said: Mapping[str, Json]) -> dict[str, tuple[str, int]]:
    """The most and the fewest new tokens of an encoder-decoder: the option and its value, by key."""
    return {key: (name, max(0, value - 1)) for key, name in _LENGTHS.items() if isinstance(value := said.get(key), int)}


def _differs(key: str, value: object, settings: Generate, default: Generate, effective: Generate) -> bool:
    """Whether a setting would change the text, and the user has not chosen another."""
    chosen, usual = vars(settings), vars(default)
    draws = effective.temperature > 0 and not effective.beam and effective.contrastive is None
    if key == "do_sample":
        return bool(value) != draws and all(chosen[way] == usual[way] for way in _WAYS)
    name = _OPTIONS.get(key)
    if name is None:
        return bool(value != _OFF[key] if key in _OFF else value)
    if (key in _SAMPLING and not draws) or (key in _OF_BEAMS and not effective.beam):
        return False
    if chosen[name] != usual[name]:
        return False
    now = vars(effective)[name]
    if key == "num_beams":
        now, value = now or 1, value or 1
    return bool((now or value) and now != (tuple(value) if isinstance(value, list) else value))


def _is_usual(key: str, value: object, loaded: Bundle[object]) -> bool:
    """Whether it is a default in directories of encoder-decoders: no padding in the output, and a length."""
    if loaded.target_tokenizer is None:
        return False
    return (key == "max_length" and value == 512) or (
        key == "bad_words_ids" and value == [[loaded.config.get("pad_token_id")]]
    )


def _flag(name: str, value: object) -> str:
    flag = name.replace("_", "-")
    if isinstance(value, bool):
        return f"--{flag}" if value else f"--no-{flag}"
    return f"--{flag} {shlex.quote(','.join(map(str, value)) if isinstance(value, list) else str(value))}"
