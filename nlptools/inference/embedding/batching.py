"""Lines cut into what a model can see, and these in batches of sequences end to end, those of equal length together.

A piece is a line, or a window of a long one, with the special tokens around it.
Shapes: N tokens of a batch, B its sequences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from nlptools.configs.embed import Embed
from nlptools.errors import BundleError, UsageError, display
from nlptools.layers.packed import Group
from nlptools.models import registry
from nlptools.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from nlptools.bundle import Bundle
    from nlptools.inference.embedding.sentence_steps import SentenceSteps

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Cutting:
    """How lines become sequences of ids.

    Attributes:
        before, after: special tokens around each piece.
        alone: the sequence of an empty line, where the special tokens around it are none; or not to be pooled.
        most: tokens of a piece, special ones included; None: any number.
        windows: whether long lines become several pieces instead of being cut.
        prompt: what is put before each line.
        prompt_length: its tokens.
        skips_before: whether `before` is left out when a piece is pooled; it stands for an empty line all the same.
        skips_prompt: whether the prompt is left out, and `before` with it.
        lowercase: whether lines are lower-cased first.
        keeps_ids: whether the ids of the lines are asked for.
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
    def of(cls, loaded: Bundle, steps: SentenceSteps | None, settings: Embed, pools_prompt: bool) -> Cutting:
        """How a model, its sentence-transformers directory (`steps`), and the settings want it.

        Raises:
            BundleError: no special tokens.
            UsageError: a length that the model cannot see, or a prompt that leaves no room.
        """
        tokenizer = loaded.tokenizer
        vocab, model = tokenizer.vocab, encoder(loaded)
        before: list[int] = []
        after: list[int] = []
        alone: list[int] = []
        if loaded.is_encoder:
            if vocab is None or vocab.cls is None or vocab.sep is None:
                raise BundleError(f"{display(str(loaded.path))}: the tokenizer has no [CLS] and [SEP]")
            before, after = [vocab.cls], [vocab.sep]
        else:
            alone = [loaded.eos]
            before = alone if loaded.starts_with_eos else []
        most = _most(model.max_context, steps, settings.max_length)
        prompt = _prompt(settings.prompt, steps)
        lowercase = steps is not None and steps.lowercase
        length = len(tokenizer.encode(prompt.lower() if lowercase else prompt)) if prompt else 0
        if most is not None and length + len(before) + len(after) >= most:
            raise UsageError(f"the prompt has {length} tokens, the model sees {most}: no room for a line")
        return cls(
            tokenizer,
            before,
            after,
            alone,
            most,
            settings.long == "window",
            prompt,
            length,
            not loaded.is_encoder,
            not pools_prompt,
            lowercase,
            settings.unit != "sentence",
        )


@dataclass
class Batch:
    """Sequences end to end."""

    ids: Array  # (N,)
    positions: Array  # (N,), each sequence's from 0
    groups: list[Group]
    skips: list[int]  # of each group, tokens at the beginning that are not pooled
    pieces: Array  # (B,) numbers of the pieces
    firsts: list[int]  # of each group, the place of its first sequence in `pieces`


@dataclass
class Prepared:
    """The pieces of some lines; lists are by piece, but for `ids`."""

    lines: list[int] = field(default_factory=list)  # which line it is of
    own: list[tuple[int, int]] = field(default_factory=list)  # where the line's own tokens stand in it: from, to
    skips: list[int] = field(default_factory=list)  # tokens at the beginning that are not pooled
    sequences: list[list[int]] = field(default_factory=list)
    ids: list[list[int]] = field(default_factory=list)  # by line, if asked for: own tokens, cut
    cut: int = 0  # lines
    batches: list[Batch] = field(default_factory=list)


def encoder(loaded: Bundle) -> Any:
    """What gives the hidden states: an encoder without its heads, or a language model. Raises UsageError."""
    if loaded.is_encoder_decoder:
        raise UsageError(
            f"{display(str(loaded.path))} is an encoder-decoder",
            hint="embed takes a BERT, an ELECTRA, a sentence-transformers directory, a language model or word vectors",
        )
    model: Any = loaded.model
    return model.encoder if loaded.family in (registry.ENCODER, registry.TASK_DECODER) else model


