"""Messages as texts to train on: by a chat template the texts of `chat`, without one those of Bai et al. 2022."""

from __future__ import annotations

from typing import Any

import pytest

from nlptools.batches.completions import NEXT, ChatSegment, CompletionEncoding
from nlptools.batches.conversations import demonstration, judged_texts, prompt_text, response
from nlptools.batches.windows import NO_TARGET
from nlptools.errors import DataError
from nlptools.formats.examples import Demonstration, Place, Turn
from nlptools.text.builtin import NamedTokenizer
from nlptools.text.chat_answers import continued
from nlptools.text.chat_templates import FORMATS
from nlptools.text.template_sandbox import Sandbox

PLACE = Place("-", 1)
TURNS = (Turn("system", "s"), Turn("user", "a"), Turn("assistant", "b"), Turn("user", "c"), Turn("assistant", "d"))
CHATML = FORMATS["chatml"]


def messages(count: int) -> list[dict[str, str]]:
    return [{"role": turn.role, "content": turn.content} for turn in TURNS[:count]]


def test_without_a_template() -> None:
    whole = demonstration(Demonstration(TURNS, 0, PLACE))
    assert [segment.text for segment in whole] == [
        "s\n\nHuman: a\n\nAssistant:",
        " b",
        "\n\nHuman: c\n\nAssistant:",
        " d",
    ]
    assert [segment.learned for segment in whole] == [False, True, False, True]
    assert all(segment.ended for segment in whole)
    last = demonstration(Demonstration(TURNS, 4, PLACE))
    assert [segment.text for segment in last] == ["s\n\nHuman: a\n\nAssistant: b\n\nHuman: c\n\nAssistant:", " d"]
    assert response(TURNS[:4], TURNS[4:], None, PLACE) == last
    assert prompt_text(TURNS[:4], None, PLACE) == last[0].text
    assert judged_texts(TURNS[:4], [TURNS[4:]], None, PLACE) == (last[0].text, (last[1].text,))


@pytest.mark.parametrize("chat", [None, CHATML])
def test_plain_texts_stay_as_they_are(chat: Any) -> None:
    prompt, answer = (Turn("", "a"),), (Turn("", " b"),)
    assert prompt_text(prompt, chat, PLACE) == "a" and judged_texts(prompt, [answer], chat, PLACE) == ("a", (" b",))
    assert response(prompt, answer, chat, PLACE) == [ChatSegment("a", False), ChatSegment(" b", True)]


def test_by_a_template_the_text_is_that_of_chat() -> None:
    whole = demonstration(Demonstration(TURNS, 0, PLACE), CHATML)
    assert [segment.learned for segment in whole] == [False, True, False, True]
    assert [segment.text for segment in whole[1::2]] == ["b<|im_end|>", "d<|im_end|>"]
    assert [segment.ended for segment in whole if segment.learned] == [False, True], (
        "the end of text is at the end alone"
    )
    assert whole[0].text == CHATML(messages(2), True)
    assert "".join(segment.text for segment in whole[:3]) == CHATML(messages(4), True)
    assert "".join(segment.text for segment in whole) == CHATML(messages(5), False).rstrip()
    last = response(TURNS[:4], TURNS[4:], CHATML, PLACE)
    assert last == [ChatSegment(CHATML(messages(4), True), False), ChatSegment("d<|im_end|>", True)]
    assert prompt_text(TURNS[:4], CHATML, PLACE) == last[0].text
    two = judged_texts(TURNS[:4], [TURNS[4:], (Turn("assistant", "e"),)], CHATML, PLACE)
    assert two == (last[0].text, ("d", "e")), "as samples are judged"
    before, [longer] = judged_texts(TURNS[:2], [TURNS[2:]], CHATML, PLACE)
    assert before == prompt_text(TURNS[:2], CHATML, PLACE)
    assert before + longer == CHATML(messages(5), False).removesuffix("<|im_end|>\n")


def test_a_template_that_changes_earlier_turns_teaches_the_last_answer() -> None:
    def forgetful(turns: Any, generation: bool) -> str:
        shown = [turn["content"] for turn in turns]
        kept = [text if i >= len(shown) - 2 else "..." for i, text in enumerate(shown)]
        return "".join(f"[{text}]" for text in kept) + ("[" if generation else "")

    segments = demonstration(Demonstration(TURNS, 0, PLACE), forgetful)
    assert [segment.learned for segment in segments] == [False, True] and segments[-1].ended
    assert segments[0].text.startswith("[...]")


