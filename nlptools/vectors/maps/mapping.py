"""Maps of word vectors: computing them and writing them to files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from nlptools import messages
from nlptools.arrays import Array
from nlptools.configs.combinations import check_combinations
from nlptools.configs.maps import Project
from nlptools.errors import UsageError, display
from nlptools.files import compression, streams
from nlptools.files.line_records import escape
from nlptools.files.streams import LineWriter
from nlptools.vectors.maps import picture, projector, reduction
from nlptools.vectors.maps import points as choosing
from nlptools.vectors.maps.page import page
from nlptools.vectors.maps.points import Entry, MapPoints, Points
from nlptools.vectors.table import Vectors

PICTURES = (".png", ".svg")
FEW = 1000  # words of pictures and pages by default
_MANY = 20_000  # words from which t-SNE and UMAP take long, and pages are slow
_NAMES = {"pca": "PCA", "tsne": "t-SNE", "umap": "UMAP"}


class Map(MapPoints):
    """A projection that can be written to a file."""

    def save(
        self, path: str | os.PathLike[str] = "-", *, force: bool = False, width: float = 9.0, height: float = 7.0
    ) -> None:
        """Write .tsv, .png, .svg or .html by name, or TSV to standard output (`-`). Sizes of pictures are in inches.

        Raises:
            UsageError: the name has another suffix, or names a directory (see `nlptools.vectors.maps.projector`).
            OutputError: it exists and `force` is not set.
            Unavailable: pictures need matplotlib.
            StreamError: a write failed.
        """
        name = os.fspath(path)
        kind = kind_of(name)
        if kind == "directory":
            raise UsageError(f"{display(name)}: expected a name that ends in .tsv, .png, .svg or .html")
        with LineWriter(name, force=force, layout=None) as out:
            self.write(out, kind, width, height)

    def write(self, out: LineWriter, kind: str, width: float = 9.0, height: float = 7.0) -> None:
        """Write the map as `kind`: ".tsv", ".png", ".svg", ".html". Raises Unavailable, StreamError."""
        if kind == ".html":
            out.write(page(self))
        elif kind in PICTURES:
            out.write(picture.picture(self, kind, width, height))
        else:
            for start in range(0, len(self.words), 1 << 14):
                part = self.coordinates[start : start + (1 << 14)].tolist()
                rows = zip(self.words[start : start + len(part)], part, strict=True)
                out.write_lines([f"{escape(word)}\t" + "\t".join(f"{x:.6g}" for x in row) for word, row in rows])


def kind_of(path: str) -> str:
    """ ".tsv", ".png", ".svg", ".html" or "directory", by the name. Raises UsageError."""
    if path == "-" or streams.is_pipe_or_device(path):
        return ".tsv"  # standard output, a device, a named pipe
    if path.endswith("/") or os.path.isdir(path):
        return "directory"
    suffix = Path(compression.without_suffix(path.lower())).suffix
    if suffix and suffix not in (".tsv", ".html", *PICTURES):
        raise UsageError(f"{display(path)}: expected a name that ends in .tsv, .png, .svg, .html, or a directory")
    return suffix or "directory"


def project(
    vectors: Vectors | Array | str | os.PathLike[str],
    words: Sequence[str] | None = None,
    *,
    method: str = "pca",
    dims: int = 2,
    count: int = 0,
    groups: Sequence[str] | None = None,
    arrows: Sequence[tuple[str, str]] = (),
    distance: str | None = None,
    perplexity: float = 30.0,
    umap_neighbors: int = 15,
    seed: int = 1,
    title: str = "",
    axes: Sequence[tuple[str, str]] = (),
    spherize: bool = False,
) -> Map:
    """A map of word vectors, or of the rows of any matrix.

    Args:
        vectors: a table, a matrix (N, D), or the name of a file with either.
        words: the words to show, in this order; None: all of the table. For a matrix, the names of its rows.
        count: show only the first `count`; 0: all.
        groups: the group of each of `words`, which gives it its color.
        arrows: pairs of words, which are shown even if they are not in `words`.
        method: "pca", "tsne" or "umap".
        dims: 2 or 3.
        distance: "euclidean", or "cosine", which scales the rows to length 1 first; None: cosine, but euclidean for PCA.
        perplexity: of t-SNE, at least 1; with few rows it is reduced to (N - 1) / 3, with a note.
        umap_neighbors: of UMAP, at least 2; reduced to N - 1 if there are fewer rows.
        axes: two or three own axes, each from a word to another, instead of `method` and `dims`.
        spherize: first move the mean to 0, and scale the rows to length 1.

    Returns:
        the map: `words`, `coordinates` (N, dims), `variance`, and `save("map.html")`.

    Raises:
        UsageError, DataError, Unavailable: see `nlptools.vectors.maps.reduction.reduce`.
        InputError, BundleError: see `nlptools.vectors.maps.points.load`; or a vector is not finite.
    """
    if groups is not None and (words is None or len(groups) != len(words)):
        raise UsageError("groups: expected one for each of words")
    entries = None if words is None else [Entry(*pair) for pair in zip(words, groups or [""] * len(words), strict=True)]
    points = _points(vectors, entries, count, arrows, axes)
    if not isinstance(vectors, np.ndarray | Vectors):
        title = title or name_of(os.fspath(vectors))
    settings = Project(
        method=method,
        dims=dims,
        axes=tuple(map(",".join, axes)),
        spherize=spherize,
        distance=distance,
        perplexity=perplexity,
        umap_neighbors=umap_neighbors,
        seed=seed,
    )
    return make(points, settings, title, axes)


def _points(
    vectors: Vectors | Array | str | os.PathLike[str],
    entries: Sequence[Entry] | None,
    count: int,
    arrows: Sequence[tuple[str, str]],
    axes: Sequence[tuple[str, str]],
) -> Points:
    if isinstance(vectors, Vectors):
        return choosing.choose(vectors, entries, count, arrows, axes)
    if not isinstance(vectors, np.ndarray):
        return choosing.read(os.fspath(vectors), entries, count, arrows, axes=axes)
    if vectors.ndim != 2 or vectors.dtype.kind not in "fiu" or not vectors.shape[1]:
        raise UsageError(f"expected a matrix of numbers, found {vectors.dtype} of shape {vectors.shape}")
    return choosing.choose_rows(vectors, entries, count, arrows, axes=axes)


def make(points: Points, settings: Project, title: str = "", axes: Sequence[tuple[str, str]] = ()) -> Map:
    """The map of points. Raises UsageError, DataError, Unavailable; see `nlptools.vectors.maps.reduction.reduce`."""
    if len(axes) not in (0, 2, 3):
        raise UsageError(f"a map has two or three axes, not {len(axes)}")
    result = reduction.reduce(points.rows, settings, points.ends)
    count = len(points.words)
    note = ["own axes" if axes else _NAMES[settings.method], f"{count:,} words"]
    if settings.method == "tsne":
        note.append(f"perplexity {min(settings.perplexity, max(1.0, (count - 1) / 3)):g}, seed {settings.seed}")
    elif settings.method == "umap":
        note.append(f"{min(settings.umap_neighbors, count - 1)} neighbors, seed {settings.seed}")
    elif result.variance is not None:
        note.append(f"{sum(result.variance):.1%} of the variance")
    if settings.spherize:
        note.append("spherized")
    return Map(points, result.coordinates, settings.method, result.variance, ", ".join(note), title, tuple(axes))


def name_of(path: str) -> str:
    """The default title of a map of the file `path`."""
    return "standard input" if path == "-" else os.path.basename(os.path.abspath(path))


# -- the command ------------------------------------------------------------------------------------------------------


def run(source: str, settings: Project, errors: str = "strict") -> None:
    """Read `source`, write the map: `nlptools project`.

    Raises:
        UsageError: options that exclude each other.
        InputError, DataError, BundleError, OutputError, Unavailable, StreamError: see `project` and `Map.save`.
    """
    kind = kind_of(settings.output)
    _check(kind, source, settings)
    arrows = choosing.read_arrows(settings.arrows, errors) if settings.arrows else []
    axes = choosing.read_axes(settings.axes)
    entries = choosing.read_words(settings.words, errors) if settings.words else None
    if kind == "directory":
        projector.check_target(settings.output, settings.force)
        points = choosing.read(
            source, entries, settings.count or 0, [], settings.source_format, errors, settings.lines_file
        )
        projector.write(points, settings.output, force=settings.force)
        return
    with LineWriter(settings.output, force=settings.force, layout=None) as out:
        count = settings.count
        bare = settings.lines_file is None and choosing.bare(source, settings.source_format)
        if entries is None and arrows and count is None and not bare:
            entries = []
        if count is None:
            count = FEW if entries is None and kind != ".tsv" else 0
        points = choosing.read(
            source, entries, count, arrows, settings.source_format, errors, settings.lines_file, axes
        )
        if settings.count is None and 0 < count < points.total and entries is None:
            messages.note(f"the first {FEW:,} of {points.total:,} words; --count 0 shows all")
        if len(points.words) >= _MANY and (settings.method != "pca" or kind == ".html"):
            messages.note(f"{len(points.words):,} words take long; --count N shows fewer")
        title = settings.title if settings.title is not None else name_of(source)
        result = make(points, settings, title, axes)
        messages.note(result.note)
        result.write(out, kind, settings.width, settings.height)


def _check(kind: str, source: str, settings: Project) -> None:
    """Check options before anything is read. Raises UsageError, Unavailable."""
    check_combinations(settings)
    if len(settings.axes) not in (0, 2, 3):
        raise UsageError("--axes: expected two or three, one for each dimension of the map")
    if [source, settings.words].count("-") > 1:
        raise UsageError("VECTORS and --words cannot both come from standard input")
    if kind == "directory":
        if settings.method != "pca" or settings.arrows or settings.axes or settings.spherize:
            raise UsageError(
                "a directory is for the projector, which computes maps itself: no --method, --arrows, --axes or --spherize"
            )
        return
    if kind == ".tsv" and settings.arrows:
        raise UsageError("--arrows is for .png, .svg and .html")
    reduction.check_method(settings.method)
    if kind in PICTURES:
        picture.check_packages()
