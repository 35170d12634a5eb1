"""Surprisal and pseudo-log-likelihood: speed compared with minicons.

    [NLPTOOLS_DATA=DIR] python benchmarks/surprisal_speed.py [TEXT] [--lines 500] [--rounds 3] [--shape L,D,H] [--vocab N]

A GPT-2 and a BERT (12 layers of 768 and 12 heads unless --shape says otherwise; random weights, which take as long as any
others) score lines of TEXT (default: the validation text of the slice of Wikipedia in NLPTOOLS_DATA) of 5 to 60 words, with
tokenizers learned from it. Words per second of `score --per word` with its correction, and of `score --masked within-word`, in
fp32 and in bf16 where the processor has it; minicons (`pip install minicons`; it does not come with nlptools) does the same
with `word_score_tokenized` and `compute_stats`, in batches of 32 and of 4 lines of similar length. Values in fp32 are compared.
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import side_by_side
import torch
from side_by_side import Worker, compare, machine, nlptools, published, seconds, serve

MASKED_SHARE = 10  # a masked line takes as many passes as it has tokens: so many times fewer lines


def main() -> None:
    """Measure and report."""
    options = side_by_side.options(__doc__, "/text?", lines=500, rounds=3, shape="12,768,12", vocab=30000)
    if options.worker:
        side, job, place = options.worker
        lines = (Path(place) / f"{job}.txt").read_text(encoding="utf-8").split("\n")[:-1]
        score = (
            their_scores(job, Path(place), lines) if side == "minicons" else our_scores(job, Path(place), lines, side)
        )
        serve(timed(score, lines))
        return
    print(machine())
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        prepare(place, options.text or published("enwiki_slice", "valid.txt"), options)
        for job, title in (("gpt2", "surprisal of words"), ("bert", "pseudo-log-likelihoods within words")):
            measure(place, job, f"{title}, {job.upper()} {options.shape}", options.rounds)


def measure(place: Path, job: str, title: str, rounds: int) -> None:
    """One job, both sides."""
    from nlptools.compute.backend import Backend

    names = {"nlptools, fp32": "fp32"}
    if Backend.detect().precision == "bf16":
        names["nlptools, bf16"] = "bf16"
    if importlib.util.find_spec("minicons"):
        names["minicons, fp32"] = "minicons"
        check(place, job)
    else:
        print("minicons is not installed: pip install minicons")
    sides = {name: Worker(__file__, side, job, str(place)) for name, side in names.items()}
    compare(title, "words/s", sides, rounds)


def timed(score: Callable[[], object], lines: list[str]) -> Callable[[], float]:
    """Words per second of `score`, which scores all lines."""
    words = sum(len(line.split()) for line in lines)
    return lambda: words / seconds(score)


def check(place: Path, job: str) -> None:
    """Both sides give the same score of a line: all of its pieces summed."""
    lines = (place / f"{job}.txt").read_text(encoding="utf-8").split("\n")[:4]
    ours, theirs = our_scores(job, place, lines, "fp32")(), their_scores(job, place, lines)()
    # where words begin, minicons counts neither the end of the text nor white space other than the space
    np.testing.assert_allclose(ours, theirs, rtol=1e-3 if job == "bert" else 1e-2)


def our_scores(job: str, place: Path, lines: list[str], precision: str) -> Callable[[], list[float]]:
    """The scores of lines by `score`."""
    import nlptools as package
    from nlptools.configs.scoring import Score

    masked = None if job == "gpt2" else "within-word"
    model: Any = package.load(place / job, precision=precision, settings=Score(masked=masked))
    if masked:
        return lambda: [score for score, _ in model.totals(lines, Score(masked=masked))]
    return lambda: [sum(score.surprisals) for score in model.words(lines, Score(per="word"))]


def their_scores(job: str, place: Path, lines: list[str]) -> Callable[[], list[float]]:
    """The same by minicons, in batches of lines of similar length."""
    from minicons import scorer

    size = 32 if job == "gpt2" else 4
    order = sorted(range(len(lines)), key=lambda i: -len(lines[i]))
    batches = [order[i : i + size] for i in range(0, len(order), size)]
    model: Any
    if job == "gpt2":
        model = scorer.IncrementalLMScorer(str(place / job), "cpu")
    else:
        model = scorer.MaskedLMScorer(str(place / job), "cpu")

    def one(texts: list[str]) -> list[float]:
        if job == "bert":
            # as `sequence_score` does, whose tokenization calls a method that transformers 5 no longer has
            encoded = model.tokenizer(texts, padding=True, return_tensors="pt")
            rows = model.compute_stats(
                list(model.prepare_text(encoded, PLL_metric="within_word_l2r")), return_tensors=True
            )
            return [float(row.sum()) for row in rows]
        words = model.word_score_tokenized(texts, str.split, bow_correction=True, bos_token=True, surprisal=True)
        return [sum(score for _, score in line) for line in words]

    def score() -> list[float]:
        out = [0.0] * len(lines)
        for batch in batches:
            for i, value in zip(batch, one([lines[i] for i in batch]), strict=True):
                out[i] = value
        return out

    return score


def prepare(place: Path, text: Path, options: argparse.Namespace) -> None:
    """The lines of each job, and the models, as transformers saves them."""
    from transformers import (
        BertConfig,
        BertForMaskedLM,
        BertTokenizerFast,
        GPT2Config,
        GPT2LMHeadModel,
        GPT2TokenizerFast,
    )

    kept = [line for line in text.read_text(encoding="utf-8").split("\n") if 5 <= len(line.split()) <= 60]
    lines = [" ".join(line.split()) for line in kept[: options.lines]]
    (place / "gpt2.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (place / "bert.txt").write_text("\n".join(lines[: max(4, len(lines) // MASKED_SHARE)]) + "\n", encoding="utf-8")
    layers, hidden, heads = map(int, options.shape.split(","))
    for job, kind in (("gpt2", "byte-bpe"), ("bert", "wordpiece")):
        nlptools("build-vocab", "-q", "--kind", kind, "--size", options.vocab, "-o", place / job, text)
    torch.manual_seed(0)
    fast: Any = GPT2TokenizerFast.from_pretrained(place / "gpt2")
    eos = fast.eos_token_id
    sizes: dict[str, Any] = {"n_embd": hidden, "n_layer": layers, "n_head": heads, "initializer_range": 0.05}
    gpt2 = GPT2Config(**sizes, vocab_size=len(fast), bos_token_id=eos, eos_token_id=eos)
    GPT2LMHeadModel(gpt2).save_pretrained(place / "gpt2")
    fast.save_pretrained(place / "gpt2")
    pieces: Any = BertTokenizerFast.from_pretrained(place / "bert")
    sizes = {
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "initializer_range": 0.05,
    }
    bert = BertConfig(**sizes, intermediate_size=4 * hidden, vocab_size=len(pieces))
    BertForMaskedLM(bert).save_pretrained(place / "bert")
    pieces.save_pretrained(place / "bert")


if __name__ == "__main__":
    main()
