"""Files of QAMR, questions about a sentence with words of the sentence as answers: a layout of the task answer.

Michael et al. 2018, "Crowdsourcing Question-Answer Meaning Representations" (N18-2089). The published TSV has one
question per line: sentence, target words, worker, number of the question, target word, question, answer, and two
validators' answers, each answer as numbers of words. A separate file has the sentences, `id TAB sentence`.
A line becomes a `Question` as follows:
* The context is the sentence, its words joined by single spaces. Brackets and quotes replace the codes of the Penn Treebank
  (-LRB- and so on, `` and '').
* The answer of the asker comes first, then the answers of the two validators, without duplicates. If the words of an answer
  are not contiguous (2 in 100), it becomes the span from its first to its last word.
* The id is sentence, target words, worker and number, which together are unique, joined by `/`.
Questions of one sentence follow each other; split off held-out parts between sentences.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from nlptools import messages
from nlptools.errors import DataError, InputError, display, shown
from nlptools.files import streams
from nlptools.formats.examples import AnswerSpan, Question
from nlptools.formats.lines import InputLines
from nlptools.formats.reading_options import Options

SENTENCES = "wiki-sentences.tsv"
COLUMNS = 9
_WRITTEN = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}", "``": '"', "''": '"'}
_WORDS = re.compile(r"[0-9]{1,9}( [0-9]{1,9})*")
_JUDGED = ("Invalid", "Redundant")  # in the unfiltered version


def read_qamr(lines: InputLines, options: Options, errors: str = "strict") -> Iterator[Question]:
    """The questions of a file. A test file may lack the answers; questions judged invalid keep the other answers.

    Raises:
        DataError: a line without nine columns, an answer other than numbers of words of the sentence, a sentence that is
            not in the file of sentences; with file, line and hint.
        InputError: there is no file of sentences.
    """
    if lines.first() is None:
        return
    sentences_path = _sentences_file(lines.path)
    sentences = _sentences(sentences_path, errors)
    for number, line in lines:
        fields = line.split("\t")
        if len(fields) != COLUMNS and (options.labelled or len(fields) < 6):
            hint = "--layout squad or jsonl for other questions"
            raise lines.refuse(
                number, f"{messages.counted(len(fields), 'column')}, expected the {COLUMNS} of QAMR", hint
            )
        words = sentences.get(fields[0])
        if words is None:
            hint = "the sentences of the Penn Treebank (PTB:...) are not published"
            raise lines.refuse(number, f"sentence {shown(fields[0])} is not in {display(sentences_path)}", hint)
        answers: dict[AnswerSpan, None] = {}
        for place, field in enumerate(fields[6:]):
            answer = field.partition(":")[2] if place else field
            if place and answer.startswith(_JUDGED):
                continue
            if not _WORDS.fullmatch(answer):
                raise lines.refuse(number, f"answer {shown(field)}, expected numbers of words", "as in `3 4 5`")
            answers[_answer(words, [int(word) for word in answer.split(" ")], lines, number)] = None
        id = "/".join(fields[:4]).replace(" ", "-")
        yield Question(id, fields[5], " ".join(words), tuple(answers), None, lines.place(number))


def _answer(words: Sequence[str], numbers: Sequence[int], lines: InputLines, line: int) -> AnswerSpan:
    first, last = min(numbers), max(numbers)
    if last >= len(words):
        raise lines.refuse(line, f"word {last} of a sentence that has {len(words)}", "words are counted from 0")
    start = sum(len(word) + 1 for word in words[:first])
    return AnswerSpan(" ".join(words[first : last + 1]), start)


def _sentences_file(path: str) -> str:
    folders = [Path(path).parent, Path(path).parent.parent] if path != "-" else []
    for folder in folders:
        if (folder / SENTENCES).is_file():
            return str(folder / SENTENCES)
    raise InputError(
        f"{display(path)}: no {SENTENCES}, the file of the sentences, in its folder or the one above",
        hint="put it there",
    )


def _sentences(path: str, errors: str) -> dict[str, list[str]]:
    """The words of each sentence by its id."""
    sentences = {}
    for number, line in enumerate(streams.lines(path, errors), 1):
        id, tab, text = line.partition("\t")
        if not tab:
            raise DataError("expected `id TAB sentence`", path=path, line=number)
        sentences[id] = [_WRITTEN.get(word, word) for word in text.split(" ")]
    return sentences
