"""Export of encoders and fine-tuned models to ONNX files, which many other runtimes read.

The graph takes `input_ids`, `attention_mask` and `token_type_ids`, int64, and returns `last_hidden_state`,
`sentence_embedding` or `logits`, float32, with the names of Hugging Face's optimum. Batch size and length are dynamic.
Shapes: B batch, C choices, T length, D hidden, K labels.
"""

from __future__ import annotations

import importlib.util
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nlptools import messages
from nlptools.configs.export import Export
from nlptools.configs.layers import Layers
from nlptools.errors import CheckFailed, Unavailable, UsageError, display
from nlptools.files import streams
from nlptools.inference.embedding import text_embedder
from nlptools.inference.embedding.sentence_steps import SentenceSteps
from nlptools.inference.opening import open_model
from nlptools.layers import pooling
from nlptools.layers.relations import UNRELATED
from nlptools.models.encoders.bert_with_heads import BertWithHeads
from nlptools.tasks import outputs
from nlptools.tasks.task import seen_layers

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_HEADS = ("sequence", "tokens", "spans", "choice")  # heads that can be exported
_MOST_BYTES = (1 << 31) - (1 << 24)  # of weights: an ONNX file is limited to 2 GiB, including the graph
_CHECKS = ((1, 2), (3, 17), (5, 64))  # sizes of the batches of the comparison: rows, tokens
_OPSET = 18  # version of the ONNX operator set
_TOLERANCE = 1e-4  # maximum difference, relative to the largest value or to 1


@dataclass(frozen=True)
class Exported:
    """Properties of an exported graph.

    Attributes:
        result: logits, sentence or hidden.
        outputs: names of the outputs of the graph.
        difference: maximum absolute difference between the graph and the model; None if they were not compared.
    """

    result: str
    outputs: tuple[str, ...]
    difference: float | None


def export(model: str | Path, settings: Export) -> Exported:
    """Write the model in the directory `model` to the file `settings.output`.

    Raises:
        InputError, BundleError: see `bundle.load` and `sentence_steps.read`.
        UsageError: not an encoder, or one without the output `settings.result`.
        Unavailable: the package onnx or onnxscript is not installed.
        CheckFailed: the graph and the model differ; nothing is written.
        OutputError, StreamError: see `streams.LineWriter`.
    """
    missing = [name for name in ("onnx", "onnxscript") if importlib.util.find_spec(name) is None]
    if missing:
        raise Unavailable(f"export needs the package {' and '.join(missing)}", extra="onnx")
    with streams.LineWriter(settings.output, force=settings.force, layout=None) as out:
        graph = _graph(Path(model), settings)
        data = _traced(graph)
        difference = None
        if importlib.util.find_spec("onnxruntime") is None:
            messages.note("not compared with the model: onnxruntime (the extra onnx) is not installed")
        else:
            difference = _difference(graph, data)
            messages.note(f"compared with the model: the largest difference is {difference:.2g}")
        out.write(data)
    return Exported(graph.result, graph.outputs, difference)


