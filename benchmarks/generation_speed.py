"""Text generation: speed compared with transformers.

    python benchmarks/generation_speed.py [--rounds N] [--single N] [--mixed N] [--alone 0] [--batches 0] [--layers N]

GPT-2 124M shape with random weights, 32 prompts of 16 tokens, 64 new tokens each: both in batches of 32, and the prompts one
after the other as a naive pipe would run transformers, compared with ours, which reads what the pipe has delivered and decodes it
together. Tokens are compared in fp32: they must be the same. Then prompts of 8 to 128 tokens, of which a pipe delivers 64 at
once: transformers pads all of them on the left; and with answers of 8 to 64 tokens, ours fills the places of those that have
ended. Last, one prompt of 32 tokens and 128 new ones, as in a chat, ours also with weights in 8 bits.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import side_by_side
import torch

PROMPTS, LENGTH, NEW = 32, 16, 64
ALONE_LENGTH, ALONE_NEW = 32, 128  # of the prompt that is decoded alone


def prompts() -> np.ndarray:
    """(32, 16) token ids."""
    return np.random.default_rng(0).integers(0, 50256, (PROMPTS, LENGTH))


def lone_prompt() -> np.ndarray:
    """(1, 32) token ids."""
    return np.random.default_rng(2).integers(0, 50256, (1, ALONE_LENGTH))


def transformers_side(
    directory: str, dtype: torch.dtype, batch: int, given: np.ndarray, new: int = NEW, name: str = ""
) -> Callable[[], float]:
    """New tokens per second of `GPT2LMHeadModel.generate` over the prompts `given` (N, T), `batch` at a time."""
    from transformers import GPT2LMHeadModel

    device = "cuda" if torch.cuda.is_available() else "cpu"
    model: Any = GPT2LMHeadModel.from_pretrained(directory, dtype=dtype).eval().to(device)
    model.generation_config.eos_token_id = None

    def once() -> float:
        begin = time.perf_counter()
        parts = []
        for part in torch.from_numpy(given).to(device).split(batch):
            out = model.generate(
                part, attention_mask=torch.ones_like(part), max_new_tokens=new, do_sample=False, pad_token_id=0
            )
            parts.append(out[:, given.shape[1] :].cpu())
        np.save(f"{directory}/{name}transformers-{dtype}.npy", torch.cat(parts).numpy())
        return len(given) * new / (time.perf_counter() - begin)

    return once


def our_model(directory: str, precision: str) -> tuple[Any, Any]:
    """The model in the directory, and the backend that it computes on."""
    from nlptools import bundle
    from nlptools.compute.backend import Backend
    from nlptools.configs import Compute
    from nlptools.files import artifacts
    from nlptools.layers.quantized import quantize

    int8 = precision == "int8"
    backend = Backend.detect(Compute(precision="auto" if int8 else precision))
    path = Path(directory)
    _, loaded = bundle.load_model(path, artifacts.read_json(path / "config.json"))
    model = backend.for_inference(loaded)
    if int8:
        quantize(model)
    return model, backend


def our_side(directory: str, precision: str, given: np.ndarray, new: int = NEW, name: str = "") -> Callable[[], float]:
    """New tokens per second of our decoding of the prompts `given` (N, T)."""
    from nlptools.configs.generation import Generate
    from nlptools.inference.generation import decoding

    model, backend = our_model(directory, precision)
    settings = Generate(temperature=0, max_new_tokens=new)

    def once() -> float:
        begin = time.perf_counter()
        found = decoding.generate(model, given.tolist(), settings, backend, eos=-1)
        np.save(f"{directory}/{name}nlptools-{precision}.npy", np.array([row[0].ids for row in found]))
        return len(given) * new / (time.perf_counter() - begin)

    return once


def mixed(count: int) -> tuple[list[list[int]], list[int]]:
    """Prompts of 8 to 128 tokens, and how many new tokens each is to have, 8 to 64."""
    rng = np.random.default_rng(1)
    prompts = [rng.integers(0, 50256, length).tolist() for length in rng.integers(8, 129, count)]
    return prompts, rng.integers(8, NEW + 1, count).tolist()


def mixed_transformers(directory: str, dtype: torch.dtype, count: int, ragged: bool) -> Callable[[], float]:
    """New tokens per second of all mixed prompts in one batch, padded on the left; rows end when all have ended."""
    from transformers import GPT2LMHeadModel

    model: Any = GPT2LMHeadModel.from_pretrained(directory, dtype=dtype).eval()
    model.generation_config.eos_token_id = None
    prompts, lengths = mixed(count)
    longest = max(map(len, prompts))
    ids = torch.tensor([[0] * (longest - len(prompt)) + prompt for prompt in prompts])
    mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts])

    def once() -> float:
        begin = time.perf_counter()
        out = model.generate(ids, attention_mask=mask, max_new_tokens=NEW, do_sample=False, pad_token_id=0)
        np.save(f"{directory}/mixed-transformers-{dtype}.npy", out[:, longest:].numpy())
        return (sum(lengths) if ragged else count * NEW) / (time.perf_counter() - begin)

    return once


def mixed_nlptools(directory: str, precision: str, count: int, ragged: bool) -> Callable[[], float]:
    """New tokens per second of all mixed prompts by our decoding."""
    from nlptools.configs.generation import Generate
    from nlptools.inference.generation import decoding

    model, backend = our_model(directory, precision)
    prompts, lengths = mixed(count)
    settings = Generate(temperature=0, max_new_tokens=NEW)

    def once() -> float:
        begin = time.perf_counter()
        watch = (lambda row, new: len(new.ids) >= lengths[row]) if ragged else None
        out = decoding.generate(model, prompts, settings, backend, eos=-1, watch=watch)
        took = time.perf_counter() - begin
        if not ragged:
            np.save(f"{directory}/mixed-nlptools-{precision}.npy", np.array([row[0].ids for row in out]))
        return sum(len(row[0].ids) for row in out) / took

    return once


def make_model(directory: str, layers: int) -> None:
    """A GPT-2 directory with random weights, wide enough apart that greedy choices have no ties."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    GPT2LMHeadModel(GPT2Config(initializer_range=0.05, n_layer=layers)).save_pretrained(directory)


