"""examples/lm_eval.py beside the backend `hf` of lm-evaluation-harness, on toy tasks like its own."""

from __future__ import annotations

import importlib.util
import json
import random
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

from tests.reference.test_likelihoods_reference import PAIRS, folder

pytestmark = [pytest.mark.reference, pytest.mark.filterwarnings("ignore")]
pytest.importorskip("lm_eval")
__all__ = ["folder"]

# not periodic: of two windows with the same tokens, `hf` computes one, whatever part of it counts in the other
LONG = " ".join(random.Random(1).choices(["the", "cat", "dog", "sat", "on", "mat", "log", "and"], k=80))
TEXTS = [LONG, "the log", "a – b\n\nthe cat"]


@pytest.fixture(scope="module")
def example() -> Any:
    spec = importlib.util.spec_from_file_location("lm_eval_example", ROOT / "examples/lm_eval.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def ours(example: Any, folder: Path) -> Any:
    return example.Nlptools(path=str(folder), precision="fp32", threads="1")


@pytest.fixture(scope="module")
def theirs(folder: Path) -> Any:
    from lm_eval.models.huggingface import HFLM

    return HFLM(pretrained=str(folder), device="cpu", dtype="float32", batch_size=3)


def instances(kind: str, arguments: list[Any]) -> list[Any]:
    from lm_eval.api.instance import Instance

    return [Instance(kind, {}, each, i) for i, each in enumerate(arguments)]


def test_loglikelihood(ours: Any, theirs: Any) -> None:
    requests = instances("loglikelihood", PAIRS)
    for a, b in zip(ours.loglikelihood(requests), theirs.loglikelihood(requests), strict=True):
        assert a[0] == pytest.approx(b[0], abs=1e-4) and a[1] == b[1]


def test_loglikelihood_rolling(ours: Any, theirs: Any) -> None:
    requests = instances("loglikelihood_rolling", [(text,) for text in TEXTS])
    assert ours.loglikelihood_rolling(requests) == pytest.approx(theirs.loglikelihood_rolling(requests), abs=1e-3)


def test_generate_until(ours: Any, theirs: Any) -> None:
    greedy = {"until": [" the", "\n\n"], "max_gen_toks": 8, "do_sample": False}
    requests = instances("generate_until", [(text, greedy) for text in ("the cat sat", "the dog", "the log on")])
    assert ours.generate_until(requests) == theirs.generate_until(requests)


def test_generation_arguments(example: Any) -> None:
    assert example.generation({"until": "x", "temperature": 0.5, "top_p": 0.9}).temperature == 0.5
    assert example.generation({"do_sample": False, "temperature": 0.5}).temperature == 0
    assert example.generation({"do_sample": True}).temperature == 1
    settings = example.generation({})
    assert (settings.temperature, settings.max_new_tokens, settings.stop) == (0, 256, ())
    with pytest.raises(ValueError, match="num_beams"):
        example.generation({"num_beams": 4})


def tasks(path: Path) -> list[dict[str, Any]]:
    """Tasks like arc, hellaswag and wikitext."""
    ends = ["on the mat", "on the log", "and the dog", "the"]
    rows = [{"query": f"the {who} sat", "choices": ends, "gold": i % 4} for i, who in enumerate(("cat", "dog") * 4)]
    for name, lines in {"choices": rows, "pages": [{"page": text} for text in TEXTS]}.items():
        (path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")

    def task(name: str, data: str, **more: Any) -> dict[str, Any]:
        files = {"test": str(path / f"{data}.jsonl")}
        return {
            "task": name,
            "dataset_path": "json",
            "dataset_kwargs": {"data_files": files},
            "test_split": "test",
            **more,
        }

    choice = {"output_type": "multiple_choice", "doc_to_choice": "choices", "doc_to_target": "gold"}
    metrics = [{"metric": name, "aggregation": "mean", "higher_is_better": True} for name in ("acc", "acc_norm")]
    mutual = {"metric": "acc_mutual_info", "aggregation": "mean", "higher_is_better": True}
    perplexities = [{"metric": name} for name in ("word_perplexity", "byte_perplexity", "bits_per_byte")]
    return [
        task(
            "toy_arc", "choices", **choice, doc_to_text="Question: {{query}}\nAnswer:", metric_list=[*metrics, mutual]
        ),
        task("toy_hellaswag", "choices", **choice, doc_to_text="{{query}}", metric_list=metrics),
        task(
            "toy_wikitext",
            "pages",
            output_type="loglikelihood_rolling",
            doc_to_text="",
            doc_to_target="page",
            metric_list=perplexities,
        ),
    ]


def test_toy_tasks(ours: Any, theirs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import lm_eval

    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    results = []
    for model in (ours, theirs):
        result = lm_eval.simple_evaluate(model=model, tasks=tasks(tmp_path), num_fewshot=0, bootstrap_iters=0)
        results.append(
            {name: {k: v for k, v in row.items() if isinstance(v, float)} for name, row in result["results"].items()}
        )
    assert results[0].keys() == {"toy_arc", "toy_hellaswag", "toy_wikitext"}
    for name, row in results[0].items():
        assert len(row) >= 2 and row == pytest.approx(results[1][name], rel=1e-4)