class ExportedModule(nn.Module):
    """The exported module: an encoder, and a head or pooling of its hidden states."""

    def __init__(
        self, model: BertWithHeads, result: str, which: Layers, steps: SentenceSteps | None, head: str | None
    ) -> None:
        """`which`: input layers of the head. `steps`: pooling steps, for sentence vectors. `head`: its name, for logits."""
        super().__init__()
        self.model, self.result, self.which, self.steps, self.head = model, result, which, steps, head

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the outputs of `forward`."""
        if self.result != "logits":
            return ("sentence_embedding" if self.result == "sentence" else "last_hidden_state",)
        if self.head != "spans":
            return ("logits",)
        return ("start_logits", "end_logits", *(("yes_no_logits",) if self.model.yes_no is not None else ()))

    @property
    def by_token(self) -> bool:
        """Whether there is an output for each token, including padding."""
        return self.result == "hidden" or self.head in ("tokens", "spans")

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> tuple[Tensor, ...]:
        """(B, T), or (B, C, T) with a head "choice" -> the tensors named in `outputs`: (B, T, D), (B, D), (B, K), (B, T, K),
        (B, C), (B, T) beginnings and ends.
        """
        shape = input_ids.shape
        ids, mask, types = (x.reshape(-1, shape[-1]) for x in (input_ids, attention_mask, token_type_ids))
        results = self.of_states(self.model.encoder.exported(ids, mask > 0, types), mask > 0)
        return (results[0].view(shape[:-1]),) if len(shape) == 3 else results

    def expected(self, ids: Tensor, mask: Tensor, types: Tensor) -> tuple[Tensor, ...]:
        """The reference for `forward` on rows (B, T), computed by the model in the form used for training."""
        return self.of_states(self.model.encoder(ids, mask, types).layers, mask)

    def of_states(self, states: Sequence[Tensor], mask: Tensor) -> tuple[Tensor, ...]:
        """The outputs from the hidden states of all layers, (B, T, D) each."""
        if self.result == "hidden":
            return (states[-1],)
        if self.result == "sentence":
            assert self.steps is not None
            pooled = pooling.pool(states[-1], mask, self.steps.pooling)
            return (text_embedder.after_pooling(pooled, self.steps),)
        assert self.head is not None
        hidden = states[-1] if self.which == outputs.LAST else self.model.put_together(states, self.which)
        logits = self.model.task_logits(self.head, hidden)
        if self.head != "spans":
            return (logits,)
        return (logits[..., 0], logits[..., 1], *((logits[:, 0, 2:],) if self.model.yes_no is not None else ()))


def _graph(path: Path, settings: Export) -> ExportedModule:
    """The graph of a model directory. Raises UsageError if it lacks the requested output or is too large."""
    opened = open_model(path)
    bundle, steps = opened.bundle, opened.steps
    model: object = bundle.model
    if not isinstance(model, BertWithHeads):
        raise UsageError(
            f"{display(str(path))}: export needs a BERT or an ELECTRA, a sentence-transformers directory, or a fine-tuned"
            " model of these"
        )
    if any(relation is not UNRELATED for relation in model.encoder.relations(torch.zeros(1, dtype=torch.int64))):
        raise UsageError(
            f"{display(str(path))}: export of a {model.config.layout} is not supported: its attention depends on distances",
            hint="BERT, ELECTRA, RoBERTa, XLM-R, CamemBERT, DistilBERT and ALBERT can be exported",
        )
    heads = [head for head in model.heads if head in _HEADS]
    has = {"logits": bool(heads), "sentence": steps is not None, "hidden": True}
    result = next(name for name in has if has[name]) if settings.result == "auto" else settings.result
    if "mentions" in model.heads and settings.result in ("auto", "logits"):
        raise UsageError(
            f"{display(str(path))}: the model classifies names at given positions, which are not an input of the graph",
            hint="--result hidden exports the encoder",
        )
    if not has[result]:
        lack = "has no head of a task" if result == "logits" else "is not a sentence-transformers directory"
        raise UsageError(f"--result {result}: {display(str(path))} {lack}")
    size = sum(p.numel() * p.element_size() for p in model.parameters())
    if size > _MOST_BYTES:
        raise UsageError(
            f"{display(str(path))}: weights of {size / 2**30:.1f} GiB, but an ONNX file is limited to 2 GiB"
        )
    _warn_of_limits(model, result, steps)
    model.requires_grad_(True).eval()
    which = seen_layers(bundle)
    return ExportedModule(model, result, which, steps, heads[0] if result == "logits" else None)


def _warn_of_limits(model: BertWithHeads, result: str, steps: SentenceSteps | None) -> None:
    """Warn of parts of the model that are not in the graph."""
    if result == "logits" and model.crf is not None:
        messages.warn("the graph computes the logits of each token, without the conditional random field")
    if result == "sentence" and steps is not None and steps.default_prompt is not None:
        messages.warn(f"the graph has no prompt: put {steps.prompts[steps.default_prompt]!r} before each text")
        if not steps.include_prompt:
            messages.warn("the graph also pools the tokens of the prompt, which the model excludes")


def _traced(graph: ExportedModule) -> bytes:
    """The ONNX file."""
    shape, names = (2, 9), ("batch_size", "sequence_length")
    if graph.head == "choice":
        shape, names = (2, 3, 9), ("batch_size", "num_choices", "sequence_length")  # type: ignore[assignment]
    ids, mask = torch.zeros(shape, dtype=torch.int64), torch.ones(shape, dtype=torch.int64)
    with _quiet():
        program: Any = torch.onnx.export(
            graph,
            (ids, mask, torch.zeros_like(ids)),  # the same tensor twice would become one input
            input_names=INPUTS,
            output_names=graph.outputs,
            opset_version=_OPSET,
            dynamic_shapes=(dict(enumerate(names)),) * len(INPUTS),
            dynamo=True,
            verbose=False,
        )
        proto = program.model_proto
    for part in (*proto.graph.node, *proto.graph.value_info, *proto.graph.input, *proto.graph.output):
        del part.metadata_props[:]  # paths of source files on this machine
    data: bytes = proto.SerializeToString()
    return data


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the log and the warnings of the exporter."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


@torch.inference_mode()
def _difference(graph: ExportedModule, data: bytes) -> float:
    """The maximum absolute difference between the graph and the model. Raises CheckFailed if it is too large."""
    import onnxruntime

    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    config, random, largest = graph.model.config, np.random.default_rng(0), 0.0
    for rows, most in _CHECKS:
        tokens = min(most, graph.model.encoder.max_context)
        ids = random.integers(0, config.vocab_size, (rows, tokens))
        types = random.integers(0, max(1, config.type_vocab_size), (rows, tokens))
        mask = np.arange(tokens) < random.integers(1, tokens + 1, (rows, 1))
        mask[0] = True
        inputs = dict(zip(INPUTS, (ids, mask.astype(np.int64), types), strict=True))
        if graph.head == "choice":
            inputs = {name: array[None] for name, array in inputs.items()}
        references = graph.expected(*map(torch.from_numpy, (ids, mask, types)))
        for name, output, tensor in zip(graph.outputs, session.run(None, inputs), references, strict=True):
            expected = tensor.numpy()
            differences = np.abs(output.reshape(expected.shape) - expected)
            if graph.by_token and name != "yes_no_logits":
                differences = differences[mask]
            difference = float(differences.max())
            if not difference <= _TOLERANCE * max(1.0, float(np.abs(expected).max())):
                raise CheckFailed(
                    f"{name} of the graph differs from the model by {difference:.3g}; nothing was written"
                )
            largest = max(largest, difference)
    return largest
