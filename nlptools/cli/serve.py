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
    formats="""Endpoints, as OpenAI's: POST /v1/completions, /v1/chat/completions (for a model with a chat template) and
/v1/embeddings; GET /v1/models; and GET /health. A language model answers all of them, and embeds by its last token; an encoder
or a sentence-transformers model answers /v1/embeddings.

Beside OpenAI's settings (max_tokens, temperature, top_p, n, best_of, stop, seed, logprobs, presence_penalty,
frequency_penalty, stream, echo), a request may have those of generate, such as top_k and min_p. Prompts are texts, not token
numbers. What would change the answer and is not supported (tools, logit_bias, response_format) is refused with status 400.
Errors are JSON objects: 400 for a request that is wrong, 413 for one that is too large, 503 when too many wait, 504 when the time
is over.""",
    examples=(
        ("Serve a language model to this machine:", "nlptools serve lm/ --port 8000"),
        (
            "Serve it, and ask it:",
            "nlptools serve lm/ & sleep 5; "
            'curl -s localhost:8000/v1/completions -d \'{"prompt": "The import statement", "max_tokens": 20}\'',
        ),
        ("Serve sentence vectors:", "nlptools serve minilm/ --name all-minilm-l6-v2"),
    ),
    exit_codes=(0, 2, 66, 69, 74, 78, 130, 143),
)
@click.argument("model", type=click.Path())
def command(model: str, serve: Serve, compute: Compute, common: Common) -> None:
    """Answer requests over HTTP as OpenAI's API does.

    MODEL is the directory of a language model, or of a model that embeds. Requests that wait together are computed together,
    which does not change the answers. The server listens on this machine only, unless --host says otherwise; it knows no
    passwords. SIGINT or SIGTERM ends it after the answers in hand. Needs the extra `serve`.
    """
    from nlptools.inference.serving.server import run

    run(model, serve, compute)
