"""Language models: all architectures on one corpus, mixtures, equal training time, optimizers.

    NLPTOOLS_DATA=DIR python benchmarks/language_model_families.py [--parts PART,...] [--families NAME,...]
        [--jobs characters,ptb,elmo] [--minutes N] [--share X] [--lines N] [--keep DIR]

Families whose state runs over the text (recurrent ones, Transformer-XL) carry it from line to line in training and in scoring.

    families     each is trained on the training text of the Penn Treebank (Mikolov's split, 10,000 words, `<unk>` an ordinary
                 word) with the shipped command, all neural models by Muon, and scores the validation text. Perplexity is per
                 token, the end of each line counted. --share 0.1 trains each for a tenth of its epochs, to try the script
    mixture      5-grams and an LSTM (lstm-hour), their mixture, a cache and dynamic evaluation; weights and the cache are tuned
                 on the first half of the validation text, all rows are measured on the second half
    time         perplexity after equal training time: each side first trains some steps to see how long one takes, and then as
                 many steps as fit into --minutes, its learning rate falling to the end of them. characters: tinyshakespeare,
                 the last tenth held out; ptb: words of the Penn Treebank; elmo: words of enwiki_slice, the mean of the forward
                 and backward perplexity, compared with an LSTM with the same vocabulary of 30,000, which sees more than the
                 ELMo, as it carries its state from line to line. The sides are the best of several
    optimizers   held-out loss of a Transformer and a LLaMA by AdamW and Muon on equal tokens of enwiki_slice, 8,000 pieces
"""

from __future__ import annotations

import gzip
import json
import math
import time
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import safe_open
from side_by_side import Bench, bench, logged, nlptools, published, read, report, trained, write

PARTS = ("families", "mixture", "time", "optimizers")


class Family(NamedTuple):
    """How a row is trained."""

    options: str  # of train-lm
    epochs: float  # 0: counted in one pass
    carries: bool = False  # the state runs over the lines


MUON = "--optimizer muon --lr 4e-3"
WINDOWS = f"--layers 4 --hidden 256 --heads 4 --context 128 --dropout 0.3 --batch-size 16 {MUON}"
STATES = (
    "--layers 2 --hidden 400 --output-bias --dropout 0.25 --context 35 --batch-size 64 --beta2 0.99 --clip 0.5"
    " --optimizer muon"
)
FAMILIES = {
    "5-grams, modified Kneser-Ney": Family("--arch ngram --order 5", 0),
    "5-grams, Witten-Bell": Family("--arch ngram --order 5 --smoothing witten-bell", 0),
    "feed-forward (bengio)": Family("--preset bengio", 4),
    "feed-forward (nplm)": Family("--preset nplm", 4),
    "RNN": Family(f"--arch rnn {STATES} --lr 4e-3", 6, True),
    "GRU": Family(f"--arch gru {STATES} --lr 1e-2", 6, True),
    "LSTM (lstm-hour)": Family("--preset lstm-hour", 6, True),
    "convolution": Family(f"--arch convolution --layers 6 --kernel 4 --hidden 256 --dropout 0.2 {MUON}", 6, True),
    "Transformer, as GPT-2": Family(WINDOWS, 8),
    "Transformer, as LLaMA": Family(f"--arch modern {WINDOWS}", 8),
    "Transformer-XL (small-transformer-xl)": Family("--preset small-transformer-xl", 4, True),
}
COUNTS, NEURAL = "5-grams, modified Kneser-Ney", "LSTM (lstm-hour)"
_PROBE = 40  # steps that are timed; the first half of them, which fills memory for the first time, does not count


class Work(NamedTuple):
    """A text, and the models that are trained on it for equal time."""

    title: str
    minutes: float
    splitting: str
    sides: dict[str, str]  # options of train-lm


JOBS = {
    "characters": Work("perplexity of the characters of tinyshakespeare", 3, "char", {
        "transformer-xl": "--arch transformer-xl --hidden 128 --heads 2 --pre-norm --context 64 --batch-size 16"
        " --optimizer muon --lr 1e-2 --carry",
        "lstm": "--arch lstm --layers 2 --hidden 256 --dropout 0.05 --context 64 --batch-size 32"
        " --optimizer muon --lr 1e-2 --carry",
    }),
    "ptb": Work("perplexity of the words of the Penn Treebank", 5, "whitespace", {
        "transformer-xl": "--preset small-transformer-xl --dropout 0 --lr 6e-3 --carry",
        "lstm": "--preset lstm-hour --hidden 256 --dropout 0.05 --carry",
    }),
    "elmo": Work("perplexity of the words of enwiki_slice", 45, "words", {
        "elmo": "--preset elmo-small --lr 4e-3 --sampled 4096",
        "lstm": "--arch lstm --layers 2 --hidden 512 --context 64 --batch-size 32 --dropout 0.1 --lr 1e-3 --carry",
    }),
}  # fmt: skip
SIDES = [(arch, optimizer) for arch in ("transformer", "modern") for optimizer in ("adamw", "muon")]
SIZE = "--layers 6 --hidden 384 --heads 6 --context 256 --batch-size 16"


