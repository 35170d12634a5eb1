"""Deterministic automata over characters, made of the trees of regular expressions and of texts that are to occur or not.

An expression becomes an automaton with empty steps (Thompson 1968), and that the subsets of its states that characters lead to.
These can be exponentially many, so that states and work are counted, and an expression that needs too many is refused.
Characters that no expression distinguishes are one symbol.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from nlptools.errors import UsageError
from nlptools.inference.generation import character_sets
from nlptools.inference.generation.budget import MOST_STATES, Budget, too_large
from nlptools.inference.generation.character_sets import Ranges
from nlptools.inference.generation.expressions import Ahead, Chain, Characters, Either, Repeat, Tree

_MOST_NODES = 100_000  # of an automaton with empty steps

State = TypeVar("State", bound=Hashable)


class Alphabet:
    """Symbols: the classes of characters that none of some sets distinguishes."""

    def __init__(self, sets: Iterable[Ranges], budget: Budget) -> None:
        different = list(dict.fromkeys([character_sets.EVERY, *sets]))
        self._begins = sorted({edge for ranges in different for low, high in ranges for edge in (low, high + 1)})
        members: list[list[int]] = [
            [] for _ in self._begins
        ]  # the sets that hold the characters from each beginning on
        for number, ranges in enumerate(different):
            for low, high in ranges:
                places = range(bisect_right(self._begins, low) - 1, bisect_right(self._begins, high))
                budget.spend(len(places))
                for place in places:
                    members[place].append(number)
        numbers: dict[tuple[int, ...], int] = {}
        self._symbols = [numbers.setdefault(tuple(each), len(numbers)) if each else None for each in members]
        self.ranges: list[Ranges] = [()] * len(numbers)  # of each symbol
        spans: list[list[tuple[int, int]]] = [[] for _ in numbers]
        ends = [*self._begins[1:], 0]
        for begin, end, symbol in zip(self._begins, ends, self._symbols, strict=True):
            if symbol is not None:
                spans[symbol].append((begin, end - 1))
        self.ranges = [tuple(each) for each in spans]
        self._of: dict[Ranges, list[int]] = {ranges: [] for ranges in different}
        for held, symbol in numbers.items():
            for number in held:
                self._of[different[number]].append(symbol)

    def __len__(self) -> int:
        return len(self.ranges)

    def symbol(self, character: str) -> int | None:
        """The symbol of a character; None for a surrogate."""
        place = bisect_right(self._begins, ord(character)) - 1
        return self._symbols[place] if place >= 0 else None

    def symbols(self, ranges: Ranges) -> list[int]:
        """The symbols of one of the sets that the alphabet was made of."""
        return self._of[ranges]


@dataclass(frozen=True)
class Machine:
    """A deterministic automaton; its states are numbered from 0, the first one."""

    steps: list[dict[int, int]]  # of each state: symbol -> state; no match goes on with a symbol that is left out
    finals: frozenset[int]


def character_sets_of(tree: Tree) -> Iterator[Ranges]:
    """The sets of characters in a tree."""
    if isinstance(tree, Characters):
        yield tree.ranges
    elif isinstance(tree, Repeat | Ahead):
        yield from character_sets_of(tree.part)
    elif isinstance(tree, Chain | Either):
        for part in tree.parts if isinstance(tree, Chain) else tree.options:
            yield from character_sets_of(part)


def matching(tree: Tree, alphabet: Alphabet, budget: Budget) -> Machine:
    """The machine of the texts that match an expression. Raises UsageError."""
    net = _Net(alphabet, budget)
    return net.machine(net.add(tree, net.end), net.end)


def anything(alphabet: Alphabet) -> Machine:
    """The machine of all texts."""
    return Machine([dict.fromkeys(range(len(alphabet)), 0)], frozenset([0]))


def containing(text: str, alphabet: Alphabet, budget: Budget) -> Machine:
    """The machine of the texts that contain a text. Raises UsageError."""
    searched = _Search([text], alphabet, budget)
    (last,) = searched.ends

    def after(state: int) -> Mapping[int, int]:
        return dict.fromkeys(range(len(alphabet)), last) if state == last else searched.after(state)

    return explore(0, after, lambda state: state == last, budget)


def without(texts: Sequence[str], alphabet: Alphabet, budget: Budget) -> Machine:
    """The machine of the texts that contain none of some texts. Raises UsageError."""
    searched = _Search(texts, alphabet, budget)

    def after(state: int) -> Mapping[int, int]:
        return {symbol: node for symbol, node in searched.after(state).items() if node not in searched.ends}

    return explore(0, after, lambda _: True, budget)


def intersection(machines: Sequence[Machine], budget: Budget) -> Machine:
    """The machine of the texts of all of some machines. Raises UsageError."""
    if len(machines) == 1:
        return machines[0]

    def after(state: tuple[int, ...]) -> Mapping[int, tuple[int, ...]]:
        rows = [machine.steps[place] for machine, place in zip(machines, state, strict=True)]
        budget.spend(len(rows) * len(rows[0]))
        return {symbol: tuple(row[symbol] for row in rows) for symbol in rows[0] if all(symbol in row for row in rows)}

    def is_final(state: tuple[int, ...]) -> bool:
        return all(place in machine.finals for machine, place in zip(machines, state, strict=True))

    return explore((0,) * len(machines), after, is_final, budget)


class _Search:
    """The search for some texts at once (Aho and Corasick 1975): a trie with a failure link at each node."""

    def __init__(self, texts: Iterable[str], alphabet: Alphabet, budget: Budget) -> None:
        self.steps: list[dict[int, int]] = [{}]
        self.ends: set[int] = set()  # nodes in which a text has been found
        self._alphabet, self._budget = alphabet, budget
        for text in texts:
            node = 0
            for symbol in map(alphabet.symbol, text):
                budget.spend()
                assert symbol is not None
                if symbol not in self.steps[node]:
                    self.steps[node][symbol] = len(self.steps)
                    self.steps.append({})
                node = self.steps[node][symbol]
            self.ends.add(node)
        self._back = [0] * len(self.steps)  # of each node: the longest end of its text that begins a text
        waiting = list(self.steps[0].values())
        for node in waiting:
            for symbol, child in self.steps[node].items():
                self._back[child] = self._next(self._back[node], symbol)
                if self._back[child] in self.ends:
                    self.ends.add(child)
                waiting.append(child)

    def _next(self, node: int, symbol: int) -> int:
        while node and symbol not in self.steps[node]:
            self._budget.spend()
            node = self._back[node]
        return self.steps[node].get(symbol, 0)

    def after(self, node: int) -> dict[int, int]:
        """The node after each symbol."""
        return {symbol: self._next(node, symbol) for symbol in range(len(self._alphabet))}


class _Net:
    """An automaton with empty steps, built from the end of a text to its beginning."""

    def __init__(self, alphabet: Alphabet, budget: Budget) -> None:
        self.alphabet, self.budget = alphabet, budget
        self.empty: list[list[int]] = []  # of each node: the nodes that empty steps lead to
        self.steps: list[list[tuple[Sequence[int], int]]] = []  # (symbols, node)
        self._closures: dict[int, frozenset[int]] = {}
        self._loops = 0  # the repetitions without a limit around what is added
        self.end = self.node()

    def node(self, *empty: int) -> int:
        """A new node."""
        self.budget.spend()
        if len(self.empty) > _MOST_NODES:
            raise too_large()
        self.empty.append(list(empty))
        self.steps.append([])
        return len(self.empty) - 1

    def add(self, tree: Tree, end: int) -> int:
        """The node from which what matches `tree` leads to `end`."""
        if isinstance(tree, Characters):
            begin = self.node()
            self.steps[begin].append((self.alphabet.symbols(tree.ranges), end))
            return begin
        if isinstance(tree, Either):
            return self.node(*[self.add(option, end) for option in tree.options])
        if isinstance(tree, Repeat):
            return self._repeat(tree, end)
        if isinstance(tree, Ahead):
            return self._ahead(tree, end)
        assert isinstance(tree, Chain)
        for part in reversed(tree.parts):
            end = self.add(part, end)
        return end

    def _repeat(self, tree: Repeat, end: int) -> int:
        begin = end
        if tree.most is None:
            begin = self.node(end)
            self._loops += 1
            self.empty[begin].append(self.add(tree.part, begin))
            self._loops -= 1
        for _ in range((tree.most or tree.least) - tree.least):
            begin = self.node(end, self.add(tree.part, begin))
        for _ in range(tree.least):
            self.budget.spend()
            begin = self.add(tree.part, begin)
        return begin

    def _ahead(self, tree: Ahead, end: int) -> int:
        """The paths from `end` to the end of the text that begin like the tree, or do not."""
        if self._loops:
            raise UsageError("--match: a lookahead inside a repetition without a limit is not supported")
        rest = self.machine(end, self.end)
        more = self.node()
        self.steps[more].append((range(len(self.alphabet)), more))
        begun = self.machine(self.add(tree.part, more), more)
        if tree.negated:
            dead = len(begun.steps)
            symbols = range(len(self.alphabet))
            steps = [{symbol: row.get(symbol, dead) for symbol in symbols} for row in [*begun.steps, {}]]
            self.budget.spend(len(steps) * len(symbols))
            begun = Machine(steps, frozenset(range(len(steps))) - begun.finals)
        kept = intersection([rest, begun], self.budget)
        nodes = [self.node() for _ in kept.steps]
        for place, row in enumerate(kept.steps):
            self.steps[nodes[place]] = [([symbol], nodes[target]) for symbol, target in row.items()]
            if place in kept.finals:
                self.empty[nodes[place]].append(self.end)
        return nodes[0]

    def machine(self, begin: int, end: int) -> Machine:
        """The machine of the texts that lead from one node to another."""

        def after(state: frozenset[int]) -> Mapping[int, frozenset[int]]:
            reached: dict[int, set[int]] = {}
            for node in state:
                for symbols, target in self.steps[node]:
                    closure = self._closure(target)
                    self.budget.spend(len(symbols) * len(closure))
                    for symbol in symbols:
                        reached.setdefault(symbol, set()).update(closure)
            return {symbol: frozenset(nodes) for symbol, nodes in reached.items()}

        return explore(self._closure(begin), after, lambda state: end in state, self.budget)

    def _closure(self, node: int) -> frozenset[int]:
        """The nodes that empty steps lead to from a node, itself included; only those that have steps, or none at all."""
        if node not in self._closures:
            reached, waiting = {node}, [node]
            while waiting:
                here = self.empty[waiting.pop()]
                self.budget.spend(1 + len(here))
                waiting += [each for each in here if each not in reached]
                reached.update(here)
            self._closures[node] = frozenset(each for each in reached if self.steps[each] or not self.empty[each])
        return self._closures[node]


def explore(
    begin: State,
    after: Callable[[State], Mapping[int, State]],
    is_final: Callable[[State], bool],
    budget: Budget,
) -> Machine:
    """The machine of all states that symbols lead to from one. Raises UsageError if they are too many."""
    numbers, states, steps, finals = {begin: 0}, [begin], list[dict[int, int]](), set[int]()
    for state in states:  # which grow meanwhile
        if is_final(state):
            finals.add(len(steps))
        row: dict[int, int] = {}
        for symbol, target in after(state).items():
            budget.spend()
            if target not in numbers:
                if len(states) >= MOST_STATES:
                    raise too_large()
                numbers[target] = len(states)
                states.append(target)
            row[symbol] = numbers[target]
        steps.append(row)
    return Machine(steps, frozenset(finals))
