"""Speed and memory of PPO, beside a plain loop over transformers.

    python benchmarks/ppo_speed.py [--samples 64] [--new 48] [--layers 6] [--hidden 384] [--batch 16] [--passes 4] [--steps 2]
        [--threads 2] [--rounds 3]

A GPT-2 with random weights and 8,192 words is policy and reference; values come from the layers of the policy. A step is a
rollout, prompts of 16 words with --new sampled ones each, their rewards (a number from the text, at no cost), log-probabilities
and values, and --passes passes of clipped updates over them, --batch samples at a time, in fp32 and, where the processor has it,
in bf16. Theirs is the loop that one writes by hand: `generate` with a cache, logits of minibatches of the whole sequences,
generalized advantages, AdamW; in bf16 under autocast. (trl has no PPO trainer any more.) Both go from the directory of the
policy to that of the result. Samples per second of wall clock; and the highest resident memory of each process, less what it had
before the first model, beside what weights, gradients and moments of AdamW take: two copies for policy and reference, three for
training.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import records
import side_by_side

PROMPT = 16  # words of a prompt
REWARD = "awk '{print length($0) % 7}'"
SIDES = {"theirs": "plain loop over transformers", "ours": "nlptools train-ppo"}
NAMES = ("samples", "new", "layers", "hidden", "batch", "passes", "steps", "threads")


def options() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=64, help="of a rollout")
    parser.add_argument("--new", type=int, default=48, help="words of a sample")
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--hidden", type=int, default=384)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--passes", type=int, default=4)
    parser.add_argument("--steps", type=int, default=2, help="rollouts of a round")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--worker", nargs=3, metavar=("DIR", "SIDE", "PRECISION"), help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Measure and report, or be one of the workers."""
    chosen = options()
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(chosen.threads)  # before torch is imported, here and in the processes
    if chosen.worker:
        directory, side, precision = chosen.worker
        measure = (ours if side == "ours" else theirs)(Path(directory), precision, chosen)
        side_by_side.serve(with_memory(measure, Path(directory, f"{side}-{precision}.memory")))
        return
    print(side_by_side.machine())
    from alignment_speed import make_model

    from nlptools.compute.backend import Backend

    precisions = ["fp32", "bf16"] if Backend.detect().precision == "bf16" else ["fp32"]
    shape = f"GPT-2 of {chosen.layers} x {chosen.hidden}, {chosen.samples} samples of {chosen.new} words"
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        make_model(directory / "model", chosen)
        rng = random.Random(0)
        prompts = (" ".join(f"w{rng.randrange(8000)}" for _ in range(PROMPT)) for _ in range(chosen.samples))
        (directory / "prompts.txt").write_text("".join(f"{line}\n" for line in prompts))
        more = [f"--{name}={getattr(chosen, name)}" for name in NAMES]
        workers = {
            f"{title}, {precision}": side_by_side.Worker(
                os.path.abspath(__file__), str(directory), side, precision, *more
            )
            for precision in precisions
            for side, title in SIDES.items()
        }
        side_by_side.compare(f"PPO, {shape}", "samples/s", dict(workers), chosen.rounds)
        for worker in workers.values():
            worker.close()
        memory(directory, shape, precisions, chosen)


def memory(directory: Path, shape: str, precisions: list[str], chosen: argparse.Namespace) -> None:
    """Report the highest memory of all sides, beside that of weights, gradients and moments."""
    sides = {
        f"{title}, {precision}": float(Path(directory, f"{side}-{precision}.memory").read_text())
        for precision in precisions
        for side, title in SIDES.items()
    }
    copy = Path(directory, "model", "model.safetensors").stat().st_size / 2**20
    print("\nhighest resident memory less that before the first model, MiB")
    for title, value in sides.items():
        print(f"  {title:<44} {value:>10,.0f}   {value / copy:.1f} copies of the policy ({copy:.0f} MiB)")
    logits = 4 * chosen.samples * (PROMPT + chosen.new) * 8192 / 2**20
    print(f"  two models, gradients and moments: {5 * copy:,.0f}; logits of a rollout: {logits:,.0f}")
    records.record(f"memory of PPO, {shape}", "MiB", sides, less=True)


def with_memory(measure: Callable[[], float], path: Path) -> Callable[[], float]:
    """The measure, which also writes how much the resident memory has grown at most, in MiB, from now on."""
    before = resident()

    def measured() -> float:
        speed = measure()
        path.write_text(str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - before))
        return speed

    return measured


