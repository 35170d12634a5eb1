"""Tokens of a prompt and of its continuation as OpenAI's API shows them, with their log-probabilities."""

from __future__ import annotations

from collections.abc import Sequence

from nlptools.inference.generation.token_pieces import Piece, Spelled

_IMPOSSIBLE = -9999.0


def completion_scores(pieces: Sequence[Piece], offset: int, top: bool) -> dict[str, object]:
    """The object under "logprobs" of a choice of a completion.

    Args:
        offset: the place of the first piece in the text.
        top: whether the most likely tokens are asked for.
    """
    offsets = []
    for piece in pieces:
        offsets.append(offset)
        offset += len(piece.text)
    return {
        "tokens": [piece.text for piece in pieces],
        "token_logprobs": [None if piece.logprob is None else _finite(piece.logprob) for piece in pieces],
        "top_logprobs": [_best(piece) for piece in pieces] if top else None,
        "text_offset": offsets,
    }


def _best(piece: Piece) -> dict[str, float] | None:
    """The most likely tokens, and the token itself under what it adds to the text, even if it is not one of them."""
    if piece.logprob is None:
        return None
    best: dict[str, float] = {}
    for token, value in piece.top:
        if token.id == piece.token.id:
            best[piece.text] = _finite(value)
        else:
            taken = token.name in best or token.name == piece.text
            best[token.escaped if taken else token.name] = _finite(value)
    best.setdefault(piece.text, _finite(piece.logprob))
    return best


def chat_scores(pieces: Sequence[Piece]) -> dict[str, object]:
    """The object under "logprobs" of a choice of a chat completion."""
    content = [
        {**_token(piece.token, piece.logprob), "top_logprobs": [_token(*each) for each in piece.top]}
        for piece in pieces
        if not piece.ends
    ]
    return {"content": content, "refusal": None}


def _token(token: Spelled, logprob: float | None) -> dict[str, object]:
    value = None if logprob is None else _finite(logprob)
    return {"token": token.name, "logprob": value, "bytes": list(token.data)}


def _finite(logprob: float) -> float:
    """A log-probability for JSON, at least OpenAI's -9999."""
    return max(logprob, _IMPOSSIBLE)
