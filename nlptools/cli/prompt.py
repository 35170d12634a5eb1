"""nlptools prompt: prompts from labelled data."""

from __future__ import annotations

from dataclasses import replace

from nlptools.cli.options import command as make_command
from nlptools.cli.options import filter_inputs
from nlptools.configs import Common, Lines
from nlptools.configs.finetuning import Files
from nlptools.configs.prompting import Prompt


@make_command(
    "prompt",
    Prompt,
    Files,
    Lines,
    opens_models=True,
    formats=r"""A template is a text with the names of fields between braces, such as "{input} => {output}"; braces as text are
doubled. -t takes such a text, in which \n is a line end, or a file. In a file, a line --- ends a description of the task,
which stands once at the beginning of a prompt. The prompt ends before the field {output}, or the one of --answer; examples go
on. A paragraph whose fields are all empty is left out. Templates known by name, with line ends as \n:

\b
tldr          {input}\nTL;DR: {output}                       (Radford et al. 2019)
equals        {input} = {output}                             (Radford et al. 2019)
arrow         {input} => {output}                            (Brown et al. 2020)
question      Q: {input}\nA: {output}                        (Brown et al. 2020)
cot           Q: {input}\nA: Let's think step by step. {output}    (Kojima et al. 2022)
instruction   ### Instruction:\n{instruction}\n\n### Input:\n{input}\n\n### Response:\n{output}    (Taori et al. 2023)
plain         {input}\n{output}

Input is a record per line: fields between tabs, in which \n, \t and \\ are a line end, a tab and a backslash; CSV; JSON
objects; or rows of Parquet. Fields have the names in the first line (a first line that has all names of the template is a
header, as is that of --header), or the keys, and in tables also the numbers from 1. input and output are the columns of
--text-column and --label-column, or those of this name; without a header the first and the second column.

With --task, the input is that of nlptools-finetune(1), with or without labels. The fields of the tasks, besides input and
output: text, label (classify, regress); text1, text2, label (pair), and the columns of the file; words, tags (tag); words,
predicate, roles (roles); context, question, answer (answer); context, answer (choice); text, pronoun, name_a, name_b, answer
(coreference).

Output is a prompt per record, in order, in one line: line ends, tabs and backslashes are written as \n, \t and \\. --to jsonl
writes an object per line, with the keys of a JSON record and "prompt"; "completion", what follows the prompt, if the record has
an answer; "choices" and "answer", the number of the right one or null, with --choices and of --task choice. generate
--json-input and score --choices read such lines, and finetune learns from them. Spaces between prompt and answer are the
beginning of the completion, as most tokenizers expect it. --messages writes "messages", a list of objects with "role" and
"content", in place of prompt and completion.

--chat takes a model directory with a chat template, which is rendered in a sandbox with bounds on time, memory and output
(extra chat: jinja2), or one of the formats chatml, gemma, llama-3, phi-3, zephyr. Examples become turns of user and assistant,
the completion ends with the end of the turn.""",
    examples=(
        (
            "Summarize with a language model:",
            "nlptools prompt -t tldr texts.tsv --to jsonl | nlptools generate lm/ --json-input",
        ),
        (
            "Translate with two examples, drawn for each sentence:",
            "nlptools prompt -t arrow --description 'Translate English to French:' --examples train.tsv -k 2 test.tsv",
        ),
        (
            "Classify by likelihood, with the accuracy at the end:",
            "nlptools prompt -t equals --task classify --words 0=bad,1=good --choices bad,good --to jsonl dev.tsv |"
            " nlptools score lm/ --choices",
        ),
        (
            "Instruction data from a labelled set:",
            "nlptools prompt -t instruction --set 'instruction=Name the sentiment.' --task classify --to jsonl train.tsv",
        ),
        ("Prompts for a chat model:", "nlptools prompt --chat chatml --system 'Be brief.' --text 'Who wrote Emma?'"),
    ),
    exit_codes=(0, 2, 65, 66, 69, 73, 74, 78, 130, 141, 143),
)
@filter_inputs
def command(inputs: tuple[str, ...], prompt: Prompt, files: Files, lines: Lines, common: Common) -> None:
    """Write prompts for language models from labelled data.

    Fills in a template with each record of the input, after a description of the task and solved examples, if given: zero-,
    one- and few-shot prompts. Also writes labelled data as instructions and their answers, for fine-tuning.
    """
    from nlptools.files.layout_names import named_layout

    if prompt.to == "text" and named_layout(lines.output) == "jsonl":
        prompt = replace(prompt, to="jsonl")
    prompt.check()
    from itertools import islice

    from nlptools import messages
    from nlptools.files import line_records, progress, streams
    from nlptools.formats.reading_options import Options
    from nlptools.inference.prompts import Prompts

    names = streams.check_inputs(inputs, [name for name in (prompt.examples, prompt.template) if name == "-"])
    escaped = 0
    with streams.Output(lines.output, force=lines.force, line_buffered=lines.line_buffered, layout=prompt.to) as out:
        items = Prompts(prompt, Options(**vars(files)), common.encoding_errors).items(names)
        while batch := list(islice(items, 1 if lines.line_buffered else 64)):
            if prompt.json:
                out.write_lines(map(line_records.json_line, batch))
            else:
                written = [line_records.escape(item["prompt"]) for item in batch]
                escaped += sum(line != item["prompt"] for line, item in zip(written, batch, strict=True))
                out.write_lines(written)
            progress.done(len(batch))
    if escaped:
        count = messages.counted(escaped, "prompt has", "prompts have")
        messages.note(
            f"{count} line ends, tabs or backslashes, written as \\n, \\t, \\\\; for generate --json-input: --to jsonl"
        )
