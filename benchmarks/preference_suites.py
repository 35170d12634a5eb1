"""Alignment with known rewards.

    python benchmarks/preference_suites.py [--suites word,half,copy,quarter] [--methods ppo,grpo,rloo,dpo] [--seeds 1-10]
        [--steps 1800] [--examples 4000] [--pairs 20000] [--noise 0.0] [--keep DIR]

A response has 8 words of 20, which are independent and equally likely in the demonstrations; its reward is the fraction of words
that are good: one word, half of them, the word of the prompt, or those of a quarter. For such a reward the best policy at a
divergence of D nats from the reference is known: each word is drawn from p(w) exp(good(w) / b), with b such that the
divergence of 8 words is D. PPO and its kin get D = 10 as their --kl-target, and nothing that depends on the suite. Measured are
the rewards of new samples, by the known function, as a percentage of the best at 10 nats, or at the divergence at the end of
the run where that is more; and the accuracy of the reward model on pairs with known rewards. --noise: the fraction of pairs whose
order is reversed. With --keep a second call measures only what the first has not.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import records
import side_by_side
from side_by_side import nlptools, unfinished

from nlptools.batches.completions import ChatSegment
from nlptools.compute.backend import Backend
from nlptools.configs import Compute
from nlptools.configs.ppo import TrainPPO
from nlptools.training.preferences.policy import Policy
from nlptools.training.preferences.policy import log_probabilities as policy_log_probabilities

WORDS, LENGTH, BUDGET, GOAL = 20, 8, 10.0, 90.0
SIZES = ("--layers", 2, "--hidden", 64, "--heads", 2, "--context", 24)
# (number of the word in the prompt, number of a word) -> whether the word is good; and how many words are
SUITES: dict[str, tuple[Callable[[int, int], bool], int]] = {
    "word": (lambda prompt, word: word == 3, 1),
    "half": (lambda prompt, word: word < WORDS // 2, WORDS // 2),
    "copy": (lambda prompt, word: word == prompt, 1),
    "quarter": (lambda prompt, word: word % 4 == 0, WORDS // 4),
}
METHODS = ("ppo", "grpo", "rloo", "dpo")
ACCURACY = "nlptools, accuracy of rewards"
REINFORCED = (
    *("--kl-target", BUDGET, "--missing-end", 1, "--lr", 1e-3, "--max-new-tokens", LENGTH + 2),
    *("--batch-size", 256, "--schedule", "trapezoid", "--log-every", 1, "--save-every", "never"),
)
PROMPTS = {"ppo": 256, "grpo": 64, "rloo": 64}  # of a rollout, which has 256 samples then


def arguments() -> argparse.Namespace:
    """The options."""
    return side_by_side.options(
        __doc__,
        suites=",".join(SUITES),
        methods=",".join(METHODS),
        seeds=",".join(map(str, range(1, 11))),
        steps=1800,
        examples=4000,
        pairs=20000,
        noise=0.0,
        keep=Path,
    )


def main() -> None:
    """Run all suites, methods and seeds; print a line for each and a table."""
    options = arguments()
    print(side_by_side.machine(), flush=True)
    suites, seeds = options.suites.split(","), options.seeds.split(",")
    with tempfile.TemporaryDirectory() as temporary:
        scratch = options.keep or Path(temporary)
        tables: dict[str, dict[str, list[float]]] = {suite: {} for suite in suites}
        for seed in map(int, seeds):
            for suite in suites:
                for side, value in run(suite, seed, scratch / f"{suite}-{seed}", options).items():
                    tables[suite].setdefault(side, []).append(value)
    for suite, sides in tables.items():
        show(suite, sides)


def show(suite: str, sides: dict[str, list[float]]) -> None:
    """Print and record the table of a suite."""
    title = f"suite {suite}: reward of {WORDS} words, percent of the best at a divergence of {BUDGET:g} nats"
    print(f"\n{title}\n  {'':<36}{'mean':>8}{'minimum':>9}   seeds at {GOAL:g} or more")
    for side, values in sides.items():
        reached = f"{sum(value >= GOAL for value in values)} of {len(values)}"
        print(f"  {side:<36}{statistics.mean(values):>8.1f}{min(values):>9.1f}   {reached}")
    means = {side: statistics.mean(values) for side, values in sides.items()}
    ranges = {side: (min(values), max(values)) for side, values in sides.items()}
    records.record(title, "percent", means, ranges=ranges, rounds=max(map(len, sides.values())))


def run(suite: str, seed: int, folder: Path, options: argparse.Namespace) -> dict[str, float]:
    """The results of one suite and seed, in percent, by side."""
    good, count = SUITES[suite]
    prepare(folder, good, seed, options)
    accuracy = json.loads((folder / "reward" / "training.json").read_text())["metrics"]["valid_accuracy"]
    results = {ACCURACY: 100 * accuracy}
    for method in options.methods.split(","):
        saved = folder / f"{method}.json"
        if not saved.exists():
            began = time.monotonic()
            train(method, folder, seed, options.steps)
            seconds = time.monotonic() - began
            reward, divergence = measured(folder, method, good, seed)
            percent = 100 * reward / best_reward(count / WORDS, max(BUDGET, divergence))
            row = {"percent": percent, "reward": reward, "nats": divergence, "seconds": seconds}
            saved.write_text(json.dumps(row))
        row = json.loads(saved.read_text())
        facts = f"reward {row['reward']:.3f} at {row['nats']:.1f} nats, in {row['seconds']:.0f} s"
        print(f"{suite} {seed} {method}: {row['percent']:.1f} %, {facts}", flush=True)
        results[f"nlptools, {method}"] = row["percent"]
    return results


def prepare(folder: Path, good: Callable[[int, int], bool], seed: int, options: argparse.Namespace) -> None:
    """The files, the model of the demonstrations, and the reward model, unless they are there."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(seed)
    prompts = [rng.randrange(WORDS) for _ in range(options.examples)]
    demonstrations = [(prompt, response(rng)) for prompt in prompts]
    write(folder / "text.txt", [f"{text(prompt)} {answer}" for prompt, answer in demonstrations])
    write(folder / "sft.jsonl", [{"prompt": text(prompt), "completion": answer} for prompt, answer in demonstrations])
    write(folder / "pairs.jsonl", pairs(good, rng, options.pairs, options.noise))
    write(folder / "valid.jsonl", pairs(good, rng, 500, 0.0))
    write(folder / "prompts.txt", [text(prompt) for prompt in prompts[:1000]])
    write(folder / "words.tsv", ["<unk>\t0", "</s>\t0", *(f"{text(word)}\t1" for word in range(WORDS))])
    words = "-t", "whitespace", "--vocab", folder / "words.tsv"
    reward = "--task", "reward", "-m", folder / "sft", "--optimizer", "muon"
    valid = "--valid", folder / "valid.jsonl", "--patience", 2
    once(folder / "lm", "train-lm", *how(seed), *words, *SIZES, "--epochs", 2, folder / "text.txt")
    once(folder / "sft", *tune(seed, 2), "--task", "instruct", "-m", folder / "lm", folder / "sft.jsonl")
    once(folder / "reward", *tune(seed, 8), *reward, *valid, folder / "pairs.jsonl")


