"""Tokenization: speed compared with SentencePiece.

    python benchmarks/tokenize_speed.py [TEXT] [--lines 200000] [--size 8000] [--threads 2] [--rounds 5]

A unigram model is learned from the text (without TEXT: CPython's help topics, repeated). In a process: sentencepiece's encode
of all lines, a list in memory, to lists of numbers; ours reads the file, encodes, and writes the ids as text to /dev/null.
Whole commands: `nlptools tokenize --to ids`, and a script that encodes the file with sentencepiece and prints no ids.
"""

from __future__ import annotations

import itertools
import os
import sys

import samples
from side_by_side import Command, bench, nlptools, ours, read, write

SCRIPT = (
    "import sys, sentencepiece as s;"
    "p = s.SentencePieceProcessor(model_file=sys.argv[1]);"
    "rows = p.encode(open(sys.argv[2], encoding='utf-8').read().split(chr(10)), num_threads=int(sys.argv[3]));"
    "print(len(rows))"
)


def main() -> None:
    with bench(__doc__, "/text?", lines=200_000, size=8000, rounds=5) as run:
        import sentencepiece

        from nlptools.configs.text import Tokenize
        from nlptools.text import tokenization

        chosen = run.options
        found = read(chosen.text) if chosen.text else samples.help_topics()
        lines = [*itertools.islice(itertools.cycle(found), chosen.lines)]
        text, model = write(run.folder / "text.txt", lines), run.folder / "m.model"
        how = ("--kind", "unigram", "--size", chosen.size, "--max-lines", 20_000)
        nlptools("build-vocab", "-q", *how, "-o", model, text)
        package = sentencepiece.SentencePieceProcessor(model_file=str(model))
        settings = Tokenize(tokenizer=str(model), to="ids", threads=chosen.threads)
        millions = sum(map(len, package.encode(lines, num_threads=chosen.threads))) / 1e6

        def theirs() -> float:
            package.encode(lines, num_threads=chosen.threads)
            return millions

        def in_process() -> float:
            with open(os.devnull, "wb") as sink:
                for block in tokenization.tokenize_files([str(text)], settings):
                    sink.write(block.encode() + b"\n")
            return millions

        script = [sys.executable, "-c", SCRIPT, model, text, chosen.threads]
        command = ours("tokenize", "-t", model, "--to", "ids", "--threads", chosen.threads, text)
        title = f"unigram model of {package.get_piece_size():,} pieces, {len(lines):,} lines, {chosen.threads} threads"
        sides = {"sentencepiece's encode, in process": theirs, "nlptools, in process, ids written": in_process}
        run.compare(title, "M tokens/s", sides)
        processes = {
            "sentencepiece in a script that prints no ids": Command(script, millions),
            "nlptools tokenize --to ids, whole process": Command(command, millions),
        }
        run.compare(f"{title}: whole processes", "M tokens/s", processes)


if __name__ == "__main__":
    main()
