"""Options of `nlptools prompt`, and the templates that it knows by name."""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.configs import LARGEST_SEED, option
from nlptools.configs.tasks.table import TASKS, task
from nlptools.errors import UsageError

# `nlptools.text.prompt_templates` describes the notation.
TEMPLATES = {
    "tldr": "{input}\nTL;DR: {output}",  # Radford et al. 2019, section 3.6: summaries
    "equals": "{input} = {output}",  # Radford et al. 2019, section 3.7: translations
    "arrow": "{input} => {output}",  # Brown et al. 2020, figure 2.1; with --description
    "question": "Q: {input}\nA: {output}",  # Brown et al. 2020, figure G.29
    "cot": "Q: {input}\nA: Let's think step by step. {output}",  # Kojima et al. 2022, arXiv:2205.11916
    "instruction": (  # Taori et al. 2023, Stanford Alpaca, which also omits an empty input
        "### Instruction:\n{instruction}\n\n### Input:\n{input}\n\n### Response:\n{output}"
    ),
    "plain": "{input}\n{output}",
}
INPUT, OUTPUT = "input", "output"  # the fields of the templates above


def constant(text: str) -> tuple[str, str]:
    """(name, text) of `NAME=TEXT`. Raises UsageError."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise UsageError(f"{text!r}: expected NAME=TEXT")
    return name, value


@dataclass(frozen=True)
class Prompt:
    """Prompt options"""

    template: str | None = option(
        None,
        f"Template of the prompts: a file, one of {', '.join(TEMPLATES)}, or the text itself, such as '{{input}} =>'."
        " With --chat: plain, if not given.",
        short="-t",
        metavar="FILE|NAME|TEXT",
    )
    description: str | None = option(
        None,
        "Description of the task, once before the examples. Default: the description of the template.",
        metavar="TEXT",
    )
    examples: str | None = option(
        None, "File of solved examples for the start of every prompt, in the layout of the input.", metavar="FILE"
    )
    shots: int | None = option(
        None,
        "Draw K random examples for each prompt, never its own record. Default: all, in order.",
        flag="shots",
        short="-k",
        low=0,
        metavar="K",
        needs=("examples",),
        off=(0,),
    )
    separator: str | None = option(
        None,
        "Text between description, examples and question. Default: a line end; for templates of several lines two.",
        metavar="TEXT",
    )
    answer: str = option(OUTPUT, "First field of the answer; the prompt ends before it.", metavar="FIELD")
    constants: tuple[str, ...] = option(
        (),
        "Fill a field with the same text in each record: --set 'instruction=Translate to French.'",
        flag="set",
        multiple=True,
        metavar="NAME=TEXT",
        check=constant,
    )
    words: tuple[str, ...] = option(
        (),
        "Write these words instead of labels: 0=negative,1=positive.",
        metavar="LABEL=WORD,...",
        check=constant,
    )
    candidates: tuple[str, ...] = option(
        (),
        "Answers for score --choices to select from. --task choice: the endings of the record.",
        metavar="TEXT,...",
        was={"--choices": "--candidates"},
        excludes=("messages",),
        only={"to": ("jsonl",)},
    )
    task: str | None = option(
        None,
        "Read the input like finetune --task TASK (classify, pair, answer, ...). Default: a record per line, see"
        " FORMATS.",
        metavar="TASK",
        check=task,
    )
    chat: str | None = option(
        None,
        "Write conversations, with the chat template of this model directory, or a known one (see FORMATS).",
        metavar="DIR|NAME",
    )
    system: str | None = option(
        None,
        "System message of conversations.",
        metavar="TEXT",
        needs=("chat or messages",),
    )
    to: str = option(
        "text",
        'Output format: a prompt per line, or JSON lines, with the answer of the record, if any, under "completion".',
        choices=("text", "jsonl"),
        was={"--json": "--to jsonl"},
    )
    messages: bool = option(
        False,
        'Write "messages", the turns of a conversation, instead of texts.',
        excludes=("chat",),
        only={"to": ("jsonl",)},
    )
    seed: int = option(1, "Seed of the random examples.", low=0, high=LARGEST_SEED, metavar="N")

    @property
    def json(self) -> bool:
        """Whether the output is JSON lines."""
        return self.to == "jsonl"

    @property
    def label_words(self) -> dict[str, str]:
        """The word for each label of --words."""
        return dict(map(constant, self.words))

    def check(self) -> None:
        """Raise UsageError for options that cannot be combined."""
        conversation = self.chat is not None or self.messages
        if self.template is None and not conversation:
            raise UsageError(f"--template is missing: a file, or one of {', '.join(TEMPLATES)}")
        if self.task is not None and self.task in TASKS and not TASKS[self.task].layouts:
            raise UsageError(
                f"--task {self.task} has no labelled files", hint="without --task, columns are input and output"
            )
