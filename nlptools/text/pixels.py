"""Pictures as tokens: one for each number of a picture, patch by patch, for encoder-decoders that read pictures.

A text is the name of a PNG or JPEG file. Its tokens are the 256 values; the padding and the end have the ids that they have in
the target.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from nlptools.errors import BundleError, DataError, InvalidText, display
from nlptools.files import atomic
from nlptools.files.images import COLOR, PatchGrid, read_image
from nlptools.files.json_fields import whole
from nlptools.json_types import JsonObject
from nlptools.text.boundaries import Boundaries
from nlptools.text.builtin import MARKER
from nlptools.text.vocab import Vocab

_VALUES = 256
_SIZES = ("height", "width", "patch_size")
_LARGEST = 1 << 14
_MOST_IDS = 1 << 22


class Pixels:
    """See the module's docstring; a `tokenizer.Tokenizer`. Pictures have three channels; gray ones are repeated.

    Attributes:
        grid: of every picture.
        resize: whether pictures of other sizes are scaled, not refused.
    """

    kind = "pixels"
    lowercase = False

    def __init__(self, grid: PatchGrid, resize: bool, pad: int, eos: int) -> None:
        """`pad`, `eos`: ids of the padding and of the end."""
        self.grid, self.resize = grid, resize
        free = [id for id in range(_VALUES + 2) if id not in (pad, eos)][:_VALUES]
        tokens = [f"<unused{id}>" for id in range(max(free[-1], pad, eos) + 1)]
        for value, id in enumerate(free):
            tokens[id] = f"<{value}>"
        tokens[pad], tokens[eos] = "<pad>", "</s>"
        self.vocab = Vocab(tokens, special={"pad": pad, "eos": eos})
        self._ids = np.array(free)

    @property
    def length(self) -> int:
        """Tokens of a picture."""
        return self.grid.count * self.grid.numbers

    def tokens(self, text: str) -> list[str]:
        """See `tokenizer.Tokenizer`; raises as `encode`."""
        return [self.vocab.tokens[id] for id in self.encode(text)]

    def tokens_lines(self, lines: Sequence[str], threads: int = 1) -> list[list[str]]:
        """See `tokenizer.Tokenizer`; raises as `encode_lines`."""
        return [[self.vocab.tokens[id] for id in row] for row in self.encode_lines(lines)]

    def encode(self, text: str) -> list[int]:
        """The ids of a picture, given the name of its file. Raises DataError, Unavailable."""
        return self.encode_lines([text])[0]

    def encode_lines(self, lines: Sequence[str], threads: int = 1) -> list[list[int]]:
        """The ids of many pictures. Raises InvalidText for one that cannot be read, Unavailable."""
        return [self._ids[self.grid.cut(self._read(name, row)).reshape(-1)].tolist() for row, name in enumerate(lines)]

    def decode(self, ids: Sequence[int]) -> str:
        """The values, with spaces between them: a picture has no text."""
        return self.decode_tokens([self.vocab.token(id) for id in ids if id not in self.vocab.marks])

    def decode_tokens(self, tokens: Sequence[str]) -> str:
        """See `decode`."""
        return " ".join(tokens)

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """The whole name, for each token."""
        return [(0, len(text))] * self.length

    def save(self, directory: Path, boundaries: Boundaries | None = None) -> list[str]:
        """See `tokenizer.Tokenizer`."""
        sizes = zip(_SIZES, (self.grid.height, self.grid.width, self.grid.patch), strict=True)
        special = {"pad": self.vocab.pad, "eos": self.vocab.eos}
        settings = {"kind": self.kind, "lowercase": False, **dict(sizes), "resize": self.resize, **special}
        atomic.write_whole(Path(directory) / MARKER, json.dumps(settings, indent=2) + "\n")
        return [MARKER]

    def json_obstacle(self) -> str:
        """See `tokenizer.Tokenizer`."""
        return "it reads pictures"

    def _read(self, name: str, row: int) -> np.ndarray:
        """(H, W, C) uint8. Raises InvalidText, Unavailable."""
        if not name:
            raise InvalidText("expected the name of a picture, found an empty text", row)
        H, W = self.grid.height, self.grid.width
        try:
            values = read_image(name, COLOR, (H, W) if self.resize else None)
        except DataError as error:
            raise InvalidText(
                str(error), row, "expected a PNG or JPEG file, relative to the current directory"
            ) from None
        height, width, _ = values.shape
        if (height, width) != (H, W):
            raise InvalidText(
                f"{display(name)}: {width} x {height} pixels, expected {W} x {H}",
                row,
                "--image-size of train-seq2seq is the size of all pictures; with --resize a model scales other sizes to it",
            )
        return values


def at_a_time(length: int) -> int:
    """How many pictures of `length` tokens are read together, so that their ids need little memory."""
    return max(1, _MOST_IDS // length)


def read(marker: JsonObject, where: str) -> Pixels:
    """The tokenizer that `Pixels.save` has written, given its settings in the file `where`. Raises BundleError."""
    height, width, patch = sizes = [whole(marker, name, where) for name in _SIZES]
    pad, eos = whole(marker, "pad", where), whole(marker, "eos", where)
    if not all(0 < size <= _LARGEST for size in sizes) or height % patch or width % patch:
        raise BundleError(f"{display(where)}: {width} x {height} pixels in patches of {patch} are not supported")
    if not (0 <= pad < 1 << 22 and 0 <= eos < 1 << 22) or pad == eos:
        raise BundleError(f"{display(where)}: pad {pad} and eos {eos}, expected two ids")
    return Pixels(PatchGrid(height, width, COLOR, patch), marker.get("resize") is True, pad, eos)
