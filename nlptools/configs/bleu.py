"""Options of `nlptools bleu`."""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.configs import LARGEST_SEED, confidence, option, repetitions
from nlptools.configs.combinations import check_combinations
from nlptools.configs.metrics import TRANSLATION, is_metric
from nlptools.errors import UsageError

METRICS = tuple(TRANSLATION)
TOKENIZERS = ("13a", "intl", "zh", "ja-mecab", "ko-mecab", "char", "none")
SMOOTHINGS = ("exp", "floor", "add-k", "none")


@dataclass(frozen=True)
class Input:
    """Input options"""

    input: tuple[str, ...] = option(
        (),
        "Translations of a system, a segment per line. All arguments up to the next option are systems. Default:"
        " standard input.",
        short="-i",
        metavar="FILE...",
        multiple=True,
        more=lambda argument: True,
    )
    num_refs: int = option(
        1,
        "References per line of the reference file, separated by tabs; 0: any number.",
        low=0,
        metavar="N",
    )
    merge: bool = option(
        False,
        "Read files of --statistics as arguments, and score their sum.",
        excludes=("input", "sentence", "statistics"),
    )


@dataclass(frozen=True)
class BleuOptions:
    """BLEU options"""

    metrics: tuple[str, ...] = option(
        ("bleu",),
        "Metrics, separated by commas or spaces: bleu, chrf, ter.",
        short="-m",
        metavar="NAME,...",
        choices=METRICS,
        more=is_metric,
    )
    order: int = option(4, "Maximum n-gram length.", short="-n", low=1, high=64, metavar="N")
    effective_order: bool = option(False, "Ignore n-gram orders longer than the translation.")
    tokenize: str = option(
        "13a",
        "Tokenizer of BLEU: 13a (WMT), intl, zh, ja-mecab, ko-mecab, char, none (tokenized text), or a SentencePiece"
        " model.",
        metavar="NAME|PATH",
    )
    smooth: str = option("exp", "Smoothing of n-gram orders without a match.", choices=SMOOTHINGS)
    smooth_value: float | None = option(
        None, "Parameter of --smooth floor (default 0.1) or add-k (default 1).", low=0, metavar="X"
    )
    lowercase: bool = option(False, "Ignore case in BLEU.", short="-l")
    clip: bool = option(
        True,
        "Count an n-gram at most as often as in one reference. --no-clip is for teaching: its scores are not BLEU.",
        excludes=("signature sacrebleu",),
    )
    force: bool = option(False, "Do not warn about text that looks tokenized, or unsuitable for the tokenizer.")


@dataclass(frozen=True)
class ChrfOptions:
    """chrF options"""

    chrf_char_order: int = option(6, "Maximum length of character n-grams.", low=0, high=64, metavar="N")
    chrf_word_order: int = option(0, "Maximum length of word n-grams; 2: chrF++.", low=0, high=64, metavar="N")
    chrf_beta: int = option(2, "Weight of recall relative to precision.", low=0, metavar="N")
    chrf_whitespace: bool = option(False, "Count white space as characters.")
    chrf_lowercase: bool = option(False, "Ignore case in chrF.")
    chrf_eps_smoothing: bool = option(False, "Smooth chrF like the original chrF script.")


@dataclass(frozen=True)
class TerOptions:
    """TER options"""

    ter_case_sensitive: bool = option(False, "Distinguish case in TER.")
    ter_asian_support: bool = option(False, "With --ter-normalized, split Chinese and Japanese characters.")
    ter_no_punct: bool = option(False, "Ignore punctuation.")
    ter_normalized: bool = option(False, "Normalize and tokenize like tercom.")


@dataclass(frozen=True)
class Significance:
    """Significance options"""

    confidence: int = confidence(excludes=("paired_bs", "paired_ar"))
    paired_bs: int = repetitions(
        "Compare each system with the first one by paired bootstrap with N resamples",
        excludes=("paired_ar",),
    )
    paired_ar: int = repetitions(
        "Compare each system with the first one by approximate randomization with N trials", 10000
    )
    holm: bool = option(
        False,
        "Correct p-values for the number of systems compared (Holm 1979).",
        needs=("paired_bs or paired_ar",),
    )
    seed: int = option(12345, "Seed of the random choices.", low=0, high=LARGEST_SEED, metavar="N")

    @property
    def paired(self) -> bool:
        """Whether systems are compared with the first one."""
        return bool(self.paired_bs or self.paired_ar)

    @property
    def resampled(self) -> bool:
        """Whether the statistics of each segment are needed."""
        return bool(self.confidence or self.paired)

    def items(self) -> tuple[tuple[str, str], ...]:
        """The number of resamples or trials, the seed and the correction, for the signature; empty without resampling."""
        counts = (("bs", self.confidence or self.paired_bs), ("ar", self.paired_ar))
        drawn = tuple((key, str(count)) for key, count in counts if count)
        correction = (("p", "holm"),) if self.holm else ()
        return (*drawn, ("seed", str(self.seed)), *correction) if drawn else ()


