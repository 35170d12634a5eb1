"""PPO: speed and memory compared with transformers and trl.

    python benchmarks/ppo_speed.py [--beside loop|trl] [--samples 64] [--new 48] [--layers 6] [--hidden 384] [--batch 32]
        [--passes 4] [--steps 4] [--threads 2] [--rounds 3]

A GPT-2 with random weights and 8,192 words is policy and reference. A step is a rollout, prompts of 16 words with --new sampled
ones each, their rewards, log-probabilities and values, and --passes passes of clipped updates over them, --batch samples at a
time (by default 32, as train-ppo; trl takes a whole rollout by default), in fp32 and, where the processor has it, in bf16.
loop: values come from the layers of the policy, and rewards are numbers from the text, at no cost; theirs is the loop that one
writes by hand: `generate` with a cache, logits of minibatches of the whole sequences, generalized advantages, AdamW; in bf16
under autocast. trl: values come from a separate model, as its trainer has it, and rewards from a third one; needs trl 0.29, the
last version with that trainer (https://github.com/huggingface/trl). Both go from the directory of the policy to the directory of
the result. Samples per second of wall clock; and the highest resident memory of each process, less what it had before the first
model.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import resource
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import records
import side_by_side

PROMPT = 16  # words of a prompt
REWARD = "awk '{print length($0) % 7}'"
SIDES = {"loop": "plain loop over transformers", "trl": "PPOTrainer of trl", "ours": "nlptools train-ppo"}
NAMES = ("beside", "samples", "new", "layers", "hidden", "batch", "passes", "steps", "threads")


def options() -> argparse.Namespace:
    """The options."""
    return side_by_side.options(
        __doc__,
        beside="loop",
        samples=64,
        new=48,
        layers=6,
        hidden=384,
        batch=32,
        passes=4,
        steps=4,
        threads=side_by_side.CORES,
        rounds=3,
    )


def main() -> None:
    """Measure and report, or be one of the workers."""
    chosen = options()
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(chosen.threads)  # before torch is imported, here and in the processes
    if chosen.worker:
        directory, side, precision = chosen.worker
        measure = {"ours": ours, "loop": by_loop, "trl": by_trl}[side](Path(directory), precision, chosen)
        side_by_side.serve(with_memory(measure, Path(directory, f"{side}-{precision}.memory")))
        return
    print(side_by_side.machine())
    from alignment_speed import make_model

    precisions = side_by_side.precisions()
    models = ", separate critic and reward model" if chosen.beside == "trl" else ""
    size = f"GPT-2 of {chosen.layers} x {chosen.hidden}, {chosen.samples} samples of {chosen.new} words"
    shape = f"{size}, {chosen.batch} an update{models}"
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        make_model(directory / "model", chosen)
        if chosen.beside == "trl":
            make_reward(directory)
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
            if side in ("ours", chosen.beside)
        }
        side_by_side.compare(f"PPO, {shape}", "samples/s", workers, chosen.rounds)
        memory(directory, shape, precisions, chosen)


def memory(directory: Path, shape: str, precisions: list[str], chosen: argparse.Namespace) -> None:
    """Report the highest memory of all sides, in MiB and in copies of the policy."""
    sides = {
        f"{title}, {precision}": float(Path(directory, f"{side}-{precision}.memory").read_text())
        for precision in precisions
        for side, title in SIDES.items()
        if side in ("ours", chosen.beside)
    }
    copy = Path(directory, "model", "model.safetensors").stat().st_size / 2**20
    print("\nhighest resident memory less that before the first model, MiB")
    for title, value in sides.items():
        print(f"  {title:<44} {value:>10,.0f}   {value / copy:.1f} copies of the policy ({copy:.0f} MiB)")
    logits = 4 * chosen.samples * (PROMPT + chosen.new) * 8192 / 2**20
    print(f"  logits of a rollout: {logits:,.0f} MiB")
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
        reward=REWARD if chosen.beside == "loop" else str(directory / "reward"),
        critic="shared" if chosen.beside == "loop" else "separate",
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


def by_loop(directory: Path, precision: str, chosen: argparse.Namespace) -> Callable[[], float]:
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


# -- trl --------------------------------------------------------------------------------------------------------------


def make_reward(directory: Path) -> None:
    """A reward model of the size of the policy, after one step."""
    pairs = directory / "pairs.jsonl"
    pairs.write_text('{"prompt": "w1", "chosen": " w2", "rejected": " w3"}\n')
    how = ("finetune", "-q", "--task", "reward", "-m", directory / "model", "--epochs", 1)
    side_by_side.nlptools(*how, "-o", directory / "reward", pairs)


def by_trl(directory: Path, precision: str, chosen: argparse.Namespace) -> Callable[[], float]:
    """Samples per second of the trainer of trl."""
    from alignment_speed import without_reports

    without_reports(chosen.threads)
    import datasets
    import torch
    import transformers
    from trl.experimental.ppo import PPOConfig, PPOTrainer

    out = directory / f"trl-out-{precision}"

    def train() -> None:
        tokenizer = transformers.AutoTokenizer.from_pretrained(directory / "model", padding_side="left")
        tokenizer.pad_token = "<unk>"
        lines = (directory / "prompts.txt").read_text().split("\n")
        data = datasets.Dataset.from_dict({"input_ids": [tokenizer(line)["input_ids"] for line in lines if line]})
        language, judge = transformers.AutoModelForCausalLM, transformers.AutoModelForSequenceClassification
        policy, reference = (language.from_pretrained(directory / "model", dtype=torch.float32) for _ in range(2))
        reward, value = (judge.from_pretrained(directory / "reward", dtype=torch.float32) for _ in range(2))
        how = PPOConfig(
            output_dir=str(out),
            total_episodes=chosen.steps * chosen.samples,
            per_device_train_batch_size=chosen.samples,  # of a rollout
            num_mini_batches=chosen.samples // chosen.batch,
            num_ppo_epochs=chosen.passes,
            local_rollout_forward_batch_size=chosen.batch,
            response_length=chosen.new,
            temperature=1.0,
            num_sample_generations=0,
            bf16=precision == "bf16",
            use_cpu=True,
            gradient_checkpointing=False,
            logging_strategy="no",
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        trainer = PPOTrainer(how, tokenizer, policy, reference, reward, data, value)
        trainer.train()
        trainer.save_model(str(out))

    def measure() -> float:
        with contextlib.redirect_stdout(sys.stderr):  # its reports
            return chosen.steps * chosen.samples / side_by_side.seconds(train)

    return measure


if __name__ == "__main__":
    main()
