"""Pretraining a BERT: speed compared with transformers.

    NLPTOOLS_DATA=DIR python benchmarks/pretraining_speed.py [--objectives mlm,bert] [--texts articles,random] [--sequences N]
        [--layers N] [--rounds N] [--seconds N] [--against SIDE]

The other side is `BertForPreTraining` (or `BertForMaskedLM`) in the loop that one writes by hand: its own loss over the whole
vocabulary at every position, `torch.optim.AdamW` (fused), `clip_grad_norm_`; in fp32 and under bf16 autocast. Ours is the
training step of `pretrain-bert` itself, in bf16 where the processor has it, and in fp32. Dropout is 0.1.

With articles of Wikipedia, both sides train on sequences of up to 128 tokens as BERT takes them from documents: theirs has so
many sequences a step, padded to the longest of them; ours as many rows, into which sequences are packed, as the command does
it. Both count sequences. With random tokens, all get full rows of which 15% are masked: what the step costs, with nothing to
gain from packing. All sides stay in memory, 4 to 7 GB each: `--against fp32` and `--against autocast` compare ours with one of
the others.
"""

from __future__ import annotations

import itertools
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import samples
from side_by_side import Job, Separate, bench, device, in_steps, precisions, separate

VOCAB, LENGTH, MASKED, FIRST = 30522, 128, 0.15, 1000  # tokens below FIRST are special or unused in Google's vocabulary


def main() -> None:
    sizes: dict[str, Any] = {"sequences": 16, "layers": 12, "hidden": 768, "seconds": 25.0}
    with bench(__doc__, objectives=("mlm", "bert"), texts=("articles", "random"), against="", **sizes) as run:
        chosen = run.options
        chosen.spooled = run.folder / "spooled"
        if "articles" in chosen.texts:
            chosen.tokenizer = samples.minilm()
            spool(samples.wikipedia(run.folder / "articles", 4 << 20), chosen)
        for text, objective in itertools.product(chosen.texts, chosen.objectives):
            how = Namespace(**{**vars(chosen), "objective": objective, "text": text})
            sides: dict[str, Separate] = {}
            for precision in precisions():
                name = f"transformers, {'fp32' if precision == 'fp32' else 'bf16 autocast'}"
                sides |= {name: separate(theirs, how, precision)} if chosen.against in name else {}
                sides[f"nlptools, {precision}"] = separate(ours, how, precision)
            rows = f"{chosen.sequences} {'full rows' if text == 'random' else 'rows of text'}"
            shape = "BERT base's shape" if chosen.hidden == 768 else f"{chosen.hidden} wide"
            title = f"pretraining ({objective}), {shape}, {chosen.layers} layers, length {LENGTH}, {rows}"
            run.compare(title, "sequences/s", sides)


def spool(text: Path, chosen: Namespace) -> None:
    """Encode the text, and say how much of their rows sequences fill alone and packed."""
    from nlptools.corpora import documents
    from nlptools.files import streams
    from nlptools.text import tokenizer

    blocks, loaded = streams.all_blocks([str(text)], "strict"), tokenizer.load(chosen.tokenizer)
    documents.spool(blocks, chosen.spooled, loaded, longest=LENGTH - 3, sentences="auto", threads=chosen.threads)
    for pack, name in ((False, "alone"), (True, "packed")):
        how = Namespace(**{**vars(chosen), "objective": "mlm", "text": "articles"})
        batches = list(itertools.islice(source(how, pack), 200))
        real = sum((batch.sequences > 0).sum() for batch in batches) / sum(batch.ids.size for batch in batches)
        count = sum(len(batch.firsts) for batch in batches) / sum(len(batch.ids) for batch in batches)
        print(f"  {name}: {count:.2f} sequences in a row, {real:.1%} of the places taken by tokens, the others padding")


