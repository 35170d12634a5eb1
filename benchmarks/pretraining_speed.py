"""Sequences per second of masked-LM pretraining in BERT base's shape, beside plain transformers loops.

    python benchmarks/pretraining_speed.py [--objective bert|mlm] [--sequences N] [--layers N] [--packed]
        [--rounds N] [--steps N] [--against SIDE]

The other side is `BertForPreTraining` (or `BertForMaskedLM`) in the loop that one writes by hand: its own loss over the whole
vocabulary at every position, `torch.optim.AdamW` (fused), `clip_grad_norm_`; in fp32 and under bf16 autocast. Ours is the
training step of `pretrain-bert` itself, in bf16 where the processor has it, and in fp32. All sides get rows of 128 tokens of
which 15% are masked, dropout 0.1; `--packed` gives our rows two sequences each, as rows of real text often have.
All sides stay in memory, 4 to 7 GB each: where 24 GB are all there is, `--against fp32` and `--against autocast` run our
fastest one beside one of the others.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import side_by_side

VOCAB, LENGTH, MASKED, FIRST = 30522, 128, 0.15, 1000  # tokens below FIRST are special or unused in Google's vocabulary
_WARM_UP = 12  # steps until memory no longer grows


def theirs(options: argparse.Namespace, bf16: bool) -> Callable[[], float]:
    """Sequences per second of the plain loop."""
    import torch
    import transformers

    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    kind = transformers.BertForPreTraining if options.objective == "bert" else transformers.BertForMaskedLM
    model = kind(transformers.BertConfig(num_hidden_layers=options.layers)).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
    shape = (options.sequences, LENGTH)

    def step() -> None:
        ids = torch.randint(FIRST, VOCAB, shape, device=device)
        masked = torch.rand(shape, device=device) < MASKED
        batch = {"input_ids": ids.masked_fill(masked, 103), "labels": ids.masked_fill(~masked, -100)}
        if options.objective == "bert":
            batch["token_type_ids"] = (torch.arange(LENGTH, device=device) > LENGTH // 2).long().expand(shape)
            batch["next_sentence_label"] = torch.randint(2, shape[:1], device=device)
        with torch.autocast(device, torch.bfloat16, enabled=bf16):
            loss = model(**batch).loss
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        loss.item()

    return lambda: speed(step, options)


def ours(options: argparse.Namespace, precision: str) -> Callable[[], float]:
    """Sequences per second of the step that `pretrain-bert` takes."""
    # imported here: the other side must not get what this does to the process
    from nlptools.backend import Backend
    from nlptools.configs import Compute, Training
    from nlptools.configs.encoders import EncoderConfig
    from nlptools.models.bert import BertWithHeads
    from nlptools.pretraining.models import HEADS
    from nlptools.pretraining.objectives import Masked
    from nlptools.train.loop import Fit

    backend = Backend.detect(Compute(precision=precision))
    model: Any = BertWithHeads(EncoderConfig(VOCAB, 768, options.layers, 12, 3072), HEADS[options.objective])
    model.initialize()
    model.to(backend.device)
    run = Training(output="", lr=1e-4, steps=10**6, warmup=0, weight_decay=0.01)
    state = Fit(Masked(model), RandomBatches(options), backend, run, None)
    state.objective.train()
    state.working.train()
    return lambda: speed(state.step, options)


class RandomBatches:
    """A source of random tokens."""

    batches_per_epoch, epoch = 1e6, 0.0

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.random = options, np.random.default_rng(0)

    def __iter__(self) -> Any:
        from nlptools.data.pretraining_batches import PretrainingBatch

        rows, random = self.options.sequences, self.random
        bounds = [0, 80] if self.options.packed else [0]
        sequences = np.tile(np.searchsorted(bounds, np.arange(LENGTH), "right"), (rows, 1))
        positions = np.tile(np.arange(LENGTH), (rows, 1)) - np.array(bounds)[sequences - 1]
        firsts = (np.arange(rows)[:, None] * LENGTH + np.array(bounds)).ravel()
        while True:
            ids = random.integers(FIRST, VOCAB, (rows, LENGTH))
            masked = np.flatnonzero(random.random(ids.size) < MASKED)
            targets = ids.ravel()[masked]
            ids.ravel()[masked] = 103
            types = (positions > 30).astype(np.int64)
            following = random.integers(0, 2, len(firsts))
            yield PretrainingBatch(ids, types, positions, sequences, masked, targets, firsts, following)

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        pass


def speed(step: Callable[[], object], options: argparse.Namespace) -> float:
    """Sequences per second."""
    import torch

    begin = time.perf_counter()
    for _ in range(options.steps):
        step()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return options.steps * options.sequences / (time.perf_counter() - begin)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objective", choices=("bert", "mlm"), default="bert")
    parser.add_argument("--sequences", type=int, default=32)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--packed", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--against", default="", help="only our fastest side, and of theirs those whose name has this")
    parser.add_argument("--worker", metavar="SIDE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    import torch

    if options.worker:
        torch.set_num_threads(len(os.sched_getaffinity(0)))
        side, precision = options.worker.split("-")
        measure = theirs(options, precision == "bf16") if side == "theirs" else ours(options, precision)
        for _ in range(-(-_WARM_UP // options.steps)):  # memory that is touched for the first time is slow
            measure()
        side_by_side.serve(measure)
        return

    from nlptools.backend import Backend

    print(side_by_side.machine())
    sides = {"transformers, fp32": "theirs-fp32", "nlptools, fp32": "ours-fp32"}
    if Backend.detect().precision == "bf16":
        sides |= {"transformers, bf16 autocast": "theirs-bf16", "nlptools, bf16": "ours-bf16"}
    if options.against:
        fastest = list(sides)[-1]
        sides = {n: s for n, s in sides.items() if n == fastest or ("theirs" in s and options.against in n)}
    given = [f"--{name}={getattr(options, name)}" for name in ("objective", "sequences", "layers", "steps")]
    given += ["--packed"] if options.packed else []
    workers = {name: side_by_side.Worker(__file__, kind, *given) for name, kind in sides.items()}
    title = f"pretraining ({options.objective}), BERT base's shape, {options.layers} layers, length 128"
    side_by_side.compare(f"{title}, {options.sequences} sequences", "sequences/s", dict(workers), options.rounds)
    for worker in workers.values():
        worker.close()


if __name__ == "__main__":
    main()
