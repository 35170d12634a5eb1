"""Compare the speed of two checkouts of nlptools, for changes that should not alter it.

    benchmarks/two_checkouts.py OLD NEW [--rounds 5] [--only PATTERN]

Each job is a whole command. The checkouts run it in turns, in separate processes with this Python, in one thread and with the
same files. The figures are CPU seconds (user and system), which vary less than the clock on a shared machine; the ratio is the
median over the rounds of NEW to OLD, pair by pair. The text is English that every Python ships.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
from pathlib import Path
from pydoc_data.topics import topics

from side_by_side import bench
from side_by_side import write as written

ENCODER = "--layers 6 --hidden 384 --heads 6 --intermediate 1536"
# Preparation, run once with OLD; then name -> command. All commands run in one directory.
PREPARE = f"""
build-vocab --kind unigram --size 2000 -o pieces.model train.txt
build-vocab --kind wordpiece --size 2000 --lowercase -o wordpiece train.txt
train-lm -t pieces.model --layers 6 --hidden 384 --heads 6 --context 128 --steps 1 --batch-size 2 -o lm train.txt
pretrain-bert -t wordpiece --objective mlm --sentences auto {ENCODER} --batch-size 4 --steps 1 -o bert train.txt
build-vocab --kind words --size 2000 -o words.tsv train.txt
train-seq2seq -t words.tsv --layers 2 --hidden 128 --steps 2 --batch-size 8 -o seq2seq pairs.tsv
"""
LM = "train-lm -t pieces.model --layers 4 --hidden 256 --heads 4 --context 128 --batch-size 8 --steps 40 -o out train.txt"
JOBS = {
    "--help": "--help",
    "bleu --help": "bleu --help",
    "tokenize --help": "tokenize --help",
    "tokenize, words": "tokenize -t words many.txt",
    "tokenize, unigram ids": "tokenize -t pieces.model --to ids many.txt",
    "bleu": "bleu many.txt -i broken.txt",
    "bleu, interval": "bleu many.txt -i broken.txt --confidence 200",
    "evaluate, entity-f1": "evaluate -m entity-f1 tagged.txt",
    "evaluate, rougeL": "evaluate -m rougeL -r held-out.txt held-out.txt",
    "train-lm, fp32": f"{LM} --precision fp32",
    "train-lm, bf16": f"{LM} --precision bf16",
    "train-lm, lstm": "train-lm --arch lstm -t pieces.model --hidden 256 --context 64 --steps 20 -o out train.txt",
    "pretrain-bert": "pretrain-bert -t wordpiece --objective mlm --sentences auto --layers 4 --hidden 256 --heads 4"
    " --batch-size 16 --steps 15 --precision bf16 -o out train.txt",
    "train-seq2seq": "train-seq2seq -t words.tsv --layers 2 --hidden 128 --steps 60 --batch-size 32 --precision fp32"
    " -o out pairs.tsv",
    "train-w2v": "train-w2v --workers 1 --epochs 5 -o out.bin tokens.txt",
    "finetune": "finetune --task classify -m bert --epochs 1 --precision bf16 -o out labels.tsv",
    "score, fp32": "score lm --precision fp32 train.txt",
    "score, bf16": "score lm --precision bf16 train.txt",
    "embed, fp32": "embed bert --precision fp32 --to npy -o out.npy train.txt",
    "embed, bf16": "embed bert --precision bf16 --to npy -o out.npy train.txt",
    "generate, greedy": "generate lm --precision fp32 --temperature 0 --max-new-tokens 32 prompts.txt",
    "generate, beam": "generate seq2seq --precision fp32 --beam 5 --max-new-tokens 20 sources.txt",
}
OUTPUTS = ("out", "out.bin", "out.npy", "out.vocab.tsv")


def prepare(folder: Path) -> None:
    """Write the texts."""
    lines = [" ".join(p.split()) for key in sorted(topics) for p in topics[key].split("\n\n") if p.strip()]
    held_out, train = lines[::10], [line for i, line in enumerate(lines) if i % 10]

    def write(name: str, rows: list[str]) -> None:
        written(folder / name, rows)

    write("train.txt", train)
    write("held-out.txt", held_out)
    many = lines * 8
    write("many.txt", many)
    write("broken.txt", [" ".join(w for i, w in enumerate(line.split()) if i % 7) or "." for line in many])
    write("tokens.txt", [line.lower() for line in train])
    write(
        "labels.tsv", [f"{line[:200]}\t{'digit' if any(c.isdigit() for c in line) else 'none'}" for line in train[:800]]
    )
    write("pairs.tsv", [f"{' '.join(w)}\t{' '.join(w[::-1])}" for line in train if 3 < len(w := line.split()) < 30])
    write("sources.txt", [line for line in held_out if len(line.split()) < 15][:40])
    write("prompts.txt", [" ".join(line.split()[:6]) for line in held_out[:32]])
    tags = [
        f"{w} {'B-X' if w[0].isupper() else 'O'} {'B-X' if len(w) > 5 else 'O'}" for line in many for w in line.split()
    ]
    write("tagged.txt", [row for i, tag in enumerate(tags) for row in ([tag, ""] if i % 20 == 19 else [tag])])


def run(checkout: Path, command: str, folder: Path) -> float:
    """CPU seconds of a command. Ends the program if the command fails."""
    subprocess.run(["rm", "-rf", *OUTPUTS], cwd=folder, check=True)
    kept = {key: value for key, value in os.environ.items() if not key.startswith("NLPTOOLS_")}
    env = {**kept, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    arguments = [sys.executable, "-m", "nlptools", *command.split()]
    process = subprocess.Popen(arguments, cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    errors = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{checkout}: nlptools {command}: status {status}\n{errors.decode()[-2000:]}")
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """Run all jobs and print a table."""
    with bench(__doc__, "/old", "/new", rounds=5, only="") as found:
        options, folder = found.options, found.folder
        old, new = options.old.resolve(), options.new.resolve()
        prepare(folder)
        for command in PREPARE.strip().split("\n"):
            run(old, command, folder)
        print(f"{'CPU seconds':<24} {'old':>8} {'new':>8}   new/old, lowest .. highest of {options.rounds} rounds")
        for job, command in JOBS.items():
            if not re.search(options.only, job):
                continue
            pairs = [(run(old, command, folder), run(new, command, folder)) for _ in range(options.rounds + 1)][1:]
            ratios = [b / a for a, b in pairs]
            a, b = (statistics.median(side) for side in zip(*pairs, strict=True))
            print(
                f"{job:<24} {a:8.2f} {b:8.2f}   {statistics.median(ratios):.3f}  {min(ratios):.3f} .. {max(ratios):.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
