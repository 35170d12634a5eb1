"""Any task's files to examples, by the name of the task: the one door to the readers of this package.

    task              examples            layouts (the module tells what they are and which file names stand for them)
    classify          TextExample         auto, table, jsonl, trec, cola, glue/NAME     texts
    pair              TextExample         auto, table, jsonl, glue/NAME                 texts
    regress           TextExample         auto, table, jsonl, stsbenchmark, glue/NAME   texts
    glue/NAME         TextExample         the task's own, whatever the options say      texts, glue
    tag               TaggedSentence      auto, conll, conllu, lines                    conll; tag_schemes for its tags
    answer            Question            auto, squad, jsonl, qamr                      questions, qamr
    choice            Choice              auto, csv, jsonl                              choices
    roles             PredicateSentence   auto, conllu                                  roles
    coreference       Coreference         auto, gap                                     coreference
Everything but a file of SQuAD is read as it comes, in memory that does not grow. A file without examples gives none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from nlptools.errors import UsageError
from nlptools.files import streams
from nlptools.formats.choices import read_choices
from nlptools.formats.conll import read_columns
from nlptools.formats.examples import Example
from nlptools.formats.gap import read_coreference
from nlptools.formats.glue import glue_task
from nlptools.formats.questions import read_questions
from nlptools.formats.reading_options import Options
from nlptools.formats.roles import read_roles
from nlptools.formats.texts import read_texts

_Reader = Callable[[str, Options, str], Iterator[Example]]
_READERS: dict[str, _Reader] = {
    "classify": partial(read_texts, "classify"),
    "pair": partial(read_texts, "pair"),
    "regress": partial(read_texts, "regress"),
    "tag": read_columns,
    "answer": read_questions,
    "choice": read_choices,
    "roles": read_roles,
    "coreference": read_coreference,
}
TASKS = tuple(_READERS)
LAYOUTS = {
    "classify": ("auto", "table", "jsonl", "trec", "cola"),
    "pair": ("auto", "table", "jsonl"),
    "regress": ("auto", "table", "jsonl", "stsbenchmark"),
    "tag": ("auto", "conll", "conllu", "lines"),
    "answer": ("auto", "squad", "jsonl", "qamr"),
    "choice": ("auto", "csv", "jsonl"),
    "roles": ("auto", "conllu"),
    "coreference": ("auto", "gap"),
}


def read(task: str, names: Sequence[str], options: Options | None = None, errors: str = "strict") -> Iterator[Example]:
    """The examples of several files in turn (none, or `-`: standard input), each file with its own header and layout.

    Args:
        task: one of `TASKS`, or `glue/NAME`.
        errors: what becomes of invalid UTF-8, as with `streams.blocks`.

    Raises:
        DataError: a malformed line; names file, line and cure.
        InputError: no such file, a directory, unreadable. Told at the call, before the first example, for all files.
        UsageError: no such task or layout, or `-` twice.
    """
    options = options or Options()
    if task.startswith("glue/"):
        options, task = replace(options, layout=task), glue_task(task).task
    if task not in _READERS:
        raise UsageError(f"no such task: {task!r}, expected one of {', '.join(TASKS)} or glue/NAME")
    return _all(_READERS[task], streams.check_inputs(names), options, errors)


def _all(reader: _Reader, names: Sequence[str], options: Options, errors: str) -> Iterator[Example]:
    for name in names:
        yield from reader(name, options, errors)
