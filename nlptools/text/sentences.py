"""Rule-based sentence splitting for many languages. The time grows with the length of the text, not with its square.

A sentence ends at `. ! ? …` (and closing quotes, brackets and notes such as [1]) before white space, unless the text continues in
lower case or with a comma or similar punctuation. It also ends at the full stops, question and exclamation marks of Chinese,
Japanese, Arabic, Urdu, Hindi, Armenian, Ethiopic, Burmese, Khmer and related scripts, with or without a space. A single `.` does
not end a sentence after a title (`Dr.`), an initial (`J.`), letters separated by dots (`U.S.`, `z. B.`), a list number at the
beginning (`1.`, `IV.`), an abbreviation before a number (`No. 5`), or before a German month or century (`3. Oktober`).

Limits: the rules prefer to miss an end. A sentence that ends with a single capital letter (except `I`) or with `U.S.` is
joined with the next one, and so is a sentence before one that begins in lower case. An abbreviation that is not in the list
ends a sentence before a capital letter. Text in scripts without sentence marks (Thai, Lao) is not split.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

_CLOSERS = "\"'”’»›)\\]}）］｝」』】〉》〕"
_OPENERS = "\"'“‘„‚«‹([{（［｛「『【〈《〔¿¡*_"
# Unambiguous sentence marks of scripts that need no space after them.
_SURE = "。！？｡．؟۔।॥։።፧၊။។៕᠃᠉\u2047\u2048\u2049"
# “ ‘ « ‹ close quotations that „ ‚ » › open, and » › those in French after a space
_NOTE = r"\[(?:\d[\d,; \u2013-]*|[a-z]|[^\W\d_]+ \d+|citation needed)\]|[\u00b9\u00b2\u00b3\u2070\u2074-\u2079]+"
_CANDIDATE = re.compile(
    rf"(?<![.!?…])[.!?…]+(?:[{_CLOSERS}“‘«‹]|[ \u00a0\u202f][»›]|{_NOTE})*(?=\s)|[{_SURE}][{_SURE}!?…]*(?:{_NOTE}|[{_CLOSERS}])*"
)
_NOTES_AT_END = re.compile(rf"(?:{_NOTE})+\Z")
_NEXT = re.compile(rf"\s*(?:[-–—]+\s*)?[{re.escape(_OPENERS)}]*")  # a dash can begin a sentence, or continue one
_SPACE = re.compile(r"\s*")
_LAST_WORD = re.compile(r"\S+\Z")
_DOTTED = re.compile(r"(?:[^\W\d_]{1,2}\.)+[^\W\d_]{1,2}\Z")  # e.g, U.S, z.B, Ph.D
_LIST_NUMBER = re.compile(r"(?:\d{1,3}|[IVXLCivxlc]{1,5}|[^\W\d_])\Z")
_CONTINUES = ",;:)]}/&=+%،؛、，；："
_HIRAGANA = re.compile("[\u3041-\u309f]")
_CLOSED = re.compile(rf"[{_CLOSERS}]\Z")
_LOOK_BACK = 40  # maximum number of characters of the word before a dot

# Abbreviations, without the last dot and in lower case, after which a sentence continues.
_FOLLOWED = (
    # English
    "mr mrs ms mx messrs dr drs prof profs rev hon st ste sen rep gov gen col maj capt cpt cmdr lt sgt cpl pvt adm"
    " supt det insp mt ft vs viz cf ca approx al ed eds trans pres jan feb mar apr jun jul aug sep sept oct nov dec"
    # German, Dutch
    " hr hrn frl bzw vgl ggf evtl inkl exkl dipl str geb gest bspw sog dhr mevr mej bijv"
    # French, Spanish, Portuguese, Italian
    " mm mme mmes mlle mgr me sra srta sres dra dres ud uds vd vds fr sta sto pág págs sig sigg dott avv ing on"
    # Slavic, Scandinavian
    " г гг ул им тов проф см ср tzv např tzn prof inż mgr ul bl f.eks"
    " bl.a osv"
)
_ABBREVIATIONS = frozenset(_FOLLOWED.split())
# Abbreviations after which a sentence continues only with a number.
_NUMBERED = (
    "no nos nr nrs núm num nº n vol vols fig figs p pp pg art arts sec sect ch chap cap eq ex op bd abb kap ps gen ss"
    " стр рис табл č str s"
)
_BEFORE_NUMBERS = frozenset(_NUMBERED.split())
_AFTER_ORDINALS = re.compile(
    "(?:Januar|Jänner|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember|Jahrhundert|Jh)"
)


def split_sentences(text: str) -> list[str]:
    """Split a paragraph into sentences; only white space between them is removed."""
    out, start = [], 0
    for match in _CANDIDATE.finditer(text):
        end = match.end()
        if _ends(text, start, match.start(), match.group(), end):
            if sentence := text[start:end].strip():
                out.append(sentence)
            start = end
    if sentence := text[start:].strip():
        out.append(sentence)
    return out


def split_lines(blocks: Iterable[Sequence[str]], wrapped: bool = False) -> Iterator[list[str]]:
    """The sentences of each block of lines, with an empty string for each empty line.

    Args:
        wrapped: a paragraph has several lines and ends at an empty one; otherwise each line is a paragraph.
    """
    paragraph: list[str] = []
    for lines in blocks:
        out: list[str] = []
        for line in lines:
            paragraph.append(line)
            if not wrapped or not line.strip():
                out += split_sentences(" ".join(paragraph))
                out += [] if line.strip() else [""]
                paragraph = []
        yield out
    yield split_sentences(" ".join(paragraph))


def _ends(text: str, start: int, mark: int, marks: str, end: int) -> bool:
    """Whether the sentence from `start` ends with `marks`, the text from `mark` to `end`."""
    follows = _NEXT.match(text, end)
    place = follows.end() if follows else end
    if place == len(text):
        return True
    after = text[place]
    if marks[0] in _SURE:  # the sentence may continue after a quotation: 「はい。」と言った
        return not (place == end and _CLOSED.search(marks) and _HIRAGANA.match(after))
    if after.islower() or after in _CONTINUES:
        return False
    return marks[0] != "." or len(_NOTES_AT_END.sub("", marks)) > 1 or not _stays(text, start, mark, place)


def _stays(text: str, start: int, mark: int, place: int) -> bool:
    """Whether the single dot at `mark` belongs to the word before it; the next text begins at `place`."""
    match = _LAST_WORD.search(text, max(start, mark - _LOOK_BACK), mark)
    if match is None:
        return False
    word = match.group().lstrip(_OPENERS + "-–—/")
    is_first = _SPACE.match(text, start, mark).end() >= match.start()  # type: ignore[union-attr]  # it always matches
    if len(word) == 1 and word.isalpha() and (word.isupper() or word.islower()):
        return word != "I" or is_first  # "So do I.", but "I. Newton"
    if _DOTTED.match(word) or word.lower() in _ABBREVIATIONS:
        return True
    if text[place].isdigit() and word.lower() in _BEFORE_NUMBERS:
        return True
    if is_first and _LIST_NUMBER.match(word):
        return True
    return word.isdigit() and len(word) <= 2 and _AFTER_ORDINALS.match(text, place) is not None
