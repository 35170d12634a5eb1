"""How the files of each task are read."""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.configs import delimiter_option, option, redefined


@dataclass(frozen=True)
class ExampleFiles:
    """Input options"""

    layout: str = option("auto", "Layout of the files: jsonl, parquet; auto: by file name.", metavar="NAME")


@dataclass(frozen=True)
class TableFiles(ExampleFiles):
    """Input options"""

    layout: str = redefined(
        ExampleFiles,
        "layout",
        "auto",
        "Layout of the files: table (between tabs), csv, jsonl, parquet; also pair, regress: rte; answer: squad, qamr. auto: by"
        " the file name and the first line.",
    )
    text_column: tuple[str, ...] = option(
        (),
        "Column of a text, by name or number from 1; twice for two texts. Columns between commas are joined with spaces"
        " (subject,body), or are the texts of a task with two.",
        multiple=True,
        metavar="NAME",
    )
    label_column: str | None = option(
        None, "Column of the label, by name or number; -1 is the last column.", metavar="NAME"
    )
    header: bool = option(False, "The first line contains column names, even unknown ones.")
    delimiter: str | None = delimiter_option()


@dataclass(frozen=True)
class LabelFiles(TableFiles):
    """Input options"""

    layout: str = redefined(
        ExampleFiles,
        "layout",
        "auto",
        "Layout of the files: table (between tabs), csv, jsonl, parquet, trec, trec-fine, rte. auto: by the file name and the"
        " first line.",
    )
    label_separator: str = option(",", "Separator of several labels, see --multi-label.", metavar="TEXT")


@dataclass(frozen=True)
class ChainFiles(ExampleFiles):
    """Input options"""

    layout: str = redefined(
        ExampleFiles, "layout", "auto", "Layout of the files: conll (CoNLL-2012's columns), whatever their names."
    )
    text_column: tuple[str, ...] = redefined(
        TableFiles, "text_column", (), "Column of the words, by number from 1. Default: 4."
    )


@dataclass(frozen=True)
class UniversalFiles(ExampleFiles):
    """Input options"""

    layout: str = redefined(
        ExampleFiles,
        "layout",
        "auto",
        "Layout of the files: conllu; to predict also conll or lines (a sentence per line). auto: from the lines.",
    )
    label_column: str | None = redefined(
        TableFiles, "label_column", None, "Also learn these columns of CoNLL-U, such as upos,xpos,feats."
    )


@dataclass(frozen=True)
class TagFiles(ExampleFiles):
    """Input options"""

    layout: str = redefined(
        ExampleFiles,
        "layout",
        "auto",
        "Layout of the files: conll, conllu, lines (a sentence per line, to predict). auto: by the file name and the lines.",
    )
    text_column: tuple[str, ...] = redefined(
        TableFiles, "text_column", (), "Column of the words, by name or number from 1."
    )
    label_column: str | None = redefined(
        TableFiles,
        "label_column",
        None,
        "Column of the tags, by name (upos) or number; -1 is the last column. Several columns of CoNLL-U: upos,feats.",
    )
    comments: bool = option(False, "In column files, skip lines that begin with # and a space.")
    scheme: str = option(
        "auto",
        "Span scheme of the tags: iob1, iob2, bioes, bilou, ioe2, or plain for tags without spans. auto: from the tags.",
        metavar="NAME",
    )


@dataclass(frozen=True)
class Files(LabelFiles, TagFiles):
    """Input options"""

    layout: str = redefined(
        ExampleFiles,
        "layout",
        "auto",
        "File layout: table (between tabs), csv, jsonl, parquet, trec, trec-fine, rte, glue/NAME; tag, parse: conll, conllu,"
        " lines (a sentence per line); answer: also squad, qamr. auto: by the file name and the first line.",
    )
    label_column: str | None = redefined(
        TableFiles,
        "label_column",
        None,
        "Column of the label or tag, by name (upos) or number; -1 is the last column. tag, parse: also several columns of"
        " CoNLL-U, such as upos,feats.",
    )
    text_column: tuple[str, ...] = redefined(
        TableFiles,
        "text_column",
        (),
        "Column of a text, by name or number from 1; twice for two texts. Columns between commas are joined with spaces"
        " (subject,body), or are the texts of a task with two. tag: column of the words.",
    )
    comments: bool = redefined(
        TagFiles, "comments", False, "tag: in column files, skip lines that begin with # and a space."
    )
    scheme: str = redefined(
        TagFiles,
        "scheme",
        "auto",
        "tag: span scheme of the output: iob1, iob2, bioes, bilou, ioe2, or plain for tags without spans. auto: the scheme of"
        " the training files. For a model of another program, the scheme of its tags.",
    )
