"""Start-up time compared with Python and click.

    python benchmarks/startup.py [--rounds N]

Whole processes, taking turns.
"""

from __future__ import annotations

import subprocess
import sys

import side_by_side


def main() -> None:
    rounds = side_by_side.options(__doc__, rounds=15).rounds
    ours = [sys.executable, "-m", "nlptools"]
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        'python -c "import click"': [sys.executable, "-c", "import click"],
        "nlptools --help": [*ours, "--help"],
        "nlptools --version": [*ours, "--version"],
        "nlptools tokenize --help": [*ours, "tokenize", "--help"],
        "nlptools tokenize -t words (one line)": [*ours, "tokenize", "-t", "words"],
        'python -c "import numpy"': [sys.executable, "-c", "import numpy"],
        "nlptools bleu (one line)": [*ours, "bleu", "/dev/stdin", "-i", "/etc/hostname"],
    }
    measures: dict[str, side_by_side.Measure] = {
        name: lambda command=command: 1000 * side_by_side.seconds(lambda: run(command))  # type: ignore[misc]
        for name, command in commands.items()
    }
    side_by_side.compare("from the start of a process to its end", "ms", measures, rounds, less=True)


def run(command: list[str]) -> None:
    with open("/etc/hostname", "rb") as text:
        subprocess.run(command, stdin=text, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
