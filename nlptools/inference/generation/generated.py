"""Continuations as text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from nlptools.bundle import Bundle
from nlptools.configs.generation import Generate
from nlptools.inference.generation.continuation import Continuation
from nlptools.inference.generation.pieces import PieceSpeller
from nlptools.inference.generation.stop_texts import stop_at, token_ends
from nlptools.inference.generation.token_pieces import Piece
from nlptools.inference.line_score import token_name


@dataclass(frozen=True)
class Generated:
    """A continuation as text; it follows the unchanged prompt, and begins with the space between them."""

    text: str
    finish: str  # length, eos, stop
    tokens: list[str]
    logprobs: list[float]  # natural logs; only with `Generate.logprobs`
    usage: tuple[int, int] = (0, 0)  # tokens of the prompt, and new ones
    # only with `Generate.top_logprobs`: the likeliest tokens at each place, and their log-probabilities
    top: list[dict[str, float]] = field(default_factory=list)
    # only with `Generate.logprobs`: the tokens as parts of the text; with `Generate.echo` also the tokens of the prompt
    pieces: list[Piece] = field(default_factory=list)
    prompt: list[Piece] = field(default_factory=list)

    def fields(self, logprobs: bool) -> dict[str, object]:
        """The keys and values for JSON; with `logprobs` also the tokens and their log-probabilities."""
        values: dict[str, object] = {"text": self.text, "finish": self.finish}
        if logprobs:
            values |= {"tokens": self.tokens, "logprobs": self.logprobs}
        return {**values, "top_logprobs": self.top} if logprobs and self.top else values


def as_text(
    new: Continuation,
    text_of: Callable[[Sequence[int]], str],
    prompt_length: int,
    settings: Generate,
    pieces: PieceSpeller,
    prompt: Sequence[Piece] = (),
) -> Generated:
    """A continuation as text, up to the first stop text.

    Args:
        text_of: what new tokens add to the text of the prompt.
        prompt_length: number of tokens of the prompt.
        prompt: its tokens, if they are asked for.
    """
    vocab = pieces.vocab
    text = text_of(new.ids)
    end = stop_at(text, settings.stop)
    finish = "stop" if end < len(text) else new.finish
    tokens = [token_name(vocab, i) for i in new.ids]
    usage = prompt_length, len(new.ids) + (new.finish == "eos")
    if not settings.logprobs:
        return Generated(text[:end], finish, tokens, [], usage)
    ends = [len(text_of(new.ids[: i + 1]).rstrip("\ufffd")) for i in range(len(new.ids))]
    texts = [text[a:b] for a, b in pairwise([0, *token_ends(ends, end)])]
    top = [{token_name(vocab, i): value for i, value in best} for best in new.top]
    written = pieces.of_continuation(new, 0, texts, whole=True)
    return Generated(text[:end], finish, tokens, new.logprobs, usage, top, written, list(prompt))


def continuation_text(loaded: Bundle, prompt: Sequence[int], new: Sequence[int]) -> str:
    """What `new` adds to the text of `prompt`, the space between them included."""
    decode, before = loaded.tokenizer.decode, text_ids(loaded, prompt)
    text, whole = decode(before), decode([*before, *new])
    return whole[len(text) :] if whole.startswith(text) else decode(new)


def text_ids(loaded: Bundle, prompt: Sequence[int]) -> list[int]:
    """The tokens of a prompt that are text."""
    return [i for i in prompt if i not in (loaded.eos, loaded.start)]
