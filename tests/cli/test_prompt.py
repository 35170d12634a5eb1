"""nlptools prompt: prompts of every kind of labelled data, and what is refused."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from conftest import Finished

TRAIN = "cheese\tfromage\nbread\tpain\nwater\teau\nmilk\tlait\n"
TEXTS = "text\tlabel\ngreat film\t1\nawful\t0\n"
SQUAD = {
    "data": [
        {
            "paragraphs": [
                {
                    "context": "Ann is in Rome.",
                    "qas": [
                        {"id": "a", "question": "Where?", "answers": [{"text": "in Rome", "answer_start": 7}]},
                        {"id": "b", "question": "Why?", "answers": [], "is_impossible": True},
                    ],
                }
            ]
        }
    ]
}


@pytest.fixture
def files(tmp_path):
    for name, text in {"train.tsv": TRAIN, "texts.tsv": TEXTS, "squad.json": json.dumps(SQUAD)}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def objects(done: Finished) -> list[dict[str, Any]]:
    assert done.code == 0, done.err
    return [json.loads(line) for line in done.lines]


def test_zero_one_and_few_shot(call, files):
    arrow = ("prompt", "-t", "arrow", "--description", "Translate:")
    assert call(*arrow, stdin="tea\tthé\n").lines == ["Translate:\\ntea =>"]
    one = call(*arrow, "--examples", "train.tsv", "-k", 1, stdin="tea\n").lines[0].split("\\n")
    assert one[0] == "Translate:" and one[1].replace(" => ", "\t") in TRAIN and one[2] == "tea =>"
    few = call(*arrow, "--examples", "train.tsv", stdin="tea\n").lines
    assert few == ["Translate:\\ncheese => fromage\\nbread => pain\\nwater => eau\\nmilk => lait\\ntea =>"]
    assert call(*arrow, "--examples", "train.tsv", "-k", 0, stdin="tea\n").lines == ["Translate:\\ntea =>"]


def test_examples_depend_on_the_seed_and_the_record_alone_and_leave_it_out(call, files):
    draw = ("prompt", "-t", "equals", "--examples", "train.tsv", "-k", 2, "train.tsv")
    lines = call(*draw).lines
    for line in lines:
        *examples, query = line.split("\\n")
        assert len(set(examples)) == 2 and not any(example.startswith(query) for example in examples)
    assert call(*draw, "--line-buffered").lines == lines
    assert call(*draw, "--seed", 2).lines != lines
    assert len({tuple(line.split("\\n")[:2]) for line in call(*draw, *["train.tsv"] * 5).lines}) > 3
    done = call("prompt", "-t", "equals", "--examples", "train.tsv", "-k", 4, "train.tsv")
    assert (done.code, done.err) == (
        65,
        "nlptools prompt: train.tsv:1: cannot draw 4 examples: train.tsv has 3 examples besides this record\n",
    )


def test_json_has_the_completion_and_the_keys_of_the_record(call):
    record = {"id": 7, "input": "a", "output": "b", "more": [1]}
    (item,) = objects(call("prompt", "-t", "tldr", "--to", "jsonl", stdin=json.dumps(record) + "\n"))
    assert item == {**record, "prompt": "a\nTL;DR:", "completion": " b"}
    (item,) = objects(call("prompt", "-t", "tldr", "--to", "jsonl", stdin='{"input": "a"}\n'))
    assert item == {"input": "a", "prompt": "a\nTL;DR:"}


def test_headers_columns_and_layouts(call, files):
    (files / "t.txt").write_text("{text} is {output}", encoding="utf-8")
    named = call("prompt", "-t", "t.txt", "texts.tsv", "--to", "jsonl", "--label-column", "label")
    assert [item["completion"] for item in objects(named)] == [" 1", " 0"]
    assert call("prompt", "-t", "equals", stdin="input\tx\na\\nb\tc\n").lines == ["a\\nb ="]
    assert call("prompt", "-t", "equals", "--text-column", 2, stdin="a\tb\n").lines == ["b ="]
    (files / "t.csv").write_text('input,output\n"a, b",c\n', encoding="utf-8")
    assert objects(call("prompt", "-t", "equals", "t.csv", "--to", "jsonl")) == [
        {"prompt": "a, b =", "completion": " c"}
    ]
    (files / "n.txt").write_text("{2} from {1}", encoding="utf-8")
    assert call("prompt", "-t", "n.txt", stdin="a\tb\n").lines == ["b from a"]


@pytest.mark.parametrize(
    ("args", "stdin", "prompts", "completions"),
    [
        (["--task", "classify", "texts.tsv"], "", ["great film =", "awful ="], [" 1", " 0"]),
        (["--task", "glue/sst-2"], "sentence\tlabel\nfine\t1\n", ["fine ="], [" 1"]),
        (["--task", "pair"], "a\tb\tyes\n", ["a\nb ="], [" yes"]),
        (["--task", "regress"], "a\tb\t2.5\n", ["a\nb ="], [" 2.5"]),
        (["--task", "tag"], "Ann B-PER\nruns O\n\n", ["Ann runs ="], [" B-PER O"]),
        (
            ["--task", "answer", "squad.json"],
            "",
            ["Ann is in Rome.\nWhere? =", "Ann is in Rome.\nWhy? ="],
            [" in Rome", " unanswerable"],
        ),
    ],
)
def test_labelled_files_of_finetune(call, files, args, stdin, prompts, completions):
    items = objects(call("prompt", "-t", "equals", "--to", "jsonl", *args, stdin=stdin))
    assert [item["prompt"] for item in items] == prompts
    assert [item["completion"] for item in items] == completions


def test_roles_and_pronouns_have_fields(call, files):
    gap = "ID\tText\tPronoun\tPronoun-offset\tA\tA-offset\tA-coref\tB\tB-offset\tB-coref\tURL\n"
    gap += "x-1\tAnn saw Eve. She ran.\tShe\t13\tAnn\t0\tFALSE\tEve\t8\tTRUE\tu\n"
    (files / "t.txt").write_text("{text} {pronoun} is {name_a} or {name_b}? {output}", encoding="utf-8")
    (item,) = objects(call("prompt", "-t", "t.txt", "--task", "coreference", "--to", "jsonl", stdin=gap))
    assert (item["prompt"], item["completion"]) == ("Ann saw Eve. She ran. She is Ann or Eve?", " Eve")


def test_words_and_choices(call, files):
    classify = ("prompt", "-t", "equals", "--task", "classify", "--words", "0=bad,1=good", "--to", "jsonl", "texts.tsv")
    items = objects(call(*classify, "--candidates", "bad,good"))
    assert [(item["choices"], item["answer"]) for item in items] == [([" bad", " good"], 1), ([" bad", " good"], 0)]
    assert [item["completion"] for item in items] == [" good", " bad"]
    done = call(*classify, "--candidates", "poor,good")
    assert (done.code, done.err) == (
        65,
        "nlptools prompt: texts.tsv:3: the answer is none of the choices 'poor', 'good': 'bad'\n",
    )
    (item,) = objects(
        call("prompt", "-t", "equals", "--task", "classify", "--choices", "x,y", "--to", "jsonl", stdin="fine\n")
    )
    assert (item["choices"], item["answer"], "completion" in item) == ([" x", " y"], None, False)


def test_choices_of_the_records(call):
    line = '{"ctx": "She", "endings": ["ran.", "green."], "label": 0}\n'
    (item,) = objects(call("prompt", "-t", "arrow", "--task", "choice", "--to", "jsonl", stdin=line))
    assert item == {"prompt": "She =>", "completion": " ran.", "choices": [" ran.", " green."], "answer": 0}


def test_instruction_data(call, files):
    setting = ("--set", "instruction=Name the sentiment, good or bad.", "--words", "0=bad,1=good")
    items = objects(call("prompt", "-t", "instruction", "--task", "classify", "--to", "jsonl", *setting, "texts.tsv"))
    assert items[0] == {
        "prompt": "### Instruction:\nName the sentiment, good or bad.\n\n### Input:\ngreat film\n\n### Response:\n",
        "completion": "good",
    }


def test_conversations(call, files):
    examples = ("--examples", "train.tsv", "-k", 1, "--seed", 3, "--system", "Be brief.", "--description", "In French:")
    (item,) = objects(call("prompt", "--messages", "--to", "jsonl", *examples, stdin="tea\tthé\n"))
    turns = item["messages"]
    assert [turn["role"] for turn in turns] == ["system", "user", "assistant", "user", "assistant"]
    assert turns[1]["content"].startswith("In French:\n\n") and turns[3:] == [
        {"role": "user", "content": "tea"},
        {"role": "assistant", "content": "thé"},
    ]
    (item,) = objects(call("prompt", "--chat", "chatml", "--to", "jsonl", stdin="tea\tthé\n"))
    assert item == {
        "prompt": "<|im_start|>user\ntea<|im_end|>\n<|im_start|>assistant\n",
        "completion": "thé<|im_end|>\n",
    }


def test_a_refused_conversation_names_the_record(call):
    done = call("prompt", "--chat", "gemma", "--system", "x", stdin="a\n")
    assert (done.code, done.err) == (65, "nlptools prompt: <stdin>:1: this chat template has no system messages\n")


def test_a_missing_field_names_the_template_and_the_field(call, files):
    done = call("prompt", "-t", "instruction", "train.tsv")
    assert done.code == 65
    assert done.err.startswith(
        "nlptools prompt: train.tsv:1: no field 'instruction', which the template instruction needs: the fields are '1', '2',"
    )


@pytest.mark.parametrize(
    ("args", "stdin", "code", "words"),
    [
        ([], "", 2, "--template is missing"),
        (["-t", "equals", "-k", 1], "", 2, "--shots requires --examples"),
        (["-t", "equals", "--system", "x"], "", 2, "--system requires --chat or --messages"),
        (["-t", "equals", "--candidates", "a"], "", 2, "--candidates applies to --to jsonl only"),
        (["--messages"], "", 2, "--messages applies to --to jsonl only"),
        (["-t", "equals", "--set", "x"], "", 2, "expected NAME=TEXT"),
        (["-t", "equals", "--task", "seq2seq"], "", 2, "no labelled files"),
        (["-t", "equals", "--layout", "squad"], "", 2, "no layout 'squad' without --task"),
        (["-t", "equals", "--task", "instruct"], '{"prompt": "a", "completion": "b"}\n', 2, "are prompts already"),
        (["-t", "none"], "", 66, "no such template"),
        (["-t", "equals", "--examples", "none.tsv"], "", 66, "none.tsv: no such file"),
        (["-t", "equals", "--layout", "jsonl"], '{"input": 1\n', 65, "<stdin>:1: not valid JSON"),
        (["-t", "none.txt"], "", 66, "no such template"),
        (["-t", "plain", "--chat", "none/"], "", 66, "no such directory"),
    ],
)
def test_refusals(call, args, stdin, code, words):
    done = call("prompt", *args, stdin=stdin)
    assert (done.code, done.out) == (code, b"") and words in done.err


def test_examples_need_a_place_for_the_answer(call, files):
    (files / "t.txt").write_text("{input}", encoding="utf-8")
    done = call("prompt", "-t", "t.txt", "--examples", "train.tsv", stdin="a\n")
    assert done.code == 65 and "has no field 'output'" in done.err
    (files / "empty.tsv").write_text("", encoding="utf-8")
    done = call("prompt", "-t", "equals", "--examples", "empty.tsv", stdin="a\n")
    assert (done.code, done.err) == (65, "nlptools prompt: empty.tsv: no examples\n")


def test_line_ends_in_prompts_are_mentioned(call):
    assert "1 prompt has line ends" in call("prompt", "-t", "tldr", stdin="a\n").err
    assert call("prompt", "-t", "tldr", "--to", "jsonl", stdin="a\n").err == ""
    assert call("prompt", "-t", "equals", stdin="a\n").err == ""


def test_a_template_on_the_command_line(call):
    done = call("prompt", "-t", "Say:\\n{input} => {output}", stdin="one\tuno\n")
    assert (done.code, done.text) == (0, "Say:\\none =>\n")
    assert call("prompt", "-t", "{text} =>", stdin="text\nhallo\n").text == "hallo =>\n"
    done = call("prompt", "-t", "no-such-file")
    assert done.code == 66 and "a text with a field such as {input}" in done.err
    done = call("prompt", "-t", "{input", stdin="a\n")
    assert done.code == 65 and "not a template" in done.err


@pytest.mark.parametrize("place", ["chat_template.jinja", "tokenizer_config.json"])
def test_a_chat_template_exhausts_neither_memory_nor_patience(call, tmp_path, place):
    pytest.importorskip("jinja2")
    for source, reason in {
        "{{ messages[0].content * 10**10 }}": "its chat template needs more than 51. MiB of memory",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}": "its chat template calls itself, or is nested, without end",
        "{% for i in range(10**9) %}{% endfor %}": "its chat template does what it may not do: Range too big",
        "{{ 'x' }}" * 2_000_000: "its chat template has 18,000,000 characters, expected at most 1,048,576",
    }.items():
        written = source if place.endswith("jinja") else json.dumps({"chat_template": source})
        (tmp_path / place).write_text(written)
        done = call("prompt", "--chat", ".", "--text", "hi")
        assert done.code == 78 and re.match(rf"nlptools prompt: \.: {reason}[^\n]*\n$", done.err), done.err
    (tmp_path / "tokenizer_config.json").unlink(missing_ok=True)
    (tmp_path / "chat_template.jinja").write_text("{% for m in messages %}<{{ m.content }}>{% endfor %}")
    lines = [f"line {i}" for i in range(3000)]
    assert call("prompt", "--chat", ".", stdin="\n".join(lines)).lines == [f"<{line}>" for line in lines]
