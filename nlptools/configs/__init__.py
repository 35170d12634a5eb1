"""Settings as frozen dataclasses: each field is one option, declared once.

From a field come the flag, its help, the man page, the key in `--config` files, `--dump-config` and the record in
`training.json`. Values are plain (str, int, float, bool, tuples of str), so that TOML and JSON hold them as they are.
This package imports nothing but the standard library: `nlptools COMMAND --help` loads it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, field
from typing import Any, NamedTuple

from nlptools.errors import UsageError


def option(
    default: Any,
    help: str,
    *,
    flag: str | None = None,
    short: str | None = None,
    metavar: str | None = None,
    choices: tuple[str, ...] = (),
    family: str | None = None,
    low: float | None = None,
    high: float | None = None,
    check: Callable[[str], Any] | None = None,
    multiple: bool = False,
    bare: Any = None,
    also: str | None = None,
) -> Any:
    """A dataclass field that is also a command-line option.

    Args:
        default: the value when nothing is said; `MISSING` makes the option required.
        flag: the long name, when it is not the field's name with hyphens.
        short: one-letter form such as "-o".
        choices: the only values allowed.
        family: the only values allowed are the architectures of this family, see `models.registry`.
        low, high: inclusive bounds of a number; `bounds` gives those that are not set.
        check: called with the text of the option; raises UsageError when it is no good.
        multiple: the option may be given several times; the value is a tuple.
        bare: the value when the option is given without one.
        also: another long name.
    """
    metadata = {
        "help": help,
        "flag": flag,
        "short": short,
        "metavar": metavar,
        "choices": choices,
        "family": family,
        "low": low,
        "high": high,
        "check": check,
        "multiple": multiple,
        "bare": bare,
        "also": also,
    }
    return field(metadata=metadata) if default is MISSING else field(default=default, metadata=metadata)


LARGEST = 2**31 - 1  # a whole number that every library takes, in an int of C
LARGEST_SEED = 2**63 - 1
LARGEST_FLOAT = 1e12


def bounds(field: Field[Any]) -> tuple[float, float] | None:
    """The lowest and the highest value, both allowed, of an option that is a number; None for other options.

    A whole number without bounds of its own is from 0 to LARGEST, a fraction from -LARGEST_FLOAT to LARGEST_FLOAT.
    """
    low, high = field.metadata["low"], field.metadata["high"]
    kind = str(field.type).removesuffix(" | None")
    if kind == "int":
        return 0 if low is None else low, LARGEST if high is None else high
    if kind == "float":
        return -LARGEST_FLOAT if low is None else low, LARGEST_FLOAT if high is None else high
    return None


# -- values with units ----------------------------------------------------------------------------------------------

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def duration(text: str) -> float:
    """Seconds in a text such as `90`, `45s`, `10m`, `1h30m`, up to LARGEST. Raises UsageError."""
    if re.fullmatch(r"\d+(\.\d+)?", text):
        seconds = float(text)
    elif re.fullmatch(r"(\d+(\.\d+)?[smhd])+", text):
        parts = re.findall(r"(\d+(\.\d+)?)([smhd])", text)
        seconds = sum(float(number) * _SECONDS[unit] for number, _, unit in parts)
    else:
        raise UsageError(f"not a duration: {text!r}, expected something like 45s, 10m or 1h30m")
    if seconds > LARGEST:
        raise UsageError(f"too long: {text!r}, expected a duration of at most {LARGEST} seconds")
    return seconds


_BYTES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def size(text: str) -> int:
    """Bytes in a text such as `4096`, `512K`, `64M`, `1G` (powers of 1024), from 1 to 1024G. Raises UsageError."""
    match = re.fullmatch(r"([0-9]{1,15})([KMG]?)", text)
    value = int(match[1]) * _BYTES[match[2]] if match else 0
    if not 1 <= value <= 1 << 40:
        raise UsageError(f"not a size: {text!r}, expected a number of bytes, or something like 512K, 64M or 1G")
    return value


class Interval(NamedTuple):
    """How often something happens: one of steps, seconds, epochs; the others are None."""

    steps: int | None = None
    seconds: float | None = None
    epochs: float | None = None


def interval(text: str) -> Interval:
    """The interval in `500` (steps), `10m` (time), `1e` (epochs), `never`. Raises UsageError."""
    if text == "never":
        return Interval()
    if re.fullmatch(r"\d{1,10}", text) and 0 < int(text) <= LARGEST:
        return Interval(steps=int(text))
    if re.fullmatch(r"\d{1,9}(\.\d+)?e", text) and float(text[:-1]) > 0:
        return Interval(epochs=float(text[:-1]))
    try:
        seconds = duration(text)
    except UsageError:
        seconds = 0.0
    if seconds <= 0:
        raise UsageError(f"not an interval: {text!r}, expected steps (500), time (10m), epochs (1e) or never")
    return Interval(seconds=seconds)


# -- options that every command, or every command of a kind, has -------------------------------------------------------


@dataclass(frozen=True)
class Common:
    """Common options"""

    quiet: bool = option(False, "Say nothing on standard error but warnings and errors.", short="-q")
    verbose: bool = option(False, "Say more on standard error.", short="-v")
    progress: str = option("auto", "Draw a progress bar.", choices=("auto", "always", "never"))
    color: str = option("auto", "Color what goes to a terminal.", choices=("auto", "always", "never"))
    log_file: str | None = option(None, "Append all messages to this file too.", metavar="FILE")
    debug: bool = option(False, "Show tracebacks of errors.")
    encoding_errors: str = option(
        "strict",
        "What to do about invalid UTF-8 in the input: strict ends with status 65.",
        choices=("strict", "replace", "ignore"),
    )
    max_line: str = option(
        "64M",
        "Longest line of the input in bytes (K, M, G: powers of 1024); a longer one ends with status 65.",
        metavar="SIZE",
        check=size,
    )


@dataclass(frozen=True)
class Lines:
    """Output options"""

    output: str = option("-", "Where to write; - is standard output.", short="-o", metavar="FILE")
    force: bool = option(False, "Replace the output file if it exists.")
    line_buffered: bool = option(False, "Write each line out as soon as it is ready.")


@dataclass(frozen=True)
class Devices:
    """Compute options"""

    device: str = option("auto", "Where to compute: auto, cpu, cuda, cuda:N or mps.", metavar="NAME")
    deterministic: bool = option(
        False, "Nothing that may differ from run to run, on a GPU or between processes; slower."
    )
    seed: int = option(1, "Seed of all random choices.", low=0, high=LARGEST_SEED, metavar="N")


@dataclass(frozen=True)
class Compute(Devices):
    """Compute options"""

    precision: str = option(
        "auto",
        "Number format of the matrix products. auto: on a GPU bf16 if it has that; on a CPU bf16 if a short product is"
        " faster in it than in fp32, measured once per processor and PyTorch version and kept in the user's cache"
        " directory; a continued run keeps the format it began with.",
        choices=("auto", "fp32", "bf16", "fp16"),
    )
    threads: int = option(
        0, "CPU threads; 0 takes OMP_NUM_THREADS if it is set, else all cores this process may use.", low=0, metavar="N"
    )
    compile: bool = option(False, "Compile the training step (needs a C++ compiler on CPU; pays off in long runs).")


@dataclass(frozen=True)
class Training:
    """Training options"""

    output: str = option(MISSING, "Directory of the model and its training record.", short="-o", metavar="DIR")
    valid: str | None = option(None, "Held-out text to measure on.", metavar="FILE")
    batch_size: int = option(16, "Sequences per step and process.", low=1, metavar="N")
    epochs: float = option(1.0, "Passes over the data, unless --steps is given.", low=0, metavar="X")
    steps: int = option(0, "Optimizer steps; 0 leaves it to --epochs.", low=0, metavar="N")
    max_time: str | None = option(
        None, "Stop after this long with everything saved (status 75).", metavar="TIME", check=duration
    )
    lr: float = option(1e-3, "Peak learning rate.", low=0, metavar="X")
    min_lr: float = option(
        0.1,
        "Final learning rate, as a share of the peak; constant and inverse-sqrt do not use it.",
        low=0,
        high=1,
        metavar="X",
    )
    warmup: float = option(0.02, "Linear warm-up: steps, or a share of all steps when below 1.", low=0, metavar="STEPS")
    schedule: str = option(
        "cosine",
        "Learning rate after the warm-up: trapezoid holds it and falls over the last fifth, inverse-sqrt falls with the"
        " square root of the step (Vaswani et al. 2017).",
        choices=("cosine", "trapezoid", "linear", "constant", "inverse-sqrt"),
    )
    weight_decay: float = option(0.1, "Decay of matrices (AdamW).", low=0, metavar="X")
    beta2: float = option(0.95, "Second-moment decay of AdamW.", low=0, high=1, metavar="X")
    accumulate: int = option(1, "Batches per optimizer step.", low=1, metavar="N")
    clip: float = option(1.0, "Largest norm of the gradient; 0 turns clipping off.", low=0, metavar="X")
    save_every: str = option("10m", "Checkpoint interval: steps, time (10m), epochs (1e), never.", check=interval)
    valid_every: str = option("1e", "Validation interval, as --save-every.", check=interval)
    log_every: str = option("10", "Report interval, as --save-every.", check=interval)
    keep: int = option(2, "Checkpoints to keep, besides the best and those of --average.", low=2, metavar="N")
    average: int = option(
        1,
        "End with the mean of the weights at the last N validations (without --valid, of the last N checkpoints of"
        " --save-every), unless the best single ones measure better; 1 does not average.",
        low=1,
        metavar="N",
    )
    patience: int = option(
        0, "Stop after this many validations without a better score; 0 never does.", low=0, metavar="N"
    )
    resume: str = option("auto", "Continue from a checkpoint in the output.", choices=("auto", "never", "must"))
    force: bool = option(False, "Replace a finished or different run in the output directory.")
    track: str = option("none", "Where else to send the reports.", choices=("none", "tensorboard"))
    dry_run: bool = option(False, "Build everything, take one step, report sizes and speed, write nothing.")

    @property
    def held_out(self) -> list[str]:
        """Files to measure on."""
        return [] if self.valid is None else [self.valid]

    def check(self) -> None:
        """Raises UsageError for options that do not go together."""
        if self.average > 1 and not self.held_out and self.save_every == "never":
            raise UsageError("--average has nothing to average: give --valid, or a --save-every that is not never")
