"""What sentence-transformers directories say: both spellings of their settings, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from nlptools.errors import BundleError
from nlptools.files import artifacts
from nlptools.inference.embedding import sentence_steps as door

TYPE = "sentence_transformers.models."


def directory(path: Path, *steps: tuple[str, str, Any], **files: Any) -> Path:
    """A directory with these steps: (kind, folder, its config.json)."""
    path.mkdir()
    (path / "modules.json").write_text(
        json.dumps([{"idx": i, "path": folder, "type": TYPE + kind} for i, (kind, folder, _) in enumerate(steps)])
    )
    for _, folder, config in steps:
        (path / folder).mkdir(exist_ok=True)
        if config is not None and folder:
            (path / folder / "config.json").write_text(json.dumps(config))
    for name, content in files.items():
        (path / f"{name}.json").write_text(json.dumps(content))
    return path


MEAN = {"word_embedding_dimension": 8, "pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}


def test_the_usual_one(tmp_path: Path) -> None:
    path = directory(
        tmp_path / "m",
        ("Transformer", "", None),
        ("Pooling", "1_Pooling", MEAN),
        ("Normalize", "2_Normalize", None),
        sentence_bert_config={"max_seq_length": 256, "do_lower_case": False},
    )
    steps = door.read(path)
    assert steps is not None
    assert (steps.pooling, steps.normalize, steps.max_length, steps.dense) == (("mean",), True, 256, ())
    assert steps.encoder == path and not steps.lowercase and not steps.prompts


def test_new_spelling_prompts_and_dense_layers(tmp_path: Path) -> None:
    path = directory(
        tmp_path / "m",
        ("Transformer", "0_Transformer", None),
        ("Pooling", "1_Pooling", {"pooling_mode": ["cls", "lasttoken"], "include_prompt": False}),
        ("Dense", "2_Dense", {"in_features": 4, "out_features": 2, "activation_function": "torch.nn.Tanh"}),
        config_sentence_transformers={"prompts": {"query": "q: ", "none": ""}, "default_prompt_name": "query"},
    )
    artifacts.save_tensors(
        path / "2_Dense" / "model.safetensors", {"linear.weight": torch.ones(2, 4), "linear.bias": torch.zeros(2)}
    )
    steps = door.read(path)
    assert steps is not None
    assert steps.pooling == ("cls", "last") and not steps.include_prompt and not steps.normalize
    assert steps.encoder == path / "0_Transformer" and steps.max_length is None
    assert steps.default_prompt == "query" and steps.prompts["query"] == "q: "
    (dense,) = steps.dense
    assert dense.activation == "tanh" and dense.weight.shape == (2, 4) and dense.bias is not None


def test_another_directory_is_none(tmp_path: Path) -> None:
    assert door.read(tmp_path) is None


TRANSFORMER = ("Transformer", "", None)


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ([("Pooling", "1_Pooling", MEAN)], "first step is not a transformer"),
        ([TRANSFORMER], "no pooling"),
        ([TRANSFORMER, ("Pooling", "p", {"pooling_mode": "median"})], "expected a supported pooling mode"),
        ([TRANSFORMER, ("Pooling", "p", {})], "expected a supported pooling mode"),
        ([TRANSFORMER, ("CNN", "c", {})], "a step 'CNN' at this position"),
        ([TRANSFORMER, ("Normalize", "n", None), ("Pooling", "p", MEAN)], "a step 'Normalize' at this position"),
        ([TRANSFORMER, ("Pooling", "../p", MEAN)], "not a plain folder name"),
    ],
)
def test_what_cannot_be_is_refused(steps: list[Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=said):
        door.read(directory(tmp_path / "m", *steps))


@pytest.mark.parametrize("content", ["{}", "[1]", '[{"type": 1}]', "[", '{"a": [}'])
def test_damaged_lists_of_steps_are_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "modules.json").write_text(content)
    with pytest.raises(BundleError, match=r"modules\.json"):
        door.read(tmp_path)


@pytest.mark.parametrize("value", [0, -1, "256", True, 2.5])
def test_a_length_that_cannot_be_is_refused(value: Any, tmp_path: Path) -> None:
    path = directory(
        tmp_path / "m", TRANSFORMER, ("Pooling", "p", MEAN), sentence_bert_config={"max_seq_length": value}
    )
    with pytest.raises(BundleError, match="max_seq_length"):
        door.read(path)
