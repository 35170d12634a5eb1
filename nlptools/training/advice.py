"""Example commands for a new model, which a run prints at its end after `try:`."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

from nlptools.files import streams


def of_language_model(name: str, texts: Iterable[str | None]) -> str:
    """For a language model in the directory `name`; one of `texts` is scored, if it is a file."""
    file, quoted = streams.regular_file(texts), shlex.quote(name)
    scored = "" if file is None else f"    or: nlptools score {quoted} --per total {shlex.quote(file)}"
    return f"echo 'Some words' | nlptools generate {quoted}{scored}"


def of_translator(name: str, pairs: Iterable[str | None], sources: Iterable[str | None], columns: Sequence[str]) -> str:
    """For an encoder-decoder in the directory `name`, with a file of `sources` or of `pairs`; pairs with `columns` are tables."""
    quoted, file, table = shlex.quote(name), streams.regular_file(sources), streams.regular_file(pairs)
    if file is not None:
        return f"nlptools generate {quoted} {shlex.quote(file)}"
    if table is not None and not columns:
        return f"cut -f 1 {shlex.quote(table)} | nlptools generate {quoted}"
    return f"nlptools describe {quoted}"
