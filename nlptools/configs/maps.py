"""Settings of maps of word vectors."""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.configs import option
from nlptools.configs.vectors import NAMES

METHODS = ("pca", "tsne", "umap")
DISTANCES = ("euclidean", "cosine")


@dataclass(frozen=True)
class Project:
    """Map options"""

    output: str = option(
        "-",
        "Output: a .tsv, .png, .svg or .html file, or a directory; -: TSV on standard output.",
        short="-o",
        metavar="FILE|DIR",
    )
    force: bool = option(False, "Replace the output if it exists.")
    method: str = option(
        "pca", "Principal components, t-SNE or UMAP; the last two need the extra viz.", choices=METHODS
    )
    dims: int = option(2, "Dimensions of the map: 2 or 3.", low=2, high=3, metavar="N")
    axes: tuple[str, ...] = option(
        (),
        "Own axis from the first word to the second, such as man,woman: words are placed by the product of their vector and"
        " the difference of these two, at length 1. Given twice or three times, instead of --method.",
        metavar="A,B",
        multiple=True,
        excludes=("method tsne", "method umap", "dims"),
    )
    spherize: bool = option(
        False, "First move the mean of the vectors to 0 and scale them to length 1, as the Embedding Projector does."
    )
    words: str | None = option(
        None,
        "Show only the words of this file, in its order: a word per line, optionally with a tab and the name of its"
        " group.",
        metavar="FILE",
    )
    count: int | None = option(
        None,
        "Show only the first N words; 0: all. Default: 1000 in .png, .svg and .html; all in .tsv, in directories and"
        " with --words.",
        short="-n",
        low=0,
        metavar="N",
    )
    arrows: str | None = option(
        None,
        "Draw arrows between words: king:queen,man:woman, or a file of pairs. Without --words and --count, only these "
        "words are shown.",
        metavar="PAIRS|FILE",
    )
    distance: str | None = option(
        None,
        "Distance of vectors; cosine scales them to length 1 first. Default: euclidean for pca, cosine for the others.",
        choices=DISTANCES,
    )
    perplexity: float = option(
        30.0,
        "Perplexity of t-SNE: about the number of neighbors per word. Reduced for few words.",
        low=1,
        metavar="X",
    )
    umap_neighbors: int = option(15, "Number of neighbors per word for UMAP.", low=2, metavar="N")
    seed: int = option(1, "Seed of t-SNE and UMAP.", low=0, high=2**32 - 1, metavar="N")
    title: str | None = option(None, "Title of pictures and pages. Default: the name of VECTORS.", metavar="TEXT")
    width: float = option(9.0, "Width of a picture in inches.", low=2, high=100, metavar="X")
    height: float = option(7.0, "Height of a picture in inches.", low=2, high=100, metavar="X")
    lines_file: str | None = option(
        None,
        "Text with the names of the rows, a line each, if VECTORS is an array (npy).",
        flag="lines",
        metavar="FILE",
    )
    source_format: str | None = option(
        None, "Format of VECTORS, if the file name does not tell.", flag="from", choices=NAMES
    )