def prepare(lines: Sequence[str], cutting: Cutting, batch_tokens: int, threads: int) -> Prepared:
    """The pieces of `lines`, and batches of roughly `batch_tokens` of them, longest first."""
    texts = [cutting.prompt + line for line in lines] if cutting.prompt else lines
    if cutting.lowercase:
        texts = [text.lower() for text in texts]
    found = Prepared()
    room = None if cutting.most is None else cutting.most - len(cutting.before) - len(cutting.after)
    for number, ids in enumerate(cutting.tokenizer.encode_lines(texts, threads)):
        prompt = min(cutting.prompt_length, len(ids))
        if room is not None and len(ids) > room:
            if cutting.windows:
                for start in range(0, len(ids), room):
                    _add(found, number, ids[start : start + room], prompt if start == 0 else 0, cutting)
                continue
            ids = ids[:room]
            found.cut += 1
        _add(found, number, ids, prompt, cutting)
    found.batches = _batches(found, batch_tokens)
    return found


def _add(found: Prepared, line: int, ids: list[int], prompt: int, cutting: Cutting) -> None:
    """Make a piece of `ids`, of which the first `prompt` are not the line's own."""
    begin = len(cutting.before)
    found.lines.append(line)
    found.own.append((begin + prompt, begin + len(ids)))
    found.skips.append(begin if (cutting.skips_before and ids) else 0)
    if cutting.skips_prompt and prompt:
        found.skips[-1] = begin + prompt
    found.sequences.append([*cutting.before, *ids, *cutting.after] or cutting.alone)
    if cutting.keeps_ids:
        if line == len(found.ids):
            found.ids.append([])
        found.ids[line] += ids[prompt:]


def _batches(found: Prepared, most: int) -> list[Batch]:
    lengths = np.array([len(sequence) for sequence in found.sequences], np.int64)
    # a skip that would leave nothing to be pooled leaves the last token
    skips = np.minimum(np.array(found.skips, np.int64), lengths - 1)
    order = np.lexsort((skips, -lengths))
    batches, start = [], 0
    total = np.cumsum(lengths[order])
    while start < len(order):
        before = total[start - 1] if start else 0
        end = max(start + 1, int(np.searchsorted(total, before + most, "right")))
        batches.append(_batch(found.sequences, order[start:end], lengths, skips))
        start = end
    return batches


def _batch(sequences: list[list[int]], pieces: Array, lengths: Array, skips: Array) -> Batch:
    rows, left = lengths[pieces], skips[pieces]
    starts = np.flatnonzero(np.diff(rows, prepend=-1) | np.diff(left, prepend=-1))
    counts = np.diff(starts, append=len(pieces))
    groups, place = [], 0
    for first, count in zip(starts.tolist(), counts.tolist(), strict=True):
        groups.append(Group(place, count, int(rows[first])))
        place = groups[-1].end
    ids = np.fromiter(chain.from_iterable(sequences[i] for i in pieces), np.int64, place)
    positions = np.concatenate([np.tile(np.arange(group.length), group.count) for group in groups])
    return Batch(ids, positions, groups, left[starts].tolist(), pieces, starts.tolist())


def _most(sees: int | None, steps: SentenceSteps | None, asked: int) -> int | None:
    """Tokens of a piece: as asked for, else as sentence-transformers says, else as many as the model can see."""
    if asked and sees is not None and asked > sees:
        raise UsageError(f"--max-length {asked} is more than the {sees} tokens that the model can see")
    said = asked or (steps.max_length if steps is not None else None) or sees
    return said if sees is None or said is None else min(said, sees)


def _prompt(asked: str | None, steps: SentenceSteps | None) -> str:
    """The text that is put before each line."""
    prompts = steps.prompts if steps is not None else {}
    if asked is not None:
        return prompts.get(asked, asked)
    default = steps.default_prompt if steps is not None else None
    return prompts[default] if default is not None else ""
