"""Speed while other processes use the cores: decoding, embedding and training beside a busy neighbor.

    python benchmarks/busy_neighbor.py [--parts decoding,embedding,training] [--alone]

A neighbor is a Python process that counts, with the priority of the job. Each job is a whole command: with no neighbor, with
one, and with one per core. The other sides of decoding are `transformers` and llama.cpp (weights in f16), of embedding
`sentence-transformers`, where those are installed; --alone leaves them out, since beside neighbors they take minutes. The model
is GPT-2 with --layers layers, 512 wide, random weights, in fp32; sentences are embedded by all-MiniLM-L6-v2; the model that is
trained has 2 layers, 128 wide. Beside neighbors, the threads of nlptools wait for each other without spinning. A fair share of
two cores is 67% beside one neighbor, and 50% beside two.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import median

import samples
from side_by_side import CORES, Bench, Command, bench, nlptools, ours, report

PARTS = ("decoding", "embedding", "training")
NEIGHBOR = "i = 0\nwhile True: i += 1"
NUMBERS = {"quiet": 0, "one neighbor": 1, "a neighbor per core": CORES}
FREE = ["env", "-u", "OMP_NUM_THREADS"]  # as a user calls it
DECODING = """
import sys, torch
from transformers import AutoTokenizer, GPT2LMHeadModel
model, tokenizer = GPT2LMHeadModel.from_pretrained(sys.argv[1]).eval(), AutoTokenizer.from_pretrained(sys.argv[1])
tokenizer.pad_token, tokenizer.padding_side = tokenizer.eos_token, "left"
given = tokenizer(sys.stdin.read().splitlines(), return_tensors="pt", padding=True)
tokens = int(sys.argv[2])
model.generate(**given, do_sample=False, max_new_tokens=tokens, min_new_tokens=tokens, pad_token_id=0)
"""
EMBEDDING = """
import sys
from sentence_transformers import SentenceTransformer
SentenceTransformer(sys.argv[1], device="cpu").encode(sys.stdin.read().splitlines())
"""


def main() -> None:
    with bench(__doc__, parts=PARTS, layers=6, hidden=512, tokens=200, alone=False, lines=1000, steps=70) as run:
        options, text = run.options, run.folder / "text.txt"
        lines = samples.help_topics()
        text.write_text("".join(f"{line}\n" for line in lines[: options.lines]))
        prompts = run.folder / "prompts.txt"
        prompts.write_text("".join(f"{line}\n" for line in [line for line in lines if len(line) > 40][:4]))
        if "decoding" in options.parts:
            folder = samples.gpt2(run.folder / "lm", options.layers, options.hidden, pieces=4000)
            words = ours(
                "generate", folder, "--temperature", 0, "--max-new-tokens", options.tokens, "--precision", "fp32", "-q"
            )
            peer = [sys.executable, "-c", DECODING, str(folder), str(options.tokens)]
            commands = {"nlptools": words} | ({} if options.alone else {"transformers": peer})
            if importlib.util.find_spec("xllamacpp") and not options.alone:
                nlptools("convert", "-q", folder, run.folder / "lm.gguf", "--quantize", "f16")
                commands["llama.cpp"] = [
                    *(sys.executable, __file__, "llama.cpp", run.folder / "lm.gguf", folder, options.tokens)
                ]
            compare(run, "decoding of 4 prompts", commands, prompts)
        if "embedding" in options.parts:
            words = ours(
                "embed", samples.minilm(), "-o", "/dev/null", "--to", "npy", "--force", "--precision", "fp32", "-q"
            )
            peer = [sys.executable, "-c", EMBEDDING, samples.minilm()]
            commands = {"nlptools": words}
            if importlib.util.find_spec("sentence_transformers") and not options.alone:
                commands["sentence-transformers"] = peer
            compare(run, f"vectors of {options.lines:,} lines", commands, text)
        if "training" in options.parts:
            words = ours("train-lm", "-t", "bytes", "--layers", 2, "--hidden", 128, "--heads", 4, "--context", 128, "--steps",
                         options.steps, "--precision", "fp32", "-o", run.folder / "new", "--force", "-q")  # fmt: skip
            compare(run, f"training of {options.steps} steps", {"nlptools": words}, text)


def compare(run: Bench, title: str, commands: Mapping[str, list[object]], stdin: Path) -> None:
    """Time each command alone, beside one neighbor, and beside one per core, in turns."""
    times = run.seconds(
        {
            f"{name}, {noise}": Command([sys.executable, __file__, "beside", number, *FREE, *words], stdin=stdin)
            for noise, number in NUMBERS.items()
            for name, words in commands.items()
        }
    )
    for noise, number in NUMBERS.items():
        shares = {name: median(times[f"{name}, quiet"]) / median(times[f"{name}, {noise}"]) for name in commands}
        kept = "of the quiet speed: " + ", ".join(f"{name} {share:.0%}" for name, share in shares.items())
        rows = {name: times[f"{name}, {noise}"] for name in commands}
        report(f"{title}, {noise}", "s", rows, less=True, check=kept if number else "")


def beside(number: int, words: list[str]) -> int:
    """Run a command beside so many neighbors."""
    import subprocess

    others = [subprocess.Popen([sys.executable, "-c", NEIGHBOR]) for _ in range(number)]
    try:
        return subprocess.run(words).returncode
    finally:
        for other in others:
            other.kill()
            other.wait()


def by_llama_cpp(file: Path, folder: Path, tokens: int) -> None:
    """Continue the lines of stdin; `folder` has their tokenizer."""
    from generation_speed import Work
    from llama_cpp_speed import llama_cpp
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    prompts = [tokenizer.encode(line).ids for line in sys.stdin.read().splitlines()]
    llama_cpp(file, Work(prompts, [tokens] * len(prompts), len(prompts)), CORES)()


if __name__ == "__main__":
    if sys.argv[1:2] == ["llama.cpp"]:
        by_llama_cpp(Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
        sys.exit()
    if sys.argv[1:2] == ["beside"]:
        sys.exit(beside(int(sys.argv[2]), sys.argv[3:]))
    main()
