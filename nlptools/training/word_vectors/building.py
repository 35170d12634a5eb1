"""Builds the tables and the model from settings and a vocabulary, and the vectors from trained tables."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from nlptools.compute.backend import Backend
from nlptools.configs.word_vectors import TrainW2V, lengths
from nlptools.corpora.word_sequences import Sequences
from nlptools.errors import BundleError, display
from nlptools.training.word_vectors import glove
from nlptools.training.word_vectors.architectures import (
    Cbow,
    Inputs,
    PositionWeightedCbow,
    SkipGram,
    WordVectorArchitecture,
)
from nlptools.training.word_vectors.inputs import SubwordInput, WordRows
from nlptools.training.word_vectors.negatives import Negatives
from nlptools.training.word_vectors.outputs import FullSoftmax, HierarchicalSoftmax, NegativeSampling, OutputLayer
from nlptools.training.word_vectors.trainer import Model, shared
from nlptools.training.word_vectors.windows import ContextWindows
from nlptools.vectors.rows import ArrayRows
from nlptools.vectors.subwords import Subwords
from nlptools.vectors.table import Vectors
from nlptools.vectors.words import WordList

Tables = dict[str, Tensor]
TILE = 32  # tokens
_SHARED = {"skipgram": 32, "cbow": 16}  # negatives of a tile
STEP = {"skipgram": 384, "cbow": 1024}  # maximum number of tokens; CBOW has a sixth of the pairs

# the numbers of models and losses in fastText's file format
_FASTTEXT = {"skipgram": 2, "cbow": 1, "hs": 1, "ns": 2, "softmax": 3}


def tables(settings: TrainW2V, sequences: Sequences, start: Vectors | None, seed: int, device: torch.device) -> Tables:
    """New tables, with the vectors of `start` for the words that it has.

    Input rows are uniform in -.5/D .. .5/D (with n-grams, as fastText, -1/D .. 1/D), output rows zero.

    Raises:
        BundleError: `start` has a different number of dimensions.
    """
    V, D = len(sequences.words), settings.dim
    buckets = settings.buckets if settings.subwords is not None else 0
    make = shared if device.type == "cpu" else lambda rows, columns: torch.zeros(rows, columns, device=device)
    generator = torch.Generator(device).manual_seed(seed)
    if settings.model == "glove":
        result = {name: make(*shape) for name, shape in glove.shapes(V, D).items()}
        glove.initialize(result, generator)
    else:
        result = {"input": make(V + buckets, D), "output": make(max(1, V - (settings.loss == "hs")), D)}
        reach = 1.0 / D if buckets else 0.5 / D
        result["input"].uniform_(-reach, reach, generator=generator)
    if settings.position_weights:
        result["positions"] = make(2 * settings.window, D).fill_(1.0)
    if start is not None:
        _copy(result, settings, sequences.words, start)
    return result


def _copy(tables: Tables, settings: TrainW2V, words: list[str], start: Vectors) -> None:
    """Copy the vectors of `start` to the rows of their words."""
    if start.dimensions != settings.dim:
        raise BundleError(f"{display(start.path)}: {start.dimensions} dimensions, but --dim is {settings.dim}")
    places = {word: place for place, word in enumerate(words)}
    pairs = [(places[word], row) for row, word in enumerate(start.words) if word in places]
    to, source = torch.tensor([a for a, _ in pairs], dtype=torch.int64), [b for _, b in pairs]
    if settings.model == "glove":
        glove.start_from(tables, to, torch.from_numpy(np.array(start.rows.take(source), np.float32)))
        return
    kept = start.subwords
    same = kept is not None and len(kept.buckets) == len(tables["input"]) - len(words)
    if same and settings.subwords is not None and kept is not None:
        same = (kept.shortest, kept.longest) == lengths(settings.subwords)
    rows = kept.own[source] if kept is not None and same else start.rows.take(source)
    device = tables["input"].device
    tables["input"][to.to(device)] = torch.from_numpy(np.array(rows, np.float32)).to(device)
    if kept is not None and same and len(kept.buckets):
        tables["input"][len(words) :] = torch.from_numpy(np.array(kept.buckets, np.float32)).to(device)
    if kept is not None and same and kept.output is not None and settings.loss != "hs":
        tables["output"][to.to(device)] = torch.from_numpy(np.array(kept.output[source], np.float32)).to(device)


def model(settings: TrainW2V, sequences: Sequences, tables: Tables, backend: Backend) -> Model:
    """The model that trains the tables."""
    device = tables["input"].device
    windows = ContextWindows(
        settings.window, TILE, _keep(sequences.counts, settings.sample).to(device), shrink=settings.shrink_windows
    )
    inputs: Inputs = WordRows(tables["input"])
    if settings.subwords is not None:
        inputs = SubwordInput(tables["input"], sequences.words, *lengths(settings.subwords))
    corrected = settings.cbow_gradient == "corrected"
    architecture: WordVectorArchitecture = SkipGram(windows, inputs)
    if settings.model == "cbow":
        architecture = Cbow(windows, inputs, corrected=corrected)
    if settings.position_weights:
        architecture = PositionWeightedCbow(windows, inputs, tables["positions"], corrected=corrected)
    output: OutputLayer
    if settings.loss == "ns":
        negatives = Negatives(sequences.counts, settings.ns_exponent, device)
        output = NegativeSampling(tables["output"], negatives, settings.negative, _SHARED[settings.model])
    elif settings.loss == "hs":
        output = HierarchicalSoftmax(tables["output"], sequences.counts)
    else:
        output = FullSoftmax(tables["output"], backend.dtype)
    return Model(windows, architecture, output)


def _keep(counts: np.ndarray, sample: float) -> Tensor:
    """(V + 1,) the probability to keep a word, sqrt(t/f) + t/f as in word2vec's code; 0 for the end of a sequence."""
    share = np.maximum(counts, 1) / max(1, counts.sum())
    keep = np.sqrt(sample / share) + sample / share if sample > 0 else np.ones(len(counts))
    return torch.from_numpy(np.append(np.minimum(keep, 1), 0).astype(np.float32))


def vectors(settings: TrainW2V, sequences: Sequences, tables: Tables, path: str) -> Vectors:
    """The trained vectors, with output rows and n-grams for the formats that store them."""
    from nlptools.vectors.files.fasttext import SubwordRows as Composed

    words, counts = WordList.of(sequences.words), sequences.counts.tolist()
    if settings.model == "glove":
        return Vectors(words, ArrayRows(glove.sums(tables).cpu().numpy()), counts=counts, path=path)
    V = len(sequences.words)
    table = tables["input"].cpu().numpy()
    output = None if settings.loss == "hs" else tables["output"].cpu().numpy()
    shortest, longest = lengths(settings.subwords) if settings.subwords is not None else (0, 0)
    fasttext_args = {
        "ws": settings.window, "epoch": settings.epochs, "minCount": settings.min_count, "neg": settings.negative,
        "loss": _FASTTEXT[settings.loss], "model": _FASTTEXT[settings.model], "t": settings.sample,
        "ntokens": sequences.tokens,
    }  # fmt: skip
    args = {name: float(value) for name, value in fasttext_args.items()}
    subwords = Subwords(shortest, longest, table[V:], table[:V], output, args)
    rows = Composed(words, subwords) if longest else ArrayRows(table[:V])
    return Vectors(words, rows, subwords=subwords, counts=counts, path=path)
