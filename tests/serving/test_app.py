"""The web application: OpenAI's shapes, the same texts as `generate`, and a clear answer to every bad request."""

from __future__ import annotations

import base64
import json
import threading
import time
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
from nlptools.serving.app import application
from nlptools.serving.completions import Prompting, request
from nlptools.serving.service import Service
from nlptools.serving.worker import Job, Worker

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
    answer = post(client, "completions", prompt=prompts, model="words", **GREEDY)
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
    ending = Prompting(replace(service.render, end=end))
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


@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize("scored", [False, True])
def test_a_stream_has_several_choices_and_log_probabilities(client: TestClient, chat: bool, scored: bool) -> None:
    path = "chat/completions" if chat else "completions"
    turn = {"messages": [{"role": "user", "content": "w1 w2"}]}
    asked: dict[str, Any] = {**(turn if chat else {"prompt": ["w1 w2", "w5"], "echo": True}), "n": 2, "seed": 3}
    asked |= {"max_tokens": 9, "stop": ["w7", "w9"]}
    if scored:
        asked |= {"logprobs": True, "top_logprobs": 2} if chat else {"logprobs": 2}
    whole = post(client, path, **asked)["choices"]
    found: list[dict[str, Any]] = [{"text": "", "logprobs": {}, "finish_reason": None} for _ in whole]
    for row in events(client, path, **asked):
        [choice] = row["choices"]
        each = found[choice["index"]]
        assert each["finish_reason"] is None
        text = choice["delta"].get("content", "") if chat else choice["text"]
        each["text"], each["finish_reason"] = each["text"] + text, choice["finish_reason"]
        for key, values in (choice["logprobs"] or {}).items():
            each["logprobs"].setdefault(key, []).extend(values or [])
        if scored and text and choice["logprobs"] and not chat:
            assert "".join(choice["logprobs"]["tokens"]) == text
    for each, wanted in zip(found, whole, strict=True):
        assert each["text"] == (wanted["message"]["content"] if chat else wanted["text"])
        assert each["finish_reason"] == wanted["finish_reason"]
        assert {k: v for k, v in each["logprobs"].items() if v} == {
            k: v for k, v in (wanted["logprobs"] or {}).items() if v
        }


def test_the_model_has_an_address_and_a_name(client: TestClient) -> None:
    [listed] = client.get("/v1/models").json()["data"]
    assert client.get("/v1/models/words").json() == listed
    for answer in (
        client.get("/v1/models/other"),
        client.get("/v1/models/org/words"),
        client.post("/v1/embeddings", json={"input": "w1", "model": "other"}),
        client.post("/v1/chat/completions", json={"messages": [], "model": ["words"]}),
    ):
        error = answer.json()["error"]
        assert answer.status_code == 404 and error["code"] == "model_not_found" and "'words'" in error["message"]
    answer = client.post("/v1/embeddings", json={"input": "w1", "inputs": "w2"})
    assert answer.status_code == 400 and "did you mean 'input'" in answer.json()["error"]["message"]


def test_a_schema_decides_the_shape_of_an_answer(client: TestClient) -> None:
    """A model of words has no brackets, but a schema of one word needs none."""
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"oneOf": []}}}
    answer = client.post("/v1/completions", json={"prompt": "w1", "response_format": form})
    assert answer.status_code == 400 and "oneOf" in answer.json()["error"]["message"]


def test_errors_are_json_whoever_finds_them(client: TestClient) -> None:
    for answer, status in (
        (client.get("/health", headers={"host": "evil.example"}), 400),
        (client.get("/nothing"), 404),
        (client.delete("/v1/completions"), 405),
        (client.post("/v1/models"), 405),
        (client.post("/v1/completions", content=b'{"prompt": "w1", "prompt": "w2"}'), 400),
        (client.post("/v1/completions", content=b"\xff"), 400),
        (client.post("/v1/completions", content=b"[" * 5000), 413),
    ):
        assert answer.status_code == status
        error = answer.json()["error"]
        assert answer.headers["content-type"] == "application/json" and error["type"] == "invalid_request_error"
        assert error["message"]
    assert client.delete("/v1/completions").headers["allow"] == "POST"
    for body in (b'{"input": "w1", "\\ud800": 1}', b'{"input": "w1", "model": "\\ud800"}'):  # half a surrogate pair
        assert client.post("/v1/embeddings", content=body).json()["error"]["type"] == "invalid_request_error"
    answer = client.post("/v1/completions", content=b'{"prompt": "w1", "match": "(?P<\\ud800>"}')
    assert answer.status_code == 400 and answer.json()["error"]


