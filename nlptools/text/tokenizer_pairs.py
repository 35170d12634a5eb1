"""Pairs of tokenizers, one for each side of an encoder-decoder: their shared special tokens and their files.

The padding token has the same id on both sides, and so has the end-of-sentence token. SentencePiece models are saved as in
a MarianMT directory, other tokenizers in their usual files, with the target tokenizer in the folder `target`.
"""

from __future__ import annotations

from pathlib import Path

from nlptools.errors import BundleError, display
from nlptools.files import atomic
from nlptools.json_types import JsonObject
from nlptools.text import classic_files, classic_pieces, huggingface, marian
from nlptools.text.boundaries import Boundaries
from nlptools.text.builtin import NamedTokenizer
from nlptools.text.marian import PAD, Marian, with_pad
from nlptools.text.pair_format import PairFormat
from nlptools.text.pieces import SentencePiece
from nlptools.text.tokenizer import Tokenizer, load_path
from nlptools.text.vocab import Vocab

FOLDER = "target"  # folder of a target tokenizer that is not a SentencePiece model
_SAME = "train the tokenizers of both sides with the same special tokens"


def pair(source: Tokenizer, target: Tokenizer | None = None) -> tuple[Tokenizer, Tokenizer]:
    """Both tokenizers in the form that a model uses: SentencePiece models as `Marian`, and the padding of both under one id.

    An existing padding token keeps its id; in a SentencePiece model it must be the last piece (a padding token elsewhere
    keeps its id under another name). If there is none, the padding id is the size of the target vocabulary: a longer source
    vocabulary gets the padding token inserted there, a shorter one is extended with fillers. Tokenizers that cannot be
    extended are returned unchanged; the padding id is then beyond their vocabulary.

    Args:
        target: None: one tokenizer, and one vocabulary, for both sides.

    Raises:
        BundleError: no vocabulary, or different padding ids.
    """
    joint = target is None or target is source
    sides = [source] if target is None or joint else [source, target]
    for side in sides:
        if side.vocab is None:
            raise BundleError(f"the tokenizer {side.kind!r} has no vocabulary", hint="give it a --vocab FILE")
    own = [_own_pad(side) for side in sides]
    # the padding of a SentencePiece model yields to the padding of the other side, and to the end of the target
    end = len(sides[-1].vocab or ())
    if isinstance(source, SentencePiece) and own[0] != (end if own[-1] is None else own[-1]):
        own[0] = None
    if isinstance(target, SentencePiece) and None not in own and own[0] != own[-1]:
        own[-1] = None
    pads = {pad for pad in own if pad is not None}
    if len(pads) > 1:
        raise BundleError(f"the padding ids differ: source {own[0]}, target {own[1]}", hint=_SAME)
    place = pads.pop() if pads else end
    if place > end:
        raise BundleError(f"the padding id of the source is {place}, but the target has {end} tokens", hint=_SAME)
    padded = [_padded(side, place, pad) for side, pad in zip(sides, own, strict=True)]
    return padded[0], padded[-1]


def special_ids(source: Tokenizer, target: Tokenizer | None = None) -> tuple[int, int, int, int]:
    """(padding, end of sentence, tokens of the source, tokens of the target) of a model with these tokenizers.

    Raises:
        BundleError: no end-of-sentence token, or different ones.
        ValueError: `pair` would change the ids of the source; call it first.
    """
    first, last = pair(source, target)
    assert first.vocab is not None and last.vocab is not None and source.vocab is not None
    ends = [vocab.eos if vocab.eos is not None else vocab.sep for vocab in (first.vocab, last.vocab)]
    for side, end in zip((first, last), ends, strict=True):
        if end is None:
            raise BundleError(
                f"the tokenizer {side.kind!r} has no token for the end of a sentence",
                hint="expected </s>, the default of build-vocab, or another usual name",
            )
    if ends[0] != ends[1]:
        raise BundleError(f"the end-of-sentence ids differ: source {ends[0]}, target {ends[1]}", hint=_SAME)
    own = [pad for vocab in (last.vocab, first.vocab) if (pad := _pad(vocab)) is not None]
    pad = own[0] if own else len(last.vocab)
    if _own_pad(source) != pad and len(source.vocab) > pad:
        raise ValueError("ids of the source change: call pair() first")
    assert ends[0] is not None
    return pad, ends[0], max(len(first.vocab), pad + 1), max(len(last.vocab), pad + 1)