def how(seed: int) -> tuple[object, ...]:
    """Options of all commands; 16 bits gain nothing in a model of 64 units."""
    return "-q", "--threads", 1, "--precision", "fp32", "--seed", seed


def tune(seed: int, epochs: int) -> tuple[object, ...]:
    """Fine-tuning, as a command."""
    return "finetune", *how(seed), "--lr", 2e-3, "--batch-size", 64, "--epochs", epochs


def once(directory: Path, *command: object) -> None:
    """Run a command that trains a model into the directory, or continue it, unless it has finished there."""
    if unfinished(directory):
        nlptools(*command[:1], "-o", directory, *command[1:])


def train(method: str, folder: Path, seed: int, steps: int) -> None:
    """Align the model of the demonstrations."""
    if method == "dpo":
        task: tuple[object, ...] = "--task", "preference", "-m", folder / "sft", "--beta", 0.1
        once(folder / method, *tune(seed, 1), *task, folder / "pairs.jsonl")
    else:
        task = "--algorithm", method, "--policy", folder / "sft", "--reward", folder / "reward"
        more = "--steps", steps, "--rollouts", PROMPTS[method], *REINFORCED
        once(folder / method, "train-ppo", *how(seed), *task, *more, folder / "prompts.txt")


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


def text(word: int) -> str:
    """The word of this number."""
    return f"w{word}"


def response(rng: random.Random) -> str:
    """Words at random."""
    return " ".join(text(rng.randrange(WORDS)) for _ in range(LENGTH))


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
            two.append(" ".join(text(word % WORDS) for word in words))
        two.sort(key=lambda answer: -reward_of(good, text(prompt), answer))
        if reward_of(good, text(prompt), two[0]) > reward_of(good, text(prompt), two[1]):
            if rng.random() < noise:
                two.reverse()
            out.append({"prompt": text(prompt), "chosen": two[0], "rejected": two[1]})
    return out


def write(path: Path, rows: list[str] | list[dict[str, str]]) -> None:
    """Lines of text, or objects as JSON lines."""
    lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def measured(folder: Path, method: str, good: Callable[[int, int], bool], seed: int) -> tuple[float, float]:
    """The mean reward of new samples, one for each prompt, and their divergence from the model of the demonstrations, in nats."""
    prompts = (folder / "prompts.txt").read_text().split()
    new = "generate", *how(seed + 1000), "--max-new-tokens", LENGTH + 2
    answers = nlptools(*new, folder / method, folder / "prompts.txt").split("\n")[: len(prompts)]
    rewards = [reward_of(good, *pair) for pair in zip(prompts, answers, strict=True)]
    ratios = [log_probabilities(folder / name, prompts, answers) for name in (method, "sft")]
    return statistics.mean(rewards), float((ratios[0] - ratios[1]).mean())


def log_probabilities(directory: Path, prompts: list[str], answers: list[str]) -> np.ndarray:
    """(N,) the log-probability of each answer to its prompt by a model, in nats."""
    policy = Policy.open(str(directory), TrainPPO(policy=str(directory), reward=""))
    backend = Backend.detect(Compute(device="cpu", precision="fp32", threads=1))
    examples = [[ChatSegment(prompt, False), ChatSegment(answer, True)] for prompt, answer in zip(prompts, answers)]
    sums = policy_log_probabilities(policy.model(0.0).eval(), policy.encoding(0, 1).sequences(examples), backend)
    assert sums is not None
    return sums[:, 0]


if __name__ == "__main__":
    main()
