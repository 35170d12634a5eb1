"""SQuAD's scores equal those of its scripts, and of transformers where that still has them.

NLPTOOLS_SQUAD names a folder with evaluate-v1.1.py and evaluate-v2.0.py.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from nlptools.formats.squad import gold_answers, read_no_answer, read_predictions
from nlptools.metrics.squad import GoldAnswers, official, squad

pytestmark = pytest.mark.reference

WORDS = [
    "the",
    "The",
    "cat",
    "dog.",
    "a",
    "an",
    "red",
    "U.S.",
    "don't",
    "–",
    "the–man",
    "ÄRGER",
    "\u00a0",
    "(",
    "1,000",
]


def draw(seed, version):
    """Questions, predictions and odds, with ties, with empty answers and with answers that normalize to nothing."""
    rng = random.Random(seed)

    def text():
        return rng.choice(["", " "]) + " ".join(rng.choices(WORDS, k=rng.randrange(1, 6)))

    questions = []
    for i in range(150):
        least = 1 if version == "1.1" or rng.random() < 0.6 else 0
        answers = [text() for _ in range(rng.randrange(least, 4) if least else 0)]
        questions.append(GoldAnswers(f"q{i}", tuple(answers)))
    predictions = {q.id: rng.choice(["", text(), *q.answers]) for q in questions}
    odds = {q.id: round(rng.random() - bool(q.answers) / 2, 1 + seed % 3) for q in questions}
    shuffled = list(odds.items())
    rng.shuffle(shuffled)
    return questions, predictions, {**dict(shuffled), "unknown": 0.1}


def equal(ours, theirs):
    assert list(ours) == list(theirs)
    for key, value in theirs.items():
        if key.endswith(("total", "thresh")):
            assert ours[key] == value, key
        else:
            assert ours[key] == pytest.approx(value, rel=1e-13, abs=1e-12), key


def test_transformers():
    for seed in range(30):
        theirs = pytest.importorskip("transformers.data.metrics.squad_metrics")
        questions, predictions, odds = draw(seed, "2.0")
        examples = [SimpleNamespace(qas_id=q.id, answers=[{"text": text} for text in q.answers]) for q in questions]
        odds.pop("unknown")  # there, one without a question is an error
        for threshold in (1.0, 0.1, -0.2):
            expected = dict(theirs.squad_evaluate(examples, predictions, odds, threshold))
            ours = official(squad(questions, predictions, "2.0", no_answer=odds, threshold=threshold))
            equal(ours, {key: value for key, value in expected.items() if not key.startswith("has_ans")})


@pytest.fixture
def script(tmp_path):
    folder = os.environ.get("NLPTOOLS_SQUAD")
    if not folder:
        pytest.skip("NLPTOOLS_SQUAD names no folder with SQuAD's scripts")

    def script(version, *arguments):
        command = [sys.executable, str(Path(folder, f"evaluate-v{version}.py")), *map(str, arguments)]
        return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)

    return script


def write(folder, questions, predictions, odds):
    """The three files."""
    qas = [{"id": q.id, "answers": [{"text": text} for text in q.answers]} for q in questions]
    articles = [{"paragraphs": [{"qas": qas[i : i + 7]}]} for i in range(0, len(qas), 7)]
    paths = [folder / name for name in ("data.json", "predictions.json", "odds.json")]
    for path, value in zip(paths, ({"data": articles}, predictions, odds)):
        path.write_text(json.dumps(value), encoding="utf-8")
    return paths


@pytest.mark.parametrize("seed", range(10))
def test_the_script_of_version_1(script, tmp_path, seed):
    questions, predictions, odds = draw(seed, "1.1")
    data, answers, _ = write(tmp_path, questions, dict(list(predictions.items())[seed:]), odds)
    ours = official(squad([*gold_answers(data)], read_predictions(answers), "1.1"))
    equal(ours, script("1.1", data, answers))


@pytest.mark.parametrize("seed", range(10))
def test_the_script_of_version_2(script, tmp_path, seed):
    data, answers, odds = write(tmp_path, *draw(seed, "2.0"))
    read = [*gold_answers(data)], read_predictions(answers), "2.0"
    equal(official(squad(*read)), script("2.0", data, answers))
    for threshold in (1.0, 0.1, -0.2):
        ours = official(squad(*read, no_answer=read_no_answer(odds), threshold=threshold))
        equal(ours, script("2.0", data, answers, "--na-prob-file", odds, "--na-prob-thresh", threshold))
