"""Files of texts and labels: every published layout, what is broken in them, and the way back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlptools.configs.tasks.table import TASKS
from nlptools.errors import DataError, InputError, UsageError
from nlptools.formats.examples import Place, TextExample
from nlptools.formats.glue import GLUE, glue_task, submission
from nlptools.formats.readers import READERS, read
from nlptools.formats.reading_options import Options
from nlptools.formats.texts import columns_with, header_with
from tests.real_data import published


def found(tmp_path: Path, task: str, text: str | bytes, name: str = "f.tsv", **options: object) -> list[TextExample]:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    examples = list(read(task, [str(path)], Options(**options)))  # type: ignore[arg-type]
    assert all(isinstance(example, TextExample) for example in examples)
    return examples  # type: ignore[return-value]


def pairs(examples: list[TextExample]) -> list[tuple[object, ...]]:
    return [(*example.texts, example.label) for example in examples]


# -- layouts ----------------------------------------------------------------------------------------------------------


def test_text_tab_label(tmp_path):
    examples = found(tmp_path, "classify", 'a "quoted start\t1\n\\n is two characters\t0\n\t1\n')
    assert pairs(examples) == [('a "quoted start', "1"), ("\\n is two characters", "0"), ("", "1")]
    assert [example.place.line for example in examples] == [1, 2, 3]
    assert examples[0].place.path.endswith("f.tsv")


def test_sst2_as_glue_has_it(tmp_path):
    text = 'sentence\tlabel\nhide new secretions \t0\n" quoted\t1\n'
    for task in ("classify", "glue/SST-2", "glue/sst2"):
        assert pairs(found(tmp_path, task, text)) == [("hide new secretions ", "0"), ('" quoted', "1")]
    test = "index\tsentence\n0\tuneasy mishmash\n1\tgood\n"
    for task in ("classify", "glue/sst-2"):
        examples = found(tmp_path, task, test, labelled=False)
        assert pairs(examples) == [("uneasy mishmash", None), ("good", None)]
        assert [example.id for example in examples] == ["0", "1"]


def test_cola_has_no_header_but_its_test_file(tmp_path):
    text = "gj04\t1\t\tThe sailors rode.\nclc95\t0\t*\tIn which way?\nks08\t0\t??\tIt.\n"
    expected = [("The sailors rode.", "1"), ("In which way?", "0"), ("It.", "0")]
    assert pairs(found(tmp_path, "glue/cola", text)) == expected
    test = found(tmp_path, "glue/cola", "index\tsentence\n7\tBill ate.\n", labelled=False)
    assert (pairs(test), test[0].id) == ([("Bill ate.", None)], "7")


def test_trec_is_latin_1_and_has_two_labels(tmp_path):
    text = b"DESC:manner How did it ?\nLOC:city a sister\xf0city ?\nENTY:dismed caf\xc3\xa9\n"
    coarse = [("How did it ?", "DESC"), ("a sister\xf0city ?", "LOC"), ("caf\xe9", "ENTY")]
    assert pairs(found(tmp_path, "classify", text, "train.txt")) == coarse
    assert [e.label for e in found(tmp_path, "classify", text, layout="trec-fine")] == [
        "DESC:manner",
        "LOC:city",
        "ENTY:dismed",
    ]
    assert pairs(found(tmp_path, "classify", b"What\n", layout="trec", labelled=False)) == [("What", None)]


def test_json_lines(tmp_path):
    rows = [
        {"text": "a\tb\n", "label": "x", "id": 3},
        {"text": "", "label": 1},
        {"sentence": "c", "label": True, "idx": "q", "more": [1]},
        {"text": "d", "label": ["x"]},
    ]
    examples = found(tmp_path, "classify", "".join(json.dumps(row) + "\n" for row in rows), "f.jsonl")
    assert pairs(examples) == [("a\tb\n", "x"), ("", "1"), ("c", "true"), ("d", "x")]
    assert [example.id for example in examples] == ["3", None, "q", None]
    assert pairs(found(tmp_path, "pair", '{"premise": "p", "hypothesis": "h", "label": 2}\n')) == [("p", "h", "2")]
    none = '{"text": "a", "label": -1}\n{"text": "b", "label": null}\n{"text": "c"}\n'
    assert [e.label for e in found(tmp_path, "classify", none, labelled=False)] == [None] * 3
    scores = '{"sentence1": "a", "sentence2": "b", "score": -1}\n'
    assert pairs(found(tmp_path, "regress", scores)) == [("a", "b", "-1")]


def test_multi_label(tmp_path):
    examples = found(tmp_path, "classify", "a\tx, y\nb\t\nc\tz\n", multi_label=True)
    assert [(e.texts[0], e.labels, e.label) for e in examples] == [
        *(("a", ("x", "y"), None), ("b", (), None), ("c", ("z",), None))
    ]
    text = '{"text": "a", "labels": ["x, y", 2]}\n{"text": "b", "labels": []}\n'
    assert [e.labels for e in found(tmp_path, "classify", text, multi_label=True)] == [("x, y", "2"), ()]


MRPC = '\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t70\t71\tAmrozi " a\tReferring "\n'
QQP = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n13\t1\t2\tq one\tq two\t0\n"
QNLI = "index\tquestion\tsentence\tlabel\n5\tWhen?\tIn 2000.\tentailment\n"
RTE = "index\tsentence1\tsentence2\tlabel\n0\tNo Weapons\tWeapons\tnot_entailment\n"
MNLI_FIELDS = ("0", "63", "63n", "g", "b1", "b2", "p1", "p2", "s1", "s2", "a", "b", "c", "d", "e", "neutral")
MNLI_NAMES = "index promptID pairID genre sentence1_binary_parse sentence2_binary_parse sentence1_parse sentence2_parse"
MNLI_NAMES += " sentence1 sentence2 label1 label2 label3 label4 label5 gold_label"
MNLI = MNLI_NAMES.replace(" ", "\t") + "\n" + "\t".join(MNLI_FIELDS) + "\n"
SICK = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n4\tA\tB\t3.6\tCONTRADICTION\n"


@pytest.mark.parametrize(
    ("task", "text", "expected", "id"),
    [
        ("mrpc", MRPC, ('Amrozi " a', 'Referring "', "1"), None),
        ("qqp", QQP, ("q one", "q two", "0"), "13"),
        ("qnli", QNLI, ("When?", "In 2000.", "entailment"), "5"),
        ("rte", RTE, ("No Weapons", "Weapons", "not_entailment"), "0"),
        ("wnli", RTE, ("No Weapons", "Weapons", "not_entailment"), "0"),
        ("mnli", MNLI, ("s1", "s2", "neutral"), "0"),
        ("mnli-mm", MNLI, ("s1", "s2", "neutral"), "0"),
    ],
)
def test_pairs_of_glue_by_name_and_by_header(tmp_path, task, text, expected, id):
    for name in (f"glue/{task}", "pair"):
        examples = found(tmp_path, name, text)
        assert pairs(examples) == [expected]
        assert examples[0].id == id


def test_test_files_of_glue_have_no_labels(tmp_path):
    examples = found(tmp_path, "glue/qqp", "id\tquestion1\tquestion2\n9\ta\tb\n", labelled=False)
    assert (pairs(examples), examples[0].id) == ([("a", "b", None)], "9")
    mrpc = "index\t#1 ID\t#2 ID\t#1 String\t#2 String\n0\t1\t2\ta\tb\n"
    assert pairs(found(tmp_path, "glue/mrpc", mrpc, labelled=False)) == [("a", "b", None)]
    with pytest.raises(DataError, match=r"f\.tsv:1: no column of labels"):
        found(tmp_path, "glue/mrpc", mrpc)


def test_sick_is_two_tasks(tmp_path):
    assert pairs(found(tmp_path, "pair", SICK, "SICK_train.txt")) == [("A", "B", "CONTRADICTION")]
    assert pairs(found(tmp_path, "regress", SICK)) == [("A", "B", "3.6")]
    assert pairs(found(tmp_path, "regress", SICK, label_column="4")) == [("A", "B", "3.6")]


def test_sts(tmp_path):
    row = ["0", "main-captions", "f", "2012", "1", "s", "s", "a", "b", "2.5"]
    names = "index genre filename year old_index source1 source2 sentence1 sentence2 score"
    text = names.replace(" ", "\t") + "\n" + "\t".join(row) + "\n"
    assert pairs(found(tmp_path, "regress", text)) == pairs(found(tmp_path, "glue/sts-b", text)) == [("a", "b", "2.5")]
    own = "main-news\tf\t2015\t0001\t5.000\tone\ttwo\tsource\turl\nmain-news\tf\t2015\t2\t0\tx\ty\n"
    columns = {"text_column": ("6", "7"), "label_column": "5"}
    assert pairs(found(tmp_path, "regress", own, **columns)) == [("one", "two", "5.000"), ("x", "y", "0")]


def test_columns_by_number_and_name(tmp_path):
    text = "lab\tleft\tright\nx\ta\tb\n"
    for chosen in (("left", "right"), ("2", "3"), ("-2", "RIGHT")):
        examples = found(tmp_path, "pair", text, text_column=chosen, label_column="lab")
        assert pairs(examples) == [("a", "b", "x")]
    assert pairs(found(tmp_path, "classify", "x\ta\ny\tb\n", label_column="1")) == [("a", "x"), ("b", "y")]
    assert pairs(found(tmp_path, "classify", "x\ta\n", text_column=("2",))) == [("a", "x")]
    assert pairs(found(tmp_path, "classify", "what\tever\na\tb\n", header=True, text_column=("1",), label_column="2"))


def test_without_labels(tmp_path):
    examples = found(tmp_path, "classify", "one\n\nthree\tx\n", labelled=False)
    assert pairs(examples) == [("one", None), ("", None), ("three", "x")]
    assert pairs(found(tmp_path, "classify", "one\n\ntwo\n", labelled=False)) == [
        *(("one", None), ("", None), ("two", None))
    ]
    assert pairs(found(tmp_path, "pair", "a\tb\n\nc\td\n", labelled=False)) == [
        *(("a", "b", None), ("", "", None), ("c", "d", None))
    ]
    assert pairs(found(tmp_path, "pair", "a\tb\tx\nc\td\n", labelled=False)) == [("a", "b", "x"), ("c", "d", None)]


# -- what is broken ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "text", "line", "said"),
    [
        ("classify", "a\tx\nonly\n", 2, "1 column, expected 2"),
        ("classify", "a\tx\nb\ty\tz\n", 2, "3 columns, expected 2"),
        ("classify", "a\tx\nb\t\n", 2, "no label"),
        ("classify", "only\n", 1, "1 column, expected 2"),
        ("pair", "a\tb\tx\na\tb\n", 2, "2 columns, expected 3"),
        ("regress", "a\tb\t1\na\tb\tx\n", 2, "expected a finite number, got 'x'"),
        ("regress", "a\tb\tnan\n", 1, "finite"),
        ("regress", "a\tb\t1_0\n", 1, "finite"),
        ("classify", '{"text": "a", "label": 1}\n{"text": }\n', 2, "not valid JSON"),
        ("classify", '{"text": "a", "label": 1}\n{"tex": "b"}\n', 2, "no texts: expected the keys sentence, or text"),
        ("classify", '{"text": "a", "label": 1}\n{"text": 5, "label": 1}\n', 2, "'text' is not text"),
        ("classify", '{"text": "a", "label": 1}\n{"text": "b"}\n', 2, "no label"),
        ("classify", '{"text": "a", "label": [1, 2]}\n', 1, "not a single label"),
        ("classify", '{"text": "a", "label": 1}\n{"text": "b", "label": NaN}\n', 2, "no label: 'label' is NaN"),
        ("classify", '{"text": "a", "label": 1, "label": 0}\n', 1, "two values have the key 'label'"),
        ("pair", "sentence1\tsentence2\tlabel\na\tb\n", 2, "2 columns, expected at least 3"),
        ("classify", "DESC:manner How\nno label here\n", 2, "expected `LABEL:fine text`"),
    ],
)
def test_one_message_with_place_and_cure(tmp_path, task, text, line, said):
    with pytest.raises(DataError) as caught:
        found(tmp_path, task, text)
    assert f"f.tsv:{line}: " in str(caught.value)
    assert said in str(caught.value)
    assert "JSON" in said or caught.value.hint


def test_invalid_utf_8_is_told_with_its_line(tmp_path):
    with pytest.raises(DataError, match=r"f\.tsv:2: invalid UTF-8 at byte 2"):
        found(tmp_path, "classify", b"good\tx\nb\xffd\tx\n")
    path = str(tmp_path / "f.tsv")
    texts = {how: [e.texts[0] for e in read("classify", [path], None, how)] for how in ("replace", "ignore")}
    assert texts == {"replace": ["good", "b\ufffdd"], "ignore": ["good", "bd"]}


def test_broken_lines_of_glue_are_counted(tmp_path, capsys):
    assert len(found(tmp_path, "glue/qqp", QQP + "14\t1\t2\tq\n\n15\t1\t2\ta\tb\t1\n")) == 2
    assert "skipped 2 lines with too few columns" in capsys.readouterr().err
    with pytest.raises(DataError, match=r"f\.tsv:3: 4 columns"):
        found(tmp_path, "pair", QQP + "14\t1\t2\tq\n")


def test_labels_that_nobody_agreed_on(tmp_path, capsys):
    table = "gold_label\tsentence1\tsentence2\n-\ta\tb\nneutral\tc\td\n"
    rows = '{"gold_label": "-", "sentence1": "a", "sentence2": "b"}\n'
    rows += '{"gold_label": "neutral", "sentence1": "c", "sentence2": "d"}\n'
    for text in (table, rows):
        assert pairs(found(tmp_path, "pair", text)) == [("c", "d", "neutral")]
        assert "skipped 1 example without an agreed label" in capsys.readouterr().err
        examples = found(tmp_path, "pair", text, labelled=False)
        assert pairs(examples) == [("a", "b", None), ("c", "d", "neutral")]
        assert columns_with(examples[0], {}) == text.split("\n")[text == table]
    assert pairs(found(tmp_path, "pair", "a\tb\t-\n")) == [("a", "b", "-")]


def test_wrong_use(tmp_path):
    for task in ("seq2seq", "glue/none"):
        with pytest.raises(UsageError):
            read(task, [])
    with pytest.raises(InputError):
        read("classify", [str(tmp_path / "none")])
    with pytest.raises(UsageError, match="no layout 'conll'"):
        found(tmp_path, "classify", "a\tb\n", layout="conll")
    with pytest.raises(DataError, match="no column 'c': the columns are text, label") as caught:
        found(tmp_path, "classify", "text\tlabel\na\tb\n", label_column="c")
    assert caught.value.hint
    with pytest.raises(DataError, match="no column 5: the first line has 2 columns"):
        found(tmp_path, "classify", "text\tlabel\na\tb\n", label_column="5")
    with pytest.raises(DataError, match="not a file of glue/qnli"):
        found(tmp_path, "glue/qnli", "a\tb\n")
    assert found(tmp_path, "classify", "") == []
    assert set(READERS) == set(TASKS) - {"seq2seq"}


def test_each_file_has_its_own_header(tmp_path):
    (tmp_path / "a").write_text("sentence\tlabel\none\t1\n")
    (tmp_path / "b").write_text("two\t0\n")
    examples = list(read("classify", [str(tmp_path / "a"), str(tmp_path / "b")]))
    assert pairs(examples) == [("one", "1"), ("two", "0")]
    assert [example.place.line for example in examples] == [2, 1]


# -- back -------------------------------------------------------------------------------------------------------------


FIELD = st.text(st.characters(blacklist_characters="\t\n\r\ufeff", blacklist_categories=("Cs",)), max_size=8)


@given(rows=st.lists(st.tuples(FIELD, FIELD, FIELD), min_size=1, max_size=6))
def test_columns_come_back(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("rows") / "f.tsv"
    path.write_bytes("".join("\t".join(row) + "\n" for row in rows).encode())
    options = Options(labelled=False, layout="table")
    examples = list(read("pair", [str(path)], options))
    assert [example.texts for example in examples] == [row[:2] for row in rows]
    assert [example.label for example in examples] == [row[2] or None for row in rows]
    assert "".join(columns_with(example, {}) + "\n" for example in examples).encode() == path.read_bytes()


def test_a_prediction_is_appended(tmp_path):
    (example,) = found(tmp_path, "classify", "sentence\tlabel\tx\na\\b\t1\tq\n")
    assert header_with(example, ["prediction", "probability"]) == "sentence\tlabel\tx\tprediction\tprobability"
    assert columns_with(example, {"prediction": "a\tb", "probability": 0.25}) == "a\\b\t1\tq\ta\\tb\t0.25"
    (example,) = found(tmp_path, "classify", '{"text": "é", "label": 1, "k": [1]}\n')
    added = columns_with(example, {"prediction": "x", "probability": 0.5})
    assert added == '{"text": "é", "label": 1, "k": [1], "prediction": "x", "probability": 0.5}'
    assert header_with(example, ["prediction"]) is None
    (_, empty) = found(tmp_path, "pair", "a\tb\n\n", labelled=False)
    assert columns_with(empty, {}) == ""


def test_submission(tmp_path):
    rows = [("3", "equivalent"), (None, "0")]
    assert list(submission("MRPC", rows)) == ["index\tprediction", "3\t1", "1\t0"]
    assert list(submission("glue/mnli", [(None, "neutral")]))[1:] == ["0\tneutral"]
    scores = [(None, 5.2), (None, "-1"), (None, 2.00049)]
    assert list(submission("sts-b", scores))[1:] == ["0\t5.000", "1\t0.000", "2\t2.000"]
    for name, prediction in (("rte", "maybe"), ("sts-b", "x"), ("sts-b", float("inf"))):
        with pytest.raises(DataError, match="prediction 1 is"):
            list(submission(name, [(None, prediction)]))


def test_the_table_of_glue_agrees_with_itself():
    for task in GLUE.values():
        assert bool(task.labels) == (task.task != "regress")
    assert glue_task("glue/MNLI_matched").submission == "MNLI-m.tsv"
    assert glue_task("mnli-mm").files["dev"] == "dev_mismatched.tsv"
    assert glue_task("mnli").labels == ("entailment", "neutral", "contradiction")


# -- the published files ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "name", "count", "labels"),
    [
        ("classify", "sst2/train.tsv", 6920, {"0", "1"}),
        ("classify", "sst2/dev.tsv", 872, {"0", "1"}),
        ("glue/cola", "cola/in_domain_train.tsv", 8551, {"0", "1"}),
        ("glue/cola", "cola/in_domain_dev.tsv", 527, {"0", "1"}),
        ("classify", "trec/train.txt", 5452, {"ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM"}),
        ("pair", "sick/SICK_train.txt", 4500, {"NEUTRAL", "ENTAILMENT", "CONTRADICTION"}),
        ("pair", "sick/SICK_trial.txt", 500, {"NEUTRAL", "ENTAILMENT", "CONTRADICTION"}),
        ("regress", "sick/SICK_train.txt", 4500, None),
    ],
)
def test_published_files(task, name, count, labels):
    path = published(name)
    examples = list(read(task, [str(path)]))
    assert len(examples) == count
    seen = {example.label for example in examples}
    assert seen == labels if labels else all(1 <= float(label) <= 5 for label in seen)
    assert all(text.strip() for example in examples for text in example.texts)
    if "trec" not in name:
        header = [header_with(examples[0], [])] if examples[0].header else []
        raw = path.read_bytes().decode().replace("\r\n", "\n")
        lines = [*header, *(columns_with(example, {}) for example in examples)]
        assert "\n".join(lines) == raw.rstrip("\n")
    assert examples[0].place == Place(str(path), 2 if examples[0].header else 1)
