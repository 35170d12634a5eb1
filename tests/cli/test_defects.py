"""Defective inputs for every command: a status of the contract, one line that names the file, no traceback, no lost line.

`bin/test --all` runs every defect of every command; `bin/test` all of the commands that need no model, and a few of the others,
which change with the month.
"""

from __future__ import annotations

import gzip
import re
import shutil
import time
from pathlib import Path
from random import Random

import pytest
from conftest import Finished, Record, within

from nlptools.cli import COMMANDS
from tests.cli.test_shares import place as place  # its fixture

# A job of each command, in which FILE is the input; or why there is none.
LIGHT = {
    "tokenize": "tokenize -t char FILE",
    "split": "split FILE",
    "build-vocab": "build-vocab FILE",
    "phrases": "phrases --min-count 1 FILE",
    "extract": "extract FILE",
    "dedupe": "dedupe FILE",
    "walks": "walks FILE",
    "prompt": "prompt -t {1} FILE",
    "neighbors": "neighbors vectors.tsv -k 1 FILE",
    "convert": "convert FILE new.tsv",
    "align-vectors": "align-vectors vectors.tsv vectors.tsv -d FILE -o new.tsv",
    "eval-vectors": "eval-vectors vectors.tsv --pairs FILE",
    "bleu": "bleu FILE -i FILE",
    "evaluate": "evaluate -m accuracy -r FILE FILE",
}
MODELS = {
    "train-lm": "train-lm --arch ngram --order 2 -t whitespace -o new FILE",
    "train-w2v": "train-w2v --dim 4 --min-count 1 --epochs 1 -o new FILE",
    "finetune": "finetune --task classify -m encoder --epochs 0 --threads 1 -o new FILE",
    "predict": "predict labels FILE",
    "generate": "generate lm --max-new-tokens 1 FILE",
    "score": "score lm --per line FILE",
    "fill": "fill bert FILE",
    "attend": "attend bert --to jsonl FILE",
    "embed": "embed lm --to jsonl FILE",
    "describe": "describe FILE",
}
OTHER = {
    "train-seq2seq": "its text is read by corpora/sentence_pairs, which has tests of its own",
    "pretrain-bert": "its text is read as that of train-lm",
    "cluster": "its lines are read as those of embed",
    "rerank": "its records are read as those of predict",
    "distill-static": "reads a model directory: tests/test_bundle.py",
    "train-reward": "its records are read as those of finetune",
    "train-ppo": "its prompts are read as those of generate",
    "chat": "a conversation; lines are read as those of generate",
    "serve": "requests, not files: tests/serving",
    "project": "its vectors are read as those of convert",
    "export": "reads a model directory: tests/test_bundle.py",
    "plot": "reads run directories",
    "help": "reads nothing",
}
PER_LINE = ("tokenize", "extract", "phrases", "score", "generate", "embed")  # a line per line, whatever it holds

TEXT = b"w1 w2\nw3 w4 w1\nw2\n"
# What is wrong, and whether each command must refuse it.
DEFECTS: dict[str, tuple[bytes, bool]] = {
    "empty": (b"", False),
    "only-ends": (b"\n\n\n", False),
    "no-end": (TEXT[:-1], False),
    "crlf": (TEXT.replace(b"\n", b"\r\n"), False),
    "cr": (TEXT.replace(b"\n", b"\r"), False),
    "mixed-ends": (TEXT.replace(b"\n", b"\r\n", 1), False),
    "mark": (b"\xef\xbb\xbf" + TEXT, False),
    "utf-16": (b"\xff\xfe" + TEXT.decode().encode("utf-16-le"), True),
    "byte-ff": (TEXT + b"a \xff\n", True),
    "cut-character": (TEXT + b"w1 \xe2\x82", True),
    "overlong": (TEXT + b"\xc0\x80\n", True),
    "surrogate": (TEXT + b"\xed\xa0\x80\n", True),
    "nul": (b"w1 \0 w2\n", False),
    "separators": ("w1\u2028w2\u2029\x85\x0b\x0c\x1c\x1d\x1e w3\n".encode(), False),
    "escapes": ("\x1b[31mw1\x1b[0m \u202e w2\x07\n".encode(), False),
    "not-a-character": ("\ufffe\uffff w1\n".encode(), False),
    "marks-of-models": ("<s> [MASK] </s> \u2581 <unk>\n".encode(), False),
    "one-character": (b"a" * 50_000 + b"\n", False),
    "combining": (b"e" + "\u0301".encode() * 5_000 + b"\n", False),
    "joiners": ("\U0001f468\u200d".encode() * 5_000 + b"\n", False),
    "ragged": (b"a\tb\nc\nd\te\tf\n", False),
    "elf": (b"\x7fELF\x02\x01\x01" + bytes(range(256)), True),
    "cut-gzip": (gzip.compress(Random(1).randbytes(5000).hex().encode())[:-900], True),
    "zstandard": (b"\x28\xb5\x2f\xfd" + bytes(50), True),
    "json-deep": (b'{"text": ' + b"[" * 50_000 + b"\n", False),
}
LARGEST = 1 << 20  # bytes of a message


