"""A file of OpenAI's batch API: `generate` answers each of its requests as `serve` does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Run
from starlette.testclient import TestClient
from tiny_bundles import bytes_bundle

from nlptools.configs import Compute
from nlptools.configs.serve import Serve
from nlptools.serving.app import application
from nlptools.serving.service import Service
from nlptools.serving.worker import Worker

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
PARTS = [{"type": "text", "text": "gr"}, {"type": "text", "text": "ün"}]
SCHEMA = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}, "n": {"type": "integer", "minimum": 7}},
    "required": ["ok", "n"],
}
FORM = {"type": "json_schema", "json_schema": {"name": "n", "strict": True, "schema": SCHEMA}}
REQUESTS: list[tuple[str, dict[str, Any]]] = [
    (COMPLETIONS, {"prompt": "ab", "temperature": 0}),  # no number of tokens
    (COMPLETIONS, {"prompt": ["ab", "ä"], "n": 2, "seed": 5, "max_tokens": 4}),
    (COMPLETIONS, {"prompt": [[97, 98], [195, 164]], "max_tokens": 3, "temperature": 0, "logprobs": 2, "echo": True}),
    (COMPLETIONS, {"prompt": "ä", "max_tokens": 0, "echo": True, "logprobs": 0}),
    (COMPLETIONS, {"prompt": "ab", "max_tokens": 5, "seed": 1, "stop": ["a", "e"], "best_of": 3, "user": "u"}),
    (CHAT, {"messages": [{"role": "user", "content": PARTS}], "max_tokens": 6, "temperature": 0}),
    (CHAT, {"messages": [{"role": "user", "content": "x"}], "max_completion_tokens": 40, "seed": 2, "response_format": FORM}),
    (CHAT, {"messages": [{"role": "user", "content": "x" * 230}], "temperature": 0}),  # until the context is full
    (CHAT, {"messages": [{"role": "user", "content": "x"}], "max_tokens": 5, "seed": 2, "logprobs": True, "top_logprobs": 3}),
]  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = bytes_bundle(tmp_path_factory.mktemp("batch") / "bytes")
    template = "{% for m in messages %}{{ m.role }}: {{ m.content }}{% if not loop.last %} {% endif %}{% endfor %}"
    (path / "chat_template.jinja").write_text(template, encoding="utf-8")
    return path


def lines(requests: list[tuple[str, dict[str, Any]]]) -> str:
    rows = [
        {"custom_id": f"r{n}", "method": "POST", "url": url, "body": {"model": "bytes", **body}}
        for n, (url, body) in enumerate(requests)
    ]
    return "".join(json.dumps(row) + "\n" for row in rows)


def without_place(answer: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in answer.items() if key not in ("id", "created")}


def test_answers_are_those_of_serve(call: Run, model: Path) -> None:
    done = call(
        "generate",
        model,
        "--layout",
        "jsonl",
        "--to",
        "jsonl",
        "--precision",
        "fp32",
        "--threads",
        1,
        stdin=lines(REQUESTS),
    )
    assert done.code == 0, done.err
    found = [json.loads(line) for line in done.out.splitlines()]
    assert [each["custom_id"] for each in found] == [f"r{n}" for n in range(len(REQUESTS))]
    service = Service.open(str(model), Serve(), Compute(precision="fp32", threads=1, device="cpu"))
    with (
        Worker(service.compute, batch_size=8, most_waiting=16) as worker,
        TestClient(application(service, worker, Serve()), base_url="http://127.0.0.1") as client,
    ):
        for each, (url, body) in zip(found, REQUESTS, strict=True):
            answer = client.post(url, json={"model": "bytes", **body})
            assert (answer.status_code, each["response"]["status_code"]) == (200, 200), answer.text
            values, wanted = without_place(each["response"]["body"]), without_place(answer.json())
            scores = [part.pop("logprobs") for whole in (values, wanted) for part in whole["choices"]]
            assert values == wanted, body
            half = len(scores) // 2
            for one, other in zip(scores[:half], scores[half:], strict=True):
                assert (one is None) == (other is None)
                if one and "token_logprobs" in one:
                    assert one["tokens"] == other["tokens"] and one["text_offset"] == other["text_offset"]
                    assert one["token_logprobs"] == pytest.approx(other["token_logprobs"], abs=1e-5)
                elif one:
                    pairs = zip(one["content"], other["content"], strict=True)
                    assert all(a["bytes"] == b["bytes"] and len(a["top_logprobs"]) == 3 for a, b in pairs)
    written = json.loads(found[6]["response"]["body"]["choices"][0]["message"]["content"])
    assert list(written) == ["ok", "n"] and type(written["ok"]) is bool and written["n"] >= 7
    first = found[0]["response"]["body"]
    assert first["usage"]["completion_tokens"] == 16 and first["choices"][0]["finish_reason"] == "length"
    assert [len(each["response"]["body"]["choices"]) for each in found[:5]] == [1, 4, 2, 1, 1]


def test_a_wrong_request_names_its_line_and_key(call: Run, model: Path) -> None:
    good = {"prompt": "a", "max_tokens": 1}
    for url, body, named in (
        (COMPLETIONS, {"prompt": "a", "max_token": 3}, "unknown key 'max_token', did you mean 'max_tokens'?"),
        (COMPLETIONS, {"prompt": "a", "stream": True}, "'stream'"),
        (COMPLETIONS, {"prompt": [999]}, '"prompt"'),
        (CHAT, {"prompt": "a"}, '"url"'),
        (COMPLETIONS, {"prompt": "a" * 300}, "the prompt has 301 tokens"),
        (CHAT, {"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}, "'input_audio'"),
    ):
        done = call(
            "generate", model, "--layout", "jsonl", "--to", "jsonl", stdin=lines([(COMPLETIONS, good), (url, body)])
        )
        assert done.code == 65 and "<stdin>:2: " in done.err and named in done.err and done.err.count("\n") == 1
        assert done.out.count(b"\n") == 1


def test_a_line_of_its_own_shape_has_one_prompt_and_keeps_its_keys(call: Run, model: Path) -> None:
    line = {"prompt": [97, 98], "max_tokens": 2, "temperature": 0, "temprature": 1}
    text = {**line, "prompt": "ab"}
    done = call(
        "generate", model, "--layout", "jsonl", "--to", "jsonl", stdin=f"{json.dumps(line)}\n{json.dumps(text)}\n"
    )
    one, other = map(json.loads, done.out.splitlines())
    assert one["prompt"] == [97, 98] and one["temprature"] == 1 and one["continuations"] == other["continuations"]
    done = call(
        "generate", model, "--layout", "jsonl", "--to", "jsonl", stdin=json.dumps({"prompt": ["a", "b"]}) + "\n"
    )
    assert done.code == 65 and "<stdin>:1: expected one text" in done.err
