"""Requests as evaluation programs send them over HTTP: their scores are those of `score --choices`.

The requests, and what is read from the answers, are those of the clients local-completions and local-chat-completions of
lm-evaluation-harness.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from llama_folders import written
from starlette.testclient import TestClient

from nlptools.configs import Compute
from nlptools.configs.serve import Serve
from nlptools.inference.language_model import TextLanguageModel
from nlptools.serving.app import application
from nlptools.serving.service import Service
from nlptools.serving.worker import Worker

PAIRS = [
    ("the cat sat", " on the mat"),
    ("the cat sat", " on the dog"),
    ("a dog", " and a löwe 🦁"),
    ("ein Bär  ", "sat"),
]
CHAT = "{% for m in messages %}{{ m['content'] }}<|end|>{% endfor %}"


class Served(NamedTuple):
    """A server, its model, and the tokenizer that a client has."""

    client: TestClient
    model: TextLanguageModel
    tokenizer: Any


@pytest.fixture(scope="module", params=[True, False], ids=["start token", "no start token"])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    from transformers import AutoTokenizer

    path: Path = tmp_path_factory.mktemp("serve") / "llama"
    written(path, bos=request.param, max_position_embeddings=64)
    (path / "chat_template.jinja").write_text(CHAT, encoding="utf-8")
    service = Service.open(str(path), Serve(name="m"), Compute(precision="fp32", threads=1, device="cpu"))
    assert service.generator is not None
    with (
        Worker(service.compute, batch_size=8, most_waiting=16) as worker,
        TestClient(application(service, worker, Serve()), base_url="http://127.0.0.1") as client,
    ):
        yield Served(client, service.generator, AutoTokenizer.from_pretrained(path))


def split(tokenizer: Any, context: str, continuation: str) -> tuple[list[int], list[int]]:
    """The tokens of a context and of what follows it, as the client cuts them."""
    spaces = len(context) - len(context.rstrip())
    if spaces:
        context, continuation = context[:-spaces], context[-spaces:] + continuation
    whole = tokenizer(context + continuation, add_special_tokens=False).input_ids
    before = tokenizer(context, add_special_tokens=False).input_ids
    return before, whole[len(before) :]


def scores(served: Served, prompts: Any, lengths: Sequence[int]) -> list[tuple[float, bool]]:
    """The log-probability of each continuation, given the lengths of its context, and whether it is the likeliest one."""
    payload = {
        "model": "m",
        "prompt": prompts,
        "temperature": 0,
        "max_tokens": 1,
        "logprobs": 1,
        "seed": 1234,
        "echo": True,
    }
    answer = served.client.post("/v1/completions", json=payload)
    assert answer.status_code == 200, answer.text
    found = []
    for choice, length in zip(sorted(answer.json()["choices"], key=lambda each: each["index"]), lengths, strict=True):
        values = choice["logprobs"]["token_logprobs"][length:-1]
        tops = choice["logprobs"]["top_logprobs"][length:-1]
        found.append((sum(values), all(v == max(top.values()) for v, top in zip(values, tops, strict=True))))
    return found


def greedy(served: Served) -> tuple[str, str]:
    """A pair of which the model finds the second part likeliest."""
    payload = {"prompt": "the dog", "max_tokens": 3, "temperature": 0, "min_tokens": 3}
    return "the dog", served.client.post("/v1/completions", json=payload).json()["choices"][0]["text"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("tokenized", [True, False])
def test_choices_have_the_scores_of_score(served: Served, tokenized: bool) -> None:
    pairs = [*PAIRS, greedy(served)] if tokenized else PAIRS
    parts = [split(served.tokenizer, *pair) for pair in pairs]
    prompts = [[*before, *after] for before, after in parts]
    given: list[Any] = prompts if tokenized else served.tokenizer.batch_decode(prompts)
    lengths = [len(before) for before, _ in parts]
    wanted = served.model.likelihoods(pairs)
    found = scores(served, given, lengths)
    assert [value for value, _ in found] == pytest.approx([each.log_probability for each in wanted], abs=1e-4)
    assert [likeliest for _, likeliest in found] == [each.greedy for each in wanted]
    # one after the other, where the client sends a text alone, or a list of one list of tokens
    alone = [scores(served, [each] if tokenized else each, [n])[0] for each, n in zip(given, lengths, strict=True)]
    assert [value for value, _ in alone] == pytest.approx([value for value, _ in found], abs=1e-4)


def test_a_whole_text_has_its_score_behind_the_start_token(served: Served) -> None:
    """As the client asks for a perplexity: it puts a token before the text itself."""
    text = "the cat sat on the log"
    ids = served.tokenizer(text, add_special_tokens=False).input_ids
    start = served.tokenizer.bos_token_id
    [(value, _)] = scores(served, [[start, *ids]], [1])
    if served.model.bundle.start == start:
        [wanted] = served.model.likelihoods([("", text)])
        assert value == pytest.approx(wanted.log_probability, abs=1e-4)
    choice = echo(served, prompt=[start, *ids], max_tokens=0)
    assert choice["logprobs"]["token_logprobs"][0] is None and choice["logprobs"]["top_logprobs"][0] is None
    assert sum(choice["logprobs"]["token_logprobs"][1:]) == pytest.approx(value, abs=1e-4)


def echo(served: Served, **payload: Any) -> dict[str, Any]:
    body = {"temperature": 0, "logprobs": 2, "echo": True, **payload}
    answer = served.client.post("/v1/completions", json=body)
    assert answer.status_code == 200, answer.text
    choice: dict[str, Any] = answer.json()["choices"][0]
    return choice


@pytest.mark.parametrize("new", [0, 4])
def test_an_echo_has_an_entry_for_each_token(served: Served, new: int) -> None:
    for text in ("the cat", "löwe 🦁 and\ta\nBär", " a dog "):
        ids = served.tokenizer(text, add_special_tokens=False).input_ids
        whole = echo(served, prompt=text, max_tokens=new, min_tokens=new)
        entries = whole["logprobs"]
        assert all(len(values) == len(ids) + new for values in entries.values())
        assert "".join(entries["tokens"]) == whole["text"] and whole["text"].startswith(text)
        assert entries["text_offset"][0] == 0 and entries["text_offset"] == sorted(entries["text_offset"])
        places = zip(entries["text_offset"], entries["tokens"], strict=True)
        assert all(whole["text"][place:].startswith(token) for place, token in places)
        first, *rest = zip(entries["tokens"], entries["token_logprobs"], entries["top_logprobs"], strict=True)
        for token, value, top in rest if first[1] is None else [first, *rest]:
            assert top[token] == value and max(top.values()) <= 0 and len(top) in (2, 3)
        # the same from token numbers
        assert echo(served, prompt=ids, max_tokens=new, min_tokens=new) == whole
        assert (whole["finish_reason"] == "length") and (first[1] is None) != served.model.bundle.prepends_start


def test_texts_and_chats_of_the_client(served: Served) -> None:
    body = {"model": "m", "max_tokens": 6, "temperature": 0, "stop": ["\n", "</s>"], "seed": 1234}
    answer = served.client.post("/v1/completions", json={**body, "prompt": ["the cat", "a dog"]})
    chosen = [choice["text"] for choice in answer.json()["choices"]]
    ids = [served.tokenizer(text, add_special_tokens=False).input_ids for text in ("the cat", "a dog")]
    answer = served.client.post("/v1/completions", json={**body, "prompt": ids})
    assert [choice["text"] for choice in answer.json()["choices"]] == chosen and all(chosen)
    messages = [{"role": "user", "content": "the cat"}]
    answer = served.client.post("/v1/chat/completions", json={**body, "messages": messages, "stop": ["\n"]})
    assert answer.status_code == 200 and answer.json()["choices"][0]["message"]["content"]
