"""Pictures in PNG and JPEG files, as arrays."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np

from nlptools.errors import DataError, Unavailable, display, reason

FORMATS = ("PNG", "JPEG")
GRAY, COLOR = 1, 3  # channels
_MODES = {GRAY: "L", COLOR: "RGB"}


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
