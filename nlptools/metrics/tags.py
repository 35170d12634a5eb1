"""Gold and predicted tags of sentences, from files in CoNLL columns (`formats.conll`) or from lists, and their accuracy.

Departure from conlleval: columns are separated by any number of spaces and tabs (conlleval: one space, or the -d option).
Shapes: N sentences, T tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nlptools.configs.evaluate import Evaluate
from nlptools.configs.metrics import MetricRequest
from nlptools.errors import DataError, UsageError, display, visible
from nlptools.files import streams
from nlptools.formats.token_lines import BOUNDARY, DOCSTART, sentences
from nlptools.messages import counted
from nlptools.metrics.classification import confusion, label_set
from nlptools.metrics.metric import Evaluation, Ints, MetricData, Sums, ratio
from nlptools.metrics.ngrams import END, Ids

CHUNK = 64  # sentences encoded at once: few enough for the cache
_STOP = object()  # follows each sentence: no tag is equal to it


@dataclass(frozen=True)
class Tags:
    """The tags of N sentences as ids.

    Attributes:
        codes: the id of the tag of each token, with `END` after each sentence: (T + N,), int32.
        names: tag by id; the first belongs to `END` and is no tag.
        lengths: tokens of each sentence: (N,).
        path: the file of the tags, if any.
        lines: the line of the first token of each sentence: (N,).
        words: a hash of the words (the first column) of each sentence, stable only within one process: (N,); None if
            there are none, or if the file holds both gold and predicted tags.
    """

    codes: NDArray[np.int32]
    names: tuple[str, ...]
    lengths: Ints
    path: str | None = None
    lines: Ints | None = None
    words: Ints | None = None

    def place(self, position: int) -> tuple[int, int]:
        """Sentence and token, both from 0, of a position in `codes`."""
        ends = np.cumsum(self.lengths + 1)
        sentence = int(np.searchsorted(ends, position, side="right"))
        return sentence, position - int(ends[sentence] - self.lengths[sentence] - 1)

    def line(self, sentence: int, token: int = 0) -> int | None:
        """The line of a token, if the tags come from a file."""
        return None if self.lines is None else int(self.lines[sentence]) + token

    def error(self, number: int, before: str, after: str) -> DataError:
        """The error for the first occurrence of a tag, by its id: its name between the words `before` and `after`."""
        sentence, token = self.place(int(np.flatnonzero(self.codes == number)[0]))
        where = "" if self.path is not None else f" of token {token + 1} in sentence {sentence + 1}"
        message = f"{before} {visible(self.names[number])!r}{where}{after}"
        return DataError(message, path=self.path, line=self.line(sentence, token))


def read_tags(paths: Sequence[str | Path], *, skip_docstart: bool = False, errors: str = "strict") -> tuple[Tags, Tags]:
    """The gold and the predicted tags of one file (its last two columns), or of two files (the last column of each).

    If both files have several columns, their first columns must hold the same words.

    Args:
        skip_docstart: `-DOCSTART-` lines end a sentence and are no tokens.

    Raises:
        DataError: a line has more or fewer columns than the first; there is only one column where two are needed; the
            files differ in their sentences or words.
        InputError, StreamError: see `streams.blocks`.
        UsageError: neither one path nor two.
    """
    if isinstance(paths, str) or len(paths) not in (1, 2):
        raise UsageError("expected one file with gold and predicted tags, or two files, gold tags first")
    paths = streams.check_inputs([str(path) for path in paths])
    if len(paths) == 1:
        gold, predicted = _read(paths[0], 2, skip_docstart, errors)
        return gold, predicted
    (gold,), (predicted,) = (_read(path, 1, skip_docstart, errors) for path in paths)
    check_aligned(gold, predicted)
    if gold.words is not None and predicted.words is not None:
        differ = np.flatnonzero(gold.words != predicted.words)
        if len(differ):
            where = int(differ[0])
            raise DataError(
                f"the words of sentence {where + 1} differ from {_of(gold, where, 'the gold tags')}",
                path=predicted.path,
                line=predicted.line(where),
            )
    return gold, predicted


def encode(tagged: Iterable[Sequence[str]]) -> Tags:
    """Encode the tags of sentences, each a sequence of strings.

    Raises:
        UsageError: a sentence is a string, or a tag is not a string.
    """
    encoder, source = _Encoder(), iter(tagged)
    while chunk := list(islice(source, CHUNK)):
        if any(isinstance(sentence, str) for sentence in chunk):
            raise UsageError("expected each sentence as a list of tags, found a string")
        encoder.add(chunk)
    return encoder.tags()


def check_aligned(gold: Tags, predicted: Tags) -> None:
    """Raises DataError unless both have the same numbers of sentences and of tokens in each sentence."""
    counts = len(gold.lengths), len(predicted.lengths)
    differ = np.flatnonzero(gold.lengths[: min(counts)] != predicted.lengths[: min(counts)])
    first = ""
    if len(differ):
        i = int(differ[0])
        first = (
            f"sentence {i + 1} has {gold.lengths[i]} tokens in {_of(gold, i, 'the gold tags')}"
            f" and {predicted.lengths[i]} in {_of(predicted, i, 'the predictions')}"
        )
    if counts[0] != counts[1]:
        message = f"unequal numbers of sentences: {counts[0]} of gold tags, {counts[1]} of predictions"
        raise DataError(message + (f"; {first}" if first else ""), path=predicted.path)
    if first:
        raise DataError(first)


def aligned(gold: Tags | Iterable[Sequence[str]], predicted: Tags | Iterable[Sequence[str]]) -> list[Tags]:
    """Both as `Tags`, with at least one sentence. Raises the errors of `encode` and `check_aligned`, and DataError."""
    tagged = [tags if isinstance(tags, Tags) else encode(tags) for tags in (gold, predicted)]
    check_aligned(*tagged)
    if not len(tagged[0].lengths):
        raise DataError("no sentences", path=tagged[0].path)
    return tagged


# -- accuracy ---------------------------------------------------------------------------------------------------------


def tagging_accuracy(
    gold: Tags | Iterable[Sequence[str]], predicted: Tags | Iterable[Sequence[str]], labels: Sequence[str] = ()
) -> Evaluation:
    """The share of tokens with the right tag; the unit is a sentence. The details hold the confusion matrix.

    Args:
        gold, predicted: as returned by `read_tags`, or one sequence of tags per sentence.
        labels: all tags that may occur, in order; if not given, those seen, sorted.

    Raises:
        DataError: no sentences or no tokens, unequal numbers of sentences or of tokens in one of them, a tag that is
            empty or not declared (names the place).
        UsageError: a label is declared twice.
    """
    tagged = aligned(gold, predicted)
    lengths = tagged[0].lengths
    if not lengths.any():
        raise DataError(f"no tokens: the {len(lengths)} sentences are empty", path=tagged[0].path)
    names = label_set(tagged[0].names, tagged[1].names, labels or None)
    places = {name: place for place, name in enumerate(names)}
    codes = []
    for tags in tagged:
        for number, name in enumerate(tags.names[1:], 1):
            if name not in places:
                after = f" is none of those declared: {', '.join(labels)}" if name else " is empty"
                raise tags.error(number, "label", after)
        codes.append(np.array([-1, *map(places.__getitem__, tags.names[1:])])[tags.codes])
    tokens = codes[0] >= 0
    hits = np.add.reduceat(tokens & (codes[0] == codes[1]), np.cumsum(lengths + 1) - lengths - 1, dtype=np.int64)
    return Evaluation(
        names=("accuracy",),
        rows=Sums(np.stack([hits, lengths], axis=1)),
        scores=lambda sums: ratio(sums[:, :1], sums[:, 1:]),
        unit="sentences",
        items=(("labels", str(len(names))),),
        details=confusion((codes[0] * len(names) + codes[1])[tokens], names),
    )


def requested(requests: Sequence[MetricRequest], data: MetricData, options: Evaluate) -> Evaluation:
    """The accuracy of tags that `nlptools evaluate` is asked for."""
    evaluation = tagging_accuracy(data.references, data.predictions, options.labels)
    return with_documents(replace(evaluation, names=(requests[0].metric,)), options)


def with_documents(evaluation: Evaluation, options: Evaluate) -> Evaluation:
    """`evaluation`; the signature records whether lines between documents are skipped."""
    items = (*evaluation.items, ("docstart", "skipped")) if options.skip_docstart else evaluation.items
    return replace(evaluation, items=items)


# -- inside -----------------------------------------------------------------------------------------------------------


class _Encoder:
    """Encodes sentences of tags, some at a time."""

    def __init__(self) -> None:
        self.numbers = Ids({_STOP: END})  # tag -> id
        self.codes: list[NDArray[np.int32]] = []
        self.lengths: list[Ints] = []

    def add(self, tagged: Sequence[Sequence[str]]) -> None:
        """Encode some more sentences."""
        flat: list[object] = []
        for sentence in tagged:
            flat.extend(sentence)
            flat.append(_STOP)
        self.codes.append(np.fromiter(map(self.numbers.__getitem__, flat), np.int32, len(flat)))
        self.lengths.append(np.fromiter(map(len, tagged), np.int64, len(tagged)))

    def tags(self, path: str | None = None, lines: Ints | None = None, words: Ints | None = None) -> Tags:
        """All that has been added."""
        tags = list(self.numbers)[1:]
        for tag in tags:
            if not isinstance(tag, str):
                raise UsageError(f"expected tags as strings, found {tag!r}")
        codes = np.concatenate([np.zeros(0, np.int32), *self.codes])
        lengths = np.concatenate([np.zeros(0, np.int64), *self.lengths])
        return Tags(codes, ("", *map(str, tags)), lengths, path, lines, words)


def _read(path: str, count: int, skip_docstart: bool, errors: str) -> list[Tags]:
    """The last `count` columns of a file, the leftmost first."""

    def check(number: int, fields: list[str], width: int) -> None:
        if width:
            raise DataError(f"{counted(len(fields), 'column')}, expected {width}", path=path, line=number)
        if len(fields) < count:
            message = f"{counted(len(fields), 'column')}, expected the gold and the predicted tag in the last two"
            raise DataError(message, path=path, line=number)

    encoders = [_Encoder() for _ in range(count)]
    lines: list[int] = []
    words: list[int] = []
    width = 0
    boundaries = {BOUNDARY, DOCSTART} if skip_docstart else {BOUNDARY}
    blocks = ((block.start, block.lines) for block in streams.blocks(path, errors))
    source = sentences(blocks, check, boundaries=boundaries)
    while chunk := list(islice(source, CHUNK)):
        width = len(chunk[0].tokens[0])
        for place, encoder in enumerate(encoders, -count):
            encoder.add([[fields[place] for fields in sentence.tokens] for sentence in chunk])
        lines += [sentence.line for sentence in chunk]
        if count == 1:  # to compare two files
            words += [hash(tuple([fields[0] for fields in sentence.tokens])) for sentence in chunk]
    hashes = np.array(words, np.int64) if count == 1 and width > 1 else None
    return [encoder.tags(path, np.array(lines, np.int64), hashes) for encoder in encoders]


def _of(tags: Tags, sentence: int, otherwise: str) -> str:
    """The place of a sentence, for a message."""
    if tags.path is None or tags.lines is None:
        return otherwise
    return f"{display(tags.path)} line {tags.lines[sentence]}"
