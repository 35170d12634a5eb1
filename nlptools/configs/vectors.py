"""The formats of word vectors, and settings of commands on them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from nlptools.configs import LARGEST_SEED, option
from nlptools.configs.combinations import check_combinations
from nlptools.errors import UsageError


class VectorFormat(NamedTuple):
    """A format of word vectors. A new one is a row of `FORMATS` and a file in `nlptools/vectors/files`.

    Attributes:
        name: as options have it.
        patterns: names of files, with *. The longest pattern that matches decides, the first row among equals.
        about: content of a file, for the manual page of `convert`.
        code: a module of `nlptools.vectors.files`, or module:object, with `read` and `save`; see
            `nlptools.vectors.files.formats.codec`. Without code, only `embed` writes the format.
        magic: the first bytes of a file; they decide between formats with the same pattern.
        piped: whether a pipe with the first byte of `magic` has this format.
        binary: whether it is refused on a terminal.
        streamed: whether `embed` writes it, before the number of vectors is known.
        ngrams: whether it keeps the n-grams of fastText.
    """

    name: str
    patterns: tuple[str, ...]
    about: str
    code: str
    magic: bytes = b""
    piped: bool = False
    binary: bool = False
    streamed: bool = False
    ngrams: bool = False

    @property
    def names(self) -> str:
        """The names of files, for people: `.txt, .w2v`."""
        return ", ".join(p.removeprefix("*").replace("*", "NAME") for p in self.patterns) or "a directory"


_ROWS = (
    VectorFormat(
        "word2vec", ("*.txt", "*.w2v"),
        "a line with the numbers of words and dimensions, then a word and its numbers per line, separated by spaces; numbers "
        "have six significant digits if these give the same float32 again, else nine",
        "text:WORD2VEC", streamed=True,
    ),
    VectorFormat(
        "word2vec-binary", ("*.bin",), "the same with float32 numbers; words must not contain spaces", "word2vec",
        binary=True,
    ),
    VectorFormat("glove", ("glove.*.txt", "*.glove"), "as word2vec without the first line", "text:GLOVE"),
    VectorFormat(
        "vec", ("*.vec",),
        "as word2vec with five significant digits and a space at the end of each line, as fastText writes it", "text:VEC",
    ),
    VectorFormat(
        "fasttext", ("*.bin",),
        "fastText's model, which begins with a magic number, with n-grams if the source has them; fastText and gensim load "
        "it. A .bin made from such a file is one, too",
        "fasttext", magic=(793712314).to_bytes(4, "little"), binary=True, ngrams=True,
    ),
    VectorFormat(
        "npy", ("*.npy",), "a float32 array of NumPy; the words (and counts, after a tab) are in NAME.vocab.tsv", "npy",
        magic=b"\x93NUMPY", piped=True, binary=True, streamed=True,
    ),
    VectorFormat(
        "jsonl", ("*.jsonl",),
        'a word and its vector per line, {"text": ..., "embedding": [...]}, as nlptools-embed(1) writes lines',
        "json_lines", magic=b"{", piped=True, streamed=True,
    ),
    VectorFormat(
        "tsv", ("*.tsv",), "a word or text and its numbers per line, separated by tabs; \\t, \\n and \\\\ in it stand for "
        "tab, newline and backslash", "text:TSV", streamed=True,
    ),
    VectorFormat(
        "bundle", (), "vectors.npy, vocab.tsv, config.json, manifest.json; names without suffix mean it, too", "directory",
        ngrams=True,
    ),
)  # fmt: skip
FORMATS = {row.name: row for row in _ROWS}
NAMES = tuple(row.name for row in _ROWS if row.code)  # what --from and --to take
STREAMED = tuple(row.name for row in _ROWS if row.streamed)  # what `embed --to` takes
SUFFIXES = tuple(pattern[1:] for row in _ROWS for pattern in row.patterns if pattern.startswith("*"))
_GENSIM = (
    "gensim's own format is a pickle, which is never read: it can run code",
    "in Python: KeyedVectors.load(NAME).save_word2vec_format('vectors.bin', binary=True); of a Word2Vec its .wv",
)
# ending of a name -> what such a file is, and how to get one that can be read
FOREIGN = {
    ".kv": _GENSIM,
    ".wordvectors": _GENSIM,
    ".gensim": _GENSIM,
    ".pkl": ("pickles are never read: they can run code", "write the vectors in word2vec's format or as .npy"),
    ".ftz": ("quantized fastText models are not read", "save_model before quantize writes a .bin, which is read"),
    ".csv": ("no format of vectors has commas", "write tabs instead: tr , '\\t' < NAME > NEW.tsv"),
}
# for manual pages: formats and the names of their files, and with what they contain
FILES = ", ".join(f"{row.name} ({row.names})" for row in _ROWS if row.code)
CONTENTS = "\n".join(f"* **{row.name} ({row.names})**: {row.about}." for row in _ROWS if row.code)


@dataclass(frozen=True)
class Neighbors:
    """Search options"""

    neighbors: int = option(10, "Number of neighbors per query.", flag="k", short="-k", low=1, metavar="N")
    method: str = option(
        "add",
        "Score of an expression: 3CosAdd, or 3CosMul.",
        choices=("add", "mul"),
        excludes=("model", "corpus", "embedded"),
    )
    metric: str = option(
        "cosine",
        "Cosine, Euclidean distance (nearest: smallest), or dot product.",
        choices=("cosine", "euclidean", "dot"),
        excludes=("method mul",),
    )
    restrict: int = option(
        0, "Only the first N words, the most frequent in most files, can be neighbors; 0: all.", low=0, metavar="N"
    )
    lines_file: str | None = option(
        None,
        "Text with a line for each row of an array (npy).",
        flag="lines",
        metavar="FILE",
    )
    model: str | None = option(
        None,
        "Turn the queries into vectors with this model, with the defaults of nlptools-embed(1). It must be the model of VECTORS.",
        metavar="MODEL",
        excludes=("corpus", "embedded"),
    )
    corpus: str | None = option(
        None,
        "Search the lines of this text. VECTORS is then a model for the lines and the queries, as nlptools-embed(1) takes it.",
        metavar="FILE",
        excludes=("embedded", "lines_file", "source_format"),
    )
    index: str | None = option(
        None,
        "Search approximately with a graph (HNSW), kept in this directory and made if it does not exist; for queries that are"
        " vectors. The recall is reported.",
        metavar="DIR",
        needs=("model or corpus or embedded",),
        excludes=("restrict",),
    )
    embedded: bool = option(
        False, "The queries are JSON lines with vectors, as nlptools-embed(1) writes them with --to jsonl."
    )
    to: str = option(
        "text",
        "Output format: a line per query, a line per neighbor (tsv), or JSON lines.",
        choices=("text", "tsv", "jsonl"),
        was={"--json": "--to jsonl"},
    )
    source_format: str | None = option(None, "Format of VECTORS, if not by its name.", flag="from", choices=NAMES)

    def check(self) -> None:
        """Raise UsageError for options that cannot be combined."""
        check_combinations(self)


OF_GGUF = ("f16", "bf16", "q8_0")  # types of the numbers in a GGUF file


@dataclass(frozen=True)
class Convert:
    """Conversion options"""

    source_format: str | None = option(None, "Format of SOURCE, if not by its name.", flag="from", choices=NAMES)
    target_format: str | None = option(None, "Format of TARGET, if not by its name.", flag="to", choices=NAMES)
    restrict: int = option(0, "Keep only the first N words; 0: all.", low=0, metavar="N")
    normalize: bool = option(False, "Scale vectors to length 1. Drops n-grams of fastText.")
    quantize: str = option(
        "none",
        "Write fewer bytes. Word vectors, to a directory: int8, a byte per number; pq, a byte for several numbers; the loss is"
        " reported. Models, to a .gguf file: f16, bf16, q8_0.",
        choices=("none", "int8", "pq", *OF_GGUF),
    )
    subvectors: int = option(
        0,
        "Bytes per vector; 0: one for every two numbers.",
        low=0,
        metavar="N",
        only={"quantize": ("pq",)},
    )
    seed: int = option(1, "Seed of the centroids of --quantize pq.", low=0, high=LARGEST_SEED, metavar="N")
    force: bool = option(False, "Replace the target if it exists.")

    def check(self, target: str) -> None:
        """Raise UsageError for options that cannot be combined; `target` is the format of the output."""
        check_combinations(self)
        if self.quantize != "none" and target != "bundle":
            raise UsageError(f"--quantize {self.quantize} writes a directory of vectors (bundle), not {target}")

    def check_gguf(self, target: str) -> None:
        """Raise UsageError for a quantization of GGUF files and another target, and for options of word vectors with one."""
        if target.endswith(".gguf"):
            if self.quantize not in ("none", *OF_GGUF) or replace(self, force=False, quantize="none") != Convert():
                raise UsageError(f"only --force and --quantize {', '.join(OF_GGUF)} apply to a .gguf file")
        elif self.quantize in OF_GGUF:
            raise UsageError(f"--quantize {self.quantize} needs an output file with a name that ends in .gguf")

    def check_model(self) -> None:
        """Raise UsageError for options that apply to word vectors only."""
        if replace(self, force=False) != Convert():
            raise UsageError("only --force applies to the weights of an ELMo, adapters and n-gram models")
