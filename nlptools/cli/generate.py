"""nlptools generate: continuations of prompts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from nlptools.cli.options import command as make_command
from nlptools.cli.options import inputs_argument
from nlptools.configs import Common, Compute, Lines
from nlptools.configs.lm import Generate

if TYPE_CHECKING:
    from nlptools.language_model import Generated, LanguageModel
    from nlptools.streams import Output


@make_command(
    "generate",
    Generate,
    Compute,
    Lines,
    formats=r"""A prompt per line in, a continuation per line out, in order. Newlines, tabs and backslashes in a continuation
are written as \n, \t and \\. Several continuations of a prompt stand in one line, separated by tabs. --json writes a JSON object
per prompt: "prompt" and "continuations", each with "text", "finish" (length, eos, stop, context) and, with --logprobs, "tokens"
and "logprobs". --json-input reads JSON objects with the prompt under "prompt"; their other keys are passed on.""",
    examples=(
        ("Continue a prompt:", "echo 'The import statement' | nlptools generate lm/ --top-p 0.9"),
        (
            "Three different continuations, the same each time:",
            "nlptools generate lm/ --num-samples 3 --seed 7 < prompts.txt",
        ),
        ("The most likely continuation of each line, as JSON:", "nlptools generate lm/ --beam 4 --json < prompts.txt"),
    ),
    exit_codes=(0, 2, 65, 66, 69, 73, 74, 78, 130, 141, 143),
)
@click.argument("model", type=click.Path())
@inputs_argument
def command(
    model: str, inputs: tuple[str, ...], generate: Generate, compute: Compute, lines: Lines, common: Common
) -> None:
    """Continue prompts with a language model.

    MODEL is a directory that train-lm made, or a Hugging Face GPT-2. Prompts are decoded many at a time, which does not
    change what comes out; each prompt has random numbers of its own, drawn from --seed and the number of its line.
    """
    generate.check()
    from nlptools import streams
    from nlptools.language_model import load

    names = streams.check_inputs(inputs)
    with streams.Output(lines.output, force=lines.force, line_buffered=lines.line_buffered) as out:
        loaded = load(model, compute=compute)
        size = 1 if lines.line_buffered or generate.stream else generate.batch_size
        for first, batch in _batches(names, common.encoding_errors, size, generate):
            _answer(loaded, batch, generate, compute.seed, first, out)


def _batches(
    names: list[str], errors: str, size: int, generate: Generate
) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """(number of the first, prompts with their other keys) for each batch of what the input has delivered."""
    from nlptools import streams
    from nlptools.errors import DataError

    first = 0
    for block in streams.all_blocks(names, errors):
        items: list[dict[str, Any]] = [{"prompt": line} for line in block.lines]
        if generate.json_input:
            items = [streams.parse_json_object(x, block.path, n) for n, x in enumerate(block.lines, block.start)]
        for number, item in enumerate(items, block.start):
            if not isinstance(item.get("prompt"), str):
                raise DataError('expected a text under "prompt"', path=block.path, line=number)
            if generate.json_input and not _is_text(item["prompt"]):
                raise DataError("the prompt holds half a surrogate pair", path=block.path, line=number)
        for start in range(0, len(items), size):
            yield first + start, items[start : start + size]
        first += len(items)


def _answer(
    loaded: LanguageModel, items: list[dict[str, Any]], generate: Generate, seed: int, first: int, out: Output
) -> None:
    import json

    from nlptools.streams import escape

    prompts = [item["prompt"] for item in items]
    if generate.stream:
        out.write(escape(prompts[0]) if generate.echo else "")
        loaded.generate_batch(prompts, generate, seed=seed, first=first, on_text=lambda text: out.write(escape(text)))
        out.write("\n")
        return
    found = loaded.generate_batch(prompts, generate, seed=seed, first=first)
    if generate.json:
        rows = [{**item, "continuations": [_plain(c, generate) for c in row]} for item, row in zip(items, found)]
        out.write_lines(
            [line if _is_text(line := json.dumps(row, ensure_ascii=False)) else json.dumps(row) for row in rows]
        )
        return
    out.write_lines(
        "\t".join(escape((prompt if generate.echo else "") + c.text) for c in row)
        for prompt, row in zip(prompts, found, strict=True)
    )


def _is_text(text: str) -> bool:
    """Whether UTF-8 can hold it: JSON's escapes can stand for half a surrogate pair."""
    return text.isascii() or not any("\ud800" <= c <= "\udfff" for c in text)


def _plain(continuation: Generated, generate: Generate) -> dict[str, Any]:
    plain: dict[str, Any] = {"text": continuation.text, "finish": continuation.finish}
    if generate.logprobs:
        plain.update(tokens=continuation.tokens, logprobs=continuation.logprobs)
    return plain
