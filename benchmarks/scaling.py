"""Cost as work grows: time, memory and disk at 10 MB, 100 MB, 1 GB and 10 GB, compared with the usual tools.

    python benchmarks/scaling.py [--parts growth,ranks,memory] [--sizes 10MB,100MB,1GB,10GB] [--commands tokenize,...]
        [--minutes 35] [--limit 240] [--stream-seconds 75] [--peer-python PYTHON] [--threads N] [--keep DIR]

Each side is a whole process with an empty folder. Its memory is that of all processes that it starts. Small sizes come first, and
at each size nlptools comes before the other tools. What is recorded already for this state of the package is skipped. So is a
side that would take longer than --limit seconds, or than what is left of --minutes, as its two last sizes predict. --peer-python
is another Python, with packages that this one lacks. Parts:

    growth    commands on text of so many bytes, `neighbors` on so many rows
    ranks     a step of `train-lm` by 1 and 2 processes, of the same global batch
    memory    filters whose input is a stream: the memory for 2 GB, or for what --stream-seconds allow, compared with that for the
              smallest size

The text is made of invented words, as frequent as Zipf's law says, with ever new ones, as Heaps' law says. 10 GB are 1 GB ten
times.
"""

from __future__ import annotations

import functools
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import page
import process_trees
import records
import samples
import scaling_page
from neighbors_speed import write_vectors
from scaling_filters import FILTERS, Filter
from side_by_side import Bench, bench, nlptools, write

UNITS = {"GB": 10**9, "MB": 10**6, "KB": 10**3}
LARGEST_TEXT = 10**9  # larger texts are this one, several times
PARTS = ("growth", "ranks", "memory")
QUERIES, DIMENSIONS = 1000, 100  # of `neighbors`
STEPS, STREAM = 30, 2 * 10**9  # of the part `ranks`; bytes of the part `memory`


class Side(NamedTuple):
    """A line for bash, in an empty folder, with the text on standard input; `needs`: a module or a program."""

    line: str
    needs: str = ""


class Work(NamedTuple):
    """A command, and the usual tool.

    Attributes:
        sides: by name.
        share: the part of a size that its text has.
        streams: reads more than 1 GB.
        rows: how many rows of vectors it has for each MB of the size; 0: it reads text.
    """

    sides: Mapping[str, Side]
    share: float = 1
    streams: bool = False
    rows: int = 0


def peer(call: str, needs: str = "") -> Side:
    """A function of `scaling_peers`."""
    return Side(f"{{peer}} -c 'import scaling_peers; scaling_peers.{call}'", needs or call.partition("(")[0])


WORKS = {
    "tokenize": Work({
        "nlptools": Side("{nlptools} tokenize -q -t words -o out"),
        "NLTK": peer("nltk()"),
    }, streams=True),
    "build-vocab": Work({
        "nlptools": Side("{nlptools} build-vocab -q -o out"),
        "tr, sort and uniq": Side("tr -s ' ' '\\n' | sort -T . | uniq -c | sort -T . -rn > out", "sort"),
    }, streams=True),
    "train-lm --arch ngram": Work({
        "nlptools": Side("{nlptools} train-lm -q --arch ngram -t whitespace -o out {text}"),
        "lmplz": Side("lmplz -o 5 -S 50% -T . < {text} > out", "lmplz"),
    }),
    "train-w2v": Work({
        "nlptools": Side("{nlptools} train-w2v -q --model cbow --dim 50 --epochs 1 -o out.bin {text}"),
        "gensim": peer('gensim("{text}", {threads})'),
    }),
    "neighbors": Work({
        "nlptools": Side("{nlptools} neighbors -q {vectors}.bin {queries} -o out"),
        "NumPy": peer('numpy("{vectors}.npy", "{queries}")'),
        "hnswlib": peer('hnswlib("{vectors}.npy", "{queries}")'),
    }, rows=1000),
    "bleu": Work({
        "nlptools": Side("{nlptools} bleu -q {reference} > out"),
        "sacrebleu": Side("{python} -m sacrebleu {reference} > out", "sacrebleu"),
    }, share=0.5),
    "tokenize --to ids": Work({
        "nlptools": Side("{nlptools} tokenize -q -t {pieces} --to ids -o out"),
        "SentencePiece": peer('sentencepiece("{pieces}")'),
    }, streams=True),
    "embed": Work({
        "nlptools": Side("{nlptools} embed -q {bert} -o out.npy"),
        "sentence-transformers": peer('sentence_transformers("{bert}")'),
    }, share=0.1),
}  # fmt: skip


