"""Requests as JSON, and responses in the shape of OpenAI's API."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import pytest

from nlptools.configs.generation import Generate
from nlptools.errors import DataError
from nlptools.inference.generation.requests import CompletionRequest
from nlptools.inference.generation.token_pieces import Piece, Spelled
from nlptools.serving.completion_answers import ChoiceStream, batch_line, response
from nlptools.serving.completion_pieces import chat_scores, completion_scores
from nlptools.serving.completions import Prompting, request, requests

# " é!", the é in two tokens, and the end of the text
TOKENS = [
    Spelled(0, " ", b" "),
    Spelled(1, "bytes:\\xc3", b"\xc3"),
    Spelled(2, "bytes:\\xa9", b"\xa9"),
    Spelled(3, "!", b"!"),
]
END, OTHER, SAME = Spelled(4, "</s>", b"</s>"), Spelled(5, "a", b"a"), Spelled(6, "é", "é".encode())


def pieces() -> list[Piece]:
    """The most likely token at each place is the token itself, or another one."""
    texts = zip([*TOKENS, END], [" ", "", "é", "!", ""], [-1.0, -2.0, -3.0, -4.0, -5.0], strict=True)
    top = [[(TOKENS[0], -1.0)], [(OTHER, -0.5)], [(SAME, -0.1)], [(TOKENS[3], -4.0)], [(OTHER, -0.2)]]
    return [Piece(text, token, value, top[n], n == 4) for n, (token, text, value) in enumerate(texts)]


@dataclass
class Written:
    """A continuation as a model returns it."""

    text: str = " é!"
    finish: str = "eos"
    pieces: list[Piece] = field(default_factory=pieces)
    prompt: list[Piece] = field(default_factory=list)
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
    assert scored.settings == Generate(logprobs=True, top_logprobs=2, echo=True)
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
        ({"prompt": "a", "top_logprobs": True}, '"top_logprobs"'),
        ({"prompt": "a", "seed": True}, '"seed"'),
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
    prompting = Prompting(Render())
    asked = request({"messages": [{"role": "user", "content": "a"}]}, Generate(stop=("x",)), prompting)
    assert (asked.prompt, asked.chat, asked.settings.stop) == ("<user>a", True, ("x", "<end>"))
    assert request({"prompt": "a"}, Generate(), prompting).settings.stop == ()
    assert response([asked], 1, [[Written()]])["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": " é!", "refusal": None},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ]


def test_parts_of_a_message_are_joined() -> None:
    def prompt(content: Any) -> str:
        return request({"messages": [{"role": "user", "content": content}]}, Generate(), Prompting(Render())).prompt

    parts = [{"type": "text", "text": "one "}, {"type": "text", "text": "two"}]
    assert prompt(parts) == prompt("one two") == "<user>one two"
    for wrong in ([{"type": "image_url", "image_url": {"url": "x"}}], ["text"], [{"type": "text"}]):
        with pytest.raises(DataError, match=r"image_url|None|\"text\""):
            prompt(wrong)


def test_the_shape_of_a_completion() -> None:
    body = {"prompt": "ab", "logprobs": 1, "echo": True, "model": "m"}
    asked = request({"custom_id": "x", "url": "/v1/completions", "body": body}, Generate())
    before = [Piece("a", Spelled(5, "a", b"a"), None), Piece("b", Spelled(7, "b", b"b"), -0.5, [(OTHER, -0.25)])]
    found = batch_line([asked], 5, [[Written(prompt=before), Written(finish="length", prompt=before)]])
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
        "tokens": ["a", "b", " ", "", "é", "!", ""],
        "token_logprobs": [None, -0.5, -1.0, -2.0, -3.0, -4.0, -5.0],
        # a token that adds the same text as the chosen one is named by its bytes
        "top_logprobs": [
            None,
            {"a": -0.25, "b": -0.5},
            {" ": -1.0},
            {"a": -0.5, "": -2.0},
            {"bytes:\\xc3\\xa9": -0.1, "é": -3.0},
            {"!": -4.0},
            {"a": -0.2, "": -5.0},
        ],
        "text_offset": [0, 1, 2, 3, 3, 4, 5],
    }
    none = request({"prompt": "ab", "logprobs": 0}, Generate())
    assert response([none], 0, [[Written()]])["choices"][0]["logprobs"]["top_logprobs"] is None


def test_log_probabilities_of_a_chat_completion() -> None:
    record = {"messages": [{"role": "user", "content": "a"}], "logprobs": True, "top_logprobs": 1}
    asked = request(record, Generate(), Prompting(Render()))
    content = response([asked], 0, [[Written()]])["choices"][0]["logprobs"]["content"]
    assert [each["token"] for each in content] == [" ", "bytes:\\xc3", "bytes:\\xa9", "!"]
    assert content[2] == {
        "token": "bytes:\\xa9",
        "logprob": -3.0,
        "bytes": [0xA9],
        "top_logprobs": [{"token": "é", "logprob": -0.1, "bytes": [0xC3, 0xA9]}],
    }


def test_what_is_impossible_has_a_finite_log_probability() -> None:
    never = Piece("a", OTHER, -math.inf, [(TOKENS[3], -0.5), (OTHER, -math.inf)])
    scores = completion_scores([never], 0, True)
    assert scores["token_logprobs"] == [-9999.0] and scores["top_logprobs"] == [{"!": -0.5, "a": -9999.0}]
    [entry] = chat_scores([never])["content"]
    assert entry["logprob"] == -9999.0 and entry["top_logprobs"][1]["logprob"] == -9999.0


@pytest.mark.parametrize("chat", [False, True])
def test_a_choice_in_pieces_is_the_whole_choice(chat: bool) -> None:
    asked = CompletionRequest("ab", Generate(logprobs=True, top_logprobs=1), {}, chat=chat)
    stream, written = ChoiceStream(asked, 2), pieces()
    parts = [(" ", written[:1]), ("é", written[1:3]), ("!", written[3:])]
    chunks = [stream.begin(), *(stream.grow(*part) for part in parts), stream.end("stop")]
    assert {chunk["index"] for chunk in chunks} == {2}
    assert [chunk["finish_reason"] for chunk in chunks] == [None, None, None, None, "stop"]
    [whole] = response([asked], 0, [[Written()]])["choices"]
    joined: dict[str, list[Any]] = {}
    for chunk in chunks:
        for key, values in (chunk["logprobs"] or {}).items():
            joined.setdefault(key, []).extend(values or [])
    if chat:
        assert "".join(chunk["delta"].get("content", "") for chunk in chunks) == whole["message"]["content"]
        assert joined["content"] == whole["logprobs"]["content"]
    else:
        assert "".join(chunk["text"] for chunk in chunks) == whole["text"] and joined == whole["logprobs"]


def decode(ids: Any) -> str:
    return "".join("abc"[i] for i in ids)


def test_prompts_of_a_request() -> None:
    def prompts(prompt: Any) -> list[tuple[str, tuple[int, ...] | None]]:
        record = {"custom_id": "x", "body": {"prompt": prompt}}
        return [(each.prompt, each.ids) for each in requests(record, Generate(), Prompting(None, decode))]

    assert prompts("a") == [("a", None)]
    assert prompts([0, 1]) == [("ab", (0, 1))]
    assert prompts([[0, 1], "x", [2]]) == [("ab", (0, 1)), ("x", None), ("c", (2,))]
    for wrong in ([], [[]], [0, 3], [-1], [True], [0, "a"], None, 1, [[0, "a"]]):
        with pytest.raises(DataError, match=r'"prompt"|the prompt'):
            prompts(wrong)
    with pytest.raises(DataError, match='"prompt"'):
        request({"prompt": [0]}, Generate())


def test_no_new_tokens_only_after_an_echo() -> None:
    assert request({"prompt": "a", "echo": True, "max_tokens": 0}, Generate()).settings.room == 0
    for wrong in ({"prompt": "a", "max_tokens": 0}, {"prompt": "a", "echo": True, "max_tokens": False}):
        with pytest.raises(DataError, match='"max_tokens"'):
            request(wrong, Generate())


CHAT = [{"role": "user", "content": "a"}]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"prompt": "a", "temprature": 0}, "unknown key 'temprature', did you mean 'temperature'?"),
        ({"prompt": "a", "Top_P": 0.5}, "did you mean 'top_p'?"),
        ({"prompt": "a", "zzzz": None}, "unknown key 'zzzz'"),
        ({"prompt": "a", "tools": [{}]}, "'tools' is not supported"),
        ({"prompt": "a", "stream": True}, "nlptools serve"),
        ({"messages": CHAT, "echo": True}, "unknown key 'echo'"),
        ({"messages": CHAT, "reasoning_effort": "high"}, "'reasoning_effort' is not supported"),
        ({"messages": CHAT, "modalities": ["text", "audio"]}, "'modalities' is not supported"),
        ({"messages": CHAT, "response_format": {"type": "xml"}}, '"response_format"'),
        ({"messages": CHAT, "response_format": {"type": "json_object"}, "match": "a"}, 'one of "match"'),
    ],
)
def test_requests_of_a_batch_have_no_other_keys(body: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError) as raised:
        requests({"custom_id": "x", "body": body}, Generate(), Prompting(Render()), "in.jsonl", 3)
    assert str(raised.value).startswith("in.jsonl:3: ") and message in str(raised.value)


def test_what_changes_no_answer_may_stand_in_a_request() -> None:
    more = {"user": "u", "metadata": {"a": "b"}, "store": False, "tools": [], "logit_bias": {}, "tool_choice": "none"}
    body = {"messages": CHAT, "model": "m", "modalities": ["text"], "response_format": {"type": "text"}, **more}
    [asked] = requests({"custom_id": "x", "body": body}, Generate(), Prompting(Render()))
    assert asked.settings == Generate(stop=("<end>",), max_new_tokens=1024, strict=True)
    # a line that is no request of a batch has further keys, which its output repeats
    assert request({"prompt": "a", "temprature": 0, "label": 1}, Generate()).settings == Generate()


def test_a_request_of_a_batch_goes_to_the_address_of_its_kind() -> None:
    def ask(url: str, body: dict[str, Any], **more: str) -> CompletionRequest:
        return request({"custom_id": "x", "url": url, "body": body, **more}, Generate(), Prompting(Render()))

    # a completion that names no number of tokens has as many as a server gives it
    assert ask("/v1/completions", {"prompt": "a"}, method="POST").settings.room == 16
    assert ask("/v1/chat/completions", {"messages": CHAT}).chat
    for url, body, more in (
        ("/v1/embeddings", {"prompt": "a"}, {}),
        ("/v1/completions", {"messages": CHAT}, {}),
        ("/v1/chat/completions", {"prompt": "a"}, {}),
        ("/v1/completions", {"prompt": "a"}, {"method": "GET"}),
    ):
        with pytest.raises(DataError, match=r'"url"|"method"'):
            ask(url, body, **more)
