"""nlptools generate: continuations of prompts, and outputs of encoder-decoders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import click

from nlptools.cli.input_shares import refuse_tables, remaining_lines
from nlptools.cli.options import command as make_command
from nlptools.cli.options import filter_inputs, is_model
from nlptools.configs import Common, Compute, LineOutput
from nlptools.configs.generation import Generate, PromptFiles
from nlptools.configs.seq2seq import Translate
from nlptools.configs.shares import Shares

if TYPE_CHECKING:
    from nlptools.files.streams import LineBlock, LineWriter
    from nlptools.inference.generation.requests import CompletionRequest
    from nlptools.inference.language_model import TextLanguageModel
    from nlptools.inference.translation import Translator
    from nlptools.json_types import JsonObject
    from nlptools.serving.completions import Prompting

Item = TypeVar("Item")


@make_command(
    "generate",
    Generate,
    Translate,
    PromptFiles,
    Compute,
    Shares,
    LineOutput,
    opens_models=True,
    exit_codes=(0, 2, 65, 66, 69, 73, 74, 78, 130, 141, 143),
)
@click.argument("model", type=click.Path())
@filter_inputs
def command(
    model: str,
    inputs: tuple[str, ...],
    generate: Generate,
    translate: Translate,
    promptfiles: PromptFiles,
    compute: Compute,
    shares: Shares,
    lines: LineOutput,
    common: Common,
) -> None:
    """Continue prompts with a language model, or translate.

    MODEL is a directory of train-lm or train-seq2seq, or of a published language model or encoder-decoder, such as GPT-2,
    T5, BART or M2M-100. Several encoder-decoders form an ensemble. Of generation_config.json, only the tokens at the start
    and the end of an output apply; a note lists other settings.

    The random numbers of a line depend only on --seed and its line number. In fp32 on a CPU, batches do not change the
    output of a Transformer language model, greedy or sampled, in any digit. Otherwise they change rounding:
    log-probabilities by up to about 0.1 in bf16 (which --precision auto can choose), and by about 1e-5 for other models,
    beam search and GPUs. The text can then differ where two tokens are that close.
    """
    _check(generate, translate, files := promptfiles)
    from nlptools.files import input_parts, line_ranges, streams

    more = list(filter(is_model, inputs))
    if list(inputs[: len(more)]) != more:
        more = []  # a directory among files: the readers report the error
    whole = streams.check_inputs(inputs[len(more) :])
    files = replace(files, layout=_layout(whole, files.layout))
    refuse_tables(shares, whole, layouts=() if files.json_input else ("csv", "parquet"))
    names = remaining_lines(whole, shares, lines.output)
    with streams.LineWriter(
        lines.output,
        force=lines.force,
        line_buffered=lines.line_buffered,
        layout="jsonl" if files.json else "text",
        append=shares.skip_done,
    ) as out:
        from nlptools.inference import loading, uses
        from nlptools.inference.generation import folder_settings

        errors = common.encoding_errors
        found = loading.source(model, *more, use=uses.GENERATE, errors=errors)
        blocks = line_ranges.numbered(_texts(names, files, errors), input_parts.lines_before(whole, names))
        if found.serves(uses.CONTINUE):
            loaded = found.put_to(uses.CONTINUE, found.asked(compute))
            folder_settings.note(loaded.bundle, generate)
            translate.refuse()
            size = 1 if lines.line_buffered or files.stream else generate.window
            batches = _batches(blocks, _reader(loaded, files.chat or model, generate, files), size)
            for number, requests in _quantizing(loaded, generate.quantize, batches):
                _continue(loaded, requests, files, compute.seed, number, out)
            return
        translator = found.put_to(uses.TRANSLATE, found.asked(compute))
        folder_settings.note(translator.bundle, generate)
        _prepare(translator, generate)
        translate.check_stream(files.stream)
        _translate_all(translator, blocks, generate, translate, files, lines, compute.seed, out)


def _translate_all(
    translator: Translator,
    blocks: Iterator[tuple[int, LineBlock]],
    generate: Generate,
    translate: Translate,
    files: PromptFiles,
    lines: LineOutput,
    seed: int,
    out: LineWriter,
) -> None:
    """Write the translation of each source, or the score of each target."""
    size = 1 if lines.line_buffered else translator.window(translate)
    key = "target" if translate.score_target else "source"
    check = partial(translator.check_source, options=translate) if generate.strict or translator.reads_images else None
    items = partial(_items, json_input=files.json_input, key=key, check=check)
    for number, batch in _batches(blocks, items, size):
        if translate.score_target:
            _score(translator, batch, generate, translate, files.json, out)
        else:
            _translate(translator, batch, generate, translate, files.json, seed, number, out)
    translator.unknown.report()


def _check(generate: Generate, translate: Translate, files: PromptFiles) -> None:
    """Raise UsageError for options that cannot be combined, or followed."""
    generate.check()
    translate.check(generate, files.json)
    if generate.constrains_text:
        from nlptools.inference.generation import automaton

        automaton.check(generate)


def _batches(
    blocks: Iterator[tuple[int, LineBlock]], read: Callable[[LineBlock], Iterator[Item]], size: int
) -> Iterator[tuple[int, list[Item]]]:
    """(number of the first item, items) for each batch of the input; `read` turns a block of lines into items.

    Yields the items before an invalid line, then raises its error.
    """
    from nlptools.errors import DataError
    from nlptools.files import progress

    for first, block in blocks:
        items: list[Item] = []
        error = None
        try:
            items.extend(read(block))
        except DataError as raised:
            error = raised
        for start in range(0, len(items), size):
            batch = items[start : start + size]
            yield first + start, batch
            progress.done(len(batch))
        if error is not None:
            raise error


def _quantizing(
    loaded: TextLanguageModel, weights: str | None, batches: Iterator[tuple[int, list[list[CompletionRequest]]]]
) -> Iterator[tuple[int, list[list[CompletionRequest]]]]:
    """The batches; before the first one, the model is rounded to `weights` if given, and the loss measured on its prompts."""
    for place, (number, requests) in enumerate(batches):
        if place == 0 and weights is not None:
            from nlptools.inference.quantization import quantize_and_measure

            quantize_and_measure(loaded, weights, [request.prompt for line in requests for request in line])
        yield number, requests


def _layout(names: list[str], layout: str) -> str:
    """The layout of all inputs: lines (of tables the texts) or jsonl. Raises UsageError for files of both."""
    from nlptools.errors import UsageError
    from nlptools.files.layout_names import named_layout

    if layout != "auto":
        return layout
    objects = [named_layout(name) == "jsonl" for name in names]
    if any(objects) and not all(objects):
        raise UsageError(f"{names[objects.index(True)]}: JSON lines among other files", hint="--layout jsonl or lines")
    return "jsonl" if any(objects) else "lines"


def _texts(names: list[str], files: PromptFiles, errors: str) -> Iterator[LineBlock]:
    """The lines of files, of tables (CSV, Parquet) the texts."""
    from nlptools.corpora import text_lines
    from nlptools.files import layout_names, streams

    table = any(layout_names.named_layout(name) in ("csv", "parquet") for name in names)
    return text_lines.blocks(names, errors) if table and not files.json_input else streams.all_blocks(names, errors)


def _prepare(translator: Translator, generate: Generate) -> None:
    """Round the weights of an encoder-decoder if it is asked for. Raises UsageError for options that it does not have."""
    from nlptools.errors import UsageError

    if generate.constrains_text:
        raise UsageError("--match, --force-words and --ban-words need a language model")
    if generate.contrastive is not None or generate.lookup:
        raise UsageError(f"--{'lookup' if generate.lookup else 'contrastive'} needs a language model")
    if generate.quantize is not None:
        from nlptools.inference.quantization import quantize

        quantize(translator, generate.quantize)


def _items(block: LineBlock, json_input: bool, key: str, check: Callable[[str], None] | None) -> Iterator[JsonObject]:
    """The item of each line: its text under `key`, and the source under "source" where `key` is "target".

    Raises:
        DataError: a line has the wrong number of fields, or a text is missing or not valid Unicode; or as `check`, which is
            called with each source.
    """
    from nlptools.errors import DataError
    from nlptools.files.line_records import fields, is_text, parse_json_object
    from nlptools.messages import counted

    names = ("source", "target") if key == "target" else (key,)
    for number, line in enumerate(block.lines, block.start):
        if json_input:
            item = parse_json_object(line, block.path, number)
        elif key == "target":
            texts = fields(line)
            if len(texts) != 2:
                message = f"expected source TAB target, found {counted(len(texts), 'field')}"
                raise DataError(message, path=block.path, line=number)
            item = dict(zip(names, texts, strict=True))
        else:
            item = {key: line}
        for name in names + ("prefix",) * (key == "source" and "prefix" in item):
            text = item.get(name)
            if not isinstance(text, str):
                raise DataError(f'expected a text under "{name}"', path=block.path, line=number)
            if json_input and not is_text(text):
                raise DataError(f"the {name} holds half a surrogate pair", path=block.path, line=number)
        if check is not None:
            _at(block.path, number, check, item["source"])
        yield item


def _reader(
    loaded: TextLanguageModel, chat: str, generate: Generate, files: PromptFiles
) -> Callable[[LineBlock], Iterator[list[CompletionRequest]]]:
    """What makes requests of lines; `chat`: where the chat template is."""
    from nlptools.serving.completions import Prompting
    from nlptools.text import chat_templates

    render = chat_templates.renderer(chat, loaded.tokenizer) if files.json_input else None
    prompting = Prompting(render, loaded.tokenizer.decode)
    return partial(_requests, generate=generate, files=files, prompting=prompting, check=loaded.check_request)


def _requests(
    block: LineBlock,
    generate: Generate,
    files: PromptFiles,
    prompting: Prompting,
    check: Callable[[CompletionRequest], None],
) -> Iterator[list[CompletionRequest]]:
    """The requests of each line, one for each of its prompts: a request of OpenAI's batch API may have several.

    Raises:
        DataError: see `completions.requests`; or another line has several prompts; or as `check`, with --strict and for
            requests of that API.
    """
    from nlptools.errors import DataError
    from nlptools.files.line_records import parse_json_object
    from nlptools.inference.generation.requests import CompletionRequest
    from nlptools.serving.completions import requests

    for number, line in enumerate(block.lines, block.start):
        asked = [CompletionRequest(line, generate, {"prompt": line})]
        if files.json_input:
            record = parse_json_object(line, block.path, number)
            asked = requests(record, generate, prompting, block.path, number)
            if len(asked) > 1 and not ("custom_id" in record and files.json):
                raise DataError('expected one text under "prompt"', path=block.path, line=number)
        for each in asked:
            if each.settings.strict or (each.settings is not generate and each.settings.constrains_text):
                _at(block.path, number, check, each)
        yield asked


def _at(path: str, line: int, check: Callable[..., None], *arguments: object) -> None:
    """Call `check`, and raise its error with the place of the input."""
    from nlptools.errors import DataError, UsageError

    try:
        check(*arguments)
    except (DataError, UsageError) as error:
        raise DataError(str(error), path=path, line=line, hint=error.hint) from None


def _continue(
    loaded: TextLanguageModel,
    lines: list[list[CompletionRequest]],
    files: PromptFiles,
    seed: int,
    first: int,
    out: LineWriter,
) -> None:
    from nlptools.files.line_records import escape, json_line
    from nlptools.serving.completion_answers import batch_line

    if files.stream:
        ((asked,),) = lines
        out.write(escape(asked.prompt) if asked.settings.echo else "")
        loaded.answer(
            [asked], seed=seed, first=first, on_text=lambda _number, _sample, text, _: out.write(escape(text))
        )
        out.write("\n")
        return
    requests = [request for line in lines for request in line]
    numbers = [first + i for i, line in enumerate(lines) for _ in line]
    rows = iter(loaded.answer(requests, seed=seed, numbers=numbers))
    written = []
    for number, line in enumerate(lines, first):
        outputs, asked = [next(rows) for _ in line], line[0]
        if not files.json:
            echo = asked.prompt if asked.settings.echo else ""
            written.append("\t".join(escape(echo + c.text) for c in outputs[0]))
        elif "custom_id" in asked.record:
            written.append(json_line(batch_line(line, number, outputs)))
        else:
            objects = [each.fields(asked.settings.logprobs) for each in outputs[0]]
            written.append(json_line({**asked.record, "continuations": objects}))
    out.write_lines(written)


def _translate(
    loaded: Translator,
    items: list[JsonObject],
    generate: Generate,
    translate: Translate,
    json: bool,
    seed: int,
    first: int,
    out: LineWriter,
) -> None:
    from nlptools.files.line_records import escape, json_line

    prefixes = None
    if any("prefix" in item for item in items):
        prefixes = [str(item.get("prefix", translate.prefix or "")) for item in items]
    sources = [str(item["source"]) for item in items]
    rows = loaded.translate_batch(sources, generate, translate, seed=seed, first=first, prefixes=prefixes)
    if json:
        objects = [[each.fields(generate.logprobs) for each in row] for row in rows]
        out.write_lines(json_line({**item, "translations": row}) for item, row in zip(items, objects, strict=True))
        return
    texts = ([escape(t.text) + _pharaoh(t.alignment) for t in row] for row in rows)
    out.write_lines(
        "\t".join([*([escape(source)] if generate.echo else []), *row])
        for source, row in zip(sources, texts, strict=True)
    )


def _score(
    loaded: Translator,
    items: list[JsonObject],
    generate: Generate,
    translate: Translate,
    json: bool,
    out: LineWriter,
) -> None:
    from nlptools.files.line_records import json_line

    pairs = [(str(item["source"]), str(item["target"])) for item in items]
    scores = loaded.score_batch(pairs, translate, generate.strict)
    if not json:
        out.write_lines([f"{score.logprob:.4f}\t{len(score.logprobs)}" for score in scores])
        return
    rows = []
    for item, score in zip(items, scores, strict=True):
        more = {"tokens": score.tokens, "logprobs": score.logprobs} if generate.logprobs else {}
        rows.append(json_line({**item, "logprob": score.logprob, **more}))
    out.write_lines(rows)


def _pharaoh(alignment: list[tuple[int, int]] | None) -> str:
    return "" if alignment is None else "\t" + " ".join(f"{source}-{target}" for source, target in alignment)
