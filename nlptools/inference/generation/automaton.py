"""Texts that a regular expression matches, as an automaton over tokens.

The expression becomes a finite automaton over characters (see `machine`), walked byte by byte, so that tokens may end inside a
character. For a state, the states after all tokens are found in one walk over the vocabulary as a trie, level by
level, when the state is first reached (Willard and Louf 2023, arXiv:2307.09702). Shapes: V vocabulary.
"""

from __future__ import annotations

import codecs
import heapq
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from nlptools.configs.generation import Generate
from nlptools.errors import UsageError
from nlptools.inference.generation import character_sets, expressions, machine
from nlptools.inference.generation.budget import Budget
from nlptools.inference.generation.machine import Alphabet, Machine

DEAD, _UNKNOWN = 0, -1  # states: one that no match begins with, and one that is not computed yet
_MOST_TABLES = 512  # states with remembered tokens
_MOST_AUTOMATA = 4  # that are kept for the next texts with the same constraints
FAR = 1 << 30


@lru_cache(_MOST_AUTOMATA)
def automaton(match: str | None, required: tuple[str, ...], banned: tuple[str, ...]) -> TextAutomaton:
    """The automaton of some constraints, see `TextAutomaton`; safe to call from any thread."""
    return TextAutomaton(match, required, banned)


def check(settings: Generate) -> None:
    """Raise what `TextAutomaton` raises for the constraints of `settings`."""
    if settings.constrains_text:
        automaton(settings.match, settings.force_words, settings.ban_words)


class TextAutomaton:
    """An automaton over the bytes of a text.

    Attributes:
        start: the state before the text.
    """

    def __init__(self, match: str | None, required: Sequence[str] = (), banned: Sequence[str] = ()) -> None:
        """Args:
            match: the whole text matches this regular expression; None: any text.
            required: the text contains each of these.
            banned: it contains none of these.

        Raises:
            UsageError: an expression that is invalid, not supported or too large, or no text fulfils all of this.
        """
        self._alphabet, self._machine = _machine(match, required, banned)
        self._distances = _distances(self._alphabet, self._machine)
        # (state of the characters' automaton, bytes of a character)
        self._states: list[tuple[int | None, bytes]] = [(None, b"")]
        self._numbers: dict[tuple[int | None, bytes], int] = {}
        self._table = np.zeros((1, 256), np.int32)
        self._needs = np.full(1, FAR, np.int64)
        self.start = self._number(0, b"")
        if self.start == DEAD:
            raise UsageError("no text fulfils --match, --force-words and --ban-words")

    def accepts(self, state: int) -> bool:
        """Whether a text may end in this state."""
        inner, part = self._states[state]
        return not part and inner in self._machine.finals

    def needs(self, states: np.ndarray) -> np.ndarray:
        """The fewest bytes until a text may end, for each of some states."""
        needs: np.ndarray = self._needs[states]
        return needs

    def steps(self, states: np.ndarray, values: np.ndarray) -> np.ndarray:
        """The state after each of `states` and a byte."""
        after: np.ndarray = self._table[states, values]
        if (unknown := after == _UNKNOWN).any():
            for state, value in {*zip(states[unknown].tolist(), values[unknown].tolist(), strict=True)}:
                number = self._step(state, value)  # may enlarge the table
                self._table[state, value] = number
            after = self._table[states, values]
        return after

    def _number(self, inner: int | None, part: bytes) -> int:
        """The number of a state."""
        needed = self._needed(inner, part)
        if needed == FAR:
            return DEAD
        key = (inner, part)
        if key not in self._numbers:
            self._numbers[key] = len(self._states)
            self._states.append(key)
            if len(self._states) > len(self._table):
                more = len(self._table)
                self._table = np.concatenate([self._table, np.full((more, 256), _UNKNOWN, np.int32)])
                self._needs = np.concatenate([self._needs, np.full(more, FAR, np.int64)])
            self._needs[self._numbers[key]] = needed
        return self._numbers[key]

    def _step(self, state: int, value: int) -> int:
        inner, part = self._states[state]
        data = part + bytes([value])
        if (
            data[0] == 0xED and len(data) == 2 and value >= 0xA0
        ):  # a surrogate, which the decoder only refuses as a whole
            return DEAD
        try:
            character = codecs.getincrementaldecoder("utf-8")().decode(data)
        except UnicodeDecodeError:
            return DEAD
        return self._number(self._after(inner, character), b"") if character else self._number(inner, data)

    def _after(self, inner: int | None, character: str) -> int | None:
        symbol = self._alphabet.symbol(character)
        return None if inner is None or symbol is None else self._machine.steps[inner].get(symbol)

    def _needed(self, inner: int | None, part: bytes) -> int:
        """The fewest bytes from a state to the end of a text; `FAR` if it leads to none."""
        if inner is None:
            return FAR
        if not part:
            return self._distances.get(inner, FAR)
        begun, nearest = character_sets.beginning_with(part), FAR
        for symbol, after in self._machine.steps[inner].items():
            distance = self._distances.get(after, FAR)
            if distance < nearest and character_sets.both(self._alphabet.ranges[symbol], begun):
                nearest = distance
        return nearest if nearest == FAR else nearest + _length(part[0]) - len(part)


