"""The tools, a row each: what they read and write, and why a cell is empty. A new tool needs a row, and its programs."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import util

NO_LINES = "reads no JSON lines"
NO_VECTORS = "reads no file of word vectors"
NO_PIECES = "has no tokenizer file"
TRAINER = "its trainer is the one of transformers"


@dataclass(frozen=True)
class Tool:
    """A tool, or a command of nlptools.

    Attributes:
        package: its distribution, whose version is recorded.
        imports: what its server imports once.
        programs: the module of its programs.
        reads: kind of input -> program.
        unread: kind of input, or name of one -> why it is not tried.
        filters: its program writes a row per row, and accepts no rows.
        layout: how its model directory is laid out: a key of damages.LAYOUTS; "": it reads no model.
        trains: its programs `train` and `verify` exist: it has the faults of training.
        resumes: the same training can go on after a stop.
        saves: its program `save` exists: it has the faults of saving.
        writes: the program whose stdout is the result; "": none.
    """

    package: str
    imports: tuple[str, ...]
    programs: str
    reads: dict[str, str]
    unread: dict[str, str] = field(default_factory=dict)
    filters: bool = False
    layout: str = ""
    trains: str = ""
    resumes: bool = False
    saves: str = ""
    writes: str = ""
    unfaulted: str = ""

    @property
    def missing(self) -> str:
        """The first of its modules that is not installed."""
        return next((name for name in self.imports if util.find_spec(name.split(".")[0]) is None), "")


_TORCH = ("torch", "torch._dynamo", "nlptools.cli", "nlptools.cli.options", "nlptools.inference.loading")
_HUB = (
    "torch",
    "torch._dynamo",
    "datasets",
    "transformers",
    "transformers.trainer",
    "transformers.models.gpt2.modeling_gpt2",
)
TOOLS = {
    "sacrebleu": Tool(
        "sacrebleu", ("sacrebleu.sacrebleu",), "programs", {"text": "sacrebleu_text"},
        {"lines": NO_LINES, "vectors": NO_VECTORS, "model": "reads no model"},
        writes="sacrebleu_text", unfaulted="trains and saves nothing",
    ),
    "gensim": Tool(
        "gensim", ("gensim.models",), "programs",
        {"text": "gensim_text", "vectors": "gensim_vectors", "model": "gensim_model"},
        {"lines": NO_LINES, "tokenizer cut": NO_PIECES, "tensor missing": "its weights have no names"},
        layout="gensim", trains="gensim", saves="gensim", unfaulted="writes nothing to stdout",
    ),
    "fastText": Tool(
        "fasttext-wheel", ("fasttext",), "programs",
        {"text": "fasttext_text", "vectors": "fasttext_vectors", "model": "fasttext_model"},
        {"lines": NO_LINES, "tokenizer cut": NO_PIECES, "tensor missing": "its weights have no names"},
        layout="fastText", trains="fasttext", saves="fasttext", unfaulted="writes nothing to stdout",
    ),
    "Trainer": Tool(
        "transformers", (*_HUB, "accelerate"), "programs",
        {"text": "trainer_text", "lines": "trainer_lines", "model": "transformers_model"},
        {"vectors": NO_VECTORS},
        layout="transformers", trains="trainer", resumes=True, saves="transformers", unfaulted="writes nothing to stdout",
    ),
    "sentence-transformers": Tool(
        "sentence-transformers", (*_HUB, "sentence_transformers"), "programs",
        {"text": "sentences_text", "lines": "sentences_lines", "model": "sentences_model"},
        {"vectors": NO_VECTORS},
        filters=True, layout="sentence-transformers", saves="sentences", writes="sentences_written", unfaulted=TRAINER,
    ),
    "nlptools bleu": Tool(
        "nlptools-cli", ("nlptools.cli.bleu", "nlptools.metrics.translation.report", "nlptools.metrics.translation.systems"),
        "ours", {"text": "bleu_text"},
        {"lines": NO_LINES, "vectors": NO_VECTORS, "model": "reads no model"},
        writes="bleu_text", unfaulted="trains and saves nothing",
    ),
    "nlptools train-w2v": Tool(
        "nlptools-cli", (*_TORCH, "nlptools.training.word_vectors.train"), "ours",
        {"text": "w2v_text", "vectors": "w2v_vectors", "model": "w2v_model"},
        {"lines": NO_LINES, "tensor missing": "its weights have no names"},
        layout="nlptools vectors", trains="w2v", resumes=True, saves="w2v", unfaulted="writes nothing to stdout",
    ),
    "nlptools train-lm": Tool(
        "nlptools-cli", (*_TORCH, "nlptools.training.language_model"), "ours",
        {"text": "lm_text", "lines": "lm_lines", "model": "lm_model"},
        {"vectors": NO_VECTORS},
        layout="nlptools", trains="lm", resumes=True, saves="lm", unfaulted="writes nothing to stdout",
    ),
    "nlptools embed": Tool(
        "nlptools-cli", _TORCH, "ours",
        {"text": "embed_text", "lines": "embed_lines", "model": "embed_model"},
        {"vectors": NO_VECTORS},
        filters=True, layout="nlptools", writes="embed_written", unfaulted="trains and saves nothing",
    ),
}  # fmt: skip
