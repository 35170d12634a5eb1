"""Text generation and scoring: speed compared with transformers.

    python benchmarks/generation_speed.py [--jobs batch,single,mixed,ragged,alone,llama,score] [--layers N] [--new N]
        [--rounds N]

Random weights, greedy choices, tokens compared in fp32. Jobs:

    batch, llama     32 prompts of 16 tokens, 64 new ones each, in one batch; GPT-2 124M shape, SmolLM 135M shape
    single           transformers gets the prompts one after the other, as a naive pipe would run it; ours decodes together what
                     the pipe has delivered
    mixed            64 prompts of 8 to 128 tokens, which transformers pads on the left
    ragged           the same with answers of 8 to 64 tokens: ours fills the places of those that have ended
    alone            one prompt of 32 tokens and 128 new ones, as in a chat; ours also with weights in 8 bits
    score            log-probabilities of 2,000 lines of 5 to 60 tokens, SmolLM 135M shape, in batches of 32 of like length
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import samples
from side_by_side import Job, bench, by_precision, device, precisions, separate

BATCH = 32  # lines to score


class Work(NamedTuple):
    """The prompts of a job, and how many new tokens each gets."""

    prompts: list[list[int]]
    new: list[int]
    together: int  # prompts that transformers gets at a time


_MIXED, _RAGGED = (np.random.default_rng(seed).integers(8, most, 64) for seed, most in ((1, 129), (2, 65)))
# lengths of the prompts; of the answers, of which --new is the longest usual one; prompts together; title
JOBS = {
    "batch": ([16] * 32, [64] * 32, 32, "32 prompts of 16, 64 new tokens, batches of 32"),
    "single": ([16] * 32, [64] * 32, 1, "32 prompts of 16, 64 new tokens, transformers one prompt at a time"),
    "mixed": (_MIXED, [64] * 64, 64, "64 prompts of 8 to 128, 64 new tokens"),
    "ragged": (_MIXED, _RAGGED, 64, "64 prompts of 8 to 128, 8 to 64 new tokens"),
    "alone": ([32], [128], 1, "one prompt of 32, 128 new tokens"),
    "llama": ([16] * 32, [64] * 32, 32, "prompts of 16, 64 new tokens"),
    "score": ((), (), 32, ""),
}


def work(name: str, vocab: int, new: int) -> Work:
    """The work of a job."""
    rng = np.random.default_rng(0)
    lengths, answers, together, _ = JOBS[name]
    prompts = [rng.integers(3, vocab, length).tolist() for length in lengths]
    return Work(prompts, [max(1, int(n) * new // 64) for n in answers], together)


def main() -> None:
    with bench(__doc__, jobs=JOBS, layers=0, hidden=0, lines=2000, vocab=49152, new=64) as run:
        chosen = run.options
        gpt2, llama = run.folder / "gpt2", run.folder / "llama"
        small = f"GPT-2 of {chosen.layers} layers" if chosen.layers else "GPT-2 124M shape"
        large = f"LLaMA of {chosen.layers or 30} layers, {chosen.hidden or 576} wide (SmolLM 135M: 30)"
        if {*chosen.jobs} - {"llama", "score"}:
            samples.gpt2(gpt2, chosen.layers or 12, chosen.hidden or 768, vocab=chosen.vocab)
        if {*chosen.jobs} & {"llama", "score"}:
            samples.llama(llama, chosen.layers or 30, chosen.hidden or 576, chosen.vocab)
        for name in chosen.jobs:
            if name == "score":
                sides = by_precision(
                    {"transformers": their_scores, "nlptools": our_scores}, llama, chosen.lines, chosen.vocab
                )
                run.compare(f"scoring, {large}, {chosen.lines:,} lines", "lines/s", sides, check=sums)
                continue
            folder, shape, job = llama if name == "llama" else gpt2, large if name == "llama" else small, JOBS[name][-1]
            given = work(name, chosen.vocab, chosen.new)
            sides = by_precision({"transformers": theirs, "nlptools": ours}, folder, given)
            if name == "alone":
                sides["nlptools, int8"] = separate(ours, folder, given, "int8")
            if name == "single" and "bf16" in precisions():
                del sides["transformers, fp32"]
            check = None if name in ("single", "ragged") else same
            run.compare(f"greedy generation, {shape}, {job}", "new tokens/s", sides, check=check)


def same(results: Mapping[str, Any]) -> str:
    """How many prompts have the same tokens."""
    pairs = zip(results["transformers, fp32"], results["nlptools, fp32"], strict=True)
    return f"the same tokens in fp32 for {np.mean([a == b for a, b in pairs]):.0%} of the prompts"


def sums(results: Mapping[str, Any]) -> str:
    """The sums of the log-probabilities."""
    a, b = results["transformers, fp32"], results["nlptools, fp32"]
    return f"log-probabilities in fp32 differ by {abs(a - b) / abs(a):.0e} of their sum"


def their_model(folder: Path, precision: str) -> Any:
    """A model of transformers."""
    import torch
    from transformers import AutoModelForCausalLM

    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[precision]
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval().to(device())
    model.generation_config.eos_token_id = None
    return model


def our_model(folder: Path, precision: str) -> tuple[Any, Any]:
    """A model, and the backend that it computes on."""
    from nlptools import bundle
    from nlptools.compute.backend import Backend
    from nlptools.configs import Compute
    from nlptools.files import artifacts
    from nlptools.layers.quantized import Rounding, quantize

    backend = Backend.detect(Compute(precision={"int8": "auto", "fp16": "fp32"}.get(precision, precision)))
    _, loaded = bundle.load_model(folder, artifacts.read_json(folder / "config.json"))
    model = backend.for_inference(loaded)
    if precision in ("int8", "fp16"):
        quantize(Rounding(model, model, model.output, model.streams), precision)
    return model, backend


def theirs(folder: Path, job: Work, precision: str) -> Job:
    """New tokens of `generate`, padded on the left; a batch ends when all of its prompts have their tokens."""
    import torch

    model = their_model(folder, precision)

    def generate() -> tuple[int, list[list[int]]]:
        out: list[list[int]] = []
        for start in range(0, len(job.prompts), job.together):
            part, most = job.prompts[start : start + job.together], max(job.new[start : start + job.together])
            longest = max(map(len, part))
            ids = torch.tensor([[0] * (longest - len(row)) + row for row in part], device=device())
            mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in part], device=device())
            given = {"attention_mask": mask, "max_new_tokens": most, "do_sample": False, "pad_token_id": 0}
            out += model.generate(ids, **given)[:, longest:].tolist()
        return sum(job.new), out

    return generate


def ours(folder: Path, job: Work, precision: str) -> Job:
    """New tokens of our decoding."""
    from nlptools.configs.generation import Generate
    from nlptools.inference.generation import decoding

    model, backend = our_model(folder, precision)
    settings = Generate(temperature=0, max_new_tokens=max(job.new))
    watch = (lambda row, new: len(new.ids) >= job.new[row]) if len({*job.new}) > 1 else None

    def generate() -> tuple[int, list[list[int]]]:
        found = decoding.generate(model, job.prompts, settings, backend, eos=-1, watch=watch)
        out = [[*row[0].ids] for row in found]
        return sum(map(len, out)), out

    return generate


# -- scoring ------------------------------------------------------------------------------------------------------------


def lines(count: int, vocab: int) -> list[np.ndarray]:
    """The token ids of lines."""
    rng = np.random.default_rng(1)
    return [rng.integers(3, vocab, n) for n in rng.integers(5, 61, count)]


def their_scores(folder: Path, count: int, vocab: int, precision: str) -> Job:
    """Lines scored by transformers, in batches of like length, padded on the right."""
    import torch

    model = their_model(folder, precision)

    @torch.inference_mode()
    def score() -> tuple[int, float]:
        rows, total = sorted(lines(count, vocab), key=len), 0.0
        for start in range(0, count, BATCH):
            group = rows[start : start + BATCH]
            ids = torch.zeros(len(group), 1 + max(map(len, group)), dtype=torch.int64)
            for row, tokens in zip(ids, group, strict=True):
                row[1 : 1 + len(tokens)] = torch.from_numpy(tokens)
            mask = torch.arange(ids.shape[1]) <= torch.tensor([len(tokens) for tokens in group])[:, None]
            ids, mask = ids.to(device()), mask.to(device())
            logprobs = model(ids, attention_mask=mask).logits[:, :-1].float().log_softmax(-1)
            scores = logprobs.gather(2, ids[:, 1:, None]).squeeze(2)
            total += float(scores[mask[:, 1:]].sum(dtype=torch.float64))
        return count, total

    return score


def our_scores(folder: Path, count: int, vocab: int, precision: str) -> Job:
    """Lines scored by ours."""
    import torch

    from nlptools.inference import scoring

    model, backend = our_model(folder, precision)

    @torch.inference_mode()
    def score() -> tuple[int, float]:
        scores = scoring.document_scores(model, lines(count, vocab), backend, start=0)
        assert scores is not None
        return count, float(sum(s.sum(dtype=np.float64) for s in scores))

    return score


if __name__ == "__main__":
    main()
