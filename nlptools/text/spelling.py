"""Words as numbers of their characters, between a mark for the begin and one for the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

PAD, UNKNOWN, BEGIN, END, FIRST = range(5)  # `FIRST`: of the alphabet
MOST_LETTERS = 64  # of a word: of a longer one the characters in its middle are left out
MOST_CHARACTERS = 1 << 14  # of an alphabet


def alphabet(words: Mapping[str, int]) -> str:
    """The characters of words, which occur as often as `words` says, the most frequent first. A character that occurs once is
    unknown, so that a model learns what an unknown character means.
    """
    counts: Counter[str] = Counter()
    for word, count in words.items():
        for character in word:
            counts[character] += count
    kept = sorted((c for c, n in counts.items() if n > 1), key=lambda c: (-counts[c], c))
    return "".join(kept[:MOST_CHARACTERS])


def numbered(alphabet: str) -> dict[str, int]:
    """The number of each character."""
    return {character: number for number, character in enumerate(alphabet, FIRST)}


def spelled(word: str, numbers: Mapping[str, int]) -> list[int]:
    """The numbers of the characters of a word, with its marks."""
    if len(word) > MOST_LETTERS:
        word = word[: MOST_LETTERS // 2] + word[-(MOST_LETTERS // 2) :]
    return [BEGIN, *(numbers.get(character, UNKNOWN) for character in word), END]
