"""Speed of `tokenize --to ids` against the sentencepiece package's own batch encode.

    python benchmarks/tokenize_speed.py [TEXT] [--lines 200000] [--threads 2] [--rounds 5]

Trains a unigram model on the text (without TEXT: CPython's help topics, repeated) and measures in turns:
  package   sentencepiece's encode of all lines, a list already in memory, to lists of numbers; nothing is written
  in process our whole path: read the file, encode, write the ids as text to /dev/null
  command   the same by `nlptools tokenize`, start of Python included
Prints medians of wall-clock seconds and the ratio package / ours: above 1 we are faster, although we do more.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import sentencepiece

from nlptools import __version__
from nlptools.configs.text import BuildVocab, Tokenize
from nlptools.files import streams
from nlptools.text import tokenization


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("text", nargs="?")
    parser.add_argument("--lines", type=int, default=200_000)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", type=int, default=8000)
    options = parser.parse_args()
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
        "package's encode, in process": lambda: package.encode(lines, num_threads=options.threads),
        "nlptools, in process, ids written": in_process,
        "a script that encodes the file and prints no ids": lambda: subprocess.run(
            theirs, stdout=subprocess.DEVNULL, check=True
        ),
        "nlptools tokenize --to ids, the whole command": lambda: subprocess.run(
            command, stdout=subprocess.DEVNULL, check=True
        ),
    }
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(options.rounds):
        for name, run in contestants.items():
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    tokens = sum(map(len, package.encode(lines, num_threads=options.threads)))
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, {platform.platform()}")
    print(f"Python {platform.python_version()}, sentencepiece {sentencepiece.__version__}, nlptools {__version__}")
    print(f"{len(lines)} lines, {tokens} tokens, {options.threads} threads, median of {options.rounds}")
    base = statistics.median(seconds["package's encode, in process"])
    for name, times in seconds.items():
        median = statistics.median(times)
        print(f"{name:50}  {median:7.3f} s  {tokens / median / 1e6:6.2f} M tokens/s  ratio {base / median:.2f}")


if __name__ == "__main__":
    main()
