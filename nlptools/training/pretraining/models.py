"""Models for pretraining: creating new ones, starting from a directory, and saving.

A BERT, with or without next-sentence prediction, is a `BertWithHeads`. An ELECTRA is saved as a pair: the discriminator in
the directory itself, the generator in its subdirectory `generator`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from torch import Tensor

from nlptools import bundle, messages
from nlptools.configs.pretraining import TrainBert
from nlptools.errors import BundleError, UsageError, display
from nlptools.files import artifacts
from nlptools.models.encoders import electra
from nlptools.models.encoders.bert import EncoderConfig
from nlptools.models.encoders.bert_with_heads import BertWithHeads
from nlptools.models.encoders.electra import Electra
from nlptools.models.encoders.neighbor_attention import look_at_neighbors
from nlptools.text.tokenizer import Tokenizer

GENERATOR = "generator"  # name of the subdirectory
HEADS = {"bert": ("pooler", "masked", "next_sentence"), "mlm": ("masked",)}
_LEAST_POSITIONS = 512
_DISCRIMINATORS = ("bert", "electra")  # families of encoders that can initialize an ELECTRA


@dataclass(frozen=True)
class Start:
    """The starting point of training: sizes, and existing weights by their names in the model."""

    config: EncoderConfig  # of the model, or of the discriminator
    heads: tuple[str, ...] = ()
    generator: EncoderConfig | None = None
    weights: Mapping[str, Tensor] = field(default_factory=dict)
    looks_around: bool = False  # see `models.encoders.neighbor_attention`

    def model(self) -> BertWithHeads | Electra:
        """The model, on the CPU in float32. Draws random numbers."""
        model: BertWithHeads | Electra
        if self.generator is not None:
            model = Electra(self.generator, self.config)
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
    """The starting point that `options` describe.

    Raises:
        UsageError, InputError, BundleError: --init is unreadable, or does not fit the other options.
    """
    if options.init is not None:
        return _from_directory(options, Path(options.init), vocab_size)
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
    directory: Path,
    model: BertWithHeads | Electra,
    weights: Mapping[str, Tensor],
    tokenizer: Tokenizer,
    record: Mapping[str, object],
) -> None:
    """Write the bundle of `model` with these `weights`. Raises StreamError."""
    if isinstance(model, Electra):
        generator, discriminator = electra.parts(weights)
        (directory / GENERATOR).mkdir(exist_ok=True)
        bundle.save_encoder(directory / GENERATOR, model.generator, generator, tokenizer, training=record)
        model, weights = model.discriminator, discriminator
    bundle.save_encoder(directory, model, weights, tokenizer, training=record)


# -- starting from a directory ------------------------------------------------------------------------------------------


def _from_directory(options: TrainBert, directory: Path, vocab_size: int) -> Start:
    encoder = _load(directory, options, vocab_size)
    if options.objective == "electra":
        return _electra_from_directory(options, directory, encoder, vocab_size)
    layout = encoder.config.layout
    if options.objective == "bert" and layout != "bert":
        also = "electra or " if layout == "electra" else ""
        raise UsageError(
            f"--init {options.init} is a model of the family {layout}, which has no next-sentence prediction",
            hint=f"continue it with --objective {also}mlm",
        )
    heads = HEADS[options.objective]
    _report_heads(directory, encoder.heads, heads)
    return Start(encoder.config, heads, None, encoder.weights)


def _electra_from_directory(options: TrainBert, directory: Path, encoder: _Encoder, vocab_size: int) -> Start:
    """A discriminator, with the generator of its subdirectory if there is one, else a new generator.

    The discriminator may be a masked language model: Clark et al. 2020, section 3.2, report discriminators that learn
    nothing at all unless they start from one.
    """
    if encoder.config.layout == "electra" and "masked" in encoder.heads:
        raise UsageError(
            f"--init {options.init} is a generator, expected a discriminator", hint="continue it with --objective mlm"
        )
    if encoder.config.layout not in _DISCRIMINATORS:
        raise UsageError(
            f"--init {options.init} is a model of the family {encoder.config.layout}, which cannot become a discriminator",
            hint="continue it with --objective mlm",
        )
    _report_heads(directory, encoder.heads, ("replaced",))
    sizes = replace(encoder.config, layout="electra")
    weights = {f"discriminator.{name}": tensor for name, tensor in encoder.weights.items()}
    path = directory / GENERATOR
    if not (path / "config.json").is_file():
        messages.note(f"{display(str(directory))}: no generator, a new one is initialized")
        around = options.attention == "neighbors" and _began_with_neighbors(directory)
        config = electra.generator_config(sizes, options.generator_size)
        return Start(sizes, generator=config, weights=weights, looks_around=around)
    generator = _load(path, options, vocab_size)
    if "masked" not in generator.heads:
        raise BundleError(f"{display(str(path))}: no head for masked tokens: not a generator")
    same = ("vocab_size", "embedding_size", "max_position_embeddings", "type_vocab_size")
    wrong = [name for name in same if vars(generator.config)[name] != vars(sizes)[name]]
    if wrong:
        raise BundleError(f"{display(str(path))}: {wrong[0]} differs from the discriminator")
    weights |= {f"generator.{name}": tensor for name, tensor in generator.weights.items()}
    return Start(sizes, generator=generator.config, weights=weights)


def _began_with_neighbors(directory: Path) -> bool:
    """Whether the position embeddings in a directory were initialized as sinusoids.

    A new generator shares them, and needs sinusoids for heads that attend to neighbors.
    """
    record = directory / "training.json"
    settings = artifacts.read_json(record).get("settings", {}) if record.is_file() else {}
    return isinstance(settings, dict) and settings.get("attention") == "neighbors" and settings.get("init") is None


@dataclass(frozen=True)
class _Encoder:
    """An encoder in a directory."""

    config: EncoderConfig  # with the dropout of this run
    heads: tuple[str, ...]
    weights: dict[str, Tensor]


def _load(directory: Path, options: TrainBert, vocab_size: int) -> _Encoder:
    """The encoder in a directory. Raises InputError, UsageError, BundleError."""
    bundle.check_directory(directory)
    artifacts.verify(directory)
    model = cast(BertWithHeads, bundle.load_model(directory, artifacts.read_json(directory / "config.json"))[1])
    if not isinstance(model.config, EncoderConfig):
        raise UsageError(f"--init {display(str(directory))} is no encoder with learned positions, such as a BERT")
    config = model.config
    if vocab_size > config.vocab_size:
        raise BundleError(
            f"{display(str(directory))}: the tokenizer has ids up to {vocab_size - 1}, but the model only"
            f" {config.vocab_size} tokens"
        )
    most = config.max_position_embeddings - config.first_position
    if options.longest > most:
        raise UsageError(
            f"sequences of {options.longest} tokens are longer than the {most} positions of"
            f" --init {display(str(directory))}"
        )
    config = replace(config, hidden_dropout=options.dropout, attention_dropout=options.dropout)
    return _Encoder(config, model.heads, dict(model.state_dict()))


def _report_heads(directory: Path, has: tuple[str, ...], wanted: tuple[str, ...]) -> None:
    """Report which heads are initialized at random, and which are left out."""
    names = {"masked": "masked tokens", "next_sentence": "the next sentence", "replaced": "replaced tokens"}
    new = [names.get(head, head) for head in wanted if head not in has]
    left = [names.get(head, head) for head in has if head not in wanted]
    if new:
        messages.note(f"{display(str(directory))}: missing heads, initialized at random: {', '.join(new)}")
    if left:
        messages.note(
            f"{display(str(directory))}: heads that this objective does not train, left out: {', '.join(left)}"
        )