def main() -> None:
    more: dict[str, Any] = {"minutes": 0.0, "share": 1.0, "lines": 0, "steps": 2000, "size": SIZE}
    with bench(__doc__, parts=PARTS, families=FAMILIES, jobs=JOBS, **more) as run:
        for part in run.options.parts:
            {"families": families, "mixture": mixture, "time": equal_time, "optimizers": optimizers}[part](run)


def cut(run: Bench, path: Path, name: str) -> Path:
    """The first --lines of a file, or all."""
    return write(run.folder / name, read(path)[: run.options.lines or None])


def total(model: Path, *how: object) -> dict[str, Any]:
    """Scores of a whole text."""
    found: dict[str, Any] = json.loads(nlptools("score", model, "--per", "total", *how))
    return found


# -- families -----------------------------------------------------------------------------------------------------------


def family(run: Bench, name: str) -> tuple[Path, dict[str, Any]]:
    """The directory of a family that is trained on the Penn Treebank, and the metrics of the training."""
    found, vocabulary = FAMILIES[name], run.folder / "ptb.tsv"
    train, valid = (cut(run, published("ptb", f"ptb.{part}.txt"), f"{part}.txt") for part in ("train", "valid"))
    if not vocabulary.exists():
        nlptools("build-vocab", "-t", "whitespace", "-o", vocabulary, train)
    how = ["--epochs", f"{found.epochs * run.options.share:g}"] if found.epochs else []
    how += ["--carry"] if found.carries else []
    folder = run.folder / "".join(c if c.isalnum() else "-" for c in name)
    words = ("-t", "whitespace", "--vocab", vocabulary, "--valid", valid)
    return folder, trained(folder, "train-lm", *words, *found.options.split(), *how, train)


def families(run: Bench) -> None:
    """A row per family."""
    for name in run.options.families:
        folder, metrics = family(run, name)
        carry = ["--carry"] if FAMILIES[name].carries else []
        scores = total(folder, *carry, run.folder / "valid.txt")
        with safe_open(folder / "model.safetensors", "np") as file:
            numbers = sum(math.prod(file.get_slice(key).get_shape()) for key in file.keys())  # noqa: SIM118 - no mapping
        begin = time.perf_counter()
        nlptools("score", folder, *carry, run.folder / "valid.txt", stdout=run.folder / "scores")
        seconds, words = (
            time.perf_counter() - begin,
            len((run.folder / "train.txt").read_text(encoding="utf-8").split()),
        )
        figures = {"perplexity": scores["perplexity"], "parameters": numbers, "seconds of training": metrics["seconds"]}
        passes = max(1.0, FAMILIES[name].epochs * run.options.share)
        figures["words/s of training"] = passes * words / metrics["seconds"]
        figures["words/s of scoring, whole command"] = scores["words"] / seconds
        for unit, figure in figures.items():
            less = not unit.startswith("words/s")
            report("language models of the Penn Treebank", unit, {f"nlptools {name}": [figure]}, less=less)


