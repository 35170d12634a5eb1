"""Regular expressions in Python's syntax as trees.

What an automaton cannot follow is refused by its name, and so is what Python reads in another way than other programs do:
POSIX classes and set operators. `\\w`, `\\d` and `\\s` match ASCII only. Anchors at the two ends of an expression change
nothing, since a text matches as a whole.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field, replace

from nlptools.errors import UsageError, shown
from nlptools.inference.generation import character_sets
from nlptools.inference.generation.budget import Budget
from nlptools.inference.generation.character_sets import Ranges

_MOST_DEPTH = 100  # groups inside each other
_DIGITS, _SPACES = "0123456789", " \t\n\r\f\v"
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_CATEGORIES = {
    "d": character_sets.of(_DIGITS),
    "s": character_sets.of(_SPACES),
    "w": character_sets.of(_LETTERS + _LETTERS.upper() + _DIGITS + "_"),
}
_CONTROLS = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ANCHORS = {"A": r"\A", "Z": r"\Z"}
_POSIX = re.compile(r"\[([:.=])[^\[\]]*\1\]")
_BARE_POSIX = re.compile(r":(?:al(?:num|pha)|blank|cntrl|x?digit|graph|lower|print|punct|space|upper|word):\]")
_TIMES = re.compile(r"\{(\d*)(,?)(\d*)\}")
_HEXADECIMAL = {"x": 2, "u": 4, "U": 8}


@dataclass(frozen=True)
class Characters:
    """One of some characters."""

    ranges: Ranges


@dataclass(frozen=True)
class Chain:
    """Parts one after the other."""

    parts: tuple[Tree, ...]


@dataclass(frozen=True)
class Either:
    """One of some options."""

    options: tuple[Tree, ...]


@dataclass(frozen=True)
class Repeat:
    """A part, at least and at most so many times; None: without a limit."""

    part: Tree
    least: int
    most: int | None


@dataclass(frozen=True)
class Ahead:
    """A lookahead: the rest begins like `part`, or does not."""

    part: Tree
    negated: bool


@dataclass(frozen=True)
class Anchor:
    """A place of the text: its beginning or its end."""

    name: str


Tree = Characters | Chain | Either | Repeat | Ahead | Anchor
EMPTY = Chain(())


def parse(expression: str, budget: Budget) -> Tree:
    """The tree of an expression, without anchors.

    Raises:
        UsageError: it is none, uses what an automaton cannot follow, or is too long.
    """
    return _without_anchors(_Parser(expression, budget).parse(), True, True)


@dataclass(frozen=True)
class _Flags:
    any_case: bool = False
    dot_all: bool = False


@dataclass
class _Group:
    """A group that is being read."""

    flags: _Flags  # of what follows in it
    ahead: bool | None = None  # whether it is a negated lookahead; None: it is none
    options: list[Tree] = field(default_factory=list)
    parts: list[Tree] = field(default_factory=list)

    def close(self) -> Tree:
        self.next_option()
        return self.options[0] if len(self.options) == 1 else Either(tuple(self.options))

    def next_option(self) -> None:
        self.options.append(self.parts[0] if len(self.parts) == 1 else Chain(tuple(self.parts)))
        self.parts = []


class _Parser:
    def __init__(self, text: str, budget: Budget) -> None:
        self.text, self.place, self.budget = text, 0, budget
        self.groups = [_Group(_Flags())]
        self.repeats = False  # whether the last part may be repeated

    def parse(self) -> Tree:
        self.budget.spend(len(self.text))
        while self.place < len(self.text):
            self._next()
        if len(self.groups) > 1:
            raise self._wrong("a group is not closed")
        return self.groups[0].close()

    def _wrong(self, what: str) -> UsageError:
        return UsageError(f"--match: {what}, at character {self.place + 1} of {shown(self.text)}")

    def _unsupported(self, what: str) -> UsageError:
        return self._wrong(f"{what} is not supported")

    def _take(self, begin: str) -> bool:
        """Whether the text goes on with `begin`, which is then read."""
        found = self.text.startswith(begin, self.place)
        self.place += len(begin) if found else 0
        return found

    def _add(self, part: Tree, repeats: bool = True) -> None:
        self.groups[-1].parts.append(part)
        self.repeats = repeats

    def _next(self) -> None:
        group = self.groups[-1]
        if self._take("("):
            self._open()
        elif self._take(")"):
            if len(self.groups) == 1:
                self.place -= 1
                raise self._wrong("a bracket closes no group")
            part = self.groups.pop().close()
            self._add(part if group.ahead is None else Ahead(part, group.ahead), group.ahead is None)
        elif self._take("|"):
            group.next_option()
            self.repeats = False
        elif self.text[self.place] in "*+?{" and self._repeat():
            pass
        elif self.text[self.place] in "^$":
            self._add(Anchor(self.text[self.place]), False)
            self.place += 1
        elif self._take("["):
            self._characters(self._set())
        elif self._take("."):
            self._add(Characters(character_sets.EVERY if group.flags.dot_all else character_sets.others(((10, 10),))))
        elif self._take("\\"):
            if (anchor := _ANCHORS.get(self.text[self.place : self.place + 1])) is not None:
                self.place += 1
                self._add(Anchor(anchor), False)
            else:
                self._characters(self._cased(self._escaped(in_set=False)))
        else:
            self._characters(self._cased(character_sets.of(self.text[self.place])))
            self.place += 1

    def _characters(self, ranges: Ranges) -> None:
        self._add(Characters(character_sets.both(ranges, character_sets.EVERY)))

    def _cased(self, ranges: Ranges) -> Ranges:
        """The characters of a set; with the flag `i` in both cases."""
        if not self.groups[-1].flags.any_case:
            return ranges
        self.budget.spend(character_sets.number_of_cased(ranges))
        return character_sets.any_case(ranges)

    def _open(self) -> None:
        """Read what follows the opening bracket of a group."""
        if len(self.groups) > _MOST_DEPTH:
            raise UsageError(f"--match: more than {_MOST_DEPTH} groups are inside each other")
        flags, ahead = self.groups[-1].flags, None
        if self._take("?"):
            named = re.compile(r"P<[^\W\d]\w*>").match(self.text, self.place)
            if named:
                self.place = named.end()
            elif self._take("=") or self._take("!"):
                ahead = self.text[self.place - 1] == "!"
            elif self._take("#"):
                end = self.text.find(")", self.place)
                if end < 0:
                    raise self._wrong("a comment is not closed")
                self.place = end + 1
                return
            elif not self._take(":"):
                changed = self._flags(flags)
                if changed is None:
                    return
                flags = changed
        self.groups.append(_Group(flags, ahead))
        self.repeats = False

    def _flags(self, flags: _Flags) -> _Flags | None:
        """The flags of a group `(?i-s:...)`; None after `(?i)`, which sets flags of the whole expression."""
        for begin, name in (
            ("<=", "a lookbehind"),
            ("<!", "a lookbehind"),
            ("P=", "a back reference"),
            ("(", "a condition"),
            (">", "an atomic group"),
        ):
            if self.text.startswith(begin, self.place):
                raise self._unsupported(name)
        found = re.compile(r"([aiLmsux]*)(?:-([imsx]+))?([:)])").match(self.text, self.place)
        if not found or not (found[1] or found[2]):
            raise self._wrong("(? begins no known kind of group")
        if wrong := set(found[1]) & {"x", "L"}:
            raise self._unsupported(f"the flag {min(wrong)}")
        on, off = found[1], found[2] or ""
        changed = replace(
            flags,
            any_case=(flags.any_case or "i" in on) and "i" not in off,
            dot_all=(flags.dot_all or "s" in on) and "s" not in off,
        )
        if found[3] == ":":
            self.place = found.end()
            return changed
        if self.text.rfind("(", 0, self.place) or off:
            raise self._wrong("flags of the whole expression must be at its beginning")
        self.place = found.end()
        self.groups[-1].flags = changed
        return None

    def _repeat(self) -> bool:
        """Read how often the last part is repeated; False for a curly bracket that is a character."""
        mark, least, most = self.text[self.place], 0, None
        if mark == "{":
            found = _TIMES.match(self.text, self.place)
            if not found or not (found[1] or found[2]) or max(len(found[1]), len(found[3])) > 9:
                if found and (found[1] or found[3]):
                    raise self._wrong("a number of repetitions is too large")
                return False
            least = int(found[1] or 0)
            most = (int(found[3]) if found[3] else None) if found[2] else least
            if most is not None and most < least:
                raise self._wrong("the fewest repetitions are more than the most")
            end = found.end()
        else:
            least, most, end = int(mark == "+"), 1 if mark == "?" else None, self.place + 1
        if not self.repeats:
            raise self._wrong("nothing to repeat")
        self.place = end
        if self._take("+"):
            self.place -= 1
            raise self._unsupported("a possessive repetition")
        self._take("?")  # a lazy repetition matches the same texts
        self._add(Repeat(self.groups[-1].parts.pop(), least, most), False)
        return True

    def _set(self) -> Ranges:
        """The characters of a set, after its opening bracket."""
        if posix := _BARE_POSIX.match(self.text, self.place):
            raise self._unsupported(f"the POSIX class [{posix[0]}")
        negated = self._take("^")
        begin, sets = self.place, list[Ranges]()
        while not (self._take("]") if self.place > begin or self.text[self.place : self.place + 1] != "]" else False):
            if self.place >= len(self.text):
                raise self._wrong("a set of characters is not closed")
            if posix := _POSIX.match(self.text, self.place):
                raise self._unsupported(f"the POSIX class {posix[0]}")
            pair = self.text[self.place : self.place + 2]
            if self.place > begin and pair in ("--", "&&", "~~", "||"):
                raise self._unsupported(f"the set operator {pair}")
            low = self._member()
            if self.text.startswith("-", self.place) and self.text[self.place + 1 : self.place + 2] not in ("", "]"):
                if self.text.startswith("--", self.place):
                    raise self._unsupported("the set operator --")
                self.place += 1
                low = self._range(low, self._member())
            sets.append(low)
        ranges = self._cased(character_sets.union(sets))
        return character_sets.others(ranges) if negated else ranges

    def _member(self) -> Ranges:
        if self._take("\\"):
            return self._escaped(in_set=True)
        self.place += 1
        return character_sets.of(self.text[self.place - 1])

    def _range(self, low: Ranges, high: Ranges) -> Ranges:
        ends = [each[0][0] for each in (low, high) if len(each) == 1 and each[0][0] == each[0][1]]
        if len(ends) < 2 or ends[0] > ends[1]:
            raise self._wrong("a range of characters has no two ends in their order")
        return ((ends[0], ends[1]),)

    def _escaped(self, in_set: bool) -> Ranges:
        """The characters of an escape, after its backslash."""
        name = self.text[self.place : self.place + 1]
        if not name:
            raise self._wrong("a backslash is the last character")
        if name.lower() in _CATEGORIES:
            self.place += 1
            ranges = _CATEGORIES[name.lower()]
            return ranges if name.islower() else character_sets.others(ranges)
        if name in _HEXADECIMAL:
            return self._code(name)
        if octal := re.compile(r"0[0-7]{0,2}|[0-3][0-7]{2}").match(self.text, self.place):
            self.place = octal.end()
            return character_sets.of(chr(int(octal[0], 8)))
        if name == "N" and (named := re.compile(r"N\{([^}]*)\}").match(self.text, self.place)):
            try:
                character = unicodedata.lookup(named[1])
            except KeyError:
                raise self._wrong(f"no character has the name {shown(named[1])}") from None
            self.place = named.end()
            return character_sets.of(character)
        if in_set and name == "b":
            self.place += 1
            return character_sets.of("\b")
        if name.isascii() and name.isdigit():
            raise self._unsupported(f"the back reference \\{name}")
        if name.isascii() and name.isalpha() and name not in _CONTROLS:
            raise self._unsupported(f"\\{name}")
        self.place += 1
        return character_sets.of(_CONTROLS.get(name, name))

    def _code(self, name: str) -> Ranges:
        digits = self.text[self.place + 1 : self.place + 1 + _HEXADECIMAL[name]]
        if not re.fullmatch(r"[0-9a-fA-F]+", digits) or len(digits) < _HEXADECIMAL[name] or int(digits, 16) > 0x10FFFF:
            raise self._wrong(f"\\{name} needs {_HEXADECIMAL[name]} hexadecimal digits of a character")
        self.place += 1 + len(digits)
        return ((int(digits, 16),) * 2,)


def _without_anchors(tree: Tree, first: bool, last: bool) -> Tree:
    """A tree without the anchors at its ends. `first`, `last`: whether it is at the beginning or the end of the text."""
    if isinstance(tree, Anchor):
        if not (first if tree.name in ("^", r"\A") else last):
            raise UsageError(f"--match: the anchor {tree.name} is not supported inside an expression, only at its ends")
        return EMPTY
    if isinstance(tree, Either):
        return Either(tuple(_without_anchors(option, first, last) for option in tree.options))
    if isinstance(tree, Repeat):
        once = tree.most == 1
        return replace(tree, part=_without_anchors(tree.part, first and once, last and once))
    if isinstance(tree, Ahead):
        return replace(tree, part=_without_anchors(tree.part, False, False))
    if isinstance(tree, Chain):
        places = [place for place, part in enumerate(tree.parts) if not isinstance(part, Anchor)] or [-1]
        return Chain(
            tuple(
                _without_anchors(part, first and place <= places[0], last and place >= places[-1])
                for place, part in enumerate(tree.parts)
            )
        )
    return tree
