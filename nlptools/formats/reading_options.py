"""Settings of the readers of examples: the input options of the commands, and properties of the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nlptools.configs.tasks.files import Files
from nlptools.formats.examples import Columns


def at_spaces(line: str) -> list[str]:
    """The words of a line between spaces."""
    return [word for word in line.split(" ") if word]


@dataclass(frozen=True)
class TagColumns:
    """The columns of the files that a tagger learned from.

    Attributes:
        count: number of columns; 0 if unknown.
        tags: the tags of the model.
    """

    count: int = 0
    tags: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Options(Files):
    """Settings of the readers. Columns are names in the header (keys in JSON), or numbers from 1, -1 the last.

    Attributes:
        labelled: the examples must have labels. False: they may; missing ones are None.
        texts: number of texts of an example of the task regress; 0: as many as the file has.
        words_of: the words of a line of text, its parts in order.
        learned: columns of the training files of a model; a file to predict that has columns of these names uses them.
        tagged: of the task tag: columns of the training files of a model, which distinguish columns from sentences.
        role_spans: of the task roles, see `finetune --role-spans`.
        trees: of CoNLL-U: the heads of labelled sentences are read, and must be trees.
        multi_label: an example has any number of classes, in JSON as a list, else joined by `label_separator`.
    """

    labelled: bool = True
    multi_label: bool = False
    words_of: Callable[[str], Sequence[str]] = at_spaces
    texts: int = 0
    role_spans: str = "heads"
    learned: Columns | None = None
    tagged: TagColumns | None = None
    trees: bool = False
