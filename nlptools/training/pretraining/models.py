"""The models of pretraining: new ones, what a directory holds to go on from, and the directories that they become.

A BERT, or one for masked tokens alone, is a `BertWithHeads`; an ELECTRA is a pair, whose discriminator is the directory
and whose generator is the directory `generator` in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nlptools import bundle, messages
from nlptools.configs.pretraining import TrainBert
from nlptools.errors import BundleError, UsageError, display
from nlptools.files import artifacts
from nlptools.models import registry
from nlptools.models.encoders import electra
from nlptools.models.encoders.bert import BertWithHeads, EncoderConfig
from nlptools.models.encoders.electra import Electra
from nlptools.models.encoders.neighbor_attention import look_at_neighbors
from nlptools.text.tokenizer import Tokenizer

GENERATOR = "generator"  # name of the folder
HEADS = {"bert": ("pooler", "masked", "next_sentence"), "mlm": ("masked",)}
_LEAST_POSITIONS = 512


@dataclass(frozen=True)
class Start:
    """What training begins with: sizes, and the weights that there are already, by their names in the model."""

    config: EncoderConfig  # of the model, or of the discriminator
    heads: tuple[str, ...] = ()
    generator: EncoderConfig | None = None
    weights: Mapping[str, Any] = field(default_factory=dict)
    looks_around: bool = False  # see `models.encoders.neighbor_attention`

    def model(self) -> Any:
        """The model, on the CPU in float32. Draws random numbers."""
        if self.generator is not None:
            model: Any = Electra(self.generator, self.config)
        else:
            model = BertWithHeads(self.config, self.heads)
        model.initialize()
        if self.looks_around:
            for part in (model.generator, model.discriminator) if isinstance(model, Electra) else (model,):
                look_at_neighbors(part.encoder)
        wanted = model.state_dict()
        model.load_state_dict({name: self.weights.get(name, tensor) for name, tensor in wanted.items()})
        return model


def start(options: TrainBert, vocab_size: int, pad: int) -> Start:
    """What `options` ask for. Raises UsageError, InputError, BundleError when --init does not go with the rest."""
    if options.init is not None:
        return _given(options, Path(options.init), vocab_size)
    family = "electra" if options.objective == "electra" else "bert"
    config = EncoderConfig(
        vocab_size,
        options.hidden,
        options.layers,
        options.heads,
        options.intermediate or 4 * options.hidden,
        family,
        options.embedding,
        max_position_embeddings=max(_LEAST_POSITIONS, options.longest),
        hidden_dropout=options.dropout,
        attention_dropout=options.dropout,
        pad=pad,
    )
    around = options.attention == "neighbors"
    if family == "electra":
        generator = electra.generator_config(config, options.generator_size)
        return Start(config, generator=generator, looks_around=around)
    return Start(config, HEADS[options.objective], looks_around=around)


def save(
    directory: Path, model: Any, weights: Mapping[str, Any], tokenizer: Tokenizer, record: Mapping[str, Any]
) -> None:
    """Write the bundle of `model` with these `weights`. Raises StreamError."""
    if isinstance(model, Electra):
        generator, discriminator = electra.parts(weights)
        (directory / GENERATOR).mkdir(exist_ok=True)
        bundle.save_encoder(directory / GENERATOR, model.generator, generator, tokenizer, training=record)
        model, weights = model.discriminator, discriminator
    bundle.save_encoder(directory, model, weights, tokenizer, training=record)


# -- going on from a directory ------------------------------------------------------------------------------------------


def _given(options: TrainBert, directory: Path, vocab_size: int) -> Start:
    found = _load(directory, options, vocab_size)
    if options.objective == "electra":
        return _given_pair(options, directory, found, vocab_size)
    if options.objective == "bert" and found.config.family == "electra":
        raise UsageError(
            f"--init {options.init} is an ELECTRA, which knows no next sentence",
            hint="--objective electra or mlm goes on with it",
        )
    heads = HEADS[options.objective]
    _tell(directory, found.heads, heads)
    return Start(found.config, heads, None, found.weights)


def _given_pair(options: TrainBert, directory: Path, found: _Found, vocab_size: int) -> Start:
    """A discriminator, and its generator where the folder holds one that fits; or the discriminator that begins as a masked
    language model: Clark et al. 2020, section 3.2, saw some learn nothing at all when they did not begin with one.
    """
    if found.config.family == "electra" and "masked" in found.heads:
        raise UsageError(
            f"--init {options.init} is a generator, expected a discriminator", hint="--objective mlm goes on with it"
        )
    _tell(directory, found.heads, ("replaced",))
    sizes = replace(found.config, family="electra")
    weights = {f"discriminator.{name}": tensor for name, tensor in found.weights.items()}
    config = electra.generator_config(sizes, options.generator_size)
    if not (directory / GENERATOR / "config.json").is_file():
        messages.note(f"{display(str(directory))}: no generator, a new one is drawn")
        around = options.attention == "neighbors" and _began_with_neighbors(directory)
        return Start(sizes, generator=config, weights=weights, looks_around=around)
    other = _load(directory / GENERATOR, options, vocab_size)
    if "masked" not in other.heads:
        raise BundleError(f"{display(str(directory / GENERATOR))}: no head for masked tokens: not a generator")
    same = ("vocab_size", "embedding_size", "max_position_embeddings", "type_vocab_size")
    wrong = [name for name in same if getattr(other.config, name) != getattr(sizes, name)]
    if wrong:
        raise BundleError(f"{display(str(directory / GENERATOR))}: {wrong[0]} is not that of the discriminator")
    weights |= {f"generator.{name}": tensor for name, tensor in other.weights.items()}
    return Start(sizes, generator=other.config, weights=weights)


def _began_with_neighbors(directory: Path) -> bool:
    """Whether the positions in a directory began as waves, which a new generator that shares them can look around by."""
    record = directory / "training.json"
    settings = artifacts.read_json(record).get("settings", {}) if record.is_file() else {}
    return isinstance(settings, dict) and settings.get("attention") == "neighbors" and settings.get("init") is None


@dataclass(frozen=True)
class _Found:
    """An encoder in a directory."""

    config: EncoderConfig  # with the dropout of this run
    heads: tuple[str, ...]
    weights: dict[str, Any]


def _load(directory: Path, options: TrainBert, vocab_size: int) -> _Found:
    """The encoder in a directory. Raises InputError, UsageError, BundleError."""
    bundle.check_directory(directory)
    artifacts.verify(directory)
    arch, model = bundle.load_model(directory, artifacts.read_json(directory / "config.json"))
    if registry.find(arch).family != registry.ENCODER:
        raise UsageError(f"--init {display(str(directory))} is no BERT and no ELECTRA")
    config = model.config
    if vocab_size > config.vocab_size:
        raise BundleError(
            f"{display(str(directory))}: the tokenizer has ids up to {vocab_size - 1}, the model {config.vocab_size} tokens"
        )
    if options.longest > config.max_position_embeddings:
        raise UsageError(
            f"sequences of {options.longest} tokens are longer than what --init {display(str(directory))} has"
            f" positions for, {config.max_position_embeddings}"
        )
    config = replace(config, hidden_dropout=options.dropout, attention_dropout=options.dropout)
    return _Found(config, model.heads, dict(model.state_dict()))


def _tell(directory: Path, has: tuple[str, ...], wanted: tuple[str, ...]) -> None:
    """Say which heads are drawn anew, and which are not gone on with."""
    names = {"masked": "masked tokens", "next_sentence": "the next sentence", "replaced": "replaced tokens"}
    new = [names.get(head, head) for head in wanted if head not in has]
    left = [names.get(head, head) for head in has if head not in wanted]
    if new:
        messages.note(f"{display(str(directory))}: lacks a head, drawn anew: {', '.join(new)}")
    if left:
        messages.note(f"{display(str(directory))}: has a head that is not trained, left out: {', '.join(left)}")
