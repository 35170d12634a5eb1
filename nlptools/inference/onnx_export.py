"""Encoders and fine-tuned models as ONNX files, which many other runtimes read: `export`.

The graph takes `input_ids`, `attention_mask` and `token_type_ids`, int64, and gives `last_hidden_state`,
`sentence_embedding` or `logits`, float32, under the names that Hugging Face's optimum gives them. Batch and length are free.
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
from nlptools.inference.loading import open_model
from nlptools.layers import pooling
from nlptools.models.encoders.bert import BertWithHeads
from nlptools.tasks import outputs
from nlptools.tasks.task import seen_layers

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_HEADS = ("sequence", "tokens", "spans", "choice")  # heads that can be exported
_HINT = "pip install 'nlptools[onnx]'"
_MOST_BYTES = (1 << 31) - (1 << 24)  # of weights: an ONNX file ends at 2 GiB, the graph included
_CHECKS = ((1, 2), (3, 17), (5, 64))  # sizes of batches that are compared: rows, tokens
_TOLERANCE = 1e-4  # largest difference, as a share of the largest number, or of 1


@dataclass(frozen=True)
class Exported:
    """What was written.

    Attributes:
        result: logits, sentence or hidden.
        outputs: names of what the graph gives.
        difference: largest one between a number of the graph and of the model; None where it was not looked for.
    """

    result: str
    outputs: tuple[str, ...]
    difference: float | None


def export(model: str | Path, settings: Export) -> Exported:
    """Write the model in the directory `model` to the file `settings.output`.

    Raises:
        InputError, BundleError: see `bundle.load` and `sentence_steps.read`.
        UsageError: no encoder, or one without what `settings.result` asks for.
        Unavailable: the package onnx or onnxscript is not installed.
        CheckFailed: the graph does not compute what the model computes; nothing is written.
        OutputError, StreamError: see `streams.Output`.
    """
    missing = [name for name in ("onnx", "onnxscript") if importlib.util.find_spec(name) is None]
    if missing:
        raise Unavailable(f"export needs the package {' and '.join(missing)}", hint=_HINT)
    with streams.Output(settings.output, force=settings.force) as out:
        graph = _graph(Path(model), settings)
        data = _traced(graph, settings.opset)
        difference = None
        if settings.check and importlib.util.find_spec("onnxruntime") is None:
            messages.note(f"not compared with the model: there is no onnxruntime ({_HINT})")
        elif settings.check:
            difference = _difference(graph, data)
            messages.note(f"compared with the model: the largest difference is {difference:.2g}")
        out.write(data)
    return Exported(graph.result, graph.outputs, difference)


class Graph(nn.Module):
    """What is exported: an encoder, and what happens to its hidden states."""

    def __init__(
        self, model: BertWithHeads, result: str, which: Layers, steps: SentenceSteps | None, head: str | None
    ) -> None:
        """`which`: the layers that the head sees. `steps`: of a sentence. `head`: of logits."""
        super().__init__()
        self.model, self.result, self.which, self.steps, self.head = model, result, which, steps, head

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of what `forward` gives."""
        if self.result != "logits":
            return ("sentence_embedding" if self.result == "sentence" else "last_hidden_state",)
        if self.head != "spans":
            return ("logits",)
        return ("start_logits", "end_logits", *(("yes_no_logits",) if self.model.yes_no is not None else ()))

    @property
    def by_token(self) -> bool:
        """Whether outputs are of each token, those of padding included."""
        return self.result == "hidden" or self.head in ("tokens", "spans")

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> tuple[Tensor, ...]:
        """(B, T), or (B, C, T) with a head "choice" -> as `outputs` has them: (B, T, D), (B, D), (B, K), (B, T, K),
        (B, C), (B, T) beginnings and ends.
        """
        shape = input_ids.shape
        ids, mask, types = (x.reshape(-1, shape[-1]) for x in (input_ids, attention_mask, token_type_ids))
        found = self.of_states(self.model.encoder.exported(ids, mask > 0, types), mask > 0)
        return (found[0].view(shape[:-1]),) if len(shape) == 3 else found

    def expected(self, ids: Tensor, mask: Tensor, types: Tensor) -> tuple[Tensor, ...]:
        """What `forward` has to give for rows (B, T), by the model as it is trained."""
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


