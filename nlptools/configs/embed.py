"""Settings of `embed`: the unit of text, the layers, the pooling and the output format."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from nlptools.configs import delimiter_option, option, quantize_option, text_columns
from nlptools.configs.combinations import check_combinations
from nlptools.configs.layers import layers
from nlptools.configs.vectors import STREAMED
from nlptools.errors import UsageError

POOLINGS = ("mean", "cls", "max", "first", "last", "mean-sqrt", "weighted-mean", "model")


@dataclass(frozen=True)
class Embed:
    """Embedding options"""

    unit: str = option(
        "sentence",
        "Text per vector: a line, a word (between white space) or a token of the model.",
        choices=("sentence", "token", "word"),
    )
    layers: str = option(
        "last",
        "Layers of the model: last; N (0: the output of the embeddings, in an ELMo the word vectors); sum:A:B,"
        " mean:A:B, concat:A:B (as slices; `all` for A:B); mix:FILE, weights of all layers as a JSON list or from"
        " finetune; all, with --to hdf5.",
        metavar="LAYERS",
        check=layers,
    )
    pooling: str | None = option(
        None,
        "How the tokens of a line become one vector. model: as the sentence-transformers directory specifies, its"
        " default; default of other models: mean.",
        choices=POOLINGS,
        only={"unit": ("sentence",)},
    )
    subword: str = option(
        "mean",
        "How the tokens of a word become one vector.",
        choices=("first", "mean", "last"),
    )
    similarity: bool = option(
        False,
        "Write the cosine similarity of the two texts of each line, text TAB text.",
        was={"--pairs": "--similarity"},
        excludes=("unit", "dtype", "index", "to jsonl", "to tsv", "to word2vec", "to hdf5"),
    )
    normalize: bool = option(False, "Scale each vector to length 1, after --truncate-dim.")
    truncate_dim: int = option(
        0, "Keep the first N dimensions, for models trained for this; 0: all.", low=0, metavar="N"
    )
    prompt: str | None = option(
        None,
        "Prefix of each line: the name of a prompt of the model, or a text. '': no prefix, if the model has a default"
        " prompt.",
        metavar="NAME|TEXT",
    )
    long: str = option(
        "cut",
        "Lines longer than the limit: cut them, or embed windows and average their vectors, weighted by length.",
        choices=("cut", "window"),
    )
    max_length: int = option(
        0, "Maximum number of tokens, special tokens included; 0: the limit of the model.", low=0, metavar="N"
    )
    stateful: bool = option(
        False,
        "ELMo: start each line with the final state of the line before, as bilm-tf does.",
    )
    to: str = option(
        "auto",
        "Output format. auto: by the suffix of --output (.npy, .jsonl, .tsv, .txt for word2vec, .hdf5), otherwise npy.",
        choices=("auto", *STREAMED, "hdf5"),
        excludes={"tsv": ("unit",), "word2vec": ("unit",)},
        needs={"hdf5": ("unit",)},
    )
    dtype: str = option(
        "float32",
        "Number format of npy.",
        choices=("float32", "float16"),
        only={"to": ("auto", "npy")},
    )
    index: str | None = option(
        None,
        "Also write the labels of the rows: number of the line, position in the line, and token or word.",
        metavar="FILE",
        only={"unit": ("token", "word")},
    )
    text_column: tuple[str, ...] = text_columns("the texts")
    delimiter: str | None = delimiter_option()
    batch_tokens: int = option(4096, "Tokens per batch.", low=1, metavar="N")
    quantize: str | None = quantize_option(" The cosines of the first vectors with those before go to standard error.")

    def for_output(self, path: str) -> Embed:
        """These settings with the format of an output file by its suffix, if --to does not name it."""
        names = {
            ".jsonl": "jsonl",
            ".ndjson": "jsonl",
            ".tsv": "tsv",
            ".txt": "word2vec",
            ".h5": "hdf5",
            ".hdf5": "hdf5",
        }
        plain = re.sub(r"\.(gz|bz2|xz|zst)$", "", path)
        found = next((form for suffix, form in names.items() if plain.endswith(suffix)), "npy")
        return replace(self, to="npy" if self.similarity else found) if self.to == "auto" else self

    def check(self) -> None:
        """Raise UsageError for options that cannot be combined."""
        if self.to == "auto":
            return self.for_output("-").check()
        check_combinations(self)
        units = self.unit != "sentence"
        if self.layers == "all" and self.to != "hdf5":
            raise UsageError("--layers all needs --to hdf5", hint="concat:all puts the layers side by side")
        if units and self.to == "npy" and self.index is None:
            raise UsageError(f"--unit {self.unit} --to npy needs --index FILE, which labels the vectors")
        if self.text_column and len(self.text_column) != 1 + self.similarity:
            raise UsageError("--text-column: expected one column of texts, with --similarity two")
        if 0 < self.max_length < 3:
            raise UsageError("--max-length: expected at least 3, including two special tokens")


@dataclass(frozen=True)
class EmbedWords:
    """Options of word vectors"""

    word_weights: str = option(
        "uniform",
        "Weights of the words of a line. tf-idf and sif (Arora et al. 2017) need --counts.",
        choices=("uniform", "tf-idf", "sif"),
        was={"--weights": "--word-weights"},
    )
    counts: str | None = option(
        None,
        "Text to count words in, a document per line.",
        metavar="FILE",
    )
    tokenizer: str = option("whitespace", "Tokenizer (name or path) that splits lines into words.", short="-t")
    lowercase: bool = option(False, "Lower-case the lines first.")
