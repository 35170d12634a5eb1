"""Options of language models: training, scoring, generation."""

from __future__ import annotations

import re
from dataclasses import MISSING, dataclass
from typing import Any

from nlptools.configs import option
from nlptools.errors import UsageError

# Sizes with a name. gpt2: Radford et al. 2019; small-char: the 10.6M-parameter character model of nanoGPT's README.
PRESETS: dict[str, dict[str, Any]] = {
    "tiny": {"layers": 4, "hidden": 128, "heads": 4, "context": 128, "batch_size": 16, "lr": 2e-3},
    "small-char": {"layers": 6, "hidden": 384, "heads": 6, "context": 256, "batch_size": 64, "dropout": 0.2},
    "gpt2": {"layers": 12, "hidden": 768, "heads": 12, "context": 1024, "batch_size": 8, "lr": 6e-4},
    "gpt2-medium": {"layers": 24, "hidden": 1024, "heads": 16, "context": 1024, "batch_size": 8, "lr": 3e-4},
    "gpt2-large": {"layers": 36, "hidden": 1280, "heads": 20, "context": 1024, "batch_size": 8, "lr": 2.5e-4},
    "gpt2-xl": {"layers": 48, "hidden": 1600, "heads": 25, "context": 1024, "batch_size": 8, "lr": 2e-4},
}


@dataclass(frozen=True)
class TrainLM:
    """Model options"""

    tokenizer: str = option(
        MISSING, "Tokenizer: a name, a SentencePiece .model, a tokenizer.json, a vocabulary, or a bundle.", short="-t"
    )
    arch: str = option("transformer", "Architecture.", family="language")
    preset: str | None = option(None, "Sizes with a name.", choices=tuple(PRESETS))
    vocab: str | None = option(None, "Vocabulary for a tokenizer given by name.", metavar="FILE")
    layers: int = option(4, "Layers.", low=1, metavar="N")
    hidden: int = option(256, "Width of the hidden states.", low=1, metavar="N")
    heads: int = option(4, "Attention heads.", low=1, metavar="N")
    context: int = option(
        256, "Tokens that the model sees at once; for an LSTM, of backpropagation through time.", low=1, metavar="N"
    )
    dropout: float = option(0.0, "Probability of dropout.", low=0, high=0.9, metavar="P")
    init: str | None = option(None, "Start from the weights and sizes of this bundle.", metavar="DIR")
    document: str = option(
        "line",
        "What a document is: a line, the lines up to an empty one (paragraph), or a file. An end-of-text token follows"
        " each.",
        choices=("line", "paragraph", "file"),
    )


@dataclass(frozen=True)
class Score:
    """Scoring options"""

    per: str = option(
        "line",
        "What to report: a log-probability for each line, for each token, or the perplexity of the whole text.",
        choices=("line", "token", "total"),
    )
    stride: int = option(
        0,
        "Tokens by which the window moves on in texts longer than the context; smaller gives each token more context."
        " 0 moves by whole contexts. The last window of a text ends where the text ends and is moved back so that it is"
        " full; each token counts in the first window that holds it.",
        low=0,
        metavar="N",
    )
    document: str | None = option(
        None,
        "What is scored on its own with --per total; by default what the model was trained on.",
        choices=("line", "paragraph", "file"),
    )
    eos: bool = option(True, "Count the end-of-text token as part of each line.")
    batch_tokens: int = option(4096, "Tokens per batch, padding included.", low=1, metavar="N")

    def check(self) -> None:
        """Raises UsageError for options that do not go together."""
        if self.per == "total" and not self.eos:
            raise UsageError("--no-eos does not go with --per total, which counts an end of text after each document")
        if self.per != "total" and self.document:
            raise UsageError("--document goes with --per total; otherwise each line is scored on its own")


def shard(text: str) -> tuple[int, int]:
    """(I, N) of a text such as `2/8`, with I from 1 to N. Raises UsageError."""
    found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise UsageError(f"not a part of a whole: {text!r}, expected I/N with I from 1 to N")
    return int(found[1]), int(found[2])