def wrong_with(name: str, job: str, defect: str, done: Finished, seconds: float) -> str:
    """What is wrong with the end of a command; "" if nothing is."""
    _, fatal = DEFECTS.get(defect, (b"", True))
    errors = [
        line for line in done.err.split("\n") if line and not re.match(r"  hint: |nlptools [a-z0-9-]+: warning: ", line)
    ]
    if done.code not in (0, 65, 66, 69, 78):
        return f"status {done.code}: {done.err[-500:]}"
    if "Traceback" in done.err or "internal error" in done.err or "\x1b" in done.err or len(done.err) > LARGEST:
        return f"a message that is none: {done.err[-500:]}"
    if done.code and not (errors and errors[-1].startswith(f"nlptools {name}: ")):
        return f"no message: {done.err[-500:]}"
    if fatal and (not done.code or "defect." not in done.err):
        return f"status {done.code}, expected a refusal that names the file: {done.err[-500:]}"
    if seconds > 10:
        return f"{seconds:.1f} seconds"
    if name in PER_LINE and not done.code and defect in DEFECTS:
        data = DEFECTS[defect][0]
        count = data.count(b"\n") + (data[-1:] not in (b"", b"\n"))
        if len(done.out.split(b"\n")) - 1 != count:
            return f"{done.out[:200]!r} for {count} lines"
    return ""


def failures(place: Path, jobs: dict[str, str], chosen: list[tuple[str, str]]) -> list[str]:
    """What is wrong in each cell of the matrix."""
    found = []
    for name, defect in chosen:
        path = place / "defect.txt"
        if defect == "directory":
            path.mkdir()
        elif defect != "missing":
            path.write_bytes(DEFECTS[defect][0])
        began = time.process_time()
        done = within(place, *jobs[name].replace("FILE", path.name).split())
        if problem := wrong_with(name, jobs[name], defect, done, time.process_time() - began):
            found.append(f"{name}, {defect}: {problem}")
        for each in place.glob("new*"):
            shutil.rmtree(each) if each.is_dir() else each.unlink()
        path.rmdir() if path.is_dir() else path.unlink(missing_ok=True)
    return found


ALL = [*DEFECTS, "missing", "directory"]


def test_every_command_has_a_row() -> None:
    rows = [*LIGHT, *MODELS, *OTHER]
    assert sorted(rows) == sorted(COMMANDS), "give the new command a job, or its reason"


def test_light_commands(place: Path, record_property: Record) -> None:
    cells = [(name, defect) for name in LIGHT for defect in ALL]
    record_property("count", len(cells))
    wrong = failures(place, LIGHT, cells)
    assert not wrong, "\n".join(wrong)


def test_some_defects_of_models(place: Path) -> None:
    cells = [(name, defect) for name in MODELS for defect in ALL]
    chosen = Random(time.strftime("%Y-%m")).sample(cells, 24)
    wrong = failures(place, MODELS, chosen)
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
def test_all_defects_of_models(place: Path, record_property: Record) -> None:
    cells = [(name, defect) for name in MODELS for defect in ALL]
    record_property("count", len(cells))
    wrong = failures(place, MODELS, cells)
    assert not wrong, "\n".join(wrong)