def mixture(run: Bench) -> None:
    """Mixtures and adaptive models."""
    counts, neural = family(run, COUNTS)[0], family(run, NEURAL)[0]
    lines = read(run.folder / "valid.txt")
    tune, test = (write(run.folder / name, part) for name, part in (
        ("tune.txt", lines[: len(lines) // 2]), ("test.txt", lines[len(lines) // 2 :])))  # fmt: skip
    cache, dynamic, tuning = ("--cache", 500), ("--dynamic", 0.1), ("--tune", tune)
    rows: dict[str, tuple[object, ...]] = {
        "5-grams": (counts,),
        "neural, each line alone": (neural,),
        "neural": (neural, "--carry"),
        "neural + cache": (neural, *cache, *tuning),
        "neural + dynamic evaluation": (neural, *dynamic),
        "neural + both": (neural, *cache, *dynamic, *tuning),
        "nlptools mixture": (neural, "--with", counts, "--carry", *tuning),
        "nlptools mixture + cache": (neural, "--with", counts, *cache, *tuning),
        "nlptools mixture + cache + dynamic evaluation": (neural, "--with", counts, *cache, *dynamic, *tuning),
    }
    found = {name: [total(*how, "--precision", "fp32", test)["perplexity"]] for name, how in rows.items()}  # type: ignore[arg-type]
    report("Second half of the validation text of the Penn Treebank", "perplexity per token", found, less=True)


# -- equal time ---------------------------------------------------------------------------------------------------------


def equal_time(run: Bench) -> None:
    """A table per job."""
    for name in run.options.jobs:
        job, place = JOBS[name], run.folder / name
        place.mkdir(exist_ok=True)
        minutes, texts = run.options.minutes or job.minutes, prepared(run, name, place)
        rows = {f"nlptools {side}": [timed(place / side, how, texts, minutes)] for side, how in job.sides.items()}
        report(f"{job.title}, {minutes:g} minutes", "perplexity", rows, less=True)


def prepared(run: Bench, name: str, place: Path) -> list[object]:
    """What follows the options of train-lm: vocabulary, held-out text, text."""
    if name == "characters":
        text = published("tinyshakespeare", "input.txt").read_text(encoding="utf-8")
        at = text.index("\n", len(text) * 9 // 10) + 1
        train, valid = (write(place / f"{i}.txt", part.splitlines()) for i, part in enumerate((text[:at], text[at:])))
    elif name == "ptb":
        train, valid = published("ptb", "ptb.train.txt"), published("ptb", "ptb.valid.txt")
    else:
        train, valid = place / "whole.txt", published("enwiki_slice", "valid.txt")
        train.write_bytes(gzip.decompress(published("enwiki_slice", "train.txt.gz").read_bytes()))
    train, valid = cut(run, train, f"{name}/train.txt"), cut(run, valid, f"{name}/valid.txt")
    vocabulary, splitting = place / "vocabulary.tsv", JOBS[name].splitting
    if not vocabulary.exists():
        size = ("--size", 30000) if name == "elmo" else ()
        nlptools("build-vocab", "-q", "-t", splitting, *size, "-o", vocabulary, train)
    document = ["--document", "file"] if name == "characters" else []
    return [*document, "-t", splitting, "--vocab", vocabulary, "--valid", valid, train]


def timed(folder: Path, how: str, texts: list[object], minutes: float) -> float:
    """The perplexity after a training for so long."""
    probe, never = folder.with_name(f"{folder.name}-probe"), ("--save-every", "never", "--log-every", _PROBE // 2)
    options = how.split()
    tokens = trained(probe, "train-lm", *options, "--steps", _PROBE, *never, "--valid-every", "never", *texts)["tokens"]
    speed = logged(probe, "train")[-1]["tokens_per_second"]
    steps = max(1, math.floor(minutes * 60 * speed / tokens * _PROBE))
    trained(folder, "train-lm", *options, "--steps", steps, *never, "--valid-every", max(1, steps // 4), *texts)
    return float(total(folder, *(["--carry"] if "--carry" in options else []), texts[-2])["perplexity"])


# -- optimizers -----------------------------------------------------------------------------------------------------------


def optimizers(run: Bench) -> None:
    """Losses on equal tokens, and the steps until the last loss of the first side."""
    steps, pieces, text = run.options.steps, run.folder / "pieces.model", published("enwiki_slice", "train.txt.gz")
    valid = write(run.folder / "held-out.txt", read(published("enwiki_slice", "valid.txt"))[:400])
    if not pieces.exists():
        nlptools("build-vocab", "--kind", "bpe", "--size", 8000, "-o", pieces, text)
    curves: dict[str, list[tuple[int, float]]] = {}
    for arch, optimizer in SIDES:
        out = run.folder / f"{arch}-{optimizer}"
        how = (
            "-t",
            pieces,
            "--document",
            "paragraph",
            "--arch",
            arch,
            "--optimizer",
            optimizer,
            *run.options.size.split(),
        )
        every = ("--lr", "1e-3", "--valid", valid, "--valid-every", max(1, steps // 20), "--save-every", "never")
        trained(out, "train-lm", *how, "--steps", steps, *every, text)
        curves[f"nlptools {arch}-{optimizer}"] = [(row["step"], row["loss"]) for row in logged(out, "valid")]
    title = f"held-out loss of a language model on equal tokens of enwiki_slice: {run.options.size}, {steps} steps"
    report(title, "nats per token", {name: [curve[-1][1]] for name, curve in curves.items()}, less=True)
    first, *_ = curves.values()
    needed = {name: [reached(curve, first[-1][1])] for name, curve in curves.items()}
    report(title, f"steps to the final loss of {'-'.join(SIDES[0])}", needed, less=True)


def reached(curve: list[tuple[int, float]], goal: float) -> float:
    """The step at which the loss falls to `goal`, between two validations in proportion; infinity: it never does."""
    before: tuple[int, float] | None = None
    for step, loss in curve:
        if loss <= goal:
            return float(step) if before is None else step - (step - before[0]) * (goal - loss) / (before[1] - loss)
        before = step, loss
    return math.inf


if __name__ == "__main__":
    main()
