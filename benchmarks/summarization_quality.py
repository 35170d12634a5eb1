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
from collections import Counter
from pathlib import Path
from typing import Any

from side_by_side import Bench, bench, nlptools, published, read, report, trained, write

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


def prepare(folder: Path, scratch: Path, examples: int) -> list[dict[str, str]]:
    """Write pairs to learn from, and what is to be summarized with its references; the numbers of the latter's words."""
    with gzip.open(folder / "train.jsonl.gz", "rt", encoding="utf-8") as file:
        train: list[dict[str, Any]] = [json.loads(line) for line in file][: examples or None]
    dev = [json.loads(line) for line in read(folder / "dev.jsonl")][: examples or None]
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


def rouge(scratch: Path, system: Path) -> dict[str, float]:
    """ROUGE-1, -2 and -L against the subject; ROUGE-L against all references."""
    found = {}
    for references, metrics in ((["subject"], "rouge1,rouge2,rougeL"), (["subject", "ann0", "ann1", "ann2"], "rougeL")):
        given = [word for name in references for word in ("-r", scratch / name)]
        for row in nlptools("evaluate", "-m", metrics, *given, system).split("\n"):
            metric, value, *_ = [*row.split("\t"), ""]
            if metric.startswith("rouge"):
                found[f"subjects of e-mails, AESLC, dev: {metric}, {len(references)} references"] = float(value)
    return found


def summarized(run: Bench, names: list[dict[str, str]]) -> Path:
    """Train, and write the subjects that the model gives."""
    scratch, out = run.folder, run.folder / "model.out"
    pieces, model = scratch / "words.tsv", scratch / "model"
    if not pieces.exists():
        nlptools("build-vocab", "-o", pieces, scratch / "tokens")
    how = [*MODEL.split(), *TRAINING.split(), "--max-time", run.options.max_time, *run.options.rest]
    metrics = trained(
        model, "train-seq2seq", "-t", pieces, *how, "--valid", scratch / "valid.tsv", scratch / "train.tsv"
    )
    report("time of training", "minutes", {"nlptools, trained model": [metrics["seconds"] / 60]}, less=True)
    said = nlptools("generate", model, *SEARCH.split(), stdin=scratch / "mails").removesuffix("\n").split("\n")
    rows = [[numbers.get(word, word) for word in line.split()] for line, numbers in zip(said, names, strict=True)]
    return write(out, [" ".join(word for word in row if not word.startswith("<")) for row in rows])


def main() -> None:
    with bench(__doc__, "rest*", max_time="45m", examples=0) as run:
        scratch = run.folder
        names, systems = prepare(published("aeslc"), scratch, run.options.examples), {}
        for name, how in (("lead-1", "lead"), ("lead-3", "lead --sentences 3"), ("TextRank", "textrank")):
            systems[name] = scratch / name
            nlptools("extract", "--method", *how.split(), scratch / "lines", stdout=systems[name])
        systems |= {"four salient words": scratch / "four words", "nlptools, trained model": summarized(run, names)}
        tables: dict[str, dict[str, list[float]]] = {}
        for name, path in systems.items():
            for title, value in rouge(scratch, path).items():
                tables.setdefault(title, {})[name] = [value]
        for title, rows in tables.items():
            report(title, "score", rows)


if __name__ == "__main__":
    main()
