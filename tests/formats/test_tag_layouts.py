"""Which files to tag are sentences, and which are columns."""

from __future__ import annotations

from pathlib import Path

import pytest

from nlptools.errors import DataError
from nlptools.formats.readers import read
from nlptools.formats.reading_options import Options, TagColumns

NER = TagColumns(4, frozenset({"O", "B-PER", "I-PER"}))
POS = TagColumns(2, frozenset({"NOUN", "VERB"}))
UNKNOWN = TagColumns()


def layouts(tmp_path: Path, text: str, tagged: TagColumns, **options: object) -> set[str]:
    (tmp_path / "input").write_text(text)
    settings = Options(labelled=False, tagged=tagged, **options)  # type: ignore[arg-type]
    return {example.layout for example in read("tag", [str(tmp_path / "input")], settings)}  # type: ignore[union-attr]


def test_sentences(tmp_path: Path) -> None:
    for text in (
        "Ann sleeps .\n",
        "Ann\n",
        "Hello !\n\nAnn\n\nHello !\n\n",  # single lines: as many words as columns, one word
        "\n\nAnn lives in Rome .\nBob , too .\n",
        "Ann loves Rome\nBob loves Paris\n",  # three words each, as columns without tags would have
        "# good idea\n# 2 of them\nAnn sleeps now .\nO yes\n",
        "Ann lives in Rome\nBob works in Paris\n",
        "You all did well done\n" + "word " * 9 + "\n",
    ):
        for tagged in (NER, POS, UNKNOWN):
            assert layouts(tmp_path, text, tagged) == {"lines"}, (text, tagged)


def test_columns(tmp_path: Path) -> None:
    word, tags = "EU NNP I-NP B-PER\n", "-DOCSTART- -X- -X- O\n\n"
    for text, tagged in (
        (word + "rejects VBZ I-VP O\n\n", NER),
        (word, NER),  # one word and its tag
        (word + "\n" + word, UNKNOWN),
        (tags + "EU NNP I-NP\nsleeps VBZ I-VP\n", NER),
        ("EU NNP I-NP\nsleeps VBZ I-VP\n\n", NER),  # without tags
        ("EU NNP I-NP\n" * 5, NER),
        ("Ann\tNNP\n", UNKNOWN),
        ("Ann NOUN\nsleeps VERB\nhere ADV\n\n", POS),  # a tag that the model does not know
        ("Ann _\nsleeps _\n", POS),
        ("Ann\nsleeps\n", NER),
        ("Ann\nsleeps\n", UNKNOWN),
    ):
        assert layouts(tmp_path, text, tagged) == {"conll"}, (text, tagged)
    universal = "# text = Go\n1\tGo\tgo\tVERB\tVB\t_\t0\troot\t_\t_\n\n"
    assert layouts(tmp_path, universal, POS) == {"conllu"}
    assert layouts(tmp_path, universal, POS, text_column=("2",), comments=True) == {"conll"}


def test_what_may_be_either_is_refused(tmp_path: Path) -> None:
    row = "a b c d e\n"
    for text in (row + row + "\n", row * 5, row * 1000):
        for tagged in (NER, UNKNOWN):
            with pytest.raises(DataError, match=r"input:1: 5 fields in each line: columns or sentences\?"):
                layouts(tmp_path, text, tagged)
            assert layouts(tmp_path, text, tagged, layout="lines") == {"lines"}
            assert layouts(tmp_path, text, tagged, layout="conll") == {"conll"}


def test_a_malformed_line_of_columns_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="input:2: 3 columns, expected 4"):
        layouts(tmp_path, "EU NNP I-NP B-PER\nrejects VBZ O\n\n", NER)
