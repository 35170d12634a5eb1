"""A SentencePiece model as a tokenizer.json, for programs that do not read the model itself.

Segmentations are the same, except where two have exactly the same probability, and where a combining mark follows a
user-defined symbol.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType

from nlptools.text import sentencepiece_file
from nlptools.text.exported_json import Inexpressible, lower_case
from nlptools.text.packages import FastTokenizer, Normalizer, PreTokenizer, TokenModel, tokenizers_package
from nlptools.text.sentencepiece_file import (
    BPE,
    BYTE,
    NORMAL,
    UNIGRAM,
    UNUSED,
    USER_DEFINED,
    WORD,
    SentencePieceVocabulary,
    TextNormalization,
)
from nlptools.text.vocab import Vocab

_SPACE = "\u2581"  # stands for a space in pieces


def converted(model: bytes, pieces: SentencePieceVocabulary, vocab: Vocab, lowercase: bool) -> FastTokenizer:
    """A `tokenizers.Tokenizer` that gives the ids of a SentencePiece model. Raises Inexpressible.

    Args:
        model, pieces: the bytes of the file, and its pieces, see `sentencepiece_file.check`.
        vocab: the pieces and the roles of some.
        lowercase: lower-case the text first.
    """
    settings = sentencepiece_file.settings(model)
    if vocab.unk is None:
        raise Inexpressible("its model has no unknown piece")
    if pieces.model == WORD:
        raise Inexpressible("a model of words makes one token of neighbouring unknown words")
    if UNUSED in pieces.types:
        raise Inexpressible("its model has unused pieces")
    if not settings.escapes or settings.suffix:
        raise Inexpressible("its model keeps spaces, or puts them after words")
    package = tokenizers_package()
    symbols = [text for text, type in zip(pieces.texts, pieces.types, strict=True) if type == USER_DEFINED]
    alone = symbols if pieces.model != UNIGRAM else []  # in a unigram model, symbols have the best score
    out: FastTokenizer = package.Tokenizer(_model(package, pieces, vocab, whole=bool(alone)))
    cleaned = _cleaned(package, settings)
    normalizer = package.normalizers.Sequence(cleaned)
    if any(_SPACE in symbol or normalizer.normalize_str(symbol) != symbol for symbol in alone):
        raise Inexpressible("its normalizer changes a user-defined symbol, or one has a space")
    if alone:
        _check_merged(_model(package, pieces, vocab, whole=False), pieces)
    steps = [*(lower_case(package) if lowercase else []), *cleaned]
    steps += [package.normalizers.Prepend(_SPACE)] if settings.prefix else []
    steps.append(package.normalizers.Replace(" ", _SPACE))
    inner = any(_SPACE in text[1:] for text in pieces.texts)  # pieces of several words
    out.normalizer = package.normalizers.Sequence(steps)
    split = package.pre_tokenizers.Metaspace(prepend_scheme="never", split=not inner and _SPACE in vocab.ids)
    out.pre_tokenizer = package.pre_tokenizers.Sequence([_apart(package, alone), split]) if alone else split
    parts = package.decoders
    shown = [parts.Replace(_SPACE, " "), parts.ByteFallback(), parts.Fuse()]
    out.decoder = parts.Sequence([*shown, *([parts.Strip(" ", 1, 0)] if settings.prefix else [])])
    return out


def _model(package: ModuleType, pieces: SentencePieceVocabulary, vocab: Vocab, whole: bool) -> TokenModel:
    """The model of a `tokenizers.Tokenizer`; `whole`: a word that is a piece is not cut."""
    bytes_fall_back = BYTE in pieces.types
    model: TokenModel
    if pieces.model == UNIGRAM:
        model = package.models.Unigram(_scored(pieces), unk_id=vocab.unk, byte_fallback=bytes_fall_back)
        return model
    merges = _merges(pieces, vocab.ids) if pieces.model == BPE else []  # a model of characters merges none
    options = {"unk_token": vocab.token(vocab.unk or 0), "fuse_unk": True, "byte_fallback": bytes_fall_back}
    model = package.models.BPE(vocab.ids, merges, ignore_merges=whole, **options)
    return model


def _scored(pieces: SentencePieceVocabulary) -> list[tuple[str, float]]:
    """The pieces of a unigram model and their scores, for a symbol that is never cut the one that SentencePiece gives it."""
    most = max((score for score, kind in zip(pieces.scores, pieces.types, strict=True) if kind == NORMAL), default=0.0)
    rows = zip(pieces.texts, pieces.scores, pieces.types, strict=True)
    return [(text, len(text.encode()) * most - 0.1 if kind == USER_DEFINED else score) for text, score, kind in rows]


def _merges(pieces: SentencePieceVocabulary, ids: Mapping[str, int]) -> list[tuple[str, str]]:
    """The merges of a BPE model: the pairs of pieces that make up a piece, the most likely piece first."""
    normal = {text for text, type in zip(pieces.texts, pieces.types, strict=True) if type == NORMAL}
    merges = []
    for text, score in zip(pieces.texts, pieces.scores, strict=True):
        if text in normal:
            pairs = [(text[:i], text[i:]) for i in range(1, len(text)) if text[:i] in normal and text[i:] in normal]
            merges += [(-score, *pair) for pair in sorted(pairs, key=lambda pair: (ids[pair[0]], ids[pair[1]]))]
    return [(left, right) for _, left, right in sorted(merges, key=lambda merge: merge[0])]


def _check_merged(model: TokenModel, pieces: SentencePieceVocabulary) -> None:
    """Raise Inexpressible if the merges of a BPE model cut one of its pieces, so that a word may not be looked up whole."""
    for text, type in zip(pieces.texts, pieces.types, strict=True):
        if type == NORMAL and len(model.tokenize(text)) != 1:
            raise Inexpressible(f"its merges never make its piece {text}, and it has user-defined symbols")


def _cleaned(package: ModuleType, settings: TextNormalization) -> list[Normalizer]:
    """The normalizers of a model, but for spaces that become part of pieces."""
    steps = [package.normalizers.Precompiled(settings.characters)] if settings.characters else []
    if settings.strips:
        steps += [package.normalizers.Strip(), package.normalizers.Replace(package.Regex(" {2,}"), " ")]
    return steps


def _apart(package: ModuleType, symbols: Sequence[str]) -> PreTokenizer:
    """The pre-tokenizer that separates symbols, the longest where several begin."""
    longest_first = sorted(symbols, key=len, reverse=True)
    pattern = package.Regex("|".join(map(_escaped, longest_first)))
    split: PreTokenizer = package.pre_tokenizers.Split(pattern, "isolated")
    return split


def _escaped(text: str) -> str:
    return "".join(f"\\x{{{ord(c):x}}}" for c in text)
