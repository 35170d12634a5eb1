"""Entity F1 equals seqeval's in strict mode, for each scheme, and in its default mode; conlleval's to the printed digit."""

from __future__ import annotations

import os
import random
import subprocess
import warnings

import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from nlptools.formats.tag_rules import RULES
from nlptools.metrics import label_tables
from nlptools.metrics.spans import AVERAGES, conlleval_lines, entities
from nlptools.metrics.tags import read_tags

pytest.importorskip("seqeval")
from seqeval import scheme as schemes
from seqeval.metrics import accuracy_score, classification_report
from seqeval.metrics import sequence_labeling as default
from seqeval.metrics import v1 as strict

from tests.metrics.test_tags import sentences
from tests.real_data import published

pytestmark = pytest.mark.reference

STRICT = ("iob1", "iob2", "ioe1", "ioe2", "iobes", "bilou")


def theirs(gold, predicted, scheme, average):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about what has nothing to divide by
        if scheme in STRICT:
            made = getattr(schemes, scheme.upper())
            return strict.precision_recall_fscore_support(gold, predicted, average=average, scheme=made)
        return default.precision_recall_fscore_support(gold, predicted, average=average)


def check(gold, predicted, scheme):
    measures = entities(gold, predicted, scheme, averages=AVERAGES, by_type=True)
    values = measures.values()
    for average in AVERAGES:
        if average == "macro" and not measures.details["types"]:
            continue  # not a number there
        expected = theirs(gold, predicted, scheme, average)
        prefix = "" if average == "micro" else f"{average}_"
        got = [values[prefix + name] for name in ("precision", "recall", "f1")]
        assert got == pytest.approx(expected[:3], rel=0, abs=1e-12), average
    rows = measures.details["types"]
    by_type = theirs(gold, predicted, scheme, None)
    for name, key in (("precision", 0), ("recall", 1), ("f1", 2)):
        assert [row[name] for row in rows.values()] == pytest.approx([*by_type[key]], rel=0, abs=1e-12)
        assert [values[f"{name}:{kind}"] for kind in rows] == pytest.approx([*by_type[key]], rel=0, abs=1e-12)
    assert [row["gold"] for row in rows.values()] == [*by_type[3]]
    assert values["accuracy"] == pytest.approx(accuracy_score(gold, predicted), rel=0, abs=1e-12)
    if rows:
        assert label_tables.report(measures, 9) == report_of_seqeval(gold, predicted, scheme)


def report_of_seqeval(gold, predicted, scheme):
    made = {"mode": "strict", "scheme": getattr(schemes, scheme.upper())} if scheme in STRICT else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return classification_report(gold, predicted, digits=9, zero_division=0, **made).rstrip("\n").split("\n")


