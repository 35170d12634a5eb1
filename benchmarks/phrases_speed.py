"""Phrases: speed compared with gensim.

    NLPTOOLS_DATA=DIR python benchmarks/phrases_speed.py [TEXT] [--lines 20000] [--rounds 3] [--connectors]

Both sides learn from the first lines of a file of tokens (by default novels), join them, and give the text, which must be the
same (tokens that hold the delimiter are rewritten).
"""

from __future__ import annotations

from collections.abc import Mapping

import samples
from side_by_side import bench, read

from nlptools.configs.sequences import ENGLISH
from nlptools.files.streams import LineBlock
from nlptools.sequences.phrases import Rule, learn_and_join


def main() -> None:
    with bench(__doc__, "/text?", lines=20_000, connectors=False) as run:
        source = run.options.text or samples.novels(run.folder / "tokens.txt")
        lines = [line.replace("_", "-") for line in read(source)[: run.options.lines]]
        connectors, words = ENGLISH if run.options.connectors else (), sum(len(line.split()) for line in lines)

        def theirs() -> tuple[int, str]:
            from gensim.models.phrases import Phrases

            sentences = [[word for word in line.split(" ") if word] for line in lines]
            model = Phrases(sentences, connector_words=frozenset(connectors)).freeze()
            return words, "".join(" ".join(model[sentence] if sentence else []) + "\n" for sentence in sentences)

        def ours() -> tuple[int, str]:
            blocks = [LineBlock("text", 1 + i, lines[i : i + 4000]) for i in range(0, len(lines), 4000)]
            return words, "".join(learn_and_join(blocks, Rule(connectors=connectors)))

        title = f"learning and joining phrases in {words / 1e6:.1f} M words"
        run.compare(title, "words/s", {"gensim": theirs, "nlptools": ours}, check=same)


def same(results: Mapping[str, str]) -> str:
    """Whether the texts are the same."""
    return "the same text" if results["gensim"] == results["nlptools"] else "OTHER TEXT"


if __name__ == "__main__":
    main()
