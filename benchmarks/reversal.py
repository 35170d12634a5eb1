"""Reversing a sequence: which architectures learn it, and how fast.

    python benchmarks/reversal.py [--arch transformer,rnn,convolution] [--max-time 3m]

20,000 sequences of 1 to 20 of 20 symbols are learnt by the commands as a user would call them; 1,000 others are then
turned round greedily, and the share that is right to the last symbol is printed with the training time, the start
of the process included.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from random import Random

import records
import side_by_side
from side_by_side import nlptools

SYMBOLS = "abcdefghijklmnopqrst"
COMMON = "--batch-tokens 0 --batch-size 64 --dropout 0 --label-smoothing 0 --schedule linear --warmup 100"
ARCHITECTURES = {
    "transformer": "--layers 2 --hidden 128 --heads 4 --lr 2e-3 --steps 4000",
    "rnn": "--hidden 128 --lr 3e-3 --steps 1200",
    "convolution": "--layers 3 --hidden 128 --lr 2e-3 --steps 1800",
}


def sequences(count: int, seed: int) -> list[list[str]]:
    """Random sequences of 1 to 20 symbols."""
    random = Random(seed)
    return [random.choices(SYMBOLS, k=random.randint(1, 20)) for _ in range(count)]


def main() -> None:
    options = side_by_side.options(__doc__, arch=",".join(ARCHITECTURES), max_time="3m")
    print(side_by_side.machine(), flush=True)
    test = sequences(1000, 2)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        rows = (f"{' '.join(row)}\t{' '.join(reversed(row))}\n" for row in sequences(20_000, 1))
        (folder / "train.tsv").write_text("".join(rows))
        (folder / "vocab.tsv").write_text("<unk>\t0\n</s>\t0\n" + "".join(f"{symbol}\t1\n" for symbol in SYMBOLS))
        for arch in options.arch.split(","):
            model = str(folder / arch)
            begin = time.perf_counter()
            nlptools(
                "train-seq2seq", "-q", "--arch", arch, *COMMON.split(), *ARCHITECTURES[arch].split(), "-t",
                str(folder / "vocab.tsv"), "--max-time", options.max_time, "-o", model, str(folder / "train.tsv"),
            )  # fmt: skip
            seconds = time.perf_counter() - begin
            said = nlptools("generate", "--temperature", "0", model, stdin="".join(" ".join(r) + "\n" for r in test))
            pairs = zip(said.split("\n"), test, strict=False)
            right = sum(line == " ".join(reversed(row)) for line, row in pairs) / len(test)
            records.record("sequences right", "percent", {f"nlptools, {arch}": 100 * right})
            records.record("time of training", "s", {f"nlptools, {arch}": seconds}, less=True)
            print(f"  {arch:<12} {right:>7.1%} right after {seconds:>4.0f} s", flush=True)


if __name__ == "__main__":
    main()
