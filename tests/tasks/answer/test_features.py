"""Questions as rows and answers as places in them: by hand, offsets for any text, and the questions of QAMR."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nlptools.batches.encoder_rows import Marks
from nlptools.batches.windows import NO_TARGET
from nlptools.errors import UsageError
from nlptools.formats.examples import AnswerSpan, Place, Question
from nlptools.formats.lines import InputLines
from nlptools.tasks.answer.decoding import best_spans
from nlptools.tasks.answer.features import NO, SPAN, YES, answer_features, answer_targets
from tests.real_data import published
from tests.tasks.span_tokenizers import PAD, SEP, UNK, encoding, letters, minilm, shown

LETTERS = letters()
HERE = Place("-", 1)


def ask(context, answer=None, question="q", id="1", yes_no=None):
    answers = () if answer is None else (AnswerSpan(answer, context.index(answer)),)
    return Question(id, question, context, answers, answer is None, HERE, yes_no)


def test_by_hand():
    questions = [ask("ab c, d", "c", "who is")]
    features = answer_features(questions, encoding(LETTERS, 20), max_question=4)
    batch = features.rows.batch(np.array([0]), PAD)
    assert " ".join(shown(LETTERS, batch.ids[0])) == "[CLS] w ##h ##o i [SEP] a ##b c [UNK] d [SEP]"
    assert features.cut_questions == 1
    assert batch.types.tolist() == [[0] * 6 + [1] * 6]
    assert (features.begin.tolist(), features.length.tolist()) == ([6], [5])
    assert list(zip(features.starts.tolist(), features.ends.tolist())) == [(0, 1), (1, 2), (3, 4), (4, 5), (6, 7)]
    assert features.characters(0, 6, 8) == (0, 4)
    targets = answer_targets(features, questions)
    assert (targets.start.tolist(), targets.end.tolist()) == ([8], [8])
    assert targets.yes_no.tolist() == [NO_TARGET]


def test_rows_of_a_long_context():
    # Four pieces of context in a row; the answer `e f` is whole in the last row only, `g` in none of another context.
    questions = [ask("a b c d e f", "e f", id="1"), ask("a b c d e f", id="2"), ask("abcdef", "abcdef", id="3")]
    features = answer_features(questions, encoding(LETTERS, 8), max_question=1, step=2)
    assert features.question.tolist() == [0, 0, 1, 1, 2, 2]
    targets = answer_targets(features, questions)
    assert targets.start.tolist() == [0, 5, 0, 0, 0, 0]
    assert targets.end.tolist() == [0, 6, 0, 0, 0, 0]
    assert (targets.inexact, targets.outside) == (0, 1)
    assert features.owned_begin.tolist() == [3, 4, 3, 4, 3, 4]  # from piece 3 on the second row has as much around
    assert features.owned_end.tolist() == [6, 7, 6, 7, 6, 7]


def test_yes_and_no():
    questions = [
        ask("a b c d e f", "e", id="1", yes_no="yes"),
        ask("a b c d e f", id="2", yes_no="no"),
        ask("a b c d e f", "a", id="3", yes_no="none"),
        ask("a b c d e f", "a", id="4"),
    ]
    features = answer_features(questions, encoding(LETTERS, 8), max_question=1, step=2)
    found = answer_targets(features, questions).yes_no
    assert found.tolist() == [SPAN, YES, NO, NO, SPAN, SPAN, NO_TARGET, NO_TARGET]


def test_answers_that_pieces_cannot_tell():
    tokenizer = minilm()
    questions = [ask("The cats sleep", "cat"), ask("x \x01 y", "\x01"), ask("a  b", " b")]
    features = answer_features(questions, encoding(tokenizer))
    targets = answer_targets(features, questions)
    assert targets.inexact == 2  # ` b` comes back as `b`, which is no fault
    assert features.characters(0, int(targets.start[0]), int(targets.end[0])) == (4, 8)  # cats
    assert targets.start[1] == 0


def test_empty_texts():
    questions = [ask("", id="1"), ask("a", "a", question="", id="2"), ask(" \x01", id="3")]
    features = answer_features(questions, encoding(LETTERS, 8), max_question=2)
    assert features.rows.lengths.tolist() == [4, 4, 4]
    assert answer_targets(features, questions).start.tolist() == [0, 2, 0]


def test_what_is_refused():
    with pytest.raises(UsageError, match="room for four more"):
        answer_features([], encoding(LETTERS, 67))
    with pytest.raises(UsageError, match="steps of at least 1"):
        answer_features([], encoding(LETTERS), step=0)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("context", "answer"),
    [
        ("un cafe\u0301 noir", "cafe\u0301"),  # the accent is a character of its own, behind its letter
        ("un cafe\u0301\u0302 noir", "cafe\u0301\u0302"),
        ("un caf\u00e9 noir", "caf\u00e9"),
        ("vers \u0130stanbul!", "\u0130stanbul"),  # two characters when lower-cased
        ("\U0001f600 \U0001d4d0 beyond", "beyond"),  # two code units each
        ("so \U0001f469\u200d\U0001f680 it is", "\U0001f469\u200d\U0001f680"),
        ("sun \u2600\ufe0f here", "\u2600\ufe0f"),
        (
            "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e",
            "\u0928\u092e\u0938\u094d\u0924\u0947",
        ),
        ("\u6771\u4eac\u306f\u9996\u90fd", "\u4eac"),
        ("\uac01 \uac00", "\uac01"),
        ("the [SEP] mark", "[SEP]"),
        ("soft\u00adhyphen end", "soft\u00adhyphen"),
        ("a\u2028b", "b"),
    ],
)
def test_an_answer_is_what_stands_there(context, answer):
    questions = [ask(context, answer)]
    features = answer_features(questions, encoding(minilm()))
    targets = answer_targets(features, questions)
    a, b = features.characters(0, int(targets.start[0]), int(targets.end[0]))
    assert context[a:b] == answer
    assert (targets.inexact, targets.outside) == (0, 0)


TEXTS = st.text(
    st.sampled_from("ab \u00e9\u0301\u0130\U0001f600\u200d\ufe0f\u0928\u094d\u6771\uac01\x01\u00ad.,\u00bd"),
    max_size=25,
)


@settings(deadline=None)
@given(st.one_of(TEXTS, st.text(max_size=25)), st.data())
@example("cafe\u0301", None)
@example("\uac01a..a\uac01\uac01", None)
def test_pieces_cover_the_text(context, data):
    tokenizer = minilm()
    features = answer_features([ask(context)], encoding(tokenizer, 16), max_question=2, step=3)
    ids, starts, ends = tokenizer.encode(context), features.starts, features.ends
    assert len(ids) == len(starts)
    assert (starts <= ends).all()
    assert (np.diff(starts) >= 0).all()
    assert (np.diff(ends) >= 0).all()
    assert ends.max(initial=0) <= len(context)
    for row in range(len(features.rows)):
        begin, length = int(features.begin[row]), int(features.length[row])
        first = int(features.first[row])
        real = features.rows.batch(np.array([row]), PAD).ids[0]
        # a syllable of Hangul is several pieces: a row may begin within
        cut = first > 0 and starts[first] < ends[first - 1]
        assert real[begin : begin + length].tolist() == ids[first : first + length]
        for place in range(length):
            a, b = features.characters(row, begin, begin + place)
            # the text of the span gives just its pieces, unless it cuts a word in two
            inside = first + place + 1 < len(ids) and starts[first + place + 1] < ends[first + place]
            if not (cut or inside) and all(text.isspace() for text in (context[a - 1 : a], context[b : b + 1]) if text):
                assert tokenizer.encode(context[a:b]) == ids[first : first + place + 1]
    if data is not None and len(ids):
        i = data.draw(st.integers(0, len(ids) - 1))
        j = data.draw(st.integers(i, len(ids) - 1))
        answer = context[starts[i] : ends[j]]
        question = Question("1", "q", context, (AnswerSpan(answer, int(starts[i])),), False, HERE)
        targets = answer_targets(answer_features([question], encoding(tokenizer)), [question])
        assert targets.inexact == (not answer.strip())
        assert targets.outside == 0


def test_every_answer_of_qamr_comes_back():
    qamr = pytest.importorskip("nlptools.formats.qamr")
    options = pytest.importorskip("nlptools.formats.reading_options")
    questions = list(qamr.read_qamr(InputLines(str(published("qamr", "filtered.dev.tsv"))), options.Options()))
    for max_length, step in ((384, 128), (40, 8)):
        features = answer_features(questions, encoding(minilm(), max_length), max_question=24, step=step)
        targets = answer_targets(features, questions)
        assert features.rows.lengths.max() <= max_length
        assert targets.inexact == 0
        found = set()
        for row in np.flatnonzero(targets.start):
            number = int(features.question[row])
            answer = questions[number].answers[0]
            a, b = features.characters(int(row), int(targets.start[row]), int(targets.end[row]))
            assert questions[number].context[a:b] == answer.text
            assert a == answer.start
            found.add(number)
        assert len(found) == len(questions) - targets.outside
        assert max_length < 384 or targets.outside == 0


GPT = Marks(cls=SEP, sep=SEP, pad=PAD, unk=UNK, closes=False, causal=True, before_word=" ")


def test_where_tokens_see_only_what_is_before_them():
    questions = [ask("a b c d e f", "e f", id="1"), ask("a b", id="2", yes_no="no")]
    features = answer_features(questions, encoding(LETTERS, 8, marks=GPT), max_question=1, step=2)
    made = [shown(LETTERS, features.rows.batch(np.array([row]), PAD).ids[0]) for row in range(3)]
    assert [" ".join(row) for row in made] == [
        "[SEP] q [SEP] a b c d [SEP]",
        "[SEP] q [SEP] c d e f [SEP]",
        "[SEP] q [SEP] a b [SEP]",
    ]
    assert features.null.tolist() == [7, 7, 5]  # the mark at the end has seen all of the row
    targets = answer_targets(features, questions)
    assert (targets.start.tolist(), targets.end.tolist()) == ([7, 5, 5], [7, 6, 5])
    logits = np.zeros((3, 8, 2))
    logits[np.arange(3), features.null] = [[1, 2], [3, 4], [5, 6]]
    assert best_spans(features, np.arange(3), logits).null.tolist() == [[1, 2], [3, 4], [5, 6]]
