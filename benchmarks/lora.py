"""Speed and memory of low-rank adapters: all weights or `--lora`, beside loops over transformers and PEFT.

    python benchmarks/lora.py [--part classify] [--part instruct] [--rank 8] [--layers 12] [--hidden 768] [--steps 12]
        [--batch-size 16] [--length 64] [--precision fp32] [--threads 2] [--rounds 3]

Models and texts are invented: a BERT or a GPT-2 with random weights, texts of one length. Parts:

    classify   examples per second of a classifier of two labels on the BERT
    instruct   tokens of answers per second of a GPT-2 that learns to answer, prompts and answers of half the length each

Ours is the whole command; theirs is a plain loop in fp32: forward, backward, clipping, AdamW. Each run is a process of its own.
Speed is that of the steps after the first, memory the most that the process had, loading included. Without the package peft,
its rows are left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PARTS = {"classify": "examples", "instruct": "tokens"}
_MARKS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "</s>"]
_WORDS = 8000
_TEXTS = 512


def main() -> None:
    """Measure and report, or be a loop of theirs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", action="append", choices=PARTS)
    for name, value in {"rank": 8, "layers": 12, "hidden": 768, "steps": 12, "batch-size": 16, "length": 64}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--precision", default="fp32", help="of ours")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--worker", nargs=3, metavar=("PART", "MODEL", "TEXTS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        loop(options)
        return
    import side_by_side

    print(side_by_side.machine(), flush=True)
    for part in options.part or PARTS:
        with tempfile.TemporaryDirectory() as directory:
            measure(part, Path(directory), options)


def measure(part: str, directory: Path, options: argparse.Namespace) -> None:
    """All sides in turns: the speed, and then the memory of the same runs."""
    import side_by_side

    write(part, directory, options)
    memory: dict[str, list[float]] = {}

    def side(name: str, rank: int, run: Callable[..., float]) -> Callable[[], float]:
        def measured() -> float:
            speed, bytes_ = run(part, directory, options, rank)
            memory.setdefault(name, []).append(bytes_ / 2**20)
            return speed

        return measured

    rank = options.rank
    sides: dict[str, tuple[int, Any]] = {"transformers, all weights": (0, theirs)}
    if importlib.util.find_spec("peft"):
        sides[f"PEFT, rank {rank}"] = (rank, theirs)
    sides |= {"nlptools, all weights": (0, ours), f"nlptools --lora {rank}": (rank, ours)}
    shape = f"{options.layers} layers of {options.hidden}, batches of {options.batch_size} x {options.length}"
    how = {name: side(name, *pair) for name, pair in sides.items()}
    side_by_side.compare(f"fine-tuning, {part}, {shape}", f"{PARTS[part]} per second", how, options.rounds)
    again = {name: iter(values) for name, values in memory.items()}
    taken = {name: (lambda values=values: next(values)) for name, values in again.items()}
    side_by_side.compare(f"memory of {part}, {shape}", "MiB", taken, options.rounds, less=True)


def write(part: str, directory: Path, options: argparse.Namespace) -> None:
    """A model directory and its texts."""
    import torch

    from nlptools import bundle
    from nlptools.models.encoders.bert import BertWithHeads, EncoderConfig
    from nlptools.models.language.gpt import GPT, GPTConfig
    from nlptools.text.builtin import NamedTokenizer
    from nlptools.text.vocab import Vocab

    words = [f"w{number}" for number in range(_WORDS)]
    tokenizer, rng, out = NamedTokenizer("whitespace", Vocab([*_MARKS, *words])), random.Random(1), directory / "model"
    out.mkdir()
    torch.manual_seed(1)
    sizes = (len(_MARKS) + _WORDS, options.hidden, options.layers, max(1, options.hidden // 64))
    texts: list[str] = []
    if part == "classify":
        encoder = BertWithHeads(EncoderConfig(*sizes, 4 * options.hidden), ("pooler",))
        encoder.initialize()
        bundle.save_encoder(out, encoder, encoder.state_dict(), tokenizer, training={})
        for _ in range(_TEXTS):
            texts.append(" ".join(rng.choices(words, k=options.length - 2)) + "\t" + rng.choice("ab"))
    else:
        model = GPT(GPTConfig(*sizes, max(64, options.length)))
        model.initialize()
        end, how = _MARKS.index("</s>"), {"document": "line", "training": {}}
        bundle.save(out, "transformer", model, model.state_dict(), tokenizer, eos=end, **how)  # type: ignore[arg-type]
        for _ in range(_TEXTS):
            prompt, answer = (" ".join(rng.choices(words, k=options.length // 2 - 1)) for _ in range(2))
            texts.append(json.dumps({"prompt": prompt, "completion": answer}))
    (directory / "texts").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")


def ours(part: str, directory: Path, options: argparse.Namespace, rank: int) -> tuple[float, int]:
    """Speed of the command, and its peak memory in bytes."""
    out, layout = directory / "out", "table" if part == "classify" else "jsonl"
    command = ["-m", "nlptools", "finetune", "--task", part, "-m", directory / "model", "--lora", rank, "-o", out,
               "--layout", layout, "--steps", options.steps, "--batch-size", options.batch_size, "--log-every", options.steps,
               "--save-every", "never", "--precision", options.precision, "--threads", options.threads, "--force",
               directory / "texts"]  # fmt: skip
    _, memory = run(command, options)
    rows = [json.loads(line) for line in (out / "log.jsonl").read_text(encoding="utf-8").split("\n") if line]
    first, *_, last = (row for row in rows if "lr" in row)
    unit = PARTS[part]
    return (last[unit] - first[unit]) / (last["seconds"] - first["seconds"]), memory


def theirs(part: str, directory: Path, options: argparse.Namespace, rank: int) -> tuple[float, int]:
    """As `ours`, of a loop in a process that has nothing of ours."""
    same = ("steps", "batch_size", "threads")
    more = [word for name in same for word in (f"--{name.replace('_', '-')}", getattr(options, name))]
    worker = ["--worker", part, directory / "model", directory / "texts"]
    out, memory = run([__file__, *more, "--rank", rank, *worker], options)
    return float(out.split("\n")[-2]), memory


def run(command: list[Any], options: argparse.Namespace) -> tuple[str, int]:
    """The output of a Python process, and the most memory that it had, in bytes. Ends the program on errors."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
    env = os.environ | dict.fromkeys(names, str(options.threads))
    words = [sys.executable, *map(str, command)]
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert process.stdout is not None
        out = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if status:
            errors.seek(0)
            raise SystemExit(f"{words[:4]} ended with status {process.returncode}:\n{errors.read()}")
    return out, usage.ru_maxrss * 1024


def loop(options: argparse.Namespace) -> None:
    """Print the speed of a plain loop over transformers, with PEFT if there is a rank."""
    import torch
    import transformers

    part, path, texts = options.worker
    torch.set_num_threads(options.threads)
    kinds = {"classify": "SequenceClassification", "instruct": "CausalLM"}
    model = getattr(transformers, f"AutoModelFor{kinds[part]}").from_pretrained(path)
    if options.rank:
        import peft

        task = {"classify": "SEQ_CLS", "instruct": "CAUSAL_LM"}[part]
        dense = ["query", "key", "value", "attention.output.dense", "intermediate.dense", "output.dense"]
        targets = dense if part == "classify" else ["c_attn", "c_proj", "c_fc"]
        config = peft.LoraConfig(task_type=task, r=options.rank, lora_alpha=16, target_modules=targets)
        model = peft.get_peft_model(model, config)
    model.train()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=5e-5, weight_decay=0.01)
    rows = read(part, Path(texts))
    begin, done = 0.0, 0
    for step in range(options.steps):
        batch = [rows[(step * options.batch_size + i) % len(rows)] for i in range(options.batch_size)]
        ids, labels = (torch.tensor([row[i] for row in batch]) for i in range(2))
        model(input_ids=ids, labels=labels).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if step == 0:
            begin = time.perf_counter()
        else:
            done += len(batch) if part == "classify" else int((labels >= 0).sum())
    print(done / (time.perf_counter() - begin))


def read(part: str, path: Path) -> list[tuple[list[int], Any]]:
    """The ids of each text, and its label or the ids that are learned."""
    ids = {word: number for number, word in enumerate([*_MARKS, *(f"w{number}" for number in range(_WORDS))])}
    rows: list[tuple[list[int], Any]] = []
    for line in path.read_text(encoding="utf-8").removesuffix("\n").split("\n"):
        if part == "classify":
            text, label = line.split("\t")
            rows.append(([ids["[CLS]"], *(ids[word] for word in text.split()), ids["[SEP]"]], "ab".index(label)))
            continue
        pair = json.loads(line)
        prompt, answer = ([ids[word] for word in pair[name].split()] for name in ("prompt", "completion"))
        start, end = [ids["</s>"], *prompt], [*answer, ids["</s>"]]
        rows.append((start + end, [-100] * len(start) + end))
    return rows


if __name__ == "__main__":
    main()
