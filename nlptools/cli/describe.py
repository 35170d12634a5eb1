"""nlptools describe: what a directory of a model or of vectors holds."""

from __future__ import annotations

import click

from nlptools.cli.options import command as make_command
from nlptools.configs import Common
from nlptools.configs.describe import Describe


@make_command(
    "describe",
    Describe,
    formats="A line per fact, its name and its value separated by a tab; or, with --json, one JSON object.",
    examples=(
        ("What a model is and how it was trained:", "nlptools describe lm/"),
        ("Words, dimensions and quantization of vectors that convert wrote:", "nlptools describe --json vectors/"),
        ("Whether its files are intact, for a script:", "nlptools describe -q lm/ > /dev/null && echo intact"),
    ),
    exit_codes=(0, 2, 66, 74, 78),
)
@click.argument("model", type=click.Path())
def command(model: str, describe: Describe, common: Common) -> None:
    """Tell what a model directory holds and whether its files are intact.

    Architecture, sizes, tokenizer, training; of a directory of word vectors the number of words, dimensions, how they are
    quantized, n-grams. All files that the manifest lists are compared with their SHA-256 sums; a
    damaged one ends with status 78.
    """
    import json

    from nlptools.files import line_records, streams
    from nlptools.inference.description import describe as look

    with streams.Output() as out:
        facts = look(model)
        if describe.json:
            out.write(json.dumps(facts, indent=1, ensure_ascii=False) + "\n")
            return
        for section, rows in facts.items():
            for name, value in rows.items():
                shown = line_records.escape(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
                out.write(f"{section} {line_records.escape(name)}\t{shown}\n")
