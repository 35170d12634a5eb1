"""Stop texts, and text that is passed on while it grows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nlptools.inference.generation.continuation import Continuation


@dataclass(frozen=True)
class Growth:
    """New text and tokens of a growing text.

    Attributes:
        text: more of it.
        tokens: the number of the first token that ends in `text`.
        parts: what that token and the ones after it add to the text, if whole tokens are asked for; `text` is these joined.
        whole: whether the text goes no further.
    """

    text: str
    tokens: int
    parts: Sequence[str]
    whole: bool


# (row, its continuation, what is passed on)
OnGrowth = Callable[[int, Continuation, Growth], None]


class TextWatch:
    """Finds stop texts after every token, and passes on text that can no longer change; a `continuation.Watch`.

    Args:
        text_of: the text of the new tokens of a row.
        stops: the stop texts.
        on_growth: called with the text of a row as it grows, piece by piece; None: not called.
        ended: whether a row must stop, because its client has left.
        by_tokens: pass on whole tokens only.
    """

    def __init__(
        self,
        text_of: Callable[[int, Sequence[int]], str],
        stops: Sequence[str],
        on_growth: OnGrowth | None = None,
        ended: Callable[[int], bool] | None = None,
        by_tokens: bool = False,
    ) -> None:
        self.text_of, self.stops, self.on_growth, self.ended = text_of, stops, on_growth, ended
        self.by_tokens = by_tokens
        self.written: dict[int, int] = {}  # number of characters that were passed on, by row
        self.ends: dict[int, list[int]] = {}  # where each token ends in the text, by row
        self.passed: dict[int, int] = {}  # number of tokens that were passed on, by row

    def __call__(self, row: int, new: Continuation) -> bool:
        over = self.ended is not None and self.ended(row)
        if self.on_growth is None and (over or not self.stops):
            return over
        text = self.text_of(row, new.ids)
        end = stop_at(text, self.stops)
        self.ends.setdefault(row, []).append(len(text.rstrip("\ufffd")))
        # an unfinished character, or the possible beginning of a stop text, is held back
        self._write(row, new, text, end if end < len(text) else _safe_length(text, self.stops))
        return over or end < len(text)

    def finish(self, row: int, new: Continuation) -> None:
        """Pass on what was held back of a row that has ended."""
        if self.on_growth is not None:
            text = self.text_of(row, new.ids)
            self._write(row, new, text, stop_at(text, self.stops), whole=True)

    def _write(self, row: int, new: Continuation, text: str, end: int, whole: bool = False) -> None:
        if self.on_growth is None:
            return
        begin, first = self.written.get(row, 0), self.passed.get(row, 0)
        parts: list[str] = []
        if self.by_tokens:
            ends = token_ends(self.ends.get(row, []), end, whole)[first:]
            kept = ends if whole else [each for each in ends if each <= end]
            end = kept[-1] if kept else begin
            parts = [text[a:b] for a, b in zip([begin, *kept], kept, strict=False)]
        if end > begin or whole:
            self.on_growth(row, new, Growth(text[begin:end], first, parts, whole))
            self.written[row], self.passed[row] = end, first + len(parts)


def token_ends(ends: Sequence[int], end: int, whole: bool = True) -> list[int]:
    """The end of each token in a text that keeps its first `end` characters.

    Args:
        ends: where each token ends in the text up to it, without the replacement of an unfinished character.
        whole: whether the last token ends the text.
    """
    out: list[int] = []
    for each in ends:
        out.append(max(out[-1] if out else 0, min(each, end) if whole else each))
    return [*out[:-1], end] if whole and out else out


def stop_at(text: str, stops: Sequence[str]) -> int:
    """Where `text` is to end: before the first of `stops` in it, or at its end."""
    return min((place for stop in stops if (place := text.find(stop)) >= 0), default=len(text))


def _safe_length(text: str, stops: Sequence[str]) -> int:
    """How much of `text` neither ends in half a character nor in the beginning of a stop text."""
    end = len(text)
    while end and text[end - 1] == "\ufffd":
        end -= 1
    for stop in stops:
        for length in range(min(len(stop) - 1, end), 0, -1):
            if text[:end].endswith(stop[:length]):
                end -= length
                break
    return end
