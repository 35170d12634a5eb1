"""Look-up of integers: the same places before and after the hash table is built."""

from __future__ import annotations

import numpy as np
import pytest

from nlptools.models.language.key_table import KeyTable


@pytest.mark.parametrize("size", [0, 1, 2, 63, 1000])
@pytest.mark.parametrize("spread", [1, 7, 1 << 40])
def test_places_are_those_of_a_search(size, spread):
    draw = np.random.default_rng(size)
    keys = np.sort(draw.choice(4 * size + 1, size, replace=False).astype(np.int64)) * spread
    values = draw.random(size, np.float32)
    table = KeyTable(keys, values)
    for _ in range(4):  # the first with searches, later ones with the hash table
        wanted = np.concatenate([draw.permutation(keys)[: size // 2 + 1], draw.integers(0, 4 * size + 2, 50) * spread])
        expected = [int(np.flatnonzero(keys == one)[0]) if one in keys else -1 for one in wanted]
        places, found = table.find(wanted)
        assert places.tolist() == expected
        assert found.tolist() == [values[place] if place >= 0 else 0 for place in expected]
    assert table.is_hashed == (size > 0)
