"""Several encoder-decoders as one: the mean of their probabilities, token by token.

Sutskever et al. 2014 (arXiv:1409.3215). They may be of different architectures, but share their tokens.
Shapes: B batch, T length, S source length, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from nlptools.errors import BundleError
from nlptools.layers.output import LogProbabilities
from nlptools.models.contract import EncoderDecoder, SourceState


class EnsembleState:
    """The states of the members."""

    def __init__(self, states: list[SourceState]) -> None:
        self.states = states

    def select(self, rows: Tensor, width: int = 1) -> EnsembleState:
        """See `contract.State`."""
        return EnsembleState([state.select(rows, width) for state in self.states])

    @property
    def keeps_attention(self) -> bool:
        """See `contract.SourceState`."""
        return bool(self.states[0].keeps_attention)

    @keeps_attention.setter
    def keeps_attention(self, value: bool) -> None:
        for state in self.states:
            state.keeps_attention = value

    @property
    def attention(self) -> Tensor | None:
        """The mean over the members."""
        each = [state.attention for state in self.states]
        present = [a for a in each if a is not None]
        return torch.stack(present).mean(0) if len(present) == len(each) else None


class Ensemble:
    """See the module's docstring; decodes as any `contract.EncoderDecoder`, and cannot be trained."""

    def __init__(self, models: Sequence[EncoderDecoder]) -> None:
        """Raises BundleError when the members do not have the same tokens."""
        tokens = {(m.output.vocab_size, m.start_token, m.config.eos, m.config.source_vocab_size) for m in models}
        if len(tokens) > 1:
            raise BundleError("the models of an ensemble need the same vocabularies")
        self.models = list(models)
        self.config = models[0].config
        self.output, self.start_token = LogProbabilities(models[0].output.vocab_size), models[0].start_token
        contexts = [m.max_context for m in models if m.max_context is not None]
        self.max_context = min(contexts, default=None)
        self.runs_in_16_bits = all(m.runs_in_16_bits for m in models)
        self.attends = all(m.attends for m in models)

    def encode(self, ids: Tensor, mask: Tensor | None = None, capacity: int | None = None) -> EnsembleState:
        """See `contract.EncoderDecoder`."""
        return EnsembleState([model.encode(ids, mask, capacity) for model in self.models])

    def __call__(self, ids: Tensor, state: EnsembleState) -> tuple[Tensor, EnsembleState]:
        """The "hidden states" of an ensemble are its log-probabilities, (B, T, V) in float32."""
        logprobs, states = [], []
        for model, member in zip(self.models, state.states, strict=True):
            hidden, after = model(ids, member)
            logprobs.append(model.output.logits(hidden).float().log_softmax(-1))
            states.append(after)
        mean = torch.stack(logprobs).logsumexp(0) - math.log(len(logprobs))
        return mean, EnsembleState(states)