class Trie:
    """The bytes that the tokens of a vocabulary add to a text, as a trie.

    Args:
        pieces: the bytes of each token; tokens without any are never matched.
    """

    def __init__(self, pieces: Sequence[bytes]) -> None:
        nodes: dict[bytes, int] = {b"": 0}
        levels: dict[int, list[tuple[int, int]]] = {}  # (parent, byte) of the nodes at each depth
        for prefix in sorted({piece[:n] for piece in pieces for n in range(1, len(piece) + 1)}, key=len):
            nodes[prefix] = len(nodes)
            levels.setdefault(len(prefix), []).append((nodes[prefix[:-1]], prefix[-1]))
        self.levels = [np.array(levels[depth]).T for depth in sorted(levels)]
        self.nodes = np.array([nodes[piece] for piece in pieces])  # (V,)
        spelled = set(pieces)
        self.has_all_bytes = all(bytes([value]) in spelled for value in range(256))


class TokenAutomaton:
    """An automaton over the tokens of a vocabulary."""

    def __init__(self, text: TextAutomaton, trie: Trie, stop: Callable[[], bool] | None = None) -> None:
        """`stop`: whether the client has left; a search for the end of a text then raises TimeoutError."""
        self.text, self.trie, self.stop = text, trie, stop
        self._tables: dict[int, np.ndarray] = {}
        self._distances: dict[int, int] = {}  # the fewest tokens from each state, unless the vocabulary has all bytes

    def after(self, state: int) -> np.ndarray:
        """(V,) the state after each token; `DEAD` for one that no match begins with."""
        if state not in self._tables:
            if len(self._tables) >= _MOST_TABLES:
                self._tables.clear()
            every = np.array([state])
            for parents, values in self.trie.levels:
                every = np.concatenate([every, self.text.steps(every[parents], values)])
            every[0] = DEAD
            self._tables[state] = every[self.trie.nodes]
        return self._tables[state]

    def needs(self, states: np.ndarray) -> np.ndarray:
        """The fewest tokens until a text may end, for each of some states; very many if it cannot.

        With all bytes in the vocabulary, bytes are counted, which are an upper bound; else all states that tokens lead to are
        explored.
        """
        if self.trie.has_all_bytes:
            return self.text.needs(states)
        distinct = np.unique(states)
        if any(state not in self._distances for state in distinct.tolist()):
            self._explore(distinct.tolist())
        nearest = np.array([self._distances[state] for state in distinct.tolist()])
        return nearest[np.searchsorted(distinct, states)]

    def _explore(self, begin: Sequence[int]) -> None:
        """Find the distances of some states, and of all that tokens lead to from them."""
        before: dict[int, list[int]] = {}
        reached, waiting = {DEAD, *begin}, [state for state in begin if state != DEAD]
        while waiting:
            state = waiting.pop()
            if self.stop is not None and self.stop():
                raise TimeoutError
            for after in np.unique(self.after(state)).tolist():
                before.setdefault(after, []).append(state)
                if after not in reached:
                    reached.add(after)
                    waiting.append(after)
        self._distances.update(dict.fromkeys(reached, FAR))
        level = [state for state in reached if state != DEAD and self.text.accepts(state)]
        distance = 0
        while level:
            self._distances.update(dict.fromkeys(level, distance))
            sources = {source for state in level for source in before.get(state, ())}
            level, distance = [source for source in sources if self._distances[source] == FAR], distance + 1


def _length(first: int) -> int:
    """Bytes of a character in UTF-8, given the first; 0: no character begins like this."""
    return (
        1 if first < 0x80 else 0 if first < 0xC2 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4 * (first < 0xF5)
    )


def _machine(match: str | None, required: Sequence[str], banned: Sequence[str]) -> tuple[Alphabet, Machine]:
    """The automaton over characters."""
    budget = Budget()
    tree = None if match is None else expressions.parse(match, budget)
    texts = sorted({*required, *banned})
    if any("\ud800" <= c <= "\udfff" for text in texts for c in text):
        raise UsageError("--force-words and --ban-words: a text holds half a surrogate pair")
    budget.spend(sum(map(len, texts)))
    sets = [] if tree is None else list(machine.character_sets_of(tree))
    alphabet = Alphabet([*sets, *(character_sets.of(c) for c in sorted({c for text in texts for c in text}))], budget)
    parts = [machine.anything(alphabet) if tree is None else machine.matching(tree, alphabet, budget)]
    parts += [machine.containing(text, alphabet, budget) for text in dict.fromkeys(required)]
    if banned:
        parts.append(machine.without(banned, alphabet, budget))
    return alphabet, machine.intersection(parts, budget)


def _distances(alphabet: Alphabet, automaton: Machine) -> dict[int, int]:
    """The fewest bytes from each state to the end of a text; states that lead to none are left out."""
    bytes_of = [character_sets.utf8_length(ranges) for ranges in alphabet.ranges]
    before: dict[int, list[tuple[int, int]]] = {}
    for state, row in enumerate(automaton.steps):
        for symbol, target in row.items():
            before.setdefault(target, []).append((state, bytes_of[symbol]))
    distances: dict[int, int] = {}
    queue = [(0, state) for state in sorted(automaton.finals)]
    while queue:
        distance, state = heapq.heappop(queue)
        if state in distances:
            continue
        distances[state] = distance
        for source, length in before.get(state, ()):
            if source not in distances:
                heapq.heappush(queue, (distance + length, source))
    return distances
