"""QAMR: questions about a sentence, answered by words of it.

Michael et al. 2018, "Crowdsourcing Question-Answer Meaning Representations" (N18-2089). The published TSV has one
question per line: sentence, target words, worker, number of the question, target word, question, answer, and two
validators' answers, each answer as numbers of words. The sentences stand in a file of their own, `id TAB sentence`.
How it becomes a `Question`:
* The context is the sentence, its words between single spaces, with brackets and quotes for what the Penn Treebank writes
  for them (-LRB- and so on, `` and '').
* The asker's answer and the two validators' are the answers, the asker's first, each once. An answer whose words do not
  stand side by side (2 in 100) is all from its first to its last word, for an answer is one place in the context.
* The id is sentence, target words, worker and number, which together are unique, with `/` between them.
Questions of one sentence follow each other; held-out parts are to be cut between sentences.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from nlptools.errors import DataError, InputError, display
from nlptools.files import streams
from nlptools.formats.examples import Answer, Question
from nlptools.formats.lines import Lines, columns, shown
from nlptools.formats.reading_options import Options

SENTENCES = "wiki-sentences.tsv"
_COLUMNS = 9
_WRITTEN = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}", "``": '"', "''": '"'}
_WORDS = re.compile(r"[0-9]+( [0-9]+)*")
_JUDGED = ("Invalid", "Redundant")  # of the version that is not filtered


def read_qamr(path: str, options: Options, errors: str = "strict") -> Iterator[Question]:
    """The questions of a file. A test file may lack the answers; questions judged invalid keep the other answers.

    Raises:
        DataError: a line has not nine columns, an answer is not numbers of words of the sentence, a sentence is not in
            the file of sentences; names file, line and cure.
        InputError: there is no file of sentences.
    """
    lines = Lines(path, errors)
    if lines.first() is None:
        return
    found = _sentences_file(path, options)
    sentences = _sentences(found, errors)
    for number, line in lines:
        fields = line.split("\t")
        if len(fields) != _COLUMNS and (options.labelled or len(fields) < 6):
            cure = "--layout squad or jsonl for other questions"
            raise lines.refuse(number, f"{columns(len(fields))}, expected the {_COLUMNS} of QAMR", cure)
        words = sentences.get(fields[0])
        if words is None:
            cure = "those of the Penn Treebank (PTB:...) are not published"
            raise lines.refuse(number, f"sentence {shown(fields[0])} is not in {display(found)}", cure)
        answers: dict[Answer, None] = {}
        for place, field in enumerate(fields[6:]):
            answer = field.partition(":")[2] if place else field
            if place and answer.startswith(_JUDGED):
                continue
            if not _WORDS.fullmatch(answer):
                raise lines.refuse(number, f"answer {shown(field)}, expected numbers of words", "as in `3 4 5`")
            answers[_answer(words, [int(word) for word in answer.split(" ")], lines, number)] = None
        id = "/".join(fields[:4]).replace(" ", "-")
        yield Question(id, fields[5], " ".join(words), tuple(answers), None, lines.place(number))


def _answer(words: Sequence[str], numbers: Sequence[int], lines: Lines, line: int) -> Answer:
    first, last = min(numbers), max(numbers)
    if last >= len(words):
        raise lines.refuse(line, f"word {last} of a sentence that has {len(words)}", "words are counted from 0")
    start = sum(len(word) + 1 for word in words[:first])
    return Answer(" ".join(words[first : last + 1]), start)


def _sentences_file(path: str, options: Options) -> str:
    if options.sentences is not None:
        return options.sentences
    folders = [Path(path).parent, Path(path).parent.parent] if path != "-" else []
    for folder in folders:
        if (folder / SENTENCES).is_file():
            return str(folder / SENTENCES)
    raise InputError(
        f"{display(path)}: no {SENTENCES} beside it, which has the sentences of the questions",
        hint="--sentences FILE names it",
    )


def _sentences(path: str, errors: str) -> dict[str, list[str]]:
    """The words of each sentence by its id."""
    found = {}
    for number, line in enumerate(streams.lines(path, errors), 1):
        id, tab, text = line.partition("\t")
        if not tab:
            raise DataError("expected `id TAB sentence`", path=path, line=number, hint="--sentences FILE names it")
        found[id] = [_WRITTEN.get(word, word) for word in text.split(" ")]
    return found
