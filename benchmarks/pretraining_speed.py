"""Pretraining a BERT: speed compared with transformers.

    python benchmarks/pretraining_speed.py [--objective bert|mlm] [--text FILE --tokenizer PATH] [--sequences N]
        [--layers N] [--rounds N] [--steps N] [--against SIDE]

The other side is `BertForPreTraining` (or `BertForMaskedLM`) in the loop that one writes by hand: its own loss over the whole
vocabulary at every position, `torch.optim.AdamW` (fused), `clip_grad_norm_`; in fp32 and under bf16 autocast. Ours is the
training step of `pretrain-bert` itself, in bf16 where the processor has it, and in fp32. Dropout is 0.1.

With `--text`, both sides train on sequences of up to 128 tokens as BERT takes them from documents (running text, blank lines
between documents): theirs has so many sequences a step, padded to the longest of them; ours as many rows, into which
sequences are packed, as the command does it. Both count sequences. Without, all get full rows of random tokens of which 15%
are masked: what the step costs, with nothing to gain from packing.
All sides stay in memory, 4 to 7 GB each: where 24 GB are all there is, `--against fp32` and `--against autocast` compare our
fastest one with one of the others.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import side_by_side

if TYPE_CHECKING:
    from nlptools.batches.pretraining import PretrainingBatch

VOCAB, LENGTH, MASKED, FIRST = 30522, 128, 0.15, 1000  # tokens below FIRST are special or unused in Google's vocabulary
_BATCHES = 200  # of the text that are looked at to say how full they are
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
    batches = iter(source(options, pack=False))

    def step() -> int:
        batch = next(batches)
        with torch.autocast(device, torch.bfloat16, enabled=bf16):
            loss = model(**padded(batch, options, device)).loss
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        loss.item()
        return len(batch.firsts)

    return lambda: speed(step, options)


def padded(batch: PretrainingBatch, options: argparse.Namespace, device: str) -> dict[str, Any]:
    """A batch of one sequence in each row as `transformers` takes it, no longer than its longest sequence."""
    import torch

    longest = int((batch.sequences > 0).sum(1).max())
    labels = np.full(batch.ids.size, -100)
    labels[batch.masked] = batch.targets
    arrays = {"input_ids": batch.ids, "token_type_ids": batch.types, "labels": labels.reshape(batch.ids.shape)}
    if not batch.sequences.all():
        arrays["attention_mask"] = batch.sequences
    given = {name: torch.from_numpy(array[:, :longest]).to(device) for name, array in arrays.items()}
    if options.objective == "bert":
        given["next_sentence_label"] = torch.from_numpy(batch.next_sentence).to(device)
    return given


def ours(options: argparse.Namespace, precision: str) -> Callable[[], float]:
    """Sequences per second of the step that `pretrain-bert` takes."""
    # imported here: the other side must not get what this does to the process
    from nlptools.compute.backend import Backend
    from nlptools.configs import Compute, Training
    from nlptools.models.encoders.bert import BertWithHeads, EncoderConfig
    from nlptools.training.engine.steps import Fit
    from nlptools.training.pretraining.models import HEADS
    from nlptools.training.pretraining.objectives import Masked

    backend = Backend.detect(Compute(precision=precision))
    model: Any = BertWithHeads(EncoderConfig(VOCAB, 768, options.layers, 12, 3072), HEADS[options.objective])
    model.initialize()
    model.to(backend.device)
    run = Training(output="", lr=1e-4, steps=10**6, warmup=0, weight_decay=0.01)
    state = Fit(Masked(model), source(options, pack=True), backend, run, None)
    state.objective.train()

    sequences = 0

    def counted(batch: PretrainingBatch) -> PretrainingBatch:
        nonlocal sequences
        sequences = len(batch.firsts)
        return batch

    def step() -> int:
        state.step()
        return sequences

    state.batches = map(counted, state.batches)
    return lambda: speed(step, options)


def source(options: argparse.Namespace, pack: bool) -> Any:
    """Batches of the text, or random ones."""
    if options.spooled is None:
        return RandomBatches(options.sequences)
    from nlptools.batches.masking import vocabulary
    from nlptools.batches.pretraining import Layout, Phase, PretrainingBatches
    from nlptools.corpora import documents
    from nlptools.text import tokenizer

    layout = Layout(vocabulary(tokenizer.load(options.tokenizer)), next_sentence=options.objective == "bert", pack=pack)
    found = documents.open_spooled(options.spooled)
    return PretrainingBatches(found, layout, [Phase(LENGTH, options.sequences)], seed=0)


class RandomBatches(side_by_side.Endless):
    """A source of random tokens."""

    def __init__(self, rows: int) -> None:
        self.rows, self.random = rows, np.random.default_rng(0)

    def __iter__(self) -> Any:
        from nlptools.batches.pretraining import PretrainingBatch

        rows, random = self.rows, self.random
        sequences = np.ones((rows, LENGTH), np.int64)
        positions = np.tile(np.arange(LENGTH), (rows, 1))
        firsts = np.arange(rows) * LENGTH
        while True:
            ids = random.integers(FIRST, VOCAB, (rows, LENGTH))
            masked = np.flatnonzero(random.random(ids.size) < MASKED)
            targets = ids.ravel()[masked]
            ids.ravel()[masked] = 103
            types = (positions > 30).astype(np.int64)
            following = random.integers(0, 2, len(firsts))
            yield PretrainingBatch(ids, types, positions, sequences, masked, targets, firsts, following)


def speed(step: Callable[[], int], options: argparse.Namespace) -> float:
    """Sequences per second, of steps that say how many they took."""
    import torch

    begin, done = time.perf_counter(), 0
    for _ in range(options.steps):
        done += step()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return done / (time.perf_counter() - begin)


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objective", choices=("bert", "mlm"), default="bert")
    parser.add_argument("--text", help="running text to train on, blank lines between documents")
    parser.add_argument("--tokenizer", help="a tokenizer of BERT's, of at most 30,522 pieces")
    parser.add_argument("--sequences", type=int, default=32)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--against", default="", help="only our fastest side, and of theirs those whose name has this")
    parser.add_argument("--worker", metavar="SIDE", help=argparse.SUPPRESS)
    parser.add_argument("--spooled", type=Path, help=argparse.SUPPRESS)
    found = parser.parse_args()
    if bool(found.text) != bool(found.tokenizer) and not found.worker:
        parser.error("--text and --tokenizer go together")
    return found


def work(options: argparse.Namespace) -> None:
    """Be one of the sides."""
    import torch

    torch.set_num_threads(side_by_side.CORES)
    side, precision = options.worker.split("-")
    measure = theirs(options, precision == "bf16") if side == "theirs" else ours(options, precision)
    for _ in range(-(-_WARM_UP // options.steps)):  # memory that is touched for the first time is slow
        measure()
    side_by_side.serve(measure)


def spool(options: argparse.Namespace, path: Path) -> None:
    """Encode the text, and say how much of their rows sequences fill alone and packed."""
    from nlptools.corpora import documents
    from nlptools.files import streams
    from nlptools.text import tokenizer

    blocks, loaded = streams.all_blocks([options.text], "strict"), tokenizer.load(options.tokenizer)
    threads = side_by_side.CORES
    documents.spool(blocks, path, loaded, longest=LENGTH - 3, sentences="auto", threads=threads)
    options.spooled = path
    for pack, what in ((False, "alone"), (True, "packed")):
        batches = list(itertools.islice(source(options, pack), _BATCHES))
        real = sum((batch.sequences > 0).sum() for batch in batches) / sum(batch.ids.size for batch in batches)
        count = sum(len(batch.firsts) for batch in batches) / sum(len(batch.ids) for batch in batches)
        print(f"  {what}: {count:.2f} sequences in a row, {real:.1%} of the places taken by tokens, the others padding")


def main() -> None:
    found = arguments()
    if found.worker:
        work(found)
        return
    from nlptools.compute.backend import Backend

    print(side_by_side.machine())
    sides = {"transformers, fp32": "theirs-fp32", "nlptools, fp32": "ours-fp32"}
    if Backend.detect().precision == "bf16":
        sides |= {"transformers, bf16 autocast": "theirs-bf16", "nlptools, bf16": "ours-bf16"}
    if found.against:
        fastest = list(sides)[-1]
        sides = {n: s for n, s in sides.items() if n == fastest or ("theirs" in s and found.against in n)}
    with tempfile.TemporaryDirectory() as directory:
        if found.text:
            spool(found, Path(directory, "text"))
        given = [f"--{name}={getattr(found, name)}" for name in ("objective", "sequences", "layers", "steps")]
        given += [f"--{name}={getattr(found, name)}" for name in ("tokenizer", "spooled") if found.text]
        workers = {name: side_by_side.Worker(__file__, kind, *given) for name, kind in sides.items()}
        title = f"pretraining ({found.objective}), BERT base's shape, {found.layers} layers, length {LENGTH}"
        title += f", {found.sequences} {'rows of text' if found.text else 'full rows'}"
        side_by_side.compare(title, "sequences/s", workers, found.rounds)


if __name__ == "__main__":
    main()
