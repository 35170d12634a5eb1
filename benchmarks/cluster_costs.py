"""A written model of what training and embedding cost on many GPUs, and how far it is from published runs.

A step of data-parallel training computes 6 P + 12 L D T floating-point operations for each token (Chowdhery et al. 2022, PaLM,
appendix B: P parameters, L layers of D dimensions, T tokens of context). N GPUs exchange gradients in a ring, in which each
sends and receives 2 (N - 1) / N times their bytes; with sharded weights (FSDP, ZeRO-3) each gathers the weights in 16 bits for
the forward and again for the backward pass, and gets its part of the gradients in 32 bits.
"""

from __future__ import annotations

import math
from typing import NamedTuple


class Gpu(NamedTuple):
    """A GPU and its links, in each direction.

    Attributes:
        peak: operations per second, bf16 (V100: fp32).
        utilization: the share of it that training computes with, without communication: assumed.
        node: bytes per second within a machine.
        network: bytes per second from machine to machine, for each GPU.
    """

    peak: float
    utilization: float
    node: float
    network: float


GPUS = {
    "H100": Gpu(989e12, 0.42, 450e9, 50e9),
    "A100": Gpu(312e12, 0.55, 300e9, 25e9),
    "V100": Gpu(15.7e12, 0.50, 150e9, 12.5e9),
}
PER_MACHINE = 8
LINKS = 0.7  # of the bandwidth is reached
LATENCY = 20e-6  # seconds of a message to one more GPU; collectives of small parts go through trees
MESSAGE = 128 << 20  # bytes of gradients that are summed at a time
OVERLAP = 0.9  # of the backward pass, two thirds of a step, in which FSDP communicates; `--shard-model` only
ASSUMPTIONS = f"""Assumed: training computes with {GPUS["H100"].utilization:.0%} of the peak of an H100 (bf16, 989 TFLOP/s)
and {GPUS["A100"].utilization:.0%} of an A100 (312 TFLOP/s), whatever the model; machines of {PER_MACHINE} GPUs; {LINKS:.0%} of
the bandwidth, of 450 and 300 GB/s per GPU within a machine and 50 and 25 GB/s between machines, is reached; a collective of
{MESSAGE >> 20} MiB waits {LATENCY * 1e6:.0f} microseconds for each level of a tree; gradients have 32 bits. Whole weights:
gradients are summed after the backward pass. Divided (--shard-model): {OVERLAP:.0%} of the backward pass hides communication.
Nothing is assumed about slow machines, failures, reading and evaluation, which take time in every real run."""


class Network(NamedTuple):
    """A language model."""

    parameters: float
    layers: int
    dimensions: int
    context: int

    def operations(self) -> float:
        """Of one token, forward and backward."""
        return 6 * self.parameters + 12 * self.layers * self.dimensions * self.context


XL = Network(1558e6, 48, 1600, 1024)
STEPS = 32_000  # of 1,048,576 tokens, as llm.c trains it


class Step(NamedTuple):
    """One step of training, for each GPU.

    Attributes:
        computing: seconds.
        sent: bytes.
        waiting: seconds of communication that nothing hides.
    """

    computing: float
    sent: float
    waiting: float

    @property
    def seconds(self) -> float:
        return self.computing + self.waiting


def step(network: Network, gpu: Gpu, gpus: int, tokens: float, *, sharded: bool = False) -> Step:
    """A step on a batch of so many tokens."""
    computing = network.operations() * tokens / gpus / (gpu.peak * gpu.utilization)
    weights, gradients = 2 * network.parameters, 4 * network.parameters
    share = (gpus - 1) / gpus
    sent = share * (2 * weights + gradients) if sharded else 2 * share * gradients
    bandwidth = LINKS * (gpu.node if gpus <= PER_MACHINE else gpu.network)
    collectives = math.ceil(gradients / MESSAGE) * (3 if sharded else 2) if gpus > 1 else 0
    communicating = sent / bandwidth + collectives * math.ceil(math.log2(gpus)) * LATENCY
    hidden = OVERLAP * 2 / 3 * computing if sharded else 0
    return Step(computing, sent, max(0.0, communicating - hidden))


