"""Subject lines of e-mails, by a model trained from nothing, beside baselines that copy sentences.

    NLPTOOLS_DATA=DIR python benchmarks/summarization_quality.py [--keep DIR] [--max-time 45m] [-- OPTIONS of train-seq2seq]

DIR/aeslc holds AESLC (14,436 mails of Enron; Zhang & Tetreault 2019, arXiv:1906.03497). Most words of a subject stand in its
mail, and are so rare that few pairs do not teach a model to say them. So rare words are numbered within each mail, as they
come, <1>, <2>, ..., and stand so in its subject (Luong et al. 2015, "Addressing the rare word problem", arXiv:1410.8206): the
model learns which of them to say, and their names are put back afterwards. Rare words that are not in the mail are left out of
what is learnt.
ROUGE is that of the development set, against the subject alone and against all four references (the best counts).
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import side_by_side

KNOWN, NUMBERED, LENGTH = 1200, 120, 120  # words that are no rare ones; numbers; words of a mail that are read
MODEL = "--layers 2 --hidden 256 --intermediate 512 --norm pre --dropout 0.25 --batch-tokens 4096 --best loss"
TRAINING = "--lr 1e-3 --warmup 200 --schedule cosine --min-lr 0.05 --epochs 16"
SEARCH = "--beam 5 --no-repeat-ngram 1 --length-penalty 2 --min-length 4"
STOPPED = 75  # status of a training that ended early with everything saved
_WORD = re.compile(r"[a-z0-9]+(?:['&.-][a-z0-9]+)*|[^\sa-z0-9]")


def nlptools(command: str, stdin: Path | None = None, stdout: Path | None = None) -> str:
    """Run a command, given in words; what it wrote, when that was not to go to a file. Ends the program on errors."""
    print(
        f"  $ nlptools {command}", *([f"< {stdin}"] if stdin else []), *([f"> {stdout}"] if stdout else []), flush=True
    )
    with open(stdin or os.devnull, "rb") as given:
        done = subprocess.run([sys.executable, "-m", "nlptools", *command.split()], stdin=given, stdout=subprocess.PIPE)
    if done.returncode not in (0, STOPPED):
        raise SystemExit(f"nlptools {command.split()[0]} ended with status {done.returncode}")
    if stdout:
        stdout.write_bytes(done.stdout)
    return done.stdout.decode()


def words(text: str) -> list[str]:
    """Words, numbers and marks, lower-cased."""
    return _WORD.findall(text.lower())


def numbered(text: str, known: set[str]) -> tuple[str, dict[str, str]]:
    """The beginning of a mail with numbers for its rare words, and the number of each."""
    numbers: dict[str, str] = {}
    out = []
    for word in words(text)[:LENGTH]:
        if word not in known and word not in numbers and len(numbers) < NUMBERED:
            numbers[word] = f"<{len(numbers) + 1}>"
        out.append(word if word in known else numbers.get(word, "<rare>"))
    return " ".join(out), numbers


def write(path: Path, lines: list[str]) -> None:
    """Write lines."""
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")


def prepare(folder: Path, scratch: Path) -> list[dict[str, str]]:
    """Write pairs to learn from, and what is to be summarized with its references; the numbers of the latter's words."""
    with gzip.open(folder / "train.jsonl.gz", "rt", encoding="utf-8") as file:
        train: list[dict[str, Any]] = [json.loads(line) for line in file]
    dev = [json.loads(line) for line in (folder / "dev.jsonl").read_text(encoding="utf-8").split("\n") if line]
    counts = Counter(word for mail in train for word in words(mail["text"])[:LENGTH])
    counts.update(word for mail in train for word in 3 * words(mail["subject"]))
    known = {word for word, _ in counts.most_common(KNOWN)}
    pairs = []
    for mail in train:
        source, numbers = numbered(mail["text"], known)
        target = " ".join(word if word in known else numbers.get(word, "") for word in words(mail["subject"])).split()
        if source and target:
            pairs.append(f"{source}\t{' '.join(target)}")
    write(scratch / "valid.tsv", pairs[::48])
    write(scratch / "train.tsv", [pair for i, pair in enumerate(pairs) if i % 48])
    write(scratch / "tokens", [side for pair in pairs for side in pair.split("\t")])
    found = [numbered(mail["text"], known) for mail in dev]
    write(scratch / "mails", [source for source, _ in found])
    for name in ("subject", "ann0", "ann1", "ann2"):
        write(scratch / name, [" ".join((mail.get(name) or mail["subject"]).split()) for mail in dev])
    # what the baselines copy are sentences: `extract` takes \n for the end of a line
    write(
        scratch / "lines", [r"\n".join(filter(None, (" ".join(p.split()) for p in m["text"].split("\n")))) for m in dev]
    )
    return [{number: word for word, number in numbers.items()} for _, numbers in found]