def tags_of(scheme, types=("A", "B-C")):
    """All tags of a scheme, bare prefixes too."""
    prefixes = RULES[scheme].prefixes[1:]
    return ["O", *prefixes, *(f"{prefix}-{kind}" for prefix in prefixes for kind in types)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("scheme", [*STRICT, "lenient"])
@settings(max_examples=examples(150), deadline=None)
@given(st.data())
def test_any_sequence_of_tags(scheme, data):
    tag = st.sampled_from(tags_of(scheme, ("A", "BC")))
    pairs = data.draw(st.lists(st.lists(st.tuples(tag, tag), min_size=1, max_size=7), min_size=1, max_size=4))
    check([[g for g, _ in s] for s in pairs], [[p for _, p in s] for s in pairs], scheme)


@pytest.mark.parametrize("scheme", [*STRICT, "lenient"])
def test_every_neighbourhood_of_three_tags(scheme):
    """Gold and prediction alike: then all that counts is which entities there are."""
    tags = tags_of(scheme, ("A", "B"))
    sentences = [[a, b, c] for a in tags for b in tags for c in tags]
    check(sentences, sentences, scheme)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("scheme", [*STRICT, "lenient"])
@pytest.mark.parametrize("seed", range(3))
def test_noisy_predictions(scheme, seed):
    rng = random.Random(seed)
    tags = tags_of(scheme)
    gold = [rng.choices(tags, k=rng.randrange(1, 30)) for _ in range(200)]
    predicted = [[tag if rng.random() < 0.8 else rng.choice(tags) for tag in sentence] for sentence in gold]
    check(gold, predicted, scheme)


@pytest.mark.parametrize("scheme", ["conlleval", "lenient"])
def test_of_iob_tags_conlleval_and_the_default_mode_make_the_same(scheme):
    rng = random.Random(5)
    tags = ["O", "O", "B-A", "I-A", "B-B", "I-B"]
    gold = [rng.choices(tags, k=rng.randrange(1, 30)) for _ in range(300)]
    predicted = [[tag if rng.random() < 0.7 else rng.choice(tags) for tag in sentence] for sentence in gold]
    check(gold, predicted, scheme)


# -- files: NLPTOOLS_DATA names a folder with conll2003/eng.testa, NLPTOOLS_CONLLEVAL is the path of conlleval.pl -------


def noisy(rng, tag, tags):
    return tag if rng.random() < 0.9 else rng.choice(tags)


@pytest.fixture
def conll2003(tmp_path):
    """CoNLL-2003's development set with a column of noisy predictions."""
    source = published("conll2003", "eng.testa")
    rng, tags = random.Random(3), ["O", "I-PER", "B-PER", "I-LOC", "I-ORG", "I-MISC"]
    lines = source.read_text(encoding="utf-8").split("\n")
    path = tmp_path / "tagged"
    path.write_text("\n".join(line and f"{line} {noisy(rng, line.split()[-1], tags)}" for line in lines))
    return path


def test_conll2003(conll2003):
    sides = [sentences(side) for side in read_tags([conll2003])]
    check(*sides, "iob1")
    check(*sides, "conlleval")
    from_file = entities(*read_tags([conll2003]), "conlleval")
    assert conlleval_lines(from_file) == conlleval_lines(entities(*sides, "conlleval"))
    assert from_file.details["gold"] == 5942  # what the shared task says
    assert from_file.details["tokens"] == 51578  # 51362 words, 216 documents


def script(text, *options):
    path = os.environ.get("NLPTOOLS_CONLLEVAL")
    if not path:
        pytest.skip("NLPTOOLS_CONLLEVAL does not name conlleval.pl")
    done = subprocess.run(["perl", path, *options], input=text.encode(), capture_output=True, check=True)
    return done.stdout.decode().removesuffix("\n").split("\n")


def test_the_script_prints_the_same_of_conll2003(conll2003):
    assert conlleval_lines(entities(*read_tags([conll2003]), "conlleval")) == script(conll2003.read_text())


def test_the_script_prints_the_same_of_anything(tmp_path):
    for seed in range(40):
        rng = random.Random(seed)
        prefixes = rng.choice(["BIO", "BIOES", "BIOE[]", "BIOE[].SU"])
        types = rng.choice([["A"], ["A", "B"], ["A", "B-C", "é", "0", ""]])
        tags = ["O", *(p + hyphen for p in prefixes for hyphen in ("", *(f"-{kind}" for kind in types)))]
        lines = []
        for _ in range(200):
            gold = rng.choice(tags)
            lines.append(f"w {gold} {gold if rng.random() < 0.7 else rng.choice(tags)}")
            lines += rng.choice([[], [], [], [], [""], ["-X- O O"], [" ", ""]])
        path = tmp_path / "tagged"
        path.write_text("\n".join([*lines, "", ""]))
        for options, settings_ in (
            ((), {}),
            (("-r",), {"raw": True}),
            (("-r", "-o", "B-A"), {"raw": True, "outside": "B-A"}),
        ):
            ours = conlleval_lines(entities(*read_tags([path]), "conlleval", **settings_))
            assert ours == script(path.read_text(), *options)
