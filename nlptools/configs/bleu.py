"""Settings of the metrics of translations."""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.configs import LARGEST_SEED, option

METRICS = ("bleu", "chrf", "ter")
TOKENIZERS = ("13a", "intl", "zh", "char", "none")
SMOOTHINGS = ("exp", "floor", "add-k", "none")


@dataclass(frozen=True)
class Input:
    """Input options"""

    input: tuple[str, ...] = option(
        (),
        "Translations of one system, one segment per line; once for each system. Without it: standard input.",
        short="-i",
        metavar="FILE",
        multiple=True,
    )
    num_refs: int = option(
        1,
        "References in the one reference file, separated by tabs; 0: as many as each line has.",
        low=0,
        metavar="N",
    )
    merge: bool = option(False, "Score the sum of --statistics files, which are the arguments.")


@dataclass(frozen=True)
class Bleu:
    """BLEU options"""

    metrics: tuple[str, ...] = option(("bleu",), "Metrics: bleu, chrf, ter.", short="-m")
    order: int = option(4, "Longest n-grams of BLEU.", short="-n", low=1, high=64, metavar="N")
    effective_order: bool = option(False, "Leave out orders for which the translations are too short.")
    tokenize: str = option(
        "13a",
        "Tokenizer of BLEU: 13a (WMT's), intl, zh, char, none (text that is tokenized already), "
        "or the path of a SentencePiece model.",
        metavar="NAME|PATH",
    )
    smooth: str = option("exp", "What is done about orders without a match.", choices=SMOOTHINGS)
    smooth_value: float | None = option(
        None, "Number for --smooth floor (0.1 if not given) or add-k (1).", low=0, metavar="X"
    )
    lowercase: bool = option(False, "BLEU that does not tell cases apart.", short="-l")
    force: bool = option(False, "Do not warn of translations that look tokenized.")


@dataclass(frozen=True)
class Chrf:
    """chrF options"""

    chrf_char_order: int = option(6, "Longest n-grams of characters.", low=0, high=64, metavar="N")
    chrf_word_order: int = option(0, "Longest n-grams of words; 2 is chrF++.", low=0, high=64, metavar="N")
    chrf_beta: int = option(2, "How many times recall weighs as much as precision.", low=0, metavar="N")
    chrf_whitespace: bool = option(False, "White space is characters too.")
    chrf_lowercase: bool = option(False, "chrF that does not tell cases apart.")
    chrf_eps_smoothing: bool = option(False, "Smooth as the script of chrF's author does.")


@dataclass(frozen=True)
class Ter:
    """TER options"""

    ter_case_sensitive: bool = option(False, "Tell cases apart.")
    ter_asian_support: bool = option(False, "Part Chinese and Japanese characters, with --ter-normalized.")
    ter_no_punct: bool = option(False, "Leave out punctuation.")
    ter_normalized: bool = option(False, "Normalize and tokenize, as tercom does.")


@dataclass(frozen=True)
class Significance:
    """Significance options"""

    confidence: int = option(
        0, "95% interval by bootstrap, from N resamples (1000 if N is left out).", low=0, bare=1000, metavar="[N]"
    )
    paired_bs: int = option(
        0,
        "Compare systems with the first by paired bootstrap, N resamples (1000 if left out).",
        low=0,
        bare=1000,
        metavar="[N]",
    )
    paired_ar: int = option(
        0,
        "Compare systems with the first by approximate randomization, N trials (10000 if left out).",
        low=0,
        bare=10000,
        metavar="[N]",
    )
    holm: bool = option(False, "Correct p-values for the number of systems compared (Holm 1979).")
    seed: int = option(12345, "Seed of the random choices.", low=0, high=LARGEST_SEED, metavar="N")


@dataclass(frozen=True)
class Report:
    """Report options"""

    sentence: bool = option(False, "Score each segment by itself (BLEU: with --effective-order).")
    format: str = option(
        "text", "Form of the output; latex is for several systems.", short="-f", choices=("text", "json", "latex")
    )
    score_only: bool = option(False, "Print the number alone.", short="-b")
    width: int = option(1, "Decimal places of the score.", short="-w", low=0, high=17, metavar="N")
    signature: str = option(
        "nlptools", "Whose version the signature names; the scores are the same.", choices=("nlptools", "sacrebleu")
    )
    short: bool = option(False, "Abbreviate the keys of the signature.")
    statistics: str | None = option(
        None, "Also write the statistics of each segment to this file, for --merge.", metavar="FILE"
    )
    fail_under: float | None = option(None, "End with status 1 if the score is below this.", low=0, metavar="X")
