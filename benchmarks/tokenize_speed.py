"""Tokenization: speed compared with SentencePiece.

    python benchmarks/tokenize_speed.py [TEXT] [--lines 200000] [--threads 2] [--rounds 5]

Trains a unigram model on the text (without TEXT: CPython's help topics, repeated) and measures in turns:
  package   sentencepiece's encode of all lines, a list already in memory, to lists of numbers; nothing is written
  in process our whole path: read the file, encode, write the ids as text to /dev/null
  command   the same by `nlptools tokenize`, start of Python included
Prints tokens per second of wall clock; ours do more, as they write the ids.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

import sentencepiece
import side_by_side

from nlptools.configs.text import BuildVocab, Tokenize
from nlptools.files import streams
from nlptools.text import tokenization


def main() -> None:
    """Measure and report."""
    options = side_by_side.options(__doc__, "text?", lines=200_000, threads=os.cpu_count(), rounds=5, size=8000)
    with tempfile.TemporaryDirectory() as directory:
        text, model = Path(directory, "text.txt"), Path(directory, "m.model")
        lines = some_lines(options.text, options.lines)
        text.write_text("\n".join(lines) + "\n", encoding="utf-8")
        tokenization.build_vocab(
            [str(text)], BuildVocab(kind="unigram", size=options.size, output=str(model), max_lines=20_000)
        )
        report(lines, text, model, options)


def some_lines(path: str | None, count: int) -> list[str]:
    """`count` lines of the file, or of CPython's help topics, repeated as needed."""
    if path is None:
        from pydoc_data.topics import topics

        found = [line.strip() for topic in topics.values() for line in topic.split("\n") if line.strip()]
    else:
        found = list(streams.lines(path))
    return (found * (count // len(found) + 1))[:count]


def report(lines: list[str], text: Path, model: Path, options: argparse.Namespace) -> None:
    """Alternate the contestants and print their medians."""
    package = sentencepiece.SentencePieceProcessor(model_file=str(model))
    settings = Tokenize(tokenizer=str(model), to="ids", threads=options.threads)
    threads = ["--threads", str(options.threads)]
    command = [sys.executable, "-m", "nlptools", "tokenize", "-t", str(model), "--to", "ids", *threads, str(text)]

    def in_process() -> None:
        with open(os.devnull, "wb") as sink:
            for block in tokenization.tokenize_files([str(text)], settings):
                sink.write(block.encode() + b"\n")

    script = (
        "import sys, sentencepiece as s;"
        "p = s.SentencePieceProcessor(model_file=sys.argv[1]);"
        "rows = p.encode(open(sys.argv[2], encoding='utf-8').read().split(chr(10)), num_threads=int(sys.argv[3]));"
        "print(len(rows))"
    )
    theirs = [sys.executable, "-c", script, str(model), str(text), str(options.threads)]
    contestants = {
        "sentencepiece's encode, in process": lambda: package.encode(lines, num_threads=options.threads),
        "nlptools, in process, ids written": in_process,
        "sentencepiece in a script that prints no ids": lambda: subprocess.run(
            theirs, stdout=subprocess.DEVNULL, check=True
        ),
        "nlptools tokenize --to ids, whole process": lambda: subprocess.run(
            command, stdout=subprocess.DEVNULL, check=True
        ),
    }
    tokens = sum(map(len, package.encode(lines, num_threads=options.threads)))
    print(f"{platform.platform()}, sentencepiece {sentencepiece.__version__}, {options.threads} threads")
    measures: dict[str, side_by_side.Measure] = {
        name: lambda job=job: tokens / side_by_side.seconds(job) / 1e6  # type: ignore[misc]
        for name, job in contestants.items()
    }
    title = f"unigram model of {options.size:,} pieces, {len(lines):,} lines, {options.threads} threads"
    side_by_side.compare(title, "M tokens/s", measures, options.rounds)


if __name__ == "__main__":
    main()
