"""Settings of maps of word vectors."""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.configs import option
from nlptools.configs.vectors import FORMATS

METHODS = ("pca", "tsne", "umap")
DISTANCES = ("euclidean", "cosine")


@dataclass(frozen=True)
class Project:
    """Map options"""

    output: str = option(
        "-",
        "Where to write; the name says what: .tsv, .png, .svg, .html, or a directory. - is TSV on standard output.",
        short="-o",
        metavar="FILE|DIR",
    )
    force: bool = option(False, "Replace the output if it exists.")
    method: str = option(
        "pca", "Principal components, t-SNE or UMAP; the last two need nlptools[viz].", choices=METHODS
    )
    dims: int = option(2, "Dimensions of the map: 2 or 3.", low=2, high=3, metavar="N")
    words: str | None = option(
        None,
        "Show the words of this file only, in its order: one on each line, perhaps a tab and the name of its group.",
        metavar="FILE",
    )
    count: int | None = option(
        None,
        "Show the first N words only, 0: all. Without it 1000 in .png, .svg and .html, all in .tsv and directories, "
        "and all of --words.",
        short="-n",
        low=0,
        metavar="N",
    )
    arrows: str | None = option(
        None,
        "Draw arrows between words: king:queen,man:woman, or a file of pairs. Without --words and --count "
        "only these words are shown.",
        metavar="PAIRS|FILE",
    )
    distance: str | None = option(
        None,
        "What near means; cosine scales vectors to length 1 first. Without it euclidean for pca, cosine for the others.",
        choices=DISTANCES,
    )
    perplexity: float = option(
        30.0, "How many neighbors of a word t-SNE minds; less where there are few words.", low=1, metavar="X"
    )
    umap_neighbors: int = option(15, "How many neighbors of a word UMAP minds.", low=2, metavar="N")
    seed: int = option(1, "Seed of t-SNE and UMAP.", low=0, high=2**32 - 1, metavar="N")
    title: str | None = option(None, "Title of pictures and pages; without it the name of VECTORS.", metavar="TEXT")
    width: float = option(9.0, "Inches of a picture.", low=2, high=100, metavar="X")
    height: float = option(7.0, "Inches of a picture.", low=2, high=100, metavar="X")
    lines_file: str | None = option(
        None,
        "Where VECTORS is an array (npy): the text of which each line names a row.",
        flag="lines",
        metavar="FILE",
    )
    source_format: str | None = option(
        None, "Format of VECTORS, if its name does not tell.", flag="from", choices=FORMATS
    )
