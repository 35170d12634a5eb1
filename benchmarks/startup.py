"""Seconds until a help page, a version or a small job is there, beside bare Python and `import click`.

    python benchmarks/startup.py [--rounds N]

Whole processes, taking turns.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
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
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            with open("/etc/hostname", "rb") as text:
                begin = time.perf_counter()
                subprocess.run(command, stdin=text, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                times[name].append(time.perf_counter() - begin)
    click = statistics.median(times['python -c "import click"'])
    print(f"start-up, milliseconds (median of {rounds}), and beside importing click")
    for name, values in times.items():
        print(f"  {name:<42} {1000 * statistics.median(values):7.0f}   {statistics.median(values) / click:5.2f}x")


if __name__ == "__main__":
    main()
