"""Metrics of CoNLL-U: a small file by hand, and random ones against counts that are made another way."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from nlptools.errors import DataError
from nlptools.formats.examples import UniversalSentence
from nlptools.metrics.universal import evaluate, read_pair, share
from tests.tasks import tiny_trees


def write(path: Path, rows: list[str]) -> str:
    """Words as `form upos feats head relation`."""
    lines = []
    for number, row in enumerate(rows, 1):
        form, upos, feats, head, relation = row.split(" ")
        lines.append("\t".join([str(number), form, "_", upos, "_", feats, head, relation, "_", "_"]))
    path.write_text("\n".join([*lines, "", ""]))
    return str(path)


GOLD = [
    "My PRON Poss=Yes|Number=Sing 2 nmod:poss",
    "dog NOUN Number=Sing 3 nsubj",
    "barks VERB _ 0 root",
    ". PUNCT _ 3 punct",
]


def test_by_hand(tmp_path: Path) -> None:
    found = [
        "My PRON Number=Sing|Poss=Yes 2 nmod",
        "dog NOUN Number=Plur|Own=X 3 obj",
        "barks X _ 0 root",
        ". PUNCT _ 2 punct",
    ]
    data = read_pair(write(tmp_path / "a", GOLD), write(tmp_path / "b", found), True)
    values = {
        name: evaluate(name, data.references, data.predictions).values()[name]
        for name in ("upos", "xpos", "feats", "ufeats", "alltags", "feats-f1", "uas", "las", "clas")
    }
    assert values == {
        "upos": 0.75,
        "xpos": 1.0,
        "feats": 0.75,  # in any order
        "ufeats": 0.75,
        "alltags": 0.5,
        "feats-f1": 2 * 2 / (3 + 4),
        "uas": 0.75,
        "las": 0.5,
        "clas": 2 / 3,  # without punctuation
    }
    strict = evaluate("las", data.references, data.predictions, subtypes=True)
    assert strict.values() == {"las": 0.25} and strict.signature().startswith("subtypes:counted|punctuation:counted|")
    details = evaluate("las", data.references, data.predictions).details["types"]
    assert details["nsubj"] == {"correct": 0, "predicted": 0, "gold": 1}
    assert details["punct"] == {"correct": 0, "predicted": 1, "gold": 1}


def damaged(sentence: UniversalSentence, rng: random.Random) -> UniversalSentence:
    fields = [list(row) for row in sentence.fields]
    for row in fields:
        if rng.random() < 0.3:
            row[6] = str(rng.randrange(len(fields) + 1))
        if rng.random() < 0.3:
            row[7] = rng.choice(["amod", "obj", "nsubj:pass", "root"])
    return replace(sentence, fields=tuple(map(tuple, fields)))


def test_random_trees(tmp_path: Path) -> None:
    rng = random.Random(0)
    path = str(tiny_trees.file(tmp_path / "a.conllu", 40, extras=True))
    gold = read_pair(path, path, True).references
    found = [damaged(sentence, rng) for sentence in gold]
    flat = [
        [[line.split("\t") for line in ("\t".join(row) for row in e.fields)] for e in side] for side in (gold, found)
    ]
    pairs = [(a, b) for ours, theirs in zip(*flat, strict=True) for a, b in zip(ours, theirs, strict=True)]
    heads = [a[6] == b[6] for a, b in pairs]
    labels = [a[7].split(":")[0] == b[7].split(":")[0] for a, b in pairs]
    both = sum(map(all, zip(heads, labels))) / len(pairs)
    assert evaluate("uas", gold, found).values()["uas"] == pytest.approx(sum(heads) / len(pairs), abs=1e-12)
    assert evaluate("las", gold, found).values()["las"] == share(gold, found, ("head", "deprel")) == pytest.approx(both)
    assert evaluate("las", gold, gold).values() == {"las": 1.0} and 0 < both < 1


def test_refuses_other_words(tmp_path: Path) -> None:
    gold = write(tmp_path / "a", GOLD)
    for rows, message in (
        ([*GOLD[:2], "bark VERB _ 0 root", GOLD[3]], "b:3: word 'bark', expected 'barks' as in .*a:3"),
        (GOLD[:3], "3 words in sentence 1, expected 4"),
    ):
        data = read_pair(gold, write(tmp_path / "b", rows), True)
        with pytest.raises(DataError, match=message):
            evaluate("uas", data.references, data.predictions)
    data = read_pair(gold, gold, True)
    with pytest.raises(DataError, match="2 sentences, expected 1"):
        evaluate("uas", data.references, [*data.predictions] * 2)
    (tmp_path / "c").write_text("")
    with pytest.raises(DataError, match="no words"):
        evaluate("uas", *[read_pair(str(tmp_path / "c"), str(tmp_path / "c"), True).references] * 2)
