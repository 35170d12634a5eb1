"""eval-vectors: tables, TSV and JSON of scores by hand, and what goes wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Run

import nlptools
from nlptools.configs.eval_vectors import EvalVectors
from tests.real_data import published

TABLE = "6 3\nking 1 1 0.1\nqueen 1 -1 0.1\nman 0 1 0.9\nwoman 0 -1 0.9\nboy 0 1 0.5\nthrone 9 9 1\n"
QUESTIONS = """\
: family
man king woman queen
Man King Woman Queen
man king woman duchess
: gram1-plural
man woman king throne
man woman king queens
"""
PAIRS = "# word word score\nking queen 8\nman boy 9.5\nking earl 7\nboy throne 1\n"
CONVENTIONS = "restrict:30000|case:fold|unknown:skip|subwords:no"
ANALOGIES = (
    f"method:add|{CONVENTIONS}|query:excluded|average:micro|unit:questions|version:nlptools-{nlptools.__version__}"
)
COMPARED = f"similarity:cosine|{CONVENTIONS}|unit:pairs|version:nlptools-{nlptools.__version__}"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "v.txt").write_text(TABLE)
    (tmp_path / "q.txt").write_text(QUESTIONS)
    (tmp_path / "pairs.txt").write_text(PAIRS)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "small.txt").write_text("2 3\nking 1 1 0.1\nqueen 1 -1 0.1\n")
    return tmp_path


def test_a_table(call: Run, files: Path) -> None:
    done = call("eval-vectors", "v.txt", "other/small.txt", "--analogies", "q.txt", "--pairs", "pairs.txt")
    assert done.code == 0
    assert done.lines == [
        "q.txt                   v.txt   small.txt",
        "  family         100.00%  2/3      -  0/3",
        "  gram1-plural     0.00%  1/2      -  0/2",
        "  semantic       100.00%  2/3      -  0/3",
        "  syntactic        0.00%  1/2      -  0/2",
        "  total           66.67%  3/5      -  0/5",
        f"  {ANALOGIES}",
        "",
        "pairs.txt               v.txt   small.txt",
        "  spearman        0.5000  3/4      -  1/4",
        "  pearson        -0.0485  3/4      -  1/4",
        f"  {COMPARED}",
    ]
    assert done.err == (
        "nlptools eval-vectors: warning: q.txt: every question has a word that other/small.txt does not know\n"
        "nlptools eval-vectors: warning: other/small.txt knows 1 of 4 pairs in pairs.txt: the correlation is undefined\n"
    )


def test_tsv(call: Run, files: Path) -> None:
    done = call(
        "eval-vectors", "v.txt", "other/small.txt", "--analogies", "q.txt", "--pairs", "pairs.txt", "--to", "tsv", "-q"
    )
    rows = [line.split("\t") for line in done.lines]
    assert [row[:3] for row in rows[:7]] == [
        *(["v.txt", "q.txt", name] for name in ("family", "gram1-plural", "semantic", "syntactic", "total")),
        *(["v.txt", "pairs.txt", name] for name in ("spearman", "pearson")),
    ]
    assert rows[0][3:] == ["1.0000", "2", "3", "questions", ANALOGIES]
    assert rows[5][3:] == ["0.5000", "3", "4", "pairs", COMPARED]
    assert rows[7][:6] == ["other/small.txt", "q.txt", "family", "", "0", "3"] and len(rows) == 14


def test_json(call: Run, files: Path) -> None:
    done = call(
        "eval-vectors", "v.txt", "--analogies", "q.txt", "--pairs", "pairs.txt", "--to", "jsonl", "--unknown", "wrong"
    )
    found = {record["name"]: record for record in map(json.loads, done.lines)}
    assert found["total"] == {
        "model": "v.txt",
        "file": "q.txt",
        "kind": "sum",
        "name": "total",
        "value": 0.4,
        "correct": 2,
        "answered": 3,
        "count": 5,
        "unit": "questions",
        "signature": ANALOGIES.replace("skip", "wrong"),
    }
    assert found["family"]["kind"] == "section" and found["spearman"]["kind"] == "correlation"
    # gold 8, 9.5, 7, 1 and cosines 0.01, 0.97, 0, 0.74 have ranks 3 4 2 1 and 2 4 1 3
    assert found["spearman"]["value"] == pytest.approx(1 - 6 * 6 / 60)
    assert found["spearman"]["signature"] == COMPARED.replace("skip", "zero") and "correct" not in found["spearman"]


def test_intervals(call: Run, files: Path) -> None:
    arguments = ("eval-vectors", "v.txt", "--analogies", "q.txt", "--pairs", "pairs.txt")
    first, again, other = (
        call(*arguments, "--to", "tsv", "--confidence", 300, *seed) for seed in ((), (), ("--seed", 7))
    )
    assert first.out == again.out != other.out
    total = first.lines[4].split("\t")
    assert total[7].endswith(f"|bs:300|seed:12345|version:nlptools-{nlptools.__version__}")
    assert float(total[8]) == pytest.approx(2 / 3, abs=0.1) and 0.3 < float(total[9]) <= 0.5
    assert first.lines[0].split("\t")[8:] == ["1.0000", "0.0000"]
    told = call(*arguments, "--confidence").lines
    assert told[1].split() == ["family", "100.00%", "±", "0.00", "2/3"] and "|bs:1000|" in told[6]
    [record] = map(json.loads, call(*arguments[:-2], "--to", "jsonl", "--confidence", 300).lines[4:])
    assert record["interval"]["half_width"] == pytest.approx(float(total[9]), abs=1e-4)


def test_options_reach_the_evaluation(call: Run, files: Path) -> None:
    def answered(*options: object) -> list[str]:
        done = call("eval-vectors", "v.txt", "--analogies", "q.txt", "--pairs", "pairs.txt", "--to", "tsv", *options)
        return [line.split("\t")[4] for line in done.lines]

    assert answered() == ["2", "1", "2", "1", "3", "3", "3"]
    assert answered("--case", "keep") == ["1", "1", "1", "1", "2", "3", "3"]
    assert answered("--restrict", 5) == ["2", "0", "2", "0", "2", "2", "2"]
    assert answered("--restrict", 5, "--subwords") == ["2", "0", "2", "0", "2", "3", "3"]
    done = call("eval-vectors", "v.txt", "--analogies", "q.txt", "--method", "mul", "--restrict", 0)
    assert done.lines[6].startswith("  method:mul|epsilon:0.001|restrict:all|")


def test_several_files_keep_their_order(call: Run, files: Path) -> None:
    (files / "plain").write_text("man king woman queen\n")
    done = call(
        "eval-vectors", "v.txt", "--analogies", "plain", "--analogies", "q.txt", "--analogies", "plain", "--to", "tsv"
    )
    assert [line.split("\t")[1:4:2] for line in done.lines] == [
        ["plain", "1.0000"],
        *(["q.txt", value] for value in ("1.0000", "0.0000", "1.0000", "0.0000", "0.6667")),
        ["plain", "1.0000"],
    ]


@pytest.mark.parametrize("which", ["v.txt", "q.txt", "pairs.txt"])
def test_standard_input(call: Run, files: Path, which: str) -> None:
    arguments = ["eval-vectors", "v.txt", "--analogies", "q.txt", "--pairs", "pairs.txt", "--to", "tsv"]
    expected = [line.split("\t")[2:] for line in call(*arguments).lines]
    done = call(*(("-" if name == which else name) for name in arguments), stdin=(files / which).read_bytes())
    assert [line.split("\t")[2:] for line in done.lines] == expected


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["v.txt"], 2, "expected --analogies FILE, --pairs FILE, or both"),
        (["--analogies", "q.txt"], 2, "VECTORS"),
        (["-", "--analogies", "q.txt", "--pairs", "-"], 2, "only once"),
        (["v.txt", "--analogies", "q.txt", "--restrict", "-1"], 2, "--restrict"),
        (["v.parquet", "--analogies", "q.txt"], 66, "v.parquet: no such file"),
        (["q.parquet", "--analogies", "q.txt"], 2, "--from"),
        (["v.txt", "missing.txt", "--analogies", "q.txt"], 66, "missing.txt: no such file"),
        (["v.txt", "--analogies", "missing"], 66, "missing: no such file"),
        (["v.txt", "--pairs", "other"], 66, "other: is a directory"),
        (["q.txt", "--analogies", "q.txt"], 78, "q.txt:1: the first line does not hold"),
        (["nan.txt", "--analogies", "q.txt"], 78, "nan.txt:2: expected a finite number"),
        (["v.txt", "--analogies", "three"], 65, "three:2: expected four words, got 3"),
        (["v.txt", "--pairs", "nan"], 65, "nan:2: expected two words and a finite number"),
        (["v.txt", "--pairs", "nan.txt"], 65, "nan.txt:1: expected two words"),
        (["v.txt", "--analogies", "empty"], 65, "empty: no analogies"),
        (["v.txt", "--pairs", "empty"], 65, "empty: no word pairs"),
        (["v.txt", "--analogies", "latin"], 65, "latin:2: invalid UTF-8"),
    ],
)
def test_refusals(call: Run, files: Path, arguments: list[str], code: int, said: str) -> None:
    (files / "nan.txt").write_text("1 2\nking 1 nan\n")
    (files / "three").write_text(": s\na b c\n")
    (files / "nan").write_text("a b 1\nc d nan\n")
    (files / "empty").write_text("")
    (files / "q.parquet").write_text("")
    (files / "latin").write_bytes(b": s\na b c \xe9\n")
    done = call("eval-vectors", *arguments)
    assert (done.code, done.out) == (code, b"") and said in done.err, done.err


def test_encoding_errors(call: Run, files: Path) -> None:
    (files / "latin").write_bytes(QUESTIONS.encode().replace(b"duchess", b"duch\xe9ss"))
    done = call("eval-vectors", "v.txt", "--analogies", "latin", "--encoding-errors", "replace", "--to", "tsv")
    assert done.code == 0 and done.lines[-1].split("\t")[3:6] == ["0.6667", "3", "5"]


def test_the_library(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(files)
    asked = EvalVectors(analogies=("q.txt",), pairs=("pairs.txt",))
    found = nlptools.evaluate_vectors("v.txt", asked)
    assert found == nlptools.evaluate_vectors(nlptools.load_vectors("v.txt"), asked)
    total = found[4]
    assert (total.name, total.correct, total.answered, total.count, total.interval) == ("total", 2, 3, 5, None)
    with pytest.raises(nlptools.errors.UsageError):  # type: ignore[attr-defined]
        nlptools.evaluate_vectors("v.txt", EvalVectors())


def test_published_files(call: Run, files: Path) -> None:
    asked = published("analogies", "questions-words.txt")
    sets = [published("wordsim", name) for name in ("wordsim353.tsv", "men.csv")]
    done = call(
        "eval-vectors", "v.txt", "--analogies", asked, *(x for name in sets for x in ("--pairs", name)), "--to", "tsv"
    )
    counts = {tuple(line.split("\t")[1:3]): line.split("\t")[5] for line in done.lines}
    assert done.code == 0 and done.err.count("read as a header") == 1
    assert [counts[str(asked), name] for name in ("semantic", "syntactic", "total")] == ["8869", "10675", "19544"]
    assert [counts[str(path), "spearman"] for path in sets] == ["353", "3000"]
