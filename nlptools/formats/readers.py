"""The table of readers: the examples in the files of each task.

    task              examples            layouts (each module describes them; `layouts` recognizes them by file names)
    classify          TextExample         auto, TABLES, trec, trec-fine, glue/NAME        texts
    pair              TextExample         auto, TABLES, rte, glue/NAME                  texts
    regress           TextExample         auto, TABLES, glue/NAME                       texts
    rank              TextExample         auto, TABLES, rte                             texts
    similarity        TextGroup           auto, TABLES                                  text_groups
    glue/NAME         TextExample         the task's own, whatever the options          texts, glue
    tag               TaggedSentence      auto, conll, conllu, lines                    conll; tag_schemes
    answer            Question            auto, squad, qamr, TABLES                     questions, qamr
    choice            Choice              auto, csv, jsonl, parquet                     choices
    roles             PredicateSentence   auto, conllu                                  roles
    parse             UniversalSentence   auto, conllu, lines                           universal
    coreference       Coreference         auto, gap; conll: as chains                   gap
    chains            CoreferenceDocument auto, conll                                   chains
    instruct          Demonstration       auto, jsonl, parquet                          preferences
    reward            Ranking             auto, jsonl, parquet                          preferences
    preference        Ranking, Judgement  auto, jsonl, parquet                          preferences
TABLES are table (between tabs), csv, jsonl and parquet, which `records` reads.
Files are read as a stream, in constant memory, except SQuAD's. A file without examples gives none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from nlptools.configs.tasks.table import GLUE
from nlptools.errors import UsageError
from nlptools.files import streams
from nlptools.formats.chains import read_chains
from nlptools.formats.choices import read_choices
from nlptools.formats.conll import read_columns
from nlptools.formats.examples import Example
from nlptools.formats.gap import read_coreference
from nlptools.formats.glue import glue_task
from nlptools.formats.layouts import layout_of, task_of_files
from nlptools.formats.preferences import read_demonstrations, read_preferences, read_rankings
from nlptools.formats.questions import read_questions
from nlptools.formats.reading_options import Options
from nlptools.formats.roles import read_roles
from nlptools.formats.text_groups import read_groups
from nlptools.formats.texts import read_texts
from nlptools.formats.universal import read_universal

Reader = Callable[[str, Options, str], Iterator[Example]]  # path, options, encoding errors
READERS: dict[str, Reader] = {
    **{task: partial(read_texts, task) for task in ("classify", "pair", "regress", "rank")},
    "similarity": read_groups,
    "tag": read_columns,
    "answer": read_questions,
    "choice": read_choices,
    "roles": read_roles,
    "parse": read_universal,
    "coreference": read_coreference,
    "chains": read_chains,
    "instruct": read_demonstrations,
    "reward": read_rankings,
    "preference": read_preferences,
}


def read(task: str, names: Sequence[str], options: Options | None = None, errors: str = "strict") -> Iterator[Example]:
    """The examples of several files in turn (none, or `-`: standard input), each with its own header and layout.

    Args:
        task: one of `READERS`, or `glue/NAME`.
        errors: handling of invalid UTF-8, see `streams.blocks`.

    Raises:
        DataError: a malformed line; with file, line and hint.
        InputError: no such file, a directory, unreadable. Raised by the call, before the first example, for all files.
        UsageError: no such task or layout, or `-` twice.
    """
    options = options or Options()
    if task.startswith(GLUE):
        options, task = replace(options, layout=task), glue_task(task).task
    if task not in READERS:
        raise UsageError(f"no such task: {task!r}, expected one of {', '.join(READERS)} or glue/NAME")
    task = task_of_files(task, names, options.layout)
    if options.delimiter:
        layout_of(task, "", options.layout, options.delimiter)
    return _all(READERS[task], streams.check_inputs(names), options, errors)


def _all(reader: Reader, names: Sequence[str], options: Options, errors: str) -> Iterator[Example]:
    for name in names:
        yield from reader(name, options, errors)
