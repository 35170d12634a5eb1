"""nlptools distill-static: static token vectors from an encoder."""

from __future__ import annotations

import click

from nlptools.cli.options import command as make_command
from nlptools.configs import Common, Compute
from nlptools.configs.distilling import DistillStatic


@make_command(
    "distill-static",
    DistillStatic,
    Compute,
    opens_models=True,
    exit_codes=(0, 2, 65, 66, 69, 73, 74, 78, 130, 143),
)
@click.argument("model", type=click.Path())
def command(model: str, distillstatic: DistillStatic, compute: Compute, common: Common) -> None:
    """Make static token vectors from an encoder, for fast sentence vectors.

    MODEL is an encoder, such as a sentence-transformers directory, or a language model. embed and neighbors take the result,
    and model2vec and sentence-transformers open it: the vector of a text is the mean of the vectors of its tokens.
    """
    from nlptools import messages
    from nlptools.errors import display
    from nlptools.training.engine import stop
    from nlptools.training.static_vectors import distill

    with stop.despite_closed_pipes():
        name = display(str(distill(model, distillstatic, compute, common.encoding_errors)))
        messages.note(f"try: nlptools neighbors {name} --corpus FILE --text 'A text'")
