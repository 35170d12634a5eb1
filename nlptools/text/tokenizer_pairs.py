"""Pairs of tokenizers, one for each side of an encoder-decoder: what they have to agree on, and their files.

Both sides have one token for padding and one for the end of a sentence, under the same ids. SentencePiece models become
those of a MarianMT directory; tokenizers of other kinds are kept as they are anywhere else, that of the target in the
folder `target`.
"""

from __future__ import annotations

from pathlib import Path

from nlptools.errors import BundleError, display
from nlptools.text import marian
from nlptools.text.builtin import NamedTokenizer
from nlptools.text.marian import PAD, Marian, with_pad
from nlptools.text.pieces import SentencePiece
from nlptools.text.tokenizer import Tokenizer, load
from nlptools.text.vocab import Vocab

FOLDER = "target"  # where a tokenizer of another kind is kept when the target has its own
_SAME = "train the tokenizers of both sides with the same special tokens"


def pair(source: Tokenizer, target: Tokenizer | None = None) -> tuple[Tokenizer, Tokenizer]:
    """Both tokenizers as a model uses them: SentencePiece ones as Marian's, and the padding of both under one id.

    A vocabulary's own padding stays where it is, only that of a SentencePiece model must be its last piece (another one
    keeps its id under another name). Vocabularies without one get it where that of the target ends: in a longer one of
    the source it is put in between, a shorter one is filled up. Tokenizers that cannot be added to stay as they are;
    then the padding is an id that they do not know.

    Args:
        target: None: one tokenizer, and one vocabulary, for both sides.

    Raises:
        BundleError: no ids, or paddings that do not agree.
    """
    joint = target is None or target is source
    sides = [source] if target is None or joint else [source, target]
    for side in sides:
        if side.vocab is None:
            raise BundleError(f"the tokenizer {side.kind!r} has no vocabulary", hint="give it one: --vocab FILE")
    found = [_own_pad(side) for side in sides]
    # a SentencePiece model's own one gives way to that of the other side, and to the end of the target
    end = len(sides[-1].vocab or ())
    if isinstance(source, SentencePiece) and found[0] != (end if found[-1] is None else found[-1]):
        found[0] = None
    if isinstance(target, SentencePiece) and None not in found and found[0] != found[-1]:
        found[-1] = None
    pads = {pad for pad in found if pad is not None}
    if len(pads) > 1:
        raise BundleError(f"the padding of the source is {found[0]}, that of the target {found[1]}", hint=_SAME)
    place = pads.pop() if pads else end
    if place > end:
        raise BundleError(f"the padding of the source is {place}, the target has fewer tokens", hint=_SAME)
    made = [_padded(side, place, pad) for side, pad in zip(sides, found, strict=True)]
    return made[0], made[-1]


def special_ids(source: Tokenizer, target: Tokenizer | None = None) -> tuple[int, int, int, int]:
    """(padding, end of sentence, tokens of the source, tokens of the target) of a model with these tokenizers.

    Raises:
        BundleError: no end of sentence, or the two sides do not agree.
        ValueError: `pair` would give the source other ids; call it first.
    """
    first, last = pair(source, target)
    assert first.vocab is not None and last.vocab is not None and source.vocab is not None
    ends = [vocab.eos if vocab.eos is not None else vocab.sep for vocab in (first.vocab, last.vocab)]
    for side, end in zip((first, last), ends, strict=True):
        if end is None:
            raise BundleError(
                f"the tokenizer {side.kind!r} has no token for the end of a sentence",
                hint="expected </s>, as build-vocab gives it by default, or another of the usual names",
            )
    if ends[0] != ends[1]:
        raise BundleError(f"the end of sentence of the source is {ends[0]}, that of the target {ends[1]}", hint=_SAME)
    own = [pad for vocab in (last.vocab, first.vocab) if (pad := _pad(vocab)) is not None]
    pad = own[0] if own else len(last.vocab)
    if _own_pad(source) != pad and len(source.vocab) > pad:
        raise ValueError("ids of the source change: call pair() first")
    assert ends[0] is not None
    return pad, ends[0], max(len(first.vocab), pad + 1), max(len(last.vocab), pad + 1)


