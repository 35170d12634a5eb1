"""LLaMA directories: generation and scoring compared with transformers.

    python benchmarks/llama_decoding_speed.py [--layers N] [--lines N] [--prompts N] [--rounds N]

SmolLM 135M shape with random weights: 32 prompts of 16 tokens, 64 new tokens each, greedy; and the log-probabilities of 2,000
lines of 5 to 60 tokens, in batches of 32 of like length (transformers, padded on the right). Results are compared in fp32.
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

LENGTH, NEW, VOCAB = 16, 64, 49152
BATCH = 32


def prompts(count: int) -> np.ndarray:
    """(count, 16) token ids."""
    return np.random.default_rng(0).integers(3, VOCAB, (count, LENGTH))


def lines(count: int) -> list[np.ndarray]:
    """The token ids of lines."""
    rng = np.random.default_rng(1)
    return [rng.integers(3, VOCAB, n) for n in rng.integers(5, 61, count)]


def transformers_side(directory: str, job: str, dtype: torch.dtype, count: int) -> Callable[[], float]:
    """Speed of `LlamaForCausalLM`."""
    from transformers import LlamaForCausalLM

    device = "cuda" if torch.cuda.is_available() else "cpu"
    model: Any = LlamaForCausalLM.from_pretrained(directory, dtype=dtype).eval().to(device)
    model.generation_config.eos_token_id = None

    def generate() -> float:
        begin = time.perf_counter()
        parts = []
        for part in torch.from_numpy(prompts(count)).to(device).split(BATCH):
            mask = torch.ones_like(part)
            out = model.generate(part, attention_mask=mask, max_new_tokens=NEW, do_sample=False, pad_token_id=0)
            parts.append(out[:, LENGTH:].cpu())
        np.save(f"{directory}/{job}-transformers-{dtype}.npy", torch.cat(parts).numpy())
        return count * NEW / (time.perf_counter() - begin)

    @torch.inference_mode()
    def score() -> float:
        begin = time.perf_counter()
        rows = sorted(lines(count), key=len)
        total = 0.0
        for start in range(0, count, BATCH):
            group = rows[start : start + BATCH]
            ids = torch.zeros(len(group), 1 + max(map(len, group)), dtype=torch.int64)
            for row, tokens in zip(ids, group, strict=True):
                row[1 : 1 + len(tokens)] = torch.from_numpy(tokens)
            mask = torch.arange(ids.shape[1]) <= torch.tensor([len(tokens) for tokens in group])[:, None]
            ids, mask = ids.to(device), mask.to(device)
            logprobs = model(ids, attention_mask=mask).logits[:, :-1].float().log_softmax(-1)
            scores = logprobs.gather(2, ids[:, 1:, None]).squeeze(2)
            total += float(scores[mask[:, 1:]].sum(dtype=torch.float64))
        np.save(f"{directory}/{job}-transformers-{dtype}.npy", total)
        return count / (time.perf_counter() - begin)

    return generate if job == "generate" else score


def our_side(directory: str, job: str, precision: str, count: int) -> Callable[[], float]:
    """Speed of our decoding and scoring."""
    from nlptools import bundle
    from nlptools.compute.backend import Backend
    from nlptools.configs import Compute
    from nlptools.configs.generation import Generate
    from nlptools.files import artifacts
    from nlptools.inference import scoring
    from nlptools.inference.generation import decoding

    backend = Backend.detect(Compute(precision=precision))
    path = Path(directory)
    _, loaded = bundle.load_model(path, artifacts.read_json(path / "config.json"))
    model: Any = backend.for_inference(loaded)
    settings = Generate(temperature=0, max_new_tokens=NEW)

    def generate() -> float:
        begin = time.perf_counter()
        rows: list[list[int]] = []
        ids = prompts(count).tolist()
        for start in range(0, count, BATCH):
            found = decoding.generate(model, ids[start : start + BATCH], settings, backend, eos=-1)
            rows += [row[0].ids for row in found]
        np.save(f"{directory}/{job}-nlptools-{precision}.npy", np.array(rows))
        return count * NEW / (time.perf_counter() - begin)

    @torch.inference_mode()
    def score() -> float:
        begin = time.perf_counter()
        scores = scoring.document_scores(model, lines(count), backend, start=0)
        assert scores is not None
        np.save(f"{directory}/{job}-nlptools-{precision}.npy", sum(s.sum(dtype=np.float64) for s in scores))
        return count / (time.perf_counter() - begin)

    return generate if job == "generate" else score


def make_model(directory: str, layers: int) -> None:
    """A LLaMA directory with random weights, wide enough apart that greedy choices have no ties."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=layers,
        num_attention_heads=9,
        num_key_value_heads=3,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        initializer_range=0.05,
        bos_token_id=0,
        eos_token_id=0,
    )
    LlamaForCausalLM(config).save_pretrained(directory)


def worker(directory: str, job: str, side: str, count: int) -> None:
    """Serve one side."""
    torch.set_num_threads(side_by_side.CORES)
    name, precision = side.split("-")
    if name == "nlptools":
        side_by_side.serve(our_side(directory, job, precision, count))
    else:
        dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[precision]
        side_by_side.serve(transformers_side(directory, job, dtype, count))


def main() -> None:
    arguments = side_by_side.options(__doc__, layers=30, prompts=32, lines=2000, rounds=3)
    if arguments.worker:
        directory, job, side, count = arguments.worker
        worker(directory, job, side, int(count))
        return

    print(side_by_side.machine())
    precisions = side_by_side.precisions()
    shape = f"LLaMA of {arguments.layers} layers, 576 wide (SmolLM 135M: 30)"
    jobs = {
        "generate": (f"greedy generation, {shape}, prompts of 16, 64 new tokens", "new tokens/s", arguments.prompts),
        "score": (f"scoring, {shape}, {arguments.lines:,} lines", "lines/s", arguments.lines),
    }
    with tempfile.TemporaryDirectory() as directory:
        make_model(directory, arguments.layers)
        for job, (title, unit, count) in jobs.items():
            sides = {f"transformers, {p}": f"transformers-{p}" for p in precisions}
            sides.update({f"nlptools, {p}": f"nlptools-{p}" for p in precisions})
            workers = {n: side_by_side.Worker(__file__, directory, job, s, str(count)) for n, s in sides.items()}
            side_by_side.compare(title, unit, workers, arguments.rounds)
            theirs, mine = (
                np.load(f"{directory}/{job}-{side}.npy") for side in ("transformers-torch.float32", "nlptools-fp32")
            )
            if job == "generate":
                print(f"  the same tokens in fp32: {(theirs == mine).all(1).mean():.0%} of the prompts")
            else:
                print(f"  log-probability in fp32: transformers {theirs:.3f}, nlptools {mine:.3f}")


if __name__ == "__main__":
    main()
