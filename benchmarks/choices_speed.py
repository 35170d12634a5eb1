"""Multiple choice: speed compared with lm-evaluation-harness.

    python benchmarks/choices_speed.py [--items N] [--layers N] [--rounds N]

A context of 40 to 120 tokens and 4 choices of 3 to 20, from the help topics of Python; GPT-2 124M shape with random weights,
and a tokenizer of 4,000 pieces. The other side is the backend `hf` of lm-evaluation-harness, which reads the context anew for
each choice: on a GPU with `batch_size` auto; on a CPU with 64, which is what auto finds there (after five passes over 64 of the
longest sequences), and with 16. It is left out where that package is not installed. Both sides start from strings.
"""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import samples
from side_by_side import Job, bench, by_precision, device, precisions, separate

CHOICES = 4


def main() -> None:
    with bench(__doc__, items=1000, layers=12, hidden=768) as run:
        items, folder = run.options.items, samples.gpt2(run.folder, run.options.layers, run.options.hidden, pieces=4000)
        sides = {}
        for batch in (("auto",) if device() == "cuda" else ("16", "64")) if importlib.util.find_spec("lm_eval") else ():
            for precision in precisions():
                name = f"lm-evaluation-harness hf, {precision}, batch {batch}"
                sides[name] = separate(harness, folder, items, batch, precision)
        sides |= by_precision({"nlptools": ours}, folder, items)
        shape = f"GPT-2 of {run.options.layers} layers, {run.options.hidden} wide (124M: 12)"
        run.compare(f"{items:,} items of {CHOICES} choices, {shape}", "items/s", sides, check=differences)


def differences(results: Mapping[str, Any]) -> str:
    """How far log-probabilities are apart."""
    theirs = next((values for name, values in results.items() if name.startswith("lm-eval") and "fp32" in name), None)
    if theirs is None:
        return "lm_eval is not installed"
    most = max(abs(a - b) for a, b in zip(theirs, results["nlptools, fp32"], strict=True))
    return f"log-probabilities in fp32 differ by at most {most:.0e}"


def pairs(count: int) -> list[tuple[str, str]]:
    """The context and a choice, four times `count`; the first choice of each item is what follows in the text."""
    rng, text = random.Random(0), " ".join(samples.help_topics()).split()
    out = []
    for _ in range(count):
        begin, length = rng.randrange(len(text) - 200), rng.randrange(20, 60)
        context = " ".join(text[begin : begin + length])
        places = [begin + length, *(rng.randrange(len(text) - 200) for _ in range(CHOICES - 1))]
        out += [(context, " " + " ".join(text[place : place + rng.randrange(2, 10)])) for place in places]
    return out


def ours(folder: Path, items: int, precision: str) -> Job:
    """Log-probabilities by nlptools."""
    import nlptools

    model, requests = nlptools.load(folder, precision=precision), pairs(items)
    return lambda: (items, [each.log_probability for each in model.likelihoods(requests)])


def harness(folder: Path, items: int, batch: str, precision: str) -> Job:
    """Log-probabilities by lm-evaluation-harness."""
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    dtype = {"fp32": "float32", "bf16": "bfloat16"}[precision]
    model = HFLM(pretrained=str(folder), dtype=dtype, device=device(), batch_size=batch)
    instances = [Instance("loglikelihood", {}, pair, i) for i, pair in enumerate(pairs(items))]
    return lambda: (items, [value for value, _ in model.loglikelihood(instances, disable_tqdm=True)])


if __name__ == "__main__":
    main()