def worker(directory: str, side: str, count: int) -> None:
    """Serve one side."""
    torch.set_num_threads(side_by_side.CORES)
    dtypes = {"fp32": torch.float32, "bf16": torch.bfloat16}
    name, precision, *job = side.split("-")
    if job == ["alone"] and name == "nlptools":
        side_by_side.serve(our_side(directory, precision, lone_prompt(), ALONE_NEW, "alone-"))
    elif job == ["alone"]:
        side_by_side.serve(transformers_side(directory, dtypes[precision], 1, lone_prompt(), ALONE_NEW, "alone-"))
    elif job and name == "nlptools":
        side_by_side.serve(mixed_nlptools(directory, precision, count, job == ["ragged"]))
    elif job:
        side_by_side.serve(mixed_transformers(directory, dtypes[precision], count, job == ["ragged"]))
    elif name == "nlptools":
        side_by_side.serve(our_side(directory, precision, prompts()))
    else:
        batch, number = (PROMPTS, PROMPTS) if name == "batch" else (1, count)
        side_by_side.serve(transformers_side(directory, dtypes[precision], batch, prompts()[:number]))


def compare_alone(directory: str, precisions: list[str], rounds: int) -> None:
    """The job of one prompt."""
    sides = {f"transformers, {p}": f"batch-{p}-alone" for p in precisions}
    sides |= {f"nlptools, {p}": f"nlptools-{p}-alone" for p in (*precisions, "int8")}
    workers = {name: side_by_side.Worker(__file__, directory, side, "1") for name, side in sides.items()}
    title = f"greedy generation, GPT-2 124M shape, one prompt of {ALONE_LENGTH}, {ALONE_NEW} new tokens"
    side_by_side.compare(title, "new tokens/s", workers, rounds)
    theirs, ours = (
        np.load(f"{directory}/alone-{name}.npy") for name in ("transformers-torch.float32", "nlptools-fp32")
    )
    print(f"  one prompt, the same tokens in fp32: {(theirs == ours).mean():.0%}")


def main() -> None:
    arguments = side_by_side.options(__doc__, rounds=3, single=4, mixed=64, alone=1, batches=1, layers=12)
    if arguments.worker:
        directory, side, count = arguments.worker
        worker(directory, side, int(count))
        return

    print(side_by_side.machine())
    precisions = side_by_side.precisions()
    with tempfile.TemporaryDirectory() as directory:
        make_model(directory, arguments.layers)
        titles = (("batches of 32", "batch"), ("transformers one prompt at a time", "single"))
        for title, batch in titles if arguments.batches else ():
            sides = {
                f"transformers, {p}": f"{batch}-{p}" for p in precisions if batch == "batch" or p == precisions[-1]
            }
            sides.update({f"nlptools, {p}": f"nlptools-{p}" for p in precisions})
            count = str(arguments.single)
            workers = {n: side_by_side.Worker(__file__, directory, side, count) for n, side in sides.items()}
            job = f"greedy generation, GPT-2 124M shape, 32 prompts of 16, 64 new tokens, {title}"
            side_by_side.compare(job, "new tokens/s", workers, arguments.rounds)
            if batch == "batch":
                theirs = np.load(f"{directory}/transformers-torch.float32.npy")
                same = (theirs == np.load(f"{directory}/nlptools-fp32.npy")).all(1).mean()
                print(f"  the same tokens in fp32: {same:.0%} of the prompts")

        for job in ("mixed", "ragged") if arguments.mixed else ():
            sides = {f"transformers, {p}": f"batch-{p}-{job}" for p in precisions}
            sides.update({f"nlptools, {p}": f"nlptools-{p}-{job}" for p in precisions})
            workers = {n: side_by_side.Worker(__file__, directory, s, str(arguments.mixed)) for n, s in sides.items()}
            new = "64 new tokens" if job == "mixed" else "8 to 64 new tokens"
            title = f"greedy generation, GPT-2 124M shape, {arguments.mixed} prompts of 8 to 128, {new}"
            side_by_side.compare(title, "new tokens/s", workers, arguments.rounds)
        if arguments.mixed:
            theirs = np.load(f"{directory}/mixed-transformers-torch.float32.npy")
            same = (theirs == np.load(f"{directory}/mixed-nlptools-fp32.npy")).all(1).mean()
            print(f"  mixed prompts, the same tokens in fp32: {same:.0%} of the prompts")
        if arguments.alone:
            compare_alone(directory, precisions, arguments.rounds)


if __name__ == "__main__":
    main()
