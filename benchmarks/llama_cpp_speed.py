"""Decoding: speed compared with llama.cpp.

    python benchmarks/llama_cpp_speed.py [--shapes gpt2,smollm] [--prompts 1,16,32] [--types half,eight] [--length 32]
        [--new 128] [--threads 2] [--rounds 3]

llama.cpp as the package xllamacpp has it: its server in a separate process, all prompts in one request, a slot for each, the
file as `nlptools convert` writes it. Both sides have loaded the model and decoded a few tokens before the first round. Random
weights, greedy choices, the same ids as prompts.

    half     files in bf16 and f16; ours in fp32, in bf16 where the processor has it, and with weights in fp16
    eight    a file in q8_0; ours in int8

What limits ours with one prompt: the products by FBGEMM alone. On two cores of an AMD EPYC (AVX2), those of the SmolLM 135M shape
take 20 ms in fp16 and 12 in int8, at 11 to 14 GB/s. A whole step of llama.cpp takes 16 and 13 ms.
No other product of PyTorch 2.13 is faster there: in a second measurement fp16 took 17 to 20 ms, int8 13 to 16, and a whole step
of llama.cpp 18 and 10. A step that torch.compile generates takes 23 ms in fp16 and 177 in int8.
"""

from __future__ import annotations

import importlib.util
import json
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import generation_speed
import numpy as np
import samples
from generation_speed import Work
from side_by_side import Job, bench, nlptools, precisions, separate

PIECES = 4000  # of the tokenizer, which no side uses here; other rows of the embedding have no text
SHAPES = {  # title, what makes the model, layers, width
    "gpt2": ("GPT-2 124M shape", samples.gpt2, 12, 768),
    "smollm": ("SmolLM 135M shape", samples.llama, 30, 576),
    "toy": ("a toy GPT-2", samples.gpt2, 1, 192),
    "toy-llama": ("a toy LLaMA", samples.llama, 1, 192),
}
# types of the file; precisions of ours
TYPES = {"half": (("bf16", "f16"), lambda: [*precisions(), "fp16"]), "eight": (("q8_0",), lambda: ["int8"])}
FIRST = 8  # new tokens before the first round


def main() -> None:
    with bench(__doc__, shapes=SHAPES, prompts=("1", "16", "32"), types=TYPES, length=32, new=128) as run:
        chosen, known = run.options, importlib.util.find_spec("xllamacpp") is not None
        for name in [*SHAPES][:2] if chosen.shapes == [*SHAPES] else chosen.shapes:
            title, make, layers, hidden = SHAPES[name]
            folder = make(run.folder / name, layers, hidden, pieces=PIECES)
            for kind in chosen.types:
                theirs, mine = TYPES[kind]
                for quantize in theirs if known else ():
                    nlptools("convert", "-q", folder, run.folder / f"{name}-{quantize}.gguf", "--quantize", quantize)
                for count in map(int, chosen.prompts):
                    rng = np.random.default_rng(0)
                    given = Work(rng.integers(3, PIECES, (count, chosen.length)).tolist(), [chosen.new] * count, count)
                    files = {quantize: run.folder / f"{name}-{quantize}.gguf" for quantize in theirs if known}
                    sides = {f"llama.cpp {q}": separate(llama_cpp, f, given, chosen.threads) for q, f in files.items()}
                    sides |= {f"nlptools, {p}": separate(ours, folder, given, p) for p in mine()}
                    many = f"{count} prompts" if count > 1 else "one prompt"
                    bits = "8 bits" if kind == "eight" else "16 or 32 bits"
                    job = f"decoding, {title}, {many} of {chosen.length}, {chosen.new} new tokens, {bits}"
                    run.compare(job, "new tokens/s", sides, check=same if known else None, warm_up=0)


def same(results: Mapping[str, Any]) -> str:
    """The share of the tokens that come before the first difference in their text."""
    [first, *_] = [name for name in results if name.startswith("nlptools")]
    expected = np.array(results[first])  # (prompts, T)
    alike = {name: (np.array(rows) == expected).cumprod(1).mean() for name, rows in results.items() if name != first}
    return f"greedy tokens before the first difference to {first}: " + ", ".join(
        f"{n} {a:.0%}" for n, a in alike.items()
    )


def ours(folder: Path, given: Work, precision: str) -> Job:
    """New tokens of our decoding, which has begun before."""
    generation_speed.ours(folder, given._replace(new=[FIRST] * len(given.new)), precision)()
    return generation_speed.ours(folder, given, precision)


def llama_cpp(file: Path, given: Work, threads: int) -> Job:
    """New tokens of a server of llama.cpp."""
    import xllamacpp

    count, longest = len(given.prompts), max(map(len, given.prompts))
    params = xllamacpp.CommonParams()
    params.model.path, params.verbosity, params.port = str(file), 0, 0
    params.n_parallel, params.n_ctx = count, count * 256 * -(-(longest + given.new[0]) // 256)
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.cache_ram_mib = 0
    server = xllamacpp.Server(params)
    body: dict[str, Any] = {"prompt": given.prompts, "temperature": 0, "samplers": ["top_k"], "top_k": 1}
    body |= {"ignore_eos": True, "cache_prompt": False, "return_tokens": True}

    def decode(new: int) -> list[list[int]]:
        data = json.dumps({**body, "n_predict": new}).encode()
        address, kind = f"{server.listening_address}/completion", {"Content-Type": "application/json"}
        with urllib.request.urlopen(urllib.request.Request(address, data, kind)) as answer:
            found = json.loads(answer.read())
        return [row["tokens"] for row in (found if isinstance(found, list) else [found])]

    decode(FIRST)
    return lambda: (sum(given.new), decode(given.new[0]))


if __name__ == "__main__":
    main()
