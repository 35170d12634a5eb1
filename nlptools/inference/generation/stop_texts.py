"""Stop texts, and text that is passed on while it grows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nlptools.inference.generation.continuation import Continuation


class TextWatch:
    """Finds stop texts after every token, and passes on text that can no longer change; a `continuation.Watch`.

    Args:
        text_of: the text of the new tokens of a row.
        stops: the stop texts.
        on_text: called with a row and its text as it grows, piece by piece; None: nobody waits for it.
        ended: whether a row is to end where it is, because nobody waits for the rest.
    """

    def __init__(
        self,
        text_of: Callable[[int, Sequence[int]], str],
        stops: Sequence[str],
        on_text: Callable[[int, str], None] | None = None,
        ended: Callable[[int], bool] | None = None,
    ) -> None:
        self.text_of, self.stops, self.on_text, self.ended = text_of, stops, on_text, ended
        self.written: dict[int, int] = {}  # number of characters that were passed on, by row

    def __call__(self, row: int, new: Continuation) -> bool:
        if self.ended is not None and self.ended(row):
            return True
        if self.on_text is None and not self.stops:
            return False
        text = self.text_of(row, new.ids)
        end = stop_at(text, self.stops)
        # an unfinished character, or the possible beginning of a stop text, is held back
        self._write(row, text, end if end < len(text) else _safe_length(text, self.stops))
        return end < len(text)

    def finish(self, row: int, new: Continuation) -> None:
        """Pass on the text that was held back of a row that has ended."""
        if self.on_text is not None:
            text = self.text_of(row, new.ids)
            self._write(row, text, stop_at(text, self.stops))

    def _write(self, row: int, text: str, end: int) -> None:
        begin = self.written.get(row, 0)
        if self.on_text is not None and end > begin:
            self.on_text(row, text[begin:end])
            self.written[row] = end


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
