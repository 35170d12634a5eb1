"""Sentences of words as rows: by hand, no word lost, and the files of the shared tasks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nlptools.batches.encoder_rows import Marks, encode_once, marks_of, padded
from nlptools.batches.windows import NO_TARGET
from nlptools.errors import BundleError, UsageError
from nlptools.formats.conll import read_columns
from nlptools.formats.reading_options import Options
from nlptools.formats.roles import read_roles
from nlptools.tasks.tag.features import number_labels, word_features
from nlptools.text.tokenizer import load
from tests.real_data import published
from tests.tasks.span_tokenizers import CLS, PAD, SEP, UNK, encoding, letters, minilm, shown

LETTERS = letters()


def tokens(features, row):
    batch = features.rows.batch(np.array([row]), PAD)
    return " ".join(shown(LETTERS, batch.ids[0]))


def test_by_hand():
    features = word_features([["ab", "c"], [], ["\x01", "d"]], encoding(LETTERS, 8))
    assert tokens(features, 0) == "[CLS] a ##b c [SEP]"
    assert tokens(features, 1) == "[CLS] [UNK] d [SEP]"
    assert features.sentences.tolist() == [0, 2, 2, 4]
    assert features.words.tolist() == [0, 2, 4]
    assert features.speaker.tolist() == [1, 3, 1, 2]
    assert features.cut_words == 0
    batch = features.rows.batch(np.array([1, 0]), PAD)
    assert batch.ids.shape == (2, 5)
    assert batch.mask.sum(axis=1).tolist() == [4, 5]
    assert batch.ids[0, 4:].tolist() == [PAD]
    assert not batch.types.any()


def test_labels_by_hand():
    features = word_features([["ab", "c"], ["def"]], encoding(LETTERS, 8))
    labels = number_labels([["X", "O"], ["Y"]], ["O", "X", "Y"])
    at = features.piece_labels(labels)
    assert padded(at, features.rows.bounds, np.array([0, 1]), NO_TARGET).tolist() == [
        [-1, 1, -1, 0, -1],
        [-1, 2, -1, -1, -1],
    ]
    assert number_labels([["Z"]], ["O"]).tolist() == [NO_TARGET]


def test_a_long_sentence_and_a_long_word():
    # Four pieces a row. `abcdefg` keeps its first four.
    features = word_features([["ab", "cd", "ef"], ["abcdefg", "h"]], encoding(LETTERS, 6))
    assert [tokens(features, row) for row in range(len(features.rows))] == [
        "[CLS] a ##b c ##d [SEP]",
        "[CLS] c ##d e ##f [SEP]",
        "[CLS] a ##b ##c ##d [SEP]",
        "[CLS] h [SEP]",
    ]
    assert features.words.tolist() == [0, 2, 3, 4, 5]
    assert features.speaker.tolist() == [1, 3, 3, 1, 1]
    assert features.cut_words == 1
    begins, ends = features.edges(np.arange(4))
    assert begins.tolist() == [True, False, True, False]
    assert ends.tolist() == [False, True, False, True]


def test_predicates_by_hand():
    features = word_features([["he", "ran", "ran"]], encoding(LETTERS, 16), predicates=[2])
    batch = features.rows.batch(np.array([0]), PAD)
    assert " ".join(shown(LETTERS, batch.ids[0])) == "[CLS] h ##e r ##a ##n r ##a ##n [SEP] r ##a ##n [SEP]"
    assert batch.types.tolist() == [[0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1]]
    # Five pieces of the sentence in a row: the predicate stands in the last row only, and behind all of them.
    features = word_features([["ab", "cd", "e", "f"]], encoding(LETTERS, 9), predicates=[3])
    assert [tokens(features, row) for row in range(len(features.rows))] == [
        "[CLS] a ##b c ##d e [SEP] f [SEP]",
        "[CLS] c ##d e f [SEP] f [SEP]",
    ]
    batch = features.rows.batch(np.array([0, 1]), PAD)
    assert batch.types.tolist() == [[0] * 7 + [1, 1], [0, 0, 0, 0, 1, 0, 1, 1, 0]]


def test_what_is_refused(tmp_path):
    with pytest.raises(UsageError, match="rows of 2 tokens"):
        word_features([["a"]], encoding(LETTERS, 2))
    with pytest.raises(BundleError, match=r"no \[CLS\], \[SEP\], \[PAD\], \[UNK\]"):
        marks_of(load("whitespace"))


def test_nothing_at_all():
    features = word_features([], encoding(LETTERS, 8))
    assert len(features.rows) == 0
    assert features.tokens.size == 0


WORDS = st.text("abcdefg\x01☃", min_size=1, max_size=9)


@settings(deadline=None)
@given(
    st.lists(st.lists(WORDS, max_size=30), max_size=4),
    st.integers(3, 20),
    st.randoms(),
    st.booleans(),
)
def test_no_word_is_lost(sentences, max_length, random, roles):
    predicates = None
    if roles:
        sentences = [sentence for sentence in sentences if sentence]
        predicates = [random.randrange(len(sentence)) for sentence in sentences]
        max_length += 2
    features = word_features(sentences, encoding(LETTERS, max_length), predicates=predicates)
    words = [word for sentence in sentences for word in sentence]
    assert features.rows.lengths.max(initial=0) <= max_length
    alone = [LETTERS.encode(word) or [UNK] for word in words]
    assert features.rows.ids[features.tokens].tolist() == [pieces[0] for pieces in alone]
    cut = 0
    for number, sentence in enumerate(sentences):
        sizes = [len(LETTERS.encode(word) or [UNK]) for word in sentence]
        room = max_length - 2
        if predicates is not None:
            room = max_length - 3 - min(sizes[predicates[number]], (max_length - 3) // 2)
        cut += sum(size > room for size in sizes)
    assert features.cut_words == cut
    labels = np.arange(len(words))
    at = features.piece_labels(labels)
    assert at[at != NO_TARGET].tolist() == labels.tolist()  # each label once, in order
    assert not np.isin(features.rows.ids[at != NO_TARGET], [CLS, SEP]).any()


@settings(deadline=None)
@given(st.lists(st.lists(WORDS, min_size=1, max_size=12), min_size=1, max_size=4))
def test_a_row_that_fits_is_the_sentence(sentences):
    features = word_features(sentences, encoding(LETTERS, 200))
    assert len(features.rows) == len(sentences)
    for number, sentence in enumerate(sentences):
        whole = [id for word in sentence for id in LETTERS.encode(word) or [UNK]]
        assert features.rows.batch(np.array([number]), PAD).ids.tolist() == [[CLS, *whole, SEP]]


def test_the_real_encoder_and_a_file():
    tokenizer = minilm()
    sentences, tags = [], []
    for sentence in read_columns(str(published("conll2003", "eng.testa")), Options()):
        sentences.append(list(sentence.words))
        tags.append(list(sentence.tags))
    names = sorted({tag for row in tags for tag in row})
    labels = number_labels(tags, names)
    assert len(labels) == 51362
    for max_length in (16, 128):
        features = word_features(sentences, encoding(tokenizer, max_length))
        found, which = encode_once(tokenizer, [word for sentence in sentences for word in sentence])
        assert features.cut_words == (found.lengths[which] > max_length - 2).sum()
        assert features.rows.lengths.max() <= max_length
        assert features.rows.ids[features.tokens].tolist() == found.ids[found.bounds[which]].tolist()
        at = features.piece_labels(labels)
        assert at[at != NO_TARGET].tolist() == labels.tolist()


def test_the_predicates_of_a_file():
    tokenizer = minilm()
    found = list(read_roles(str(published("up_ewt_srl", "en_ewt-up-dev.conllu")), Options()))
    found = [example for example in found if example.predicate >= 0]
    sentences, chosen = [example.words for example in found], [example.predicate for example in found]
    roles = [example.roles or () for example in found]
    names = sorted({role for row in roles for role in row})
    labels = number_labels(roles, names)
    for max_length in (24, 512):
        features = word_features(sentences, encoding(tokenizer, max_length), predicates=chosen)
        assert features.rows.lengths.max() <= max_length
        at = features.piece_labels(labels)
        assert at[at != NO_TARGET].tolist() == labels.tolist()
        # What is of type 1 between [CLS] and [SEP] is the predicate, and so is what stands behind.
        row_sentence = np.searchsorted(features.sentences, features.words[:-1], side="right") - 1
        held = 0
        for row, sentence in enumerate(row_sentence.tolist()):
            batch = features.rows.batch(np.array([row]), 0)
            ids, types = batch.ids[0], batch.types[0]
            middle = int((ids == 102).argmax())
            predicate = tokenizer.encode(sentences[sentence][chosen[sentence]])
            assert ids[middle + 1 : -1].tolist() == predicate
            marked = ids[:middle][types[:middle] == 1].tolist()
            assert marked in ([], predicate)
            held += bool(marked)
        assert held >= len(found)


GPT = Marks(cls=SEP, sep=SEP, pad=PAD, unk=UNK, closes=False, causal=True, before_word=" ")


def test_where_tokens_see_only_what_is_before_them():
    features = word_features([["ab", "c"], ["\x01", "d"]], encoding(LETTERS, 8, marks=GPT))
    assert [tokens(features, row) for row in (0, 1)] == ["[SEP] a ##b c", "[SEP] [UNK] d"]
    assert features.speaker.tolist() == [2, 3, 1, 2]
    assert features.piece_labels(np.arange(4)).tolist() == [-1, -1, 0, 1, -1, 2, 3]
    assert features.tokens.tolist() == [2, 3, 5, 6]
    # the predicate comes before the sentence, whose words could not know it otherwise
    features = word_features([["he", "ran"], ["ab", "cd", "e"]], encoding(LETTERS, 8, marks=GPT), predicates=[1, 2])
    assert [tokens(features, row) for row in range(len(features.rows))] == [
        "[SEP] r ##a ##n [SEP] h ##e",
        "[SEP] r ##a ##n [SEP] r ##a ##n",
        "[SEP] e [SEP] a ##b c ##d e",
    ]
    assert features.speaker.tolist() == [6, 7, 4, 6, 7]