def test_web_pages_of_some_origins_may_read_the_answers(service: Service) -> None:
    asks = {"access-control-request-method": "POST", "access-control-request-headers": "authorization,content-type"}
    page = "http://localhost:3000"
    for allowed, found in (((), None), ((page,), page), (("*",), "*")):
        with (
            Worker(service.compute, batch_size=1, most_waiting=2) as worker,
            TestClient(application(service, worker, Serve(cors=allowed)), base_url=LOCAL) as client,
        ):
            before = client.options("/v1/completions", headers={"origin": page, **asks})
            assert before.headers.get("access-control-allow-origin") == found
            assert (before.status_code == 200) == bool(allowed)
            for answer in (
                client.post("/v1/completions", json={"prompt": "w1", **GREEDY}, headers={"origin": page}),
                client.post("/v1/completions", json={}, headers={"origin": page}),
            ):
                assert answer.headers.get("access-control-allow-origin") == found
            other = client.options("/v1/completions", headers={"origin": "http://evil.example", **asks})
            assert (other.status_code == 200) == (allowed == ("*",)) and (allowed == ("*",) or other.json()["error"])


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
    ({"prompt": [1, 20_000]}, 400, "prompt"),
    ({"prompt": [-1]}, 400, "prompt"),
    ({"prompt": "w1", "temperature": "hot"}, 400, "temperature"),
    ({"prompt": "w1", "temperature": -1}, 400, "temperature"),
    ({"prompt": "w1", "max_tokens": 21}, 400, "most 20"),
    ({"prompt": "w1", "n": 1000}, 400, "128"),
    ({"prompt": "w1", "tools": [{}]}, 400, "tools"),
    ({"prompt": "w1", "logit_bias": {"3": 1}}, 400, "logit_bias"),
    ({"prompt": "w1", "stream": True, "best_of": 2}, 400, "best_of"),
    ({"prompt": "w1", "stream": True, "stream_options": [1]}, 400, "stream_options"),
    ({"prompt": "w1", "model": "gpt-4o"}, 404, "gpt-4o"),
    ({"prompt": "w1", "temprature": 0}, 400, "did you mean 'temperature'"),
    ({"prompt": "w1", "guided_regex": "a"}, 400, "guided_regex"),
    ({"prompt": "w1", "max_tokens": 0}, 400, "max_tokens"),
    ({"prompt": "w1", "body": {"prompt": "w2"}}, 400, "body"),
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
    def compute(jobs: list[Job]) -> list[Any]:
        time.sleep(0.5)
        return service.compute(jobs)

    with (
        Worker(compute, batch_size=1, most_waiting=2) as worker,
        TestClient(application(service, worker, Serve(timeout="0.2")), base_url=LOCAL) as client,
        ThreadPoolExecutor(2) as pool,
    ):
        answers = [pool.submit(client.post, "/v1/completions", json={"prompt": "w1"}) for _ in range(2)]
        codes = sorted(answer.result().status_code for answer in answers)
        # the first one was begun in time, and is cut short; the second one is not begun
        assert codes == [200, 504]
        late = next(answer.result() for answer in answers if answer.result().status_code == 504)
        assert "within 0.2" in late.json()["error"]["message"]


def test_an_encoder_embeds_and_says_that_it_does_not_generate(service: Service) -> None:
    only = Service("encoder", None, service.embedder)
    with (
        Worker(only.compute, batch_size=2, most_waiting=4) as worker,
        TestClient(application(only, worker, Serve()), base_url=LOCAL) as client,
    ):
        assert len(post(client, "embeddings", input=["w1", "w2"])["data"]) == 2
        assert client.post("/v1/completions", json={"prompt": "w1"}).status_code == 404
        assert client.get("/v1/models").json()["data"][0]["id"] == "encoder"


