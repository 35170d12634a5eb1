"""The rules of the schemes of span tags: where spans begin and end, by each two neighbouring tags.

These rules score entities (`metrics.spans`), interpret and mend tags (`tag_schemes`), and constrain decoding
(`tasks.tag.decoding`). `tag_schemes` names the papers.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

Pair = tuple[str, str, bool]  # prefix before, prefix now, whether the types are the same


class Rules(NamedTuple):
    """When two neighbouring tags start, continue and end a span.

    A rule is the previous prefix, the current prefix, and how their types compare: `=` equal, `/` different, `*` either.
    `*` is any prefix; `?` is one that conlleval does not know.
    """

    prefixes: str
    start: str  # a span may begin here
    inside: str  # an open span continues here
    end: str  # an open span that does not continue here is complete


RULES = {
    "conlleval": Rules(
        "OBIE[].?",
        "OB* OI* OE* BB* IB* EE* EI* *[* *]* *B/ *I/ *E/ *?/",
        "",
        "BB* BO* IB* IO* EE* EI* EO* [** ]** B*/ I*/ E*/ ?*/",
    ),
    "lenient": Rules("OBIES", "*B* *S* OI* OE* EI* EE* SI* SE* BI/ BE/ II/ IE/", "BI= BE= II= IE=", "***"),
    "iob1": Rules("OBI", "OI* BI* II/ IB= BB=", "BI= II=", "IO* IB* II/ BO* BI/ BB="),
    "iob2": Rules("OBI", "*B*", "BI= II=", "***"),
    "ioe1": Rules("OIE", "OI* EI* II/ EE=", "II= IE=", "IO* II/ IE/ EI= EE="),
    "ioe2": Rules("OIE", "OI* OE* EI* EE* II/ IE/", "II= IE=", "E**"),
    "iobes": Rules("OBIES", "*B* *S*", "BI= BE= II= IE=", "E** S**"),
    "bilou": Rules("OBILU", "*B* *U*", "BI= BL= II= IL=", "L** U**"),
}
RULES["bioes"] = RULES["iobes"]


class TagRules(NamedTuple):
    """The rules of a scheme, each as the pairs of neighbours for which it holds."""

    start: frozenset[Pair]
    inside: frozenset[Pair]
    end: frozenset[Pair]


@cache
def neighbours(scheme: str) -> TagRules:
    """The rules of a scheme in `RULES`."""
    rules = RULES[scheme]
    return TagRules(*(frozenset(_pairs(written, rules.prefixes)) for written in rules[1:]))


def tags_expected(scheme: str) -> str:
    """The tags of a scheme in `RULES`, for messages: `O, B-TYPE, I-TYPE`."""
    return ", ".join(["O", *(f"{prefix}-TYPE" for prefix in RULES[scheme].prefixes[1:])])


def _pairs(written: str, prefixes: str) -> Iterator[Pair]:
    for rule in written.split():
        befores, nows = (prefixes if sign == "*" else sign for sign in rule[:2])
        for before in befores:
            for now in nows:
                for same in (True, False):
                    if rule[2] in ("*", "=" if same else "/"):
                        yield before, now, same
