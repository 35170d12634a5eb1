"""Settings of `embed`: what becomes a vector, of which layers, and how it is written."""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.configs import option
from nlptools.configs.layers import layers
from nlptools.configs.vectors import STREAMED
from nlptools.errors import UsageError

POOLINGS = ("mean", "cls", "max", "first", "last", "mean-sqrt", "weighted-mean", "model")


@dataclass(frozen=True)
class Embed:
    """Embedding options"""

    unit: str = option(
        "sentence",
        "What becomes a vector: a whole line, each of its words (separated by white space), or each token of the model.",
        choices=("sentence", "token", "word"),
    )
    layers: str = option(
        "last",
        "Layers of the model: last, N, sum:A:B, mean:A:B, concat:A:B (as slices; `all` for A:B), or mix:FILE, a JSON list"
        " with a weight for each layer. Layer 0 is what the embeddings give.",
        metavar="LAYERS",
        check=layers,
    )
    pooling: str | None = option(
        None,
        "How the tokens of a line become one vector. model does what a sentence-transformers directory says, and is the"
        " default there; elsewhere it is mean.",
        choices=POOLINGS,
    )
    subword: str = option(
        "mean",
        "With --unit word: how the tokens of a word become one vector.",
        choices=("first", "mean", "last"),
    )
    normalize: bool = option(False, "Give each vector length 1 (after --truncate-dim).")
    truncate_dim: int = option(
        0, "Keep the first N dimensions only, for models trained for it; 0 keeps all.", low=0, metavar="N"
    )
    prompt: str | None = option(
        None,
        "Put this before each line: the name of a prompt of the model, or a text. An empty one turns off the model's"
        " own.",
        metavar="NAME|TEXT",
    )
    long: str = option(
        "cut",
        "Lines longer than the model can see: cut them, or take windows of them and the mean of those, weighted by"
        " length.",
        choices=("cut", "window"),
    )
    max_length: int = option(
        0, "Most tokens that the model sees at once, special ones included; 0: as the model says.", low=0, metavar="N"
    )
    to: str = option("npy", "Format of the output.", choices=STREAMED)
    dtype: str = option("float32", "Numbers of npy.", choices=("float32", "float16"))
    index: str | None = option(
        None,
        "With --unit token or word and --to npy: write here, for each vector, the number of its line, its own number in"
        " the line, and the token or word.",
        metavar="FILE",
    )
    batch_tokens: int = option(4096, "Tokens that the model reads at a time.", low=1, metavar="N")

    def check(self) -> None:
        """Raises UsageError for options that do not go together."""
        units = self.unit != "sentence"
        if units and self.pooling is not None:
            raise UsageError(f"--pooling makes one vector of a line; --unit {self.unit} asks for more")
        if units and self.to not in ("npy", "jsonl"):
            raise UsageError(f"--to {self.to} does not go with --unit {self.unit}", hint="--to jsonl and npy do")
        if units and self.to == "npy" and self.index is None:
            raise UsageError(f"--unit {self.unit} --to npy needs --index FILE, to tell what the vectors are of")
        if self.index is not None and not (units and self.to == "npy"):
            raise UsageError("--index goes with --unit token or word and --to npy")
        if self.dtype != "float32" and self.to != "npy":
            raise UsageError("--dtype goes with --to npy")
        if 0 < self.max_length < 3:
            raise UsageError("--max-length: expected at least 3, two of them special tokens")


@dataclass(frozen=True)
class EmbedWords:
    """Options of word vectors"""

    weights: str = option(
        "uniform",
        "Where MODEL is a file of word vectors: what each word of a line weighs. tf-idf and sif (Arora et al. 2017) count"
        " words in --counts.",
        choices=("uniform", "tf-idf", "sif"),
    )
    counts: str | None = option(
        None,
        "Where words are counted: text with a document per line.",
        metavar="FILE",
    )
    tokenizer: str = option(
        "whitespace", "How lines are cut into the words of the file: a name or path of a tokenizer.", short="-t"
    )
    lowercase: bool = option(False, "Lower-case the lines first.")
