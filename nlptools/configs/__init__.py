"""Settings as frozen dataclasses: each field is one option, declared once.

From a field come the flag, its help, the man page, the key in `--config` files, `--dump-config` and the record in
`training.json`. Values are plain (str, int, float, bool, tuples of str), which TOML and JSON can hold.
This package imports nothing but the standard library: `nlptools COMMAND --help` loads it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field
from types import MappingProxyType
from typing import Any, TypeVar

from nlptools.configs.combinations import Conditions, check_combinations
from nlptools.configs.optimizers import AVERAGING, OPTIMIZERS, optimizers_help
from nlptools.configs.units import LARGEST, duration, interval, size
from nlptools.errors import UsageError

T = TypeVar("T")
REQUIRED: Any = MISSING  # for options of any type


def option(
    default: T,
    help: str,
    *,
    flag: str | None = None,
    short: str | None = None,
    metavar: str | None = None,
    choices: tuple[str, ...] = (),
    section: str | None = None,
    low: float | None = None,
    high: float | None = None,
    check: Callable[[str], object] | None = None,
    multiple: bool = False,
    more: Callable[[str], bool] | None = None,
    bare: object = None,
    was: Mapping[str, str] = MappingProxyType({}),
    needs: Conditions = (),
    excludes: Conditions = (),
    only: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
    free: bool = False,
    off: tuple[object, ...] = (),
    init: bool = True,
) -> T:
    """A dataclass field that is also a command-line option.

    Args:
        default: the value when the option is not given; `REQUIRED` makes the option required.
        flag: the long name, if it is not the field's name with hyphens.
        short: one-letter form such as "-o".
        choices: the only values allowed.
        section: the title above the option in the help, if it is not the one of its settings class.
        low, high: inclusive bounds of a number; for the defaults see `bounds`.
        check: called with the text of the option; raises UsageError if the text is invalid.
        multiple: the option may be given several times; the value is a tuple. Tuples of other options are given with
            commas, and also several times.
        more: whether an argument that follows a value of the option is a further value, as in `-i A B`.
        bare: the value if the option is given alone, without a value.
        was: earlier names of the option, each with what is written now: {"--json": "--to jsonl"}.
        needs: conditions that must hold where the option is set, see `combinations`: ("vectors",); or for each of its values that
            has some: {"plateau": ("valid",)}.
        excludes: conditions that must not hold, in the same form.
        only: other options, and their values with which this one has an effect: {"smoothing": ("add-k",)}.
        free: the option may change when a run continues.
        off: values besides the default with which the option counts as not set in conditions: (0,).
        init: False: the value is always the default.
    """
    metadata = {name: value for name, value in locals().items() if name not in ("default", "init")}
    return field(metadata=metadata) if default is REQUIRED else field(default=default, init=init, metadata=metadata)


def redefined(base: type, name: str, default: T, help: str | None = None, **changes: object) -> T:
    """The option `name` of the settings `base` with another default, and perhaps another help or other arguments of `option`."""
    inherited = base.__dataclass_fields__[name].metadata  # type: ignore[attr-defined]
    return field(default=default, metadata={**inherited, "help": help or inherited["help"], **changes})


def repetitions(help: str, default: int = 1000, needs: Conditions = (), excludes: Conditions = ()) -> int:
    """An option for a number of random repetitions, `default` if it is given without its number."""
    return option(
        0, f"{help} ({default} if N is left out).", low=0, bare=default, metavar="[N]", needs=needs, excludes=excludes
    )


def confidence(needs: Conditions = (), excludes: Conditions = ()) -> int:
    """The option --confidence."""
    return repetitions("95% interval by bootstrap, from N resamples", needs=needs, excludes=excludes)


_TEXT_COLUMN = (
    "Read {} from columns of a table: CSV, Parquet or JSON lines by suffix, else fields separated by tabs. A column is a name in"
    " the first line or a number from 1. Several columns (subject,body) are joined with spaces."
)


def text_columns(texts: str) -> tuple[str, ...]:
    """The option --text-column of commands that read lines; `texts` names what they read."""
    return option((), _TEXT_COLUMN.format(texts), multiple=True, metavar="NAME")


def text_column(text: str) -> str | None:
    """The option --text-column of commands that read one text of each line."""
    return option(None, _TEXT_COLUMN.format(text), metavar="NAME")


def delimiter(text: str) -> str:
    """The character that --delimiter names. Raises UsageError."""
    character = {"tab": "\t", "\\t": "\t"}.get(text, text)
    if len(character) != 1 or character in '"\r\n':
        raise UsageError(f"--delimiter {text!r}: expected one character, such as ';', or tab")
    return character


def delimiter_option() -> str | None:
    """The option --delimiter."""
    return option(
        None,
        "Field separator of CSV, such as ';', or tab. The input is then CSV, whatever its name.",
        metavar="CHAR",
        check=delimiter,
    )


def quantize_option(
    more: str = " embed --quantize int8 shows the loss, or score with a language model.",
    was: Mapping[str, str] = MappingProxyType({}),
    excludes: Conditions = (),
) -> str | None:
    """The option --quantize; `more` follows its help."""
    return option(
        None,
        "Round the weights of matrix products: faster on a CPU, most of all for single inputs, and less exact. int8: weights"
        f" and inputs of products to 8 bits; fp16: weights to 16 bits, computed in float32.{more}",
        choices=("int8", "fp16"),
        was=was,
        excludes=excludes,
    )


LARGEST_SEED = 2**63 - 1
LARGEST_FLOAT = 1e12


def bounds(field: Field[object]) -> tuple[float, float] | None:
    """Inclusive bounds of a numeric option, or None for other options.

    The defaults are 0 to LARGEST for integers and -LARGEST_FLOAT to LARGEST_FLOAT for fractions.
    """
    low, high = field.metadata["low"], field.metadata["high"]
    kind = str(field.type).removesuffix(" | None")
    if kind == "int":
        return 0 if low is None else low, LARGEST if high is None else high
    if kind == "float":
        return -LARGEST_FLOAT if low is None else low, LARGEST_FLOAT if high is None else high
    return None


# -- options shared by all commands, or by a group of commands ---------------------------------------------------------


@dataclass(frozen=True)
class Common:
    """Common options"""

    quiet: bool = option(False, "Write only warnings and errors to standard error.", short="-q")
    verbose: bool = option(False, "Write more details to standard error.", short="-v")
    progress: str = option("auto", "Draw a progress bar.", choices=("auto", "always", "never"))
    color: str = option("auto", "Use colors on a terminal.", choices=("auto", "always", "never"))
    log_file: str | None = option(None, "Also append all messages to this file.", metavar="FILE")
    debug: bool = option(False, "Show tracebacks of errors.")
    encoding_errors: str = option(
        "strict",
        "Handling of invalid UTF-8 in the input: strict ends with status 65.",
        choices=("strict", "replace", "ignore"),
    )
    max_line: str = option(
        "64M",
        "Longest line of the input in bytes (K, M, G: powers of 1024); a longer one ends with status 65.",
        metavar="SIZE",
        check=size,
    )


@dataclass(frozen=True)
class LineOutput:
    """Output options"""

    output: str = option("-", "Output file; - is standard output.", short="-o", metavar="FILE")
    force: bool = option(False, "Replace the output file if it exists.")
    line_buffered: bool = option(False, "Flush the output after every line.")


@dataclass(frozen=True)
class Threads:
    """Compute options"""

    threads: int = option(
        0,
        "Number of CPU threads. 0: OMP_NUM_THREADS if set, otherwise all cores available to this process.",
        low=0,
        metavar="N",
        free=True,
    )


@dataclass(frozen=True)
class Devices:
    """Compute options"""

    device: str = option("auto", "Device: auto, cpu, cuda, cuda:N or mps.", metavar="NAME", free=True)
    deterministic: bool = option(
        False, "Use only deterministic algorithms, also on a GPU and across processes; slower."
    )
    seed: int = option(1, "Seed of all random choices.", low=0, high=LARGEST_SEED, metavar="N")


@dataclass(frozen=True)
class Compute(Devices, Threads):
    """Compute options"""

    precision: str = option(
        "auto",
        "Number format of matrix products. auto: bf16 on a GPU that supports it; on a CPU, bf16 if a short test product is"
        " faster than in fp32 (measured once per processor and PyTorch version, stored in the user's cache directory)."
        " A continued run keeps its format.",
        choices=("auto", "fp32", "bf16", "fp16"),
    )


@dataclass(frozen=True)
class RunDirectory:
    """Training options"""

    output: str = option(
        REQUIRED, "Directory of the model and its training record.", short="-o", metavar="DIR", free=True
    )
    valid: str | None = option(None, "Held-out text for validation.", metavar="FILE")
    resume: str = option(
        "auto",
        "Continue the run in the output directory. auto: if it is the same run; never: refuse an existing run; must: refuse"
        " to start a new run.",
        choices=("auto", "never", "must"),
        free=True,
    )
    force: bool = option(False, "Replace a finished or different run in the output directory.", free=True)

    @property
    def held_out(self) -> list[str]:
        """Files of held-out text."""
        return [] if self.valid is None else [self.valid]


@dataclass(frozen=True)
class Training(RunDirectory):
    """Training options"""

    batch_size: int = option(16, "Sequences per step and process.", low=1, metavar="N")
    epochs: float = option(
        1.0,
        "Passes over the data, unless --steps is given; 0: save the initial weights without training.",
        low=0,
        metavar="X",
        free=True,
    )
    steps: int = option(0, "Optimizer steps; 0: determined by --epochs.", low=0, metavar="N", free=True)
    max_time: str | None = option(
        None, "Save a checkpoint and stop after this time (status 75).", metavar="TIME", check=duration, free=True
    )
    lr: float = option(1e-3, "Peak learning rate.", low=0, metavar="X")
    min_lr: float = option(
        0.1,
        "Final learning rate as a fraction of the peak, for cosine, linear and trapezoid.",
        low=0,
        high=1,
        metavar="X",
    )
    warmup: float = option(
        0.02, "Linear warm-up: number of steps, or a fraction of all steps if below 1.", low=0, metavar="STEPS"
    )
    schedule: str = option(
        "cosine",
        "Learning rate after the warm-up. trapezoid: constant, with a decay over the last fifth; inverse-sqrt: decay with the"
        " square root of the step (Vaswani et al. 2017); plateau: divide by --decay after each validation without improvement;"
        " epoch-decay: divide by --decay in each epoch after the first --decay-after epochs.",
        choices=("cosine", "trapezoid", "linear", "constant", "inverse-sqrt", "plateau", "epoch-decay"),
        needs={"plateau": ("valid or valid_source",)},
    )
    decay: float = option(
        4.0, "Divisor of the learning rate for plateau and epoch-decay.", low=1, high=1e6, metavar="X"
    )
    decay_after: int = option(1, "Epochs before epoch-decay begins.", metavar="N")
    optimizer: str = option(
        "adamw",
        optimizers_help(OPTIMIZERS),
        choices=tuple(OPTIMIZERS),
        needs=dict.fromkeys(AVERAGING, ("valid or valid_source",)),
    )
    asgd_patience: int = option(
        5,
        "asgd: start averaging once a validation is worse than the best one at least N validations earlier.",
        metavar="N",
    )
    weight_decay: float = option(0.1, "Weight decay of matrices.", low=0, metavar="X")
    beta2: float = option(0.95, "Second-moment decay of AdamW.", low=0, high=1, metavar="X")
    accumulate: int = option(1, "Batches per optimizer step.", low=1, metavar="N")
    global_batch: int = option(
        0,
        "Sequences per optimizer step over all processes. The data of a step then depend on the seed, but not on the number"
        " of processes, and --batch-size limits how many a process computes at a time. 0: --batch-size times --accumulate in"
        " each process.",
        low=0,
        metavar="N",
        excludes=("accumulate",),
    )
    shard_model: bool = option(
        False,
        "Divide weights, gradients and the optimizer's state among the processes (FSDP).",
        only={"optimizer": ("adamw",)},
        free=True,
    )
    clip: float = option(1.0, "Maximum norm of the gradient; 0: no clipping.", low=0, metavar="X")
    save_every: str = option(
        "10m", "Checkpoint interval: steps, time (10m), epochs (1e), never.", check=interval, free=True
    )
    valid_every: str = option("1e", "Validation interval, as --save-every.", check=interval, free=True)
    log_every: str = option("10", "Report interval, as --save-every.", check=interval, free=True)
    keep: int = option(
        2,
        "Number of latest checkpoints to keep, in addition to the best one and any needed for averaging.",
        low=2,
        metavar="N",
        free=True,
    )
    average: int = option(
        1,
        "Save the mean of the weights at the last N validations (without --valid: at the last N checkpoints), unless the best"
        " single weights score better; 1: no averaging.",
        low=1,
        excludes=tuple(f"optimizer {name}" for name in AVERAGING),
        metavar="N",
        free=True,
    )
    patience: int = option(
        0, "Stop after this many validations without improvement; 0: never.", low=0, metavar="N", free=True
    )
    track: str = option("none", "Also send the reports to this tracker.", choices=("none", "tensorboard"), free=True)
    compile: bool = option(
        False,
        "Compile the training step (requires a C++ compiler on CPU; pays off in long runs).",
        excludes=("shard_model",),
        free=True,
    )
    dry_run: bool = option(
        False,
        "Build everything, time the second training step, report sizes and speed, and write nothing.",
        free=True,
    )

    def check(self) -> None:
        """Raise UsageError for options that cannot be combined."""
        check_combinations(self)
        if self.average > 1 and not self.held_out and self.save_every == "never":
            raise UsageError("--average needs --valid, or a --save-every other than never")
        if OPTIMIZERS[self.optimizer].large_rates and self.lr * self.weight_decay >= 1:
            raise UsageError(
                f"--lr {self.lr:g} times --weight-decay {self.weight_decay:g} is {self.lr * self.weight_decay:g}, expected"
                " less than 1",
                hint=f"--weight-decay 0 is usual for {self.optimizer}",
            )
