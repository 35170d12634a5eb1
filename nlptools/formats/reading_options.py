"""How task files are to be read: what the command line lets the user say, in one value."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """Settings of `reading.read`. Columns are names in the header (keys in JSON), or numbers from 1, -1 the last.

    Attributes:
        layout: "auto" recognizes the layout by the file name and the first line, as `reading` tells; or one of
            `reading.LAYOUTS`.
        labelled: answers must stand in the file. False: they may, and None stands for those that do not.
        header: whether the first line names the columns; None: if it has names that published files have.
        text_columns: columns of the texts (classify, pair, regress).
        label_column: column of the label; for tag that of the tags (`upos`, `ner`, `4`, default the last).
        id_column: column of what the file calls an example.
        word_column: column of the words (tag).
        multi_label: an example has any number of classes, in JSON as a list, else joined by `label_separator`.
        fine: TREC: the label is `DESC:manner`, not `DESC`.
        skip_broken: lines with too few columns are left out with a warning that counts them. Only with `labelled`;
            always on for GLUE's training files, where QQP has such lines.
        comments: CoNLL columns: lines that begin with `# ` or `#TAB` are comments, no words (CoNLL-U always has it so).
        move_answers: an answer that does not stand where the file says is taken from the nearest place where it
            stands, and left out if it stands nowhere; both are counted. False: it is an error.
        sentences: QAMR: the file of sentences, if it is not `wiki-sentences.tsv` in the folder of the questions or the
            one above.
        role_spans: "heads": a role is tagged where the file has it, on one word; "subtrees": on the words around that
            depend on it.
    """

    layout: str = "auto"
    labelled: bool = True
    header: bool | None = None
    text_columns: tuple[str, ...] = ()
    label_column: str | None = None
    id_column: str | None = None
    word_column: str | None = None
    multi_label: bool = False
    label_separator: str = ","
    fine: bool = False
    skip_broken: bool = False
    comments: bool = False
    move_answers: bool = False
    sentences: str | None = None
    role_spans: str = "heads"
