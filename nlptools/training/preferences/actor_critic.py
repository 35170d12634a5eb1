"""A language model that is trained by rewards, with a value for each token.

Schulman et al. 2017 (arXiv:1707.06347). Values are a linear map of the hidden states of the policy, or of a separate model that
starts as its copy. Shapes: R rows of a batch, T length, P targets, D hidden.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nlptools.models.contract import LanguageModel
from nlptools.training.preferences.policy import packed_hidden


class ActorCritic(nn.Module):
    """See the module's docstring. Without values (GRPO, RLOO), all values are 0. The tokens `forbidden` have probability 0."""

    forbidden: Tensor

    def __init__(
        self, policy: LanguageModel, values: bool, critic: LanguageModel | None = None, forbidden: Sequence[int] = ()
    ) -> None:
        super().__init__()
        self.register_buffer("forbidden", torch.tensor(forbidden, dtype=torch.int64), persistent=False)
        self.policy, self.critic = policy, critic
        self.runs_in_16_bits = policy.runs_in_16_bits
        self.value = nn.Linear(policy.config.hidden_size, 1) if values else None
        if self.value is not None:
            nn.init.zeros_(self.value.weight)
            nn.init.zeros_(self.value.bias)

    def read(self, ids: Tensor, targets: Tensor, segments: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(R, T) ids, targets and segments -> (P,) the log-probability of each target, the entropy of the distribution that it
        comes from, in nats, and the value before it.
        """
        hidden, chosen, _ = packed_hidden(self.policy, ids, targets, segments)
        logs, entropies = self.policy.output.chosen_log_probabilities(hidden, chosen, self.forbidden)
        if self.value is None:
            return logs, entropies, torch.zeros_like(logs)
        if self.critic is not None:
            hidden, _, _ = packed_hidden(self.critic, ids, targets, segments)
        # float32 also in 16 bits: an update changes a value by little
        values = F.linear(hidden.float(), self.value.weight.float(), self.value.bias.float())
        return logs, entropies, values.squeeze(1)
