"""Entity F1: entities worked out by hand for every scheme, the lines of conlleval, refusals."""

from __future__ import annotations

import random

import numpy as np
import pytest

from nlptools.errors import DataError, UsageError
from nlptools.formats.tag_rules import RULES
from nlptools.metrics import spans
from nlptools.metrics.spans import conlleval_lines, entities
from nlptools.metrics.tags import read_tags

STRICT = ("iob1", "iob2", "ioe1", "ioe2", "iobes", "bilou")


def counts(gold, predicted, scheme, **options):
    details = entities([gold.split()], [predicted.split()], scheme, **options).details
    return details["gold"], details["predicted"], details["correct"]


@pytest.mark.parametrize(
    ("scheme", "tags", "count"),
    [
        ("iob2", "B-A I-A O B-A B-A", 3),
        ("iob2", "I-A O", 0),  # nothing begins without B
        ("iob2", "B-A I-B", 1),  # A of one token
        ("iob1", "I-A I-A O I-B I-A", 3),
        ("iob1", "I-A B-A I-A", 2),
        ("iob1", "B-A O", 0),  # B only between two of a type
        ("ioe1", "I-A I-A O I-B", 2),
        ("ioe2", "I-A E-A E-B", 2),
        ("ioe2", "I-A O E-A", 1),  # the first never ends
        ("iobes", "S-A B-A I-A E-A S-B", 3),
        ("iobes", "B-A I-A O E-A", 0),
        ("iobes", "B-A E-B S-B", 1),
        ("bioes", "S-A B-A I-A E-A S-B", 3),
        ("bilou", "U-A B-A I-A L-A U-B", 3),
        ("bilou", "B-A U-B L-A", 1),
        ("lenient", "I-A I-A O I-B I-A", 3),
        ("lenient", "S-A S-A B-A E-A I-A", 4),
        ("conlleval", "I-A I-A O I-B I-A", 3),
        ("conlleval", "S-A S-A B-A", 1),  # S is unknown, and only another type begins a phrase after it
        ("conlleval", "B-A E-A B-A", 1),  # E before B of one type is not a border
        ("conlleval", "B-A E-A E-A I-A", 3),
        ("conlleval", "[-A [-A ]-A", 3),
    ],
)
def test_number_of_entities(scheme, tags, count):
    assert counts(tags, tags, scheme)[0] == count
    assert counts(tags, "O " * len(tags.split()), scheme) == (count, 0, 0)


def test_an_entity_is_right_when_both_ends_and_the_type_are():
    gold = "B-A I-A O B-B O B-C I-C"
    assert counts(gold, gold, "iob2") == (3, 3, 3)
    assert counts(gold, "B-A O O B-B O O B-C", "iob2") == (3, 3, 1)  # ends too early, right, begins too late
    assert counts(gold, "B-B I-B O B-B O B-C I-B", "iob2") == (3, 3, 1)  # wrong type, right, cut by a foreign I
    assert counts(gold, "B-B I-B O B-B O B-C I-B", "conlleval") == (3, 4, 1)  # there the foreign I begins one


def test_no_entity_crosses_a_sentence():
    tags = [["I-A"], ["I-A", "I-A"], [], ["I-A"]]
    for scheme in ("iob1", "ioe1", "lenient", "conlleval"):
        assert entities(tags, tags, scheme).details["gold"] == 3


