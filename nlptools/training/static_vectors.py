"""Static token vectors from an encoder: `distill-static`.

As model2vec makes them (van Dongen & Tulkens 2024): the model reads each token of the vocabulary alone, between its special
tokens; the mean of the states is the vector of the token. Then principal components, and weights by rank (SIF). Special
tokens and tokens such as [unused1] get the vector zero.

`fit`, as in tokenlearn, brings the mean of the token vectors of a line close to the vector that the model has for the line.
Departure: by least squares with a penalty on the distance from the distilled vectors, not by gradient steps: the result does not
depend on a learning rate. The strength of the penalty is the best one on held-out lines.
Shapes: V tokens, N lines, D dimensions of the model, K of the result.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from nlptools import messages
from nlptools.compute.backend import Backend
from nlptools.configs import Compute
from nlptools.configs.distilling import DistillStatic
from nlptools.configs.embed import Embed
from nlptools.errors import DataError, UsageError, display
from nlptools.files import progress, streams, whole_directory
from nlptools.inference import uses
from nlptools.inference.embedding.line_readers import LineReader
from nlptools.inference.embedding.lines import prepared
from nlptools.inference.embedding.text_embedder import TextEmbedder
from nlptools.inference.loading import load
from nlptools.json_types import JsonObject
from nlptools.layers import packed
from nlptools.layers.packed import EqualLengths
from nlptools.models import registry
from nlptools.text.tokenizer import Tokenizer
from nlptools.training.engine import lifecycle
from nlptools.vectors import static_directory

_UNUSED = re.compile(r"\[unused\d+\]")
_FAMILIES = (registry.ENCODER, registry.LANGUAGE)
_ROWS = 1024  # tokens that the model reads at a time
_PENALTIES = (1.0, 0.1, 0.01, 0.001)
_HELD_OUT = 10  # one line in so many
_ITERATIONS = 30  # of conjugate gradients
_MOST_LINES = 200_000


def distill(path: str, settings: DistillStatic, compute: Compute, encoding_errors: str = "strict") -> Path:
    """Write static vectors of the model at `path` to `settings.output`.

    Raises:
        UsageError: a model that is not an encoder, or several processes were started.
        InputError, BundleError: see `open_model`; or a tokenizer that has no tokenizer.json.
        DataError: --fit has too few lines.
        OutputError: the directory exists.
    """
    lifecycle.refuse_processes("distill-static")
    whole_directory.check_target(settings.output, "a model", _holds_model, force=settings.force)
    embedder = load(path, use=uses.EMBED, settings=Embed(), compute=compute)
    if not isinstance(embedder, TextEmbedder) or registry.find(embedder.bundle.arch).family not in _FAMILIES:
        raise UsageError(f"{display(path)}: expected an encoder or a language model")
    tokenizer = embedder.bundle.tokenizer
    vocab = tokenizer.vocab
    assert vocab is not None
    with whole_directory.replacing(settings.output) as directory:
        names = static_directory.save_tokenizer(directory, tokenizer)  # first, as not every tokenizer can be written
        ids = [
            id
            for id in range(len(vocab))
            if id not in (*vocab.marks, vocab.unk) and not _UNUSED.fullmatch(vocab.token(id))
        ]
        states = token_vectors(embedder.reader, embedder.backend, ids)
        basis = Basis.of(states, settings.dims)
        rows = basis.apply(states) * rank_weights(len(ids), settings.sif)[:, None]
        table = torch.zeros(len(vocab), rows.shape[1])
        table[torch.tensor(ids)] = rows
        record: JsonObject = {"model": path, **asdict(settings)}
        messages.note(
            f"{len(ids):,} token vectors of {rows.shape[1]} dimensions, {100 * basis.kept:.1f}% of the variance"
        )
        if settings.fit is not None:
            table = fitted(table, embedder, tokenizer, settings.fit, record, encoding_errors)
        own: JsonObject = {
            "tokenizer_name": path,
            "apply_pca": settings.dims or None,
            "sif_coefficient": settings.sif or None,
        }
        static_directory.save(directory, table.numpy(), names, own, record)
    return Path(settings.output)


def _holds_model(path: Path) -> bool:
    return (path / "config.json").is_file()


@torch.inference_mode()
def token_vectors(reader: LineReader, backend: Backend, ids: Sequence[int]) -> Tensor:
    """(V, D), float32: the mean of the states of each token, read alone by a model that is on the device."""
    last = reader.model.config.num_hidden_layers
    length = len(reader.before) + 1 + len(reader.after)
    parts = []
    for start in range(0, len(ids), _ROWS):
        some = ids[start : start + _ROWS]
        rows = np.array([[*reader.before, id, *reader.after] for id in some], np.int64)
        positions = np.tile(np.arange(length), len(some))
        groups = [EqualLengths(0, len(some), length)]
        (states,) = reader.states(backend.put(rows.reshape(-1)), backend.put(positions), groups, range(last, last + 1))
        parts.append(packed.pool(states, groups, ["mean"], [0]).float().cpu())
        progress.ahead(start)
    return torch.cat(parts).clone()


@dataclass(frozen=True)
class Basis:
    """Principal components. `kept`: their share of the variance."""

    mean: Tensor  # (D,)
    components: Tensor  # (D, K)
    kept: float

    @classmethod
    def of(cls, rows: Tensor, dims: int) -> Basis:
        """The first `dims` components of `rows` (V, D), all with 0 or where there are fewer."""
        mean = rows.double().mean(0)
        centered = rows.double() - mean
        values, vectors = torch.linalg.eigh(centered.T @ centered)
        values, vectors = values.flip(0).clamp(min=0), vectors.flip(1)
        count = min(dims or len(values), len(values), max(1, len(rows) - 1))
        total = float(values.sum()) or 1.0
        return cls(mean.float(), vectors[:, :count].float().contiguous(), float(values[:count].sum()) / total)

    def apply(self, rows: Tensor) -> Tensor:
        """(V, D) -> (V, K)."""
        return (rows - self.mean) @ self.components


def rank_weights(count: int, sif: float) -> Tensor:
    """(V,) a / (a + p) for tokens in the order of frequency, by Zipf's law from rank 2, as model2vec; ones for `sif` 0."""
    if not sif:
        return torch.ones(count)
    inverse = 1 / torch.arange(2, count + 2, dtype=torch.double)
    return (sif / (sif + inverse / inverse.sum())).float()


