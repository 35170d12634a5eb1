"""Stop texts, and text that is passed on while it grows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nlptools.inference.generation.continuation import Continuation


class TextWatch:
    """Finds stop texts after every token, and passes on text that can no longer change; a `continuation.Watch`.

    Args:
        text_of: the text of the new tokens of a row.
        stops: the stop texts.
        on_text: called with the text of a single row as it grows, piece by piece; None: nobody waits for it.
    """

    def __init__(
        self, text_of: Callable[[int, Sequence[int]], str], stops: Sequence[str], on_text: Callable[[str], None] | None
    ) -> None:
        self.text_of, self.stops, self.on_text = text_of, stops, on_text
        self.written = 0

    def __call__(self, row: int, new: Continuation) -> bool:
        text = self.text_of(row, new.ids)
        end = stop_at(text, self.stops)
        if self.on_text is not None:
            # an unfinished character, or the possible beginning of a stop text, is held back
            self._write(text, end if end < len(text) else _safe_length(text, self.stops))
        return end < len(text)

    def finish(self, new: Continuation) -> None:
        """Pass on the text that was held back of the single row, which has ended."""
        if self.on_text is not None:
            text = self.text_of(0, new.ids)
            self._write(text, stop_at(text, self.stops))

    def _write(self, text: str, end: int) -> None:
        if self.on_text is not None and end > self.written:
            self.on_text(text[self.written : end])
            self.written = end


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
