"""New tokens per second of greedy generation, beside `generate` of transformers with the same weights.

    python benchmarks/generation_speed.py [--rounds N] [--single N]

GPT-2 124M shape with random weights, 32 prompts of 16 tokens, 64 new tokens each: both in batches of 32, and the prompts one
after the other as a naive pipe would run transformers, beside ours, which reads what the pipe has delivered and decodes it
together. Tokens are compared in fp32: they must be the same.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import side_by_side
import torch

PROMPTS, LENGTH, NEW = 32, 16, 64


def prompts() -> np.ndarray:
    """(32, 16) token ids."""
    return np.random.default_rng(0).integers(0, 50256, (PROMPTS, LENGTH))


def transformers_side(directory: str, dtype: torch.dtype, batch: int, count: int) -> Callable[[], float]:
    """New tokens per second of `GPT2LMHeadModel.generate` over the first `count` prompts, `batch` at a time."""
    from transformers import GPT2LMHeadModel

    device = "cuda" if torch.cuda.is_available() else "cpu"
    model: Any = GPT2LMHeadModel.from_pretrained(directory, dtype=dtype).eval().to(device)
    model.generation_config.eos_token_id = None

    def once() -> float:
        begin = time.perf_counter()
        ids = torch.from_numpy(prompts()).to(device)[:count]
        parts = []
        for part in ids.split(batch):
            out = model.generate(
                part, attention_mask=torch.ones_like(part), max_new_tokens=NEW, do_sample=False, pad_token_id=0
            )
            parts.append(out[:, LENGTH:].cpu())
        np.save(f"{directory}/transformers-{dtype}.npy", torch.cat(parts).numpy())
        return count * NEW / (time.perf_counter() - begin)

    return once


def our_side(directory: str, precision: str) -> Callable[[], float]:
    """New tokens per second of our decoding."""
    from nlptools import bundle
    from nlptools.compute.backend import Backend
    from nlptools.configs import Compute
    from nlptools.configs.generation import Generate
    from nlptools.files import artifacts
    from nlptools.inference.generation import decoding

    backend = Backend.detect(Compute(precision=precision))
    path = Path(directory)
    _, loaded = bundle.load_model(path, artifacts.read_json(path / "config.json"))
    model: Any = backend.for_inference(loaded)
    settings = Generate(temperature=0, max_new_tokens=NEW)

    def once() -> float:
        begin = time.perf_counter()
        found = decoding.generate(model, prompts().tolist(), settings, backend, eos=-1)
        np.save(f"{directory}/nlptools-{precision}.npy", np.array([row[0].ids for row in found]))
        return PROMPTS * NEW / (time.perf_counter() - begin)

    return once


def make_model(directory: str) -> None:
    """A GPT-2 directory with random weights, wide enough apart that greedy choices have no ties."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    GPT2LMHeadModel(GPT2Config(initializer_range=0.05)).save_pretrained(directory)


def worker(directory: str, side: str, count: int) -> None:
    """Serve one side."""
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    dtypes = {"fp32": torch.float32, "bf16": torch.bfloat16}
    name, precision = side.split("-")
    if name == "nlptools":
        side_by_side.serve(our_side(directory, precision))
    else:
        batch, number = (PROMPTS, PROMPTS) if name == "batch" else (1, count)
        side_by_side.serve(transformers_side(directory, dtypes[precision], batch, number))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--single", type=int, default=4, help="prompts that transformers does one by one")
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        directory, side, count = arguments.worker
        worker(directory, side, int(count))
        return

    from nlptools.compute.backend import Backend

    print(side_by_side.machine())
    precisions = ["fp32", "bf16"] if Backend.detect().precision == "bf16" else ["fp32"]
    with tempfile.TemporaryDirectory() as directory:
        make_model(directory)
        for title, batch in (("batches of 32", "batch"), ("transformers one prompt at a time", "single")):
            sides = {
                f"transformers, {p}": f"{batch}-{p}" for p in precisions if batch == "batch" or p == precisions[-1]
            }
            sides.update({f"nlptools, {p}": f"nlptools-{p}" for p in precisions})
            count = str(arguments.single)
            workers = {n: side_by_side.Worker(__file__, directory, side, count) for n, side in sides.items()}
            job = f"greedy generation, GPT-2 124M shape, 32 prompts of 16, 64 new tokens, {title}"
            side_by_side.compare(job, "new tokens/s", dict(workers), arguments.rounds)
            for process in workers.values():
                process.close()
            if batch == "batch":
                theirs = np.load(f"{directory}/transformers-torch.float32.npy")
                same = (theirs == np.load(f"{directory}/nlptools-fp32.npy")).all(1).mean()
                print(f"  the same tokens in fp32: {same:.0%} of the prompts")


if __name__ == "__main__":
    main()