# -- fitting to a text ------------------------------------------------------------------------------------------------


def fitted(
    table: Tensor, embedder: uses.Embeds, tokenizer: Tokenizer, path: str, record: JsonObject, errors: str
) -> Tensor:
    """Token vectors (V, K) near `table`. Their means over the lines of a text are close to the vectors of the model.

    `record` gets the numbers of the fit. Raises DataError for fewer than 20 lines.
    """
    ids, wanted = _lines(embedder, tokenizer, path, errors)
    if len(ids) < 2 * _HELD_OUT:
        raise DataError(
            f"{messages.counted(len(ids), 'line')} with tokens, expected at least {2 * _HELD_OUT}", path=path
        )
    held = torch.arange(len(ids)) % _HELD_OUT == 0
    target = F.normalize(Basis.of(wanted, table.shape[1]).apply(wanted), dim=1)
    if target.shape[1] < table.shape[1]:
        target = F.pad(target, (0, table.shape[1] - target.shape[1]))
    means = [
        _means([row for row, out in zip(ids, mask.tolist(), strict=True) if out], len(table)) for mask in (~held, held)
    ]
    train, test = means
    start = _turned(table, train @ table, target[~held])
    before = _cosine(test @ start, target[held])
    found = []
    for penalty in _PENALTIES:
        rows = start + least_squares(train, target[~held] - train @ start, penalty)
        found.append((_cosine(test @ rows, target[held]), penalty, rows))
    after, penalty, rows = max(found, key=lambda each: each[0])
    record["fitted"] = {"lines": len(ids), "penalty": penalty, "cosine_before": before, "cosine": after}
    messages.note(
        f"fitted to {messages.counted(len(ids), 'line')}: cosine with the model on held-out lines {after:.4f},"
        f" before {before:.4f} (penalty {penalty:g})"
    )
    return rows if after > before else start


def _lines(embedder: uses.Embeds, tokenizer: Tokenizer, path: str, errors: str) -> tuple[list[list[int]], Tensor]:
    """The ids of the known tokens of each line that has some, and the vectors of the model (N, D)."""
    ids: list[list[int]] = []
    vectors: list[np.ndarray] = []
    unknown = None if tokenizer.vocab is None else tokenizer.vocab.unk
    for texts, ready in prepared(embedder, streams.blocks(path, errors)):
        rows = [[id for id in row if id != unknown] for row in tokenizer.encode_lines(texts)]
        filled = [number for number, row in enumerate(rows) if row]
        ids += [rows[number] for number in filled]
        vectors.append(embedder.embed(texts, ready)[filled])
        if len(ids) >= _MOST_LINES:
            messages.warn(f"{display(path)}: the first {len(ids):,} lines are used")
            break
    return ids, torch.from_numpy(np.concatenate(vectors)) if vectors else torch.zeros(0, 1)


def _means(rows: Iterable[list[int]], size: int) -> Tensor:
    """(N, V), sparse: the matrix that takes the means of the token vectors of each line."""
    rows = list(rows)
    lengths = torch.tensor([len(row) for row in rows])
    bounds = F.pad(lengths.cumsum(0), (1, 0))
    values = (1 / lengths.float()).repeat_interleave(lengths)
    ids = torch.tensor(list(chain.from_iterable(rows)))
    owner = torch.arange(len(rows)).repeat_interleave(lengths)
    assert int(bounds[-1]) == len(ids)
    return torch.sparse_coo_tensor(
        torch.stack([owner, ids]), values, (len(rows), size), check_invariants=True
    ).coalesce()


def _turned(table: Tensor, means: Tensor, target: Tensor) -> Tensor:
    """`table` rotated and scaled so that its means are close to `target` (Schönemann 1966)."""
    left, values, right = torch.linalg.svd(means.T @ target)
    scale = values.sum() / means.square().sum().clamp(min=1e-12)
    turned: Tensor = table @ (left @ right) * scale
    return turned


def _cosine(found: Tensor, wanted: Tensor) -> float:
    return float(F.cosine_similarity(found, wanted).mean())


def least_squares(means: Tensor, target: Tensor, penalty: float) -> Tensor:
    """The X (V, K) that minimizes |means X - target|^2 + penalty |X|^2, by conjugate gradients (Hestenes & Stiefel 1952).

    Args:
        means: (N, V), sparse.
        target: (N, K).
    """
    turned = means.t().coalesce()
    found = torch.zeros(means.shape[1], target.shape[1])
    rest = turned @ target
    direction, size = rest.clone(), rest.square().sum(0)
    first = size.clone()
    for _ in range(_ITERATIONS):
        product = turned @ (means @ direction) + penalty * direction
        step = size / (direction * product).sum(0).clamp(min=1e-30)
        found += step * direction
        rest -= step * product
        new = rest.square().sum(0)
        if bool((new <= 1e-10 * first).all()):
            break
        direction = rest + new / size.clamp(min=1e-30) * direction
        size = new
    return found
