"""Settings of fine-tuning and prediction: the task, how its files are read, and how the model is trained."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

from nlptools.configs import Training, option, quantize_option, redefined
from nlptools.configs.combinations import check_combinations
from nlptools.configs.layers import layers
from nlptools.configs.tasks.answer import AnswerOptions
from nlptools.configs.tasks.choice import ChoiceOptions
from nlptools.configs.tasks.classify import ClassifyOptions, PairOptions, RegressOptions
from nlptools.configs.tasks.coreference import CoreferenceOptions
from nlptools.configs.tasks.instruct import InstructOptions
from nlptools.configs.tasks.parse import ParseOptions
from nlptools.configs.tasks.preference import PreferenceOptions
from nlptools.configs.tasks.rank import RankOptions
from nlptools.configs.tasks.reward import RewardOptions
from nlptools.configs.tasks.seq2seq import Seq2SeqOptions
from nlptools.configs.tasks.similarity import SimilarityOptions
from nlptools.configs.tasks.table import check_options, settings_class, task, task_entry
from nlptools.configs.tasks.tag import RolesOptions, TagOptions
from nlptools.errors import UsageError


@dataclass(frozen=True)
class Finetune(
    ClassifyOptions,
    PairOptions,
    RegressOptions,
    RankOptions,
    SimilarityOptions,
    TagOptions,
    RolesOptions,
    ParseOptions,
    AnswerOptions,
    ChoiceOptions,
    CoreferenceOptions,
    RewardOptions,
    InstructOptions,
    PreferenceOptions,
    Seq2SeqOptions,
):
    """Task options: of all tasks, for calls from Python and for the training record"""

    def check(self) -> None:
        """Raises UsageError for options that cannot be combined, and for options of other tasks."""
        if not self.task:
            raise UsageError("--task is empty")
        if self.model == "":
            raise UsageError("--model is empty")
        if (self.model is None) == (self.scratch is None):
            raise UsageError("expected either --model DIR or --scratch ARCH")
        if layers(self.layers).kind == "all":
            raise UsageError("--layers all: the head needs one vector per token", hint="--layers concat:all or mix")
        if self.folds == 1:
            raise UsageError("--folds 1 leaves nothing to train on")
        if 0 < self.max_length < 4:
            raise UsageError("--max-length: expected at least 4, three of them special tokens")
        check_options(task(self.task), self)
        check_combinations(self)
        for field in fields(settings_class(task_entry(self.task).options)):
            choices, value = field.metadata["choices"], vars(self)[field.name]
            if choices and value is not None and value not in choices:
                raise UsageError(f"--{field.name} {value}: expected {', '.join(choices)} with --task {self.task}")
        if self.freeze not in ("0", "all") and (self.scratch is not None or self.features is not None):
            flag = "--scratch" if self.features is None else "--features"
            raise UsageError(f"--freeze {self.freeze}: with {flag}, expected all (the word vectors) or 0")
        if self.freeze == "all" and self.scratch == "bag":
            raise UsageError("--freeze all: a bag has nothing to learn but its vectors", hint="--scratch mean")


@dataclass(frozen=True)
class FinetuneTraining(Training):
    """Training options"""

    valid: str | None = redefined(
        Training, "valid", None, "Held-out examples for validation, in the format of the input."
    )
    batch_size: int = option(
        32, "Examples per step and process; 0: 1/32 of all examples, between 32 and 1024.", low=0, metavar="N"
    )
    epochs: float = redefined(Training, "epochs", 3.0)
    lr: float = redefined(Training, "lr", 5e-5)
    warmup: float = redefined(Training, "warmup", 0.1)
    schedule: str = redefined(
        Training,
        "schedule",
        "linear",
        "Learning rate after the warm-up. trapezoid: constant, with a decay over the last fifth; inverse-sqrt: decay with the"
        " square root of the step (Vaswani et al. 2017); plateau: divide by --decay after each validation without improvement;"
        " epoch-decay: divide by --decay in each epoch after the first.",
    )
    weight_decay: float = redefined(Training, "weight_decay", 0.01)
    log_every: str = redefined(Training, "log_every", "50")
    # not options here: BERT has fixed values, some belong to recipes for language models, and --lora saves more memory
    min_lr: ClassVar[float] = 0.0  # type: ignore[misc]
    beta2: ClassVar[float] = 0.999  # type: ignore[misc]
    average: ClassVar[int] = 1  # type: ignore[misc]
    decay_after: ClassVar[int] = 1  # type: ignore[misc]
    asgd_patience: ClassVar[int] = 5  # type: ignore[misc]
    compile: ClassVar[bool] = False  # type: ignore[misc]
    shard_model: ClassVar[bool] = False  # type: ignore[misc]


@dataclass(frozen=True)
class Predict:
    """Prediction options"""

    ask: str | None = option(
        None,
        "Ask a head of pretraining: next (BERT: does the second text of the line follow the first?), or replaced (ELECTRA: the"
        " probability of each token that it was replaced).",
        choices=("next", "replaced"),
        excludes=(
            "columns",
            "probabilities",
            "top_k",
            "threshold",
            "submission",
            "decoding",
            "to entities",
            "to conllu",
            "split",
            "predictions",
            "nbest",
            "null_odds",
            "null_threshold",
        ),
    )
    columns: bool = option(False, "Write the columns of the input before the prediction.")
    probabilities: bool = option(
        False,
        "Write the probability of every label; the first line contains the labels.",
        excludes=("top_k",),
    )
    top_k: int = option(1, "Write the K most probable labels with their probabilities.", low=1, metavar="K")
    threshold: float = option(0.5, "Minimum probability of a label, for models of --multi-label.", low=0, high=1)
    submission: bool = option(
        False,
        "Write the file for GLUE's server or GAP's scorer; the model must be trained on the task.",
        excludes=("columns", "probabilities", "top_k"),
    )
    decoding: str | None = option(
        None,
        "tag, roles: argmax takes the best tag of each word, as in transformers; scheme takes the best valid sequence"
        " in the span scheme (0.5 F1 better on CoNLL-2003). Default: argmax for tag, scheme for roles. Models with"
        " --crf always use scheme.",
        choices=("argmax", "scheme"),
        was={"--decode": "--decoding"},
    )
    to: str = option(
        "text",
        "Output format: lines of text, or JSON lines, an object per example. tag: entities, an object per sentence with its"
        " text and the text, label, start and end (in characters) of each entity. conllu: the input as CoNLL-U, with the"
        " predicted columns; of tag, if the model was trained on CoNLL-U; of parse and of several columns, text is the same.",
        choices=("text", "jsonl", "entities", "conllu"),
        was={"--to json": "--to jsonl"},
    )
    split: str = option(
        "words",
        "tag: split lines of text into words like tokenize -t words, or at spaces.",
        choices=("words", "whitespace"),
    )
    predictions: str | None = option(
        None, "answer: also write SQuAD's official predictions, a JSON object, to this file.", metavar="FILE"
    )
    nbest: str | None = option(
        None,
        "answer: also write SQuAD's n best answers of each question to this file.",
        flag="nbest-file",
        metavar="FILE",
        was={"--nbest": "--nbest-file"},
    )
    null_odds: str | None = option(
        None, "answer: also write SQuAD's odds of no answer of each question to this file.", metavar="FILE"
    )
    null_threshold: float | None = option(
        None,
        "answer: leave a question unanswered if its odds of no answer exceed X. Default: as tuned in training.",
        metavar="X",
    )
    max_length: int = option(
        0, "Maximum number of tokens of an example, special tokens included; 0: as in training.", low=0
    )
    batch_tokens: int = option(4096, "Tokens per batch, padding included.", low=1, metavar="N")
    quantize: str | None = quantize_option()

    @property
    def objects(self) -> bool:
        """Whether the output is JSON objects."""
        return self.to in ("jsonl", "entities")

    def check(self) -> None:
        """Raises UsageError for options that cannot be combined."""
        check_combinations(self)
        outputs = [name for name in (self.predictions, self.nbest, self.null_odds) if name is not None]
        if "-" in outputs or len(set(outputs)) < len(outputs):
            raise UsageError("--predictions, --nbest-file and --null-odds: expected different files")
        others = self.columns or self.probabilities or self.top_k > 1
        if self.to != "text" and (others or self.submission):
            raise UsageError(
                f"--to {self.to} cannot be combined with --columns, --probabilities, --top-k or --submission"
            )
