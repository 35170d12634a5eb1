"""Training a language model from text to bundle: `train_lm`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from nlptools import messages
from nlptools.configs import Compute, Training
from nlptools.configs.architectures.elmo import ElmoOptions
from nlptools.configs.lm import TrainLM
from nlptools.errors import BundleError, UsageError
from nlptools.files import streams
from nlptools.models import registry
from nlptools.models.contract import Sizes
from nlptools.text import documents
from nlptools.text.open_words import check_words
from nlptools.text.tokenizer import Tokenizer
from nlptools.training import initial, token_vectors
from nlptools.training.engine.job import Trained, run_job
from nlptools.training.language_model_task import LanguageModelTask


def train_lm(
    inputs: Sequence[str],
    settings: TrainLM,
    run: Training,
    compute: Compute | None = None,
    *,
    encoding_errors: str = "strict",
    invocation: Mapping[str, object] | None = None,
) -> Trained:
    """Train a language model on the text of `inputs` (files; none or `-`: standard input) into `run.output`.

    The same call continues a stopped run. `invocation` goes into the training record. Raises as `engine.job.run_job`.
    """
    if type(settings) is TrainLM:
        settings = registry.options_class(settings.arch, TrainLM)(**settings.shared)
    settings.check()
    run.check()
    compute = compute or Compute()
    inputs = streams.check_inputs(inputs, run.held_out)
    tokenizer = documents.load_tokenizer(settings.tokenizer, settings.vocab, settings.document)
    initial.check_vocabulary("--tokenizer", settings.tokenizer, tokenizer)
    eos = documents.end_of_text(tokenizer, settings.tokenizer)
    config = _config(settings, tokenizer, eos)
    if isinstance(settings, ElmoOptions):
        check_words(tokenizer)
    if settings.carry and not run.held_out and not registry.model_class(settings.arch).streams:
        raise UsageError(f"--carry requires --valid: --arch {settings.arch} has no state to carry in training")
    if settings.needs_frequencies is not None and not _by_frequency(tokenizer):
        messages.warn(
            f"{settings.needs_frequencies}: the vocabulary is not sorted by frequency, so frequent tokens may be treated as rare"
        )
    assert tokenizer.vocab is not None
    vectors = token_vectors.of_options(settings, tokenizer.vocab, config, encoding_errors)
    data = run, compute.seed, inputs, tokenizer, eos, config, vectors, encoding_errors
    if not isinstance(settings, ElmoOptions):
        return run_job(LanguageModelTask(settings, *data), run, compute, invocation)
    from nlptools.training.bidirectional import BidirectionalTask

    return run_job(BidirectionalTask(settings, *data), run, compute, invocation)


def _by_frequency(tokenizer: Tokenizer) -> bool:
    """Whether the vocabulary, without special tokens, is in the order of its counts; True if it has no counts."""
    vocab = tokenizer.vocab
    assert vocab is not None
    special = set(vocab.roles.values())
    counts = [count for id, count in enumerate(vocab.counts) if id not in special]
    return counts == sorted(counts, reverse=True)


def _config(options: TrainLM, tokenizer: Tokenizer, eos: int) -> Sizes:
    """The sizes of the model. Raises UsageError, BundleError if they, or --init, do not fit the other options."""
    assert tokenizer.vocab is not None
    vocab_size = max(len(tokenizer.vocab), eos + 1)
    trained = registry.names(registry.LANGUAGE, registry.BIDIRECTIONAL)
    if options.arch not in trained:
        raise UsageError(f"--arch {options.arch} is not a language model, expected one of {', '.join(trained)}")
    if options.init is None:
        return cast(Sizes, registry.config_class(options.arch).from_options(options, vocab_size))
    config = cast(Sizes, initial.given_config(options.init, options.arch, options))
    if config.vocab_size != vocab_size:
        raise BundleError(f"{options.init}: has {config.vocab_size} tokens, the tokenizer {vocab_size}")
    return config