@dataclass(frozen=True)
class BleuReport:
    """Report options"""

    sentence: bool = option(
        False,
        "Score each segment separately. BLEU then implies --effective-order.",
        excludes=("format tsv", "confidence", "paired_bs", "paired_ar", "statistics"),
    )
    format: str | None = option(
        None,
        "Output format. Default: text; for several systems tsv, unless the output is a terminal. latex: for several"
        " systems.",
        flag="to",
        short="-f",  # as sacrebleu has it
        choices=("text", "tsv", "json", "latex"),
        was={"--format": "--to"},
    )
    score_only: bool = option(False, "Print only the number.", short="-b")
    width: int = option(1, "Decimal places of the score.", short="-w", low=0, high=17, metavar="N")
    signature: str = option(
        "nlptools", "Program named in the signature; scores are equal.", choices=("nlptools", "sacrebleu")
    )
    short: bool = option(False, "Abbreviate the keys of the signature.")
    statistics: str | None = option(
        None, "Also write the statistics of each segment to this file, for --merge.", metavar="FILE"
    )
    fail_under: float | None = option(
        None,
        "End with status 1 if the score is below X.",
        low=0,
        metavar="X",
        excludes=("sentence",),
    )


def check(
    references: tuple[str, ...], input: Input, bleu: BleuOptions, significance: Significance, report: BleuReport
) -> None:
    """Raise UsageError for options that cannot be combined, before anything is read."""
    check_combinations(input, bleu, significance, report)
    num_systems, different = max(1, len(input.input)), len(set(input.input))
    tokenizer = bleu.tokenize in TOKENIZERS or bleu.tokenize.endswith(".model")
    below = report.fail_under is not None
    if not references and input.input and not input.merge:
        message = "no references: all arguments of --input are systems"
        raise UsageError(message, hint="give references first: nlptools bleu REF... -i SYSTEM..., or after --")
    refusals = (
        (not references and not input.merge, "missing argument 'REF...'"),
        (not references and input.merge, "--merge expects files of statistics"),
        (not bleu.metrics, f"no metric is named, expected some of {', '.join(METRICS)}"),
        (not tokenizer, f"no such tokenizer: {bleu.tokenize!r}, expected one of {', '.join(TOKENIZERS)} or a .model"),
        (significance.paired and different < 2, "a paired test compares systems: give --input at least two"),
        (significance.confidence and num_systems > 1, "for several systems use --paired-bs, which gives intervals too"),
        (input.num_refs != 1 and len(references) > 1, "--num-refs splits the lines of one file of references"),
        (report.format == "latex" and num_systems < 2, "--to latex is for several systems"),
        (report.sentence and num_systems > 1, "--sentence is for one system"),
        (report.sentence and len(bleu.metrics) > 1, "--sentence is for one metric"),
        (report.statistics and (num_systems > 1 or len(bleu.metrics) > 1), "--statistics are of one system and metric"),
        (report.statistics == "-", "--statistics expects the name of a file; the score is on standard output"),
        (below and num_systems > 1, "--fail-under is for one system"),
        (below and set(bleu.metrics) not in ({"bleu"}, {"chrf"}), "--fail-under is for bleu or chrf"),
    )
    for refused, message in refusals:
        if refused:
            raise UsageError(message, hint="'nlptools bleu --help' lists the options")
    baseline = input.input[0] if significance.paired else None
    for i, path in enumerate(input.input):
        if path in input.input[:i] and path != baseline:
            raise UsageError(f"--input {path} is given twice")


def metric_options(
    name: str, bleu: BleuOptions, chrf: ChrfOptions, ter: TerOptions, sentence: bool = False
) -> dict[str, object]:
    """The options of the metric called `name`, without the prefix that they have on the command line."""
    settings = {"bleu": bleu, "chrf": chrf, "ter": ter}[name]
    options = {key.removeprefix(f"{name}_"): value for key, value in vars(settings).items()}
    if name == "bleu":
        options["effective_order"] |= sentence
        del options["metrics"], options["force"]
    return options