def test_scores_and_averages_by_hand():
    gold = [["B-A", "B-A", "B-A", "B-B", "O"]]
    predicted = [["B-A", "B-A", "O", "B-C", "B-B"]]
    measures = entities(gold, predicted, "iob2", averages=("micro", "macro", "weighted"), by_type=True)
    values = measures.values()
    assert tuple(values) == measures.names
    assert values["precision"] == values["recall"] == values["f1"] == 0.5
    # A: 2 of 2 found, 2 of 3 recalled; B: one found in the wrong place; C: found, not there
    assert (values["precision:A"], values["recall:A"], values["f1:A"]) == (1, 2 / 3, 0.8)
    assert (values["f1:B"], values["f1:C"], values["precision:C"], values["recall:C"]) == (0, 0, 0, 0)
    assert values["macro_f1"] == pytest.approx(0.8 / 3)
    assert values["macro_recall"] == pytest.approx(2 / 9)
    assert values["weighted_f1"] == pytest.approx(0.8 * 3 / 4)
    assert values["weighted_precision"] == 0.75
    assert values["accuracy"] == 0.4
    assert measures.details["types"]["A"] == {
        "gold": 3, "predicted": 2, "correct": 2, "precision": 1.0, "recall": 2 / 3, "f1": 0.8
    }  # fmt: skip
    assert measures.signature().startswith("metric:entities|scheme:iob2|unit:sentences|version:nlptools-")


def test_nothing_to_divide_by_is_0():
    measures = entities([["O", "O"], []], [["O", "O"], []], "iob2", averages=spans.AVERAGES, by_type=True)
    assert set(measures.values().values()) == {0.0, 1.0}
    assert measures.values()["accuracy"] == 1.0
    assert entities([[]], [[]], "iob2").values()["accuracy"] == 0.0


@pytest.mark.parametrize("scheme", spans.SCHEMES)
def test_weights_are_copies(scheme):
    rng = random.Random(1)
    tags = ["O", *(f"{prefix}-{kind}" for prefix in RULES[scheme].prefixes.strip("O?") for kind in "AB")]
    gold = [rng.choices(tags, k=rng.randrange(7)) for _ in range(40)]
    predicted = [[tag if rng.random() < 0.7 else rng.choice(tags) for tag in sentence] for sentence in gold]
    times = [rng.randrange(3) for _ in gold]
    options = {"averages": spans.AVERAGES, "by_type": True}
    weighted = entities(gold, predicted, scheme, **options)
    copies = [[s for s, n in zip(side, times) for _ in range(n)] for side in (gold, predicted)]
    expected = entities(*copies, scheme, **options).values()
    got = dict(zip(weighted.names, weighted.compute(np.array([times]))[0]))
    assert {name: got[name] for name in expected} == pytest.approx(expected)
    assert weighted.count == 40
    assert len(weighted.intervals(50)) == len(weighted.names)


# -- conlleval --------------------------------------------------------------------------------------------------------


def test_lines_by_hand():
    gold = [["B-NP", "I-NP", "B-VP", "O", "B-NP"]]
    predicted = [["B-NP", "I-NP", "B-NP", "O", "B-NP"]]
    assert conlleval_lines(entities(gold, predicted, "conlleval")) == [
        "processed 5 tokens with 3 phrases; found: 3 phrases; correct: 2.",
        "accuracy:  80.00%; precision:  66.67%; recall:  66.67%; FB1:  66.67",
        "               NP: precision:  66.67%; recall: 100.00%; FB1:  80.00  3",
        "               VP: precision:   0.00%; recall:   0.00%; FB1:   0.00  0",
    ]


def test_lines_without_tokens():
    assert conlleval_lines(entities([[]], [[]], "conlleval")) == [
        "processed 0 tokens with 0 phrases; found: 0 phrases; correct: 0."
    ]


def test_lines_pad_by_bytes_and_repeat_the_empty_type():
    measures = entities([["B", "B-é"]], [["B", "B-é"]], "conlleval")
    first, second, third = conlleval_lines(measures)[2:]
    assert first == second == "                 : precision: 100.00%; recall: 100.00%; FB1: 100.00  1"
    assert third.startswith(" " * 15 + "é: ")


def test_raw_tags_are_entities_of_one_token():
    options = {"raw": True, "outside": "N"}
    assert counts("A A N O B-x", "A B N O B-x", "conlleval", **options) == (3, 3, 2)
    assert counts("A A O", "A B O", "conlleval", raw=True) == (2, 2, 1)
    assert counts("A A O", "A B O", "conlleval") == (0, 0, 0)  # else they are prefixes without a type
    with pytest.raises(UsageError, match="conlleval"):
        entities([["A"]], [["A"]], "iob2", raw=True)


