"""Files of tasks, and what baselines without a model, or a plain loop over transformers, reach on them, in percent."""

from __future__ import annotations

import gzip
import itertools
import json
import random
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from side_by_side import published, read

from nlptools.formats.qamr import read_qamr
from nlptools.formats.reading_options import Options
from nlptools.metrics.spans import entities
from nlptools.metrics.squad import GoldAnswers, squad

Files = tuple[Path, Path]  # to train and to measure on
Metrics = dict[str, float]
CHOICES = (3000, 1000)  # questions to train and to measure on
_NOMINAL = ("NOUN", "PROPN", "PRON")

# -- files ------------------------------------------------------------------------------------------------------------


def shortened(files: Files, scratch: Path, count: int) -> Files:
    """The files with their first examples, and one more: there may be a header; 0: all. Bytes: TREC is no UTF-8."""
    if not count:
        return files
    out = []
    for kind, path in zip(("train", "valid"), files, strict=True):
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        separator = b"\n\n" if path.name.startswith(("eng.", "en_ewt", "roles")) else b"\n"
        out.append(scratch / f"{kind}-{path.name.removesuffix('.gz')}")
        out[-1].write_bytes(separator.join(data.split(separator)[: count + 1]) + separator)
    return out[0], out[1]


def held_out(path: Path, parts: list[str], group: Callable[[str], object]) -> Files:
    """Two files: of the last tenth of the parts, from where a group begins, and of all before."""
    cut = len(parts) * 9 // 10
    while group(parts[cut]) == group(parts[cut - 1]):
        cut += 1
    files = path.with_stem(f"{path.stem}-train"), path.with_stem(f"{path.stem}-valid")
    for file, some in zip(files, (parts[:cut], parts[cut:]), strict=True):
        file.write_text("".join(some), encoding="utf-8")
    return files


def trec_files(scratch: Path, count: int) -> Files:
    lines = published("trec", "train.txt").read_bytes().splitlines(keepends=True)
    files = scratch / "trec-train.txt", scratch / "trec-valid.txt"
    for path, part in zip(files, (lines[:-500], lines[-500:]), strict=True):
        path.write_bytes(b"".join(part))
    return shortened(files, scratch, count)


