"""nlptools serve: a model with OpenAI's web API."""

from __future__ import annotations

import click

from nlptools.cli.options import command as make_command
from nlptools.configs import Common, Compute
from nlptools.configs.serve import Serve


@make_command(
    "serve",
    Serve,
    Compute,
    opens_models=True,
    exit_codes=(0, 2, 65, 66, 69, 74, 78, 130, 143),
)
@click.argument("model", type=click.Path())
def command(model: str, serve: Serve, compute: Compute, common: Common) -> None:
    """Answer requests over HTTP like OpenAI's API.

    MODEL is the directory of a language model, or of a model that embeds. The server listens on this machine only,
    unless --host is given; an address that other machines reach needs --api-key-file. SIGINT and SIGTERM end it after
    the current answers. Requires the extra `serve`.

    Waiting requests are computed together. In fp32 on a CPU, this does not change the answers of a Transformer; in
    bf16 it changes rounding, and the text where two tokens are close (see generate).
    """
    from nlptools.serving.server import run

    run(model, serve, compute)
