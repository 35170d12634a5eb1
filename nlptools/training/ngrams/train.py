"""Training an n-gram model from text to bundle: `train_ngrams`."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from nlptools import __version__, bundle, messages
from nlptools.configs import Training, ngram
from nlptools.configs.lm import TrainLM
from nlptools.corpora import token_file
from nlptools.corpora.token_file import TextCounts
from nlptools.environment import available_threads
from nlptools.errors import DataError, OutputError, UsageError, display
from nlptools.files import streams, whole_directory
from nlptools.files.streams import Block, Output
from nlptools.inference.ngram_scorer import sentences, total_score
from nlptools.inference.perplexity import perplexities
from nlptools.models.language import arpa
from nlptools.models.language.ngram import SPECIAL, Longs, NGramConfig, NGrams
from nlptools.text import documents
from nlptools.text.builtin import NamedTokenizer
from nlptools.text.tokenizer import Tokenizer
from nlptools.text.unknown import UnknownTokens
from nlptools.text.vocab import Vocab
from nlptools.training.ngrams import counting, smoothing
from nlptools.training.ngrams.counting import CountedLevel
from nlptools.training.ngrams.weights import fitted_weights


def train_ngrams(
    inputs: Sequence[str],
    settings: TrainLM,
    run: Training,
    *,
    encoding_errors: str = "strict",
    invocation: Mapping[str, Any] | None = None,
) -> NGrams:
    """Count the n-grams of `inputs` (files; none or `-`: standard input), smooth them, and write the model to `run.output`.

    The output appears when it is complete. A tokenizer without a vocabulary gets one of all tokens of the text.

    Raises:
        UsageError, InputError, DataError, BundleError: see `streams.blocks`, `documents.load_tokenizer`.
        OutputError: the output or the ARPA file exists, and `run.force` is not set or the output is no model.
        StreamError: the disk is full.
    """
    inputs = streams.check_inputs(inputs, run.held_out)
    _check(settings, run)
    began = time.monotonic()
    tokenizer, eos, ids, text = _read(inputs, settings, run.force, encoding_errors)
    assert tokenizer.vocab is not None
    V = max(len(tokenizer.vocab), eos + 1)
    bos = tokenizer.vocab.bos
    config = NGramConfig(V, settings.order, bos) if bos not in (None, eos) else NGramConfig(V + 1, settings.order, V)
    messages.note(
        f"text: {messages.counted(text.tokens, 'token')} in {messages.counted(text.documents, 'document')},"
        f" {config.vocab_size:,} types ({time.monotonic() - began:.1f} s)"
    )
    levels = counting.count(sentences(ids, eos, config.bos, tokenizer.vocab.unk), config)
    valid = (
        None if run.valid is None else list(_encoded([run.valid], tokenizer, eos, settings.document, encoding_errors))
    )
    model = smoothing.estimate(levels, config, _method(settings, levels, config, valid), _limits(settings))
    metrics = {"ngrams": [len(level) for level in model.levels], "seconds": time.monotonic() - began}
    if valid is not None:
        measured = perplexities(*total_score(model, valid, eos, tokenizer.vocab.unk))
        metrics |= {f"valid_{name}": measured[name] for name in ("loss", "perplexity")}
    record = {
        "nlptools": __version__,
        "status": "finished",
        "invocation": dict(invocation or {}),
        "settings": asdict(settings),
        "data": {"train": {"inputs": list(inputs), **asdict(text)}},
        "metrics": metrics,
    }
    with whole_directory.replacing(run.output) as folder:
        bundle.save(
            folder, "ngram", model, model.arrays(), tokenizer, eos=eos, document=settings.document, training=record
        )
    if settings.arpa is not None:
        with Output(settings.arpa, force=run.force) as out:
            arpa.write(model, arpa.names(tokenizer.vocab, config, eos), out, available_threads())
    _report(run.output, model, metrics)
    return model


def _check(options: TrainLM, run: Training) -> None:
    """Raise UsageError for options that cannot be combined, OutputError for outputs that exist, before text is counted."""
    options.check()
    if options.smoothing == "jelinek-mercer" and options.weights is None and run.valid is None:
        raise UsageError("--smoothing jelinek-mercer needs --weights, or --valid to fit them to")
    whole_directory.check_target(run.output, "a model", _is_model, force=run.force)
    if options.arpa is not None and Path(options.arpa).is_file() and not run.force:
        raise OutputError(f"{display(options.arpa)}: exists", hint="--force replaces it")


def _is_model(folder: Path) -> bool:
    return (folder / "training.json").is_file() and (folder / "config.json").is_file()


def _report(output: str, model: NGrams, metrics: Mapping[str, Any]) -> None:
    name = display(output)
    sizes = ", ".join(f"{len(level):,} {n}-grams" for n, level in enumerate(model.levels, 1))
    valid = f", validation perplexity {metrics['valid_perplexity']:.2f}" if "valid_perplexity" in metrics else ""
    messages.note(f"{name}: {sizes} in {metrics['seconds']:.1f} s{valid}")
    messages.note(f"try: nlptools score {name} --per total FILE    or: echo 'Some words' | nlptools generate {name}")


def _limits(options: TrainLM) -> tuple[int, ...]:
    return () if options.prune is None else ngram.limits(options.prune)


def _method(
    options: TrainLM, levels: Sequence[CountedLevel], config: NGramConfig, valid: Sequence[Any] | None
) -> smoothing.Smoothing:
    """The smoothing that the options name."""
    if options.smoothing == "add-k":
        return smoothing.add_k(options.add)
    if options.smoothing == "jelinek-mercer":
        if options.weights is not None:
            numbers = ngram.weights(options.weights)
        else:
            assert valid is not None
            held_out = np.concatenate([ids for ids, _ in valid])
            numbers = fitted_weights(levels, config, sentences(held_out, int(held_out[-1]), config.bos, None))
            messages.note("weights: " + ", ".join(f"{number:.4f}" for number in numbers))
        return smoothing.jelinek_mercer(
            np.array(numbers) / np.cumsum([max(0.0, 1 - sum(numbers)) + numbers[0], *numbers[1:]])
        )
    return {
        "kneser-ney": smoothing.kneser_ney,
        "absolute": smoothing.absolute,
        "witten-bell": smoothing.witten_bell,
    }[options.smoothing]


# -- reading ------------------------------------------------------------------------------------------------------------


def _read(
    inputs: Sequence[str], settings: TrainLM, force: bool, errors: str
) -> tuple[Tokenizer, int, Longs, TextCounts]:
    """The tokenizer, its end-of-text token, and the ids and counts of the text, in which this token ends each document."""
    tokenizer = documents.load_tokenizer(settings.tokenizer, settings.vocab, settings.document)
    grows = tokenizer.vocab is None
    reading = _growing(tokenizer, settings.document) if grows else tokenizer
    assert reading.vocab is not None
    eos = documents.end_of_text(reading, settings.tokenizer)
    unknown = UnknownTokens(reading, "the training data")
    parts, counts = [np.zeros(0, np.int32)], TextCounts()
    for ids, part in _encoded(inputs, reading, eos, settings.document, errors, unknown):
        parts.append(ids.astype(np.int32))
        counts += part
    ids = np.concatenate(parts)
    if counts.words == 0:
        raise DataError("no training data: the input has no words")
    if not grows:
        unknown.report(force)
        return tokenizer, eos, ids, counts
    places, vocab = _sorted(list(reading.vocab.ids), ids)
    return NamedTokenizer(tokenizer.kind, vocab, tokenizer.lowercase), int(places[eos]), places[ids], counts


def _encoded(
    inputs: Sequence[str],
    tokenizer: Tokenizer,
    eos: int,
    document: str,
    errors: str,
    unknown: UnknownTokens | None = None,
) -> Iterator[tuple[np.ndarray, TextCounts]]:
    blocks: Iterable[Block] = streams.all_blocks(inputs, errors)
    return token_file.encode(blocks, unknown or UnknownTokens(tokenizer, "the text"), eos, document, 1)


def _growing(tokenizer: Tokenizer, document: str) -> NamedTokenizer:
    """The tokenizer with a vocabulary to which each new token is added."""
    vocab = Vocab([*SPECIAL, "\n"] if documents.has_line_ends(tokenizer.kind, document) else SPECIAL)
    ids: defaultdict[str, int] = defaultdict(None, vocab.ids)
    ids.default_factory = ids.__len__
    vocab.ids, vocab.unk = ids, None  # no token is unknown
    return NamedTokenizer(tokenizer.kind, vocab, tokenizer.lowercase)


def _sorted(tokens: Sequence[str], ids: Longs) -> tuple[np.ndarray, Vocab]:
    """The new ids of `tokens`, the most frequent first after the special ones, and the vocabulary in this order."""
    counts = np.bincount(ids, minlength=len(tokens))
    first = len(SPECIAL)
    order = np.concatenate([np.arange(first), first + np.argsort(-counts[first:], kind="stable")])
    places = np.empty(len(tokens), np.int64)
    places[order] = np.arange(len(tokens))
    return places, Vocab([tokens[i] for i in order.tolist()], counts[order].tolist())
