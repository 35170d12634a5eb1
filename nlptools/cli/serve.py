"""nlptools serve: a model behind OpenAI's web API."""

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
    exit_codes=(0, 2, 66, 69, 74, 78, 130, 143),
)
@click.argument("model", type=click.Path())
def command(model: str, serve: Serve, compute: Compute, common: Common) -> None:
    """Answer requests over HTTP as OpenAI's API does.

    MODEL is the directory of a language model, or of a model that embeds. Requests that wait together are computed together.
    With --precision fp32 on a CPU, this does not change the answers of a Transformer; in bf16 it changes how numbers are
    rounded, and the text where two tokens are close, as the help of generate says. The server listens on this machine only,
    unless --host says otherwise; it knows no passwords. SIGINT or SIGTERM ends it after the answers in hand. Needs the extra
    `serve`.
    """
    from nlptools.serving.server import run

    run(model, serve, compute)
