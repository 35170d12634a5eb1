"""Models and tokenizers as functions from texts to the new keys of their rows, for engines that deal rows to processes.

Each function here loads once and returns a `RowFilter`. It raises what `loading.load` raises, for the model and its settings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import islice

from nlptools.configs import Compute
from nlptools.configs.embed import Embed
from nlptools.configs.finetuning import Predict
from nlptools.configs.generation import Generate
from nlptools.configs.scoring import Score
from nlptools.configs.tasks.files import Files
from nlptools.configs.text import Tokenize
from nlptools.corpora.row_outputs import ERROR
from nlptools.corpora.row_parts import InputRow
from nlptools.errors import DataError, UsageError, display
from nlptools.files import streams
from nlptools.inference import loading, uses
from nlptools.json_types import JsonObject

# From texts, and the number of the first one from 0, to new keys and values for the row of each.
RowFilter = Callable[[list[str], int], list[JsonObject]]
BATCH = 1024  # rows that a model gets together
# The fault of a row; other errors concern all rows, or pass.
ROW_ERRORS = (DataError, ValueError, TypeError, LookupError)


def embedder(model: str, settings: Embed, compute: Compute) -> RowFilter:
    """`embedding`: the vector of each text."""
    loaded = loading.load(model, settings=settings, compute=compute)
    return lambda texts, first: [{"embedding": vector} for vector in loaded.embed(texts).tolist()]


def predictor(model: str, settings: Predict, compute: Compute) -> RowFilter:
    """`prediction`: the line that `predict` writes."""
    loaded = loading.load(model, settings=settings, files=Files(), compute=compute)

    def predictions(texts: list[str], first: int) -> list[JsonObject]:
        lines = [line for window in loaded.lines([streams.hold_text(texts)]) for line in window]
        if len(lines) != len(texts):
            raise UsageError(f"{display(model)} writes {len(lines)} lines for {len(texts)} rows, expected one for each")
        return [{"prediction": line} for line in lines]

    return predictions


def generator(model: str, settings: Generate, compute: Compute, seed: int) -> RowFilter:
    """`generated`: a list of texts, with the random numbers that `generate` draws for lines of the same numbers."""
    settings.check()
    where = loading.source(model, use=uses.GENERATE)
    if where.serves(uses.CONTINUE):
        continuer = loading.load(model, use=uses.CONTINUE, settings=settings, compute=compute)
        return lambda texts, first: [
            {"generated": [each.text for each in row]}
            for row in continuer.generate_batch(texts, settings, seed=seed, first=first)
        ]
    translator = loading.load(model, use=uses.TRANSLATE, settings=settings, compute=compute)
    return lambda texts, first: [
        {"generated": [each.text for each in row]}
        for row in translator.translate_batch(texts, settings, seed=seed, first=first)
    ]


def scorer(model: str, settings: Score, compute: Compute) -> RowFilter:
    """`logprob`, in nats (None: the probability is 0), and `tokens`, their number. Raises UsageError for streams of rows."""
    if settings.one_stream:
        raise UsageError("rows are scored one by one: --carry, --cache and --dynamic score a text as a whole")
    loaded = loading.load(model, settings=settings, compute=compute)

    def totals(texts: list[str], first: int) -> list[JsonObject]:
        pairs = [total[:2] for total in loaded.totals(texts, settings)]
        return [{"logprob": value if math.isfinite(value) else None, "tokens": count} for value, count in pairs]

    return totals


def tokenizer(settings: Tokenize) -> RowFilter:
    """`tokens`: tokens or ids, separated by spaces."""
    from nlptools.text import tokenization
    from nlptools.text.tokenizer import load

    loaded = load(settings.tokenizer, settings.vocab, settings.lowercase)
    return lambda texts, first: [{"tokens": line} for line in tokenization.tokenize(texts, loaded, settings, first)]


def filtered(work: RowFilter, rows: Iterable[InputRow], first: int) -> list[JsonObject]:
    """The keys of each row with the new ones, or with `error`; `first`: the number of the first row, from 0."""
    source, done = iter(rows), list[JsonObject]()
    while some := list(islice(source, BATCH)):
        texts = [row.text for row in some]  # empty where a row has none, so that the others keep their numbers
        for row, keys in zip(some, answers(work, texts, first + len(done)), strict=True):
            done.append({**row.record, **(keys if row.error is None else {ERROR: row.error})})
    return done


def answers(work: RowFilter, texts: list[str], first: int) -> list[JsonObject]:
    """What `work` returns for each text; for a text that it cannot take, the message under the key `error`.

    A batch that fails is divided until the bad rows are found, so that a row costs as many calls as its batch has halvings.
    """
    try:
        return work(texts, first)
    except ROW_ERRORS as error:
        if len(texts) == 1:
            return [{ERROR: f"{type(error).__name__}: {error}" if not isinstance(error, DataError) else str(error)}]
    half = len(texts) // 2
    return answers(work, texts[:half], first) + answers(work, texts[half:], first + half)
