"""chat: answers to messages, the history in each prompt, and the commands of a terminal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Run
from tiny_bundles import bytes_bundle

import nlptools
from nlptools.cli.chat import talk
from nlptools.configs.chat import Chat
from nlptools.errors import DataError
from nlptools.inference.conversation import Conversation
from nlptools.text.chat_templates import FORMATS

SHORT = ("--max-new-tokens", 6, "--chat", "chatml")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bytes_bundle(tmp_path_factory.mktemp("chat") / "lm", "abc", max_position_embeddings=512)


def said(*contents: str) -> str:
    return "".join(json.dumps({"content": content}) + "\n" for content in contents)


def test_each_message_has_an_answer_that_knows_those_before(call: Run, model: Path) -> None:
    done = call("chat", model, *SHORT, "--seed", 3, stdin=said("hello", "ü\n", "hello"))
    assert done.code == 0, done.err
    rows = [json.loads(line) for line in done.lines]
    assert [row["role"] for row in rows] == ["assistant"] * 3
    assert all(len(row["content"]) == 6 and set(row["content"]) <= set("abc") for row in rows)
    assert rows[0] != rows[2], "an answer has random numbers of its own"
    assert call("chat", model, *SHORT, "--seed", 3, stdin=said("hello", "ü\n", "hello")).out == done.out
    given = "".join(said(text) for text in ("hello", "ü\n")) + '{"reset": true}\n' + said("hello")
    assert len(call("chat", model, *SHORT, stdin=given).lines) == 3


def conversation(model: Path, **settings: Any) -> Conversation:
    loaded: Any = nlptools.load(str(model))
    return Conversation(loaded, FORMATS["chatml"], Chat(**{"max_new_tokens": 6, **settings}), 1)


def test_the_prompt_is_the_history(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    talking = conversation(model, system="Be brief.")
    prompts: list[str] = []
    generate = talking.model.generate_batch

    def remembered(texts: list[str], *args: Any, **more: Any) -> Any:
        prompts.extend(texts)
        return generate(texts, *args, **more)

    monkeypatch.setattr(talking.model, "generate_batch", remembered)
    first = talking.ask("one").text
    second = talking.ask("two").text
    expected = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": first},
        {"role": "user", "content": "two"},
        {"role": "assistant", "content": second},
    ]
    assert talking.history == expected
    assert prompts == [FORMATS["chatml"](expected[:2], True), FORMATS["chatml"](expected[:4], True)]
    talking.reset()
    assert talking.history == expected[:1]


def test_an_answer_ends_where_the_template_ends_a_turn(model: Path) -> None:
    assert conversation(model, stop=("x",)).settings.stop == ("x", "<|im_end|>")


def test_the_oldest_messages_leave_the_context(model: Path, capfd: Any) -> None:
    talking = conversation(model, system="S")
    for n in range(8):
        talking.ask(f"{n}" * 60)
    assert talking.history[0]["content"] == "S" and talking.history[-2]["content"] == "7" * 60
    assert 5 <= len(talking.history) < 17 and talking.history[1]["role"] == "user"
    assert "the oldest 1 question left the context" in capfd.readouterr().err
    before = list(talking.history)
    with pytest.raises(DataError, match="the message has"):
        talking.ask("x" * 600)
    assert talking.history == before


def test_a_conversation_that_fits_is_read_whole(model: Path, capfd: Any) -> None:
    """The context has 512 bytes, however long an answer may be; `strict` refuses where messages would leave."""
    for strict in (False, True):
        talking = conversation(model, max_new_tokens=400, stop=("a", "b", "c"), strict=strict)
        for n in range(5):
            talking.ask(f"{n}" * 30)
        assert len(talking.history) == 10 and capfd.readouterr().err == ""
        if strict:
            with pytest.raises(DataError, match=r"the conversation has 7\d\d tokens"):
                talking.ask("x" * 250)
            assert len(talking.history) == 10
            talking.reset()
        assert len(talking.ask("x" * 250).text) < 1
        assert ("left the context" in capfd.readouterr().err) != strict


def test_commands_of_a_terminal(model: Path, tmp_path: Path, capfd: Any) -> None:
    talking, written = conversation(model), []
    path = tmp_path / "saved.jsonl"
    lines = ["one", "", "/save", f"/save {path}", f"/save {path}", "/what", "/reset", "/quit", "two"]
    talk(lines, talking, written.append)
    saved = [json.loads(line) for line in path.read_text().split("\n")[:-1]]
    assert [each["role"] for each in saved] == ["user", "assistant"]
    shown = "".join(written)
    assert shown.startswith(saved[1]["content"] + "\n") and f"2 messages in {path}\n" in shown
    assert "/reset forgets" in shown and talking.history == []
    errors = capfd.readouterr().err
    assert "/save expects the name of a file" in errors and "exists, expected a new file" in errors


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[]", "<stdin>:2: expected a JSON object"),
        ('{"text": "a"}', '<stdin>:2: expected a message of the user under "content"'),
        ('{"content": "a", "role": "assistant"}', '<stdin>:2: expected a message of the user under "content"'),
    ],
)
def test_lines_that_are_no_messages(call: Run, model: Path, line: str, message: str) -> None:
    done = call("chat", model, *SHORT, stdin=said("a") + line + "\n")
    assert done.code == 65 and message in done.err and len(done.lines) == 1


def test_a_model_needs_a_template(call: Run, model: Path) -> None:
    done = call("chat", model, stdin=said("a"))
    assert done.code == 78 and "has no chat template" in done.err


def test_conversations_as_requests(call: Run, model: Path) -> None:
    line = json.dumps({"custom_id": "x", "messages": [{"role": "user", "content": "a"}], "max_tokens": 4})
    done = call("generate", model, "--layout", "jsonl", "--to", "jsonl", "--chat", "chatml", stdin=line + "\n")
    assert done.code == 0, done.err
    body = json.loads(done.lines[0])["response"]["body"]
    assert body["object"] == "chat.completion" and len(body["choices"][0]["message"]["content"]) == 4
    prompt = FORMATS["chatml"]([{"role": "user", "content": "a"}], True)
    plain = call("generate", model, "--layout", "jsonl", stdin=json.dumps({"prompt": prompt, "max_tokens": 4}) + "\n")
    assert plain.lines == [body["choices"][0]["message"]["content"]]
    done = call("generate", model, "--layout", "jsonl", stdin=line + "\n")
    assert done.code == 65 and '"messages" needs a model with a chat template' in done.err