def source(how: Namespace, pack: bool) -> Any:
    """Batches of the text, or random ones."""
    if how.text == "random":
        from training_speed import Endless

        return Endless(lambda: random_batches(how.sequences))
    from nlptools.batches.masking import vocabulary
    from nlptools.batches.pretraining import Layout, Phase, PretrainingBatches
    from nlptools.corpora import documents
    from nlptools.text import tokenizer

    layout = Layout(vocabulary(tokenizer.load(how.tokenizer)), next_sentence=how.objective == "bert", pack=pack)
    return PretrainingBatches(documents.open_spooled(how.spooled), layout, [Phase(LENGTH, how.sequences)], seed=0)


def random_batches(rows: int) -> Iterator[Any]:
    """Full rows of random tokens."""
    from nlptools.batches.pretraining import PretrainingBatch

    random = np.random.default_rng(0)
    sequences, positions = np.ones((rows, LENGTH), np.int64), np.tile(np.arange(LENGTH), (rows, 1))
    firsts, types = np.arange(rows) * LENGTH, (positions > 30).astype(np.int64)
    while True:
        ids = random.integers(FIRST, VOCAB, (rows, LENGTH))
        masked = np.flatnonzero(random.random(ids.size) < MASKED)
        targets = ids.ravel()[masked]
        ids.ravel()[masked] = 103
        following = random.integers(0, 2, len(firsts))
        yield PretrainingBatch(ids, types, positions, sequences, masked, targets, firsts, following)


def theirs(how: Namespace, precision: str) -> Job:
    """The plain loop."""
    import torch
    import transformers

    torch.manual_seed(0)
    kind = transformers.BertForPreTraining if how.objective == "bert" else transformers.BertForMaskedLM
    sizes = {"num_hidden_layers": how.layers, "hidden_size": how.hidden, "intermediate_size": 4 * how.hidden}
    config: Any = transformers.BertConfig(**sizes, num_attention_heads=how.hidden // 64)
    model = kind(config).to(device()).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
    batches = iter(source(how, pack=False))

    def step() -> int:
        batch = next(batches)
        with torch.autocast(device(), torch.bfloat16, enabled=precision == "bf16"):
            loss = model(**padded(batch, how.objective)).loss
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        loss.item()
        return len(batch.firsts)

    return in_steps(step, how.seconds)


def padded(batch: Any, objective: str) -> dict[str, Any]:
    """A batch of one sequence in each row as `transformers` takes it, no longer than its longest sequence."""
    import torch

    longest = int((batch.sequences > 0).sum(1).max())
    labels = np.full(batch.ids.size, -100)
    labels[batch.masked] = batch.targets
    arrays = {"input_ids": batch.ids, "token_type_ids": batch.types, "labels": labels.reshape(batch.ids.shape)}
    if not batch.sequences.all():
        arrays["attention_mask"] = batch.sequences
    given = {name: torch.from_numpy(array[:, :longest].copy()).to(device()) for name, array in arrays.items()}
    if objective == "bert":
        given["next_sentence_label"] = torch.from_numpy(batch.next_sentence).to(device())
    return given


def ours(how: Namespace, precision: str) -> Job:
    """The step that `pretrain-bert` takes."""
    from nlptools.compute.backend import Backend
    from nlptools.configs import Compute, Training
    from nlptools.models.encoders.bert import EncoderConfig
    from nlptools.models.encoders.bert_with_heads import BertWithHeads
    from nlptools.training.engine.steps import Fit
    from nlptools.training.pretraining.models import HEADS
    from nlptools.training.pretraining.objectives import Masked

    backend = Backend.detect(Compute(precision=precision))
    config = EncoderConfig(VOCAB, how.hidden, how.layers, how.hidden // 64, 4 * how.hidden)
    model: Any = BertWithHeads(config, HEADS[how.objective])
    model.initialize()
    model.to(backend.device)
    run = Training(output="", lr=1e-4, steps=10**6, warmup=0, weight_decay=0.01)
    fit = Fit(Masked(model), source(how, pack=True), backend, run, None)
    fit.objective.train()
    last: list[Any] = [None]

    def seen(batch: Any) -> Any:
        last[0] = batch
        return batch

    def step() -> int:
        fit.step()
        return len(last[0].firsts)

    fit.batches = map(seen, fit.batches)
    return in_steps(step, how.seconds)


if __name__ == "__main__":
    main()
