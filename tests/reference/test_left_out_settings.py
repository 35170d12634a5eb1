"""A setting that config.json leaves out, or that is null there, means what it means in transformers, or is refused by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from nlptools import bundle
from nlptools.errors import NlptoolsError

transformers = pytest.importorskip("transformers")
from tests.reference import decoder_families, encoder_families  # noqa: E402

pytestmark = [pytest.mark.reference, pytest.mark.filterwarnings("ignore")]
NO_SETTINGS = ("model_type", "architectures", "transformers_version", "torch_dtype", "dtype")
WRONG = ("missing_keys", "unexpected_keys", "mismatched_keys")
Read = Callable[[Any, Tensor], tuple[list[Tensor], Tensor | None]]  # a model of ours, ids -> layers, logits


def of_decoder(model: Any, ids: Tensor) -> tuple[list[Tensor], Tensor | None]:
    hidden = model.states(ids)
    return list(hidden.layers), model.output.logits(hidden.last)


def of_encoder(model: Any, ids: Tensor) -> tuple[list[Tensor], Tensor | None]:
    return list(model.encoder(ids, torch.ones_like(ids, dtype=torch.bool), None).layers), None


def of_masked(model: Any, ids: Tensor) -> tuple[list[Tensor], Tensor | None]:
    layers, _ = of_encoder(model, ids)
    return layers, model.masked_logits(layers[-1].flatten(0, 1)).view(*ids.shape, -1)


def wrong(path: Path, kind: type[Any], read: Read) -> str:
    """How a model in a directory differs from theirs; "": not at all, or one of both does not run it."""
    ids = torch.randint(5, 40, (2, 32), generator=torch.Generator().manual_seed(1))
    try:
        theirs, report = kind.from_pretrained(path, output_loading_info=True, attn_implementation="eager")
        out = theirs.eval()(input_ids=ids, output_hidden_states=True)
    except Exception:  # whatever it is that they say of it
        return ""
    if any(report[key] for key in WRONG):
        return ""
    try:
        model = bundle.load(path).model
    except NlptoolsError as error:
        return "" if "config.json" in str(error) else str(error)
    layers, logits = read(model, ids)
    pairs = list(zip(layers, out.hidden_states, strict=True))
    if logits is not None:
        pairs.append((logits, out.logits))
    most = max(float((mine - other).abs().max() / other.abs().max().clamp(min=1)) for mine, other in pairs)
    return "" if most < 2e-5 else f"differs by {most:.1g}"


@torch.inference_mode()
def check(path: Path, kind: type[Any], read: Read) -> None:
    config = path / "config.json"
    whole = json.loads(config.read_text())
    assert not wrong(path, kind, read)
    found = {}
    for key in whole.keys() - {*NO_SETTINGS}:
        for data in ({name: value for name, value in whole.items() if name != key}, {**whole, key: None}):
            config.write_text(json.dumps(data))
            found[key, "null" if key in data else "left out"] = wrong(path, kind, read)
    assert not {key: problem for key, problem in found.items() if problem}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", decoder_families.FAMILIES)
def test_decoders(name: str, tmp_path: Path) -> None:
    family = decoder_families.FAMILIES[name]
    model = family.folder(tmp_path / "m", **family.variants[-1])
    check(tmp_path / "m", type(model), of_decoder)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", encoder_families.FAMILIES)
def test_encoders(name: str, tmp_path: Path) -> None:
    family = encoder_families.FAMILIES[name]
    kind, read = ("ForMaskedLM", of_masked) if family.maskable else ("Model", of_encoder)
    check(tmp_path / "m", type(family.folder(tmp_path / "m", kind, **family.variants[-1])), read)
