"""Options of recurrent language models."""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.configs import option
from nlptools.configs.architectures.shared import adaptive, architecture, probability
from nlptools.configs.lm import TrainLM


@dataclass(frozen=True)
class RecurrentOptions(TrainLM):
    """Recurrent network"""

    embedding: int = option(
        0, "Width of the embeddings, and of the last layer unless --untied; 0: --hidden.", metavar="N"
    )
    untied: bool = option(False, "Do not tie the output to the embeddings; the output then has a bias.")
    output_bias: bool = option(False, "Add a bias to a tied output.")
    adaptive: str | None = adaptive(" Implies --untied.")
    first_state: bool = option(False, "Learn the initial state.")
    input_dropout: float | None = probability("Dropout of the embeddings; default: --dropout.", None)
    layer_dropout: float | None = probability("Dropout between layers; default: --dropout.", None)
    locked_dropout: bool = option(False, "Drop the same units at all steps of a sequence (variational dropout).")
    word_dropout: float = probability("Probability of dropping all occurrences of a word in a batch.", 0.0)
    weight_dropout: float = probability("Dropout of the hidden-to-hidden weights (DropConnect).", 0.0)
    activation_penalty: float = option(0.0, "L2 penalty on the outputs (AR).", flag="ar", low=0, high=1e6, metavar="X")
    change_penalty: float = option(
        0.0, "L2 penalty on the change of the outputs between steps (TAR).", flag="tar", low=0, high=1e6, metavar="X"
    )
    initial_range: float = option(
        0.0, "Draw initial weights uniformly from [-X, X]; 0: X is 1/sqrt(--hidden).", low=0, high=1, metavar="X"
    )
    vary_context: bool = option(
        False,
        "Vary the sequence length from batch to batch around --context (in one of 20 batches around half of it), and scale"
        " the learning rate with it, as AWD-LSTM does. Windows in random order keep one length.",
    )

    @property
    def varies_context(self) -> bool:
        return self.vary_context

    @property
    def needs_frequencies(self) -> str | None:
        return None if self.adaptive is None else "--adaptive"


@dataclass(frozen=True)
class RNNOptions(RecurrentOptions):
    """Recurrent network with tanh units (Elman 1990)"""

    arch: str = architecture("rnn")


@dataclass(frozen=True)
class LSTMOptions(RecurrentOptions):
    """Recurrent network with LSTM cells (Hochreiter & Schmidhuber 1997)"""

    arch: str = architecture("lstm")


@dataclass(frozen=True)
class GRUOptions(RecurrentOptions):
    """Recurrent network with GRU cells (Cho et al. 2014)"""

    arch: str = architecture("gru")
