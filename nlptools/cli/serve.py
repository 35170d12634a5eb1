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
/v1/embeddings; GET /v1/models and /v1/models/NAME; and GET /health. A language model answers all of them, and embeds by its
last token; an encoder or a sentence-transformers model answers /v1/embeddings.

A request may have OpenAI's settings (max_tokens, temperature, top_p, n, best_of, stop, seed, logprobs, top_logprobs,
presence_penalty, frequency_penalty, stream, echo, response_format) and those of generate, such as top_k and min_p. A prompt is
a text or token numbers, or a list of these; the content of a message is a text, or parts of the type "text". Under "model", the
server answers to its own name only. A key that it does not know, and one that would change the answer and is not supported
(tools, logit_bias), is refused with status 400.

"echo" with "logprobs" scores a text: each token of the prompt has an entry, with the values of `score --choices`; with
"max_tokens": 0 there are no others. The first one is null where the model puts no start token before a text. The clients
local-completions and local-chat-completions of lm-evaluation-harness work with it. A token under "top_logprobs" that is a part of
a character is written as bytes:\\xc3; in a completion, the token that was chosen is always among them.

"response_format" of the type json_schema makes the answer valid under the schema: objects with "properties" and "required", or
with "additionalProperties" alone, arrays with "items", "minItems" and "maxItems", strings with "minLength" and "maxLength" or a
"format" (date, time, date-time, uuid), integers with bounds, numbers, booleans, null, "enum", "const", "anyOf" and "$ref"
without recursion. Any other restriction is refused by its name. The type json_object allows three levels of objects and arrays.
Both need tokens that are pieces of the text, as generate --match does.

Errors are JSON objects: 400 for a request that is wrong, 404 for another address or model, 408 for one that did not arrive in
time, 413 for one that is too large, 503 when too many wait, 504 when the time is over.""",
    examples=(
        ("Serve a language model to this machine:", "nlptools serve lm/ --port 8000"),
        (
            "Serve it, and ask it:",
            "nlptools serve lm/ & sleep 5; "
            'curl -s localhost:8000/v1/completions -d \'{"prompt": "The import statement", "max_tokens": 20}\'',
        ),
        (
            "Evaluate it with lm-evaluation-harness:",
            "nlptools serve lm/ &\n"
            "lm_eval --model local-completions --tasks arc_easy --model_args "
            "model=lm,base_url=http://localhost:8000/v1/completions,tokenizer=lm/",
        ),
        ("Serve sentence vectors:", "nlptools serve minilm/ --name all-minilm-l6-v2"),
    ),
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