@dataclass(frozen=True)
class Generate:
    """Generation options"""

    max_new_tokens: int | None = option(
        None,
        "Most tokens to add. Default: 64; 50 more than the source for encoder-decoders.",
        also="--max-length",
        low=1,
        metavar="N",
    )
    min_new_tokens: int = option(
        0, "Fewest tokens to add before the end-of-text token may come.", also="--min-length", low=0, metavar="N"
    )
    temperature: float = option(1.0, "Divides the logits; 0 always takes the most likely token.", low=0, metavar="X")
    top_k: int = option(0, "Sample among the K most likely tokens; 0: all.", low=0, metavar="K")
    top_p: float = option(
        1.0, "Sample among the most likely tokens that together have this probability.", low=0, high=1, metavar="P"
    )
    min_p: float = option(
        0.0, "Drop tokens less likely than this share of the most likely one.", low=0, high=1, metavar="P"
    )
    repetition_penalty: float = option(
        1.0, "Weaken tokens that have occurred (Keskar et al. 2019).", low=0.01, metavar="X"
    )
    no_repeat_ngram: int = option(0, "Never say the same N tokens in a row twice; 0 allows it.", low=0, metavar="N")
    beam: int | None = option(
        None,
        "Beam search with this many hypotheses instead of sampling; 0 samples. Default: 0; 5 for encoder-decoders, unless"
        " an option of sampling is given.",
        low=0,
        metavar="K",
    )
    length_penalty: float = option(
        1.0, "Exponent of the length that beam scores are divided by.", low=-10, high=10, metavar="X"
    )
    length_penalty_form: str = option(
        "simple",
        "What is raised to that power: the length, end included (simple), or (5 + length) / 6 (gnmt: Wu et al. 2016).",
        choices=("simple", "gnmt"),
    )
    early_stopping: bool = option(
        False,
        "End the beam search of a line once as many hypotheses have ended as the beam is wide, even if one that is alive may"
        " become better: a little faster, and how CTranslate2 ends it.",
    )
    num_samples: int = option(1, "Samples to give of each prompt or source, joined by tabs.", low=1, metavar="K")
    nbest: int = option(1, "Best hypotheses of the beam to give, joined by tabs.", low=1, metavar="K")
    stop: tuple[str, ...] = option((), "End a continuation before any of these texts.", metavar="TEXT,...")
    stream: bool = option(False, "Write text as it comes, one prompt after the other.")
    logprobs: bool = option(False, "With --json, give the log-probability of each token.")
    json: bool = option(False, "Write JSON lines.")
    json_input: bool = option(False, 'Read JSON lines with the prompt under "prompt", or the source under "source".')
    echo: bool = option(False, "Write the prompt before its continuation, or the source and a tab before its outputs.")
    batch_size: int | None = option(
        None,
        "Lines decoded together. Default: 32; for encoder-decoders what makes 320 rows or 4,096 source tokens.",
        low=1,
        metavar="N",
    )
    shard: str | None = option(
        None,
        "Take part I of N (from 1) of the input's lines; the outputs of all parts concatenate.",
        metavar="I/N",
        check=shard,
    )
    skip_done: bool = option(False, "Go on after the lines that the output file has, with the same command.")

    @property
    def room(self) -> int:
        """Most tokens to add to a prompt."""
        return max(64, self.min_new_tokens) if self.max_new_tokens is None else self.max_new_tokens

    @property
    def batch(self) -> int:
        """Inputs decoded together."""
        return 32 if self.batch_size is None else self.batch_size

    @property
    def count(self) -> int:
        """Continuations to give of each prompt."""
        return max(self.num_samples, self.nbest)

    @property
    def samples(self) -> bool:
        """Whether an option of sampling is given."""
        return (self.temperature, self.top_k, self.top_p, self.min_p) != (1.0, 0, 1.0, 0.0) or self.num_samples > 1

    def check(self) -> None:
        """Raises UsageError for options that do not go together."""
        if self.max_new_tokens is not None and self.min_new_tokens > self.max_new_tokens:
            raise UsageError(
                f"--min-new-tokens {self.min_new_tokens} is more than --max-new-tokens {self.max_new_tokens}"
            )
        for name in ("num_samples", "nbest"):
            if self.beam and getattr(self, name) > self.beam:
                raise UsageError(f"--{name.replace('_', '-')} {getattr(self, name)} is more than --beam {self.beam}")
        if self.nbest > 1 and self.beam == 0:
            raise UsageError("--nbest needs --beam", hint="--num-samples gives several samples")
        if self.logprobs and not self.json:
            raise UsageError("--logprobs needs --json")
        if self.stream and self.skip_done:
            raise UsageError("--stream does not go with --skip-done: a line may be there in part")
        if self.stream and (self.json or self.beam or self.count > 1):
            raise UsageError("--stream does not go with --json, --beam, --nbest or --num-samples")
