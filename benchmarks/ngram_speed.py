"""N-gram models: counting and scoring compared with KenLM.

    [NLPTOOLS_DATA=DIR] python benchmarks/ngram_speed.py [TEXT] [--order 5] [--rounds 3] [--memory 1G]

Trains on TEXT, tokens separated by spaces (default: the English novels and the Wikipedia texts in NLPTOOLS_DATA, lower-cased,
19.7M words), with modified Kneser-Ney smoothing, and scores its first 100,000 lines. Training is whole commands, from text to
the model on disk: without and with an ARPA file, and within --memory; compared with `lmplz` if it is on the path. Scoring is
compared with the Python package `kenlm`, sentence by sentence, where it is installed; it reads the ARPA file that `train-lm`
has written. Both have their tables in memory: ours, which a model makes when it has looked up half as many n-grams as it holds,
are made by scoring the lines twice before. Whole commands, which load the model and score those lines once, have a separate
table.
"""

from __future__ import annotations

import gzip
import importlib.util
import itertools
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from side_by_side import Bench, Command, Job, bench, ours, published, read, separate, write

LINES = 100_000  # to score


def main() -> None:
    with bench(__doc__, "/text?", order=5, memory="1G") as run:
        text = run.options.text or novels_and_wiki(run.folder / "text")
        with text.open(encoding="utf-8") as stream:
            words = sum(len(line.split()) for line in stream)
        with text.open(encoding="utf-8") as stream:
            lines = write(run.folder / "lines", [line.rstrip("\n") for line in itertools.islice(stream, LINES)])
        training(run, text, words)
        scoring(run, lines)


def novels_and_wiki(path: Path) -> Path:
    """Write the default text to `path`."""
    with path.open("w", encoding="utf-8") as out:
        for folder in ("eltec_eng_novels", "enwiki_slice"):
            with gzip.open(published(folder, "train.txt.gz"), "rt", encoding="utf-8", newline="\n") as stream:
                out.writelines(line.lower() for line in stream)
    return path


def training(run: Bench, text: Path, words: int) -> None:
    """Whole commands, from text to a model on disk."""
    order, memory, place = run.options.order, run.options.memory, run.folder
    how = ("train-lm", "-q", "--arch", "ngram", "-t", "whitespace", "--force", "--order", order, "-o")
    commands = {
        "nlptools, its own files": ours(*how, place / "lm"),
        "nlptools, ARPA as well": ours(*how, place / "lm", "--arpa", place / "lm.arpa"),
        f"nlptools --memory {memory}": ours(*how, place / "lm-files", "--memory", memory),
    }
    sides = {name: Command(command, words, text) for name, command in commands.items()}
    if shutil.which("lmplz"):
        command = ["lmplz", "-o", order, "-S", "50%", "-T", place, "--skip_symbols"]
        sides["lmplz"] = Command(command, words, text, place / "theirs.arpa")
    title = f"{order}-grams of {words:,} words, from text to a model"
    run.compare(title, "words/s", sides, memory=True)
    whole, in_files = ((place / name / "model.safetensors").read_bytes() for name in ("lm", "lm-files"))
    assert whole == in_files, "a model made with little memory is different"


def scoring(run: Bench, path: Path) -> None:
    """Log-probabilities of lines."""
    words, model = sum(len(line.split()) for line in read(path)), run.folder / "lm"
    sides = {"nlptools": separate(our_scores, model, path)}
    if importlib.util.find_spec("kenlm"):
        sides["kenlm"] = separate(kenlm_scores, run.folder / "lm.arpa", path)
    run.compare(f"scores of {len(read(path)):,} lines, {words:,} words", "words/s", sides, check=differences, warm_up=2)
    how = ("score", "-q", model, "--per")
    commands = {f"nlptools score --per {per}": Command(ours(*how, per), words, path) for per in ("line", "total")}
    run.compare(f"whole commands: scores of {words:,} words, with loading", "words/s", commands, memory=True)


def differences(results: Mapping[str, Any]) -> str:
    """How far the scores are apart."""
    if "kenlm" not in results:
        return "kenlm is not installed"
    return f"scores differ by at most {np.abs(results['nlptools'] - results['kenlm']).max():.0e} (log10)"


def our_scores(model: Path, path: Path) -> Job:
    """Scores in base 10."""
    import nlptools
    from nlptools.configs.scoring import Score

    loaded, lines = nlptools.load(str(model), settings=Score()), read(path)
    words = sum(len(line.split()) for line in lines)
    return lambda: (words, np.array([score for score, _ in loaded.totals(lines, Score())]) / np.log(10))


def kenlm_scores(model: Path, path: Path) -> Job:
    """The same by kenlm, sentence by sentence."""
    import kenlm

    loaded, lines = kenlm.Model(str(model)), read(path)
    words = sum(len(line.split()) for line in lines)
    return lambda: (words, np.array([loaded.score(line) for line in lines]))


if __name__ == "__main__":
    main()
