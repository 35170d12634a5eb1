"""Settings of fine-tuning and prediction: what the task is, how its files are read, what is trained and how."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import MISSING, dataclass
from typing import Any

from nlptools.configs import LARGEST_FLOAT, Training, interval, option, text_classifiers
from nlptools.configs.layers import layers
from nlptools.errors import UsageError

TASKS = ("classify", "pair", "regress", "tag", "roles", "answer", "choice", "coreference", "seq2seq")
MEASURES = ("accuracy", "exact", "f1", "f1_macro", "f1_micro", "matthews", "pearson", "spearman", "loss")
_OF_ANSWERS = ("stride", "max_question", "max_answer", "yes_no")  # settings of one task


def task(text: str) -> str:
    """The name of a task. Raises UsageError."""
    if text not in TASKS and not text.startswith("glue/"):
        raise UsageError(f"no such task: {text!r}, expected {', '.join(TASKS)} or glue/NAME")
    return text


def frozen(text: str) -> int | None:
    """How many layers `--freeze` names: None is all of the encoder, 0 nothing, N the embeddings and N blocks."""
    if text == "all":
        return None
    if not re.fullmatch(r"\d{1,4}", text):
        raise UsageError(f"not a number of layers: {text!r}, expected none, all or a number")
    return int(text)


def class_weights(text: str) -> dict[str, float]:
    """The weights in `A=2,B=0.5`; none for `none` and `balanced`. Raises UsageError."""
    if text in ("none", "balanced"):
        return {}
    found = {}
    for part in text.split(","):
        label, _, number = part.rpartition("=")
        if not label or not re.fullmatch(r"\d*\.?\d+([eE]-?\d+)?", number) or float(number) > LARGEST_FLOAT:
            raise UsageError(f"not a weight: {part!r}, expected balanced, or LABEL=NUMBER,LABEL=NUMBER")
        found[label] = float(number)
    return found


def changed(settings: Any, names: Iterable[str]) -> list[str]:
    """The flags of those options that are not as they are by default."""
    given = [name for name in names if getattr(settings, name) != settings.__dataclass_fields__[name].default]
    return [f"--{name.replace('_', '-')}" for name in given]


def refuse_for_seq2seq(settings: Any, known: Iterable[str]) -> None:
    """Raise UsageError if an option other than `known` is set, for the task seq2seq."""
    given = changed(settings, [name for name in settings.__dataclass_fields__ if name not in known])
    if given:
        raise UsageError(
            f"{given[0]} does not go with --task seq2seq", hint="train-seq2seq --init and generate have more options"
        )


@dataclass(frozen=True)
class Files:
    """Input options"""

    layout: str = option(
        "auto",
        "Layout of the files: table, jsonl, trec, cola, stsbenchmark, glue/NAME; of tag conll, conllu, lines (words between"
        " spaces); of answer squad, jsonl, qamr; of choice csv, jsonl; auto tells by name and first line.",
        metavar="NAME",
    )
    text_column: tuple[str, ...] = option(
        (), "Column of a text, by name or number from 1; twice for two texts.", multiple=True, metavar="NAME"
    )
    label_column: str | None = option(
        None, "Column of the label or tag, by name (upos) or number; -1 is the last.", metavar="NAME"
    )
    word_column: str | None = option(None, "tag: column of the words, by name or number.", metavar="NAME")
    comments: bool = option(False, "tag: lines of columns that begin with # and a space are comments, no words.")
    scheme: str = option(
        "auto",
        "tag: scheme of the spans, iob1, iob2, bioes, bilou, ioe2, or plain for none. finetune: of the files; auto tells by the"
        " tags. predict: of what is written; auto is that of training. Of a model that finetune has not made, whose config.json"
        " names no scheme, it is that of the model's tags, for --decode scheme.",
        metavar="NAME",
    )
    role_spans: str = option(
        "heads",
        "roles: what is learnt of an argument: its head, as the file has it, or all words that depend on the head.",
        choices=("heads", "subtrees"),
    )
    id_column: str | None = option(None, "Column of what an example is called.", metavar="NAME")
    header: bool = option(False, "The first line names the columns, whatever they are called.")
    fine: bool = option(False, "Labels of TREC with their second part: DESC:manner, not DESC.")
    label_separator: str = option(",", "What stands between the labels of --multi-label.", metavar="TEXT")
    skip_broken: bool = option(False, "Leave out lines with too few columns, and count them.")
    move_answers: bool = option(
        False,
        "answer: take an answer that does not stand where the file says from the nearest place where it does, and count.",
    )
    sentences: str | None = option(
        None, "answer: QAMR's sentences, if not in wiki-sentences.tsv beside the file or above it.", metavar="FILE"
    )


@dataclass(frozen=True)
class Finetune:
    """Task options"""

    task: str = option(
        MISSING,
        "What is learnt: classify, pair, regress, tag, roles, answer, choice, coreference, seq2seq, or glue/NAME.",
        metavar="TASK",
        check=task,
    )
    model: str | None = option(
        None,
        "Directory of the model to begin with: a BERT, an ELECTRA or a GPT (GPT-2, train-lm --arch transformer); seq2seq: of one"
        " that train-seq2seq made.",
        short="-m",
        metavar="DIR",
    )
    scratch: str | None = option(
        None,
        "Begin with nothing, classify, pair, regress: mean of word vectors and a layer, bag of n-grams (fastText), cnn,"
        " lstm, gru, rnn, transformer. Sizes and training are set for each, unless given.",
        choices=text_classifiers.ARCHITECTURES,
    )
    multi_label: bool = option(False, "An example can have several labels at once, or none.")
    crf: bool = option(
        False, "tag, roles: learn which labels follow each other, too, with a conditional random field on top."
    )
    label_pieces: str = option(
        "first",
        "tag, roles: which pieces of a word learn its label. The first one, of a GPT the last, speaks for it in any case.",
        choices=("first", "all"),
    )
    best: str = option(
        "auto",
        "Which number of the validation says which weights are best: auto is accuracy, pearson (regress), f1 (of spans, of"
        " answers, GAP's), GLUE's own.",
        choices=("auto", *MEASURES),
    )
    max_length: int = option(
        0,
        "Most tokens of an example, marks included; longer ones are cut and counted. 0: as the model can; answer: 384, the"
        " length of a window of the context.",
        low=0,
    )
    stride: int = option(128, "answer: pieces from one window of a long context to the next.", low=1, metavar="N")
    max_question: int = option(
        64, "answer: most pieces of a question, and at most half of a window; the rest is cut.", low=1, metavar="N"
    )
    max_answer: int = option(30, "answer: longest answer in pieces.", low=1, metavar="N")
    yes_no: bool = option(False, "answer: learn to say yes and no, too, beside places in the context.")
    encoder_dropout: float | None = option(
        None,
        "Dropout while learning, that of the attention weights included; by default as the encoder's config.json has it."
        " An encoder that was pretrained without any needs some.",
        low=0,
        high=0.9,
        metavar="P",
    )
    freeze: str = option(
        "0",
        "Leave the weights of the embeddings and the first N layers as they are, or of all.",
        metavar="N",
        check=frozen,
    )
    layers: str = option(
        "last",
        "Which layers the head sees: last, N, sum:A:B, mean:A:B (slices; `all` for A:B), concat:A:B with a map back to the"
        " size of one, or mix, all with weights that are learnt; mix:FILE begins with those of a JSON list. 0 is what the"
        " embeddings give.",
        metavar="LAYERS",
        check=layers,
    )
    layer_decay: float = option(
        1.0,
        "Learning rate of each layer, as a share of that of the layer above (Clark et al. 2020 take 0.8).",
        low=0,
        high=1,
        metavar="X",
    )
    unfreeze: float = option(
        0.0,
        "Begin with the head alone, and let one more layer learn, from the last one down, after every X epochs (Howard &"
        " Ruder 2018). 0: all learn from the beginning.",
        low=0,
        metavar="X",
    )
    class_weights: str = option(
        "none",
        "What each label counts in the loss: balanced (all labels the same in sum), or LABEL=NUMBER,...; others count 1.",
        metavar="WEIGHTS",
        check=class_weights,
    )
    seeds: int = option(
        1,
        "Train so many times, with --seed and those after it, in DIR/seed-N; the best is kept in DIR.",
        low=1,
        metavar="N",
    )
    folds: int = option(
        0,
        "Cross-validation: train K times, in DIR/fold-N, each time without another Kth of the data.",
        low=0,
        metavar="K",
    )

    def check(self) -> None:
        """Raises UsageError for options that do not go together."""
        if not self.task:
            raise UsageError("--task is empty")
        if self.model == "":
            raise UsageError("--model is empty")
        if (self.model is None) == (self.scratch is None):
            raise UsageError("expected either --model DIR or --scratch ARCH")
        if self.scratch is not None:
            self._check_scratch()
        if self.folds == 1:
            raise UsageError("--folds 1 leaves nothing to train on")
        if self.folds and self.seeds > 1:
            raise UsageError("--folds does not go with --seeds")
        if self.unfreeze and self.freeze != "0":
            raise UsageError("--unfreeze does not go with --freeze")
        if 0 < self.max_length < 4:
            raise UsageError("--max-length: expected at least 4, three of them marks")
        if self.multi_label and self.task != "classify":
            raise UsageError(f"--multi-label goes with --task classify, not {self.task}")
        tags = self.crf or self.label_pieces != "first"
        if tags and self.task not in ("tag", "roles"):
            raise UsageError(f"--crf and --label-pieces go with --task tag and roles, not {self.task}")
        if self.crf and self.label_pieces == "all":
            raise UsageError("--crf: words follow each other, not pieces: it does not go with --label-pieces all")
        if self.task == "regress" and self.class_weights != "none":
            raise UsageError("--class-weights: a number has no class")
        others = changed(self, _OF_ANSWERS) if self.task != "answer" else ()
        if others:
            raise UsageError(f"{others[0]} goes with --task answer, not {self.task}")

    def _check_scratch(self) -> None:
        """Raises UsageError for what only encoders have."""
        if self.task.split("/")[0] not in (*text_classifiers.TASKS, "glue"):
            raise UsageError(f"--scratch goes with {', '.join(text_classifiers.TASKS)} and glue/NAME, not {self.task}")
        if self.layers != "last" or self.layer_decay != 1.0 or self.unfreeze or self.encoder_dropout is not None:
            raise UsageError("--layers, --layer-decay, --unfreeze and --encoder-dropout go with --model, not --scratch")
        if self.freeze not in ("0", "all"):
            raise UsageError(f"--freeze {self.freeze}: with --scratch all, which are the vectors of the words, or 0")
        if self.freeze == "all" and self.scratch == "bag":
            raise UsageError("--freeze all: a bag learns nothing but its vectors", hint="--scratch mean")


@dataclass(frozen=True)
class FinetuneTraining(Training):
    """Training options"""

    valid: str | None = option(None, "Held-out examples to measure on, in a file as those to train on.", metavar="FILE")
    batch_size: int = option(
        32, "Examples per step and process; 0: a 32nd of all, from 32 to 1024.", low=0, metavar="N"
    )
    epochs: float = option(3.0, "Passes over the data, unless --steps is given.", low=0, metavar="X")
    lr: float = option(5e-5, "Peak learning rate.", low=0, metavar="X")
    min_lr: float = option(0.0, "Final learning rate, as a share of the peak.", low=0, high=1, metavar="X")
    warmup: float = option(0.1, "Linear warm-up: steps, or a share of all steps when below 1.", low=0, metavar="STEPS")
    schedule: str = option(
        "linear",
        "Learning rate after the warm-up.",
        choices=("linear", "cosine", "trapezoid", "constant", "inverse-sqrt"),
    )
    weight_decay: float = option(0.01, "Decay of matrices (AdamW).", low=0, metavar="X")
    beta2: float = option(0.999, "Second-moment decay of AdamW.", low=0, high=1, metavar="X")
    log_every: str = option("50", "Report interval, as --save-every.", check=interval)


@dataclass(frozen=True)
class Predict:
    """Prediction options"""

    columns: bool = option(False, "Write the input's own columns, with the prediction in further ones.")
    probabilities: bool = option(False, "Write the probability of every label, in the model's order, and no label.")
    top_k: int = option(1, "Write the K most probable labels, each with its probability.", low=1, metavar="K")
    threshold: float = option(0.5, "Probability from which on a label of --multi-label is given.", low=0, high=1)
    pair: bool = option(False, "Two texts a line, where the model does not say so itself.")
    submission: bool = option(
        False, "Write the file that GLUE's server, or GAP's scorer, takes; the model has to know the task."
    )
    decode: str | None = option(
        None,
        "tag, roles: argmax takes the best tag of each word, as the pipelines of transformers do; scheme takes the best"
        " sequence of tags that keeps to the scheme of the spans: no I-X after O (F1 of names is half a point higher on"
        " CoNLL-2003). By default tag: argmax; roles: scheme. A"
        " model with a conditional random field (finetune --crf) always decodes with it, which keeps to the scheme.",
        choices=("argmax", "scheme"),
    )
    to: str = option("text", "answer, choice, coreference: how a prediction is written.", choices=("text", "json"))
    predictions: str | None = option(
        None, "answer: write SQuAD's official predictions, a JSON object, to this file, too.", metavar="FILE"
    )
    nbest: str | None = option(None, "answer: write SQuAD's n best answers of each question, too.", metavar="FILE")
    null_odds: str | None = option(
        None, "answer: write SQuAD's odds of no answer for each question, too.", metavar="FILE"
    )
    candidates: int = option(20, "answer: how many answers --nbest has of a question.", low=1, metavar="N")
    max_answer: int = option(0, "answer: longest answer in pieces; 0: as the model was trained.", low=0, metavar="N")
    null_threshold: float | None = option(
        None,
        "answer: leave a question unanswered from these odds of no answer on; by default as tuned in training. Greater: more"
        " answers.",
        metavar="X",
    )
    max_length: int = option(0, "Most tokens of an example, marks included; 0: as the model was trained.", low=0)
    batch_tokens: int = option(4096, "Tokens that the model reads at a time, padding included.", low=1, metavar="N")
    window: int = option(8192, "Lines that are read and sorted by length together.", low=1, metavar="N")

    def check(self) -> None:
        """Raises UsageError for options that do not go together."""
        if self.probabilities and self.top_k > 1:
            raise UsageError("--probabilities does not go with --top-k")
        outputs = [name for name in (self.predictions, self.nbest, self.null_odds) if name is not None]
        if "-" in outputs or len(set(outputs)) < len(outputs):
            raise UsageError("--predictions, --nbest and --null-odds: expected different files")
        if self.to == "json" and (self.columns or self.submission or self.probabilities or self.top_k > 1):
            raise UsageError("--to json is a format of its own")
        if self.submission and (self.columns or self.probabilities or self.top_k > 1):
            raise UsageError("--submission is a format of its own")
