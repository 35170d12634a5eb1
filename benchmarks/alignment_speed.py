"""DPO and instruction tuning: speed compared with trl.

    python benchmarks/alignment_speed.py [--parts dpo,instruct] [--examples 256] [--layers 6] [--hidden 384] [--batch 16]
        [--threads 2] [--rounds 3]

A GPT-2 with random weights, 8,192 words, and prompts and responses of 16 to 64 random words. From a model directory and a file
of JSON lines to the directory of the trained model: read and tokenize, log-probabilities of the reference (DPO), one epoch of
AdamW, save. Theirs is DPOTrainer, which computes the reference in each step, or before as ours does, and SFTTrainer with the loss
on the completions; without gradient checkpointing, logs and checkpoints. All sides read the same files in processes of their
own, which have imported what they need. Needs trl (https://github.com/huggingface/trl).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import side_by_side

WORDS = 8192
# part -> names of the sides: (side of the worker, title); each in fp32, and in bf16 where the processor has it
SIDES = {
    "dpo": {
        "trl": "trl DPOTrainer",
        "trl-before": "trl DPOTrainer, reference before training",
        "ours": "nlptools finetune --task preference --loss dpo",
    },
    "instruct": {"trl": "trl SFTTrainer", "ours": "nlptools finetune --task instruct"},
}
_LENGTH = 256  # context of the model


def options() -> argparse.Namespace:
    """The options."""
    return side_by_side.options(
        __doc__,
        parts=",".join(SIDES),
        examples=256,
        layers=6,
        hidden=384,
        batch=16,
        threads=side_by_side.CORES,
        rounds=3,
    )


def main() -> None:
    """Measure and report, or be one of the workers."""
    chosen = options()
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(chosen.threads)  # before torch is imported, here and in the processes
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    if chosen.worker:
        directory, part, side, precision = chosen.worker
        measure = ours if side == "ours" else theirs
        side_by_side.serve(measure(Path(directory), part, side, precision, chosen))
        return

    print(side_by_side.machine())
    precisions = side_by_side.precisions()
    shape = f"GPT-2 of {chosen.layers} x {chosen.hidden}, batch {chosen.batch}"
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        make_model(directory / "model", chosen)
        write_data(directory, chosen.examples)
        more = [f"--{name}={getattr(chosen, name)}" for name in ("examples", "batch", "threads")]
        for part in chosen.parts.split(","):
            workers = {
                f"{title}, {precision}": side_by_side.Worker(
                    os.path.abspath(__file__), str(directory), part, side, precision, *more
                )
                for precision in precisions
                for side, title in SIDES[part].items()
            }
            side_by_side.compare(f"{part}, {shape}", "examples/s", workers, chosen.rounds)


def make_model(directory: Path, chosen: argparse.Namespace) -> None:
    """A GPT-2 directory with random weights, and a tokenizer of words that both sides read."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    names = ["</s>", "<unk>", *(f"w{i}" for i in range(WORDS - 2))]
    words = Tokenizer(models.WordLevel({name: i for i, name in enumerate(names)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(
        tokenizer_object=words, eos_token="</s>", bos_token="</s>", unk_token="<unk>"
    ).save_pretrained(directory)
    torch.manual_seed(0)
    sizes = {"n_layer": chosen.layers, "n_embd": chosen.hidden, "n_head": max(1, chosen.hidden // 64)}
    GPT2LMHeadModel(
        GPT2Config(
            vocab_size=WORDS,
            n_positions=_LENGTH,
            bos_token_id=0,
            eos_token_id=0,
            embd_pdrop=0.0,
            resid_pdrop=0.0,
            attn_pdrop=0.0,
            **sizes,
        )
    ).save_pretrained(directory)


def write_data(directory: Path, count: int) -> None:
    """Pairs and demonstrations as JSON lines."""
    rng = random.Random(0)

    def text() -> str:
        return " ".join(f"w{rng.randrange(WORDS - 2)}" for _ in range(rng.randint(16, 64)))

    rows = [{"prompt": text(), "chosen": f" {text()}", "rejected": f" {text()}"} for _ in range(count)]
    demonstrations = [{"prompt": row["prompt"], "completion": row["chosen"]} for row in rows]
    for name, values in (("dpo", rows), ("instruct", demonstrations)):
        (directory / f"{name}.jsonl").write_text("".join(json.dumps(value) + "\n" for value in values))


def ours(directory: Path, part: str, side: str, precision: str, chosen: argparse.Namespace) -> Callable[[], float]:
    """Examples per second of `finetune`."""
    from nlptools import messages
    from nlptools.configs import Compute
    from nlptools.configs.finetuning import Finetune, FinetuneTraining
    from nlptools.training.finetuning.finetune import finetune

    messages.settings.quiet = True
    compute = Compute(device="cpu", precision=precision, threads=chosen.threads)
    task = "preference" if part == "dpo" else "instruct"
    settings = Finetune(task=task, model=str(directory / "model"))
    out = directory / f"ours-{part}-{precision}"

    def train() -> None:
        shutil.rmtree(out, ignore_errors=True)
        run = FinetuneTraining(output=str(out), epochs=1.0, batch_size=chosen.batch, save_every="never")
        finetune([str(directory / f"{part}.jsonl")], settings, run, compute)

    return lambda: chosen.examples / side_by_side.seconds(train)


def without_reports(threads: int) -> None:
    """Let the libraries of the other sides write nothing, and set the threads of PyTorch."""
    warnings.simplefilter("ignore")
    os.environ.update(TQDM_DISABLE="1", TRL_EXPERIMENTAL_SILENCE="1")
    import datasets
    import torch
    import transformers

    torch.set_num_threads(threads)
    datasets.disable_progress_bars()
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()


def theirs(directory: Path, part: str, side: str, precision: str, chosen: argparse.Namespace) -> Callable[[], float]:
    """Examples per second of a trainer of trl."""
    without_reports(chosen.threads)
    import datasets
    import torch
    import transformers
    import trl

    out = directory / f"{side}-{part}-{precision}"
    how: dict[str, Any] = {
        "output_dir": str(out),
        "num_train_epochs": 1,
        "per_device_train_batch_size": chosen.batch,
        "learning_rate": 5e-5,
        "warmup_steps": 0.1,
        "weight_decay": 0.01,
        "bf16": precision == "bf16",
        "use_cpu": True,
        "gradient_checkpointing": False,
        "logging_strategy": "no",
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "max_length": _LENGTH,
    }

    def train() -> None:
        shutil.rmtree(out, ignore_errors=True)
        lines = (directory / f"{part}.jsonl").read_text().split("\n")
        data = datasets.Dataset.from_list([json.loads(line) for line in lines if line])
        model = transformers.AutoModelForCausalLM.from_pretrained(directory / "model", dtype=torch.float32)
        tokenizer = transformers.AutoTokenizer.from_pretrained(directory / "model")
        more: dict[str, Any] = {"model": model, "train_dataset": data, "processing_class": tokenizer}
        if part == "dpo":
            before = {"precompute_ref_log_probs": side == "trl-before", "precompute_ref_batch_size": chosen.batch}
            trainer: Any = trl.DPOTrainer(args=trl.DPOConfig(**how, **before), **more)
        else:
            trainer = trl.SFTTrainer(args=trl.SFTConfig(**how), **more)
        trainer.train()
        trainer.save_model(str(out))

    def measure() -> float:
        real, sys.stdout = sys.stdout, sys.stderr  # the last report of a trainer is printed
        try:
            return chosen.examples / side_by_side.seconds(train)
        finally:
            sys.stdout = real

    return measure


if __name__ == "__main__":
    main()
