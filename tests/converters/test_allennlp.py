"""Weights in AllenNLP's layout, beside a reference that computes the published equations step by step in NumPy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import Run

from nlptools import bundle
from nlptools.text.byte_spelling import spell

h5py: Any = pytest.importorskip("h5py")

P, D, C = 6, 10, 4
FILTERS = [[1, 4], [2, 4], [3, 8]]
HELD = sum(number for _, number in FILTERS)
WORDS = ["The", "naïve", "x" * 60, "漢字", "."]
Weights = dict[str, np.ndarray]


def options(highways: int = 2) -> dict[str, Any]:
    lstm = {"cell_clip": 3, "use_skip_connections": True, "n_layers": 2, "proj_clip": 3, "projection_dim": P, "dim": D}
    characters = {"activation": "relu", "embedding": {"dim": C}, "filters": FILTERS, "n_highway": highways,
                  "n_characters": 262, "max_characters_per_token": 50}  # fmt: skip
    return {"lstm": lstm, "char_cnn": characters}


def random_weights(highways: int = 2) -> Weights:
    """Some are so large that cells and projections reach their limit."""
    rng = np.random.default_rng(0)
    shapes: dict[str, tuple[int, ...]] = {"char_embed": (261, C), "CNN_proj/W_proj": (HELD, P), "CNN_proj/b_proj": (P,)}
    for i, (width, number) in enumerate(FILTERS):
        shapes |= {f"CNN/W_cnn_{i}": (1, width, C, number), f"CNN/b_cnn_{i}": (number,)}
    for i in range(highways):
        for part in ("transform", "carry"):
            shapes |= {f"CNN_high_{i}/W_{part}": (HELD, HELD), f"CNN_high_{i}/b_{part}": (HELD,)}
    for direction in (0, 1):
        for j in (0, 1):
            cell = f"RNN_{direction}/RNN/MultiRNNCell/Cell{j}/LSTMCell"
            shapes |= {f"{cell}/W_0": (2 * P, 4 * D), f"{cell}/B": (4 * D,), f"{cell}/W_P_0": (D, P)}
    return {name: rng.normal(0, 0.7, shape).astype(np.float32) for name, shape in shapes.items()}


def write(folder: Path, weights: Weights, settings: dict[str, Any] | None, prefix: str = "") -> None:
    folder.mkdir(exist_ok=True)
    with h5py.File(folder / f"{prefix}weights.hdf5", "w") as file:
        for name, array in weights.items():
            file.create_dataset(name, data=array)
    if settings is not None:
        (folder / f"{prefix}options.json").write_text(json.dumps(settings))


# -- the reference: bilm-tf's equations, one word and one step at a time ---------------------------------------------


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def character_ids(word: str | int) -> list[int]:
    """Ids before the shift by one: a word, or 256 or 257 for a boundary."""
    inner = [word] if isinstance(word, int) else list(word.encode()[:48])
    return [258, *inner, 259, *[260] * (48 - len(inner))]


def word_vector(word: str | int, w: Weights, highways: int) -> np.ndarray:
    table = np.concatenate([np.zeros((1, C)), w["char_embed"]])
    x = table[np.array(character_ids(word)) + 1]
    maxima = []
    for i, (width, _) in enumerate(FILTERS):
        at = [np.einsum("wc,wcn->n", x[t : t + width], w[f"CNN/W_cnn_{i}"][0]) for t in range(50 - width + 1)]
        maxima.append(np.maximum(np.max(at, 0) + w[f"CNN/b_cnn_{i}"], 0))
    y = np.concatenate(maxima)
    for i in range(highways):
        name = f"CNN_high_{i}"
        carry = sigmoid(y @ w[f"{name}/W_carry"] + w[f"{name}/b_carry"])
        y = carry * np.maximum(y @ w[f"{name}/W_transform"] + w[f"{name}/b_transform"], 0) + (1 - carry) * y
    return np.asarray(y @ w["CNN_proj/W_proj"] + w["CNN_proj/b_proj"])


def direction(x: list[np.ndarray], w: Weights, number: int, reached: set[str]) -> list[list[np.ndarray]]:
    """The outputs of both layers at each step."""
    layers = []
    for j in (0, 1):
        cell = f"RNN_{number}/RNN/MultiRNNCell/Cell{j}/LSTMCell"
        h, c, out = np.zeros(P), np.zeros(D), []
        for fed in x:
            i, candidate, f, o = np.split(np.concatenate([fed, h]) @ w[f"{cell}/W_0"] + w[f"{cell}/B"], 4)
            c = sigmoid(f + 1) * c + sigmoid(i) * np.tanh(candidate)
            reached |= {"cell"} if np.abs(c).max() > 3 else set()
            c = c.clip(-3, 3)
            h = (sigmoid(o) * np.tanh(c)) @ w[f"{cell}/W_P_0"]
            reached |= {"projection"} if np.abs(h).max() > 3 else set()
            h = h.clip(-3, 3)
            out.append(h + fed if j else h)
        layers.append(out)
        x = out
    return layers


def reference(words: list[str], w: Weights, highways: int, reached: set[str]) -> np.ndarray:
    """(3, T, 2 P)."""
    vectors = [word_vector(word, w, highways) for word in (256, *words, 257)]
    forward, backward = direction(vectors, w, 0, reached), direction(vectors[::-1], w, 1, reached)
    layers = [[np.concatenate([v, v]) for v in vectors]]
    layers += [
        [np.concatenate(p) for p in zip(a, b[::-1], strict=True)] for a, b in zip(forward, backward, strict=True)
    ]
    return np.array(layers)[:, 1:-1]


@pytest.mark.parametrize(("highways", "prefix"), [(2, ""), (1, "elmo_2x10_6_")])
def test_converted_weights_compute_the_published_equations(
    call: Run, tmp_path: Path, highways: int, prefix: str
) -> None:
    weights, reached = random_weights(highways), set[str]()
    weights["RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/B"][2 * D : 3 * D] += 4  # cells that grow
    weights["RNN_1/RNN/MultiRNNCell/Cell1/LSTMCell/W_P_0"] *= 3
    write(tmp_path / "theirs", weights, options(highways), prefix)
    done = call("convert", "theirs", "ours")
    assert done.code == 0, done.err
    texts = [[*WORDS, *WORDS[::-1]], ["one"], ["The", "The", "."]]
    different = sorted({word for text in texts for word in text})
    places = torch.zeros(3, 10, dtype=torch.int64)
    for row, text in zip(places, texts, strict=True):
        row[: len(text)] = torch.tensor([different.index(word) for word in text])
    model: Any = bundle.load(tmp_path / "ours").model.double()  # whose rounding is no processor's
    with torch.inference_mode():
        found = model.layers(torch.from_numpy(spell(different)), places, torch.tensor(list(map(len, texts)))).numpy()
    for number, text in enumerate(texts):
        expected = reference(text, weights, highways, reached)
        assert np.abs(found[:, number, : len(text)] - expected).max() < 1e-5
    assert reached == {"cell", "projection"}


def test_a_converted_model_has_features_only(call: Run, tmp_path: Path) -> None:
    write(tmp_path / "theirs", random_weights(), options())
    assert call("convert", "theirs", "ours").code == 0
    assert "converted from AllenNLP" in call("describe", "ours").text
    for command in ("score", "generate"):
        done = call(command, "ours", stdin="a b\n")
        assert done.code == 2 and "has features only" in done.err, done.err
    assert call("convert", "theirs", "ours").code == 73
    assert call("convert", "theirs", "ours", "--force").code == 0
    assert call("convert", "theirs", "-").code == 2
    done = call("convert", "theirs", "other", "--normalize")
    assert done.code == 2 and "--force" in done.err and not (tmp_path / "other").exists()


def changed(part: str, **values: Any) -> dict[str, Any]:
    settings = options()
    settings[part] = {name: value for name, value in {**settings[part], **values}.items() if value is not None}
    return settings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (None, "no options.json"),
        (changed("lstm", dim=11), r"weight RNN_0/.*/W_0 is \(12, 40\) float32, options.json asks for \(12, 44\)"),
        (changed("lstm", dim=None), "'dim' is missing"),
        (changed("lstm", dim="ten"), "cell_size"),
        (changed("lstm", n_layers=3), "Cell2/LSTMCell/W_0 is missing"),
        (changed("char_cnn", filters=[[1, 4]]), "CNN_high_0/W_transform is"),
        (changed("char_cnn", activation="gelu"), "options.json: activation"),
        (changed("lstm", use_skip_connections="no"), "skip is 'no'"),
        (changed("lstm", cell_clip=False), "cell_clip is False"),
        (changed("char_cnn", max_characters_per_token=40), "only 50"),
        ({"lstm": 3, "char_cnn": 4}, "expected objects"),
        ({}, "'lstm' is missing"),
    ],
)
def test_options_and_weights_that_do_not_belong_together_are_refused(
    call: Run, tmp_path: Path, settings: dict[str, Any] | None, message: str
) -> None:
    import re

    write(tmp_path / "theirs", random_weights(), settings)
    done = call("convert", "theirs", "ours")
    assert done.code == 78 and re.search(message, done.err) and done.err.count("\n") == 1, done.err
    assert not (tmp_path / "ours").exists()


@pytest.mark.parametrize(
    "settings",
    [
        changed("char_cnn", activation="tanh"),
        {**options(), "lstm": {**options()["lstm"], "cell_clip": None, "proj_clip": 0}},
        changed("lstm", use_skip_connections=False),
        changed("lstm", n_layers=1),
        changed("char_cnn", n_highway=0),
    ],
    ids=["tanh", "no clip", "no skip", "one layer", "no highway"],
)
def test_what_is_converted_opens(call: Run, tmp_path: Path, settings: dict[str, Any]) -> None:
    write(tmp_path / "theirs", random_weights(), settings)
    assert call("convert", "theirs", "ours").code == 0
    for args in (("embed", "ours", "--to", "jsonl"), ("describe", "ours")):
        done = call(*args, stdin="a naïve line\n")
        assert done.code == 0 and done.lines, done.err


def test_damaged_weights_are_refused(call: Run, tmp_path: Path) -> None:
    write(tmp_path / "theirs", random_weights(), options())
    path = tmp_path / "theirs/weights.hdf5"
    path.write_bytes(path.read_bytes()[:2000])
    assert call("convert", "theirs", "ours").code == 78
    weights = random_weights()
    weights["CNN_proj/b_proj"][0] = np.nan
    write(tmp_path / "theirs", weights, options())
    done = call("convert", "theirs", "ours")
    assert done.code == 78 and "not finite" in done.err, done.err
