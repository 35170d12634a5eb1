"""Questions, choices and coreference: the published forms, answers that stand elsewhere, and the official output."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlptools.errors import DataError, InputError, UsageError
from nlptools.formats.choices import read_choices
from nlptools.formats.examples import AnswerSpan, Choice, Coreference, Place, Question
from nlptools.formats.gap import predictions_line, read_coreference
from nlptools.formats.questions import nearest, read_questions
from nlptools.formats.readers import read
from nlptools.formats.reading_options import Options
from nlptools.formats.squad import gold_answers
from tests.real_data import published

CONTEXT = "Ann saw Bob. Bob saw\u2028Ann."


def question(**fields: Any) -> dict[str, Any]:
    return {"id": "q1", "question": "Who?", "answers": [{"text": "Bob", "answer_start": 8}], **fields}


def squad_file(*questions: dict[str, Any], context: str = CONTEXT) -> str:
    return json.dumps(
        {"version": "v2.0", "data": [{"title": "t", "paragraphs": [{"context": context, "qas": questions}]}]}
    )


def questions(tmp_path: Path, text: str, name: str = "f.json", **options: Any) -> list[Question]:
    path = tmp_path / name
    path.write_bytes(text.encode())
    return list(read_questions(str(path), Options(**options)))


# -- SQuAD ------------------------------------------------------------------------------------------------------------


def test_squad(tmp_path):
    three = [
        question(),
        question(id="q2", answers=[], is_impossible=True, plausible_answers=[{"text": "Ann", "answer_start": 0}]),
        question(id="q3", answers=[{"text": "Ann", "answer_start": 0}, {"text": "Ann", "answer_start": 21}]),
    ]
    first, second, third = questions(tmp_path, squad_file(*three))
    place = Place(str(tmp_path / "f.json"), 1)
    assert first == Question("q1", "Who?", CONTEXT, (AnswerSpan("Bob", 8),), None, place)
    assert (second.answers, second.impossible) == ((), True)
    assert third.answers == (AnswerSpan("Ann", 0), AnswerSpan("Ann", 21))
    both = [*gold_answers(tmp_path / "f.json")]
    assert [q.id for q in both] == ["q1", "q2", "q3"]
    assert [q.answers for q in both] == [("Bob",), (), ("Ann", "Ann")]


def test_lines_of_questions(tmp_path):
    text = json.dumps(json.loads(squad_file(question(), question(id="q2"))), indent=1)
    found = questions(tmp_path, text)
    for q in found:
        assert f'"id": "{q.id}"' in text.split("\n")[q.place.line - 1]


def test_answers_elsewhere(tmp_path, capsys):
    bad = question(answers=[{"text": "Bob", "answer_start": 11}, {"text": "Eve", "answer_start": 0}])
    (moved,) = questions(tmp_path, squad_file(bad))
    assert moved.answers == (AnswerSpan("Bob", 13),)
    assert (
        "1 answer moved to the nearest place with that text, 1 not in the context and skipped"
        in capsys.readouterr().err
    )
    (unasked,) = questions(tmp_path, squad_file(bad), labelled=False)
    assert unasked.answers == ()
    with pytest.raises(DataError) as caught:
        questions(tmp_path, squad_file(question(id="q0"), question(answers=[{"text": "Eve", "answer_start": 0}])))
    told = "f.json:1: data[0].paragraphs[0].qas[1]: the answer 'Eve' of question 'q1' does not occur in the context"
    assert told in str(caught.value)


@given(st.text("ab ", max_size=12), st.text("ab", max_size=3), st.integers(-3, 15))
def test_the_nearest_place(context, text, start):
    places = [i for i in range(len(context)) if text and context.startswith(text, i)]
    found = nearest(context, text, start)
    assert found == min(places, key=lambda place: (abs(place - start), place), default=None)


def test_answers_that_are_not_there(tmp_path):
    none = question(answers=[])
    with pytest.raises(DataError, match="question 'q1' has no answer") as caught:
        questions(tmp_path, squad_file(none))
    assert caught.value.hint
    (found,) = questions(tmp_path, squad_file(none), labelled=False)
    assert (found.answers, found.impossible) == ((), None)
    del none["answers"]
    assert questions(tmp_path, squad_file(none), labelled=False) == [found]


def test_yes_and_no(tmp_path):
    said = [question(id=str(i), yes_no_answer=word) for i, word in enumerate(("YES", "no", "NONE"))]
    said.append(question(id="3", answers=[], yes_no_answer="YES"))
    assert [q.yes_no for q in questions(tmp_path, squad_file(*said))] == ["yes", "no", "none", "yes"]
    with pytest.raises(DataError, match="expected YES, NO or NONE"):
        questions(tmp_path, squad_file(question(yes_no_answer="maybe")))


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ('{"data": [\n}', 2, "not valid JSON"),
        ("[]", 1, "expected a JSON object, found a list"),
        ('{"data": [{"paragraphs": 3}]}', 1, "data[0].paragraphs is a number, expected a list"),
        ('{"data": [{"paragraphs": [{"qas": []}]}]}', 1, "paragraphs[0].context is missing, expected text"),
        (squad_file(question(id=None)), 1, "qas[0].id is missing, expected text"),
        (squad_file(question(question=3)), 1, "qas[0].question is a number, expected text"),
        (squad_file(question(is_impossible="no")), 1, "neither true nor false"),
        (squad_file(question(answers=[{"text": "Bob"}])), 1, "no whole number 'answer_start'"),
    ],
)
def test_broken_questions(tmp_path, text, line, said):
    with pytest.raises(DataError) as caught:
        questions(tmp_path, text)
    assert f"f.json:{line}: " in str(caught.value)
    assert said in str(caught.value)


# -- other forms ------------------------------------------------------------------------------------------------------


def test_questions_in_lines(tmp_path):
    rows: list[dict[str, Any]] = [
        question(context=CONTEXT),
        question(context=CONTEXT, answers={"text": ["Bob"], "answer_start": [8]}),
        question(context=CONTEXT, answers={"text": [], "answer_start": []}),
        {"question": "is it", "passage": "It is.", "answer": True, "title": "t"},
    ]
    found = questions(tmp_path, "".join(json.dumps(row) + "\n" for row in rows), "f.jsonl")
    assert [q.answers for q in found] == [(AnswerSpan("Bob", 8),), (AnswerSpan("Bob", 8),), (), ()]
    assert [q.impossible for q in found] == [None, None, True, False]
    assert (found[3].id, found[3].yes_no, found[3].context, found[3].place.line) == ("4", "yes", "It is.", 4)
    with pytest.raises(DataError, match=r"f\.jsonl:1: not valid JSON"):
        questions(tmp_path, "{\n", "f.jsonl")
    with pytest.raises(DataError, match=r"f\.jsonl:1: 'answer' is missing"):
        questions(tmp_path, '{"question": "a", "passage": "b"}\n', "f.jsonl")


def test_natural_questions(tmp_path):
    def row(*notes: dict[str, Any]) -> dict[str, Any]:
        return {"example_id": 7, "document_text": "<P> Ann saw  Bob </P>", "question_text": "who", "annotations": notes}

    def note(said: str, *short: tuple[int, int]) -> dict[str, Any]:
        found = [{"start_token": first, "end_token": end} for first, end in short]
        return {"yes_no_answer": said, "short_answers": found}

    rows = [
        row(note("NONE", (1, 2), (4, 5)), note("NONE", (1, 2))),
        row(note("YES"), note("NONE"), note("NO"), note("YES")),
        row(note("NONE")),
    ]
    spans, yes, none = questions(tmp_path, "".join(json.dumps(r) + "\n" for r in rows), "f.jsonl")
    assert spans.answers == (AnswerSpan("Ann", 4), AnswerSpan("Bob", 13))  # two spaces have an empty token between them
    assert (spans.id, spans.yes_no, spans.impossible) == ("7", "none", False)
    assert (yes.yes_no, yes.answers, yes.impossible) == ("yes", (), False)
    assert (none.yes_no, none.answers, none.impossible) == ("none", (), True)
    with pytest.raises(DataError, match="a short answer from token 5 to 7, but there are 6"):
        questions(tmp_path, json.dumps(row(note("NONE", (5, 7)))), "f.jsonl")
    test = json.dumps({"document_text": "a", "question_text": "b"})
    assert questions(tmp_path, test, "f.jsonl", labelled=False)[0].yes_no is None
    with pytest.raises(DataError, match="'annotations' is missing"):
        questions(tmp_path, test, "f.jsonl")


SENTENCES = "s1\tThe cat -LRB- a `` pet '' -RRB- sat down\ns2\tNo .\n"


def test_qamr(tmp_path):
    (tmp_path / "wiki-sentences.tsv").write_text(SENTENCES)
    rows = ["s1", "1 8", "76", "0", "1", "What sat?", "0 1", "261:1", "60:Invalid"]
    rows2 = ["s1", "1 8", "76", "2", "1", "What was it?", "7 3 5", "261:7 8", "60:0 1"]
    (tmp_path / "deep").mkdir()
    text = "\t".join(rows) + "\n" + "\t".join(rows2) + "\n"
    first, second = questions(tmp_path, text, "deep/dev.tsv")
    context = 'The cat ( a " pet " ) sat down'
    assert (first.id, first.question, first.context) == ("s1/1-8/76/0", "What sat?", context)
    assert first.answers == (AnswerSpan("The cat", 0), AnswerSpan("cat", 4))
    assert second.answers == (AnswerSpan('a " pet " )', 10), AnswerSpan(") sat", 20), AnswerSpan("The cat", 0))
    for q in (first, second):
        assert all(context.startswith(a.text, a.start) for a in q.answers)
    for broken, said in (
        (text.replace("0 1\t261", "0 99\t261"), "word 99 of a sentence that has 10"),
        (text.replace("0 1\t261", "0 x\t261"), "answer '0 x', expected numbers of words"),
        (text.replace("s1", "s9"), "sentence 's9' is not in"),
        ("a\tb\n", "2 columns, expected the 9 of QAMR"),
    ):
        with pytest.raises(DataError, match=said) as caught:
            questions(tmp_path, broken, "f.tsv", layout="qamr")
        assert ":1: " in str(caught.value) and caught.value.hint
    with pytest.raises(InputError, match=r"no wiki-sentences\.tsv, the file of the sentences"):
        (tmp_path / "a" / "b" / "c").mkdir(parents=True)
        questions(tmp_path, text, "a/b/c/f.tsv")


# -- choices ----------------------------------------------------------------------------------------------------------


def choices(tmp_path: Path, text: str, name: str, **options: Any) -> list[Choice]:
    path = tmp_path / name
    path.write_bytes(text.encode())
    return list(read_choices(str(path), Options(**options)))


SWAG = ["", "video-id", "fold-ind", "startphrase", "sent1", "sent2", "gold-source"]
SWAG += ["ending0", "ending1", "ending2", "ending3", "label"]


def test_swag_csv(tmp_path):
    rows = [
        [
            "0",
            "a1",
            "3416",
            "x",
            'Members, "walk"',
            "A drum line",
            "gold",
            "passes\nby.",
            "arrives.",
            "turns.",
            "plays.",
            "0",
        ],
        ["1", "a2", "3417", "x", "Two", "", "gold", "one", "two", "three", "", "3"],
    ]
    made = io.StringIO()
    csv.writer(made).writerows([SWAG, *rows])
    first, second = choices(tmp_path, made.getvalue(), "train.csv")
    assert first.context == 'Members, "walk"'
    assert first.endings[:2] == ("A drum line passes\nby.", "A drum line arrives.")
    assert (first.label, first.id, first.place.line, second.place.line) == (0, "3416", 2, 4)
    assert (second.endings, second.label) == (("one", "two", "three", ""), 3)
    with pytest.raises(DataError, match=r"train\.csv:2: 3 fields, expected 12"):
        choices(tmp_path, ",".join(SWAG) + "\na,b,c\n", "train.csv")
    with pytest.raises(DataError, match=r"train\.csv:2: malformed CSV"):
        choices(tmp_path, ",".join(SWAG) + '\na,"b\n', "train.csv")


def test_choices_in_lines(tmp_path):
    rows = [
        {"sent1": "A.", "sent2": "He", "ending0": "runs", "ending1": "eats", "label": 1},
        {"ctx": "A", "endings": ["x", "y", "z"], "label": "2", "ind": 5},
        {"context": "A", "choices": ["x", "y"], "label": ""},
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    found = choices(tmp_path, text, "f.jsonl", labelled=False)
    assert [c.endings for c in found] == [("He runs", "He eats"), ("x", "y", "z"), ("x", "y")]
    assert [c.label for c in found] == [1, 2, None]
    assert found[1].id == "5"
    for broken, said in (
        (text, r"f\.jsonl:3: no label"),
        ('{"ctx": "a", "endings": ["b"], "label": 0}', "no context with two or more endings"),
        ('{"ctx": "a", "endings": ["b", "c"], "label": 2}', "label '2', expected the number of an ending, 0 to 1"),
        (f'{{"ctx": "a", "endings": ["b", "c"], "label": "{"1" * 5000}"}}', "expected the number of an ending"),
        ('{"ctx": "a", "endings": ["b", 3], "label": 2}', "no context"),
        ("{", "not valid JSON"),
    ):
        with pytest.raises(DataError, match=said):
            choices(tmp_path, broken, "f.jsonl")


# -- coreference ------------------------------------------------------------------------------------------------------

HEADER = "ID\tText\tPronoun\tPronoun-offset\tA\tA-offset\tA-coref\tB\tB-offset\tB-coref\tURL\n"
ROW = 'd-1\tZoë met "Eve; she\tshe\t14\tZoë\t0\tTRUE\tEve\t9\tFALSE\thttp://x\n'


def coreference(tmp_path: Path, text: str, **options: Any) -> list[Coreference]:
    path = tmp_path / "gap.tsv"
    path.write_bytes(text.encode())
    return list(read_coreference(str(path), Options(**options)))


def test_gap(tmp_path):
    (found,) = coreference(tmp_path, HEADER + ROW)
    place = Place(str(tmp_path / "gap.tsv"), 2)
    assert found == Coreference("d-1", 'Zoë met "Eve; she', "she", 14, "Zoë", 0, "Eve", 9, "A", place)
    other = ROW.replace("TRUE", "x").replace("FALSE", "TRUE").replace("x", "False", 1)
    assert coreference(tmp_path, HEADER + other)[0].label == "B"
    assert coreference(tmp_path, HEADER + ROW.replace("TRUE", "FALSE"))[0].label == "neither"
    test = "".join("\t".join(f for i, f in enumerate(line.split("\t")) if i not in (6, 9)) for line in (HEADER, ROW))
    assert coreference(tmp_path, test, labelled=False)[0].label is None
    for broken, said in (
        (test, ":1: no column A-coref, B-coref"),
        (ROW, ":1: no column ID"),
        (HEADER + ROW.replace("\t9\t", "\t8\t"), ":2: B 'Eve' is not at offset 8, where the text has '\"Ev'"),
        (HEADER + ROW.replace("\t9\t", "\tx\t"), ":2: B-offset is 'x'"),
        (HEADER + ROW.replace("\t9\t", f"\t{'9' * 5000}\t"), ":2: B-offset is '999"),
        (HEADER + ROW.replace("FALSE", "TRUE"), "not both TRUE"),
        (HEADER + "a\tb\n", ":2: 2 columns, expected 11"),
    ):
        with pytest.raises(DataError) as caught:
            coreference(tmp_path, broken)
        assert said in f"{caught.value} {caught.value.hint}"


def test_gap_predictions():
    rows: list[Callable[[], str]] = [
        lambda label=label: predictions_line("x", label) for label in ("A", "B", "neither")
    ]
    assert [row() for row in rows] == ["x\tTRUE\tFALSE", "x\tFALSE\tTRUE", "x\tFALSE\tFALSE"]
    with pytest.raises(UsageError):
        predictions_line("x", "C")


# -- the published files ----------------------------------------------------------------------------------------------


def test_published_files():
    found = [
        e for e in read("coreference", [str(published("gap", "gap-development.tsv"))]) if isinstance(e, Coreference)
    ]
    labels = [e.label for e in found]
    assert [labels.count(label) for label in ("A", "B", "neither")] == [874, 925, 201]
    asked = [e for e in read("answer", [str(published("qamr", "filtered.dev.tsv"))]) if isinstance(e, Question)]
    assert len(asked) == len({q.id for q in asked}) == 18908
    assert all(q.answers and q.context.startswith(a.text, a.start) for q in asked for a in q.answers)
    assert len({q.context for q in asked}) == 499
    assert all("-LRB-" not in q.context for q in asked)
