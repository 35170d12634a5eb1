"""Conversations in training: the prompts of `chat`, the template in the directory of the model, the same text for rewards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nlptools
from nlptools import bundle
from nlptools.batches.completions import NEXT
from nlptools.batches.windows import NO_TARGET
from nlptools.configs.chat import Chat
from nlptools.configs.finetuning import Finetune
from nlptools.configs.generation import Generate
from nlptools.errors import UsageError
from nlptools.formats.readers import read
from nlptools.formats.reading_options import Options
from nlptools.inference.conversation import Conversation
from nlptools.text.chat_templates import FORMATS, chat_template
from nlptools.training.preferences import prompts
from nlptools.training.preferences.policy import Policy
from nlptools.training.preferences.rewards import Sample, reward
from tests.tasks.classify.test_task import predicted
from tests.tasks.tiny_tasks import FP32, encoder
from tests.tiny_bundles import bytes_bundle
from tests.training.preferences.toys import align, lines

CHATML = FORMATS["chatml"]


def turn(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


TALK = [turn("user", "a"), turn("assistant", "b"), turn("user", "c"), turn("assistant", "d")]
PAIR = {"prompt": TALK[:3], "chosen": [turn("assistant", "d")], "rejected": [turn("assistant", "no")]}


@pytest.fixture
def taught(tmp_path: Path) -> Path:
    """A model of bytes that learned conversations, with --chat chatml."""
    bytes_bundle(tmp_path / "base")
    align(tmp_path, "instruct", lines(tmp_path / "talk.jsonl", [{"messages": TALK}] * 4), chat="chatml", epochs=1.0)
    return (tmp_path / "out").rename(tmp_path / "taught")


def test_the_directory_keeps_the_template(tmp_path: Path, taught: Path) -> None:
    assert chat_template(str(taught)) is CHATML
    assert "chat_template.jinja" in json.loads((taught / "manifest.json").read_text())["files"]
    path = lines(tmp_path / "pairs.jsonl", [PAIR] * 4)
    for task in ("preference", "reward"):
        align(tmp_path, task, path, path, model=str(taught), epochs=1.0, output=str(tmp_path / task))
        assert chat_template(str(tmp_path / task)) is CHATML
        assert "chat_template.jinja" in json.loads((tmp_path / task / "manifest.json").read_text())["files"]


def test_prompts_are_those_of_chat(tmp_path: Path, taught: Path) -> None:
    model: Any = nlptools.load(taught, settings=Generate(), compute=FP32)
    seen: list[str] = []
    original = model.generate_batch

    def watched(texts: list[str], *args: Any, **more: Any) -> Any:
        seen.extend(texts)
        return original(texts, *args, **more)

    model.generate_batch = watched
    conversation = Conversation(model, chat_template(str(taught)), Chat(max_new_tokens=1), 1)
    conversation.history = [dict(message) for message in TALK[:2]]
    conversation.ask("c")
    ids = model.prompts.read(seen[0], Generate(max_new_tokens=1))

    policy = Policy.open(str(taught), Finetune(task="instruct"))
    path = lines(tmp_path / "prompts.jsonl", [{"prompt": TALK[:3]}])
    spooled = prompts.spool(tmp_path / "spool", [str(path)], None, policy.encoding(200, 1), "strict")
    assert spooled.texts == seen and spooled.ids == [ids], "train-ppo samples from what chat answers"

    from nlptools.training.preferences.direct import response

    (example,) = list(read("preference", [str(lines(tmp_path / "p.jsonl", [PAIR]))], Options(), "strict"))
    texts = [response(example.prompt, turns, policy.template, example.place) for turns in example.responses]  # type: ignore[union-attr]
    features = policy.encoding(0, 1).sequences(texts)
    for row, answer in enumerate(("d", "no")):
        span = slice(*features.rows.bounds[row : row + 2])
        targets = features.targets[NEXT][span]
        assert features.rows.ids[span].tolist()[: len(ids)] == ids
        assert (targets[: len(ids) - 1] == NO_TARGET).all()
        assert targets[len(ids) - 1 :].tolist() == [*f"{answer}<|im_end|>".encode(), 256]


def test_rewards_of_messages_are_those_of_their_text(tmp_path: Path, taught: Path) -> None:
    path = lines(tmp_path / "pairs.jsonl", [PAIR] * 8)
    align(tmp_path, "reward", path, model=str(taught), epochs=2.0)
    text = CHATML(TALK[:3], True)
    plain = {"prompt": text, "responses": ["d", "no"]}
    messages = {"prompt": TALK[:3], "responses": [[turn("assistant", "d")], [turn("assistant", "no")]]}
    (one,), (other,) = (
        predicted(tmp_path / "out", lines(tmp_path / "x.jsonl", [value])) for value in (plain, messages)
    )
    assert one == other
    rewards = reward(str(tmp_path / "out"), FP32)
    values = rewards([Sample(text, answer, True) for answer in ("d", "no", "d<|im_end|>")])
    assert np.allclose(values, [*map(float, one.split("\t")), float(one.split("\t")[0])], atol=1e-5)


def test_options_that_do_not_go_together(tmp_path: Path, taught: Path) -> None:
    path = lines(tmp_path / "pairs.jsonl", [PAIR])
    with pytest.raises(UsageError, match=r"--chat gemma: .* already has a chat template"):
        align(tmp_path, "instruct", path, chat="gemma", model=str(taught))
    with pytest.raises(UsageError, match="--chat applies to --task reward, instruct, preference only"):
        align(tmp_path, "classify", path, chat="gemma")
    encoder(tmp_path / "bert")
    with pytest.raises(UsageError, match="is an encoder"):
        align(tmp_path, "reward", path, chat="gemma", model=str(tmp_path / "bert"))
    assert bundle.load(taught).arch == "transformer"
