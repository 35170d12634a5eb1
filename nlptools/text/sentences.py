"""Running text to sentences, by rule, for whatever language: good enough to pretrain on.

A sentence ends at `. ! ? …` (with the quotes and brackets that close after it) before white space, unless what follows
goes on in lower case or with a comma and its like; and at the full stops, question and exclamation marks of Chinese,
Japanese, Arabic, Urdu, Hindi, Armenian, Ethiopic, Burmese, Khmer and their neighbours, with or without space. A single
`.` does not end a sentence after a title (`Dr.`), an initial (`J.`), letters with dots between (`U.S.`, `z. B.`), the
number of a list at the beginning (`1.`, `IV.`), an abbreviation that a number follows (`No. 5`), or before a German
month or century (`3. Oktober`).

Limits, on the side of too few ends: a sentence that ends with a single capital letter (but `I`) or with `U.S.` goes on
into the next one; so does one before another that begins in lower case. Abbreviations outside the list end a sentence
before a capital. Scripts that mark no ends (Thai, Lao) stay whole.
"""

from __future__ import annotations

import re

_CLOSERS = "\"'”’»›)\\]}）］｝」』】〉》〕"
_OPENERS = "\"'“‘„‚«‹([{（［｛「『【〈《〔¿¡*_"
# Ends that stand for nothing else, in scripts that need no space after them.
_SURE = "。！？｡．؟۔।॥։።፧၊။។៕᠃᠉\u2047\u2048\u2049"
# “ closes a German quotation, and » a French one after a space
_CANDIDATE = re.compile(rf"[.!?…][.!?…]*(?:[{_CLOSERS}“]|[ \u00a0\u202f]»)*(?=\s)|[{_SURE}][{_SURE}!?…]*[{_CLOSERS}]*")
_NEXT = re.compile(rf"\s*(?:[-–—]+\s*)?[{re.escape(_OPENERS)}]*")  # a dash opens a sentence, and goes on with one
_LAST_WORD = re.compile(r"\S+\Z")
_DOTTED = re.compile(r"(?:[^\W\d_]{1,2}\.)+[^\W\d_]{1,2}\Z")  # e.g, U.S, z.B, Ph.D
_LIST_NUMBER = re.compile(r"(?:\d{1,3}|[IVXLCivxlc]{1,5}|[^\W\d_])\Z")
_GOES_ON = ",;:)]}/&=+%،؛、，；："
_HIRAGANA = re.compile("[\u3041-\u309f]")
_CLOSED = re.compile(rf"[{_CLOSERS}]\Z")
_LOOK_BACK = 40  # characters before a dot in which the word before it is looked for

# Words, without their last dot and in lower case, that are followed by a name or go on in any other way.
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
# Those that go on only when a number follows.
_NUMBERED = (
    "no nos nr nrs núm num nº n vol vols fig figs p pp pg art arts sec sect ch chap cap eq ex op bd abb kap ps gen ss"
    " стр рис табл č str s"
)
_BEFORE_NUMBERS = frozenset(_NUMBERED.split())
_AFTER_ORDINALS = re.compile(
    "(?:Januar|Jänner|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember|Jahrhundert|Jh)"
)


def split_sentences(text: str) -> list[str]:
    """The sentences of a paragraph, without white space at their ends; nothing but such white space is left out."""
    out, start = [], 0
    for found in _CANDIDATE.finditer(text):
        end = found.end()
        if _ends(text, start, found.start(), found.group(), end):
            if sentence := text[start:end].strip():
                out.append(sentence)
            start = end
    if sentence := text[start:].strip():
        out.append(sentence)
    return out


def _ends(text: str, start: int, mark: int, marks: str, end: int) -> bool:
    """Whether the sentence from `start` ends with the `marks` that stand from `mark` to `end`."""
    follows = _NEXT.match(text, end)
    place = follows.end() if follows else end
    if place == len(text):
        return True
    after = text[place]
    if marks[0] in _SURE:  # a quotation that the sentence goes on after: 「はい。」と言った
        return not (place == end and _CLOSED.search(marks) and _HIRAGANA.match(after))
    if after.islower() or after in _GOES_ON:
        return False
    return marks[0] != "." or len(marks) > 1 or not _stays(text, start, mark, place)


def _stays(text: str, start: int, mark: int, place: int) -> bool:
    """Whether the single dot at `mark` belongs to the word before it; what comes next stands at `place`."""
    found = _LAST_WORD.search(text, max(start, mark - _LOOK_BACK), mark)
    if found is None:
        return False
    word = found.group().lstrip(_OPENERS + "-–—/")
    if len(word) == 1 and word.isalpha() and (word.isupper() or word.islower()):
        return word != "I" or not text[start : found.start()].strip()  # "So do I.", but "I. Newton"
    if _DOTTED.match(word) or word.lower() in _ABBREVIATIONS:
        return True
    if text[place].isdigit() and word.lower() in _BEFORE_NUMBERS:
        return True
    if not text[start : found.start()].strip() and _LIST_NUMBER.match(word):
        return True
    return word.isdigit() and len(word) <= 2 and _AFTER_ORDINALS.match(text, place) is not None
