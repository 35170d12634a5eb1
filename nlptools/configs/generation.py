"""Options of generation."""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.configs import option, quantize_option
from nlptools.configs.combinations import check_combinations
from nlptools.errors import UsageError


@dataclass(frozen=True)
class Generate:
    """Generation options"""

    max_new_tokens: int | None = option(
        None,
        "Maximum number of new tokens, including the end token of most encoder-decoders. Default: 64; encoder-decoders: 50"
        " more than the source.",
        low=1,
        metavar="N",
    )
    min_new_tokens: int = option(0, "Minimum number of new tokens before the end-of-text token.", low=0, metavar="N")
    temperature: float = option(
        1.0,
        "Divide the logits by X; 0: greedy decoding.",
        low=0,
        metavar="X",
        off=(0.0,),
    )
    top_k: int = option(0, "Sample from the K most likely tokens; 0: from all.", low=0, metavar="K")
    top_p: float = option(
        1.0,
        "Nucleus sampling: sample from the most likely tokens with a total probability of P.",
        low=0,
        high=1,
        metavar="P",
    )
    min_p: float = option(
        0.0, "Exclude tokens that are less likely than P times the most likely one.", low=0, high=1, metavar="P"
    )
    typical: float = option(
        1.0,
        "Locally typical sampling (Meister et al. 2023): sample from the tokens with surprisals closest to the"
        " entropy and a total probability of P.",
        low=0,
        high=1,
        metavar="P",
    )
    top_n_sigma: float = option(
        0.0,
        "Exclude tokens with logits more than X standard deviations below the maximum (Tang et al. 2024); 0: none.",
        low=0,
        metavar="X",
    )
    contrastive: float | None = option(
        None,
        "Contrastive search (Su et al. 2022): of the --top-k tokens, take the one with the highest (1 - ALPHA) times"
        " probability minus ALPHA times similarity to earlier tokens. 0.6 with --top-k 4 is usual.",
        low=0,
        high=1,
        metavar="ALPHA",
        needs=("top_k",),
        excludes=("beam", "temperature", "top_p", "min_p", "typical", "top_n_sigma", "num_samples", "nbest", "best_of"),
    )
    lookup: int = option(
        0,
        "Prompt lookup: copy up to N next tokens from where the last ones occurred before, and check them in one step. Texts"
        " that repeat themselves or the prompt take fewer steps; the output changes by rounding at most. Decodes one prompt"
        " at a time.",
        low=0,
        high=15,
        metavar="N",
        excludes=("beam", "contrastive", "num_samples", "nbest", "best_of", "batch_size"),
    )
    repetition_penalty: float = option(
        1.0, "Penalty for tokens that have already occurred (Keskar et al. 2019); 1: none.", low=0.01, metavar="X"
    )
    presence_penalty: float = option(
        0.0, "Subtract X from the logits of tokens that the output already contains, as in OpenAI's API.", metavar="X"
    )
    frequency_penalty: float = option(
        0.0, "Subtract X from the logit of a token for each time the output contains it.", metavar="X"
    )
    no_repeat_ngram: int = option(
        0, "Forbid sequences of N tokens that have already occurred; 0: allow all.", low=0, metavar="N"
    )
    beam: int | None = option(
        None,
        "Beam search with K hypotheses; 0: sampling. Default: 0; encoder-decoders: 5, or 0 with a sampling option.",
        low=0,
        metavar="K",
        off=(0,),
    )
    length_penalty: float = option(
        1.0, "Divide the scores of hypotheses by their length to the power of X.", low=-10, high=10, metavar="X"
    )
    early_stopping: bool = option(
        False,
        "End the beam search when K hypotheses have ended, even if a longer one could score better: slightly faster,"
        " as in CTranslate2.",
    )
    num_samples: int = option(1, "Samples per input, separated by tabs.", low=1, metavar="K")
    best_of: int = option(
        0,
        "Draw N samples, and write the --num-samples with the highest mean log-probability per token.",
        low=0,
        metavar="N",
        excludes=("beam",),
    )
    nbest: int = option(
        1,
        "Hypotheses to write, separated by tabs.",
        low=1,
        metavar="K",
        excludes=("beam 0",),
    )
    strict: bool = option(
        False,
        "Refuse inputs longer than the context, and end a text where the context is full. Default: cut inputs, count"
        " them, and slide the context over the text.",
    )
    stop: tuple[str, ...] = option((), "End a continuation before any of these texts.", metavar="TEXT,...")
    match: str | None = option(
        None,
        "Generate a text that matches this regular expression as a whole, including its leading space.",
        metavar="REGEX",
    )
    force_words: tuple[str, ...] = option(
        (), "Generate a text that contains each of these strings.", metavar="TEXT,..."
    )
    ban_words: tuple[str, ...] = option((), "Generate a text that contains none of these strings.", metavar="TEXT,...")
    logprobs: bool = option(False, "Write the log-probability of each token.")
    top_logprobs: int = option(
        0,
        "Also write the N most likely tokens at each position.",
        low=0,
        high=20,
        metavar="N",
        needs=("logprobs",),
        excludes=("beam",),
    )
    echo: bool = option(False, "Write the prompt before its continuation, or the source and a tab before its outputs.")
    quantize: str | None = quantize_option(
        " The perplexity of the first prompts before and after goes to standard error; score --quantize int8 measures the"
        " perplexity of a text.",
        was={"--weights": "--quantize"},
    )
    batch_size: int | None = option(
        None,
        "Inputs decoded together; waiting ones replace those that have ended. Default: 64; encoder-decoders: 320"
        " hypotheses or 4,096 source tokens.",
        low=1,
        metavar="N",
    )

    @property
    def room(self) -> int:
        """Maximum number of new tokens after a prompt."""
        return max(64, self.min_new_tokens) if self.max_new_tokens is None else self.max_new_tokens

    @property
    def batch(self) -> int:
        """Inputs decoded together."""
        return 1 if self.lookup else self.batch_size or 64

    @property
    def window(self) -> int:
        """Prompts read together: a batch, and its successors."""
        return 4 * self.batch

    @property
    def count(self) -> int:
        """Continuations per prompt."""
        return max(self.num_samples, self.nbest)

    @property
    def drawn(self) -> int:
        """Samples per prompt; the best `num_samples` are returned."""
        return max(self.num_samples, self.best_of)

    @property
    def constrains_text(self) -> bool:
        """Whether there are constraints on the text as a whole."""
        return self.match is not None or bool(self.force_words or self.ban_words)

    @property
    def samples(self) -> bool:
        """Whether a sampling option is given."""
        plain = (self.temperature, self.top_k, self.top_p, self.min_p, self.typical, self.top_n_sigma)
        return plain != (1.0, 0, 1.0, 0.0, 1.0, 0.0) or self.drawn > 1

    def check(self) -> None:
        """Raise UsageError for options that cannot be combined."""
        check_combinations(self)
        if self.max_new_tokens is not None and self.min_new_tokens > self.max_new_tokens:
            raise UsageError(
                f"--min-new-tokens {self.min_new_tokens} is more than --max-new-tokens {self.max_new_tokens}"
            )
        for name in ("num_samples", "nbest"):
            if self.beam and vars(self)[name] > self.beam:
                raise UsageError(f"--{name.replace('_', '-')} {vars(self)[name]} is more than --beam {self.beam}")
        if any(not text for text in (*self.force_words, *self.ban_words)):
            raise UsageError("--force-words and --ban-words expect texts that are not empty")
        if self.best_of and self.best_of < self.num_samples:
            raise UsageError(f"--best-of {self.best_of} is less than --num-samples {self.num_samples}")


@dataclass(frozen=True)
class PromptFiles:
    """Input options"""

    layout: str = option(
        "auto",
        'Layout of the input. lines: a text per line; jsonl: JSON lines with the prompt under "prompt", or the source under'
        ' "source"; a record can contain further options. auto: by the file name.',
        choices=("auto", "lines", "jsonl"),
        was={"--json-input": "--layout jsonl"},
    )
    chat: str | None = option(
        None,
        "Chat template of conversations (--layout jsonl): a model directory, or a known format such as chatml. Default:"
        " the template of the model.",
        metavar="NAME",
    )
    to: str = option(
        "text",
        "Output format: text, or a JSON object per line.",
        choices=("text", "jsonl"),
        section="Output options",
        excludes={"text": ("logprobs",)},
        was={"--json": "--to jsonl"},
    )
    stream: bool = option(
        False,
        "Write text during generation, one prompt after the other.",
        section="Output options",
        excludes=("skip_done", "to jsonl", "beam", "num_samples", "nbest", "best_of"),
    )

    @property
    def json(self) -> bool:
        """Whether the output is JSON lines."""
        return self.to == "jsonl"

    @property
    def json_input(self) -> bool:
        """Whether the input is JSON lines."""
        return self.layout == "jsonl"
