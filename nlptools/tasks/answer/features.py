"""Features of the task `answer`: questions and contexts as rows of tokens, and the places of the answers in them.

`[CLS] question [SEP] context [SEP]`, or for a GPT `<eos> question <eos> context <eos>`; a context that is longer than a
row becomes overlapping rows (Devlin et al. 2019, arXiv:1810.04805). `piece_offsets` maps pieces to characters, and an
answer is `context[a:b]`: text is never rebuilt from pieces.
One token stands for no answer: the [CLS], or in a causal model, where tokens see only what is before them, the mark at the
end.
Departures from BERT's script: windows as in `strided_windows`; a row is trained on the shortest run of pieces that covers
the answer, also where the answer begins inside a piece. Such answers, which cannot be predicted exactly, are counted, and so
are those that are longer than a row.
Yes and no (Natural Questions, Kwiatkowski et al. 2019, Q19-1026): a class of the whole row besides the span, as in Alberti
et al. 2019 (arXiv:1901.08634). If the span that supports a yes or no is known, rows without it are of the class SPAN.
Shapes: N questions, R rows, P pieces of all different contexts, T tokens of a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nlptools.batches import strided_windows
from nlptools.batches.encoder_rows import EncoderRows, EncoderSegment, bounds_of, encode_once, join
from nlptools.batches.features import Encoding, with_types
from nlptools.batches.piece_offsets import covered, touched
from nlptools.batches.windows import NO_TARGET
from nlptools.errors import UsageError
from nlptools.formats.examples import Question

SPAN, YES, NO = 0, 1, 2  # classes of a row: neither, yes, no


@dataclass(frozen=True)
class AnswerFeatures:
    """The rows of N questions. Places are token positions in a row, from 0.

    The tokens of row r from `begin[r]` to `begin[r] + length[r]` are the pieces of its context from `first[r]` on.
    """

    rows: EncoderRows
    null: np.ndarray  # (R,) int64, the place of the token that stands for no answer
    contexts: tuple[str, ...]  # of the questions: (N,)
    question: np.ndarray  # (R,) int64, the number of the question of each row; ascending
    begin: np.ndarray  # (R,) int64, the place of the first piece of the context
    length: np.ndarray  # (R,) int64, pieces of the context in the row
    owned_begin: np.ndarray  # (R,) int64, the row is responsible for answers that begin at this place
    owned_end: np.ndarray  # (R,) int64, up to this one, exclusive
    first: np.ndarray  # (R,) int64, number of its first piece, among the P of all contexts
    starts: np.ndarray  # (P,) int32, first character of each piece
    ends: np.ndarray  # (P,) int32, one past its last character
    cut_questions: int  # questions that lost tokens

    def characters(self, row: int, start: int, end: int) -> tuple[int, int]:
        """The character span (a, b) that the tokens from place `start` to place `end`, inclusive, cover."""
        first = int(self.first[row] - self.begin[row])
        context = self.contexts[self.question[row]]
        a, b = int(self.starts[first + start]), int(self.ends[first + end])
        b = max(a, b)
        while b > a and context[b - 1].isspace():  # pieces of some tokenizers include the space before them
            b -= 1
        while a < b and context[a].isspace():
            a += 1
        return a, b


@dataclass(frozen=True)
class AnswerTargets:
    """Targets of R rows; `AnswerFeatures.null` where there is no answer, or the row does not contain all of it."""

    start: np.ndarray  # (R,) int64, the place of the first token of the answer
    end: np.ndarray  # (R,) int64, the last one
    yes_no: np.ndarray  # (R,) int64: SPAN, YES, NO; NO_TARGET where the file has no such field
    inexact: int  # answers with pieces that do not cover exactly their characters
    outside: int  # answers that no row contains whole


def answer_features(
    questions: Sequence[Question], encoding: Encoding, *, max_question: int = 64, step: int = 128
) -> AnswerFeatures:
    """Rows of questions, at least one per question; the rows of a question follow one another.

    Args:
        max_question: maximum pieces of a question; the rest of it is cut off.
        step: pieces of the context from one row to the next.

    Raises:
        UsageError: the sizes leave no room for the context.
    """
    marks, tokenizer, max_length = encoding.marks.with_end, encoding.tokenizer, encoding.max_length
    if max_length < max_question + 4 or max_question < 1 or step < 1:
        raise UsageError(
            f"rows of {max_length} tokens with {max_question} for the question, {step} apart: "
            "expected room for four more, and steps of at least 1"
        )
    asked, which = encode_once(tokenizer, [question.question for question in questions], encoding.threads)
    sizes = np.minimum(asked.lengths, max_question)[which]
    contexts = tuple(question.context for question in questions)
    pieces, context = encode_once(tokenizer, contexts, encoding.threads)
    starts, ends = covered(tokenizer, list(dict.fromkeys(contexts)), pieces.bounds)

    units = pieces.lengths[context]
    room = max_length - marks.count(2) - sizes
    windows = strided_windows.cut(
        np.ones(int(units.sum()), np.int64), bounds_of(units), room, np.minimum(step, room), empty=True
    )
    of_row = windows.text
    first = pieces.bounds[context[of_row]] + windows.first
    length = windows.end - windows.first
    segments = [
        EncoderSegment(asked.ids, asked.bounds[which[of_row]], sizes[of_row]),
        EncoderSegment(pieces.ids, first, length, 1),
    ]
    rows, (_, begin) = join(marks, segments)
    return AnswerFeatures(
        with_types(rows, encoding.types),
        begin + length if marks.causal else np.zeros_like(begin),
        contexts,
        of_row,
        begin,
        length,
        begin + windows.owned_first - windows.first,
        begin + windows.owned_end - windows.first,
        first,
        starts,
        ends,
        int((asked.lengths[which] > max_question).sum()),
    )


def answer_targets(features: AnswerFeatures, questions: Sequence[Question]) -> AnswerTargets:
    """The places of the first answer of each of the N questions in the rows `features` of them."""
    begins = bounds_of(np.bincount(features.question, minlength=len(questions)))
    start, end = features.null.copy(), features.null.copy()
    yes_no = np.full(len(features.rows), NO_TARGET, np.int64)
    classes = {"yes": YES, "no": NO, "none": SPAN}
    inexact = outside = 0
    for number, question in enumerate(questions):
        rows = slice(int(begins[number]), int(begins[number + 1]))
        answer = question.answers[0] if question.answers and question.impossible is not True else None
        span = None
        if answer is not None:
            begin, stop = int(features.first[rows][0]), int(features.first[rows][-1] + features.length[rows][-1])
            here = features.starts[begin:stop], features.ends[begin:stop]
            span = touched(*here, answer.start, answer.start + len(answer.text))
            inexact += span is None
        if question.yes_no is not None:
            yes_no[rows] = classes[question.yes_no]
        if answer is None or span is None:
            continue
        first, last = (begin + piece - features.first[rows] for piece in span)
        inside = (first >= 0) & (last < features.length[rows])
        start[rows] = np.where(inside, features.begin[rows] + first, features.null[rows])
        end[rows] = np.where(inside, features.begin[rows] + last, features.null[rows])
        if question.yes_no is not None:
            yes_no[rows] = np.where(inside, classes[question.yes_no], SPAN)
        if not inside.any():
            outside += 1
            continue
        row = rows.start + int(inside.argmax())
        a, b = features.characters(row, int(start[row]), int(end[row]))
        inexact += (a, b) != _trimmed(question.context, answer.start, answer.start + len(answer.text))
    return AnswerTargets(start, end, yes_no, inexact, outside)


def _trimmed(text: str, a: int, b: int) -> tuple[int, int]:
    """The span without whitespace at its ends."""
    inner = text[a:b]
    return a + len(inner) - len(inner.lstrip()), a + len(inner.rstrip())
