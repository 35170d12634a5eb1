"""nlptools project: maps of word vectors."""

from __future__ import annotations

import click

from nlptools.cli.options import command as make_command
from nlptools.configs import Common
from nlptools.configs.maps import Project


@make_command(
    "project",
    Project,
    formats="""VECTORS is any file of word vectors that nlptools-neighbors(1) reads, or any matrix in .npy. The rows of a matrix
without words (no NAME.vocab.tsv beside it) have numbers from 0, or names: the lines of --words, one per row, or those of
--lines, which may contain anything or be empty. If VECTORS is the output of nlptools-embed(1), the lines of its text are the
words; long ones are shortened in labels.

A .tsv file has a word and its coordinates per line, separated by tabs. .png and .svg are pictures, in which words without
room for a label have only points. .html is a page that needs no network: drag and wheel move and zoom, dragging rotates
three dimensions, a click or the search box (/) selects a word and lists its ten nearest by the cosine of the vectors
themselves; PAGE.html#q=king opens with a word selected. A directory is for the TensorFlow Embedding Projector: tensors.tsv
and metadata.tsv, which projector.tensorflow.org loads, and projector_config.pbtxt for tensorboard --logdir; it has the
vectors and no map.

A line of --words is a word, or a word, a tab and the name of its group, which gives it its color. A line of an --arrows
file is two words, separated by a tab or a space. Words without a vector are left out and counted on standard error; n-grams
of fastText give vectors to words.

PCA is exact and is reported with the share of the variance that the map shows. In maps by t-SNE and UMAP, distances mean
little beyond neighborhoods, and axes nothing. The same input, options and seed give the same map on the same machine.""",
    examples=(
        ("A map to look at:", "nlptools project vectors.bin -o map.png"),
        ("A page with search and neighbors:", "nlptools project vectors.bin --method umap -n 5000 -o map.html"),
        ("Analogies as arrows:", "nlptools project glove.6B.300d.txt --arrows king:queen,man:woman -o analogies.svg"),
        ("Chosen words in three dimensions:", "nlptools project model.vec --words words.txt --dims 3 -o map.html"),
        ("Coordinates for other tools:", "nlptools project features.npy --method tsne --seed 3 > coordinates.tsv"),
        ("The sentences of a text:", "nlptools embed MODEL --to jsonl text.txt | nlptools project - -o map.html"),
        ("For the Embedding Projector:", "nlptools project vectors.bin -n 10000 -o projector/"),
    ),
    exit_codes=(0, 2, 65, 66, 69, 73, 74, 78, 130, 141, 143),
)
@click.argument("vectors", type=click.Path())
def command(vectors: str, project: Project, common: Common) -> None:
    """Draw a map of word vectors: a table, a picture, a page or a projector bundle.

    VECTORS is a file of word vectors, a directory from convert, or a matrix in .npy.
    """
    from nlptools.vectors.maps import mapping

    mapping.run(vectors, project, common.encoding_errors)
