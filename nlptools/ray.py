"""Commands as jobs on the machines of a Ray cluster: `embed`, `predict`, `generate`, `score`, `tokenize` (extra `ray`).

    counts = nlptools.ray.embed(["corpus.jsonl"], "vectors", "all-MiniLM-L6-v2", job=RayJob(workers=8, to="parquet"))

All machines see the files under the same names. Actors with one model each compute parts of the inputs: `part-000000.jsonl`, a
record per row in order, and then `part-000000.json`, the counts. Incomplete parts are computed again, also when a job is started
again. A row that cannot be read or computed has the key `error`. Other failures end the job.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cache, partial
from itertools import accumulate
from pathlib import Path

from nlptools.configs import Compute
from nlptools.configs.embed import Embed
from nlptools.configs.finetuning import Predict
from nlptools.configs.generation import Generate
from nlptools.configs.scoring import Score
from nlptools.configs.text import Tokenize
from nlptools.corpora.row_outputs import RowOutput
from nlptools.corpora.row_parts import RowParts
from nlptools.errors import NlptoolsError, Unavailable
from nlptools.inference import row_filters
from nlptools.inference.row_filters import RowFilter

Inputs = Sequence[str]  # names of files


@dataclass(frozen=True)
class RayJob:
    """How a job reads, computes and writes.

    Attributes:
        columns: the keys of the text in JSON lines and Parquet; several are joined by tabs, as fields of a table.
        to: the format of the output, "jsonl" or "parquet".
        workers: number of actors, with `cpus` cores and `gpus` GPUs (perhaps a fraction) each.
        part_bytes: size of a part of text or JSON lines; a part of Parquet is a row group.
        seed: of `generate`.
    """

    columns: tuple[str, ...] = ("text",)
    to: str = "jsonl"
    workers: int = 2
    cpus: int = 1
    gpus: float = 0
    part_bytes: int = 1 << 22
    seed: int = 1
    compute: Compute = field(default_factory=Compute)


JOB = RayJob()


@dataclass(frozen=True)
class RowCounts:
    """Rows of the output, rows among them with an error, and parts; `skipped`: parts that were complete before."""

    rows: int
    errors: int
    parts: int
    skipped: int


def embed(inputs: Inputs, output: str, model: str, settings: Embed | None = None, job: RayJob = JOB) -> RowCounts:
    """Add the key `embedding`. Inputs are text, JSON lines (.jsonl) or Parquet (.parquet); `output` is a directory.

    Raises:
        UsageError, InputError, DataError: the inputs cannot be read.
        OutputError: the directory holds something else, or the output of another job.
        Unavailable: Ray is not installed.
    """
    return _run(partial(row_filters.embedder, model, settings or Embed(), job.compute), inputs, output, job)


def predict(inputs: Inputs, output: str, model: str, settings: Predict | None = None, job: RayJob = JOB) -> RowCounts:
    """Add the key `prediction`, the line that the command writes. See `embed`."""
    return _run(partial(row_filters.predictor, model, settings or Predict(), job.compute), inputs, output, job)


def generate(inputs: Inputs, output: str, model: str, settings: Generate | None = None, job: RayJob = JOB) -> RowCounts:
    """Add the key `generated`, a list of texts, as the command writes for lines of the same numbers. See `embed`."""
    load = partial(row_filters.generator, model, settings or Generate(), job.compute, job.seed)
    return _run(load, inputs, output, job, numbered=True)


def score(inputs: Inputs, output: str, model: str, settings: Score | None = None, job: RayJob = JOB) -> RowCounts:
    """Add the keys `logprob`, in nats, null for probability 0, and `tokens`, their number. See `embed`."""
    return _run(partial(row_filters.scorer, model, settings or Score(), job.compute), inputs, output, job)


def tokenize(inputs: Inputs, output: str, settings: Tokenize | None = None, job: RayJob = JOB) -> RowCounts:
    """Add the key `tokens`: tokens or ids, separated by spaces. See `embed`."""
    chosen = settings or Tokenize()
    return _run(partial(row_filters.tokenizer, chosen), inputs, output, job, chosen.sample is not None)


def _run(load: partial[RowFilter], inputs: Inputs, output: str, job: RayJob, numbered: bool = False) -> RowCounts:
    """`numbered`: the filter needs the numbers of rows, for which text is read once more."""
    try:
        import ray.data
    except ImportError:
        raise Unavailable("jobs need the ray package", extra="ray") from None
    parts, out = RowParts.of(inputs, job.columns, job.part_bytes), RowOutput(Path(output), job.to)
    arguments = [part if isinstance(part, str | int) else asdict(part) for part in load.args]
    out.claim({"filter": load.func.__name__, "arguments": arguments, **parts.describe()})
    missing = [part for part in range(parts.parts) if out.counts(part) is None]
    if missing:
        firsts = [0, *accumulate(parts.count(part) for part in range(missing[-1]))] if numbered else [0] * parts.parts
        items = [{"part": part, "first": firsts[part]} for part in missing]
        # when an actor dies, its block is repeated as a whole, but for the complete parts
        blocks = ray.data.from_items(items, override_num_blocks=min(len(items), 16 * job.workers))
        done = blocks.map_batches(
            _Actor,
            fn_constructor_args=(load, parts, out, os.getcwd()),
            batch_size=1,
            compute=ray.data.ActorPoolStrategy(size=min(job.workers, len(missing))),
            num_cpus=job.cpus,
            num_gpus=job.gpus or None,
        )
        for row in done.iter_rows():
            if row["failure"]:
                failure = NlptoolsError(row["failure"])
                failure.exit_code = row["code"]
                raise failure
    rows, errors = (sum(column) for column in zip((0, 0), *filter(None, map(out.counts, range(parts.parts)))))
    return RowCounts(rows, errors, parts.parts, parts.parts - len(missing))


class _Actor:
    """Computes parts, one after the other, with one model. `place`: the working directory, for relative names."""

    def __init__(self, load: partial[RowFilter], parts: RowParts, out: RowOutput, place: str) -> None:
        os.chdir(place)
        self.parts, self.out = parts, out
        self.loaded = cache(load)  # in a task: Ray repeats a constructor that fails, for ever

    def __call__(self, batch: dict[str, list[int]]) -> dict[str, list[object]]:
        try:
            for part, first in zip(map(int, batch["part"]), map(int, batch["first"]), strict=True):
                if self.out.counts(part) is None:
                    self.out.write(part, row_filters.filtered(self.loaded(), self.parts.rows(part), first))
        except NlptoolsError as error:  # Ray would show the traceback, and not keep the type
            return {"failure": [str(error)], "code": [error.exit_code]}
        return {"failure": [""], "code": [0]}
