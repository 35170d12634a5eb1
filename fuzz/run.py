"""Fuzz one reader with atheris: python fuzz/run.py TARGET [options of libFuzzer, such as -max_total_time=600].

Inputs that reach more code go to a directory of the temporary directory, not to the corpus: those worth keeping are copied
by hand, with a name that says what they are.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import atheris

with atheris.instrument_imports(include=["nlptools"]):
    from fuzz import targets
    from nlptools import messages


def main(name: str, *options: str) -> None:
    """Fuzz the target until libFuzzer ends."""
    messages.settings.quiet = True
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        # the imports of the reader are instrumented too
        with atheris.instrument_imports(include=["nlptools"]):
            for seed in (targets.CORPUS / name).iterdir():
                targets.run(name, seed.read_bytes(), Path(place))
        found = Path(tempfile.gettempdir(), f"fuzz-{name}")
        found.mkdir(exist_ok=True)
        arguments = [sys.argv[0], str(found), str(targets.CORPUS / name), *options]
        atheris.Setup(arguments, lambda data: targets.run(name, data, Path(place)))
        atheris.Fuzz()


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in targets.TARGETS:
        sys.exit(f"usage: python fuzz/run.py TARGET [OPTION...]; targets: {', '.join(targets.TARGETS)}")
    main(*sys.argv[1:])
