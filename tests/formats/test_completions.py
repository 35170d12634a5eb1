"""Requests as JSON, and responses in the shape of OpenAI's API."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from nlptools.configs.generation import Generate
from nlptools.errors import DataError
from nlptools.formats.completions import batch_line, request, response


@dataclass
class Written:
    """A continuation as a model returns it."""

    text: str = " é!"
    finish: str = "eos"
    pieces: list[str] = field(default_factory=lambda: [" ", "", "é", "!"])
    logprobs: list[float] = field(default_factory=lambda: [-1.0, -2.0, -3.0, -4.0, -5.0])
    top: list[dict[str, float]] = field(default_factory=list)
    usage: tuple[int, int] = (3, 5)


def test_options_of_a_line_under_both_names() -> None:
    own: dict[str, Any] = {
        "max_tokens": 9,
        "n": 2,
        "temperature": 0,
        "top_p": 0.5,
        "best_of": 3,
        "seed": 4,
        "stop": "x",
    }
    asked = request({"prompt": "a", **own, "presence_penalty": -1, "model": "m"}, Generate(top_k=7))
    assert asked.settings == Generate(
        top_k=7, max_new_tokens=9, num_samples=2, temperature=0, top_p=0.5, best_of=3, stop=("x",), presence_penalty=-1
    )
    assert (asked.prompt, asked.seed, asked.chat) == ("a", 4, False)
    same = request({"prompt": "a", "max_new_tokens": 9, "stop": ["x", "y"], "seed": None, "n": None}, Generate())
    assert (same.settings, same.seed) == (Generate(max_new_tokens=9, stop=("x", "y")), None)
    scored = request({"body": {"prompt": "a", "logprobs": 2, "echo": True}}, Generate())
    assert scored.settings == Generate(logprobs=True, top_logprobs=2, json=True, echo=True)
    assert request({"prompt": "a", "logprobs": False}, Generate()).settings == Generate()


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"prompt": 1}, '"prompt"'),
        ({"body": []}, '"body"'),
        ({"messages": []}, '"messages"'),
        ({"messages": [{"role": "user"}]}, '"content"'),
        ({"messages": [{"role": "user", "content": "a"}]}, "chat template"),
        ({"prompt": "a", "max_tokens": 0}, 'a whole number from 1 to 2,147,483,647 under "max_tokens"'),
        ({"prompt": "a", "max_tokens": 1.5}, '"max_tokens"'),
        ({"prompt": "a", "max_tokens": True}, '"max_tokens"'),
        ({"prompt": "a", "temperature": "hot"}, '"temperature"'),
        ({"prompt": "a", "temperature": float("nan")}, '"temperature"'),
        ({"prompt": "a", "top_p": 2}, 'a number from 0 to 1 under "top_p"'),
        ({"prompt": "a", "stop": [1]}, '"stop"'),
        ({"prompt": "a", "stop": ""}, '"stop"'),
        ({"prompt": "a", "seed": -1}, '"seed"'),
        ({"prompt": "a", "logprobs": 21}, '"logprobs"'),
        ({"prompt": "a", "logprobs": "yes"}, '"logprobs"'),
        ({"prompt": "a", "top_logprobs": "2"}, '"top_logprobs"'),
        ({"prompt": "a", "echo": 1}, '"echo"'),
        ({"prompt": "a", "n": 3, "best_of": 2}, "--best-of 2 is less than"),
        ({"prompt": "\ud800"}, "half a surrogate pair"),
    ],
)
def test_errors_name_the_place_and_the_key(record: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError) as raised:
        request(record, Generate(), path="in.jsonl", line=7)
    assert str(raised.value).startswith("in.jsonl:7: ") and message in str(raised.value)


class Render:
    """A chat template."""

    end = "<end>"

    def __call__(self, messages: Any) -> str:
        return "".join(f"<{each['role']}>{each['content']}" for each in messages)


def test_a_conversation_is_rendered() -> None:
    asked = request({"messages": [{"role": "user", "content": "a"}]}, Generate(stop=("x",)), Render())
    assert (asked.prompt, asked.chat, asked.settings.stop) == ("<user>a", True, ("x", "<end>"))
    assert request({"prompt": "a"}, Generate(), Render()).settings.stop == ()
    assert response(asked, 1, [Written()])["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": " é!", "refusal": None},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ]


def test_the_shape_of_a_completion() -> None:
    asked = request({"custom_id": "x", "body": {"prompt": "ab", "logprobs": 1, "echo": True, "model": "m"}}, Generate())
    top = [{" ": -1.0}, {"a": -0.5}, {"b": -0.1}, {"!": -4.0}, {"</s>": -0.2}]
    found = batch_line(asked, 5, [Written(top=top), Written(finish="length")])
    assert (found["custom_id"], found["error"], found["response"]["status_code"]) == ("x", None, 200)
    body = found["response"]["body"]
    assert (body["object"], body["model"], body["id"], body["created"]) == ("text_completion", "m", "cmpl-5", 0)
    assert body["usage"] == {"prompt_tokens": 3, "completion_tokens": 10, "total_tokens": 13}
    first, second = body["choices"]
    assert (first["text"], first["finish_reason"], second["finish_reason"], second["index"]) == (
        "ab é!",
        "stop",
        "length",
        1,
    )
    assert first["logprobs"] == {
        "tokens": [" ", "", "é", "!"],
        "token_logprobs": [-1.0, -2.0, -3.0, -4.0],
        "top_logprobs": top[:4],
        "text_offset": [2, 3, 3, 4],
    }
    assert second["logprobs"]["top_logprobs"] is None


def test_log_probabilities_of_a_chat_completion() -> None:
    record = {"messages": [{"role": "user", "content": "a"}], "logprobs": True, "top_logprobs": 1}
    asked = request(record, Generate(), Render())
    top = [{" ": -1.0}, {"a": -0.5}, {"b": -0.1}, {"!": -4.0}, {"</s>": -0.2}]
    content = response(asked, 0, [Written(top=top)])["choices"][0]["logprobs"]["content"]
    assert [each["token"] for each in content] == [" ", "", "é", "!"]
    assert content[2] == {
        "token": "é",
        "logprob": -3.0,
        "bytes": [195, 169],
        "top_logprobs": [{"token": "b", "logprob": -0.1, "bytes": [98]}],
    }
