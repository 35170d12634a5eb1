"""nlptools generate: continuations of prompts, and outputs of encoder-decoders."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from nlptools.cli.options import command as make_command
from nlptools.cli.options import inputs_argument
from nlptools.configs import Common, Compute, Lines
from nlptools.configs.lm import Generate, shard
from nlptools.configs.seq2seq import Translate

if TYPE_CHECKING:
    from nlptools.files.streams import Block, Output
    from nlptools.inference.language_model import LanguageModel
    from nlptools.inference.translation import Translator


@make_command(
    "generate",
    Generate,
    Translate,
    Compute,
    Lines,
    formats=r"""A prompt or source per line in, its continuation or output in one line out, in order; an empty source has an
empty output. Newlines, tabs and backslashes in an output are written as \n, \t and \\. Several outputs of a line stand in one
line, separated by tabs. --json writes a JSON object per line: "prompt" and "continuations", or "source" and "translations",
each with "text", "finish" (length, eos, stop, context, empty), "score" where beam search ranked it, with --logprobs "tokens" and
"logprobs" (the end of the text included), with --alignments "alignment". --json-input reads JSON objects with the text under
"prompt" or "source" (and "prefix", what the output has to begin with); their other keys are passed on. --score-target writes
the log-probability (nats) of each target and the number of tokens it counts, separated by a tab.""",
    examples=(
        ("Continue a prompt:", "echo 'The import statement' | nlptools generate lm/ --top-p 0.9"),
        (
            "Three different continuations, the same each time:",
            "nlptools generate lm/ --num-samples 3 --seed 7 < prompts.txt",
        ),
        ("The most likely continuation of each line, as JSON:", "nlptools generate lm/ --beam 4 --json < prompts.txt"),
        ("Translate, and score it:", "nlptools generate en-de/ < test.en | nlptools bleu test.de"),
        (
            "Two models together, the three best translations of each line, with scores:",
            "nlptools generate run1/ run2/ test.en --nbest 3 --json",
        ),
        (
            "One part of a job array; the same command goes on after it was stopped:",
            "nlptools generate en-de/ big.en --shard 3/40 --skip-done -o big.de.03",
        ),
    ),
    exit_codes=(0, 2, 65, 66, 69, 73, 74, 78, 130, 141, 143),
)
@click.argument("model", type=click.Path())
@inputs_argument
def command(
    model: str,
    inputs: tuple[str, ...],
    generate: Generate,
    translate: Translate,
    compute: Compute,
    lines: Lines,
    common: Common,
) -> None:
    """Continue prompts with a language model, or translate.

    MODEL is a directory that train-lm or train-seq2seq made, or a Hugging Face GPT-2 or MarianMT. Several directories of
    encoder-decoders in a row are an ensemble. Lines are decoded many at a time, which does not change what comes out; each
    has random numbers of its own, drawn from --seed and its number.
    """
    generate.check()
    translate.check(generate)
    from nlptools.files import line_ranges, streams

    more = [name for name in inputs if os.path.isfile(os.path.join(name, "config.json"))]
    if list(inputs[: len(more)]) != more:
        more = []  # a directory among files: the readers say what is wrong with it
    names = streams.check_inputs(inputs[len(more) :])
    first, end = line_ranges.share(names, *shard(generate.shard)) if generate.shard else (0, None)
    if generate.skip_done:
        first += line_ranges.done_lines(lines.output)
    with streams.Output(
        lines.output, force=lines.force, line_buffered=lines.line_buffered, append=generate.skip_done
    ) as out:
        from nlptools.inference.language_model import LanguageModel
        from nlptools.inference.loading import load

        loaded = load(model, *more, compute=compute, settings=generate)
        blocks = line_ranges.lines_from(streams.all_blocks(names, common.encoding_errors), first, end)
        if isinstance(loaded, LanguageModel):
            translate.refuse()
            size = 1 if lines.line_buffered or generate.stream else generate.batch
            for number, batch in _batches(blocks, generate.json_input, "prompt", size):
                _answer(loaded, batch, generate, compute.seed, number, out)
            return
        translate.check_decoding(generate)
        size = 1 if lines.line_buffered else translate.window
        key = "target" if translate.score_target else "source"
        for number, batch in _batches(blocks, generate.json_input, key, size):
            if translate.score_target:
                _score(loaded, batch, generate, translate, out)
            else:
                _translate(loaded, batch, generate, translate, compute.seed, number, out)
        loaded.warn_of_unknown()


def _batches(
    blocks: Iterator[tuple[int, Block]], json_input: bool, key: str, size: int
) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """(number of the first, items with their other keys) for each batch of what the input has delivered.

    What stands before a line that is no good comes first, then the error.
    """
    for first, block in blocks:
        items, error = _good_items(block, json_input, key)
        for start in range(0, len(items), size):
            yield first + start, items[start : start + size]
        if error is not None:
            raise error


def _good_items(block: Block, json_input: bool, key: str) -> tuple[list[dict[str, Any]], Exception | None]:
    """The items before the first line that is no good, and what is wrong with it."""
    from nlptools.errors import DataError

    items: list[dict[str, Any]] = []
    try:
        for item in _items(block, json_input, key):
            items.append(item)
    except DataError as error:
        return items, error
    return items, None


def _items(block: Block, json_input: bool, key: str) -> Iterator[dict[str, Any]]:
    """What each line asks for: a text under `key`; a "source", too, where that is "target"."""
    from nlptools.errors import DataError
    from nlptools.files.line_records import fields, parse_json_object

    names = ("source", "target") if key == "target" else (key,)
    for number, line in enumerate(block.lines, block.start):
        if json_input:
            item = parse_json_object(line, block.path, number)
        elif key == "target":
            found = fields(line)
            if len(found) != 2:
                told = f"{len(found)} field" + "s" * (len(found) != 1)
                raise DataError(f"expected source TAB target, found {told}", path=block.path, line=number)
            item = dict(zip(names, found, strict=True))
        else:
            item = {key: line}
        for name in names + ("prefix",) * (key == "source" and "prefix" in item):
            if not isinstance(item.get(name), str):
                raise DataError(f'expected a text under "{name}"', path=block.path, line=number)
            if json_input and not _is_text(item[name]):
                raise DataError(f"the {name} holds half a surrogate pair", path=block.path, line=number)
        yield item


def _answer(
    loaded: LanguageModel, items: list[dict[str, Any]], generate: Generate, seed: int, first: int, out: Output
) -> None:
    from nlptools.files.line_records import escape

    prompts = [item["prompt"] for item in items]
    if generate.stream:
        out.write(escape(prompts[0]) if generate.echo else "")
        loaded.generate_batch(prompts, generate, seed=seed, first=first, on_text=lambda text: out.write(escape(text)))
        out.write("\n")
        return
    found = loaded.generate_batch(prompts, generate, seed=seed, first=first)
    if generate.json:
        rows = [
            {**item, "continuations": [_plain(c, generate.logprobs) for c in row]}
            for item, row in zip(items, found, strict=True)
        ]
        out.write_lines(list(map(_json_line, rows)))
        return
    out.write_lines(
        "\t".join(escape((prompt if generate.echo else "") + c.text) for c in row)
        for prompt, row in zip(prompts, found, strict=True)
    )


def _translate(
    loaded: Translator,
    items: list[dict[str, Any]],
    generate: Generate,
    translate: Translate,
    seed: int,
    first: int,
    out: Output,
) -> None:
    from nlptools.files.line_records import escape

    prefixes = None
    if any("prefix" in item for item in items):
        prefixes = [item.get("prefix", translate.prefix or "") for item in items]
    sources = [item["source"] for item in items]
    found = loaded.translate_batch(sources, generate, translate, seed=seed, first=first, prefixes=prefixes)
    if generate.json:
        rows = [
            {**item, "translations": [_plain(t, generate.logprobs) for t in row]}
            for item, row in zip(items, found, strict=True)
        ]
        out.write_lines(list(map(_json_line, rows)))
        return
    texts = ([escape(t.text) + _pharaoh(t.alignment) for t in row] for row in found)
    out.write_lines(
        "\t".join([*([escape(source)] if generate.echo else []), *row])
        for source, row in zip(sources, texts, strict=True)
    )


def _score(
    loaded: Translator, items: list[dict[str, Any]], generate: Generate, translate: Translate, out: Output
) -> None:
    scores = loaded.score_batch([(item["source"], item["target"]) for item in items], translate)
    if not generate.json:
        out.write_lines([f"{score.logprob:.4f}\t{len(score.logprobs)}" for score in scores])
        return
    rows = []
    for item, score in zip(items, scores, strict=True):
        more = {"tokens": score.tokens, "logprobs": score.logprobs} if generate.logprobs else {}
        rows.append(_json_line({**item, "logprob": score.logprob, **more}))
    out.write_lines(rows)


def _pharaoh(alignment: list[tuple[int, int]] | None) -> str:
    return "" if alignment is None else "\t" + " ".join(f"{source}-{target}" for source, target in alignment)


def _plain(found: Any, logprobs: bool) -> dict[str, Any]:
    """A continuation or translation for JSON."""
    row: dict[str, Any] = {"text": found.text, "finish": found.finish}
    if getattr(found, "score", None) is not None:
        row["score"] = found.score
    if logprobs:
        row.update(tokens=found.tokens, logprobs=found.logprobs)
    if getattr(found, "alignment", None) is not None:
        row["alignment"] = found.alignment
    return row


def _json_line(row: dict[str, Any]) -> str:
    """JSON in one line, readable where UTF-8 can hold it."""
    import json

    line = json.dumps(row, ensure_ascii=False)
    return line if _is_text(line) else json.dumps(row)


def _is_text(text: str) -> bool:
    """Whether UTF-8 can hold it: JSON's escapes can stand for half a surrogate pair."""
    return text.isascii() or not any("\ud800" <= c <= "\udfff" for c in text)