def test_a_prompt_that_fits_is_read_whole_and_a_longer_one_refused(client: TestClient) -> None:
    """The context has 24 tokens, the start token among them; an answer ends where it is full."""
    for words in (4, 15, 22, 23):
        prompt = " ".join(f"w{n}" for n in range(words))
        for path, body in (
            ("completions", {"prompt": prompt, "max_tokens": 20}),
            ("chat/completions", {"messages": [{"role": "user", "content": prompt}]}),
        ):
            answer = post(client, path, ban_words=[], min_new_tokens=20, **body)
            expected = {"prompt_tokens": words + 1, "completion_tokens": max(1, min(20, 23 - words))}
            assert answer["usage"] == {**expected, "total_tokens": sum(expected.values())}
            assert answer["choices"][0]["finish_reason"] == "length"
    prompt = " ".join(["w1"] * 24)
    for path, body in (
        ("completions", {"prompt": prompt, "max_tokens": 1}),
        ("completions", {"prompt": ["w1", prompt], "stream": True}),
        ("chat/completions", {"messages": [{"role": "user", "content": prompt}]}),
    ):
        answer = client.post(f"/v1/{path}", json=body)
        assert answer.status_code == 400
        expected = "the prompt has 25 tokens, and the context of the model has room for 24"
        assert answer.json()["error"]["message"] == expected


def test_constraints_that_take_too_much_are_refused_when_they_arrive(service: Service, client: TestClient) -> None:
    """Before they wait, so that the worker has never seen them; other requests are answered meanwhile."""
    for body in (
        {"match": "(a{1000}){1000}"},
        {"match": "(a|b)*a(a|b){30}", "stream": True},
        {"match": "[[:alpha:]]"},
        {"force_words": [f"{n}" for n in range(200)]},
        {"match": "(" * 1500},
    ):
        answer = client.post("/v1/completions", json={"prompt": "w1", **body})
        assert answer.status_code == 400 and answer.json()["error"]["type"] == "invalid_request_error"
        assert "--match" in answer.json()["error"]["message"]


def test_more_texts_than_are_ever_answered_are_refused(service: Service) -> None:
    settings = Serve(most_waiting=16)
    with (
        Worker(service.compute, batch_size=8, most_waiting=16) as worker,
        TestClient(application(service, worker, settings), base_url=LOCAL) as client,
    ):
        for path, body in (
            ("completions", {"prompt": ["w1"] * 17}),
            ("completions", {"prompt": [[2]] * 17, "stream": True}),
            ("embeddings", {"input": ["w1"] * 17}),
        ):
            answer = client.post(f"/v1/{path}", json=body)
            assert answer.status_code == 400 and "at most 16 texts" in answer.json()["error"]["message"]
        assert len(post(client, "completions", prompt=["w1"] * 16, **GREEDY)["choices"]) == 16
        assert post(client, "completions", prompt=[2] * 17, **GREEDY)["usage"]["prompt_tokens"] == 18
        stops = [f"x{n}" for n in range(1001)]
        answer = client.post("/v1/completions", json={"prompt": "w1", "stop": stops})
        assert answer.status_code == 400 and answer.json()["error"]["param"] == "stop"
        assert post(client, "completions", prompt="w1", stop=stops[:1000], **GREEDY)["choices"]


def test_requests_are_checked_apart_from_those_of_others(
    service: Service, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    checking, others_are_done = threading.Event(), threading.Event()
    check = service.check

    def slow(asked: Any) -> None:
        if asked[0].prompt == "w9":
            checking.set()
            assert others_are_done.wait(30)
        check(asked)

    monkeypatch.setattr(service, "check", slow)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(post, client, "completions", prompt="w9", **GREEDY)
        assert checking.wait(30)
        assert client.get("/health").status_code == 200
        assert post(client, "completions", prompt="w1", **GREEDY)["choices"]
        others_are_done.set()
        assert waiting.result()["choices"]


def test_paths_are_no_part_of_a_request(client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What looks like a file is text."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret").write_text("w1 w2 w3", encoding="utf-8")
    [choice] = post(client, "completions", prompt="./secret", echo=True, **GREEDY)["choices"]
    assert choice["text"].startswith("./secret")
