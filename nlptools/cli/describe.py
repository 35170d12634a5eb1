"""nlptools describe: the contents of models, word vectors and tokenizers."""

from __future__ import annotations

import click

from nlptools.cli.options import command as make_command
from nlptools.configs import Common
from nlptools.configs.describe import Describe


@make_command(
    "describe",
    Describe,
    opens_models=True,
    exit_codes=(0, 2, 66, 73, 74, 75, 78),
)
@click.argument("model", type=click.Path())
def command(model: str, describe: Describe, common: Common) -> None:
    """Show the contents of models, word vectors and tokenizers.

    MODEL is a directory, a file of word vectors, or a tokenizer or vocabulary. The output shows architecture, sizes,
    task, labels, tokenizer and training of a model; number, dimensions and first words of vectors; number, special and
    first tokens of a tokenizer. The command also checks the files of a directory against the SHA-256 sums in its
    manifest; a damaged file ends it with status 78. --verify does only that, for the checkpoints too. With --status, the
    exit status of the command is the state of a training run.
    """
    import json

    from nlptools.files import line_records, streams

    if describe.verify:
        from nlptools.files import artifacts, hub_cache

        names = artifacts.verify_all(hub_cache.locate(model))
        with streams.LineWriter() as out:
            out.write_lines(f"{line_records.escape(name)}\tok" for name in names)
        return
    from nlptools.inference.description import describe as describe_directory

    if describe.status:
        from nlptools.training.engine.run_state import run_state

        state = run_state(model)
        with streams.LineWriter() as out:
            out.write(f"status\t{state.text}\n")
        raise click.exceptions.Exit(state.exit_code)
    with streams.LineWriter() as out:
        facts = describe_directory(model)
        if describe.to == "json":
            out.write(_plain(json.dumps(facts, indent=1, ensure_ascii=False)) + "\n")
            return
        for section, rows in facts.items():
            for name, value in rows.items():
                shown = line_records.escape(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
                out.write(f"{section} {_plain(line_records.escape(name))}\t{_plain(shown)}\n")


def _plain(text: str) -> str:
    """`text` with the control characters of names in foreign files, except line ends, as JSON escapes them."""
    import re

    return re.sub(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", lambda match: f"\\u{ord(match[0]):04x}", text)
