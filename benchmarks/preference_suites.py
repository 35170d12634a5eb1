"""Alignment where the best possible reward is known: demonstrations, reward model, then PPO, GRPO, RLOO or DPO, by the commands.

    python benchmarks/preference_suites.py [--suites word,half,copy,quarter] [--methods ppo,grpo,rloo,dpo] [--seeds 1,2,3]
        [--steps 480] [--examples 4000] [--noise 0.0] [--keep DIR]

A response has 8 words of 20, which are independent and equally likely in the demonstrations; its reward is the fraction of words
that are good: one word, half of them, the word of the prompt, or those of a quarter. For such a reward the best policy at a
divergence of D nats from the reference is known: each word is drawn from p(w) exp(good(w) / b), with b such that the
divergence of 8 words is D (D = 10, or less where no more is of use). PPO and its kin get the weight --kl at which that policy
is the best one, times the slope of learned rewards over known ones. Measured are the rewards of new samples, by the known
function, as a percentage of the best; and the accuracy of the reward model on pairs with known rewards. --noise: the
fraction of pairs whose order is reversed.
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

import records
import side_by_side
from side_by_side import nlptools

WORDS, LENGTH, BUDGET = 20, 8, 10.0
SIZES = ("--layers", 2, "--hidden", 64, "--heads", 2, "--context", 24)
# (number of the word in the prompt, number of a word) -> whether the word is good; and how many words are
SUITES: dict[str, tuple[Callable[[int, int], bool], int]] = {
    "word": (lambda prompt, word: word == 3, 1),
    "half": (lambda prompt, word: word < WORDS // 2, WORDS // 2),
    "copy": (lambda prompt, word: word == prompt, 1),
    "quarter": (lambda prompt, word: word % 4 == 0, WORDS // 4),
}
METHODS = ("ppo", "grpo", "rloo", "dpo")


def arguments() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suites", default=",".join(SUITES))
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--steps", type=int, default=480, help="of PPO and its kin")
    parser.add_argument("--examples", type=int, default=4000, help="demonstrations, and pairs")
    parser.add_argument("--noise", type=float, default=0.0)
    parser.add_argument("--keep", type=Path, help="directory for what is made")
    return parser.parse_args()


def main() -> None:
    """Run all suites, methods and seeds; print a line for each and a table."""
    options = arguments()
    print(side_by_side.machine(), flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        scratch = options.keep or Path(temporary)
        table: dict[str, dict[str, list[float]]] = {}
        for suite in options.suites.split(","):
            table[suite] = {}
            for seed in map(int, options.seeds.split(",")):
                for side, value in run(suite, seed, scratch / f"{suite}-{seed}", options).items():
                    table[suite].setdefault(side, []).append(value)
    for suite, sides in table.items():
        ranges = {side: (min(values), max(values)) for side, values in sides.items()}
        means = {side: statistics.mean(values) for side, values in sides.items()}
        title = f"suite {suite}: reward of {WORDS} words, percent of the best at a divergence of {BUDGET:g} nats"
        print(f"\n{title}", *(f"  {side:<36}{mean:>8.1f}  {sides[side]}" for side, mean in means.items()), sep="\n")
        records.record(title, "percent", means, ranges=ranges, rounds=len(options.seeds.split(",")))


def run(suite: str, seed: int, folder: Path, options: argparse.Namespace) -> dict[str, float]:
    """The results of one suite and seed, in percent, by side."""
    folder.mkdir(parents=True)
    good, count = SUITES[suite]
    rng = random.Random(seed)
    best, weight = best_reward(count / WORDS)
    prompts = [rng.randrange(WORDS) for _ in range(options.examples)]
    demonstrations = [(prompt, response(rng)) for prompt in prompts]
    write(folder / "text.txt", [f"{text(prompt)} {said}" for prompt, said in demonstrations])
    write(folder / "sft.jsonl", [{"prompt": text(prompt), "completion": said} for prompt, said in demonstrations])
    write(folder / "pairs.jsonl", pairs(good, rng, options.examples, options.noise))
    write(folder / "valid.jsonl", pairs(good, rng, 500, 0.0))
    write(folder / "prompts.txt", [text(prompt) for prompt in prompts[:1000]])
    write(folder / "words.tsv", ["<unk>\t0", "</s>\t0", *(f"{text(word)}\t1" for word in range(WORDS))])
    how = "-q", "--seed", seed
    words = "-t", "whitespace", "--vocab", folder / "words.tsv"
    nlptools("train-lm", *how, *words, *SIZES, "--epochs", 2, "-o", folder / "lm", folder / "text.txt")
    tune = "finetune", *how, "--lr", 1e-3, "--epochs", 2
    nlptools(*tune, "--task", "instruct", "-m", folder / "lm", "-o", folder / "sft", folder / "sft.jsonl")
    reward = "--task", "reward", "-m", folder / "sft", "--valid", folder / "valid.jsonl"
    nlptools(*tune, *reward, "-o", folder / "reward", folder / "pairs.jsonl")
    accuracy = json.loads((folder / "reward" / "training.json").read_text())["metrics"]["valid_accuracy"]
    results = {"nlptools, accuracy of rewards": 100 * accuracy}
    for method in options.methods.split(","):
        begin = time.monotonic()
        if method == "dpo":
            dpo = "--task", "preference", "-m", folder / "sft", "--beta", 0.1
            nlptools(*tune, *dpo, "-o", folder / method, folder / "pairs.jsonl")
        else:
            scaled = weight * slope(folder, good)
            task = "--algorithm", method, "--policy", folder / "sft", "--reward", folder / "reward", "--kl", scaled
            run = "--lr", 1e-3, "--steps", options.steps, "--max-new-tokens", LENGTH + 2, "--batch-size", 64
            nlptools("train-ppo", *how, *task, *run, "-o", folder / method, folder / "prompts.txt")
        seconds = time.monotonic() - begin
        value = 100 * measured(folder, method, good, seed) / best
        print(
            f"{suite} {seed} {method}: {value:.1f} % of {best:.3f} in {seconds:.0f} s{divergence(folder / method)}",
            flush=True,
        )
        results[f"nlptools, {method}"] = value
    return results


def best_reward(share: float) -> tuple[float, float]:
    """The best expected reward within the budget of divergence where this share of the words is good, and the weight of the
    divergence for which it is optimal.
    """
    budget = min(BUDGET / LENGTH, 0.9 * -math.log(share))
    low, high = share, 1 - 1e-9
    for _ in range(100):
        middle = (low + high) / 2
        of_word = middle * math.log(middle / share) + (1 - middle) * math.log((1 - middle) / (1 - share))
        low, high = (middle, high) if of_word < budget else (low, middle)
    tilt = math.log(low / share) - math.log((1 - low) / (1 - share))  # good(w) / (LENGTH b)
    return low, 1 / (LENGTH * tilt)


def text(word: int) -> str:
    """The word of this number."""
    return f"w{word}"


def response(rng: random.Random) -> str:
    """Words at random."""
    return " ".join(text(rng.randrange(WORDS)) for _ in range(LENGTH))


def reward_of(good: Callable[[int, int], bool], prompt: str, said: str) -> float:
    """The fraction of good words among as many as a response has."""
    return sum(good(int(prompt[1:]), int(word[1:])) for word in said.split()[:LENGTH] if word[0] == "w") / LENGTH


def pairs(good: Callable[[int, int], bool], rng: random.Random, count: int, noise: float) -> list[dict[str, str]]:
    """Pairs of responses with different rewards, some of them shortened: else a policy finds that short responses are judged as
    well as whole ones. Some words are good ones, so that pairs differ.
    """
    out: list[dict[str, str]] = []
    while len(out) < count:
        prompt = rng.randrange(WORDS)
        best = [word for word in range(WORDS) if good(prompt, word)]
        two = []
        for _ in range(2):
            share = rng.random()
            length = LENGTH if rng.random() < 0.5 else rng.randrange(1, LENGTH)
            chosen = (rng.choice(best) if rng.random() < share else rng.randrange(WORDS) for _ in range(length))
            two.append(" ".join(map(text, chosen)))
        two.sort(key=lambda said: -reward_of(good, text(prompt), said))
        if reward_of(good, text(prompt), two[0]) > reward_of(good, text(prompt), two[1]):
            if rng.random() < noise:
                two.reverse()
            out.append({"prompt": text(prompt), "chosen": two[0], "rejected": two[1]})
    return out


def write(path: Path, rows: list[str] | list[dict[str, str]]) -> None:
    """Lines of text, or objects as JSON lines."""
    lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def measured(folder: Path, method: str, good: Callable[[int, int], bool], seed: int) -> float:
    """The mean reward of new samples, one for each prompt."""
    prompts = (folder / "prompts.txt").read_text().split()
    how = "-q", "--seed", seed + 1000, "--max-new-tokens", LENGTH + 2
    said = nlptools("generate", *how, folder / method, folder / "prompts.txt").split("\n")
    return statistics.mean(reward_of(good, prompt, line) for prompt, line in zip(prompts, said))


def slope(folder: Path, good: Callable[[int, int], bool]) -> float:
    """How much the learned reward grows with the known one, on the validation pairs."""
    known, learned = [], []
    predicted = nlptools("predict", "-q", folder / "reward", folder / "valid.jsonl").split("\n")
    for line, rewards in zip((folder / "valid.jsonl").read_text().split("\n"), predicted):
        if line:
            pair = json.loads(line)
            known += [reward_of(good, pair["prompt"], pair[key]) for key in ("chosen", "rejected")]
            learned += map(float, rewards.split("\t"))
    return statistics.linear_regression(known, learned).slope


def divergence(directory: Path) -> str:
    """The divergence of the last samples of a run, for a message; nothing for DPO."""
    rows = [json.loads(line) for line in (directory / "log.jsonl").read_text().split("\n") if line]
    return f", {rows[-1]['kl']:.1f} nats" if "kl" in rows[-1] else ""


if __name__ == "__main__":
    main()
