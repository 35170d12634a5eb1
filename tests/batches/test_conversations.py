"""Messages as texts to train on: by a chat template the texts of `chat`, without one those of Bai et al. 2022."""

from __future__ import annotations

from typing import Any

import pytest

from nlptools.batches.completions import NEXT, CompletionEncoding, Segment
from nlptools.batches.conversations import demonstration, prompt_text, response, response_text
from nlptools.batches.windows import NO_TARGET
from nlptools.errors import DataError
from nlptools.formats.examples import Demonstration, Place, Turn
from nlptools.text.builtin import NamedTokenizer
from nlptools.text.chat_templates import FORMATS

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
    assert response_text(TURNS[:4], TURNS[4:], None, PLACE) == last[1].text


@pytest.mark.parametrize("chat", [None, CHATML])
def test_plain_texts_stay_as_they_are(chat: Any) -> None:
    prompt, answer = (Turn("", "a"),), (Turn("", " b"),)
    assert prompt_text(prompt, chat, PLACE) == "a" and response_text(prompt, answer, chat, PLACE) == " b"
    assert response(prompt, answer, chat, PLACE) == [Segment("a", False), Segment(" b", True)]


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
    assert last == [Segment(CHATML(messages(4), True), False), Segment("d<|im_end|>", True)]
    assert prompt_text(TURNS[:4], CHATML, PLACE) == last[0].text
    assert response_text(TURNS[:4], TURNS[4:], CHATML, PLACE) == "d", "as samples are judged"
    longer = response_text(TURNS[:2], TURNS[2:], CHATML, PLACE)
    assert prompt_text(TURNS[:2], CHATML, PLACE) + longer == CHATML(messages(5), False).removesuffix("<|im_end|>\n")


def test_a_template_that_changes_earlier_turns_teaches_the_last_answer() -> None:
    def forgetful(turns: Any, generation: bool) -> str:
        shown = [turn["content"] for turn in turns]
        kept = [text if i >= len(shown) - 2 else "..." for i, text in enumerate(shown)]
        return "".join(f"[{text}]" for text in kept) + ("[" if generation else "")

    segments = demonstration(Demonstration(TURNS, 0, PLACE), forgetful)
    assert [segment.learned for segment in segments] == [False, True] and segments[-1].ended
    assert segments[0].text.startswith("[...]")


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
