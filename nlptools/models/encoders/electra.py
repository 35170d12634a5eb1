"""ELECTRA while it is pretrained: a generator that fills in masked tokens, and the discriminator that is kept.

Clark et al. 2020, "ELECTRA" (arXiv:2003.10555), section 3.2: both share their embeddings - of tokens, positions and
segments, and the norm over their sum - and project them to their own hidden sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from torch import Tensor, nn

from nlptools.models.encoders.bert import EncoderConfig
from nlptools.models.encoders.bert_with_heads import BertWithHeads

SHARED = ("token_embedding", "position_embedding", "type_embedding", "embedding_norm")


class Electra(nn.Module):
    """Both models. The discriminator owns the embeddings, so each weight exists once.

    Attributes:
        generator: predicts the token at a masked position.
        discriminator: predicts which tokens were replaced.
    """

    runs_in_16_bits = True

    def __init__(self, generator: EncoderConfig, discriminator: EncoderConfig) -> None:
        """The embeddings of both have to be of one size."""
        super().__init__()
        self.discriminator = BertWithHeads(discriminator, ("replaced",))
        self.generator = BertWithHeads(generator, ("masked",))
        owner, borrower = self.discriminator.encoder, self.generator.encoder
        for name in SHARED:
            part = getattr(owner, name)
            assert all(
                a.shape == b.shape for a, b in zip(part.parameters(), getattr(borrower, name).parameters(), strict=True)
            )
            delattr(borrower, name)
            borrower.__dict__[name] = part  # a plain attribute: `forward` sees it, `parameters` and `state_dict` do not

    def initialize(self) -> None:
        """Draw all weights as BERT does."""
        self.generator.initialize()
        self.discriminator.initialize()


def generator_config(config: EncoderConfig, share: float) -> EncoderConfig:
    """The generator for a discriminator of sizes `config`: as many heads, of the same size, as come nearest to `share`."""
    heads = max(1, round(share * config.num_attention_heads))
    size = config.hidden_size // config.num_attention_heads
    inner = max(1, config.intermediate_size * heads // config.num_attention_heads)
    return replace(config, hidden_size=heads * size, num_attention_heads=heads, intermediate_size=inner)


def parts(weights: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The weights of the generator and of the discriminator, each with the embeddings, from the weights of an `Electra`."""
    discriminator = {n.removeprefix("discriminator."): t for n, t in weights.items() if n.startswith("discriminator.")}
    generator = {n.removeprefix("generator."): t for n, t in weights.items() if n.startswith("generator.")}
    shared = tuple(f"encoder.{name}." for name in SHARED)
    generator |= {name: tensor for name, tensor in discriminator.items() if name.startswith(shared)}
    return generator, discriminator
