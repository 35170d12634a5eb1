"""Settings of `rerank`."""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.configs import option, quantize_option


@dataclass(frozen=True)
class Rerank:
    """Ranking options"""

    layout: str = option(
        "auto",
        "Layout of the input and the output: table (between tabs) or jsonl; auto: by the file name, otherwise table.",
        choices=("auto", "table", "jsonl"),
    )
    columns: tuple[str, ...] = option(
        ("query", "text"),
        "Keys of the query and the text in JSON lines.",
        metavar="QUERY,TEXT",
        only={"layout": ("auto", "jsonl")},
    )
    top_k: int = option(0, "Write the best K texts of each query; 0: all.", low=0, metavar="K")
    max_length: int = option(
        0, "Maximum number of tokens of a pair, special tokens included; 0: as in training.", low=0, metavar="N"
    )
    batch_tokens: int = option(4096, "Tokens per batch, padding included.", low=1, metavar="N")
    quantize: str | None = quantize_option()
