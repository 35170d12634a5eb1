"""Pictures of two colored shapes side by side, with their captions."""

from __future__ import annotations

from pathlib import Path

import numpy as np

COLORS = {"red": (220, 40, 40), "green": (40, 180, 60), "blue": (50, 80, 230)}
SHAPES = ("square", "disc", "cross")


def drawn(path: Path, values: np.ndarray) -> Path:
    """Write (H, W) or (H, W, 3) uint8 as a picture; the suffix of `path` is its format."""
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(values).save(path)
    return path


def two_shapes(random: np.random.Generator) -> tuple[np.ndarray, str]:
    """(16, 16, 3) uint8, and a caption such as "a red square left of a blue disc"."""
    values = random.integers(0, 40, (16, 16, 3)).astype(np.uint8)
    names = []
    for begin in (0, 8):
        color, shape = str(random.choice(list(COLORS))), str(random.choice(SHAPES))
        y, x = random.integers(3, 13), begin + random.integers(3, 5)
        down, right = np.mgrid[:16, :16] - np.array([y, x])[:, None, None]
        inside = {
            "square": np.maximum(abs(down), abs(right)) <= 3,
            "disc": down**2 + right**2 <= 10,
            "cross": (np.minimum(abs(down), abs(right)) == 0) & (np.maximum(abs(down), abs(right)) <= 3),
        }[shape]
        values[inside] = COLORS[color]
        names.append(f"a {color} {shape}")
    return values, " left of ".join(names)


def captioned(folder: Path, count: int, seed: int) -> list[tuple[str, str]]:
    """Draw `count` pictures into `folder`; returns their names, relative to its parent, and captions."""
    random = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        values, caption = two_shapes(random)
        name = drawn(folder / f"{number}.png", values).name
        rows.append((f"{folder.name}/{name}", caption))
    return rows
