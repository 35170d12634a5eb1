"""Demonstrations and preferences: every published shape gives the same examples; errors name line and key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nlptools.errors import DataError
from nlptools.formats.examples import Demonstration, Judgement, Ranking, Turn
from nlptools.formats.readers import read
from nlptools.formats.reading_options import Options
from tests.real_data import published


def examples(tmp_path: Path, task: str, *values: Any, labelled: bool = True) -> list[Any]:
    path = tmp_path / "data.jsonl"
    path.write_text("".join(json.dumps(value) + "\n" for value in values))
    return list(read(task, [str(path)], Options(labelled=labelled)))


def plain(*texts: str) -> tuple[Turn, ...]:
    return tuple(Turn("", text) for text in texts)


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def test_demonstrations(tmp_path: Path) -> None:
    one, two, three, four = examples(
        tmp_path,
        "instruct",
        {"prompt": "a", "completion": " b"},
        {"prompt": [user("a")], "completion": [assistant("b")]},
        {"messages": [{"role": "system", "content": "s"}, user("a"), assistant("b"), user("c"), assistant("d")]},
        {"instruction": "Add.", "input": "1 1", "output": "2"},
    )
    assert (one.turns, one.learned, one.place.line) == (plain("a", " b"), 1, 1)
    assert (two.turns, two.learned) == ((Turn("user", "a"), Turn("assistant", "b")), 1)
    assert [turn.role for turn in three.turns] == ["system", "user", "assistant", "user", "assistant"]
    assert three.learned == 0
    prompt, output = (turn.content for turn in four.turns)
    assert output == "2" and prompt.endswith("### Instruction:\nAdd.\n\n### Input:\n1 1\n\n### Response:\n")
    (bare,) = examples(tmp_path, "instruct", {"instruction": "Sing.", "input": "", "output": "la"})
    assert "Input" not in bare.turns[0].content and "paired" not in bare.turns[0].content


def test_pairs_alike_in_every_shape(tmp_path: Path) -> None:
    wanted = (plain("a b"), (plain(" c d"), plain(" c e")))
    explicit = {"prompt": "a b", "chosen": " c d", "rejected": " c e", "margin": 0.5}
    (pair,) = examples(tmp_path, "reward", explicit)
    assert (pair.prompt, pair.responses, pair.margin, pair.pairs) == (*wanted, 0.5, [(0, 1)])
    (pair,) = examples(tmp_path, "preference", {"chosen": "a b c d", "rejected": "a b c e"})
    assert (pair.prompt, pair.responses) == (plain("a b c"), (plain(" d"), plain(" e")))
    long, short = "\n\nHuman: hi\n\nAssistant: I am", "\n\nHuman: hi\n\nAssistant: I was"
    (pair,) = examples(tmp_path, "preference", {"chosen": long, "rejected": short})
    assert pair.prompt == plain("\n\nHuman: hi\n\nAssistant:") and pair.responses == (plain(" I am"), plain(" I was"))
    whole = {"chosen": [user("a"), assistant("b")], "rejected": [user("a"), assistant("c")]}
    apart = {"prompt": [user("a")], "chosen": [assistant("b")], "rejected": [assistant("c")]}
    double = {"prompt": [user("a")], **whole}
    pairs = [(p.prompt, p.responses) for p in examples(tmp_path, "reward", whole, apart, double)]
    assert pairs[0] == pairs[1] == pairs[2]
    assert pairs[0][0] == (Turn("user", "a"),) and pairs[0][1][1] == (Turn("assistant", "c"),)


def test_a_prompt_that_is_text_before_messages(tmp_path: Path) -> None:
    """The user's first message, whether the responses repeat it or not."""
    system = {"role": "system", "content": "s"}
    talk = [user("a"), assistant("b"), user("c")]
    one = Ranking((Turn("user", "a"),), ((Turn("assistant", "b"),), (Turn("assistant", "c"),)), (1.0, 2.0), None)  # type: ignore[arg-type]
    for chosen, rejected in (
        ([user("a"), assistant("b")], [user("a"), assistant("c")]),
        ([assistant("b")], [assistant("c")]),
    ):
        pair = {"prompt": "a", "chosen": chosen, "rejected": rejected}
        ranked = {"prompt": "a", "responses": [rejected, chosen], "ranking": [2, 1]}
        for task in ("reward", "preference"):
            for found in examples(tmp_path, task, pair, ranked):
                assert (found.prompt, found.responses, found.ranks) == (one.prompt, one.responses, one.ranks)
        [said] = examples(tmp_path, "instruct", {"prompt": "a", "completion": chosen})
        assert (said.turns, said.learned) == ((Turn("user", "a"), Turn("assistant", "b")), 1)
        [judged] = examples(tmp_path, "preference", {"prompt": "a", "completion": chosen, "label": True})
        assert (judged.prompt, judged.response) == (one.prompt, one.responses[0])
    [longer] = examples(
        tmp_path, "preference", {"prompt": "a", "chosen": [*talk, assistant("d")], "rejected": [*talk, assistant("e")]}
    )
    assert longer.prompt == (Turn("user", "a"), Turn("assistant", "b"), Turn("user", "c"))
    [told] = examples(
        tmp_path,
        "preference",
        {"prompt": "a", "chosen": [system, assistant("b")], "rejected": [system, assistant("c")]},
    )
    assert told.prompt == (Turn("system", "s"), Turn("user", "a")) and told.responses == one.responses


