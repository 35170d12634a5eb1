"""Tokens at the beginning and the end of texts in published model directories, such as <s> and </s> of LLaMA."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from nlptools import messages
from nlptools.errors import BundleError, display
from nlptools.files import artifacts, gguf_file
from nlptools.json_types import Json
from nlptools.text.boundaries import Boundaries
from nlptools.text.gguf_vocabulary import PREFIX
from nlptools.text.huggingface import HuggingFace, read_config
from nlptools.text.tokenizer import Tokenizer


def started(ids: list[int], start: int, end: int) -> list[int]:
    """`ids` with the token `start` before them, unless they begin with it, as texts of chat templates may. If it also ends
    texts, it is always added.
    """
    return ids if start != end and ids[:1] == [start] else [start, *ids]


def first_token(tokenizer: Tokenizer, directory: Path) -> int | None:
    """The id of the token that a tokenizer puts before each text; None: there is none.

    "add_bos_token" in tokenizer_config.json decides; without it, the template in tokenizer.json. A SentencePiece model of a
    LLaMA has neither, and a first token. Raises BundleError for a damaged tokenizer_config.json.
    """
    config = _settings(directory)
    template = next(iter(tokenizer.around()[0]), None) if isinstance(tokenizer, HuggingFace) else None
    bos = None if tokenizer.vocab is None else tokenizer.vocab.bos
    if template is None and str(config.get("tokenizer_class", "")).startswith("Llama"):
        template = None if isinstance(tokenizer, HuggingFace) else bos
    added = config.get("add_bos_token")
    return template if added is None else bos if added else None


def _settings(path: Path) -> Mapping[str, object]:
    """The tokenizer_config.json in a directory, or such settings in a GGUF file."""
    if not gguf_file.is_gguf(path):
        return read_config(path)
    metadata = gguf_file.read(path).metadata
    return {key.removeprefix(PREFIX): value for key, value in metadata.items() if key.startswith(f"{PREFIX}add_")}


def around_text(tokenizer: Tokenizer, directory: Path) -> tuple[list[int], list[int]]:
    """The tokens that a tokenizer puts before each text, and after it: as `first_token`, and for those that follow
    "add_eos_token" decides, or the template. Raises BundleError for a damaged tokenizer_config.json.
    """
    first = first_token(tokenizer, directory)
    after = tokenizer.around()[1] if isinstance(tokenizer, HuggingFace) else []
    added = _settings(directory).get("add_eos_token")
    end = None if tokenizer.vocab is None else tokenizer.vocab.eos
    if added is not None:
        after = [end] if added and end is not None else []
    return [] if first is None else [first], after


def of_encoder(tokenizer: Tokenizer) -> Boundaries:
    """The tokens around the texts of an encoder: as the template in tokenizer.json says, else as in a BERT."""
    named = tokenizer.around_pair() if isinstance(tokenizer, HuggingFace) else None
    return named or Boundaries.of_encoder(tokenizer.vocab)


def is_open_at_start(tokenizer: Tokenizer) -> bool:
    """Whether the texts of an encoder end with a token, and begin with none: in a T5."""
    ends, vocab = of_encoder(tokenizer), tokenizer.vocab
    return ends.first is None and ends.last is not None and vocab is not None and vocab.sep is None


def end_tokens(directory: Path, config: Mapping[str, Json], tokenizer: Tokenizer) -> list[int]:
    """The ids of the tokens that end a text, the end-of-text token first: from `config`, its config.json, and from
    generation_config.json. Both may list several. Raises BundleError for ids that are not tokens of the model.
    """
    settings = directory / "generation_config.json"
    more = artifacts.read_json(settings).get("eos_token_id") if settings.is_file() else None
    named = config.get("eos_token_id")
    if named is None:
        named = more if more is not None or tokenizer.vocab is None else tokenizer.vocab.eos
    if named is None and "nlptools" not in config:
        named = _unknown_as_end(directory, tokenizer)
    ids = [id for each in (named, more or []) for id in (each if isinstance(each, list) else [each])]
    ends: dict[int, None] = {}
    for id in ids or [None]:
        size = config["vocab_size"]
        if not isinstance(id, int) or isinstance(id, bool) or not isinstance(size, int) or not 0 <= id < size:
            raise BundleError(f"{display(str(directory))}: eos_token_id is {id!r:.80}, expected a token of the model")
        ends[id] = None
    return list(ends)


def _unknown_as_end(directory: Path, tokenizer: Tokenizer) -> int | None:
    """The unknown token, with a warning: GPT-1 was published without an end-of-text token."""
    unknown = None if tokenizer.vocab is None else tokenizer.vocab.unk
    if unknown is not None:
        messages.warn(f"{display(str(directory))}: no end-of-text token, the unknown token takes its place")
    return unknown