def main() -> None:
    defaults = {"sizes": "10MB,100MB,1GB,10GB", "minutes": 35.0, "limit": 240.0, "stream_seconds": 75.0}
    with bench(__doc__, parts=PARTS, commands=WORKS, peer_python=sys.executable, **defaults) as run:
        Measuring(run, Inputs(run.folder, run.options.threads, run.options.peer_python)).go()


def amount(text: str) -> int:
    """The bytes of a size such as 10MB."""
    return int(float(text[:-2]) * UNITS[text[-2:].upper()])


# -- inputs -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Inputs:
    """Texts and models, made when they are first needed."""

    folder: Path
    threads: int
    peer_python: str

    def text(self, size: int) -> Path:
        path = self.folder / f"text{size}"
        return path if path.exists() else samples.growing_text(path, size)

    def reference(self, size: int) -> Path:
        """The text without every seventh word."""
        path = self.folder / f"reference{size}"
        if not path.exists():
            with self.text(size).open() as source, path.open("w") as out:
                for line in source:
                    words = line.split(" ")
                    del words[6:-1:7]
                    out.write(" ".join(words))
        return path

    def vectors(self, rows: int) -> Path:
        """Random vectors in word2vec's binary format and as an array; without the suffix."""
        path = self.folder / f"vectors{rows}"
        if not path.with_suffix(".npy").exists():
            write_vectors(path.with_suffix(".bin"), rows, DIMENSIONS, path.with_suffix(".npy"))
        return path

    def queries(self, rows: int) -> Path:
        numbers = (i * 7919 % rows for i in range(QUERIES))
        return write(self.folder / f"queries{rows}", [f"w{i}" + "x" * (i * 7 % 9) for i in numbers])

    @functools.cached_property
    def pieces(self) -> Path:
        path = self.folder / "pieces.model"
        if not path.exists():
            text = self.text(10**6)
            nlptools("build-vocab", "-q", "--kind", "unigram", "--size", 4000, "-o", path.with_suffix(""), text)
        return path

    @functools.cached_property
    def bert(self) -> Path:
        """An encoder of 2 layers of 128 dimensions, with random weights."""
        path = self.folder / "bert"
        return path if path.exists() else samples.bert(path, self.text(10**6), 2, 128, 8000)

    @functools.cached_property
    def ngrams(self) -> Path:
        path = self.folder / "ngrams"
        if not path.exists():
            nlptools(
                "train-lm", "-q", "--arch", "ngram", "--order", 3, "-t", "whitespace", "-o", path, self.text(10**6)
            )
        return path

    @functools.cached_property
    def phrases(self) -> Path:
        path = self.folder / "phrases.tsv"
        if not path.exists():
            nlptools("phrases", "-q", "--save", path, "-o", self.folder / "joined", self.text(10**6))
        return path

    def words(self) -> dict[str, str]:
        """Of lines for bash: programs, and `threads`."""
        python = shlex.quote(sys.executable)
        return {
            "python": python,
            "nlptools": f"{python} -m nlptools",
            "peer": shlex.quote(self.peer_python),
            "threads": str(self.threads),
        }


# -- measuring --------------------------------------------------------------------------------------------------------