def test_hyphens_in_types_and_the_type_0():
    assert counts("B-A-B I-A-B B-A", "B-A-B I-A-B B-A", "conlleval") == (2, 2, 2)
    types = entities([["B-0", "B-A-B"]], [["B-0", "O"]], "conlleval").details["types"]
    assert list(types) == ["", "A-B"]


def test_a_phrase_that_both_begin_and_end_is_right_although_one_begins_again():
    # [ always begins a phrase; in the predictions the first phrase goes on, and both end at the O
    assert counts("I-A [-A O", "I-A I-A O", "conlleval") == (2, 1, 1)
    assert counts("I-A [-A O", "I-A [-A O", "conlleval") == (2, 2, 1)


# -- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", [*STRICT, "lenient"])
@pytest.mark.parametrize("tag", ["", "PER", "X-PER", "BPER", "O-PER", "B-", "b-PER", "O-", "-PER", "?-PER", "*-PER"])
def test_malformed_tags(scheme, tag):
    with pytest.raises(DataError, match=r"malformed tag .* of token 2 in sentence 2, expected O, "):
        entities([["O"], ["O", "O"]], [["O"], ["O", tag]], scheme)


def test_a_prefix_of_another_scheme():
    with pytest.raises(DataError, match=r"'E-A'.*B-TYPE, I-TYPE \(iob2\)"):
        entities([["E-A"]], [["O"]], "iob2")


def test_unequal_numbers():
    with pytest.raises(DataError, match="unequal numbers of sentences: 2 of gold tags, 1 of predictions"):
        entities([["O"], ["O"]], [["O"]], "iob2")
    with pytest.raises(DataError, match="sentence 2 has 1 tokens in the gold tags and 2 in the predictions"):
        entities([["O"], ["O"]], [["O"], ["O", "O"]], "iob2")
    with pytest.raises(DataError, match="no sentences"):
        entities([], [], "iob2")


def test_wrong_usage():
    with pytest.raises(UsageError, match="no such scheme: 'bio'"):
        entities([["O"]], [["O"]], "bio")
    for averages in ((), ("samples",)):
        with pytest.raises(UsageError, match="averages"):
            entities([["O"]], [["O"]], "iob2", averages=averages)
    with pytest.raises(UsageError, match="list of tags"):
        entities(["O O"], ["O O"], "iob2")
    with pytest.raises(UsageError, match="as strings, found 3"):
        entities([[3]], [[3]], "iob2")
    with pytest.raises(UsageError, match="as strings, found None"):
        entities([["O", None]], [["O", None]], "iob2")


def test_malformed_tags_of_a_file_name_the_line(tmp_path):
    path = tmp_path / "tags"
    path.write_text("a O O\n\n\nb O O\nc O Q-A\n")
    with pytest.raises(DataError, match=r"tags:5: malformed tag 'Q-A', expected"):
        entities(*read_tags([path]), "iob2")


def test_lenient_reads_bilou_as_bioes():
    generator = random.Random(3)
    tags = ["O", *(f"{prefix}-{kind}" for prefix in "BILU" for kind in "XY")]
    gold, predicted = ([generator.choices(tags, k=30) for _ in range(50)] for _ in range(2))
    predicted = [[*one[:20], *other[20:]] for one, other in zip(gold, predicted)]
    renamed = [
        [[tag.replace("L-", "E-").replace("U-", "S-") for tag in row] for row in rows] for rows in (gold, predicted)
    ]
    found = entities(gold, predicted, scheme="lenient", by_type=True).values()
    assert found == entities(*renamed, scheme="lenient", by_type=True).values()
    assert 0 < found["f1"] < 1
    whole = [["B-X", "I-X", "L-X", "U-Y", "O"]]
    assert entities(whole, whole, scheme="lenient").details["gold"] == 2
