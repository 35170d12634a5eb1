"""Pictures in PNG and JPEG files, as arrays, and their patches.

Shapes: H height, W width, C channels, P patches of a picture, F numbers of a patch.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nlptools.errors import DataError, Unavailable, display, reason

FORMATS = ("PNG", "JPEG")
GRAY, COLOR = 1, 3  # channels
_MODES = {GRAY: "L", COLOR: "RGB"}


@dataclass(frozen=True)
class PatchGrid:
    """Pictures of one size, cut into square patches, from left to right and from top to bottom.

    Attributes:
        height, width: multiples of `patch`.
        channels: C, 1 (gray) or 3.
        patch: the side of a patch.
    """

    height: int
    width: int
    channels: int
    patch: int

    @property
    def sides(self) -> tuple[int, int]:
        """The rows and the columns of patches."""
        return self.height // self.patch, self.width // self.patch

    @property
    def count(self) -> int:
        """P."""
        rows, columns = self.sides
        return rows * columns

    @property
    def numbers(self) -> int:
        """F."""
        return self.patch**2 * self.channels

    def cut(self, values: np.ndarray) -> np.ndarray:
        """(H, W, C) -> (P, F)."""
        (rows, columns), S, C = self.sides, self.patch, self.channels
        return values.reshape(rows, S, columns, S, C).swapaxes(1, 2).reshape(self.count, self.numbers)


def read_image(path: str, channels: int = 0, size: tuple[int, int] | None = None) -> np.ndarray:
    """(H, W, C) uint8: the picture in a file.

    Args:
        channels: 1 (gray) or 3 (red, green, blue); 0: as the file has them. Transparency is lost.
        size: (H, W) to scale to; None: the size of the file.

    Raises:
        DataError: no such file, or not a picture of `FORMATS`.
        Unavailable: Pillow is not installed.
    """
    try:
        from PIL import Image
    except ImportError:
        raise Unavailable("pictures need the Pillow package", extra="images") from None
    try:
        with warnings.catch_warnings(), Image.open(Path(path), formats=FORMATS) as image:
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            gray = channels == GRAY or (not channels and image.mode in ("1", "L", "LA", "I", "I;16"))
            picture = image.convert(_MODES[GRAY if gray else COLOR])
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        why = reason(error) if isinstance(error, OSError) and error.errno else "not a picture in PNG or JPEG format"
        raise DataError(f"{display(path)}: {why}") from None
    if size is not None and picture.size != size[::-1]:
        picture = picture.resize(size[::-1], Image.Resampling.BILINEAR)
    values = np.asarray(picture)
    return values[:, :, None] if values.ndim == 2 else values
