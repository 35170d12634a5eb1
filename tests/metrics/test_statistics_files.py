"""evaluate --statistics and --merge: the files of several parts give what one evaluation of all examples gives."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Run

Part = tuple[str, str | None]  # predictions and gold; None where there is no gold
Parts = list[Part]
SIZE = 6  # examples of a part
COUNT = 3


def lines(draw: Callable[[], str]) -> Parts:
    made = [
        ("".join(f"{draw()}\n" for _ in range(SIZE)), "".join(f"{draw()}\n" for _ in range(SIZE))) for _ in range(COUNT)
    ]
    return [(predicted, gold) for predicted, gold in made]


def labels(*names: str) -> Parts:
    return lines(lambda: random.choice(names))


def texts() -> Parts:
    return lines(lambda: " ".join(random.choices(["the", "cat", "sat", "on", "a", "mat"], k=random.randint(1, 8))))


def tags() -> Parts:
    """Parts have other types of entities."""
    parts = []
    for part in range(COUNT):
        names = ["O", "B-PER", "I-PER", *(f"{p}-{['LOC', 'ORG', 'MISC'][part]}" for p in "BI")]
        rows = [
            f"w {random.choice(names)} {random.choice(names)}" + "\n" * random.choice((1, 2)) for _ in range(4 * SIZE)
        ]
        parts.append(("".join(rows) + "\n\n", None))
    return parts


def chains() -> Parts:
    def document(name: str) -> str:
        rows = [f"{name} 0 {i} w{i} {random.choice(('(0)', '(1)', '(2)', '-'))}\n" for i in range(12)]
        return f"#begin document ({name}); part 000\n{''.join(rows)}\n#end document\n"

    names = [[f"d{part}{n}" for n in range(SIZE)] for part in range(COUNT)]
    return [("".join(map(document, part)), "".join(map(document, part))) for part in names]


def trees() -> Parts:
    def sentence() -> str:
        tags = random.choices(("NOUN", "VERB", "ADJ"), k=5)
        rows = [
            f"{i}\tw{i}\t_\t{tag}\t_\t_\t{i - 1}\t{'root' if i == 1 else 'dep'}\t_\t_\n"
            for i, tag in enumerate(tags, 1)
        ]
        return "".join(rows) + "\n"

    return lines(sentence)


def questions(version: str) -> Parts:
    parts = []
    for part in range(COUNT):
        paragraphs, answers = [], {}
        for n in range(SIZE):
            text = " ".join(random.choices(["red", "green", "blue"], k=2))
            empty = (
                version == "squad2" and (n + part) % 3 == 0 and part
            )  # the first part has no question without answer
            question = {
                "id": f"{part}-{n}",
                "question": "?",
                "answers": [] if empty else [{"text": text, "answer_start": 0}],
            }
            paragraphs.append(
                {"context": text, "qas": [question | ({"is_impossible": bool(empty)} if version == "squad2" else {})]}
            )
            answers[f"{part}-{n}"] = random.choice(("red", "green blue", text, ""))
        gold = {"version": version, "data": [{"title": "t", "paragraphs": paragraphs}]}
        parts.append((json.dumps(answers), json.dumps(gold)))
    return parts


def log_probabilities() -> Parts:
    return [
        ("".join(f"{-9 * random.random()}\t{random.randint(1, 9)}\n" for _ in range(SIZE)), None) for _ in range(COUNT)
    ]


def rankings() -> Parts:
    parts = []
    for part in range(COUNT):
        queries = [f"q{part}{n}" for n in range(SIZE)]
        run = "".join(f"{q} Q0 d{d} {d} {random.random()} r\n" for q in queries for d in range(5))
        parts.append((run, "".join(f"{q} 0 d{d} {random.randint(0, 2)}\n" for q in queries for d in range(5))))
    return parts


def joined(parts: list[str]) -> str:
    """The texts of all parts as one file; JSON objects become one object."""
    if not parts[0].startswith("{"):
        return "".join(parts)
    whole = json.loads(parts[0])
    for part in map(json.loads, parts[1:]):
        whole["data"].extend(part["data"]) if "data" in whole else whole.update(part)
    return json.dumps(whole)


CASES: dict[str, Callable[[], Parts]] = {
    "-m accuracy,f1_macro,matthews": lambda: labels("a\\b", "b", "c d"),
    "-m f1": lambda: labels("0", "1"),
    "-m precision,recall --positive yes --labels yes,no,maybe": lambda: labels("yes", "no"),
    "-m f1 --average none": lambda: labels("x", "y", "z"),
    "-m mrpc": lambda: labels("0", "1"),
    "-m cola": lambda: labels("0", "1"),
    "-m entity-f1": tags,
    "-m entity-f1 --average macro": tags,
    "-m entity-f1 --average none --scheme iob2": tags,
    "-m conll,muc": chains,
    "-m upos": trees,
    "-m las": trees,
    "-m squad": lambda: questions("squad"),
    "-m squad2": lambda: questions("squad2"),
    "-m rouge1,rougeL:recall --stem": texts,
    "-m perplexity": log_probabilities,
    "-m ndcg@3,map,recall@2": rankings,
}


def test_the_parts_together_are_the_whole(call: Run, tmp_path: Path) -> None:
    random.seed(4)
    for job, make in CASES.items():
        parts = make()
        whole: Part = (joined([p for p, _ in parts]), joined([g for _, g in parts if g]) if parts[0][1] else None)
        for number, (predicted, gold) in enumerate([whole, *parts]):
            (tmp_path / f"p{number}").write_text(predicted)
            (tmp_path / f"g{number}").write_text(gold or "")
        gold_of = (lambda number: ["-r", f"g{number}"]) if parts[0][1] else lambda number: []
        for extra in ([], ["--confidence=20"]):
            expected = call("evaluate", *job.split(), "-w", 17, "p0", *gold_of(0), *extra)
            assert expected.code == 0, (job, expected.err)
            for number in range(1, COUNT + 1) if not extra else ():
                done = call("evaluate", *job.split(), f"p{number}", *gold_of(number), "--statistics", f"s{number}")
                assert done.code == 0, (job, done.err)
                assert done.out == call("evaluate", "--merge", f"s{number}").out, job
            merged = call("evaluate", "--merge", "-w", 17, "s1", "s2", "s3", *extra)
            assert (merged.code, merged.text) == (0, expected.text), (job, merged.err)
            for number in range(1, COUNT + 1):
                if extra:
                    (tmp_path / f"s{number}").unlink()


@pytest.mark.parametrize(
    ("job", "message"),
    [
        ("-m pearson -r p p --statistics s", "--statistics is not for pearson: expected metrics such as accuracy"),
        ("-m sts-b -r p p --statistics s", "--statistics is not for sts-b"),
        ("-m tagging-accuracy p --statistics s", "--statistics is not for tagging-accuracy"),
        ("-m squad2 -r p --null-odds p p --statistics s", "--statistics is not for --null-odds"),
        ("-m accuracy,pearson -r p p --statistics s", "computed together"),
        ("-m bleu -r p p --statistics s", "--statistics is not for bleu here"),
        ("--merge -m f1 s", "--merge cannot be combined with --metric"),
        ("--merge --stem s", "--merge cannot be combined with --stem: the files of --statistics have it"),
        ("--merge --header s", "--merge cannot be combined with --header"),
        ("-m f1 -r p p q", "expected one file of predictions, got 2: p q"),
        ("-m accuracy -r p p --to report --statistics s", "--statistics cannot be combined with --to report"),
    ],
)
def test_what_cannot_be_merged_is_refused_by_name(call: Run, tmp_path: Path, job: str, message: str) -> None:
    (tmp_path / "p").write_text("1\n2\n")
    done = call("evaluate", *job.split())
    assert done.code == 2 and message in done.err and not (tmp_path / "s").exists(), done.err


def test_damaged_files_are_refused_with_their_line(call: Run, tmp_path: Path) -> None:
    (tmp_path / "p").write_text("-1\t2\n-3\t4\n")
    (tmp_path / "l").write_text("a\nb\n")
    assert call("evaluate", "-m", "perplexity", "p", "--statistics", "s").code == 0
    assert call("evaluate", "-m", "accuracy", "l", "-r", "l", "--statistics", "labels").code == 0
    whole = (tmp_path / "s").read_text()
    head, columns, *_ = whole.split("\n")
    damaged = {
        "": "s:1: not a file that --statistics wrote",
        head: "s:1: not a file",
        f"{head}\n{columns}\n": "s: no rows",
        f"{head}\n{columns}\n1.0\n": "s:3: expected 2 numbers from 0",
        f"{head}\n{columns}\n1.0\t2.0\n1.0\tnan\n": "s:4: expected 2 numbers from 0",
        f"{head}\n{columns}\n1.0\t-2\n": "s:3: expected 2 numbers",
        f"{head}\n{columns}\n1.0\t1_0\n": "s:3: expected 2 numbers",
        f"{head}\nnats\tother\n1.0\t2.0\n": "s:2: not the columns of perplexity",
        f"{head}\ngold\tpredicted\na\tb\n": "s:3: expected 2 numbers",
        whole.replace('"perplexity"', '"bleu"'): "s:1: statistics of no metric that is known here",
        whole.replace('"options": {', '"options": {"stem": 1'): "s:1: statistics of no metric",
        whole.replace('"options": {', '"options": {"stem": true'): "s:1: statistics of no metric",
        whole.replace('"options": {', '"options": {"evil": 1'): "s:1: statistics of no metric",
        whole.replace('"signature"', '"x"'): "s:1: not statistics of nlptools evaluate",
        whole.replace("{", "[", 1): "s:1: not valid JSON",
    }
    for text, message in damaged.items():
        (tmp_path / "s").write_text(text)
        done = call("evaluate", "--merge", "s")
        assert done.code == 65 and message in done.err and done.err.count("\n") <= 2, (text, done.err)
    (tmp_path / "s").write_text(whole)
    mixed = call("evaluate", "--merge", "s", "labels")
    assert mixed.code == 65 and "labels:1: made with other options than s" in mixed.err
    assert call("bleu", "--merge", "s").code == 65