def rouge(scratch: Path, system: Path) -> str:
    """ROUGE-1, -2 and -L against the subject; ROUGE-L against all references."""
    cells = []
    for references, metrics in ((["subject"], "rouge1,rouge2,rougeL"), (["subject", "ann0", "ann1", "ann2"], "rougeL")):
        given = " ".join(f"-r {scratch / name}" for name in references)
        table = nlptools(f"evaluate -m {metrics} {given} {system}")
        cells += [f"{float(row.split(chr(9))[1]):>8.4f}" for row in table.split("\n") if row.startswith("rouge")]
    return " ".join(cells)


def summarized(scratch: Path, names: list[dict[str, str]], more: str) -> tuple[Path, float]:
    """Train, and write the subjects that the model gives; the file, and the minutes of training."""
    pieces, model, out = scratch / "words.tsv", scratch / "model", scratch / "model.out"
    if not pieces.exists():
        nlptools(f"build-vocab -o {pieces} {scratch / 'tokens'}")
    begin = time.perf_counter()
    nlptools(
        f"train-seq2seq -t {pieces} {MODEL} {TRAINING} {more} --valid {scratch / 'valid.tsv'} -o {model} {scratch / 'train.tsv'}"
    )
    minutes = (time.perf_counter() - begin) / 60
    said = nlptools(f"generate {model} {SEARCH}", scratch / "mails").removesuffix("\n").split("\n")
    rows = [[numbers.get(word, word) for word in line.split()] for line, numbers in zip(said, names, strict=True)]
    write(out, [" ".join(word for word in row if not word.startswith("<")) for row in rows])
    return out, minutes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, help="directory for what is made")
    parser.add_argument("--max-time", default="45m", help="of the training")
    parser.add_argument("rest", nargs="*", help="options of train-seq2seq, after --")
    arguments = parser.parse_args()
    folder = Path(os.environ.get("NLPTOOLS_DATA", "")) / "aeslc"
    if "NLPTOOLS_DATA" not in os.environ or not folder.is_dir():
        raise SystemExit("NLPTOOLS_DATA must name a folder with aeslc in it")
    print(side_by_side.machine(), flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        scratch = arguments.keep or Path(temporary)
        scratch.mkdir(parents=True, exist_ok=True)
        names = prepare(folder, scratch)
        table = [f"{'AESLC, dev':<24} {'ROUGE-1':>8} {'-2':>8} {'-L':>8} {'-L of 4':>8}"]
        for name, how in (("lead-1", "lead"), ("lead-3", "lead --sentences 3"), ("TextRank", "textrank")):
            nlptools(f"extract --method {how} {scratch / 'lines'}", stdout=scratch / name)
            table.append(f"{name:<24} {rouge(scratch, scratch / name)}")
        out, minutes = summarized(scratch, names, " ".join([f"--max-time {arguments.max_time}", *arguments.rest]))
        table.append(f"{'model':<24} {rouge(scratch, out)}   {minutes:.1f} minutes of training")
    print("", *table, sep="\n")


if __name__ == "__main__":
    main()
