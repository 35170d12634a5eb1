"""Lines cut to the model's maximum length, in batches of concatenated sequences grouped by length.

A piece is a line, or a window of a long line, with special tokens around it.
Shapes: N tokens of a batch, B its sequences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from nlptools.arrays import Array
from nlptools.configs.embed import Embed
from nlptools.errors import UsageError
from nlptools.layers.packed import EqualLengths
from nlptools.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from nlptools.inference.embedding.line_readers import LineReader
    from nlptools.inference.embedding.sentence_steps import SentenceSteps


@dataclass(frozen=True)
class Cutting:
    """The conversion of lines to sequences of ids.

    Attributes:
        before, after, alone, skips_before: see `line_readers.LineReader`.
        most: maximum number of tokens of a piece, including special tokens; None: no limit.
        windows: whether long lines become several pieces instead of being cut.
        prompt: text that is put before each line.
        prompt_length: number of its tokens.
        skips_prompt: whether the prompt is not pooled, nor `before`.
        lowercase: whether lines are lower-cased first.
        keeps_ids: whether the ids of the lines are needed.
    """

    tokenizer: Tokenizer
    before: list[int]
    after: list[int]
    alone: list[int]
    most: int | None
    windows: bool = False
    prompt: str = ""
    prompt_length: int = 0
    skips_before: bool = False
    skips_prompt: bool = False
    lowercase: bool = False
    keeps_ids: bool = False

    @classmethod
    def of(
        cls,
        tokenizer: Tokenizer,
        reader: LineReader,
        steps: SentenceSteps | None,
        settings: Embed,
        pools_prompt: bool,
    ) -> Cutting:
        """The cutting for a model (`reader`), its sentence-transformers directory (`steps`), and the settings.

        Raises:
            UsageError: a length beyond the model's maximum, or a prompt that leaves no room.
        """
        before, after = reader.before, reader.after
        most = _most(reader.model.max_context, steps, settings.max_length)
        prompt = _prompt(settings.prompt, steps)
        lowercase = steps is not None and steps.lowercase
        length = len(tokenizer.encode(prompt.lower() if lowercase else prompt)) if prompt else 0
        if most is not None and length + len(before) + len(after) >= most:
            raise UsageError(f"the prompt has {length} tokens, the model's maximum is {most}: no room for a line")
        return cls(
            tokenizer,
            before,
            after,
            reader.alone,
            most,
            settings.long == "window",
            prompt,
            length,
            reader.skips_before,
            not pools_prompt,
            lowercase,
            settings.unit != "sentence",
        )


@dataclass
class PackedTexts:
    """Concatenated sequences."""

    ids: Array  # (N,)
    positions: Array  # (N,), from 0 in each sequence
    groups: list[EqualLengths]
    skips: list[int]  # number of tokens at the beginning that are not pooled, for each group
    pieces: Array  # (B,) numbers of the pieces
    firsts: list[int]  # index in `pieces` of the first sequence of each group


@dataclass
class PreparedLines:
    """The pieces of some lines. Lists have an entry per piece, except `ids`."""

    lines: list[int] = field(default_factory=list)  # number of the line
    own: list[tuple[int, int]] = field(default_factory=list)  # range of the line's own tokens in the piece
    skips: list[int] = field(default_factory=list)  # number of tokens at the beginning that are not pooled
    sequences: list[list[int]] = field(default_factory=list)
    ids: list[list[int]] = field(default_factory=list)  # if needed, the line's own tokens after cutting, per line
    cut: int = 0  # number of lines that were cut
    batches: list[PackedTexts] = field(default_factory=list)


def prepare(lines: Sequence[str], cutting: Cutting, batch_tokens: int, threads: int) -> PreparedLines:
    """The pieces of `lines`, in batches of about `batch_tokens` tokens, longest first."""
    texts = [cutting.prompt + line for line in lines] if cutting.prompt else lines
    if cutting.lowercase:
        texts = [text.lower() for text in texts]
    prepared = PreparedLines()
    room = None if cutting.most is None else cutting.most - len(cutting.before) - len(cutting.after)
    for number, ids in enumerate(cutting.tokenizer.encode_lines(texts, threads)):
        prompt = min(cutting.prompt_length, len(ids))
        if room is not None and len(ids) > room:
            if cutting.windows:
                for start in range(0, len(ids), room):
                    _add(prepared, number, ids[start : start + room], prompt if start == 0 else 0, cutting)
                continue
            ids = ids[:room]
            prepared.cut += 1
        _add(prepared, number, ids, prompt, cutting)
    prepared.batches = _batches(prepared, batch_tokens)
    return prepared


def _add(prepared: PreparedLines, line: int, ids: list[int], prompt: int, cutting: Cutting) -> None:
    """Add a piece with `ids`; the first `prompt` ids belong to the prompt."""
    begin = len(cutting.before)
    prepared.lines.append(line)
    prepared.own.append((begin + prompt, begin + len(ids)))
    prepared.skips.append(begin if (cutting.skips_before and ids) else 0)
    if cutting.skips_prompt and prompt:
        prepared.skips[-1] = begin + prompt
    prepared.sequences.append([*cutting.before, *ids, *cutting.after] or cutting.alone)
    if cutting.keeps_ids:
        if line == len(prepared.ids):
            prepared.ids.append([])
        prepared.ids[line] += ids[prompt:]


def _batches(prepared: PreparedLines, most: int) -> list[PackedTexts]:
    lengths = np.array([len(sequence) for sequence in prepared.sequences], np.int64)
    # at least the last token is pooled
    skips = np.minimum(np.array(prepared.skips, np.int64), lengths - 1)
    order = np.lexsort((skips, -lengths))
    batches, start = [], 0
    total = np.cumsum(lengths[order])
    while start < len(order):
        before = total[start - 1] if start else 0
        end = max(start + 1, int(np.searchsorted(total, before + most, "right")))
        batches.append(_batch(prepared.sequences, order[start:end], lengths, skips))
        start = end
    return batches


def _batch(sequences: list[list[int]], pieces: Array, lengths: Array, skips: Array) -> PackedTexts:
    rows, left = lengths[pieces], skips[pieces]
    starts = np.flatnonzero(np.diff(rows, prepend=-1) | np.diff(left, prepend=-1))
    counts = np.diff(starts, append=len(pieces))
    groups, place = [], 0
    for first, count in zip(starts.tolist(), counts.tolist(), strict=True):
        groups.append(EqualLengths(place, count, int(rows[first])))
        place = groups[-1].end
    ids = np.fromiter(chain.from_iterable(sequences[i] for i in pieces), np.int64, place)
    positions = np.concatenate([np.tile(np.arange(group.length), group.count) for group in groups])
    return PackedTexts(ids, positions, groups, left[starts].tolist(), pieces, starts.tolist())


def _most(context: int | None, steps: SentenceSteps | None, requested: int) -> int | None:
    """Maximum number of tokens of a piece: `requested`, else the sentence-transformers maximum, else the model's."""
    if requested and context is not None and requested > context:
        raise UsageError(f"--max-length {requested} is more than the model's maximum of {context} tokens")
    most = requested or (steps.max_length if steps is not None else None) or context
    return most if context is None or most is None else min(most, context)


def _prompt(requested: str | None, steps: SentenceSteps | None) -> str:
    """The text that is put before each line."""
    prompts = steps.prompts if steps is not None else {}
    if requested is not None:
        return prompts.get(requested, requested)
    default = steps.default_prompt if steps is not None else None
    return prompts[default] if default is not None else ""
