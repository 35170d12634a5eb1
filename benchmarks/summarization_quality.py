"""Subject lines of e-mails: quality compared with extractive baselines.

    NLPTOOLS_DATA=DIR python benchmarks/summarization_quality.py [--keep DIR] [--max-time 45m] [-- OPTIONS of train-seq2seq]

DIR/aeslc holds AESLC (14,436 mails of Enron; Zhang & Tetreault 2019, arXiv:1906.03497). Most words of a subject stand in its
mail, and are so rare that few pairs do not teach a model to say them. Two steps help (content selection: Gehrmann et al. 2018,
arXiv:1808.10792). A mail is cut down to its most salient words, in their order; salience is counted, see `Salience`. And
all but the commonest words are numbered by their salience, <1>, <2>, ..., also in the subject to be learnt (Luong et al.
2015, "Addressing the rare word problem", arXiv:1410.8206): the model learns which of them to say and in what order, and their
names are put back afterwards. Words that are neither common nor in the mail are left out of what is learnt. What the
selection reaches alone, its four best words as they come, is in the table. Settings were chosen on the same mails.
ROUGE is that of the development set, against the subject alone and against all four references (the best counts).
"""

from __future__ import annotations

import gzip
import json
import math
import re
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import records
import side_by_side
from side_by_side import nlptools

KNOWN, LENGTH, SALIENT = 300, 150, 25  # words that are no rare ones; words of a mail that are looked at, that are kept
PRIOR = 9.0  # as if every word had been seen so many times more, with the fate of rare words
MODEL = "--layers 2 --hidden 256 --intermediate 512 --norm pre --dropout 0.25 --batch-tokens 4096 --best loss"
TRAINING = "--lr 1e-3 --warmup 200 --schedule cosine --min-lr 0.05 --epochs 16"
SEARCH = "--beam 5 --no-repeat-ngram 1 --length-penalty 2 --min-new-tokens 4"
_WORD = re.compile(r"[a-z0-9]+(?:['&.-][a-z0-9]+)*")


def words(text: str) -> list[str]:
    """Words and numbers, lower-cased."""
    return _WORD.findall(text.lower())


class Salience:
    """How probable it is that a word of a mail stands in its subject: by what became of the word in the mails to learn
    from, how often the mail says it, and how early."""

    def __init__(self, mails: list[dict[str, str]]) -> None:
        self.said: Counter[str] = Counter()
        self.taken: Counter[str] = Counter()
        for mail in mails:
            found = set(words(mail["text"])[:LENGTH])
            self.said.update(found)
            self.taken.update(found & set(words(mail["subject"])))
        rare = [word for word, count in self.said.items() if count <= 2]
        self.rate = sum(self.taken[word] for word in rare) / sum(self.said[word] for word in rare)

    def ranked(self, mail: dict[str, str], itself: bool = False) -> tuple[list[str], list[str]]:
        """The most salient words as they come in the mail, and by salience.

        Args:
            itself: the mail was counted; what is told of its words shall not come from its own subject.
        """
        text = words(mail["text"])[:LENGTH]
        own = set(words(mail["subject"])) if itself else set()
        scores: dict[str, float] = {}
        for place, word in enumerate(text):
            if word not in scores:
                said, taken = self.said[word] - itself, self.taken[word] - (word in own)
                rate = (taken + PRIOR * self.rate) / (said + PRIOR)
                scores[word] = rate * (1 + math.log(text.count(word)) / 2) * (1 - place / LENGTH / 2)
        best = sorted(scores, key=lambda word: -scores[word])[:SALIENT]
        return sorted(best, key=text.index), best