class Run(NamedTuple):
    """A published run: so many tokens per second on each GPU."""

    name: str
    network: Network
    gpu: str
    gpus: int
    batch: float  # tokens of a step
    sharded: bool
    rate: float
    source: str


_LLMC, _MPT = "github.com/karpathy/llm.c, scripts", "github.com/mosaicml/llm-foundry, scripts/train/benchmarking"
_GPT2 = Network(124e6, 12, 768, 1024)
_MPT1B, _LLAMA7B = Network(1316e6, 24, 2048, 2048), Network(6738e6, 32, 4096, 4096)
_LLAMA8B = Network(8030e6, 32, 4096, 8192)
RUNS = (
    Run("GPT-2 XL, llm.c", XL, "H100", 8, 1 << 20, False, (1 << 20) / 2.8 / 8, f"{_LLMC}/run_gpt2_1558M.sh"),
    Run("GPT-2 124M, llm.c", _GPT2, "A100", 8, 1 << 19, False, (1 << 19) / 0.3 / 8, f"{_LLMC}/run_gpt2_124M.sh"),
    Run("GPT-2 124M, nanoGPT", _GPT2, "A100", 8, 491_520, False, 600_000 * 491_520 / (4 * 86400) / 8,
        "github.com/karpathy/nanoGPT, README: 600,000 steps in about 4 days"),
    Run("MPT 1B", _MPT1B, "H100", 8, 229_376, True, 45_455, _MPT),
    Run("MPT 1B", _MPT1B, "H100", 64, 2_621_440, True, 44_402, _MPT),
    Run("MPT 1B", _MPT1B, "A100", 128, 2_621_440, True, 18_647, _MPT),
    Run("Llama 2 7B, fms-fsdp", _LLAMA7B, "A100", 128, 128 * 2 * 4096, True, 3760,
        "github.com/foundation-model-stack/fms-fsdp, README; divided within machines only, for which the model has no formula"),
    Run("Llama 3.1 8B, torchtitan", _LLAMA8B, "H100", 8, 16 * 8192, True, 6667,
        "github.com/pytorch/torchtitan, benchmarks/llama3_h100_202412_torchtitan.md"),
    Run("Llama 3.1 8B, torchtitan", _LLAMA8B, "H100", 128, 256 * 8192, True, 6514, "the same"),
    Run("LLaMA 65B", Network(65.2e9, 80, 8192, 2048), "A100", 2048, 4e6, True, 380,
        "Touvron et al. 2023, arXiv:2302.13971, section 2.4; also divided within layers, for which the model has no formula"),
)  # fmt: skip


class Encoder(NamedTuple):
    """An encoder of sentences; parameters without its embeddings."""

    parameters: float
    dimensions: int


MINILM, MPNET = Encoder(10.6e6, 384), Encoder(85.1e6, 768)
LINE_TOKENS, LINE_BYTES = 25, 110  # of a line to embed
TOKENIZED = 20_000  # lines that a core turns into tokens in a second
CORES = 16  # for each GPU
INFERENCE = 0.25  # of the peak in bf16, for matrices as small as those of MiniLM
SPEEDS = (  # encoder, lines per second on one V100, source
    ("paraphrase-MiniLM-L6-v2", MINILM, 14_200),
    ("paraphrase-mpnet-base-v2", MPNET, 2_800),
)


def lines_per_second(encoder: Encoder, gpu: Gpu, utilization: float) -> tuple[float, str]:
    """Lines that one GPU turns into vectors, and what limits them."""
    limits = {
        "the GPU": gpu.peak * utilization / (2 * encoder.parameters * LINE_TOKENS),
        "tokenizing": float(TOKENIZED * CORES),
    }
    return min((rate, name) for name, rate in limits.items())


