"""A bound on the automata of a request: a short expression can need any number of states and steps."""

from __future__ import annotations

from nlptools.errors import UsageError

MOST_STATES = 20_000
_MOST_WORK = 1_000_000  # steps, about a second


class Budget:
    """The remaining steps of the automata of one request."""

    def __init__(self) -> None:
        self.left = _MOST_WORK

    def spend(self, work: int = 1) -> None:
        """Count steps. Raises UsageError when there were too many."""
        self.left -= work
        if self.left < 0:
            raise too_large()


def too_large() -> UsageError:
    return UsageError(
        f"--match, --force-words and --ban-words: the automaton would have more than {MOST_STATES:,} states, or take too long",
        hint="give shorter repetitions, and fewer texts",
    )
