"""ROUGE: the overlap of a predicted summary with a reference, in n-grams and in common subsequences.

Lin 2004, "ROUGE: A Package for Automatic Evaluation of Summaries" (W04-1013). Values equal the package
rouge-score (google-research): precision, recall and F1 of ROUGE-N, of ROUGE-L over whole texts, and of ROUGE-Lsum
(ROUGE-L of section 3.2) over texts of one sentence per line, where no word of either text counts twice. Of several
references, the one with the best F1 counts, separately for each kind. Values lie between 0 and 1.
Departures: n-grams of a block of texts are counted at once; common subsequences are found by bits of long integers
(Hyyrö 2004, "Bit-parallel LCS-length computation revisited"), a row of the table at a time. ROUGE-Lsum depends on which
longest common subsequence of two sentences is taken: it is the one that rouge-score takes.
rouge-score's words are runs of a-z and 0-9: accented letters and other alphabets are dropped, with a warning. For other languages
there are "words", "whitespace", "char", "zh", "ja-mecab" and "ko-mecab"; their values can be compared only with each other.
Shapes: N examples, S examples of a block, R references, K kinds, M values.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from nlptools import messages
from nlptools.configs.evaluate import Evaluate
from nlptools.configs.metrics import MetricRequest
from nlptools.errors import DataError, UsageError
from nlptools.metrics.metric import Evaluation, Ints, MetricData, SavedRows, means
from nlptools.metrics.ngrams import END, Ids, matches
from nlptools.metrics.paired import check_references
from nlptools.text import mecab, mteval, stemming
from nlptools.text.east_asian import tokenizer_for
from nlptools.text.words import split_words

T = TypeVar("T")
Sentences = list[list[int]]  # of one text, as ids of words
References = Sequence[Sequence[str | None]]

KINDS = ("rouge1", "rouge2", "rougeL", "rougeLsum")
PARTS = ("precision", "recall", "f1")
_KIND = re.compile(r"rouge([1-9]|L|Lsum)(?::(precision|recall|f1))?")
BLOCK = 1024  # examples at a time
_LONGEST_UNSTEMMED = 3  # letters
# Pairs of words of two texts. No way is known to find common subsequences in much less time than their number (Abboud,
# Backurs and Vassilevska Williams 2015, arXiv:1501.07053); bits of integers take a minute for MOST_PAIRS.
_LONG, MOST_PAIRS = 1 << 26, 1 << 38
_MOST_ROW_BITS = 1 << 33  # of the rows that are kept to go back through
_KEPT_BITS = 1 << 33  # of the places of frequent words

_ENGLISH_WORD = re.compile(r"[a-z0-9]+")
TOKENIZERS: dict[str, Callable[[str], list[str]]] = {  # of text in lower case
    "rouge": _ENGLISH_WORD.findall,
    "words": lambda text: _with_letters(split_words(text)),
    "whitespace": str.split,
    "char": lambda text: list("".join(text.split())),
    "zh": lambda text: _with_letters(mteval.split_zh([text])[0]),
    **{name: partial(mecab.split, name) for name in mecab.NAMES},
}


def _with_letters(tokens: Iterable[str]) -> list[str]:
    return [token for token in tokens if any(map(str.isalnum, token))]


def rouge(
    references: References,
    predictions: Sequence[str],
    kinds: Sequence[str] = KINDS,
    *,
    stem: bool = False,
    tokenize: str = "rouge",
) -> Evaluation:
    """ROUGE of `predictions`, the mean over examples.

    Args:
        references: one list per reference, each as long as `predictions`; None where an example has fewer.
        kinds: the values: `rouge1` to `rouge9`, `rougeL`, `rougeLsum`, each the F1 unless `:precision` or `:recall`
            follows. For `rougeLsum`, each sentence of a text is on its own line.
        stem: compare Porter's stems of words of four letters or more; for English.
        tokenize: "rouge", words of a-z and 0-9; "words", as `nlptools tokenize -t words`, without punctuation;
            "whitespace", split at white space; "char", characters without white space; "zh", Chinese characters, and words
            of other scripts; "ja-mecab" and "ko-mecab", words by MeCab. Text is always lower-cased first.

    Raises:
        DataError: no texts; the numbers of texts differ; a text has no reference.
        UsageError: no references, a string where a list of them is expected, or no such kind or tokenizer.
        Unavailable: the package of ja-mecab or ko-mecab is not installed.
    """
    parsed = [_KIND.fullmatch(kind) for kind in kinds]
    if isinstance(kinds, str) or not parsed or None in parsed:
        raise UsageError(
            f"no such kind of ROUGE in {kinds!r}, expected rouge1 to rouge9, rougeL, rougeLsum, perhaps with"
            " :precision, :recall or :f1"
        )
    if tokenize not in TOKENIZERS:
        raise UsageError(f"no such tokenizer: {tokenize!r}, expected one of {', '.join(TOKENIZERS)}")
    check_references(predictions, references)
    if not predictions:
        raise DataError("no texts: predictions and references are empty")
    _warn_of_letters(predictions, references, tokenize)
    wanted = [(match[1], PARTS.index(match[2] or "f1")) for match in parsed if match]
    names = list(dict.fromkeys(name for name, _ in wanted))
    at, part = [names.index(name) for name, _ in wanted], [part for _, part in wanted]
    table = np.empty((len(predictions), len(wanted)))
    for start in range(0, len(predictions), BLOCK):
        block = slice(start, start + BLOCK)
        made = _block(predictions[block], [lines[block] for lines in references], names, stem, tokenize, start)
        table[block] = made[:, at, part]
    signature = (("nrefs", str(len(references))), ("stem", "yes" if stem else "no"), ("tok", tokenize))
    return means(kinds, table, "lines", signature)


def _warn_of_letters(predictions: Sequence[str], references: References, tokenize: str) -> None:
    """Warn of texts if the tokenizer drops most of their letters, or does not split."""
    if tokenize == "rouge":
        texts = [text for texts in (predictions, *references) for text in texts if text]
        lost = sum(_loses_most(text) for text in texts if not text.isascii())
        if lost:
            better = tokenizer_for(predictions)
            hint = f"--tokenize {better or 'words'} or char"
            messages.warn(
                f"ROUGE reads words of a-z and 0-9 alone, which miss most of {lost} of {len(texts)} texts: {hint}"
            )
    elif tokenize in ("words", "whitespace") and (better := tokenizer_for(predictions)):
        messages.warn(f"--tokenize {tokenize} does not split Chinese, Japanese and Korean; use {better} or char")


def _loses_most(text: str) -> bool:
    letters = sum(map(str.isalnum, text))
    return 2 * sum(map(len, _ENGLISH_WORD.findall(text.lower()))) < letters


def requested(requests: Sequence[MetricRequest], data: MetricData, options: Evaluate) -> Evaluation:
    """The kinds of ROUGE that `nlptools evaluate` is asked for."""
    return rouge(data.references, data.predictions, _kinds(requests), stem=options.stem, tokenize=options.tokenize)


def merged(requests: Sequence[MetricRequest], saved: SavedRows, options: Evaluate) -> Evaluation:
    """The kinds of ROUGE of saved rows."""
    return means(_kinds(requests), saved.table[:, :-1], "lines", saved.items)


def _kinds(requests: Sequence[MetricRequest]) -> list[str]:
    return [f"{request.metric}:{request.value}".removesuffix(":") for request in requests]


# -- one block of examples --------------------------------------------------------------------------------------------


class _Texts(NamedTuple):
    """S texts as ids of words: by sentence, flat, and in one row with END after each text; and their lengths."""

    sentences: list[Sentences]
    flat: Sentences
    stream: Ints
    lengths: Ints


class _Numbers(dict[str, int]):
    """Word -> id; words with the same stem have the same id."""

    def __init__(self, ids: Ids) -> None:
        super().__init__()
        self._ids = ids

    def __missing__(self, word: str) -> int:
        self[word] = number = self._ids[stemming.stem(word) if len(word) > _LONGEST_UNSTEMMED else word]
        return number


def _block(
    predictions: Sequence[str], references: References, names: list[str], stem: bool, tokenize: str, start: int
) -> NDArray[np.float64]:
    """Precision, recall and F1 of the kinds `names` (`1`, `L`, `Lsum`) against the best reference: (S, K, 3).

    `start`: examples before these.
    """
    ids = Ids({"": END})
    number = (_Numbers(ids) if stem else ids).__getitem__
    split = TOKENIZERS[tokenize]

    def read(texts: Sequence[str | None]) -> _Texts:
        sentences = [
            [list(map(number, split(line))) for line in text.lower().split("\n")] if text else [] for text in texts
        ]
        flat = [text[0] if len(text) == 1 else [word for sentence in text for word in sentence] for text in sentences]
        row = [word for text in flat for word in (*text, END)]
        return _Texts(sentences, flat, np.array(row, np.int64), np.array([len(text) for text in flat], np.int64))

    predicted = read(predictions)
    candidates = []
    for lines in references:
        made = _compare(read(lines), predicted, names, len(ids), start)
        made[[text is None for text in lines]] = -1  # worse than any
        candidates.append(made)
    if len(candidates) == 1:
        return candidates[0]
    table = np.stack(candidates)  # (R, S, K, 3)
    best = table[..., 2].argmax(axis=0)  # (S, K), the first of equals
    chosen: NDArray[np.float64] = np.take_along_axis(table, best[None, ..., None], axis=0)[0]
    return chosen


def _compare(reference: _Texts, predicted: _Texts, names: list[str], num_ids: int, start: int) -> NDArray[np.float64]:
    """Precision, recall and F1 against one reference: (S, K, 3)."""
    orders = [int(name) if name.isdigit() else 1 for name in names]
    shape = (len(predicted.flat), len(names))
    hits = np.empty(shape, np.int64)
    longest = max((int(name) for name in names if name.isdigit()), default=0)
    if longest:
        found = matches([predicted.stream, reference.stream], num_ids, len(predicted.flat), longest)
    for k, name in enumerate(names):
        if name == "L":
            hits[:, k] = _hits(lcs_length, reference.flat, predicted.flat, start)
        elif name == "Lsum":
            hits[:, k] = _hits(union_hits, reference.sentences, predicted.sentences, start)
        else:
            hits[:, k] = found[:, int(name) - 1]
    fewer = np.array(orders) - 1
    precision = hits / np.maximum(predicted.lengths[:, None] - fewer, 1)
    recall = hits / np.maximum(reference.lengths[:, None] - fewer, 1)
    total = precision + recall
    f1 = np.divide(2 * precision * recall, total, out=np.zeros(shape), where=total > 0)
    return np.stack([precision, recall, f1], axis=-1)


def _hits(count: Callable[[T, T], int], reference: Sequence[T], predicted: Sequence[T], start: int) -> list[int]:
    """`count` of each pair of texts. Raises DataError with the line of one that is too long."""
    hits: list[int] = []
    try:
        hits.extend(count(*pair) for pair in zip(reference, predicted))
    except DataError as error:
        raise DataError(f"line {start + len(hits) + 1}: {error}", hint=error.hint) from None
    return hits


# -- common subsequences ----------------------------------------------------------------------------------------------


def lcs_length(first: Sequence[int], second: Sequence[int]) -> int:
    """The length of the longest common subsequence.

    Raises:
        DataError: more than MOST_PAIRS pairs of words, without the words that only one of them has and without the
            same words at their beginnings and ends.
    """
    same = 0
    if len(first) * len(second) > _LONG:
        same, first, second = _reduced(first, second)
    if len(first) < len(second):
        first, second = second, first
    full = (1 << len(first)) - 1
    row = full
    for match in filter(None, map(_places_of(first), second)):
        common = row & match
        row = ((row + common) | (row - common)) & full
    return same + len(first) - row.bit_count()


def _reduced(first: Sequence[int], second: Sequence[int]) -> tuple[int, Sequence[int], Sequence[int]]:
    """(n, first, second): texts with a common subsequence that is n words shorter. Raises DataError; see `lcs_length`."""
    shared = set(first) & set(second)
    first, second = ([word for word in words if word in shared] for words in (first, second))
    shorter = min(len(first), len(second))
    begin = next((i for i in range(shorter) if first[i] != second[i]), shorter)
    end = next((i for i in range(shorter - begin) if first[-1 - i] != second[-1 - i]), shorter - begin)
    first, second = first[begin : len(first) - end], second[begin : len(second) - end]
    if len(first) * len(second) > MOST_PAIRS:
        raise DataError(
            f"texts of {len(first):,} and {len(second):,} words are too long for rougeL and rougeLsum, which compare"
            f" every word of one with every word of the other, {MOST_PAIRS:,} pairs at most",
            hint="ask for rouge1 and rouge2 only, or cut the texts",
        )
    return begin + end, first, second


def _places_of(words: Sequence[int]) -> Callable[[int], int | None]:
    """A function from a word to its positions, as bits; none for an unknown word."""
    if len(words) ** 2 <= _LONG:
        return _places(words).get
    where: dict[int, list[int]] = {}
    for place, word in enumerate(words):
        where.setdefault(word, []).append(place)
    # all words would take memory by the square of the length: the bits of rare ones are set again each time
    frequent = sorted(where, key=lambda word: -len(where[word]))[: _KEPT_BITS // len(words)]
    kept = {word: _bits(where[word]) for word in frequent}
    return lambda word: kept.get(word) or _bits(where.get(word, ()))


def _bits(places: Sequence[int]) -> int:
    """The number with a bit at each of these places, which rise."""
    if len(places) <= 1:
        return 1 << places[0] if places else 0
    data = bytearray((places[-1] >> 3) + 1)
    for place in places:
        data[place >> 3] |= 1 << (place & 7)
    return int.from_bytes(data, "little")


def union_hits(reference: Sentences, predicted: Sentences) -> int:
    """The number of words of `reference` on its sentences' common subsequences with any sentence of `predicted`.

    A word counts no more often than it occurs in `predicted`. Raises DataError for sentences that are too long.
    """
    if len(reference) == 1 and len(predicted) == 1:
        return lcs_length(reference[0], predicted[0])
    where: dict[int, list[tuple[int, int]]] = {}  # word -> sentences of the reference, and its places there
    for number, sentence in enumerate(reference):
        for word, places in _places(sentence).items():
            where.setdefault(word, []).append((number, places))
    unions = [0] * len(reference)
    for other in predicted:
        matched: dict[int, list[tuple[int, int]]] = {}
        for j, word in enumerate(other):
            for number, places in where.get(word, ()):
                matched.setdefault(number, []).append((j, places))
        for number, found in matched.items():
            if len(found) * len(reference[number]) > _MOST_ROW_BITS:
                raise DataError(
                    f"sentences of {len(reference[number]):,} and {len(other):,} words are too long for rougeLsum",
                    hint="a sentence per line is expected",
                )
            unions[number] |= _taken(found, len(reference[number]), len(other))
    available = Counter(word for sentence in predicted for word in sentence)
    hits = 0
    for word in where.keys() & available.keys():
        hits += min(available[word], sum((unions[number] & places).bit_count() for number, places in where[word]))
    return hits


def _places(words: Sequence[int]) -> dict[int, int]:
    """Word -> its places, as bits."""
    places: dict[int, int] = {}
    bit = 1
    for word in words:
        places[word] = places.get(word, 0) | bit
        bit <<= 1
    return places


def _taken(matched: Sequence[tuple[int, int]], length: int, other_length: int) -> int:
    """The words of a sentence, as bits, on its longest common subsequence with another sentence.

    If there are several, it is the one that rouge-score finds going back through the table of lengths: it takes equal
    words; otherwise it goes back in the sentence while the length stays the same, and only then in the other.

    Args:
        matched: (place in the other, places in the sentence as bits) of the words in both.
        length: of the sentence.
    """
    ahead = row = (1 << length) - 1  # a bit of a row is 0 where the length grows with that word of the sentence
    rows = []
    for _, match in matched:
        common = row & match
        row = (row + common) | (row - common)  # bits from `length` on mean nothing
        rows.append(row)
    taken = 0
    later = other_length
    for (j, match), row in zip(reversed(matched), reversed(rows)):
        grows = ~row & ahead  # `ahead`: the words of the sentence not yet passed
        if later - j > 1:  # words without match in between: back to where the length grows
            ahead = (1 << grows.bit_length()) - 1
        later = j
        stop = grows | match & ahead
        if not stop:
            break
        bit = 1 << (stop.bit_length() - 1)
        ahead = bit - 1
        if match & bit:
            taken |= bit
        else:
            ahead |= bit
    return taken