def qamr_files(scratch: Path, count: int) -> Files:
    (scratch / "wiki-sentences.tsv").write_bytes(published("qamr", "wiki-sentences.tsv").read_bytes())
    lines = published("qamr", "filtered.dev.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
    return shortened(held_out(scratch / "qamr.tsv", lines, lambda line: line.split("\t")[0]), scratch, count)


def role_files(scratch: Path, count: int) -> Files:
    text = published("up_ewt_srl", "en_ewt-up-dev.conllu").read_text(encoding="utf-8")
    blocks = [block + "\n\n" for block in text.strip("\n").split("\n\n")]
    number, numbers = 0, {}
    for block in blocks:
        number += block.startswith("# newdoc")
        numbers[block] = number
    return shortened(held_out(scratch / "roles.conllu", blocks, numbers.__getitem__), scratch, count)


def gap_files(scratch: Path, count: int) -> Files:
    lines = published("gap", "gap-development.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
    files = held_out(scratch / "gap.tsv", lines[1:], str)
    for path in files:
        path.write_text(lines[0] + path.read_text(encoding="utf-8"), encoding="utf-8")
    return shortened(files, scratch, count)


def choice_files(scratch: Path, count: int) -> Files:
    out = scratch / "choices-train.jsonl", scratch / "choices-valid.jsonl"
    for file, path, most in zip(qamr_files(scratch, 0), out, CHOICES, strict=True):
        path.write_text("".join(itertools.islice(choices(file), count or most)), encoding="utf-8")
    return out


def digit_files(scratch: Path, count: int) -> Files:
    """Lists of the pictures of scikit-learn's digits, 8 x 8 pixels: a quarter of them, drawn at random, to measure on."""
    from PIL import Image
    from sklearn.datasets import load_digits

    found, lines = load_digits(), []
    (scratch / "digits").mkdir(exist_ok=True)
    for number, (values, label) in enumerate(zip(found.images, found.target, strict=True)):
        path = scratch / "digits" / f"{number}.png"
        Image.fromarray((values * 15.9).astype("uint8")).save(path)  # from 0 to 16 in the package
        lines.append(f"{path}\t{label}\n")
    random.Random(0).shuffle(lines)
    cut = len(lines) * 3 // 4
    files = scratch / "digits-train.tsv", scratch / "digits-valid.tsv"
    for file, part in zip(files, (lines[:cut], lines[cut:]), strict=True):
        file.write_text("".join(part), encoding="utf-8")
    return shortened(files, scratch, count)


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


# -- baselines without a model ----------------------------------------------------------------------------------------


def sentences(path: Path) -> Iterator[list[list[str]]]:
    """The words of each sentence of a CoNLL file, each its columns."""
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        for empty, lines in itertools.groupby(file, key=lambda line: not line.strip()):
            rows = [re.split(r"[\t ]", line.rstrip("\n")) for line in lines if not empty and not line.startswith("#")]
            words = [row for row in rows if ("." not in row[0] and "-" not in row[0]) or len(row) < 6]
            if words:
                yield words


def tags(files: Files, word: int, tag: int) -> tuple[list[list[str]], list[list[str]]]:
    """The tags of the words to measure on, and the most frequent ones in training."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row in itertools.chain.from_iterable(sentences(files[0])):
        counts[row[word]][row[tag]] += 1
    rare = Counter(each for found in counts.values() if found.total() == 1 for each in found)
    usual = rare.most_common(1)[0][0]
    best = {text: found.most_common(1)[0][0] for text, found in counts.items()}
    held = [*sentences(files[1])]
    return [[r[tag] for r in rows] for rows in held], [[best.get(r[word], usual) for r in rows] for rows in held]


def most_frequent_tag(files: Files, _: Metrics, model: str) -> float:
    gold, said = tags(files, 1, 3)
    return percent(a == b for one, other in zip(gold, said) for a, b in zip(one, other))


def most_frequent_entity(files: Files, _: Metrics, model: str) -> float:
    gold, said = tags(files, 0, -1)
    return 100 * float(dict(entities(gold, said, "conlleval").values())["f1"])


def words_not_asked_with(files: Files, _: Metrics, model: str) -> float:
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


def nearest_nouns(files: Files, _: Metrics, model: str) -> float:
    right = told = wanted = 0
    for sentence in sentences(files[1]):
        predicates = [i for i, word in enumerate(sentence) if word[10] not in ("", "_")]
        nominal = [i for i, word in enumerate(sentence) if word[3] in _NOMINAL]
        for column, place in enumerate(predicates, 11):
            gold = {(i, word[column]) for i, word in enumerate(sentence) if word[column] not in ("", "_", "V")}
            before, after = [i for i in nominal if i < place], [i for i in nominal if i > place]
            said = {(before[-1], "ARG0")} if before else set()
            said |= {(after[0], "ARG1")} if after else set()
            right, told, wanted = right + len(gold & said), told + len(said), wanted + len(gold)
    return 200 * right / (told + wanted)


def common_words(files: Files, _: Metrics, model: str) -> float:
    """Pearson's correlation of the share of common words with what people said."""
    rows = [line.split("\t") for line in read(files[1])[1:]]
    pairs = [(words(row[1]), words(row[2])) for row in rows]
    return 100 * statistics.correlation([len(a & b) / len(a | b) for a, b in pairs], [float(row[3]) for row in rows])


def least_common_words(files: Files, _: Metrics, model: str) -> float:
    rows = [json.loads(line) for line in read(files[1])]

    def place(row: dict[str, Any]) -> int:
        asked = words(row["context"].rpartition("  ")[2])
        sizes = [(len(words(ending) & asked), -len(ending)) for ending in row["endings"]]
        return sizes.index(min(sizes))

    return percent(place(row) == row["label"] for row in rows)


def majority(files: Files, _: Metrics, model: str) -> float:
    labels = [line.rsplit("\t", 1)[-1] for line in read(files[1])]
    return 100 * Counter(labels).most_common(1)[0][1] / len(labels)


def logistic_regression(files: Files, _: Metrics, model: str) -> float:
    """Of the pixels, by scikit-learn with its own settings."""
    import numpy as np
    from PIL import Image
    from sklearn.linear_model import LogisticRegression

    sides = []
    for file in files:
        rows = [line.split("\t") for line in read(file)]
        pixels = np.stack([np.asarray(Image.open(path), float).ravel() / 255 for path, _ in rows])
        sides.append((pixels, [label for _, label in rows]))
    return 100 * float(LogisticRegression(max_iter=1000).fit(*sides[0]).score(*sides[1]))


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def percent(right: Iterable[bool]) -> float:
    return 100 * statistics.mean(right)


# -- the plain loop ---------------------------------------------------------------------------------------------------


def plain_loop(paths: Files, task: str, measure: str, epochs: int, files: dict[str, str], model: str) -> float:
    """A plain loop over transformers in fp32, with the examples that `finetune` reads."""
    from plain_finetuning import PlainLoop, plain_examples

    train, valid = (plain_examples(path, task, files, model) for path in paths)
    loop = PlainLoop(train, model, fast=False, epochs=epochs, lr=1e-4 if task == "tag" else 5e-5)
    for _ in range(epochs):
        loop.epoch()
    gold, said = [label for _, label in valid], loop.predicted(valid)
    if measure == "f1":
        return 100 * float(dict(entities(gold, said, "conlleval").values())["f1"])
    if measure == "matthews":  # Pearson's correlation of both, as there are two labels
        names = sorted({*gold})
        return 100 * statistics.correlation([names.index(a) for a in gold], [names.index(a) for a in said])
    return percent(a == b for a, b in zip(gold, said, strict=True))
