"""Options of training language models."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from typing import Any

from nlptools.configs import check_architecture, option, size
from nlptools.configs.ngram import SMOOTHINGS, limits, weights
from nlptools.configs.recurrent import OPTIONS as _RECURRENT
from nlptools.configs.recurrent import PRESETS as RECURRENT_PRESETS
from nlptools.configs.recurrent import cutoffs
from nlptools.errors import UsageError

# gpt2: sizes of Radford et al. 2019; small-char: the 10.6M-parameter character model of nanoGPT's README.
# transformer-xl: for Penn Treebank, where Dai et al. 2019 report 54.5 (test) with 24M parameters. They published no recipe ("a
# regularization game"); sizes and rates are those of later implementations that aim at it. Variational dropout and the mean of
# weights (--average) are part of the published result. small-transformer-xl: for Penn Treebank on two cores.
# bengio: the hidden layer of Bengio et al. 2003, wider, with dropout and a tied output, for Penn Treebank on two cores; nplm: the
# residual layers, long local window and averaged far context of Sun & Iyyer 2021, at that size.
# gpt1: Radford et al. 2018, section 4.1.
# gpt3-*: table 2.1, appendix B of Brown et al. 2020 (arXiv:2005.14165): batches of 0.5M tokens, for gpt3-xl 1M, and a warm-up of
# 375M. Departures: every layer attends to all tokens, where GPT-3 has sparse attention in every other layer; gpt3-xl has 16 heads
# of 128, as the 24 of the table do not divide its width.
# modern-small: 6 layers of 384, the size of small-char, as a LLaMA; smollm-135m: SmolLM-135M (Hugging Face 2024), sizes of its
# config.json and the peak rate of its published training settings.
_GPT3 = {"context": 2048, "batch_size": 2, "accumulate": 128, "warmup": 715, "weight_decay": 0.1, "beta2": 0.95}
PRESETS: dict[str, dict[str, Any]] = {
    "tiny": {"layers": 4, "hidden": 128, "heads": 4, "context": 128, "batch_size": 16, "lr": 2e-3},
    "small-char": {"layers": 6, "hidden": 384, "heads": 6, "context": 256, "batch_size": 64, "dropout": 0.2},
    "modern-small": {
        "arch": "modern",
        "layers": 6,
        "hidden": 384,
        "heads": 6,
        "context": 256,
        "batch_size": 16,
        "lr": 2e-3,
    },
    "smollm-135m": {
        "arch": "modern",
        "layers": 30,
        "hidden": 576,
        "heads": 9,
        "key_value_heads": 3,
        "intermediate": 1536,
        "context": 2048,
        "batch_size": 8,
        "lr": 3e-3,
    },
    "gpt2": {"layers": 12, "hidden": 768, "heads": 12, "context": 1024, "batch_size": 8, "lr": 6e-4},
    "gpt2-medium": {"layers": 24, "hidden": 1024, "heads": 16, "context": 1024, "batch_size": 8, "lr": 3e-4},
    "gpt2-large": {"layers": 36, "hidden": 1280, "heads": 20, "context": 1024, "batch_size": 8, "lr": 2.5e-4},
    "transformer-xl": {
        "arch": "transformer-xl",
        "layers": 16,
        "hidden": 380,
        "heads": 10,
        "intermediate": 900,
        "context": 70,
        "memory_length": 70,
        "dropout": 0.5,
        "attention_dropout": 0.2,
        "batch_size": 20,
        "epochs": 150,
        "lr": 4e-4,
        "warmup": 5000,
        "weight_decay": 1.2e-6,
        "beta2": 0.999,
        "clip": 0.25,
    },
    "small-transformer-xl": {
        "arch": "transformer-xl",
        "layers": 4,
        "hidden": 256,
        "heads": 4,
        "context": 64,
        "memory_length": 64,
        "pre_norm": True,
        "dropout": 0.3,
        "attention_dropout": 0.1,
        "batch_size": 16,
        "epochs": 20,
        "lr": 2e-3,
    },
    "gpt1": {
        "layers": 12,
        "hidden": 768,
        "heads": 12,
        "context": 512,
        "post_norm": True,
        "dropout": 0.1,
        "batch_size": 64,
        "epochs": 100,
        "lr": 2.5e-4,
        "warmup": 2000,
        "min_lr": 0.0,
        "weight_decay": 0.01,
        "beta2": 0.999,
    },
    "gpt3-small": {"layers": 12, "hidden": 768, "heads": 12, "lr": 6e-4, **_GPT3},
    "gpt3-medium": {"layers": 24, "hidden": 1024, "heads": 16, "lr": 3e-4, **_GPT3},
    "gpt3-large": {"layers": 24, "hidden": 1536, "heads": 16, "lr": 2.5e-4, **_GPT3},
    "gpt3-xl": {"layers": 24, "hidden": 2048, "heads": 16, "lr": 2e-4, **_GPT3, "accumulate": 256, "warmup": 358},
    "bengio": {
        "arch": "feedforward",
        "layers": 1,
        "hidden": 320,
        "order": 6,
        "dropout": 0.3,
        "context": 64,
        "batch_size": 32,
        "epochs": 20,
        "lr": 1.5e-3,
        "clip": 0.5,
    },
    "nplm": {
        "arch": "feedforward",
        "layers": 4,
        "hidden": 320,
        "order": 16,
        "far": 128,
        "dropout": 0.4,
        "context": 128,
        "batch_size": 16,
        "epochs": 25,
        "lr": 1.5e-3,
        "clip": 0.5,
    },
    "gpt2-xl": {"layers": 48, "hidden": 1600, "heads": 25, "context": 1024, "batch_size": 8, "lr": 2e-4},
    **RECURRENT_PRESETS,
}


_XL: dict[str, Any] = {"architectures": ("transformer-xl",), "section": "Options of Transformer-XL"}
_FEEDFORWARD: dict[str, Any] = {"architectures": ("feedforward",), "section": "Options of feed-forward models"}
_NGRAM: dict[str, Any] = {"architectures": ("ngram",), "section": "Options of n-gram models"}
_MODERN: dict[str, Any] = {"architectures": ("modern",), "section": "Options of modern decoders"}


@dataclass(frozen=True)
class TrainLM:
    """Model options"""

    tokenizer: str = option(
        MISSING,
        "Tokenizer: a name, a SentencePiece .model, a tokenizer.json, a vocabulary, or a model directory.",
        short="-t",
    )
    arch: str = option("transformer", "Architecture.", families=("language", "n-gram"))
    preset: str | None = option(
        None, "Named sizes and training options; other options override them.", choices=tuple(PRESETS)
    )
    vocab: str | None = option(None, "Vocabulary of a tokenizer given by name.", metavar="FILE")
    layers: int = option(4, "Layers.", low=1, metavar="N")
    hidden: int = option(256, "Width of the hidden states.", low=1, metavar="N")
    heads: int = option(
        4, "Attention heads.", low=1, metavar="N", architectures=("transformer", "modern", "transformer-xl")
    )
    intermediate: int = option(
        0,
        "Width of the feed-forward layers; 0: four times --hidden (modern: 8/3 of it, in steps of 64).",
        high=1 << 18,
        metavar="N",
        architectures=("modern", "transformer-xl"),
    )
    context: int = option(
        256,
        "Length of a training sequence in tokens, and the longest that a transformer can read.",
        low=1,
        metavar="N",
    )
    dropout: float = option(0.0, "Probability of dropout.", low=0, high=0.9, metavar="P")
    post_norm: bool = option(
        False,
        "Norms after the residual sums, as in GPT; without it before them, as in GPT-2.",
        architectures=("transformer",),
    )
    untied: bool = option(
        False,
        "An output matrix of its own, not that of the embedding; of recurrent models with a bias.",
        architectures=(*_RECURRENT["architectures"], "modern"),
    )
    init: str | None = option(None, "Start from the weights and sizes of this model directory.", metavar="DIR")
    vectors: str | None = option(
        None,
        "Start from the word vectors of this file or directory, in any format that convert reads; tokens without a vector get"
        " random numbers of the same variance. Their size must be that of the embeddings (--hidden).",
        metavar="FILE",
    )
    freeze_embeddings: bool = option(
        False,
        "Keep the embeddings that come from --vectors as they are. Where the output is tied to the embeddings, it keeps them"
        " as well; the other tokens learn.",
    )
    document: str = option(
        "line",
        "Unit of text that an end-of-text token follows: a line, a paragraph (lines up to an empty one), or a file.",
        choices=("line", "paragraph", "file"),
    )
    carry: bool = option(
        False,
        "Validate on --valid as score --carry does: each token given all tokens before it, those of earlier documents included.",
    )
    memory_length: int | None = option(
        None,
        "Positions of earlier segments that each layer remembers in training; default: the length of a segment (--context)."
        " In use, each position sees as many before it as the last one of a segment in training.",
        low=0,
        high=1 << 20,
        metavar="N",
        **_XL,
    )
    clamp_length: int = option(
        0, "Distance from which on all distances count as this one; 0: all differ.", high=1 << 20, metavar="N", **_XL
    )
    same_length: bool = option(
        False, "Each position sees exactly --memory-length positions before it, in training and in use.", **_XL
    )
    pre_norm: bool = option(
        False, "Norms before the layers of each block, which learns faster; otherwise behind, as published.", **_XL
    )
    biases_per_layer: bool = option(
        False, "Each layer has its own biases of queries; otherwise the layers share them.", **_XL
    )
    attention_dropout: float | None = option(
        None, "Probability of dropout of attention weights; default: --dropout.", low=0, high=0.9, metavar="P", **_XL
    )
    kernel: int = option(
        4,
        "Tokens that each convolution sees; N layers see N times one less, and one, in all.",
        low=1,
        high=64,
        metavar="N",
        architectures=("convolution",),
        section="Options of convolutional models",
    )
    order: int = option(
        5,
        "Tokens of the longest n-grams, up to 7. A feed-forward model predicts the last of N tokens, given the others.",
        low=1,
        high=64,
        metavar="N",
        architectures=("ngram", "feedforward"),
        section="Options of n-gram and feed-forward models",
    )
    far: int = option(
        0,
        "Tokens before those of --order whose embeddings are averaged, as one more input.",
        high=1 << 12,
        metavar="N",
        **_FEEDFORWARD,
    )
    direct: bool = option(False, "Direct connections past the hidden layer (--layers 1).", **_FEEDFORWARD)
    smoothing: str = option(
        "kneser-ney",
        "Estimation of rare and unseen n-grams; kneser-ney is interpolated modified Kneser-Ney, as in KenLM.",
        choices=SMOOTHINGS,
        **_NGRAM,
    )
    prune: str | None = option(
        None,
        "Leave out n-grams that occur at most N times, for 1, 2, ... words; the last number holds for longer ones.",
        metavar="0,N,...",
        check=limits,
        **_NGRAM,
    )
    weights: str | None = option(
        None,
        "Weights of n-grams of 1, 2, ... words (jelinek-mercer). Default: the best ones for the text of --valid.",
        metavar="P,P,...",
        check=weights,
        **_NGRAM,
    )
    add: float = option(1.0, "Number added to each count (add-k).", low=1e-9, high=1e6, metavar="K", **_NGRAM)
    memory: str | None = option(
        None,
        "Bound of the memory for counts and tables; beyond it they are in files beside the output. Besides, memory holds the"
        " vocabulary and up to 20 bytes for each n-gram of a length. Default: half of the machine's memory, which leaves as"
        " much for the files that the system keeps in memory.",
        metavar="SIZE",
        check=size,
        **_NGRAM,
    )
    keep_counts: bool = option(False, "Keep the counts in the model directory, for --merge.", **_NGRAM)
    merge: tuple[str, ...] = option(
        (),
        "In place of text, add the counts of these models, trained with --keep-counts on parts of it and the same vocabulary.",
        metavar="DIR",
        multiple=True,
        more=lambda argument: True,
        **_NGRAM,
    )
    arpa: str | None = option(None, "Also write the model to this ARPA file.", metavar="FILE", **_NGRAM)

    embedding: int = option(
        0,
        "Width of the embeddings; 0: --hidden. The last layer has this width too, unless --untied.",
        metavar="N",
        **_RECURRENT,
    )
    output_bias: bool = option(False, "A bias in the output layer also when it is tied.", **_RECURRENT)
    adaptive: str | None = option(
        None,
        "Adaptive softmax for large vocabularies in the order of frequency (Grave et al. 2017): tokens from each of these"
        " numbers on form a cluster, which costs less than the one before it. Implies --untied.",
        metavar="N,N,...",
        check=cutoffs,
        **{**_RECURRENT, "architectures": (*_RECURRENT["architectures"], "transformer-xl")},
    )
    first_state: bool = option(False, "Learn the state before the first token.", **_RECURRENT)
    input_dropout: float | None = option(
        None, "Dropout of the embeddings, if it is not --dropout.", low=0, high=0.9, metavar="P", **_RECURRENT
    )
    layer_dropout: float | None = option(
        None, "Dropout between layers, if it is not --dropout.", low=0, high=0.9, metavar="P", **_RECURRENT
    )
    locked_dropout: bool = option(
        False, "Drop the same elements at all steps of a sequence (variational dropout).", **_RECURRENT
    )
    word_dropout: float = option(
        0.0, "Probability of dropping all occurrences of a word in a batch.", low=0, high=0.9, metavar="P", **_RECURRENT
    )
    weight_dropout: float = option(
        0.0, "Dropout of weights between hidden states (DropConnect).", low=0, high=0.9, metavar="P", **_RECURRENT
    )
    activation_penalty: float = option(
        0.0, "Penalty on the squares of the outputs (AR).", flag="ar", low=0, high=1e6, metavar="X", **_RECURRENT
    )
    change_penalty: float = option(
        0.0,
        "Penalty on the squares of changes of the outputs from step to step (TAR).",
        flag="tar",
        low=0,
        high=1e6,
        metavar="X",
        **_RECURRENT,
    )
    initial_range: float = option(
        0.0, "Initial weights are uniform within this; 0: 1/sqrt(--hidden).", low=0, high=1, metavar="X", **_RECURRENT
    )
    vary_context: bool = option(
        False,
        "Vary the length of sequences from batch to batch around --context (one in 20: around half of it), and the learning"
        " rate with it, as AWD-LSTM does.",
        **_RECURRENT,
    )
    key_value_heads: int = option(
        0,
        "Heads of keys and values, each shared by a group of attention heads; 0: as many as --heads.",
        metavar="N",
        **_MODERN,
    )
    qk_norm: bool = option(False, "Normalize each query and key; the directory is that of a Qwen3 model.", **_MODERN)
    rope_theta: float = option(
        10000.0, "Base of the rotary positions; larger ones suit longer contexts.", low=2, metavar="X", **_MODERN
    )

    def check(self) -> None:
        """Raise UsageError for options that cannot be combined."""
        check_architecture(self, self.arch)
        if self.vectors is not None and self.init is not None:
            raise UsageError("--vectors does not go with --init, which has embeddings")
        if self.freeze_embeddings and self.vectors is None:
            raise UsageError("--freeze-embeddings goes with --vectors")
        if self.arch == "ngram" and self.order > 7:
            raise UsageError(f"--order {self.order} is not between 1 and 7, as n-gram models need it")
        if self.weights is not None and self.smoothing != "jelinek-mercer":
            raise UsageError("--weights goes with --smoothing jelinek-mercer")
        if self.weights is not None and len(weights(self.weights)) != self.order:
            raise UsageError(
                f"--weights has {len(weights(self.weights))} numbers, --order {self.order} needs {self.order}"
            )
        if self.add != 1.0 and self.smoothing != "add-k":
            raise UsageError("--add goes with --smoothing add-k")
