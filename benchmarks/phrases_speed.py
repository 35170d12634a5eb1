"""Phrases: speed compared with gensim.

    python benchmarks/phrases_speed.py TEXT [--lines 20000] [--rounds 3] [--connectors]

Both sides learn from the first lines of a file of tokens, join them, and give the text, which must be the same (tokens
that hold the delimiter are rewritten). Prints words per second of wall clock, in turns.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import islice

import gensim
import side_by_side
from gensim.models.phrases import Phrases
from side_by_side import compare

from nlptools import __version__
from nlptools.configs.sequences import ENGLISH
from nlptools.files import streams
from nlptools.files.streams import LineBlock
from nlptools.sequences.phrases import Rule, learn_and_join


def main() -> None:
    """Measure and report."""
    options = side_by_side.options(__doc__, "text", lines=20_000, rounds=3, connectors=False)
    lines = [line.replace("_", "-") for line in islice(streams.lines(options.text), options.lines)]
    connectors = ENGLISH if options.connectors else ()
    words = sum(len(line.split()) for line in lines)

    def theirs() -> str:
        sentences = [[word for word in line.split(" ") if word] for line in lines]
        model = Phrases(sentences, connector_words=frozenset(connectors)).freeze()
        return "".join(" ".join(model[sentence] if sentence else []) + "\n" for sentence in sentences)

    def ours() -> str:
        blocks = [LineBlock("text", 1 + i, lines[i : i + 4000]) for i in range(0, len(lines), 4000)]
        return "".join(learn_and_join(blocks, Rule(connectors=connectors)))

    assert theirs() == ours()
    print(f"gensim {gensim.__version__}, nlptools {__version__}")

    def speed(job: Callable[[], object]) -> Callable[[], float]:
        def measure() -> float:
            start = time.perf_counter()
            job()
            return words / (time.perf_counter() - start)

        return measure

    title = f"learning and joining phrases in {len(lines)} lines, {words} words"
    compare(title, "words/s", {"gensim": speed(theirs), "nlptools": speed(ours)}, options.rounds)


if __name__ == "__main__":
    main()
