"""Settings of fine-tuning and prediction: the task, how its files are read, and how the model is trained."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import MISSING, dataclass
from typing import Any, ClassVar

from nlptools.configs import (
    LARGEST_FLOAT,
    Training,
    delimiter_option,
    option,
    redefined,
    text_classifiers,
    word_taggers,
)
from nlptools.configs.chat import FORMATS
from nlptools.configs.combinations import check_combinations
from nlptools.configs.layers import layers
from nlptools.configs.lora import LoRA
from nlptools.configs.tasks import SCRATCH_TASKS, changed, check_options, scratch_entry, task
from nlptools.errors import UsageError

MEASURES = ("accuracy", "exact", "f1", "f1_macro", "f1_micro", "matthews", "pearson", "spearman", "loss")


def frozen(text: str) -> int | None:
    """How many layers `--freeze` names: None is the whole encoder, 0 nothing, N the embeddings and N blocks."""
    if text == "all":
        return None
    if not re.fullmatch(r"\d{1,4}", text):
        raise UsageError(f"not a number of layers: {text!r}, expected none, all or a number")
    return int(text)


def class_weights(text: str) -> dict[str, float]:
    """The weights in `A=2,B=0.5`; none for `none` and `balanced`. Raises UsageError."""
    if text in ("none", "balanced"):
        return {}
    weights = {}
    for part in text.split(","):
        label, _, number = part.rpartition("=")
        if not label or not re.fullmatch(r"\d*\.?\d+([eE]-?\d+)?", number) or float(number) > LARGEST_FLOAT:
            raise UsageError(f"not a weight: {part!r}, expected balanced, or LABEL=NUMBER,LABEL=NUMBER")
        weights[label] = float(number)
    return weights


def refuse_other_options(settings: Any, task: str, known: Iterable[str], hint: str | None = None) -> None:
    """Raise UsageError if an option other than `known` is set, for a task that has a trainer of its own."""
    given = changed(settings, [name for name in settings.__dataclass_fields__ if name not in known])
    if given:
        raise UsageError(f"{given[0]} does not go with --task {task}", hint=hint)


def refuse_for_seq2seq(settings: Any, known: Iterable[str]) -> None:
    """`refuse_other_options` of the task seq2seq."""
    refuse_other_options(settings, "seq2seq", known, "train-seq2seq --init and generate have more options")


@dataclass(frozen=True)
class Files:
    """Input options"""

    layout: str = option(
        "auto",
        "File layout: table (between tabs), csv, jsonl, parquet, trec, trec-fine, rte, glue/NAME; tag: conll, conllu,"
        " lines (a sentence per line); answer: also squad, qamr. auto: by the file name and the first line.",
        metavar="NAME",
    )
    text_column: tuple[str, ...] = option(
        (),
        "Column of a text, by name or number from 1; twice for two texts. Columns between commas are joined with"
        " spaces (subject,body), or are the texts of a task with two. tag: column of the words.",
        multiple=True,
        metavar="NAME",
    )
    label_column: str | None = option(
        None, "Column of the label or tag, by name (upos) or number; -1 is the last column.", metavar="NAME"
    )
    comments: bool = option(False, "tag: in column files, skip lines that begin with # and a space.")
    scheme: str = option(
        "auto",
        "tag: span scheme: iob1, iob2, bioes, bilou, ioe2, or plain for tags without spans. finetune: scheme of the"
        " files; auto detects it. predict: scheme of the output; auto: the scheme of the training files. For a model"
        " of another program, the scheme of its tags.",
        metavar="NAME",
    )
    header: bool = option(False, "The first line contains column names, even unknown ones.")
    delimiter: str | None = delimiter_option()
    label_separator: str = option(",", "Separator of several labels, see --multi-label.", metavar="TEXT")


@dataclass(frozen=True)
class Finetune:
    """Task options"""

    task: str = option(
        MISSING,
        "Task to learn: classify, pair, regress, tag, roles, answer, choice, coreference, seq2seq, instruct, reward,"
        " preference, or glue/NAME.",
        metavar="TASK",
        check=task,
    )
    model: str | None = option(
        None,
        "Pretrained model: a BERT, an ELECTRA or a GPT (GPT-2, LLaMA, train-lm --arch transformer or modern);"
        " seq2seq: a model of train-seq2seq; instruct, preference: a GPT.",
        short="-m",
        metavar="DIR",
    )
    scratch: str | None = option(
        None,
        "Train without a pretrained model (classify, pair, regress): the mean of word vectors, a bag of n-grams"
        " (fastText), cnn, lstm, gru, rnn, transformer; tag: the last five. Each has its own defaults.",
        choices=text_classifiers.ARCHITECTURES,
        excludes=("layers", "layer_decay", "unfreeze", "encoder_dropout"),
    )
    features: str | None = option(
        None,
        "If --model is an ELMo: where bidirectional LSTMs over the words use its vectors: as input, next to their"
        " output, both, or none (the same network without an ELMo). Each has its own defaults.",
        choices=word_taggers.FEATURES,
        excludes=("scratch", "task seq2seq", "layer_decay", "unfreeze", "encoder_dropout"),
    )
    train_all: bool = option(
        False,
        "Also train the ELMo, otherwise frozen.",
        needs=("features",),
        excludes=("features none",),
    )
    multi_label: bool = option(False, "classify: an example has any number of labels.")
    crf: bool = option(False, "tag, roles: add a conditional random field over the labels.")
    role_spans: str = option(
        "heads",
        "roles: words of an argument to learn: its head, as in the file, or the whole subtree of the head.",
        choices=("heads", "subtrees"),
    )
    best: str = option(
        "auto",
        "Validation metric for the choice of the weights. auto: accuracy; regress: pearson; tag with spans, roles,"
        " answer, coreference: f1; glue/NAME: as in GLUE.",
        choices=("auto", *MEASURES),
    )
    max_length: int = option(
        0,
        "Maximum number of tokens of an example, special tokens included; longer ones are cut and counted. 0: the"
        " limit of the model; answer: 384, the window over the context.",
        low=0,
    )
    stride: int = option(128, "answer: tokens from one window of a long context to the next.", low=1, metavar="N")
    encoder_dropout: float | None = option(
        None,
        "Dropout during training, including attention weights. Default: from config.json of the model. A model"
        " pretrained without dropout needs some.",
        low=0,
        high=0.9,
        metavar="P",
    )
    freeze: str = option(
        "0",
        "Freeze the embeddings and the first N layers, or all.",
        metavar="N",
        check=frozen,
    )
    layers: str = option(
        "last",
        "Input of the head: last; layer N (0: the output of the embeddings); sum:A:B or mean:A:B of a slice (`all`"
        " for A:B); concat:A:B, projected to the size of one layer; mix, all layers with learned weights; mix:FILE"
        " starts from the weights in a JSON list.",
        metavar="LAYERS",
        check=layers,
    )
    layer_decay: float = option(
        1.0,
        "Learning rate of each layer, relative to the layer above (Clark et al. 2020 use 0.8).",
        low=0,
        high=1,
        metavar="X",
    )
    unfreeze: float = option(
        0.0,
        "Gradual unfreezing (Howard & Ruder 2018): train the head first, and one more layer, from the last to the"
        " first, after every X epochs. 0: train all from the start.",
        low=0,
        metavar="X",
        excludes=("freeze",),
    )
    lora: int = redefined(LoRA, "lora", 0, excludes=("scratch", "features", "freeze"))
    lora_alpha: float = redefined(LoRA, "lora_alpha", 16.0)
    lora_dropout: float = redefined(LoRA, "lora_dropout", 0.0)
    lora_targets: str = redefined(LoRA, "lora_targets", "all")
    loss: str = option(
        "dpo",
        "preference: loss: dpo (Rafailov et al. 2023), ipo (Azar et al. 2023), kto (Ethayarajh et al. 2024), orpo"
        " (Hong et al. 2024; without reference).",
        choices=("dpo", "ipo", "kto", "orpo"),
    )
    beta: float = option(
        0.1,
        "preference: strength of the KL constraint to the reference, --model; orpo: weight of the odds ratio.",
        low=1e-6,
        metavar="X",
    )
    chat: str | None = option(
        None,
        "instruct, reward, preference: chat template of messages, if the model has none; saved with the output.",
        choices=FORMATS,
    )
    class_weights: str = option(
        "none",
        "classify, pair: weights of the labels in the loss: balanced (the same total for every label), or"
        " LABEL=NUMBER,... (others: 1).",
        metavar="WEIGHTS",
        check=class_weights,
    )
    seeds: int = option(
        1,
        "Train N times, with --seed and the seeds after it, in DIR/seed-N; DIR contains the best model.",
        low=1,
        metavar="N",
    )
    folds: int = option(
        0,
        "Cross-validation: train K times, in DIR/fold-N, and validate on another Kth of the data each time.",
        low=0,
        metavar="K",
        excludes=("seeds",),
    )

    def check(self) -> None:
        """Raises UsageError for options that do not go together."""
        if not self.task:
            raise UsageError("--task is empty")
        if self.model == "":
            raise UsageError("--model is empty")
        if (self.model is None) == (self.scratch is None):
            raise UsageError("expected either --model DIR or --scratch ARCH")
        if layers(self.layers).kind == "all":
            raise UsageError("--layers all goes with embed", hint="--layers concat:all or mix")
        if self.scratch is not None:
            self._check_scratch()
        if self.features is not None:
            self._check_features()
        if self.folds == 1:
            raise UsageError("--folds 1 leaves nothing to train on")
        if 0 < self.max_length < 4:
            raise UsageError("--max-length: expected at least 4, three of them special tokens")
        check_combinations(self)
        check_options(task(self.task), self)

    def _check_features(self) -> None:
        """Raises UsageError for options that do not go with an ELMo."""
        if self.freeze not in ("0", "all"):
            raise UsageError(f"--freeze {self.freeze}: with --features, expected all (the word vectors) or 0")

    def _check_scratch(self) -> None:
        """Raises UsageError for options that only encoders have."""
        known = scratch_entry(self.task).architectures
        if not known:
            raise UsageError(f"--scratch goes with {', '.join(SCRATCH_TASKS)} and glue/NAME, not {self.task}")
        if self.scratch not in known:
            raise UsageError(
                f"--scratch {self.scratch} does not go with --task {self.task}, expected {', '.join(known)}"
            )
        if self.freeze not in ("0", "all"):
            raise UsageError(f"--freeze {self.freeze}: with --scratch, expected all (the word vectors) or 0")
        if self.freeze == "all" and self.scratch == "bag":
            raise UsageError("--freeze all: a bag has nothing to learn but its vectors", hint="--scratch mean")


@dataclass(frozen=True)
class FinetuneTraining(Training):
    """Training options"""

    valid: str | None = redefined(
        Training, "valid", None, "Held-out examples for validation, in the format of the input."
    )
    batch_size: int = option(
        32, "Examples per step and process; 0: a 32nd of all, between 32 and 1024.", low=0, metavar="N"
    )
    epochs: float = redefined(Training, "epochs", 3.0)
    lr: float = redefined(Training, "lr", 5e-5)
    warmup: float = redefined(Training, "warmup", 0.1)
    schedule: str = redefined(Training, "schedule", "linear")
    weight_decay: float = redefined(Training, "weight_decay", 0.01)
    log_every: str = redefined(Training, "log_every", "50")
    # not options here: BERT's values, which nobody changes
    min_lr: ClassVar[float] = 0.0  # type: ignore[misc]
    beta2: ClassVar[float] = 0.999  # type: ignore[misc]
    average: ClassVar[int] = 1  # type: ignore[misc]
    compile: ClassVar[bool] = False  # type: ignore[misc]


@dataclass(frozen=True)
class Predict:
    """Prediction options"""

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
        " text and the text, label, start and end (in characters) of each entity.",
        choices=("text", "jsonl", "entities"),
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

    def check(self) -> None:
        """Raises UsageError for options that do not go together."""
        check_combinations(self)
        outputs = [name for name in (self.predictions, self.nbest, self.null_odds) if name is not None]
        if "-" in outputs or len(set(outputs)) < len(outputs):
            raise UsageError("--predictions, --nbest-file and --null-odds: expected different files")
        others = self.columns or self.probabilities or self.top_k > 1
        if self.to != "text" and (others or self.submission):
            raise UsageError(f"--to {self.to} is an output format of its own")
