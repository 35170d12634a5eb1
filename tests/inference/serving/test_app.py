"""The web application: OpenAI's shapes, the same texts as `generate`, and a clear answer to every bad request."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient
from tiny_bundles import words_bundle

from nlptools.configs import Compute
from nlptools.configs.generation import Generate
from nlptools.configs.serve import Serve
from nlptools.formats.completions import request
from nlptools.inference.serving.app import application
from nlptools.inference.serving.service import Service
from nlptools.inference.serving.worker import Job, Worker

LOCAL = "http://127.0.0.1"
GREEDY = {"temperature": 0, "max_tokens": 6}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Service:
    path = words_bundle(tmp_path_factory.mktemp("serve") / "words")
    template = "{% for m in messages %}{{ m.content }}{% if not loop.last %} {% endif %}{% endfor %}"
    (path / "chat_template.jinja").write_text(template, encoding="utf-8")
    return Service.open(str(path), Serve(), Compute(precision="fp32", threads=1, device="cpu"))


@pytest.fixture(scope="module")
def client(service: Service) -> Iterator[TestClient]:
    settings = Serve(most_tokens=20, most_body="4K")
    with (
        Worker(service.compute, batch_size=8, most_waiting=16) as worker,
        TestClient(application(service, worker, settings), base_url=LOCAL) as client,
    ):
        yield client


def text_of(service: Service, prompt: str) -> str:
    """What `generate` writes."""
    assert service.generator is not None
    [[only]] = service.generator.generate_batch([prompt], Generate(max_new_tokens=6, temperature=0))
    return only.text


def post(client: TestClient, path: str, **body: Any) -> Any:
    answer = client.post(f"/v1/{path}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def events(client: TestClient, path: str, **body: Any) -> list[dict[str, Any]]:
    answer = client.post(f"/v1/{path}", json={**body, "stream": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    *parts, last = answer.text.removesuffix("\n\n").split("\n\n")
    assert last == "data: [DONE]"
    return [json.loads(part.removeprefix("data: ")) for part in parts]


def test_completions_are_those_of_generate(service: Service, client: TestClient) -> None:
    prompts = ["w1 w2", "w3, w4.", "w5"]
    answer = post(client, "completions", prompt=prompts, model="any", **GREEDY)
    assert [choice["text"] for choice in answer["choices"]] == [text_of(service, prompt) for prompt in prompts]
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2]
    assert (answer["object"], answer["model"]) == ("text_completion", "words")
    assert answer["usage"]["total_tokens"] == answer["usage"]["prompt_tokens"] + answer["usage"]["completion_tokens"]


def test_a_chat_is_a_completion_of_its_rendered_messages(service: Service, client: TestClient) -> None:
    messages = [{"role": "user", "content": "w1"}, {"role": "assistant", "content": "w2"}]
    answer = post(client, "chat/completions", messages=messages, **GREEDY)
    assert answer["choices"][0]["message"] == {
        "role": "assistant",
        "content": text_of(service, "w1 w2"),
        "refusal": None,
    }
    assert answer["object"] == "chat.completion" and answer["id"].startswith("chatcmpl-")


def test_log_probabilities_are_negative_and_stand_beside_their_tokens(client: TestClient) -> None:
    [choice] = post(client, "completions", prompt="w1", logprobs=2, **GREEDY)["choices"]
    scores = choice["logprobs"]
    assert "".join(scores["tokens"]) == choice["text"] and all(each <= 0 for each in scores["token_logprobs"])
    assert all(len(top) == 2 for top in scores["top_logprobs"])


def test_the_text_behind_an_answer_ends_it(service: Service, client: TestClient) -> None:
    """What a template writes after a turn, where the tokenizer has no token for it."""
    turn = [{"role": "user", "content": "w1 w2"}]
    words = text_of(service, "w1 w2").split()
    assert service.render is not None and service.render.end == ""
    end = next(word for word in words if word not in words[: words.index(word)])
    ending = replace(service.render, end=end)
    asked = request({"messages": turn, "stop": ["never"]}, Generate(max_new_tokens=6, temperature=0), ending)
    assert asked.settings.stop == ("never", end)
    assert service.generator is not None
    [[only]] = service.generator.answer([asked])
    assert (only.text.split(), only.finish) == (words[: words.index(end)], "stop")


def test_a_template_ends_turns_with_text_or_a_token(tmp_path: Path) -> None:
    path = words_bundle(tmp_path / "words")
    ends = {}
    for name, end in (("text", "<|im_end|> w1"), ("token", "w3")):
        (path / "chat_template.jinja").write_text("{% for m in messages %}{{ m.content }} " + end + "{% endfor %}")
        ends[name] = Service.open(str(path), Serve(), Compute(precision="fp32", threads=1, device="cpu")).render
    assert ends["text"] is not None and ends["text"].end == "<|im_end|> w1"
    assert ends["token"] is not None and ends["token"].end == ""


@pytest.mark.parametrize("chat", [False, True])
def test_a_stream_is_the_same_text_in_pieces(service: Service, client: TestClient, chat: bool) -> None:
    asked: dict[str, Any] = (
        {"messages": [{"role": "user", "content": "w1 w2"}]} if chat else {"prompt": ["w1 w2", "w5"]}
    )
    rows = events(
        client, "chat/completions" if chat else "completions", stream_options={"include_usage": True}, **asked, **GREEDY
    )
    assert rows[-1]["choices"] == [] and rows[-1]["usage"]["completion_tokens"] > 0
    texts, ends = ["", ""], {}
    for row in rows[:-1]:
        [choice] = row["choices"]
        texts[choice["index"]] += choice["delta"].get("content", "") if chat else choice["text"]
        if choice["finish_reason"]:
            ends[choice["index"]] = choice["finish_reason"]
    assert texts == [text_of(service, "w1 w2"), "" if chat else text_of(service, "w5")]
    assert set(ends.values()) <= {"length", "stop"} and len(ends) == (1 if chat else 2)


def test_a_seed_decides_and_its_absence_varies(client: TestClient) -> None:
    asked = {"prompt": "w1", "max_tokens": 12}
    same = {post(client, "completions", seed=7, **asked)["choices"][0]["text"] for _ in range(3)}
    other = {post(client, "completions", **asked)["choices"][0]["text"] for _ in range(6)}
    assert len(same) == 1 < len(other)


def test_requests_that_arrive_together_are_computed_together(service: Service) -> None:
    sizes, go = [], threading.Event()

    def compute(jobs: list[Job]) -> list[Any]:
        go.wait(5)
        sizes.append(len(jobs))
        return service.compute(jobs)

    prompts = [f"w{i}" for i in range(1, 7)]
    with (
        Worker(compute, batch_size=8, most_waiting=16) as worker,
        TestClient(application(service, worker, Serve()), base_url=LOCAL) as client,
        ThreadPoolExecutor(6) as pool,
    ):
        answers = [pool.submit(post, client, "completions", prompt=prompt, **GREEDY) for prompt in prompts]
        threading.Timer(0.5, go.set).start()
        texts = [answer.result()["choices"][0]["text"] for answer in answers]
    assert texts == [text_of(service, prompt) for prompt in prompts]
    assert len(sizes) < len(prompts)


def test_embeddings_are_those_of_embed(service: Service, client: TestClient) -> None:
    assert service.embedder is not None
    texts = ["w1 w2", "w3"]
    wanted = service.embedder.embed(texts)
    data = post(client, "embeddings", input=texts)["data"]
    np.testing.assert_allclose([row["embedding"] for row in data], wanted, atol=1e-6)
    coded = post(client, "embeddings", input="w1 w2", encoding_format="base64")["data"][0]["embedding"]
    np.testing.assert_allclose(np.frombuffer(base64.b64decode(coded), "<f4"), wanted[0], atol=1e-6)


REFUSED = [
    ({}, 400, "prompt"),
    ({"prompt": [1, 2]}, 400, "prompt"),
    ({"prompt": "w1", "temperature": "hot"}, 400, "temperature"),
    ({"prompt": "w1", "temperature": -1}, 400, "temperature"),
    ({"prompt": "w1", "max_tokens": 21}, 400, "most 20"),
    ({"prompt": "w1", "n": 1000}, 400, "128"),
    ({"prompt": "w1", "tools": [{}]}, 400, "tools"),
    ({"prompt": "w1", "logit_bias": {"3": 1}}, 400, "logit_bias"),
    ({"prompt": "w1", "stream": True, "n": 2}, 400, "stream"),
    ({"prompt": "w" * 5000}, 413, "4K"),
]


@pytest.mark.parametrize(("body", "status", "named"), REFUSED)
def test_bad_requests_are_refused_by_name(client: TestClient, body: dict[str, Any], status: int, named: str) -> None:
    answer = client.post("/v1/completions", json=body)
    assert answer.status_code == status
    error = answer.json()["error"]
    assert named in f"{error['message']} {error['param']}" and "\n" not in error["message"]


def test_what_is_no_request_is_refused(client: TestClient) -> None:
    assert client.post("/v1/completions", content=b"{").status_code == 400
    assert client.post("/v1/completions", content=b"[1]").status_code == 400
    assert client.post("/v1/completions", content=b"[" * 3000).status_code == 400
    assert client.get("/v1/completions").status_code == 405
    assert client.get("/etc/passwd").status_code == 404
    assert client.post("/v1/chat/completions", json={"prompt": "w1"}).status_code == 400
    assert client.get("/health", headers={"host": "evil.example"}).status_code == 400


def test_too_many_requests_are_refused(service: Service) -> None:
    with (
        Worker(service.compute, batch_size=1, most_waiting=2) as worker,
        TestClient(application(service, worker, Serve()), base_url=LOCAL) as client,
    ):
        answer = client.post("/v1/completions", json={"prompt": ["w1"] * 3})
        assert answer.status_code == 503 and "waiting" in answer.json()["error"]["message"]


def test_an_answer_ends_when_its_time_is_over(service: Service) -> None:
    with (
        Worker(service.compute, batch_size=1, most_waiting=2) as worker,
        TestClient(application(service, worker, Serve(timeout="0")), base_url=LOCAL) as client,
    ):
        answer = client.post("/v1/completions", json={"prompt": "w1"})
        assert answer.status_code == 504 and "within" in answer.json()["error"]["message"]


def test_an_encoder_embeds_and_says_that_it_does_not_generate(service: Service) -> None:
    only = Service("encoder", None, service.embedder)
    with (
        Worker(only.compute, batch_size=2, most_waiting=4) as worker,
        TestClient(application(only, worker, Serve()), base_url=LOCAL) as client,
    ):
        assert len(post(client, "embeddings", input=["w1", "w2"])["data"]) == 2
        assert client.post("/v1/completions", json={"prompt": "w1"}).status_code == 404
        assert client.get("/v1/models").json()["data"][0]["id"] == "encoder"


def test_paths_are_no_part_of_a_request(client: TestClient, tmp_path: Path) -> None:
    """What looks like a file is text."""
    (tmp_path / "secret").write_text("w1 w2 w3", encoding="utf-8")
    [choice] = post(client, "completions", prompt=str(tmp_path / "secret"), echo=True, **GREEDY)["choices"]
    assert choice["text"].startswith(str(tmp_path / "secret"))
