"""Unknown tokens of a text: counted, reported, and explained."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np

from nlptools import messages
from nlptools.errors import DataError
from nlptools.text.builtin import NamedTokenizer
from nlptools.text.flat_ids import flat_ids
from nlptools.text.tokenizer import Tokenizer

MANY, MOST = 0.05, 0.5  # share of unknown tokens above which a text gets a warning, or is refused
_SAMPLE = 1000  # lines from which the cause is found
_LONGEST = 1000  # characters of each


class UnknownTokens:
    """Counts the unknown tokens of a text, and keeps its first lines to find the likely cause.

    Attributes:
        unknown: the number of unknown tokens so far.
        tokens: the number of all tokens so far.
    """

    def __init__(self, tokenizer: Tokenizer, text: str) -> None:
        """`text` names the text in messages."""
        assert tokenizer.vocab is not None
        self.unknown = self.tokens = 0
        self.tokenizer, self.text, self._unk = tokenizer, text, tokenizer.vocab.unk
        self._lines: list[str] = []

    def count(self, lines: Sequence[str], ids: np.ndarray | Sequence[Sequence[int]]) -> int:
        """The number of unknown tokens among the ids of `lines`, flat or one row per line."""
        flat = ids if isinstance(ids, np.ndarray) else flat_ids(ids)[0]
        unknown = 0 if self._unk is None else int(np.count_nonzero(flat == self._unk))
        self.unknown += unknown
        self.tokens += len(flat)
        if unknown and len(self._lines) < _SAMPLE:
            self._lines += [line[:_LONGEST] for line in lines[: _SAMPLE - len(self._lines)]]
        return unknown

    def fresh(self, text: str) -> UnknownTokens:
        """One of this kind that has counted nothing yet."""
        new = copy.copy(self)
        new.unknown, new.tokens, new.text, new._lines = 0, 0, text, []
        return new

    def report(self, force: bool | None = None) -> None:
        """See the function `report`."""
        report(self.tokenizer, self.text, self.unknown, self.tokens, self._lines, force)


def report(
    tokenizer: Tokenizer, text: str, unknown: int, tokens: int, lines: Sequence[str], force: bool | None = None
) -> None:
    """Warn if more than 5% of the tokens of a text are unknown, and name the likely cause.

    Unknown tokens written in the text do not count: published corpora replace rare words by them.

    Args:
        text: the name of the text in messages.
        unknown: the number of unknown tokens among `tokens`.
        lines: some lines of the text, to find the cause.
        force: whether a training command has --force; None: not a training command.

    Raises:
        DataError: more than half of the tokens are unknown, and `force` is False.
    """
    if unknown <= MANY * tokens or _share(tokenizer, _without_unknown_token(tokenizer, lines)) <= MANY:
        return
    share = unknown / tokens
    message = f"{share:.0%} of the tokens of {text} are unknown to the tokenizer{_cause(tokenizer, lines, share)}"
    if force is False and unknown > MOST * tokens:
        raise DataError(message, hint="--force trains nevertheless")
    messages.warn(message)


def _without_unknown_token(tokenizer: Tokenizer, lines: Sequence[str]) -> list[str]:
    """`lines` without the written unknown token."""
    vocab = tokenizer.vocab
    assert vocab is not None and vocab.unk is not None
    return [line.replace(vocab.token(vocab.unk), " ") for line in lines]


def _cause(tokenizer: Tokenizer, lines: Sequence[str], share: float) -> str:
    """The end of the message: the change that makes most of the unknown tokens known, if there is one."""
    changes = {"if the text is lower-cased": _share(tokenizer, [line.lower() for line in lines])}
    if isinstance(tokenizer, NamedTokenizer):
        for name in ("whitespace", "words", "char"):
            other = NamedTokenizer(name, tokenizer.vocab, tokenizer.lowercase)
            changes[f"with the tokenizer {name}"] = _share(other, lines)
    change, least = min(changes.items(), key=lambda item: item[1])
    if least < share / 2:
        return f", but only {least:.0%} {change}"
    return "; its vocabulary is probably of another language, script or domain"


def _share(tokenizer: Tokenizer, lines: Sequence[str]) -> float:
    """The share of unknown tokens in `lines`."""
    assert tokenizer.vocab is not None
    ids, _ = flat_ids(tokenizer.encode_lines(lines))
    return float(np.mean(ids == tokenizer.vocab.unk)) if len(ids) else 1.0
