"""nlptools prompt: prompts from labelled data."""

from __future__ import annotations

from dataclasses import replace

from nlptools.cli.input_shares import record_range
from nlptools.cli.options import command as make_command
from nlptools.cli.options import filter_inputs
from nlptools.configs import Common, LineOutput
from nlptools.configs.prompting import Prompt
from nlptools.configs.shares import Shares
from nlptools.configs.tasks.files import Files


@make_command(
    "prompt",
    Prompt,
    Files,
    Shares,
    LineOutput,
    opens_models=True,
    exit_codes=(0, 2, 65, 66, 69, 73, 74, 78, 130, 141, 143),
)
@filter_inputs
def command(
    inputs: tuple[str, ...], prompt: Prompt, files: Files, shares: Shares, lines: LineOutput, common: Common
) -> None:
    """Write prompts for language models from labelled data.

    Fills a template from each record of the input, after an optional description of the task and solved examples:
    zero-, one- and few-shot prompts. Also writes labelled data as instructions with answers, for fine-tuning.
    """
    from nlptools.files.layout_names import named_layout

    if prompt.to == "text" and named_layout(lines.output) == "jsonl":
        prompt = replace(prompt, to="jsonl")
    prompt.check()
    from itertools import islice

    from nlptools import messages
    from nlptools.files import line_records, progress, streams
    from nlptools.formats.reading_options import Options
    from nlptools.inference.prompts import PromptBuilder

    names = streams.check_inputs(inputs, [name for name in (prompt.examples, prompt.template) if name == "-"])
    escaped = 0
    builder = PromptBuilder(prompt, Options(**vars(files)), common.encoding_errors)
    first, end = record_range(names, lambda: builder.count(names), shares, lines.output)
    with streams.LineWriter(
        lines.output, force=lines.force, line_buffered=lines.line_buffered, layout=prompt.to, append=shares.skip_done
    ) as out:
        items = builder.items(names, first, end)
        while batch := list(islice(items, 1 if lines.line_buffered else 64)):
            if prompt.json:
                out.write_lines(map(line_records.json_line, batch))
            else:
                prompts = [str(item["prompt"]) for item in batch]
                written = [line_records.escape(each) for each in prompts]
                escaped += sum(line != each for line, each in zip(written, prompts, strict=True))
                out.write_lines(written)
            progress.done(len(batch))
    if escaped:
        count = messages.counted(escaped, "prompt has", "prompts have")
        messages.note(
            f"{count} line ends, tabs or backslashes, written as \\n, \\t, \\\\; for generate --layout jsonl: --to jsonl"
        )
