"""Labels: inside the picture, never over one another, near their points."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from nlptools.vectors.maps import picture
from nlptools.vectors.maps.labels import place
from nlptools.vectors.maps.mapping import project
from nlptools.vectors.table import Vectors

BOUNDS = (0.0, 0.0, 300.0, 200.0)


def overlap(a, b, size_a, size_b):
    return a.x < b.x + size_b[0] and b.x < a.x + size_a[0] and a.y < b.y + size_b[1] and b.y < a.y + size_a[1]


@given(st.integers(1, 60), st.integers(0, 10**6), st.sampled_from([0.0, 60.0]), st.integers(0, 3))
@settings(max_examples=examples(60), deadline=None)
def test_inside_and_apart(count, seed, far, most):
    rng = np.random.default_rng(seed)
    points = rng.uniform((0, 0), (300, 200), (count, 2))
    sizes = rng.uniform(5, (90, 20), (count, 2))
    found = place(points, sizes, BOUNDS, most_covered=most, far=far)
    kept = [(spot, size, point) for spot, size, point in zip(found, sizes, points, strict=True) if spot]
    assert kept
    for i, (spot, size, point) in enumerate(kept):
        assert spot.x >= 0 and spot.y >= 0 and spot.x + size[0] <= 300 and spot.y + size[1] <= 200
        assert not any(overlap(spot, other, size, its) for other, its, _ in kept[:i])
        near = np.clip(point, (spot.x, spot.y), (spot.x + size[0], spot.y + size[1]))
        assert 0 < np.linalg.norm(near - point) <= max(4.0, far) * 1.5
        box = (points >= (spot.x, spot.y)) & (points <= (spot.x + size[0], spot.y + size[1]))
        assert box.all(axis=1).sum() <= most


def test_the_first_place_is_to_the_right_and_others_follow():
    size = np.array([[40.0, 10.0]])
    [right] = place(np.array([[100.0, 100]]), size, BOUNDS, gap=4)
    assert (right.x, right.y, right.far) == (104, 95, False)
    [left] = place(np.array([[280.0, 100]]), size, BOUNDS, gap=4)
    assert left.x == 280 - 44
    other = np.array([[120.0, 100.0]])
    [left] = place(np.array([[100.0, 100]]), size, BOUNDS, gap=4, obstacles=other)
    assert left.x == 100 - 44, "not over another point while there is room"


def test_what_is_wanted_comes_first_and_may_go_far():
    points = np.full((12, 2), 100.0)
    sizes = np.tile([50.0, 12.0], (12, 1))
    near = place(points, sizes, BOUNDS, most_covered=12, wanted=[11])
    assert near[11] is not None and near[11].x == 104 and sum(spot is None for spot in near) >= 2
    far = place(points, sizes, BOUNDS, most_covered=12, far=80)
    assert all(far) and any(spot.far for spot in far) and not far[0].far
    assert place(np.zeros((0, 2)), np.zeros((0, 2)), BOUNDS) == []
    assert place(points[:1], np.array([[900.0, 5]]), BOUNDS) == [None], "wider than the picture"


def test_labels_of_a_picture_stay_clear_of_the_heads_of_arrows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrows in all directions: the box of no label touches a head."""
    pytest.importorskip("matplotlib")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patches import FancyArrowPatch

    angles = np.arange(12) * np.pi / 6 + 0.2
    centers = np.array([[x * 8, y * 8] for x in range(4) for y in range(3)], np.float32)
    around = np.stack([np.cos(angles), np.sin(angles)], 1).astype(np.float32) * 6
    rows = np.concatenate([centers, centers + around])
    words = [f"word{i}" for i in range(12)] + [f"pagoda{i}" for i in range(12)]
    arrows = [(f"word{i}", f"pagoda{i}") for i in range(12)]
    drawn = project(Vectors(words, rows), arrows=arrows)
    figures: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: figures.append(figure))
    picture.picture(drawn, ".png")
    renderer = FigureCanvasAgg(figures[0]).get_renderer()
    texts = [text for text in figures[0].texts if text.get_text() in words]
    boxes = {text.get_text(): text.get_window_extent(renderer) for text in texts}
    heads = [patch for patch in figures[0].artists if isinstance(patch, FancyArrowPatch)]
    assert len(boxes) == 24 and len(heads) == 12
    for patch in heads:
        paths, _ = patch._get_path_in_displaycoord()
        corners = paths[-1].vertices  # of the filled head
        for word, box in boxes.items():
            inside = (corners > (box.x0, box.y0)) & (corners < (box.x1, box.y1))
            assert not inside.all(axis=1).any(), word