def numbered(ranked: tuple[list[str], list[str]], known: set[str]) -> tuple[str, dict[str, str]]:
    """The words of a mail with numbers for rare ones, and the number of each."""
    in_order, by_salience = ranked
    rare = [word for word in by_salience if word not in known]
    numbers = {word: f"<{number}>" for number, word in enumerate(rare, 1)}
    return " ".join(numbers.get(word, word) for word in in_order), numbers


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
    salience, pairs = Salience(train), []
    for mail in train:
        source, numbers = numbered(salience.ranked(mail, itself=True), known)
        target = " ".join(word if word in known else numbers.get(word, "") for word in words(mail["subject"])).split()
        if source and target:
            pairs.append(f"{source}\t{' '.join(target)}")
    write(scratch / "valid.tsv", pairs[::48])
    write(scratch / "train.tsv", [pair for i, pair in enumerate(pairs) if i % 48])
    write(scratch / "tokens", [side for pair in pairs for side in pair.split("\t")])
    found = [numbered(salience.ranked(mail), known) for mail in dev]
    write(scratch / "mails", [source for source, _ in found])
    for name in ("subject", "ann0", "ann1", "ann2"):
        write(scratch / name, [" ".join((mail.get(name) or mail["subject"]).split()) for mail in dev])
    # what the baselines copy are sentences: `extract` takes \n for the end of a line
    write(
        scratch / "lines", [r"\n".join(filter(None, (" ".join(p.split()) for p in m["text"].split("\n")))) for m in dev]
    )
    # a baseline: what the selection says alone
    best = [(m, set(salience.ranked(m)[1][:4])) for m in dev]
    write(
        scratch / "four words", [" ".join(w for w in dict.fromkeys(words(m["text"])) if w in four) for m, four in best]
    )
    return [{number: word for word, number in numbers.items()} for _, numbers in found]


def rouge(scratch: Path, system: Path, name: str) -> str:
    """ROUGE-1, -2 and -L against the subject; ROUGE-L against all references. Recorded under `name`."""
    cells = []
    for references, metrics in ((["subject"], "rouge1,rouge2,rougeL"), (["subject", "ann0", "ann1", "ann2"], "rougeL")):
        given = [word for name in references for word in ("-r", scratch / name)]
        table = nlptools("evaluate", "-m", metrics, *given, system)
        rows = [row.split("\t") for row in table.split("\n") if row.startswith("rouge")]
        for metric, value, *_ in rows:
            title = f"subjects of e-mails, AESLC, dev: {metric}, {len(references)} references"
            records.record(title, "score", {name: float(value)})
        cells += [f"{float(row[1]):>8.4f}" for row in rows]
    return " ".join(cells)


def summarized(scratch: Path, names: list[dict[str, str]], more: list[str]) -> tuple[Path, float]:
    """Train, and write the subjects that the model gives; the file, and the minutes of training."""
    pieces, model, out = scratch / "words.tsv", scratch / "model", scratch / "model.out"
    if not pieces.exists():
        nlptools("build-vocab", "-o", pieces, scratch / "tokens")
    begin = time.perf_counter()
    how = [*MODEL.split(), *TRAINING.split(), *more, "--valid", scratch / "valid.tsv", "-o", model]
    nlptools("train-seq2seq", "-t", pieces, *how, scratch / "train.tsv")
    minutes = (time.perf_counter() - begin) / 60
    said = nlptools("generate", model, *SEARCH.split(), stdin=scratch / "mails").removesuffix("\n").split("\n")
    rows = [[numbers.get(word, word) for word in line.split()] for line, numbers in zip(said, names, strict=True)]
    write(out, [" ".join(word for word in row if not word.startswith("<")) for row in rows])
    return out, minutes


def main() -> None:
    arguments = side_by_side.options(__doc__, "rest*", keep=Path, max_time="45m")
    folder = side_by_side.published("aeslc")
    print(side_by_side.machine(), flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        scratch = arguments.keep or Path(temporary)
        scratch.mkdir(parents=True, exist_ok=True)
        names = prepare(folder, scratch)
        table = [f"{'AESLC, dev':<24} {'ROUGE-1':>8} {'-2':>8} {'-L':>8} {'-L of 4':>8}"]
        for name, how in (("lead-1", "lead"), ("lead-3", "lead --sentences 3"), ("TextRank", "textrank")):
            nlptools("extract", "--method", *how.split(), scratch / "lines", stdout=scratch / name)
            table.append(f"{name:<24} {rouge(scratch, scratch / name, name)}")
        table.append(f"{'four salient words':<24} {rouge(scratch, scratch / 'four words', 'four salient words')}")
        out, minutes = summarized(scratch, names, ["--max-time", arguments.max_time, *arguments.rest])
        table.append(
            f"{'model':<24} {rouge(scratch, out, 'nlptools, trained model')}   {minutes:.1f} minutes of training"
        )
    print("", *table, sep="\n")


if __name__ == "__main__":
    main()