class Measuring:
    """Measures what is not recorded and fits into the time."""

    def __init__(self, run: Bench, inputs: Inputs) -> None:
        self.options, self.inputs = run.options, inputs
        self.end = time.monotonic() + 60 * run.options.minutes
        place = os.environ.get(records.OUTPUT)
        self.known = [row for row in page.rows_of(Path(place)) if page.is_present(row)] if place else []
        # each side works in a folder of its own
        os.environ["PYTHONPATH"] = f"{records.FOLDER.parent}{os.pathsep}{records.FOLDER}"

    def go(self) -> None:
        """Measure the parts: two sizes, ranks, the next size, memory, and what is left."""
        sizes = sorted(map(amount, self.options.sizes.split(",")))
        growth = [functools.partial(self.growth, size, ours=ours) for size in sizes for ours in (True, False)]
        ranks, memory = [self.ranks], [functools.partial(self.memory, sizes[0])]
        begin, middle, end = growth[:3], growth[3:5], growth[5:]
        in_turn = ("growth", begin), ("ranks", ranks), ("growth", middle), ("memory", memory), ("growth", end)
        for part, steps in in_turn:
            for measure in steps if part in self.options.parts else ():
                measure()

    def growth(self, size: int, *, ours: bool) -> None:
        """Measure the commands at a size: our sides, or the other ones."""
        for name in self.options.commands:
            work = WORKS[name]
            if size > LARGEST_TEXT and not (work.streams or work.rows):
                continue
            units = min(2_000_000, size * work.rows // 10**6) if work.rows else int(size * work.share)
            for side, how in work.sides.items():
                if (side == "nlptools") == ours and self.is_there(side, how.needs):
                    self.cell(name, side, units, functools.partial(self.line, how.line, units, work))

    def left(self) -> float:
        """The seconds that a side may take."""
        return float(max(0, min(self.options.limit, self.end - time.monotonic())))

    def times(self, job: str, side: str) -> list[tuple[int, float]]:
        """(size, seconds) of what has been measured of a side."""
        return [(row["size"], row["sides"][side]) for row in self.known if row["job"] == job and side in row["sides"]]

    def is_there(self, side: str, needs: str) -> bool:
        """Whether a side is installed."""
        found = not needs or shutil.which(needs) or self._imports(needs)
        if not found:
            print(f"  without {side}: it is not installed", flush=True)
        return bool(found)

    @functools.cache  # noqa: B019  one object per run
    def _imports(self, module: str) -> bool:
        return not subprocess.run([self.inputs.peer_python, "-c", f"import {module}"], capture_output=True).returncode

    def line(self, line: str, size: int, work: Work) -> str:
        """The line with its words filled in; makes its inputs."""
        known, inputs = self.inputs.words(), self.inputs
        if work.rows:
            return line.format(**known, vectors=inputs.vectors(size), queries=inputs.queries(size))
        part = min(size, LARGEST_TEXT)
        known["text"] = str(inputs.text(part))
        for name in ("pieces", "bert"):
            known |= {name: str(getattr(inputs, name))} if f"{{{name}}}" in line else {}
        known |= {"reference": str(inputs.reference(part))} if "{reference}" in line else {}
        fed = " ".join(["cat", *[known["text"]] * (size // part)])
        return line.format(**known) if "{text}" in line else f"{fed} | {line.format(**known)}"

    def cell(self, job: str, side: str, size: int, line: functools.partial[str]) -> None:
        """Measure one side at one size, and record it."""
        title = f"{job}, {side}, {size:,}"
        done = self.times(job, side)
        if size in dict(done):
            print(f"{title}: measured already", flush=True)
            return
        left, expected = self.left(), scaling_page.predicted(done, size)
        if expected > left:
            print(f"{title}: skipped, {expected:,.0f} s expected, {left:,.0f} s left", flush=True)
            return
        with tempfile.TemporaryDirectory(dir=self.inputs.folder) as folder:
            words = ["bash", "-c", f"set -o pipefail; {line()}"]
            try:
                cost = process_trees.cost(words, Path(folder), left)
            except process_trees.Failed as failed:
                print(f"{title}: {failed}", flush=True)
                return
        print(f"{title}: {cost.seconds:,.1f} s, {cost.memory:,.0f} MiB ({cost.mapped:,.0f} with mapped files), "
              f"{cost.disk:,.0f} MiB of disk", flush=True)  # fmt: skip
        more = {"size": size, "memory": cost.memory, "mapped": cost.mapped, "disk": cost.disk}
        records.record(job, "s", {side: cost.seconds}, less=True, more=more)
        self.known.append({"job": job, "sides": {side: cost.seconds}, **more})

    def memory(self, small: int) -> None:
        """Measure the filters on short streams, and on one of 2 GB, or of what they read in --stream-seconds."""
        for name, how in FILTERS.items():
            job = f"memory of {name}"
            for size in (small, 10 * small):
                self.cell(job, "nlptools", size, functools.partial(self.fed, how, size, small))
            times, longest = self.times(job, "nlptools"), min(self.left(), self.options.stream_seconds)
            many = STREAM // small
            while many > 20 and scaling_page.predicted(times, many * small) > longest:
                many = many * 9 // 10
            if len(times) == 2:
                size = many * small
                self.cell(job, "nlptools", size, functools.partial(self.fed, how, size, small))

    def fed(self, how: Filter, size: int, block: int) -> str:
        """A filter whose input is a text of `block` bytes, again and again."""
        known = self.inputs.words() | {"text": str(self.inputs.text(block))}
        for name in ("pieces", "ngrams", "phrases"):
            known |= {name: str(getattr(self.inputs, name))} if f"{{{name}}}" in how.line else {}
        if "{vectors}" in how.line:
            known["vectors"] = str(self.inputs.vectors(10_000))
        many = f"cat {known['text']}{how.change}"
        fed = f"for i in $(seq {size // block}); do {many}; done"
        return f"{{ {fed}; }} | {how.line.format(**known, again=fed)} > /dev/null"

    def ranks(self) -> None:
        """Measure steps of a small language model by 1 and 2 processes."""
        launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
        sides = {
            "alone": [sys.executable],
            "torchrun, 1 process": [*launch, "1"],
            "torchrun, 2 processes": [*launch, "2"],
        }
        if any(row["job"] == "ranks" for row in self.known):
            print("ranks: measured already", flush=True)
            return
        try:
            found = {f"nlptools, {name}": self._step(words) for name, words in sides.items()}
        except process_trees.Failed as failed:
            print(f"ranks: {failed}", flush=True)
            return
        print(", ".join(f"{name}: {value:,.0f} ms a step" for name, value in found.items()), flush=True)
        records.record("ranks", "ms", found, less=True, rounds=STEPS - 10, more={"size": 16 * 256})

    def _step(self, words: list[str]) -> float:
        """Milliseconds of a step, after the first ten."""
        how = "-q -t bytes --layers 4 --hidden 256 --heads 4 --context 256 --global-batch 16 --batch-size 8 --log-every 10"
        command = [*words, "-m", "nlptools", "train-lm", *how.split(), "--steps", str(STEPS), "--threads", "1"]
        with tempfile.TemporaryDirectory(dir=self.inputs.folder) as folder:
            text = self.inputs.text(10**6)
            process_trees.cost([*command, "-o", "lm", str(text)], Path(folder), self.left())
            rows = [json.loads(row) for row in Path(folder, "lm", "log.jsonl").read_text().split("\n") if row]
        times = [(row["step"], row["seconds"]) for row in rows if row["kind"] == "train"]
        (first, begin), (last, end) = times[0], times[-1]
        return float(1000 * (end - begin) / (last - first))


if __name__ == "__main__":
    main()