def _own_pad(tokenizer: Tokenizer) -> int | None:
    """The padding that a tokenizer has and keeps."""
    assert tokenizer.vocab is not None
    pad = _pad(tokenizer.vocab)
    return pad if not isinstance(tokenizer, SentencePiece) or pad == len(tokenizer.vocab) - 1 else None


def _pad(vocab: Vocab) -> int | None:
    """The padding, unless it is the end of sentence, which some configurations make serve as both."""
    return None if vocab.pad in (vocab.eos, vocab.sep) else vocab.pad


def _padded(tokenizer: Tokenizer, place: int, own: int | None) -> Tokenizer:
    """`tokenizer` with its padding at `place`, where it has it already if `own` is not None. Raises BundleError."""
    vocab = tokenizer.vocab
    assert vocab is not None
    if isinstance(tokenizer, SentencePiece):
        # the unknown word is named, as the model may have another name for it than the usual
        named = {"unk_token": vocab.token(vocab.unk)} if vocab.unk is not None else {}
        if vocab.eos is not None:
            named["eos_token"] = vocab.token(vocab.eos)
        tokens = vocab.tokens if own is not None else with_pad(vocab.tokens, place)
        settings = {**named, "pad_token": vocab.token(own) if own is not None else PAD}
        return Marian(tokenizer, {token: id for id, token in enumerate(tokens)}, settings)
    if own is not None:
        return tokenizer
    if isinstance(tokenizer, NamedTokenizer) and tokenizer.kind != "bytes":
        counts = vocab.counts[:place] + [0] * (max(place - len(vocab), 0) + 1) + vocab.counts[place:]
        return NamedTokenizer(tokenizer.kind, Vocab(with_pad(vocab.tokens, place), counts), tokenizer.lowercase)
    if len(vocab) > place:
        raise BundleError(
            f"the padding of the target is {place}, which is a token of the source",
            hint="train both tokenizers with a padding token, or with the same number of tokens",
        )
    return tokenizer


# -- directories ------------------------------------------------------------------------------------------------------


def load_pair(directory: str | Path, lowercase: bool = False) -> tuple[Tokenizer, Tokenizer]:
    """The tokenizers of the source and of the target in a model directory; one object where they are the same.

    Args:
        lowercase: lower-case the text first. A directory that was saved so needs no reminder.

    Raises:
        BundleError: a damaged, unsafe, missing or unknown file.
    """
    path = Path(directory)
    source, target = _load(path, lowercase)
    return (source, _load(path / FOLDER, lowercase)[0]) if (path / FOLDER).is_dir() else (source, target)


def save_pair(directory: str | Path, source: Tokenizer, target: Tokenizer | None = None) -> list[str]:
    """Write both tokenizers into `directory`, as `pair` makes them; returns the names of the files, relative to it.

    Raises:
        BundleError: see `pair`.
        StreamError: disk full or another write error.
    """
    path = Path(directory)
    source, target = pair(source, target)
    if isinstance(source, Marian) and isinstance(target, Marian) and source.lowercase == target.lowercase:
        return marian.write_directory(path, source, target)
    names = source.save(path)
    if target is not source:
        (path / FOLDER).mkdir(exist_ok=True)
        names += [f"{FOLDER}/{name}" for name in target.save(path / FOLDER)]
    return names


def _load(path: Path, lowercase: bool) -> tuple[Tokenizer, Tokenizer]:
    """The tokenizers in one folder."""
    if (path / marian.SOURCE).is_file():
        return marian.read_directory(path, lowercase)
    if (path / "spiece.model").is_file() and not (path / "tokenizer.json").is_file():
        raise BundleError(  # Pegasus adds 103 to its ids, T5 and others have rules of their own
            f"{display(str(path))}: spiece.model: a SentencePiece model whose ids are not those of its model",
            hint="save the tokenizer as tokenizer.json",
        )
    tokenizer = load(path, lowercase=lowercase)
    return tokenizer, tokenizer
