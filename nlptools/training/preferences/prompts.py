"""Prompts to sample from, in a file, and the text to mix in."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nlptools.batches.completions import ChatSegment, CompletionEncoding
from nlptools.batches.conversations import prompt_text
from nlptools.batches.features import Features
from nlptools.corpora.counts import Counts
from nlptools.errors import DataError
from nlptools.files import artifacts, streams
from nlptools.formats.preferences import read_prompts


@dataclass(frozen=True)
class PromptCounts(Counts):
    """Counts of prompts and of their tokens."""

    prompts: int = 0
    tokens: int = 0
    cut: int = 0  # prompts that lost tokens


@dataclass(frozen=True, eq=False)
class EncodedPrompts:
    """Prompts as text and as tokens, the start token first; and texts that are mixed in, or None."""

    path: Path
    texts: list[str]
    ids: list[list[int]]
    cut: int
    mix: Features | None

    @property
    def counts(self) -> PromptCounts:
        return PromptCounts(len(self.ids), sum(map(len, self.ids)), self.cut)

    @property
    def digest(self) -> str:
        """SHA-256 of all tokens."""
        mixed = None if self.mix is None else self.mix.digest
        return hashlib.sha256(json.dumps([self.ids, mixed]).encode()).hexdigest()


def spool(
    path: Path, names: Sequence[str], mix: str | None, encoding: CompletionEncoding, errors: str
) -> EncodedPrompts:
    """Encode the prompts of files, each with at most `encoding.max_length` tokens, the last ones, into `path`.*.

    Raises:
        DataError: no prompts, or a malformed one; and the errors of `streams.blocks`.
    """
    texts = [prompt_text(turns, encoding.chat, place) for name in names for turns, place in read_prompts(name, errors)]
    if not texts:
        raise DataError("no prompts", path=names[0])
    encoded = encoding.tokenizer.encode_lines(texts, encoding.threads)
    whole = [encoding.started(row) for row in encoded]
    most = encoding.max_length - 1
    ids = [[encoding.start, *row[1:][max(0, len(row) - 1 - most) :]] for row in whole]
    cut = sum(len(row) - 1 > most for row in whole)
    if mix is not None:
        lines = [line for block in streams.blocks(mix, errors) for line in block.lines if line]
        if not lines:
            raise DataError("no text to mix in", path=mix)
        encoding.sequences([[ChatSegment(line, True)] for line in lines]).save(Path(f"{path}.mix"))
    artifacts.write_json(Path(f"{path}.json"), {"texts": texts, "ids": ids, "cut": cut, "mix": mix is not None})
    return reopen(path)


def reopen(path: Path) -> EncodedPrompts:
    """The prompts in files of `spool`."""
    saved: dict[str, Any] = artifacts.read_json(Path(f"{path}.json"))
    mix = Features.open(Path(f"{path}.mix")) if saved["mix"] else None
    return EncodedPrompts(path, saved["texts"], saved["ids"], saved["cut"], mix)
