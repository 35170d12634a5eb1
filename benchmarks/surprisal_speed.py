"""Surprisal and pseudo-log-likelihood: speed compared with minicons.

    [NLPTOOLS_DATA=DIR] python benchmarks/surprisal_speed.py [TEXT] [--lines 500] [--layers 12] [--hidden 768] [--rounds 3]

A GPT-2 and a BERT with random weights score lines of 5 to 60 words of TEXT (default: the validation text of the slice of
Wikipedia in NLPTOOLS_DATA), with tokenizers learned from it. Words per second of `score --per word` with its correction, and of
`score --masked within-word`, in fp32 and in bf16 where the processor has it; minicons (`pip install minicons`) does the same
with `word_score_tokenized` and `compute_stats`, in batches of 32 and of 4 lines of similar length.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import samples
from side_by_side import Job, bench, by_precision, published, read, separate, write

MASKED_SHARE = 10  # a masked line takes as many passes as it has tokens: so many times fewer lines
JOBS = {"gpt2": "surprisal of words", "bert": "pseudo-log-likelihoods within words"}


def main() -> None:
    with bench(__doc__, "/text?", jobs=JOBS, lines=500, layers=12, hidden=768, vocab=30000) as run:
        chosen = run.options
        text = chosen.text or published("enwiki_slice", "valid.txt")
        lines = samples.sentences(text, chosen.lines)
        for job in chosen.jobs:
            folder, some = run.folder / job, lines if job == "gpt2" else lines[: max(4, len(lines) // MASKED_SHARE)]
            if job == "gpt2":
                samples.gpt2(folder, chosen.layers, chosen.hidden, vocab=chosen.vocab, pieces=chosen.vocab, text=text)
            else:
                samples.bert(folder, text, chosen.layers, chosen.hidden, chosen.vocab)
            path = write(run.folder / f"{job}.txt", some)
            sides = by_precision({"nlptools": ours}, job, folder, path)
            if importlib.util.find_spec("minicons"):
                sides["minicons, fp32"] = separate(minicons, job, folder, path)
            heads = chosen.hidden // 64
            title = f"{JOBS[job]}, {job.upper()} {chosen.layers},{chosen.hidden},{heads}"
            run.compare(title, "words/s", sides, check=differences)


def differences(results: Mapping[str, list[float]]) -> str:
    """How far the scores of whole lines are apart.

    Where words begin, minicons counts neither the end of the text nor white space other than the space.
    """
    if "minicons, fp32" not in results:
        return "minicons is not installed"
    pairs = zip(results["minicons, fp32"], results["nlptools, fp32"], strict=True)
    return f"scores of lines in fp32 differ by at most {max(abs(a - b) / abs(a) for a, b in pairs):.0e} of the score"


def ours(job: str, folder: Path, path: Path, precision: str) -> Job:
    """The scores of lines by `score`."""
    import nlptools
    from nlptools.configs.scoring import Score

    masked, lines = None if job == "gpt2" else "within-word", read(path)
    model: Any = nlptools.load(folder, precision=precision, settings=Score(masked=masked))
    words = sum(len(line.split()) for line in lines)
    if masked:
        return lambda: (words, [score for score, _ in model.totals(lines, Score(masked=masked))])
    return lambda: (words, [sum(score.surprisals) for score in model.words(lines, Score(per="word"))])


def minicons(job: str, folder: Path, path: Path) -> Job:
    """The same by minicons, in batches of lines of similar length."""
    from minicons import scorer

    lines, size = read(path), 32 if job == "gpt2" else 4
    order = sorted(range(len(lines)), key=lambda i: -len(lines[i]))
    model: Any = (scorer.IncrementalLMScorer if job == "gpt2" else scorer.MaskedLMScorer)(str(folder), "cpu")

    def scores(texts: list[str]) -> list[float]:
        if job == "bert":
            # as `sequence_score` does, whose tokenization calls a method that transformers 5 no longer has
            encoded = model.tokenizer(texts, padding=True, return_tensors="pt")
            masked = list(model.prepare_text(encoded, PLL_metric="within_word_l2r"))
            return [float(row.sum()) for row in model.compute_stats(masked, return_tensors=True)]
        words = model.word_score_tokenized(texts, str.split, bow_correction=True, bos_token=True, surprisal=True)
        return [sum(score for _, score in line) for line in words]

    def score() -> tuple[int, list[float]]:
        out = [0.0] * len(lines)
        for start in range(0, len(order), size):
            batch = order[start : start + size]
            for i, value in zip(batch, scores([lines[i] for i in batch]), strict=True):
                out[i] = value
        return sum(len(line.split()) for line in lines), out

    return score


if __name__ == "__main__":
    main()
