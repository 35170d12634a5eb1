"""Multiple choice: speed compared with lm-evaluation-harness.

    python benchmarks/choices_speed.py [--items N] [--layers N] [--rounds N]

1,000 items of a context of 40 to 120 tokens and 4 choices of 3 to 20, from the help topics of Python; GPT-2 124M shape with
random weights, and a tokenizer of 4,000 pieces. The other side is the backend `hf` of lm-evaluation-harness, which reads the
context anew for each choice: on a GPU with `batch_size` auto; on a CPU with 64, which is what auto finds there (after five
passes over 64 of the longest sequences), and with 16. It is left out where that package is not installed. Both sides start from
strings. Values are compared in fp32.
"""

from __future__ import annotations

import importlib.util
import random
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import side_by_side
import torch

CHOICES = 4


def words() -> list[str]:
    """The words of the help topics of Python, in order."""
    from pydoc_data.topics import topics

    return " ".join(topics[name] for name in sorted(topics)).split()


def pairs(count: int) -> list[tuple[str, str]]:
    """The context and a choice, four times `count`; the first choice of each item is what follows in the text."""
    rng, text = random.Random(0), words()
    out = []
    for _ in range(count):
        begin, length = rng.randrange(len(text) - 200), rng.randrange(20, 60)
        context = " ".join(text[begin : begin + length])
        places = [begin + length, *(rng.randrange(len(text) - 200) for _ in range(CHOICES - 1))]
        out += [(context, " " + " ".join(text[place : place + rng.randrange(2, 10)])) for place in places]
    return out


def make_model(directory: str, layers: int) -> None:
    """A GPT-2 directory with random weights."""
    from tokenizers import ByteLevelBPETokenizer
    from transformers import GPT2Config, GPT2LMHeadModel, GPT2TokenizerFast

    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator([" ".join(words())], vocab_size=4000, special_tokens=["<|endoftext|>"])
    tokenizer.save(f"{directory}/tokenizer.json")
    GPT2TokenizerFast(tokenizer_file=f"{directory}/tokenizer.json").save_pretrained(directory)
    torch.manual_seed(0)
    GPT2LMHeadModel(GPT2Config(n_layer=layers, bos_token_id=0, eos_token_id=0)).save_pretrained(directory)


def our_side(directory: str, precision: str, requests: list[tuple[str, str]]) -> Callable[[], list[float]]:
    """Log-probabilities by nlptools."""
    import nlptools

    model = nlptools.load(directory, precision=precision)
    return lambda: [each.log_probability for each in model.likelihoods(requests)]


def harness_side(
    directory: str, precision: str, requests: list[tuple[str, str]], batch: str
) -> Callable[[], list[float]]:
    """Log-probabilities by lm-evaluation-harness."""
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    dtype = {"fp32": "float32", "bf16": "bfloat16"}[precision]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = HFLM(pretrained=directory, dtype=dtype, device=device, batch_size=batch)
    instances = [Instance("loglikelihood", {}, pair, i) for i, pair in enumerate(requests)]
    return lambda: [value for value, _ in model.loglikelihood(instances, disable_tqdm=True)]


def worker(directory: str, side: str, items: int) -> None:
    """Serve one side."""
    torch.set_num_threads(side_by_side.CORES)
    name, precision, *batch = side.split("-")
    make = our_side if name == "nlptools" else harness_side
    with redirect_stdout(sys.stderr):  # standard output is for figures, and the harness writes notes there
        score = make(directory, precision, pairs(items), *batch)

    def measure() -> float:
        begin = time.perf_counter()
        with redirect_stdout(sys.stderr):
            values = score()
        taken = time.perf_counter() - begin
        np.save(f"{directory}/{side}.npy", np.array(values))
        return items / taken

    side_by_side.serve(measure)


def main() -> None:
    arguments = side_by_side.options(__doc__, items=1000, layers=12, rounds=3)
    if arguments.worker:
        directory, side, items = arguments.worker
        worker(directory, side, int(items))
        return

    print(side_by_side.machine())
    precisions = side_by_side.precisions()
    known = importlib.util.find_spec("lm_eval") is not None
    if not known:
        print("lm_eval is not installed: nlptools alone")
    batches = ["auto"] if torch.cuda.is_available() else ["16", "64"]
    settings = [(p, batch) for p in precisions for batch in batches if known]
    sides = {f"lm-evaluation-harness hf, {p}, batch {batch}": f"harness-{p}-{batch}" for p, batch in settings}
    sides.update({f"nlptools, {p}": f"nlptools-{p}" for p in precisions})
    title = f"{arguments.items:,} items of {CHOICES} choices, GPT-2 of {arguments.layers} layers, 768 wide (124M: 12)"
    with tempfile.TemporaryDirectory() as directory:
        make_model(directory, arguments.layers)
        workers = {n: side_by_side.Worker(__file__, directory, s, str(arguments.items)) for n, s in sides.items()}
        side_by_side.compare(title, "items/s", workers, arguments.rounds)
        if known:
            both = [
                np.load(Path(directory) / f"{side}.npy") for side in (f"harness-fp32-{batches[0]}", "nlptools-fp32")
            ]
            print(f"  log-probabilities in fp32 differ by at most {np.abs(both[0] - both[1]).max():.1e}")


if __name__ == "__main__":
    main()