# Templates of reasoning models: (source, the answers that are learned of TALK, whether a prompt opens an answer otherwise)
TALK = (
    Turn("user", "2+2?"),
    Turn("assistant", "<think>\nsmall\n</think>\n\n<b>4</b>"),
    Turn("user", "3+3?"),
    Turn("assistant", "<think>\nagain\n</think>\n\n6 >"),
)
LAST = "{{ m.content.split('</think>')[-1].lstrip('\\n') }}"
REASONING = {
    "opens with a thought": (
        "{% for m in messages %}{% if m.role == 'user' %}[U]{{ m.content }}{% else %}[A]"
        + LAST
        + "[E]{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}[A]<think>\n{% endif %}",
        ["<b>4</b>[E]", "6 >[E]"],
        True,
    ),
    "opens with an empty thought": (
        "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>\n" + LAST + "<|end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>\n<think>\n\n</think>\n\n{% endif %}",
        ["<b>4</b><|end|>", "6 ><|end|>"],
        True,
    ),
    "keeps the thought of the last answer": (
        "{% for m in messages %}<|{{ m.role }}|>\n{% if loop.last and m.role == 'assistant' %}{% if '</think>' in m.content %}"
        "{{ m.content }}{% else %}<think>\n\n</think>\n\n{{ m.content }}{% endif %}{% else %}"
        + LAST
        + "{% endif %}<|end|>\n"
        "{% endfor %}{% if add_generation_prompt %}<|assistant|>\n{% endif %}",
        ["<b>4</b><|end|>", "<think>\nagain\n</think>\n\n6 ><|end|>"],
        False,
    ),
    "thinks in a channel": (
        "{% for m in messages %}<|start|>{{ m.role }}<|message|>{% if m.role == 'assistant' %}<|final|>"
        + LAST
        + "<|return|>"
        "{% else %}{{ m.content }}<|end|>{% endif %}{% endfor %}{% if add_generation_prompt %}<|start|>assistant{% endif %}",
        ["<|message|><|final|><b>4</b><|return|>", "<|message|><|final|>6 ><|return|>"],
        False,
    ),
    "opens with another name": (
        "{% for m in messages %}<{{ m.role }}>"
        + LAST
        + "</s>{% endfor %}{% if add_generation_prompt %}<assistant_thinks>{% endif %}",
        ["<assistant><b>4</b></s>", "<assistant>6 ></s>"],
        True,
    ),
    "has no mark at the end": (
        "{% for m in messages %}{{ m.role }}: "
        + LAST
        + "\n{% endfor %}{% if add_generation_prompt %}assistant: <think>{% endif %}",
        ["<b>4</b>", "6 >"],
        True,
    ),
    "forgets earlier turns": (
        "{% for m in messages[-2:] %}[{{ m.content }}]{% endfor %}{% if add_generation_prompt %}[{% endif %}",
        ["<think>\nagain\n</think>\n\n6 >]"],
        False,
    ),
}


@pytest.mark.parametrize("name", REASONING)
def test_what_a_template_of_a_reasoning_model_writes_is_learned(name: str, capsys: Any) -> None:
    pytest.importorskip("jinja2")
    source, learned, otherwise = REASONING[name]
    chat = Sandbox("m", source, {"bos_token": "<s>"})
    segments = demonstration(Demonstration(TALK, 0, PLACE), chat)
    turns = [{"role": turn.role, "content": turn.content} for turn in TALK]
    assert "".join(segment.text for segment in segments) == chat(turns, False).rstrip()
    assert [segment.text for segment in segments if segment.learned] == learned
    assert [segment.ended for segment in segments if segment.learned] == [False] * (len(learned) - 1) + [True]
    assert ("opens the prompt for an answer" in capsys.readouterr().err) == otherwise
    alone = response(TALK[:3], TALK[3:], chat, PLACE)
    assert [segment.text for segment in alone if segment.learned] == learned[-1:]
    other = (Turn("assistant", "<i>7</i>"),)
    before, texts = judged_texts(TALK[:3], [TALK[3:], other], chat, PLACE)
    end = "".join(learned[-1].rpartition("6 >")[2:])
    for response_, text in zip((TALK[3:], other), texts, strict=True):
        whole = chat([*turns[:3], {"role": "assistant", "content": response_[0].content}], False).rstrip()
        assert before + text + end == whole
    prompt, [rest] = continued(chat, turns[:3], [TALK[3].content])
    assert prompt + rest == chat(turns, False)
    assert continued(chat, turns[:3], []) == (chat(turns[:3], True), []), "a model goes on from its own prompt"


def test_a_template_that_leaves_out_the_answer_is_an_error() -> None:
    def silent(turns: Any, generation: bool) -> str:
        return "A:" if generation else "".join(turn["content"] for turn in turns if turn["role"] == "user")

    with pytest.raises(DataError, match="a:3: the chat template does not write the answer"):
        demonstration(Demonstration(TURNS, 0, Place("a", 3)), silent)


def test_a_refusal_names_the_line() -> None:
    gemma = FORMATS["gemma"]
    for call in (
        lambda: demonstration(Demonstration(TURNS, 0, Place("a.jsonl", 7)), gemma),
        lambda: prompt_text(TURNS[:2], gemma, Place("a.jsonl", 7)),
    ):
        with pytest.raises(DataError, match="no system messages") as error:
            call()
        assert "a.jsonl:7" in str(error.value)


def test_tokens_of_the_loss() -> None:
    """In bytes: the answers with their marks, and the end of text once; a start token that the template writes is not doubled."""
    encoding = CompletionEncoding(NamedTokenizer("bytes", None), 300, 256, 500)
    features = encoding.sequences([demonstration(Demonstration(TURNS, 0, PLACE), CHATML)])
    tokens = [*features.rows.ids.tolist(), features.targets[NEXT].tolist()[-1]]
    text = CHATML(messages(5), False).rstrip()
    assert tokens == [300, *text.encode(), 256]
    learned = [token for token in features.targets[NEXT].tolist() if token != NO_TARGET]
    assert learned == [*b"b<|im_end|>d<|im_end|>", 256]
    started = CompletionEncoding(NamedTokenizer("bytes", None), ord("<"), 256, 500)
    features = started.sequences([demonstration(Demonstration(TURNS, 0, PLACE), CHATML)])
    assert [*features.rows.ids.tolist(), 256] == [*text.encode(), 256]
    ended = CompletionEncoding(NamedTokenizer("bytes", None), 300, ord(">"), 500)
    features = ended.sequences([demonstration(Demonstration(TURNS, 0, PLACE), CHATML)])
    assert features.targets[NEXT].tolist()[-1] == ord(">"), "a mark that is the end of text is not followed by another"
    assert features.rows.ids.tolist()[-1] == ord("|")