def _own_pad(tokenizer: Tokenizer) -> int | None:
    """The padding id of a tokenizer, if it can keep it."""
    assert tokenizer.vocab is not None
    pad = _pad(tokenizer.vocab)
    return pad if not isinstance(tokenizer, SentencePiece) or pad == len(tokenizer.vocab) - 1 else None


def _pad(vocab: Vocab) -> int | None:
    """The padding id, unless the same token also ends a sentence, as in some configurations."""
    return None if vocab.pad in (vocab.eos, vocab.sep) else vocab.pad


def _padded(tokenizer: Tokenizer, place: int, own: int | None) -> Tokenizer:
    """`tokenizer` with padding at `place`; if `own` is not None, it is there already. Raises BundleError."""
    vocab = tokenizer.vocab
    assert vocab is not None
    if isinstance(tokenizer, SentencePiece):
        # the model may have an unusual name for the unknown token
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
            f"the padding id of the target is {place}, which is another token of the source",
            hint="train both tokenizers with a padding token, or with the same number of tokens",
        )
    return tokenizer


# -- directories ------------------------------------------------------------------------------------------------------


def load_pair(directory: str | Path, lowercase: bool = False) -> tuple[Tokenizer, Tokenizer]:
    """The tokenizers of the source and of the target in a model directory; the same object if they are equal.

    Args:
        lowercase: lower-case the text first, even if the directory does not record this setting.

    Raises:
        BundleError: a damaged, unsafe, missing or unknown file.
    """
    path = Path(directory)
    source, target = _load(path, lowercase)
    return (source, _load(path / FOLDER, lowercase)[0]) if (path / FOLDER).is_dir() else (source, target)


def save_pair(
    directory: str | Path,
    source: Tokenizer,
    target: Tokenizer | None = None,
    form: PairFormat | None = None,
    languages: tuple[str | None, str | None] = (None, None),
) -> list[str]:
    """Write both tokenizers, after `pair`, into `directory`; returns the names of the files, relative to it.

    Args:
        form: the tokens around texts, unless they are the end of a sentence alone: the files of the tokenizer then stay as they
            were, but for the `languages` of the sources and the targets.

    Raises:
        BundleError: see `pair`.
        StreamError: disk full or another write error.
    """
    path = Path(directory)
    if form is not None and not form.is_plain:
        return _save_as_read(path, source, form.settings(*languages))
    source, target = pair(source, target)
    if (
        source is not target
        and isinstance(source, Marian)
        and isinstance(target, Marian)
        and source.lowercase == target.lowercase
    ):
        return marian.write_directory(path, source, target)
    ends = [None if vocab is None else vocab.eos if vocab.eos is not None else vocab.sep for vocab in
            (source.vocab, target.vocab)]  # fmt: skip
    names = source.save(path, Boundaries(last=ends[0]))
    if target is not source:
        (path / FOLDER).mkdir(exist_ok=True)
        names += [f"{FOLDER}/{name}" for name in target.save(path / FOLDER, Boundaries(last=ends[1]))]
    return names


def _save_as_read(path: Path, tokenizer: Tokenizer, settings: JsonObject) -> list[str]:
    """Write the tokenizer of both sides as its files were, with these settings in tokenizer_config.json."""
    names = tokenizer.save(path)
    if settings:
        config = {**huggingface.read_config(path), **settings}
        atomic.write_whole(path / huggingface.CONFIG, huggingface.json_bytes(config))
    return names


def _load(path: Path, lowercase: bool) -> tuple[Tokenizer, Tokenizer]:
    """The tokenizers in one folder."""
    if (path / marian.SOURCE).is_file():
        return marian.read_directory(path, lowercase)
    built = classic_files.family(path) in classic_pieces.BUILT
    if (path / "spiece.model").is_file() and not (path / "tokenizer.json").is_file() and not built:
        raise BundleError(  # families have their own rules
            f"{display(str(path))}: spiece.model: this kind of model does not use the ids of its SentencePiece model",
            hint="save the tokenizer as tokenizer.json",
        )
    tokenizer = load_path(path, lowercase)
    return tokenizer, tokenizer