def test_rankings_and_judgements(tmp_path: Path) -> None:
    ranked = {"prompt": "a", "responses": [" x", " y", " z", " u"], "ranking": [3, 1, 3, 2]}
    (ranking,) = examples(tmp_path, "reward", ranked)
    assert [turns[0].content for turns in ranking.responses] == [" y", " u", " x", " z"]
    assert ranking.pairs == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3)]  # x and z are equal
    good, bad = examples(
        tmp_path,
        "preference",
        {"prompt": "a", "completion": "b", "label": True},
        {"prompt": "a", "completion": "b", "label": 0},
    )
    assert isinstance(good, Judgement) and good.good and not bad.good
    alone, unranked = examples(
        tmp_path,
        "reward",
        {"prompt": "a", "completion": "b"},
        {"prompt": "a", "responses": ["b", "c"]},
        labelled=False,
    )
    assert len(alone.responses) == 1 and len(unranked.responses) == 2 and not unranked.pairs


@pytest.mark.parametrize(
    ("task", "value", "message"),
    [
        ("instruct", {"prompt": "a"}, "no key 'completion' or 'response'"),
        ("instruct", {"prompt": 1, "completion": "b"}, "'prompt' is int"),
        ("instruct", {"messages": [user("a")]}, "'messages' has no turn of the assistant"),
        ("instruct", {"messages": [{"role": "poet", "content": "a"}]}, "'messages' has a message that is"),
        ("instruct", {"instruction": "a", "instances": 3}, "'instances' is not a list"),
        ("instruct", {"instruction": "a", "output": 3}, "'output' is int"),
        ("reward", {"prompt": "a"}, "no preference: the keys are prompt"),
        ("reward", {"prompt": "a", "chosen": "b"}, "no key 'rejected'"),
        ("reward", {"chosen": "a", "rejected": "b"}, "no 'prompt', and 'chosen' and 'rejected'"),
        ("reward", {"chosen": [assistant("a")], "rejected": [assistant("b")]}, "same message"),
        ("reward", {"prompt": "a", "responses": ["b", "c"], "ranking": [1]}, "'ranking' is not a list of 2"),
        ("reward", {"prompt": "a", "responses": ["b", "c"], "ranking": [1, 1]}, "no response is better"),
        ("reward", {"prompt": "a", "chosen": "b", "rejected": "c", "margin": "d"}, "'margin' has 'd'"),
        ("reward", {"prompt": [user("a")], "chosen": "b", "rejected": "c"}, "one is text, the other one messages"),
        ("reward", {"prompt": "a", "chosen": "b", "rejected": [assistant("c")]}, "one is text, the other one messages"),
        ("reward", {"chosen": "b", "rejected": [assistant("c")]}, "'rejected', one is text, the other one messages"),
        (
            "reward",
            {"prompt": "a", "chosen": [user("x"), assistant("b")], "rejected": [user("y"), assistant("c")]},
            "'prompt' is text, and the responses to it do not begin with the same message",
        ),
        ("preference", {"prompt": "a", "completion": "b", "label": "yes"}, "'label' is 'yes'"),
    ],
)
def test_errors_name_line_and_key(tmp_path: Path, task: str, value: Any, message: str) -> None:
    first = {"prompt": "a", "completion": "b", "chosen": "c", "rejected": "d"}
    with pytest.raises(DataError) as error:
        examples(tmp_path, task, first, value)
    assert "data.jsonl:2: " in str(error.value) and message in str(error.value)


def test_real_files() -> None:
    tasks = list(read("instruct", [str(published("self_instruct", "seed_tasks.jsonl"))]))
    assert len(tasks) >= 175 and all(isinstance(each, Demonstration) for each in tasks)
    pairs = list(read("preference", [str(published("hh_rlhf", "harmless-base.first2000.jsonl.gz"))]))
    assert len(pairs) > 1900 and all(isinstance(each, Ranking) for each in pairs)
    assert sum(pair.prompt[0].content.endswith("\n\nAssistant:") for pair in pairs) > 0.99 * len(pairs)
