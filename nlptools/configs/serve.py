"""Options of the server."""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.configs import option, quantize_option
from nlptools.configs.units import duration, size


@dataclass(frozen=True)
class Serve:
    """Server options"""

    host: str = option(
        "127.0.0.1",
        "Address to listen on; with the default, only this machine can connect. Others need --api-key-file.",
        metavar="ADDRESS",
    )
    port: int = option(8000, "Port to listen on; 0: a free one.", low=0, high=65535, metavar="N")
    api_key_file: str | None = option(
        None,
        "File with a key on each line; requests need one of them, as Authorization: Bearer KEY.",
        metavar="FILE",
    )
    name: str | None = option(None, "Name of the model in answers. Default: the name of its directory.", metavar="NAME")
    chat: str | None = option(
        None,
        "Chat template: a model directory, or a known format such as chatml. Default: the template of the model.",
        metavar="NAME",
    )
    quantize: str | None = quantize_option()
    batch_size: int = option(32, "Prompts or texts computed together.", low=1, metavar="N")
    most_waiting: int = option(
        256, "Maximum number of waiting prompts or texts; further requests get status 503.", low=1, metavar="N"
    )
    most_tokens: int = option(1024, "Maximum number of new tokens of an answer.", low=1, metavar="N")
    most_body: str = option("4M", "Maximum size of a request.", metavar="SIZE", check=size)
    cors: tuple[str, ...] = option(
        (),
        "Origins of web pages that may read the answers, such as http://localhost:3000; *: all.",
        metavar="ORIGIN,...",
    )
    timeout: str = option(
        "5m",
        "Maximum time to receive a request, and to answer it.",
        metavar="TIME",
        check=duration,
    )
