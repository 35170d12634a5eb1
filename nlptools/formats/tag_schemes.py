"""Schemes of span tags: detection, conversion from tags to spans, and from spans to tags.

IOB1 and IOB2 (Ramshaw & Marcus 1995, W95-0107; Tjong Kim Sang & Veenstra 1999, E99-1023), BIOES (Uchimoto et al. 2000,
P00-1042) and BILOU (Ratinov & Roth 2009, W09-1119). `tag_rules` interprets two neighbouring tags; a tag other than O that
these rules assign to no entity is broken.
Departure: tags may fit several schemes (IOB1 and IOB2 agree if no two spans touch and all begin with B-); the first of iob2,
iobes, bilou, iob1, ioe2 is chosen. IOE1 is missing: it cannot express a span of one word before a span of the same type, and
no published file uses it.
Spans are (first word, word after the last, type), words from 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from nlptools import messages
from nlptools.errors import DataError, UsageError, shorten, shown, visible
from nlptools.formats.examples import Place, TaggedSentence, UniversalSentence
from nlptools.formats.tag_rules import RULES, neighbours, tags_expected

SCHEMES = ("iob2", "iobes", "bilou", "iob1", "ioe2")  # in the order in which they are tried
_LENIENT = "lenient"  # rules by which no tag is broken
PLAIN = "plain"  # tags that stand for words one by one, such as parts of speech
_ALSO_CALLED = {"bioes": "iobes", "iob": "iob1", "bio": "iob2"}


class TaggedSpan(NamedTuple):
    """An entity, a chunk or an argument: words `start` to `end` - 1, and its type."""

    start: int
    end: int
    kind: str


def find_scheme(name: str) -> str:
    """The scheme called `name`. Raises UsageError when there is none."""
    found = _ALSO_CALLED.get(name.lower(), name.lower())
    if found not in (*SCHEMES, PLAIN):
        known = ", ".join((*SCHEMES, PLAIN, *_ALSO_CALLED))
        raise UsageError(f"no such scheme: {shown(name)}, expected one of {known}")
    return found


def split(tag: str) -> tuple[str, str]:
    """Prefix and type: `B-PER` is B and PER, `O` is O and nothing."""
    prefix, _, kind = tag.partition("-")
    return prefix, kind


def is_span_tag(tag: str) -> bool:
    """Whether `tag` may be one of some scheme: O, or a prefix, a hyphen and a type."""
    return tag == "O" or (len(tag) > 2 and tag[1] == "-" and tag[0] in "BIESLU")


def spans(tags: Sequence[str], scheme: str) -> tuple[list[TaggedSpan], list[int]]:
    """The spans of W tags in order, and the words with broken tags: in no span, but not O. Not for `plain`."""
    rules = neighbours(scheme)
    pairs = [("O", ""), *map(split, tags), ("O", "")]
    found: list[TaggedSpan] = []
    broken: list[int] = []
    start = -1
    for at, (before, now) in enumerate(pairwise(pairs)):
        same = before[1] == now[1]
        if start >= 0 and (before[0], now[0], same) not in rules.inside:
            if (before[0], now[0], same) in rules.end:
                found.append(TaggedSpan(start, at, before[1]))
            else:
                broken += range(start, at)
            start = -1
        if start < 0:
            if now[0] != "O" and (before[0], now[0], same) in rules.start:
                start = at
            elif now[0] != "O":
                broken.append(at)
    return found, broken


def tags_of(found: Iterable[TaggedSpan], length: int, scheme: str) -> list[str]:
    """The tags of `length` words with spans that do not overlap."""
    ordered = sorted(found)
    tags = ["O"] * length
    for number, (start, end, kind) in enumerate(ordered):
        touches = number > 0 and ordered[number - 1].end == start and ordered[number - 1].kind == kind
        first, last, single = _PREFIXES[scheme]
        for word in range(start, end):
            tags[word] = f"I-{kind}"
        if first and (scheme != "iob1" or touches):
            tags[start] = f"{first}-{kind}"
        if last:
            tags[end - 1] = f"{last}-{kind}"
        if single and end - start == 1:
            tags[start] = f"{single}-{kind}"
    return tags


def convert(tags: Sequence[str], source: str, target: str) -> list[str]:
    """W tags, converted from one scheme to another. Broken tags are mended first, see `mend`; `plain` is unchanged."""
    if source == target or PLAIN in (source, target):
        return list(tags)
    return tags_of(spans(mend(tags, source), source)[0], len(tags), target)


def mend(tags: Sequence[str], scheme: str) -> list[str]:
    """W tags without broken ones. If some are broken, all are interpreted as in conlleval, which puts every tag into a span."""
    if not spans(tags, scheme)[1]:
        return list(tags)
    read = [{"L": "E", "U": "S"}.get(tag[0], tag[0]) + tag[1:] for tag in tags] if scheme == "bilou" else tags
    return tags_of(spans(read, _LENIENT)[0], len(tags), scheme)


def as_iob2(sentences: Iterable[TaggedSentence], scheme: str | None = None) -> tuple[list[TaggedSentence], str]:
    """All sentences of a file with tags in IOB2, and their original scheme; unchanged if it is `plain`.

    Broken tags (CoNLL-2003's own training file has two) are mended and counted in a warning that names the first.

    Args:
        scheme: None detects it.

    Raises:
        DataError: a tag that is none of the scheme; names file and line.
        UsageError: no such scheme.
    """
    held = list(sentences)
    name = detect(s.tags for s in held if s.tags is not None) if scheme is None else find_scheme(scheme)
    made, count, first = [], 0, None
    for sentence in held:
        if name == PLAIN or sentence.tags is None:
            made.append(sentence)
            continue
        fault = broken_tag(sentence, name)
        if fault is not None:
            count, first = count + 1, first or fault
        made.append(replace(sentence, tags=tuple(convert(sentence.tags, name, "iob2"))))
    if first is not None:
        messages.warn(f"{first}; {count} sentence{'s' if count != 1 else ''} with such tags, read as conlleval does")
    return made, name


def detect(sentences: Iterable[Sequence[str]]) -> str:
    """The scheme of all tags of a file: the first of `SCHEMES` with the fewest broken tags, or `plain`.

    The scheme is `plain` if all tags are O, or if one is neither O nor a prefix, a hyphen and a type.
    """
    counts = dict.fromkeys(SCHEMES, 0)
    known = {scheme: set(RULES[scheme].prefixes) for scheme in SCHEMES}
    some = False
    seen: set[tuple[str, ...]] = set()  # short sentences occur repeatedly
    for tags in sentences:
        key = tuple(tags)
        if key in seen:
            continue
        if len(seen) < 100_000:
            seen.add(key)
        if not all(map(is_span_tag, key)):
            return PLAIN
        prefixes = {tag[0] for tag in key}
        some = some or prefixes != {"O"}
        for scheme in SCHEMES:
            if prefixes <= known[scheme]:
                counts[scheme] += len(spans(key, scheme)[1])
            else:
                counts[scheme] += len(key)
    return min(SCHEMES, key=lambda scheme: counts[scheme]) if some else PLAIN


def broken_tag(sentence: TaggedSentence, scheme: str) -> DataError | None:
    """The error for the first tag of `sentence` that breaks the scheme, if one does.

    Raises:
        DataError: a tag is none of the scheme at all.
    """
    if scheme == PLAIN or sentence.tags is None:
        return None
    for word, tag in enumerate(sentence.tags):
        if not is_span_tag(tag) or tag[0] not in RULES[scheme].prefixes:
            raise _refuse(sentence, word, f"tag {shown(tag)}, expected {tags_expected(scheme)} ({scheme})")
    broken = spans(sentence.tags, scheme)[1]
    if not broken:
        return None
    tag = sentence.tags[broken[0]]
    before = shorten(visible(sentence.tags[broken[0] - 1]), 40) if broken[0] else "the beginning of the sentence"
    return _refuse(sentence, broken[0], f"tag {shown(tag)} after {before} breaks the scheme {scheme}")


def place_of(sentence: TaggedSentence | UniversalSentence, word: int) -> Place:
    """The line of a word."""
    for offset, row in enumerate(sentence.rows):
        if row.word == word:
            return Place(sentence.place.path, sentence.place.line + offset)
    return sentence.place


# -- inside -----------------------------------------------------------------------------------------------------------


_PREFIXES = {  # of the first and the last word of a span, and of the only one; "" is I
    "iob1": ("B", "", ""),
    "iob2": ("B", "", ""),
    "ioe2": ("", "E", ""),
    "iobes": ("B", "E", "S"),
    "bilou": ("B", "L", "U"),
}


def _refuse(sentence: TaggedSentence, word: int, message: str) -> DataError:
    place = place_of(sentence, word)
    return DataError(message, path=place.path, line=place.line, hint="--scheme names another scheme, or plain for none")