def resident() -> float:
    """The resident memory of this process, in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def ours(directory: Path, precision: str, chosen: argparse.Namespace) -> Callable[[], float]:
    """Samples per second of `train-ppo`."""
    from nlptools import messages
    from nlptools.configs import Compute
    from nlptools.configs.ppo import PPOTraining, TrainPPO
    from nlptools.training.preferences.ppo import train_ppo

    messages.settings.quiet = True
    compute = Compute(device="cpu", precision=precision, threads=chosen.threads)
    settings = TrainPPO(
        policy=str(directory / "model"),
        reward=REWARD,
        rollouts=chosen.samples,
        passes=chosen.passes,
        max_new_tokens=chosen.new,
    )
    out = directory / f"out-{precision}"
    updates = chosen.steps * chosen.passes * -(-chosen.samples // chosen.batch)

    def train() -> None:
        shutil.rmtree(out, ignore_errors=True)
        run = PPOTraining(output=str(out), steps=updates, batch_size=chosen.batch, save_every="never")
        train_ppo([str(directory / "prompts.txt")], settings, run, compute)

    return lambda: chosen.steps * chosen.samples / side_by_side.seconds(train)


# -- the plain loop ---------------------------------------------------------------------------------------------------


def theirs(directory: Path, precision: str, chosen: argparse.Namespace) -> Callable[[], float]:
    """Samples per second of a plain loop."""
    import torch
    import transformers

    torch.set_num_threads(chosen.threads)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.manual_seed(1)

    def train() -> None:
        kind, path = transformers.AutoModelForCausalLM, directory / "model"
        tokenizer = transformers.AutoTokenizer.from_pretrained(path)
        policy = kind.from_pretrained(path, dtype=torch.float32)
        reference = kind.from_pretrained(path, dtype=torch.float32).eval()
        head = torch.nn.Linear(chosen.hidden, 1)
        optimizer = torch.optim.AdamW([*policy.parameters(), *head.parameters()], lr=1e-5, eps=1e-5, weight_decay=0)
        lines = (directory / "prompts.txt").read_text().split()
        prompts = torch.tensor(tokenizer.convert_tokens_to_ids(lines)).view(chosen.samples, PROMPT)
        for _ in range(chosen.steps):
            with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
                rollout = drawn(policy, reference, head, tokenizer, prompts, chosen)
                for _ in range(chosen.passes):
                    for rows in torch.randperm(chosen.samples).split(chosen.batch):
                        update(policy, head, optimizer, [each[rows] for each in rollout])
        policy.save_pretrained(directory / f"theirs-out-{precision}")

    return lambda: chosen.steps * chosen.samples / side_by_side.seconds(train)


def read(model: Any, head: Any, ids: Any) -> tuple[Any, Any]:
    """The log-probability of each new token of sequences, and the value before it."""
    out = model(ids, output_hidden_states=True)
    logs = out.logits[:, PROMPT - 1 : -1].float().log_softmax(-1)
    chosen = logs.gather(2, ids[:, PROMPT:, None]).squeeze(2)
    values = None if head is None else head(out.hidden_states[-1][:, PROMPT - 1 : -1].float()).squeeze(2)
    return chosen, values


def drawn(
    policy: Any, reference: Any, head: Any, tokenizer: Any, prompts: Any, chosen: argparse.Namespace
) -> list[Any]:
    """New samples: their ids, log-probabilities, values, advantages and returns."""
    import torch

    with torch.no_grad():
        policy.eval()
        ids = policy.generate(
            prompts,
            attention_mask=torch.ones_like(prompts),
            do_sample=True,
            top_k=0,
            max_new_tokens=chosen.new,
            min_new_tokens=chosen.new,  # all samples of one length: no masks of padding in this loop
            pad_token_id=0,
        )
        texts = tokenizer.batch_decode(ids[:, PROMPT:])
        rewards = torch.tensor([len(text) % 7 for text in texts], dtype=torch.float32)
        parts = [(read(policy, head, rows), read(reference, None, rows)[0]) for rows in ids.split(chosen.batch)]
        old, values = (torch.cat([part[0][i] for part in parts]) for i in range(2))
        each = -0.05 * (old - torch.cat([part[1] for part in parts]))
        each[:, -1] += rewards
        advantages, after = torch.zeros_like(each), torch.zeros(len(each))
        for t in reversed(range(chosen.new)):
            following = values[:, t + 1] if t + 1 < chosen.new else torch.zeros(len(each))
            after = each[:, t] + following - values[:, t] + 0.95 * after
            advantages[:, t] = after
        returns = advantages + values
        advantages = (advantages - advantages.mean()) / advantages.std()
    return [ids, old, values, advantages, returns]


def update(policy: Any, head: Any, optimizer: Any, rollout: list[Any]) -> None:
    """A clipped update."""
    import torch

    ids, old, before, advantages, returns = rollout
    policy.train()
    now, values = read(policy, head, ids)
    ratio = (now - old).exp()
    loss = -torch.minimum(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages).mean()
    near = before + (values - before).clamp(-0.2, 0.2)
    loss = loss + 0.05 * torch.maximum((values - returns).square(), (near - returns).square()).mean()
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    optimizer.step()


if __name__ == "__main__":
    main()
