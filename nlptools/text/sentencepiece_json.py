"""A SentencePiece model as a tokenizer.json, for programs that do not read the model itself.

Segmentations are the same, except where two have exactly the same probability. There is none for models of characters and of
words, and for models with settings that the tokenizers package lacks.
"""

from __future__ import annotations

from typing import Any

from nlptools.text import sentencepiece_file
from nlptools.text.sentencepiece_file import BPE, BYTE, NORMAL, UNIGRAM, UNUSED, USER_DEFINED, SentencePieceVocabulary

_SPACE = "\u2581"  # stands for a space in pieces


def converted(package: Any, model: bytes, pieces: SentencePieceVocabulary, unknown: int, lowercase: bool) -> Any:
    """A `tokenizers.Tokenizer` of the `package` that gives the ids of a SentencePiece model; None: there is none.

    Args:
        model, pieces: the bytes of the file, and its pieces, see `sentencepiece_file.check`.
        unknown: the id of the unknown piece.
        lowercase: lower-case the text first.
    """
    settings = sentencepiece_file.settings(model)
    if pieces.model not in (UNIGRAM, BPE) or UNUSED in pieces.types or not settings.escapes or settings.suffix:
        return None
    if pieces.model == BPE and USER_DEFINED in pieces.types:
        return None
    bytes_fall_back = BYTE in pieces.types
    if pieces.model == UNIGRAM:
        scored = _scored(pieces)
        out = package.Tokenizer(package.models.Unigram(scored, unk_id=unknown, byte_fallback=bytes_fall_back))
    else:
        ids = {text: id for id, text in enumerate(pieces.texts)}
        options = {"unk_token": pieces.texts[unknown], "fuse_unk": True, "byte_fallback": bytes_fall_back}
        out = package.Tokenizer(package.models.BPE(ids, _merges(pieces, ids), **options))
    steps = [package.normalizers.Lowercase()] if lowercase else []
    if settings.characters:
        steps.append(package.normalizers.Precompiled(settings.characters))
    if settings.strips:
        spaces = package.Regex(" {2,}")
        steps += [package.normalizers.Strip(), package.normalizers.Replace(spaces, " ")]
    steps += [package.normalizers.Prepend(_SPACE)] if settings.prefix else []
    steps.append(package.normalizers.Replace(" ", _SPACE))
    inner = any(_SPACE in text[1:] for text in pieces.texts)  # pieces of several words
    out.normalizer = package.normalizers.Sequence(steps)
    out.pre_tokenizer = package.pre_tokenizers.Metaspace(prepend_scheme="never", split=not inner)
    parts = package.decoders
    shown = [parts.Replace(_SPACE, " "), parts.ByteFallback(), parts.Fuse()]
    out.decoder = parts.Sequence([*shown, *([parts.Strip(" ", 1, 0)] if settings.prefix else [])])
    return out


def _scored(pieces: SentencePieceVocabulary) -> list[tuple[str, float]]:
    """The pieces of a unigram model and their scores, for a symbol that is never cut the one that SentencePiece gives it."""
    most = max((score for score, kind in zip(pieces.scores, pieces.types, strict=True) if kind == NORMAL), default=0.0)
    rows = zip(pieces.texts, pieces.scores, pieces.types, strict=True)
    return [(text, len(text.encode()) * most - 0.1 if kind == USER_DEFINED else score) for text, score, kind in rows]


def _merges(pieces: SentencePieceVocabulary, ids: dict[str, int]) -> list[tuple[str, str]]:
    """The merges of a BPE model: the pairs of pieces that make up a piece, the most likely piece first."""
    merges = []
    for text, score in zip(pieces.texts, pieces.scores, strict=True):
        pairs = [(text[:i], text[i:]) for i in range(1, len(text)) if text[:i] in ids and text[i:] in ids]
        merges += [(-score, *pair) for pair in sorted(pairs, key=lambda pair: (ids[pair[0]], ids[pair[1]]))]
    return [(left, right) for _, left, right in sorted(merges, key=lambda merge: merge[0])]