def _graph(path: Path, settings: Export) -> Graph:
    """What is to be exported of a directory. Raises UsageError for what it does not have, or is too large."""
    opened = open_model(path)
    found, steps = opened.bundle, opened.steps
    model: Any = found.model
    if not isinstance(model, BertWithHeads):
        raise UsageError(
            f"{display(str(path))}: export takes a BERT or an ELECTRA, a sentence-transformers directory, or what finetune"
            " made of one"
        )
    heads = [head for head in model.heads if head in _HEADS]
    has = {"logits": bool(heads), "sentence": steps is not None, "hidden": True}
    result = next(name for name in has if has[name]) if settings.result == "auto" else settings.result
    if "mentions" in model.heads and settings.result in ("auto", "logits"):
        raise UsageError(
            f"{display(str(path))}: judges names at given places, which no usual input of a graph says",
            hint="--result hidden exports its encoder",
        )
    if not has[result]:
        what = "no head of a task" if result == "logits" else "no sentence-transformers directory"
        raise UsageError(f"--result {result}: {display(str(path))} has {what}".replace("has no sent", "is no sent"))
    size = sum(p.numel() * p.element_size() for p in model.parameters())
    if size > _MOST_BYTES:
        raise UsageError(f"{display(str(path))}: weights of {size / 2**30:.1f} GiB, an ONNX file holds less than 2")
    _tell(model, result, steps)
    model.requires_grad_(True).eval()
    which = seen_layers(found)
    return Graph(model, result, which, steps, heads[0] if result == "logits" else None)


def _tell(model: BertWithHeads, result: str, steps: SentenceSteps | None) -> None:
    """Say what the graph leaves to who calls it."""
    if result == "logits" and model.crf is not None:
        messages.warn("logits are those of each token by itself; the conditional random field is left out")
    if result == "sentence" and steps is not None and steps.default_prompt is not None:
        messages.warn(f"the graph knows no prompt: put {steps.prompts[steps.default_prompt]!r} before texts")
        if not steps.include_prompt:
            messages.warn("tokens of the prompt are pooled with the others, which the model does not do")


def _traced(graph: Graph, opset: int) -> bytes:
    """The ONNX file."""
    shape, names = (2, 9), ("batch_size", "sequence_length")
    if graph.head == "choice":
        shape, names = (2, 3, 9), ("batch_size", "num_choices", "sequence_length")  # type: ignore[assignment]
    ids, mask = torch.zeros(shape, dtype=torch.int64), torch.ones(shape, dtype=torch.int64)
    with _quiet():
        program: Any = torch.onnx.export(
            graph,
            (ids, mask, torch.zeros_like(ids)),  # the same tensor twice would be one input
            input_names=INPUTS,
            output_names=graph.outputs,
            opset_version=opset,
            dynamic_shapes=(dict(enumerate(names)),) * len(INPUTS),
            dynamo=True,
            verbose=False,
        )
        proto = program.model_proto
    for part in (*proto.graph.node, *proto.graph.value_info, *proto.graph.input, *proto.graph.output):
        del part.metadata_props[:]  # where each came from in source files of this machine
    data: bytes = proto.SerializeToString()
    return data


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what the exporter says about itself."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


@torch.inference_mode()
def _difference(graph: Graph, data: bytes) -> float:
    """The largest difference between the graph's numbers and the model's. Raises CheckFailed when it is too large."""
    import onnxruntime

    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    config, random, largest = graph.model.config, np.random.default_rng(0), 0.0
    for rows, most in _CHECKS:
        tokens = min(most, config.max_position_embeddings)
        ids = random.integers(0, config.vocab_size, (rows, tokens))
        types = random.integers(0, config.type_vocab_size, (rows, tokens))
        mask = np.arange(tokens) < random.integers(1, tokens + 1, (rows, 1))
        mask[0] = True
        given = dict(zip(INPUTS, (ids, mask.astype(np.int64), types), strict=True))
        if graph.head == "choice":
            given = {name: array[None] for name, array in given.items()}
        wanted = graph.expected(*map(torch.from_numpy, (ids, mask, types)))
        for name, found, tensor in zip(graph.outputs, session.run(None, given), wanted, strict=True):
            expected = tensor.numpy()
            apart = np.abs(found.reshape(expected.shape) - expected)
            if graph.by_token and name != "yes_no_logits":
                apart = apart[mask]
            difference = float(apart.max())
            if not difference <= _TOLERANCE * max(1.0, float(np.abs(expected).max())):
                raise CheckFailed(
                    f"the graph's {name} is {difference:.3g} off what the model gives; nothing was written"
                )
            largest = max(largest, difference)
    return largest
