"""Texts of unknown tokens: a warning, a refusal, the likely cause."""

from __future__ import annotations

import pytest

from nlptools.errors import DataError
from nlptools.text import learning
from nlptools.text.builtin import NamedTokenizer
from nlptools.text.pieces import SentencePiece
from nlptools.text.unknown import UnknownTokens
from nlptools.text.vocab import Vocab

VOCAB = Vocab(["<unk>", "the", "dog", "barks", "."])


def reported(tokenizer, lines, capsys, force=None):
    """The warning, without the name of the command."""
    unknown = UnknownTokens(tokenizer, "the text")
    count = unknown.count(lines, tokenizer.encode_lines(lines))
    assert (count, count) == (unknown.unknown, sum(row.count(0) for row in tokenizer.encode_lines(lines)))
    unknown.report(force)
    return capsys.readouterr().err.partition("warning: ")[2].rstrip()


def test_few_unknown_tokens_are_no_warning(capsys):
    tokenizer = NamedTokenizer("whitespace", VOCAB)
    assert reported(tokenizer, ["the dog barks ."] * 5, capsys, False) == ""
    assert reported(tokenizer, ["the dog barks .", "cat"] + ["the dog barks ."] * 4, capsys, False) == ""  # 1 of 21
    assert reported(tokenizer, [], capsys, False) == ""


@pytest.mark.parametrize(
    ("kind", "line", "message"),
    [
        ("whitespace", "The Dog barks .", "50% of the tokens of the text are unknown to the tokenizer, but only 0% if"
         " the text is lower-cased"),
        ("whitespace", "the dog. .", "33% of the tokens of the text are unknown to the tokenizer, but only 0%"
         " with the tokenizer words"),
        ("whitespace", "the cat barks .", "25% of the tokens of the text are unknown to the tokenizer; its vocabulary is"
         " probably of another language, script or domain"),
    ],
)  # fmt: skip
def test_the_likely_cause(kind, line, message, capsys):
    assert reported(NamedTokenizer(kind, VOCAB), [line] * 3, capsys) == message


def test_pieces_of_lower_case_text(capsys):
    model = SentencePiece(learning.train_sentencepiece(["the dog barks"] * 99, "unigram", 30), "m")
    assert ", but only 0% if the text is lower-cased" in reported(model, ["THE DOG BARKS"], capsys)


def test_mostly_unknown_tokens_are_refused_to_training_commands(capsys):
    tokenizer = NamedTokenizer("whitespace", VOCAB)
    with pytest.raises(DataError, match="75% of the tokens") as refusal:
        reported(tokenizer, ["Der Hund bellt ."], capsys, force=False)
    assert refusal.value.hint == "--force trains nevertheless"
    assert "75%" in reported(tokenizer, ["Der Hund bellt ."], capsys, force=True)
    assert "75%" in reported(tokenizer, ["Der Hund bellt ."], capsys)


def test_the_unknown_token_written_in_the_text_is_expected(capsys):
    """Published corpora have it in place of rare words."""
    tokenizer = NamedTokenizer("whitespace", VOCAB)
    assert reported(tokenizer, ["the <unk> barks ."] * 3, capsys, False) == ""
    assert "50%" in reported(tokenizer, ["the <unk> meows ."] * 3, capsys)
