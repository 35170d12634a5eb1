"""Answers, choices and pronouns: directories open in transformers with the same logits, theirs are answered with here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nlptools import bundle
from nlptools.tasks import outputs
from tests.tasks.answer.test_task import HOW as ANSWER
from tests.tasks.answer.test_task import questions
from tests.tasks.choice.test_task import HOW as CHOICE
from tests.tasks.choice.test_task import choices
from tests.tasks.classify.test_task import predicted, predictor
from tests.tasks.coreference.test_task import HOW as COREFERENCE
from tests.tasks.coreference.test_task import gap
from tests.tasks.tiny_tasks import WORDS, encoder, train

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.reference
families = pytest.mark.parametrize("family", ["bert", "electra"])


def trained(tmp_path: Path, family: str, path: Path, **how: Any) -> Path:
    encoder(tmp_path / "encoder", family, **({"embedding_size": 16} if family == "electra" else {}))
    train(tmp_path, path, **{**how, "steps": 5})
    return tmp_path / "out"


def opened(directory: Path, name: str) -> tuple[Any, dict[str, Any]]:
    """The model in transformers, and what it says of the weights."""
    model, told = getattr(transformers, name).from_pretrained(directory, output_loading_info=True)
    assert not told["mismatched_keys"]
    return model.eval(), told


def logits_of(directory: Path, path: Path) -> tuple[Any, list[np.ndarray]]:
    """Our rows of the examples of a file, and our logits."""
    ours = predictor(directory)
    made = ours.task.features(list(ours.task.read([str(path)], False, "strict")), ours.members[0].encoding, False)
    found = outputs.logits(ours.members[0].model, ours.task.head, made, ours.members[0].backend)
    assert found is not None
    return made, found


def given(features: Any, row: int) -> dict[str, torch.Tensor]:
    """What transformers is to see of a row."""
    place = slice(int(features.rows.bounds[row]), int(features.rows.bounds[row + 1]))
    arrays = {"input_ids": features.rows.ids[place], "token_type_ids": features.rows.types[place]}
    return {name: torch.from_numpy(array.astype(np.int64))[None] for name, array in arrays.items()}


@pytest.mark.sampled(2)
@families
@pytest.mark.parametrize("yes_no", [False, True])
def test_answers_open_there(tmp_path: Path, family: str, yes_no: bool) -> None:
    path = questions(tmp_path / "a.json", 20, yes=yes_no)
    out = trained(tmp_path, family, path, **ANSWER)
    model, told = opened(out, "AutoModelForQuestionAnswering")
    assert type(model).__name__ == f"{family.capitalize()}ForQuestionAnswering" and not told["missing_keys"]
    ours = {"nlptools.yes_no.weight", "nlptools.yes_no.bias"} if yes_no else set()
    assert set(told["unexpected_keys"]) == ours
    features, found = logits_of(out, path)
    for row, logits in enumerate(found):
        with torch.inference_mode():
            said = model(**given(features, row))
        theirs = torch.stack([said.start_logits[0], said.end_logits[0]], 1).numpy()
        assert logits.shape[1] == (5 if yes_no else 2) and np.allclose(logits[:, :2], theirs, atol=1e-4)


@families
def test_choices_open_there(tmp_path: Path, family: str) -> None:
    path = choices(tmp_path / "a.jsonl", 20)
    out = trained(tmp_path, family, path, **CHOICE)
    model, told = opened(out, "AutoModelForMultipleChoice")
    assert type(model).__name__ == f"{family.capitalize()}ForMultipleChoice"
    assert not told["missing_keys"] and not told["unexpected_keys"]
    features, found = logits_of(out, path)
    for row, logits in enumerate(found):
        with torch.inference_mode():
            said = model(**{name: tensor[None] for name, tensor in given(features, row).items()})
        assert float(logits) == pytest.approx(float(said.logits[0, 0]), abs=1e-4)


@pytest.mark.sampled(1)
@families
def test_pronouns_open_there_without_their_head(tmp_path: Path, family: str) -> None:
    path = gap(tmp_path / "a.tsv", 20)
    out = trained(tmp_path, family, path, **COREFERENCE)
    model, told = opened(out, "AutoModel")
    assert {name.split(".")[0] for name in told["unexpected_keys"]} == {"nlptools"}
    assert all("pooler" in name for name in told["missing_keys"])
    features, found = logits_of(out, path)
    head: Any = bundle.load(out).model.mentions  # type: ignore[attr-defined]
    spans = torch.from_numpy(features.targets["spans"].reshape(-1, 3, 2))
    for row, logits in enumerate(found):
        with torch.inference_mode():
            hidden = model(**given(features, row)).last_hidden_state[0]
            expected = head(hidden, spans[row : row + 1])[0].numpy()
        assert np.allclose(logits, expected, atol=1e-4)


@pytest.mark.parametrize("family", ["Bert", "Electra"])
def test_their_answers_are_found_here(tmp_path: Path, family: str) -> None:
    sizes: dict[str, Any] = {"vocab_size": len(WORDS), "hidden_size": 32, "num_hidden_layers": 2}
    sizes |= {"num_attention_heads": 4, "intermediate_size": 48, "max_position_embeddings": 24, "embedding_size": 16}
    config = getattr(transformers, f"{family}Config")(**sizes, initializer_range=0.3)
    torch.manual_seed(0)
    model = getattr(transformers, f"{family}ForQuestionAnswering")(config).eval()
    model.save_pretrained(tmp_path / "theirs")
    (tmp_path / "theirs" / "vocab.txt").write_text("".join(f"{word}\n" for word in WORDS))
    path = questions(tmp_path / "a.json", 30)
    lines = predicted(tmp_path / "theirs", path)
    for line, paragraph in zip(lines, json.loads(path.read_text())["data"][0]["paragraphs"], strict=True):
        words = paragraph["context"].split(" ")
        row = [2, WORDS.index("w1"), WORDS.index("w2"), 3, *map(WORDS.index, words), 3]
        types = [0] * 4 + [1] * (len(row) - 4)
        with torch.inference_mode():
            said = model(input_ids=torch.tensor([row]), token_type_ids=torch.tensor([types]))
        score = said.start_logits[0, 4:-1, None] + said.end_logits[0, None, 4:-1]
        score = score.masked_fill(torch.ones_like(score).tril(-1).bool(), -torch.inf)
        first, last = divmod(int(score.argmax()), len(words))
        assert line == " ".join(words[first : last + 1])
