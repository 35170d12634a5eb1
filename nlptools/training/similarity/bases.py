"""The pretrained models that `finetune --task similarity` takes: encoders, and decoders as in Qwen3-Embedding and EmbeddingGemma.

Shapes: B batch, T length, D hidden.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

import torch
from torch import Tensor, nn

from nlptools import bundle
from nlptools.batches.encoder_rows import UNLIMITED, Marks
from nlptools.batches.features import Encoding
from nlptools.configs.lora import Adapted
from nlptools.errors import BundleError, UsageError, display
from nlptools.inference.opening import Opened
from nlptools.models import registry
from nlptools.models.contract import Hidden, LanguageModel
from nlptools.models.encoders.bert import EncoderConfig
from nlptools.models.huggingface import peft
from nlptools.models.tasks.heads import EncoderWithHeads
from nlptools.models.tasks.with_heads import LANGUAGE, WithHeads
from nlptools.tasks import task as tasks
from nlptools.text.text_boundaries import around_text
from nlptools.training import lora


class SentenceBase(Protocol):
    """A pretrained model.

    Attributes:
        pad: the token for padding.
        adapter: the low-rank adapters to train; None: all weights are trained.
    """

    @property
    def pad(self) -> int: ...

    @property
    def adapter(self) -> peft.Adapter | None: ...

    def encoding(self, max_length: int, threads: int) -> Encoding:
        """How texts become rows, with the tokens that `embed` puts around them. Raises BundleError."""

    def model(self, seed: int) -> EncoderWithHeads:
        """The model to train, on the CPU in float32, with adapters if any."""

    def save(
        self,
        directory: Path,
        model: EncoderWithHeads,
        weights: Mapping[str, Tensor],
        training: Mapping[str, object],
        files: Sequence[str],
    ) -> None:
        """Write the bundle of the model with these weights; `files` are in the directory already. Raises StreamError."""


@dataclass(frozen=True)
class EncoderBase:
    """An encoder, without other heads than its pooler, which stays the same. Implements `SentenceBase`."""

    base: bundle.Bundle[EncoderWithHeads]
    adapter: peft.Adapter | None

    @property
    def pad(self) -> int:
        return int(cast(EncoderConfig, self.base.model.config).pad)

    def encoding(self, max_length: int, threads: int) -> Encoding:
        return tasks.pretrained_encoding(self.base, max_length, threads, training=True)

    def model(self, seed: int) -> EncoderWithHeads:
        base = self.base
        heads = ("pooler",) if "pooler" in base.heads else ()
        torch.manual_seed(seed)
        model = registry.build(base.arch, base.model.config, heads=heads)
        assert isinstance(model, EncoderWithHeads)
        own = base.model.state_dict()
        model.load_state_dict({name: own[name] for name in model.state_dict()})
        if self.adapter is not None:
            lora.adapt(model, base.arch, self.adapter.settings, seed, own)
        for name, weight in model.named_parameters():
            if name.startswith("encoder.pooler."):
                weight.requires_grad_(False)
        return model

    def save(
        self,
        directory: Path,
        model: EncoderWithHeads,
        weights: Mapping[str, Tensor],
        training: Mapping[str, object],
        files: Sequence[str],
    ) -> None:
        base = self.base
        bundle.save_encoder(
            directory,
            model,
            weights,
            base.tokenizer,
            arch=base.arch,
            training=training,
            files=files,
            adapter=self.adapter,
        )


class SentenceDecoder(WithHeads):
    """A decoder for pooled states; its output matrix, if it has one, is not trained."""

    def __init__(self, model: LanguageModel, both_ways: bool) -> None:
        """`both_ways`: whether positions see those after them, and thus padding."""
        super().__init__(model, (LANGUAGE,))
        self.both_ways = both_ways

    def states(self, ids: Tensor, mask: Tensor | None = None, types: Tensor | None = None) -> Hidden:
        """(B, T) -> the last states (B, T, D), without the other layers; 0 at padding of a model that reads both ways, which
        takes rows of one length at a time.
        """
        if mask is None or not self.both_ways:
            return Hidden(self.encoder.states(ids).last, ())
        lengths, last = mask.sum(1), []
        for length in sorted(set(lengths.tolist())):
            states = self.encoder.states(ids[lengths == length, :length]).last
            last.append(nn.functional.pad(states, (0, 0, 0, ids.shape[1] - length)))
        return Hidden(torch.cat(last)[lengths.argsort(stable=True).argsort()], ())


@dataclass(frozen=True)
class DecoderBase:
    """A language model, or its layers alone, which may read in both directions. Implements `SentenceBase`."""

    base: bundle.Bundle[LanguageModel]
    adapter: peft.Adapter | None

    @property
    def pad(self) -> int:
        return self.base.eos

    def encoding(self, max_length: int, threads: int) -> Encoding:
        base = self.base
        before, after = around_text(base.tokenizer, base.path)
        if max(len(before), len(after)) > 1:
            raise BundleError(f"{display(str(base.path))}: the tokenizer puts several tokens before or after a text")
        longest = min(max_length or UNLIMITED, base.model.max_context or UNLIMITED)
        first, last = next(iter(before), None), next(iter(after), None)
        # an empty text without tokens around it is the start token, as in `embed`
        return Encoding(base.tokenizer, Marks(first, last, pad=base.start, unk=base.start), longest, 1, threads)

    def model(self, seed: int) -> EncoderWithHeads:
        base = self.base
        torch.manual_seed(seed)
        model = cast(LanguageModel, registry.build(base.arch, base.model.config))
        own = base.weights()
        model.load_state_dict(own)
        if self.adapter is not None:
            lora.adapt(model, base.arch, self.adapter.settings, seed, own)
        for name, weight in cast(nn.Module, model).named_parameters():
            if name.startswith("output"):
                weight.requires_grad_(False)
        return SentenceDecoder(model, both_ways=not vars(model.config).get("causal", True))

    def save(
        self,
        directory: Path,
        model: EncoderWithHeads,
        weights: Mapping[str, Tensor],
        training: Mapping[str, object],
        files: Sequence[str],
    ) -> None:
        base, start = self.base, "encoder."
        own = {name.removeprefix(start): tensor for name, tensor in weights.items()}
        bundle.save(
            directory,
            base.arch,
            cast(LanguageModel, model.encoder),
            own,
            base.tokenizer,
            eos=base.eos,
            start=base.start,
            ends=base.ends,
            document=base.document,
            training=training,
            files=files,
            adapter=self.adapter,
            keeps_around=True,
        )


_Maker = Callable[[bundle.Bundle, "peft.Adapter | None"], SentenceBase]
_BASES: Mapping[str, _Maker] = {
    registry.ENCODER: cast(_Maker, EncoderBase),
    registry.LANGUAGE: DecoderBase,
    registry.READER: DecoderBase,
}


def of(opened: Opened, settings: Adapted, name: str) -> SentenceBase:
    """What `name` opened as. Raises UsageError for other models than encoders and decoders, and as `lora.adapter`."""
    base = _BASES.get(registry.find(opened.bundle.arch).family)
    if base is None:
        raise UsageError(f"--task similarity: {display(name)} is not an encoder or a decoder")
    return base(opened.bundle, lora.adapter(settings, opened.bundle, name))