# -- tables -----------------------------------------------------------------------------------------------------------


def markdown() -> str:
    """The model's assumptions and its tables."""
    return "\n".join([ASSUMPTIONS + "\n", *_training(), *_published(), *_embedding(), *_published_embedding()])


def _table(title: str, heads: str, rows: list[list[str]]) -> list[str]:
    count = heads.count("|") + 1
    return [f"### {title}\n", f"| {heads} |", "|---" * count + "|", *(f"| {' | '.join(row)} |" for row in rows), ""]


def _training() -> list[str]:
    rows = []
    for gpus, batch in ((1, 1), (8, 1), (16, 1), (64, 1), (256, 1), (256, 4), (1024, 1), (1024, 16)):
        for sharded in (False, True) if gpus > 1 else (False,):
            one = step(XL, GPUS["H100"], gpus, batch << 20, sharded=sharded)
            figures = [1000 * one.computing, one.sent / 1e9, 1000 * one.waiting]
            hours, share = one.seconds * STEPS / batch / 3600, one.computing / one.seconds
            shown = [f"{x:,.3g}" if x < 1000 else f"{x:,.0f}" for x in figures]
            how = "divided" if sharded else "whole"
            rows.append([f"{gpus:,}", f"{batch << 20:,}", how, *shown, f"{hours:,.1f}", f"{share:.0%}"])
    heads = "GPUs | tokens a step | weights | computing, ms | sent by a GPU, GB | waiting, ms | hours | efficiency"
    return _table(f"GPT-2 XL on H100s, {STEPS << 20:,} tokens", heads, rows)


def _published() -> list[str]:
    rows = []
    for run in RUNS:
        one = step(run.network, GPUS[run.gpu], run.gpus, run.batch, sharded=run.sharded)
        predicted = run.batch / run.gpus / one.seconds
        rows.append([run.name, f"{run.gpus:,} {run.gpu}", f"{predicted:,.0f}", f"{run.rate:,.0f}",
                     f"{predicted / run.rate:.2f}", run.source])  # fmt: skip
    heads = "run | GPUs | predicted | published | ratio | source"
    return _table("Predicted and published speed of training, tokens per second and GPU", heads, rows)


def _embedding() -> list[str]:
    lines, rate_and_limit = 1e9, lines_per_second(MINILM, GPUS["H100"], INFERENCE)
    rate, limit = rate_and_limit
    rows = []
    for gpus in (1, 8, 64, 256, 1024):
        gigabytes = lines * LINE_BYTES / gpus / 1e9, lines * MINILM.dimensions * 4 / gpus / 1e9
        shown = [f"{x:,.3g}" if x < 1000 else f"{x:,.0f}" for x in (lines / rate / gpus / 3600, *gigabytes)]
        rows.append([f"{gpus:,}", *shown, f"{gpus:,}", limit])
    text = (
        f"\nAssumed: lines of {LINE_TOKENS} tokens and {LINE_BYTES} bytes; {INFERENCE:.0%} of the peak of an H100; {CORES} cores"
        f" for each GPU, each of which turns {TOKENIZED:,} lines a second into tokens; one `embed --shard I/N` for each GPU,"
        " with a file of float32 numbers as its output. Processes do not talk to each other.\n"
    )
    heads = "GPUs | hours | GB read by each | GB written by each | files | limited by"
    return [*_table("A billion lines to embed, MiniLM of 6 layers on H100s", heads, rows), text]


def _published_embedding() -> list[str]:
    rows = []
    for name, encoder, published in SPEEDS:
        rate, _ = lines_per_second(encoder, GPUS["V100"], GPUS["V100"].utilization)
        rows.append([name, "1 V100", f"{rate:,.0f}", f"{published:,}", f"{rate / published:.2f}",
                     "sbert.net, pretrained models; the length of the sentences is not said"])  # fmt: skip
    heads = "encoder | GPUs | predicted | published | ratio | source"
    return _table("Predicted and published speed of embedding, lines per second", heads, rows)
