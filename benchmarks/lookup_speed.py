"""Drafts from the prompt: speed of decoding compared with transformers.

    NLPTOOLS_DATA=DIR python benchmarks/lookup_speed.py [--gpt DIR] [--prompts 40] [--new 64] [--lookup 6] [--keep DIR]
        [-- OPTIONS of train-lm]

DIR/aeslc is e-mails and their subjects (train.jsonl.gz, dev.jsonl). Without --gpt, the directory of a GPT-2, the script trains a
small one on lines of an e-mail and its subject. Each prompt is an e-mail of dev.jsonl, of which the model writes a summary of
--new tokens, without an end: greedy choices in fp32, one prompt at a time. The side "one token a step" is nlptools without
drafts; transformers drafts as many tokens by its own prompt lookup.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from generation_speed import our_model, their_model
from side_by_side import Bench, Job, bench, device, nlptools, published, separate, trained, write

from nlptools import bundle

GPT = "--layers 4 --hidden 256 --heads 4 --context 320 --batch-size 16 --lr 2e-3 --warmup 40 --steps 300"
WORDS = 160  # most of an e-mail
CUE = "TL;DR:"


def main() -> None:
    with bench(__doc__, "rest*", gpt=Path, prompts=40, new=64, lookup=6, pieces=4000, lines=0) as run:
        folder = run.options.gpt or pretrained(run)
        loaded = bundle.load(folder)
        rows = map(json.loads, published("aeslc", "dev.jsonl").read_text(encoding="utf-8").splitlines())
        room = settings(folder)["n_positions"] - run.options.new
        prompts = ([loaded.start, *loaded.tokenizer.encode(f"{email(row)} {CUE}")] for row in rows)
        given = [*islice((prompt for prompt in prompts if len(prompt) <= room), run.options.prompts)]
        new, drafts = run.options.new, run.options.lookup
        sides = {
            f"transformers, drafts of {drafts}": separate(theirs, folder, given, new, drafts),
            "one token a step": separate(ours, folder, given, new, 0),
            f"nlptools, drafts of {drafts}": separate(ours, folder, given, new, drafts),
        }
        sizes = f"GPT-2 of {settings(folder)['n_layer']} x {settings(folder)['n_embd']}"
        run.compare(
            f"summaries of {len(given)} e-mails, {new} tokens each, one at a time, {sizes}",
            "new tokens/s",
            sides,
            check=same,
        )


def email(row: Mapping[str, str]) -> str:
    """The beginning of an e-mail, on a line."""
    return " ".join(row["text"].split()[:WORDS])


def settings(folder: Path) -> dict[str, int]:
    """The sizes of a GPT-2."""
    found: dict[str, int] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return found


def pretrained(run: Bench) -> Path:
    """The directory of a small GPT."""
    rows = map(json.loads, gzip.decompress(published("aeslc", "train.jsonl.gz").read_bytes()).decode().splitlines())
    lines = [f"{email(row)} {CUE} {' '.join(row['subject'].split())}" for row in rows]
    text = write(run.folder / "train.txt", lines[: run.options.lines or len(lines)])
    pieces = run.folder / "pieces.model"
    if not pieces.exists():
        nlptools("build-vocab", "--kind", "bpe", "--size", run.options.pieces, "-o", run.folder / "pieces", text)
    trained(run.folder / "gpt", "train-lm", "-t", pieces, *GPT.split(), *run.options.rest, text)
    return run.folder / "gpt"


def same(results: Mapping[str, Any]) -> str:
    """How many texts are those of decoding without drafts."""
    expected = results["one token a step"]
    alike = {
        name: np.mean([a == b for a, b in zip(found, expected, strict=True)])
        for name, found in results.items()
        if found is not expected
    }
    return "the same text as one token a step: " + ", ".join(f"{name} {share:.0%}" for name, share in alike.items())


def theirs(folder: Path, prompts: list[list[int]], new: int, drafts: int) -> Job:
    """New tokens of transformers."""
    import torch

    model = their_model(folder, "fp32")

    def generate() -> tuple[int, list[list[int]]]:
        out = []
        for prompt in prompts:
            ids = torch.tensor([prompt], device=device())
            how = {"max_new_tokens": new, "do_sample": False, "pad_token_id": 0, "prompt_lookup_num_tokens": drafts}
            out.append(model.generate(ids, **how)[0, len(prompt) :].tolist())
        return sum(map(len, out)), out

    return generate


def ours(folder: Path, prompts: list[list[int]], new: int, drafts: int) -> Job:
    """New tokens of our decoding."""
    from nlptools.configs.generation import Generate
    from nlptools.inference.generation import decoding

    model, backend = our_model(folder, "fp32")
    how = {"lookup": drafts} if drafts else {"batch_size": 1}
    chosen = Generate(temperature=0, max_new_tokens=new, **how)

    def generate() -> tuple[int, list[list[int]]]:
        out = [row[0].ids for row in decoding.generate(model, prompts, chosen, backend, eos=-1)]
        return sum(map(len, out)), out

    return generate


if __name__ == "__main__":
    main()
