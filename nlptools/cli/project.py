"""nlptools project: maps of word vectors."""

from __future__ import annotations

import click

from nlptools.cli.options import command as make_command
from nlptools.configs import Common
from nlptools.configs.maps import Project


@make_command(
    "project",
    Project,
    exit_codes=(0, 2, 65, 66, 69, 73, 74, 78, 130, 141, 143),
)
@click.argument("vectors", type=click.Path())
def command(vectors: str, project: Project, common: Common) -> None:
    """Draw a map of word vectors: a table, a picture, a page or a projector bundle.

    VECTORS is a file of word vectors, a directory from convert, or a matrix in .npy.
    """
    from nlptools.vectors.maps import mapping

    mapping.run(vectors, project, common.encoding_errors)
