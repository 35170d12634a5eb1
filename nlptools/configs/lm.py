"""Options of training language models."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from typing import Any

from nlptools.configs import check_architecture, option
from nlptools.configs.combinations import check_combinations
from nlptools.configs.lm_presets import PRESETS
from nlptools.configs.ngram import SMOOTHINGS, limits, weights
from nlptools.configs.recurrent import OPTIONS as _RECURRENT
from nlptools.configs.recurrent import cutoffs
from nlptools.configs.units import size
from nlptools.errors import UsageError

_XL: dict[str, Any] = {"architectures": ("transformer-xl",), "section": "Options of Transformer-XL"}
_FEEDFORWARD: dict[str, Any] = {"architectures": ("feedforward",), "section": "Options of feed-forward models"}
_NGRAM: dict[str, Any] = {"architectures": ("ngram",), "section": "Options of n-gram models"}
_ELMO: dict[str, Any] = {"architectures": ("elmo",), "section": "Options of ELMo"}
_MODERN: dict[str, Any] = {"architectures": ("modern",), "section": "Options of modern decoders"}


@dataclass(frozen=True)
class TrainLM:
    """Model options"""

    tokenizer: str = option(
        MISSING,
        "Tokenizer: a name, a SentencePiece .model, a tokenizer.json, a vocabulary, or a model directory.",
        short="-t",
    )
    arch: str = option("transformer", "Architecture.", families=("language", "bidirectional", "n-gram"))
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
        "An output matrix of its own, not that of the embedding; in recurrent models also a bias.",
        architectures=(*_RECURRENT["architectures"], "modern"),
    )
    init: str | None = option(None, "Start from the weights and sizes of this model directory.", metavar="DIR")
    vectors: str | None = option(
        None,
        "Start from the word vectors of this file or directory, in any format that convert reads; tokens without a vector get"
        " random numbers of the same variance. Their size must be that of the embeddings (--hidden).",
        metavar="FILE",
        excludes=("init",),
    )
    freeze_embeddings: bool = option(
        False,
        "Do not train the embeddings of tokens with a vector; a tied output keeps them, too.",
        needs=("vectors",),
    )
    document: str = option(
        "line",
        "Unit of text that an end-of-text token follows: a line, a paragraph (lines up to an empty one), or a file.",
        choices=("line", "paragraph", "file"),
    )
    carry: bool = option(
        False,
        "Read the documents as one stream: models with a state (rnn, lstm, gru, transformer-xl, convolution, feedforward) carry"
        " it from batch to batch, also with --document file; otherwise they read windows in random order. --valid is measured as"
        " by score --carry, each token given all tokens before it, those of earlier documents included.",
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
    clamp_length: int = option(0, "Longer distances count as this one; 0: no limit.", high=1 << 20, metavar="N", **_XL)
    same_length: bool = option(
        False, "Each position sees exactly --memory-length positions before it, in training and in use.", **_XL
    )
    pre_norm: bool = option(
        False,
        "Norms before the layers of each block, which learn faster then; otherwise after them, as published.",
        **_XL,
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
        only={"smoothing": ("jelinek-mercer",)},
        **_NGRAM,
    )
    add: float = option(
        1.0,
        "Number added to each count.",
        low=1e-9,
        high=1e6,
        metavar="K",
        only={"smoothing": ("add-k",)},
        **_NGRAM,
    )
    memory: str | None = option(
        None,
        "Limit of the memory for counts and tables; what exceeds it goes to files beside the output. The vocabulary and up to"
        " 20 bytes for each n-gram of one length are not included. Default: half of the machine's memory.",
        metavar="SIZE",
        check=size,
        free=True,
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
    arpa: str | None = option(None, "Also write the model to this ARPA file.", metavar="FILE", free=True, **_NGRAM)

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
        **{**_RECURRENT, "architectures": (*_RECURRENT["architectures"], "transformer-xl", "elmo")},
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
        " rate with it, as AWD-LSTM does. Windows in random order have one length.",
        **_RECURRENT,
    )
    cells: int = option(
        0,
        "Cells of each LSTM, whose output is projected to --hidden; 0: eight times --hidden.",
        high=1 << 16,
        metavar="N",
        **_ELMO,
    )
    highways: int = option(1, "Highway layers on the filters over the characters.", high=64, metavar="N", **_ELMO)
    layer_norm: bool = option(False, "Normalize the output of each LSTM.", **_ELMO)
    sampled: int = option(
        0,
        "In training, compare each word with N words drawn from the vocabulary, the frequent ones more often, not with all."
        " Expects a vocabulary in the order of frequency. Validation uses all words.",
        metavar="N",
        excludes=("adaptive",),
        **_ELMO,
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
        check_combinations(self)
        if self.arch == "ngram" and self.order > 7:
            raise UsageError(f"--order {self.order} is not between 1 and 7, as n-gram models need it")
        if self.weights is not None and len(weights(self.weights)) != self.order:
            raise UsageError(
                f"--weights has {len(weights(self.weights))} numbers, --order {self.order} needs {self.order}"
            )
