"""Subword pieces: thin wrappers of the sentencepiece and tokenizers packages.

SentencePiece: Kudo and Richardson 2018 (arXiv:1808.06226); unigram sampling and n-best: Kudo 2018 (arXiv:1804.10959);
BPE dropout: Provilkov et al. 2020 (arXiv:1910.13267). The tokenizers package reads Hugging Face's tokenizer.json, and
runs WordPiece (vocab.txt) and byte-level BPE (vocab.json with merges.txt). Files are checked before a package reads them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, TypeVar

from nlptools.errors import BundleError, UsageError, display
from nlptools.files import atomic
from nlptools.text import exported_json, sampling, sentencepiece_file, sentencepiece_json
from nlptools.text.boundaries import Boundaries
from nlptools.text.builtin import original_spans, without_surrogates, write_marker
from nlptools.text.packages import FastTokenizer, sentencepiece_package
from nlptools.text.vocab import Vocab, usual_specials

SENTENCEPIECE_FILE = "tokenizer.model"
_FEW = 256  # lines; for fewer, starting threads costs more time than it saves
if TYPE_CHECKING:
    import numpy as np

T = TypeVar("T", int, str)
MANY = 40_000  # lines; for fewer, importing numpy costs more time than it saves


class SentencePiece:
    """A SentencePiece model, with the ids and pieces of the package.

    The normalizer of the model decides what a line end inside a text becomes, usually a space.
    """

    kind = "sentencepiece"

    def __init__(self, model: bytes, path: str, lowercase: bool = False) -> None:
        """Raises BundleError if `model`, the bytes of the file `path`, is damaged or unsafe."""
        self.model = model  # the bytes of the file
        self._pieces = sentencepiece_file.check(model, path)
        self.lowercase = lowercase
        self._seen = 0  # lines turned into text so far
        self._package = sentencepiece_package()
        try:
            self._processor = self._package.SentencePieceProcessor(model_proto=model)
        except (RuntimeError, ValueError, OSError) as error:
            reason = str(error).split("] ")[-1].strip() or "rejected by the sentencepiece package"
            raise BundleError(f"{display(path)}: not a valid SentencePiece model: {reason}") from None
        if len(self._processor) != len(self._pieces.texts):
            raise BundleError(f"{display(path)}: not a valid SentencePiece model: {len(self._processor)} pieces loaded")

    @cached_property
    def vocab(self) -> Vocab:
        """The pieces. The counts are zero, since the model has scores instead."""
        texts = self._pieces.texts
        special = usual_specials({t: i for i, t in enumerate(texts) if self._pieces.types[i] in (3, 4)})
        for role in ("unk", "bos", "eos", "pad"):
            id = int(getattr(self._processor, role + "_id")())
            if id >= 0:
                special[role] = id
        return Vocab(texts, special=special)

    def tokens(self, text: str) -> list[str]:
        """The pieces of one line; an unknown piece is the text itself."""
        return self.tokens_lines([text])[0]

    def tokens_lines(self, lines: Sequence[str], threads: int = 1) -> list[list[str]]:
        """The pieces of each of many lines."""
        return self._encode(lines, threads, str)

    def encode(self, text: str) -> list[int]:
        """The ids of one line, without beginning and end marks."""
        return self.encode_lines([text])[0]

    def encode_lines(self, lines: Sequence[str], threads: int = 1) -> list[list[int]]:
        """The ids of each of many lines."""
        return self._encode(lines, threads, int)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`. Raises IndexError for an id out of range."""
        return self.decode_lines([ids])[0]

    def decode_lines(self, rows: Sequence[Sequence[int]], threads: int = 1) -> list[str]:
        """The text of each of many lists of ids. Raises IndexError for an id out of range."""
        size = len(self._pieces.texts)
        if any(row and not 0 <= min(row) <= max(row) < size for row in rows):
            raise IndexError(f"id out of range, expected 0 to {size - 1}")
        if not any(rows):
            return [""] * len(rows)
        decoded: list[str] = self._processor.decode(
            [list(row) for row in rows], num_threads=threads if len(rows) > _FEW else 1
        )
        return decoded

    def decode_tokens(self, tokens: Sequence[str]) -> str:
        """The text of pieces."""
        if not tokens:
            return ""
        decoded: str = self._processor.decode(list(map(without_surrogates, tokens)))
        return decoded

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """The span of characters of `text` that each piece covers; the space before a word belongs to the word."""
        lowered = without_surrogates(text.lower() if self.lowercase else text)
        try:
            offsets = self._processor.encode(lowered, out_type="offset_mapping")["offsets"]
        except ValueError:  # before 0.2.2
            offsets = [(p.begin, p.end) for p in self._processor.encode(lowered, out_type="immutable_proto").pieces]
        spans = [(int(a), int(b)) for a, b in offsets]
        return original_spans(spans, text) if len(lowered) != len(text) else spans

    def save(self, directory: Path, boundaries: Boundaries | None = None) -> list[str]:
        """See `tokenizer.Tokenizer`: `tokenizer.model` and its settings. With `boundaries` also tokenizer.json and
        tokenizer_config.json, where the model can be written so, which `load` does not read.
        """
        atomic.write_whole(Path(directory) / SENTENCEPIECE_FILE, self.model)
        names = [SENTENCEPIECE_FILE, write_marker(directory, self.kind, self.lowercase)]
        return [*names, *exported_json.write(self, Path(directory), boundaries)]

    def as_json(self) -> tuple[FastTokenizer, Vocab]:
        """See `exported_json.Convertible`."""
        return sentencepiece_json.converted(self.model, self._pieces, self.vocab, self.lowercase), self.vocab

    def json_obstacle(self) -> str:
        """See `tokenizer.Tokenizer`."""
        return exported_json.obstacle(self)

    def sample(self, text: str, alpha: float, random: Random) -> list[str]:
        """The pieces of a random segmentation. Unigram: drawn from all, with probability ** alpha; BPE: each merge is
        dropped with probability `alpha`.

        Raises:
            UsageError: a character or word model, which has only one segmentation.
        """
        if self._pieces.model not in (sentencepiece_file.UNIGRAM, sentencepiece_file.BPE):
            raise UsageError("--sample needs a unigram or BPE model")
        normalized = self._processor.normalize(without_surrogates(text.lower() if self.lowercase else text))
        scores, longest = self._scores
        if self._pieces.model == sentencepiece_file.UNIGRAM:
            return sampling.draw_unigram(normalized, scores, longest, alpha, random)
        return sampling.draw_bpe(self._symbols(normalized), scores, alpha, random)

    def ids_of(self, pieces: Sequence[str]) -> list[int]:
        """The ids of `pieces`, which are parts of the text. As in the package, unknown pieces become their bytes if the
        model has byte pieces; else adjacent unknown pieces become one unknown token."""
        ids: list[int] = []
        known, unk = self.vocab.ids, self._processor.unk_id()
        has_bytes = sentencepiece_file.BYTE in self._pieces.types
        for piece in pieces:
            id = known.get(piece, unk)
            if id == unk and has_bytes:
                ids += (known[f"<0x{value:02X}>"] for value in piece.encode())
            elif id != unk or ids[-1:] != [unk]:
                ids.append(id)
        return ids

    @cached_property
    def _scores(self) -> tuple[dict[str, float], int]:
        """The scores of the pieces that can occur in a segmentation, and the length of the longest."""
        texts, scores, types, _ = self._pieces
        usable = {t: s for t, s, kind in zip(texts, scores, types, strict=True) if kind == sentencepiece_file.NORMAL}
        top = max(usable.values(), default=0.0)
        for text in self._defined:  # as in the package, these score higher than any other segmentation of their text
            usable[text] = len(text) * top - 0.1
        return usable, max(map(len, usable), default=1)

    @cached_property
    def _defined(self) -> list[str]:
        """User-defined symbols, longest first."""
        texts, _, types, _ = self._pieces
        defined = [text for text, kind in zip(texts, types, strict=True) if kind == sentencepiece_file.USER_DEFINED]
        return sorted(defined, key=len, reverse=True)

    def _symbols(self, text: str) -> list[str]:
        """The initial symbols of BPE: characters and user-defined symbols."""
        if not self._defined:
            return list(text)
        return re.findall("|".join([*map(re.escape, self._defined), "(?s:.)"]), text)

    def nbest(self, text: str, size: int, ids: bool = False) -> list[list[int | str]]:
        """The `size` best segmentations (or all, if fewer exist), best first. Raises UsageError unless it is a unigram model."""
        text = without_surrogates(text.lower() if self.lowercase else text)
        try:
            best: list[list[int | str]] = self._processor.nbest_encode(
                text, nbest_size=size, out_type=int if ids else str
            )
        except RuntimeError:
            raise UsageError("--nbest needs a unigram model") from None
        return best

    # -- lines of ids or pieces as text, fast -------------------------------------------------------------------------

    def expect_many(self) -> None:
        """Announce a long text: use the method that pays off for many lines from the start."""
        self._seen = MANY

    def text_of_ids(self, lines: Sequence[str], threads: int = 1) -> str:
        """The ids of `lines` as text: decimal numbers separated by spaces, one line each, no newline at the end."""
        self._seen += len(lines)
        if self._seen > MANY and (buffers := self._buffers(lines, threads if len(lines) > _FEW else 1)) is not None:
            return self._decimals(buffers)
        get = self._numbers.__getitem__
        return "\n".join([" ".join(map(get, row)) for row in self.encode_lines(lines, threads)])

    def text_of_pieces(self, lines: Sequence[str], threads: int = 1) -> str:
        """The pieces of `lines` as text: separated by spaces, one line each, no newline at the end."""
        get, unk = self._pieces.texts.__getitem__, self._processor.unk_id()
        rows = self.encode_lines(lines, threads)
        out = [" ".join(map(get, row)) for row in rows]
        unknown = [i for i, row in enumerate(rows) if unk in row]  # for these, the pieces are parts of the text
        for i, tokens in zip(unknown, self.tokens_lines([lines[i] for i in unknown], threads) if unknown else ()):
            out[i] = " ".join(tokens)
        return "\n".join(out)

    def _encode(self, lines: Sequence[str], threads: int, kind: type[T]) -> list[list[T]]:
        texts = [line.lower() for line in lines] if self.lowercase else list(lines)
        threads = threads if len(texts) > _FEW else 1  # each call starts new threads
        try:
            rows: list[list[T]] = self._processor.encode(texts, out_type=kind, num_threads=threads)
        except (RuntimeError, TypeError, UnicodeEncodeError):
            texts = [without_surrogates(text) for text in texts]
            rows = self._processor.encode(texts, out_type=kind, num_threads=threads)
        return rows

    @cached_property
    def _numbers(self) -> list[str]:
        return [str(id) for id in range(len(self._pieces.texts))]

    def _buffers(self, lines: Sequence[str], threads: int) -> list[bytes] | None:
        """The ids of each line as 32-bit integers, or None if the installed package does not provide them.

        The package's `out_type="numpy"` calls the same method, and then wraps each line in an array.
        """
        call = getattr(getattr(self._processor, "_processor", None), "_EncodeAsBufferBatch", None)
        if call is None:
            return None
        texts = [line.lower() for line in lines] if self.lowercase else list(lines)
        try:  # threads, pool, sampling, n-best, alpha, bos, eos, reverse
            buffers: list[bytes] = call(texts, threads, None, False, -1, 0.0, False, False, False)
        except (RuntimeError, TypeError, UnicodeEncodeError):
            return None
        return buffers

    @cached_property
    def _digits(self) -> np.ndarray:
        """For each id its decimal digits and a space, padded with NULs to a common width; then a newline."""
        import numpy as np

        rows = [f"{number} " for number in self._numbers] + ["\n"]
        width = max(map(len, rows))
        return np.array(rows, dtype=f"S{width}").view(f"V{width}")

    def _decimals(self, buffers: list[bytes]) -> str:
        import numpy as np

        newline = np.int32(len(self._numbers)).tobytes()
        ids = np.frombuffer(newline.join(buffers), dtype=np.int32)
        text: bytes = self._digits.take(ids).tobytes().translate(None, b"\0").replace(b" \n", b"\n")
        return text.decode("ascii").removesuffix(" ")
