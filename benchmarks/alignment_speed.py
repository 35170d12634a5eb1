"""DPO, instruction tuning and PPO: speed and memory compared with trl and transformers.

    python benchmarks/alignment_speed.py [--parts dpo,instruct,ppo,ppo-trl] [--examples 256] [--layers 6] [--hidden 384]
        [--batch 0] [--samples 64] [--new 48] [--passes 4] [--steps 4] [--threads 2] [--rounds 3]

A GPT-2 with random weights and 8,192 words. All sides go from a model directory and a file to the directory of the trained
model, in fp32 and, where the processor has it, in bf16; without gradient checkpointing, logs and checkpoints. Needs trl 0.29
(https://github.com/huggingface/trl), the last version with PPOTrainer; without it, ours and the plain loop are measured.

    dpo, instruct   prompts and responses of 16 to 64 random words, one epoch of AdamW, 16 examples a batch: DPOTrainer, which
                    computes the reference in each step, or before training as ours does, and SFTTrainer with the loss on
                    completions
    ppo             a step is a rollout, prompts of 16 words with --new sampled ones each, their rewards, log-probabilities and
                    values, and --passes passes of clipped updates, 32 samples at a time. Values come from the layers of the
                    policy, rewards from the text, at no cost. Theirs is the loop that one writes by hand
    ppo-trl         PPOTrainer: values come from a separate model, and rewards from a third one
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import shutil
import warnings
from pathlib import Path
from typing import Any

import samples
from side_by_side import Bench, Job, bench, by_precision, nlptools, read, write

WORDS, PROMPT = 8192, 16
REWARD = "awk '{print length($0) % 7}'"
PARTS = ("dpo", "instruct", "ppo", "ppo-trl")


def main() -> None:
    with bench(
        __doc__, parts=PARTS, examples=256, layers=6, hidden=384, batch=0, samples=64, new=48, passes=4, steps=4
    ) as run:
        chosen = run.options
        samples.gpt2_of_words(run.folder / "model", chosen.layers, chosen.hidden, WORDS)
        for part in chosen.parts:
            (align if part in ("dpo", "instruct") else reinforce)(run, part)


def align(run: Bench, part: str) -> None:
    """DPO and instruction tuning."""
    chosen, rng, folder = run.options, random.Random(0), run.folder
    batch = chosen.batch or 16

    def text() -> str:
        return " ".join(f"w{rng.randrange(WORDS - 2)}" for _ in range(rng.randint(16, 64)))

    rows = [{"prompt": text(), "chosen": f" {text()}", "rejected": f" {text()}"} for _ in range(chosen.examples)]
    if part == "instruct":
        rows = [{"prompt": row["prompt"], "completion": row["chosen"]} for row in rows]
    write(folder / f"{part}.jsonl", rows)
    how = argparse.Namespace(part=part, batch=batch, threads=chosen.threads, examples=chosen.examples)
    names = (
        {"trl DPOTrainer": False, "trl DPOTrainer, reference before training": True}
        if part == "dpo"
        else {"trl SFTTrainer": False}
    )
    sides = {}
    for name, before in names.items() if importlib.util.find_spec("trl") else ():
        sides |= by_precision({name: trl}, folder, how, before)
    mine = "preference --loss dpo" if part == "dpo" else "instruct"
    sides |= by_precision({f"nlptools finetune --task {mine}": ours}, folder, how)
    run.compare(f"{part}, GPT-2 of {chosen.layers} x {chosen.hidden}, batch {batch}", "examples/s", sides)


def reinforce(run: Bench, part: str) -> None:
    """PPO, with its peak memory less that before the first model."""
    chosen, rng, folder = run.options, random.Random(0), run.folder
    chosen.batch = chosen.batch or 32
    prompts = (" ".join(f"w{rng.randrange(WORDS - 2)}" for _ in range(PROMPT)) for _ in range(chosen.samples))
    write(folder / "prompts.txt", [*prompts])
    size = f"GPT-2 of {chosen.layers} x {chosen.hidden}, {chosen.samples} samples of {chosen.new} words"
    title, shared = f"PPO, {size}, {chosen.batch} an update", part == "ppo"
    sides = {}
    if shared:
        sides = by_precision({"plain loop over transformers": loop}, folder, chosen)
    else:
        pair = write(folder / "pairs.jsonl", [{"prompt": "w1", "chosen": " w2", "rejected": " w3"}])
        how = ("finetune", "-q", "--force", "--task", "reward", "-m", folder / "model", "--epochs", 1)
        nlptools(*how, "-o", folder / "reward", pair)
        title += ", separate critic and reward model"
        if importlib.util.find_spec("trl"):
            sides = by_precision({"PPOTrainer of trl": trl_ppo}, folder, chosen)
    sides |= by_precision({"nlptools train-ppo": our_ppo}, folder, chosen, shared)
    run.compare(title, "samples/s", sides, memory=True)


# -- DPO and instruction tuning -----------------------------------------------------------------------------------------


def ours(folder: Path, how: argparse.Namespace, precision: str) -> Job:
    """Examples that `finetune` trains on."""
    from nlptools import messages
    from nlptools.configs import Compute
    from nlptools.configs.finetuning import Finetune, FinetuneTraining
    from nlptools.training.finetuning.finetune import finetune

    messages.settings.quiet = True
    compute, out = Compute(precision=precision, threads=how.threads), folder / f"ours-{how.part}-{precision}"
    settings = Finetune(task="preference" if how.part == "dpo" else "instruct", model=str(folder / "model"))

    def train() -> int:
        shutil.rmtree(out, ignore_errors=True)
        run = FinetuneTraining(output=str(out), epochs=1.0, batch_size=how.batch, save_every="never")
        finetune([str(folder / f"{how.part}.jsonl")], settings, run, compute)
        return how.examples

    return train


def trl_options(out: Path, precision: str) -> dict[str, Any]:
    """What all trainers of trl get; also lets the libraries write nothing."""
    import datasets
    import torch
    import transformers

    warnings.simplefilter("ignore")
    datasets.disable_progress_bars()
    transformers.utils.logging.set_verbosity_error()
    quiet = {"logging_strategy": "no", "save_strategy": "no", "report_to": "none", "disable_tqdm": True}
    cpu = not torch.cuda.is_available()
    return {
        "output_dir": str(out),
        "bf16": precision == "bf16",
        "use_cpu": cpu,
        "gradient_checkpointing": False,
        **quiet,
    }


def trl(folder: Path, how: argparse.Namespace, before: bool, precision: str) -> Job:
    """Examples that a trainer of trl trains on."""
    out = folder / f"trl-{how.part}-{before}-{precision}"
    settings = trl_options(out, precision)
    import datasets
    import torch
    import transformers
    import trl

    settings |= {"num_train_epochs": 1, "per_device_train_batch_size": how.batch, "max_length": 256}
    settings |= {"learning_rate": 5e-5, "warmup_steps": 0.1, "weight_decay": 0.01}

    def train() -> int:
        shutil.rmtree(out, ignore_errors=True)
        data = datasets.Dataset.from_list([json.loads(line) for line in read(folder / f"{how.part}.jsonl")])
        model = transformers.AutoModelForCausalLM.from_pretrained(folder / "model", dtype=torch.float32)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "model")
        more: dict[str, Any] = {"model": model, "train_dataset": data, "processing_class": tokenizer}
        if how.part == "dpo":
            reference = {"precompute_ref_log_probs": before, "precompute_ref_batch_size": how.batch}
            trainer: Any = trl.DPOTrainer(args=trl.DPOConfig(**settings, **reference), **more)
        else:
            trainer = trl.SFTTrainer(args=trl.SFTConfig(**settings), **more)
        trainer.train()
        trainer.save_model(str(out))
        return how.examples

    return train


# -- PPO ----------------------------------------------------------------------------------------------------------------


def our_ppo(folder: Path, chosen: argparse.Namespace, shared: bool, precision: str) -> Job:
    """Samples of `train-ppo`."""
    from nlptools import messages
    from nlptools.configs import Compute
    from nlptools.configs.ppo import PPOTraining, TrainPPO
    from nlptools.training.preferences.ppo import train_ppo

    messages.settings.quiet = True
    compute, out = Compute(precision=precision, threads=chosen.threads), folder / f"out-{precision}"
    settings = TrainPPO(
        policy=str(folder / "model"),
        reward=REWARD if shared else str(folder / "reward"),
        critic="shared" if shared else "separate",
        rollouts=chosen.samples,
        passes=chosen.passes,
        max_new_tokens=chosen.new,
    )
    updates = chosen.steps * chosen.passes * -(-chosen.samples // chosen.batch)

    def train() -> int:
        shutil.rmtree(out, ignore_errors=True)
        run = PPOTraining(output=str(out), steps=updates, batch_size=chosen.batch, save_every="never")
        train_ppo([str(folder / "prompts.txt")], settings, run, compute)
        return int(chosen.steps * chosen.samples)

    return train


def loop(folder: Path, chosen: argparse.Namespace, precision: str) -> Job:
    """Samples of a plain loop: `generate` with a cache, logits of whole sequences, generalized advantages, AdamW."""
    import torch
    import transformers
    from side_by_side import device

    transformers.utils.logging.set_verbosity_error()
    torch.manual_seed(1)

    def train() -> int:
        kind, path = transformers.AutoModelForCausalLM, folder / "model"
        tokenizer = transformers.AutoTokenizer.from_pretrained(path)
        policy, reference = (kind.from_pretrained(path, dtype=torch.float32).to(device()) for _ in range(2))
        head = torch.nn.Linear(chosen.hidden, 1, device=device())
        optimizer = torch.optim.AdamW([*policy.parameters(), *head.parameters()], lr=1e-5, eps=1e-5, weight_decay=0)
        words = " ".join(read(folder / "prompts.txt")).split()
        prompts = torch.tensor(tokenizer.convert_tokens_to_ids(words), device=device()).view(chosen.samples, PROMPT)
        for _ in range(chosen.steps):
            with torch.autocast(device(), torch.bfloat16, enabled=precision == "bf16"):
                rollout = drawn(policy, reference.eval(), head, tokenizer, prompts, chosen)
                for _ in range(chosen.passes):
                    for rows in torch.randperm(chosen.samples, device=device()).split(chosen.batch):
                        update(policy, head, optimizer, [each[rows] for each in rollout])
        policy.save_pretrained(folder / f"theirs-out-{precision}")
        return int(chosen.steps * chosen.samples)

    return train


def values_of(model: Any, head: Any, ids: Any) -> tuple[Any, Any]:
    """The log-probability of each new token of sequences, and the value before it."""
    out = model(ids, output_hidden_states=True)
    logs = out.logits[:, PROMPT - 1 : -1].float().log_softmax(-1)
    values = None if head is None else head(out.hidden_states[-1][:, PROMPT - 1 : -1].float()).squeeze(2)
    return logs.gather(2, ids[:, PROMPT:, None]).squeeze(2), values


def drawn(
    policy: Any, reference: Any, head: Any, tokenizer: Any, prompts: Any, chosen: argparse.Namespace
) -> list[Any]:
    """New samples: their ids, log-probabilities, values, advantages and returns."""
    import torch

    # all samples of one length: no masks of padding in this loop
    lengths = {"max_new_tokens": chosen.new, "min_new_tokens": chosen.new, "pad_token_id": 0}
    with torch.no_grad():
        policy.eval()
        ids = policy.generate(prompts, attention_mask=torch.ones_like(prompts), do_sample=True, top_k=0, **lengths)
        texts = tokenizer.batch_decode(ids[:, PROMPT:])
        rewards = torch.tensor([len(text) % 7 for text in texts], dtype=torch.float32, device=ids.device)
        parts = [
            (values_of(policy, head, rows), values_of(reference, None, rows)[0]) for rows in ids.split(chosen.batch)
        ]
        old, values = (torch.cat([part[0][i] for part in parts]) for i in range(2))
        each = -0.05 * (old - torch.cat([part[1] for part in parts]))
        each[:, -1] += rewards
        advantages, after = torch.zeros_like(each), torch.zeros_like(rewards)
        for t in reversed(range(chosen.new)):
            following = values[:, t + 1] if t + 1 < chosen.new else torch.zeros_like(rewards)
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
    now, values = values_of(policy, head, ids)
    ratio = (now - old).exp()
    loss = -torch.minimum(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages).mean()
    near = before + (values - before).clamp(-0.2, 0.2)
    loss = loss + 0.05 * torch.maximum((values - returns).square(), (near - returns).square()).mean()
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    optimizer.step()


def trl_ppo(folder: Path, chosen: argparse.Namespace, precision: str) -> Job:
    """Samples of the trainer of trl."""
    out = folder / f"trl-out-{precision}"
    settings = trl_options(out, precision)
    import datasets
    import torch
    import transformers
    from trl.experimental.ppo import PPOConfig, PPOTrainer

    settings |= {"num_ppo_epochs": chosen.passes, "response_length": chosen.new, "temperature": 1.0}
    settings |= {"total_episodes": chosen.steps * chosen.samples, "per_device_train_batch_size": chosen.samples}
    settings |= {"num_mini_batches": chosen.samples // chosen.batch, "num_sample_generations": 0}
    settings |= {"local_rollout_forward_batch_size": chosen.batch}

    def train() -> int:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "model", padding_side="left")
        tokenizer.pad_token = "<unk>"
        data = datasets.Dataset.from_dict({"input_ids": tokenizer(read(folder / "prompts.txt"))["input_ids"]})
        language, judge = transformers.AutoModelForCausalLM, transformers.AutoModelForSequenceClassification
        policy, reference = (language.from_pretrained(folder / "model", dtype=torch.float32) for _ in range(2))
        reward, value = (judge.from_pretrained(folder / "reward", dtype=torch.float32) for _ in range(2))
        trainer = PPOTrainer(PPOConfig(**settings), tokenizer, policy, reference, reward, data, value)
        trainer.train()
        trainer.save_model(str(out))
        return int(chosen.steps * chosen.samples)

    return train


if __name__ == "__main__":
    main()
