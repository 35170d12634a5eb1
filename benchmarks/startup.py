"""Start-up time compared with Python and click.

    python benchmarks/startup.py [--rounds N]

Whole processes, taking turns.
"""

from __future__ import annotations

import sys
from pathlib import Path

from side_by_side import Command, bench, ours


def main() -> None:
    with bench(__doc__, rounds=15) as run:
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            'python -c "import click"': [sys.executable, "-c", "import click"],
            "nlptools --help": ours("--help"),
            "nlptools --version": ours("--version"),
            "nlptools tokenize --help": ours("tokenize", "--help"),
            "nlptools tokenize -t words (one line)": ours("tokenize", "-t", "words"),
            'python -c "import numpy"': [sys.executable, "-c", "import numpy"],
            "nlptools bleu (one line)": ours("bleu", "/dev/stdin", "-i", "/etc/hostname"),
        }
        sides = {name: Command(command, stdin=Path("/etc/hostname")) for name, command in commands.items()}
        run.compare("from the start of a process to its end", "ms", sides, less=True)


if __name__ == "__main__":
    main()
