"""Tagged sentences and roles: columns in and out, CoNLL-U, the schemes of span tags."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlptools.errors import DataError, UsageError
from nlptools.files import streams
from nlptools.formats.conll import with_tags
from nlptools.formats.examples import Place, PredicateSentence, TaggedSentence
from nlptools.formats.readers import read
from nlptools.formats.reading_options import Options
from nlptools.formats.tag_schemes import (
    PLAIN,
    SCHEMES,
    TaggedSpan,
    as_iob2,
    broken_tag,
    convert,
    detect,
    find_scheme,
    mend,
    place_of,
    spans,
    tags_of,
)
from nlptools.formats.token_lines import BOUNDARY, DOCSTART, Row, sentences
from nlptools.metrics.spans import entities
from nlptools.metrics.tags import read_tags
from tests.real_data import published

NER = """-DOCSTART- -X- O O

EU NNP I-NP I-ORG
rejects VBZ I-VP O
# NN I-NP O

Peter NNP I-NP I-PER


-DOCSTART- -X- O O

"""
UD = """# newdoc id = x
# text = Don't go
1-2	Don't	_	_	_	_	_	_	_	_
1	Do	do	AUX	VB	_	3	aux	_	_
2	n't	not	PART	RB	_	3	advmod	_	_
3	go	go	VERB	VB	_	0	root	_	_
3.1	home	home	NOUN	NN	_	_	_	_	_

# second
1	# 1	#	SYM	#	_	0	root	_	_

"""


def write(tmp_path: Path, text: str, name: str) -> str:
    path = tmp_path / name
    path.write_bytes(text.encode())
    return str(path)


def tagged(tmp_path: Path, text: str, name: str = "f.conll", **options: object) -> list[TaggedSentence]:
    examples = list(read("tag", [write(tmp_path, text, name)], Options(**options)))  # type: ignore[arg-type]
    assert all(isinstance(example, TaggedSentence) for example in examples)
    return examples  # type: ignore[return-value]


def lines(sentences: list[TaggedSentence]) -> str:
    return "".join(row.text + "\n" for sentence in sentences for row in sentence.rows)


# -- sentences --------------------------------------------------------------------------------------------------------


def evaluated(path: str, *boundaries: str) -> list[tuple[int, list[list[str]]]]:
    """Line and tokens of each sentence, by the rules of evaluation."""

    def check(number: int, columns: list[str], width: int) -> None:
        if width:
            raise DataError(f"{len(columns)} columns, expected {width}", path=path, line=number)

    blocks = ((block.start, block.lines) for block in streams.blocks(path))
    found = sentences(blocks, check, boundaries=(BOUNDARY, *boundaries))
    return [(sentence.line, sentence.tokens) for sentence in found]


def test_sentences_end_at_blank_lines_and_boundaries(tmp_path):
    path = write(tmp_path, "\n \na  b\tO\nc d O\n\t\n\n-X- anything\ne f O\r\n-X- x O O\n\ng h O", "file")
    assert evaluated(path) == [
        (3, [["a", "b", "O"], ["c", "d", "O"]]),
        (8, [["e", "f", "O"]]),
        (11, [["g", "h", "O"]]),
    ]


def test_only_spaces_and_tabs_separate_columns(tmp_path):
    words = ["a\u00a0b", "c\u3000d", "e\u2028f", "g\x0bh", "i\u0085"]
    path = write(tmp_path, "".join(f"{word} O\n" for word in words), "file")
    assert [row[0] for row in evaluated(path)[0][1]] == words


def test_docstart_lines_are_tokens_unless_skipped(tmp_path):
    path = write(tmp_path, "-DOCSTART- -X- O\n\na b O\n-DOCSTART- O\nc d O\n", "file")
    assert [len(tokens) for _, tokens in evaluated(path, DOCSTART)] == [1, 1]
    with pytest.raises(DataError, match="file:4: 2 columns, expected 3"):
        evaluated(path)


# -- columns ----------------------------------------------------------------------------------------------------------


def test_conll_columns(tmp_path):
    first, second = tagged(tmp_path, NER)
    assert first.words == ("EU", "rejects", "#")
    assert first.tags == ("I-ORG", "O", "O")
    assert (second.words, second.tags) == (("Peter",), ("I-PER",))
    assert [row.word for row in first.rows] == [None, None, 0, 1, 2, None]
    assert (first.place.line, second.place.line) == (1, 7)
    assert place_of(first, 1) == Place(first.place.path, 4)
    for column in ("pos", "2", "-3"):
        assert tagged(tmp_path, NER, label_column=column)[0].tags == ("NNP", "VBZ", "NN")
    assert tagged(tmp_path, NER, text_column=("2",), label_column="chunk")[0].words == ("NNP", "VBZ", "NN")


def test_all_lines_come_back_without_labels(tmp_path):
    sentences = tagged(tmp_path, NER, labelled=False)
    assert [sentence.words for sentence in sentences] == [("EU", "rejects", "#"), ("Peter",), ()]
    assert lines(sentences) == NER
    sentences = tagged(tmp_path, UD, "f.conllu", labelled=False)
    assert lines(sentences) == UD


def test_predictions_stand_in_a_last_column(tmp_path):
    sentences = tagged(tmp_path, NER, labelled=False)
    made = [with_tags(s, t) for s, t in zip(sentences, [("B-ORG", "O", "O"), ("B-PER",), ()])]
    assert made[0] == [
        *("-DOCSTART- -X- O O O", "", "EU NNP I-NP I-ORG B-ORG", "rejects VBZ I-VP O O", "# NN I-NP O O", "")
    ]
    assert made[1] == ["Peter NNP I-NP I-PER B-PER", ""]
    assert made[2] == ["", "-DOCSTART- -X- O O O", ""]
    written = write(tmp_path, "".join(line + "\n" for part in made for line in part), "out")
    assert entities(*read_tags([written]), "conlleval").values()["f1"] == 1
    with pytest.raises(UsageError, match="1 tags for 3 words"):
        with_tags(sentences[0], ("O",))


def test_conllu(tmp_path):
    first, second = tagged(tmp_path, UD, "f.conllu", label_column="upos")
    assert (first.words, first.tags) == (("Do", "n't", "go"), ("AUX", "PART", "VERB"))
    assert (second.words, second.tags) == (("# 1",), ("SYM",))
    assert place_of(first, 2).line == 6
    assert [s.tags for s in tagged(tmp_path, UD, "f.conllu", label_column="8")] == [
        *(("aux", "advmod", "root"), ("root",))
    ]
    made = with_tags(first, ("a", "b", "c"))
    assert made[:3] == ["# newdoc id = x", "# text = Don't go", "1-2\tDon't" + "\t_" * 9]
    assert made[3].endswith("\taux\t_\t_\ta") and made[6].endswith("\t_") and made[6].count("\t") == 10
    assert with_tags(second, ("X",))[0] == "# second"


def test_words_alone_and_words_on_a_line(tmp_path):
    assert tagged(tmp_path, "a\nb\n\nc\n", labelled=False)[0] == TaggedSentence(
        ("a", "b"), None, Place(str(tmp_path / "f.conll"), 1), (Row("a", 0), Row("b", 1), Row(""))
    )
    sentences = tagged(tmp_path, "a  b\n\nc\n", layout="lines", labelled=False)
    assert [sentence.words for sentence in sentences] == [("a", "b"), (), ("c",)]
    assert lines(sentences) == "a  b\n\nc\n"


def test_tabs_separate_where_there_are_any(tmp_path):
    (sentence,) = tagged(tmp_path, "New York\tB-LOC\nin\tO\n")
    assert sentence.words == ("New York", "in")
    assert with_tags(sentence, ("x", "y")) == ["New York\tB-LOC\tx", "in\tO\ty"]
    (sentence,) = tagged(tmp_path, "# id = 3\na\tO\n", comments=True)
    assert sentence.words == ("a",)
    assert with_tags(sentence, ("x",)) == ["# id = 3", "a\tO\tx"]


@pytest.mark.parametrize(
    ("text", "name", "options", "line", "said"),
    [
        ("a O\nb\n", "f", {}, 2, "1 column, expected 2"),
        ("a O\nb X O\n", "f", {}, 2, "3 columns, expected 2"),
        ("a\nb\n", "f", {}, 1, "1 column, expected a word and a tag"),
        ("a O\n", "f", {"label_column": "3"}, 1, "no column 3: the first line has 2 columns"),
        ("a O\n", "f", {"label_column": "upos"}, 1, "no column 'upos'"),
        (UD, "f.conllu", {}, 4, "which column has the tags?"),
        ("1\ta\t_\n", "f.conllu", {"label_column": "3"}, 1, "3 columns, expected 10"),
        ("x\ta\t_\n", "f.conllu", {"label_column": "3"}, 1, "expected the number of a word, got 'x'"),
    ],
)
def test_broken_columns(tmp_path, text, name, options, line, said):
    with pytest.raises(DataError) as caught:
        tagged(tmp_path, text, name, **options)
    assert f"{name}:{line}: " in str(caught.value)
    assert said in str(caught.value)
    assert caught.value.hint


WORD = st.text(
    st.characters(blacklist_characters="\t\n\r \ufeff", blacklist_categories=("Cs",)), min_size=1, max_size=5
)
SENTENCE = st.lists(st.tuples(WORD, WORD), min_size=1, max_size=5)


@given(sentences=st.lists(SENTENCE, max_size=5), blanks=st.integers(1, 3))
def test_round_trip_of_columns(tmp_path_factory, sentences, blanks):
    path = tmp_path_factory.mktemp("columns") / "f"
    text = "".join("".join(f"{w}\t{t}\n" for w, t in s) + "\n" * blanks for s in sentences)
    path.write_bytes(text.encode())
    found = [e for e in read("tag", [str(path)], Options(labelled=False)) if isinstance(e, TaggedSentence)]
    expected = [s for s in sentences if s]
    if not any(w in ("-X-", "-DOCSTART-") for s in sentences for w, _ in s):
        assert [list(zip(e.words, e.tags or ())) for e in found if e.words] == expected
    assert lines(found) == text


# -- schemes ----------------------------------------------------------------------------------------------------------

TWO = [TaggedSpan(0, 2, "PER"), TaggedSpan(2, 3, "PER"), TaggedSpan(4, 5, "LOC")]  # of 5 words, two that touch


@pytest.mark.parametrize(
    ("scheme", "tags"),
    [
        ("iob1", "I-PER I-PER B-PER O I-LOC"),
        ("iob2", "B-PER I-PER B-PER O B-LOC"),
        ("iobes", "B-PER E-PER S-PER O S-LOC"),
        ("bilou", "B-PER L-PER U-PER O U-LOC"),
        ("ioe2", "I-PER E-PER E-PER O E-LOC"),
    ],
)
def test_tags_and_spans_by_hand(scheme, tags):
    assert tags_of(TWO, 5, scheme) == tags.split()
    assert spans(tags.split(), scheme) == (TWO, [])
    assert convert(tags.split(), scheme, "iob2") == ["B-PER", "I-PER", "B-PER", "O", "B-LOC"]
    assert detect([tags.split()]) == scheme


@st.composite
def some_spans(draw):
    found, at = [], 0
    for gap, length, kind in draw(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3), st.sampled_from("AB")))):
        found.append(TaggedSpan(at + gap, at + gap + length, kind))
        at += gap + length
    return found, at + draw(st.integers(0, 2))


@given(some_spans(), st.sampled_from(SCHEMES), st.sampled_from(SCHEMES))
def test_schemes_say_the_same(made, source, target):
    found, length = made
    tags = tags_of(found, length, source)
    assert spans(tags, source) == (found, [])
    assert mend(tags, source) == tags
    there = convert(tags, source, target)
    assert spans(there, target) == (found, [])
    assert convert(there, target, source) == tags
    if found:
        guessed = detect([tags])
        assert spans(tags, guessed)[1] == []
        assert SCHEMES.index(guessed) <= SCHEMES.index(source)
        strict = entities([tags], [tags], source).details
        assert strict["gold"] == strict["correct"] == len(found)


TAG = st.sampled_from(["O", "B-A", "I-A", "B-B", "I-B", "E-A", "S-B"])


@given(st.lists(TAG, min_size=1, max_size=8))
def test_broken_tags_are_those_that_scoring_leaves_out(tags):
    for scheme in ("iob1", "iob2", "ioe2", "iobes"):
        prefixes = {"iob1": "OBI", "iob2": "OBI", "ioe2": "OIE", "iobes": "OBIES"}[scheme]
        if not all(tag[0] in prefixes for tag in tags):
            continue
        found, broken = spans(tags, scheme)
        assert entities([tags], [tags], scheme).details["gold"] == len(found)
        covered = {word for start, end, _ in found for word in range(start, end)}
        assert covered.isdisjoint(broken)
        assert covered | set(broken) == {word for word, tag in enumerate(tags) if tag != "O"}
        mended = mend(tags, scheme)
        assert spans(mended, scheme)[1] == []
        kept, spoken = ([("" if tag == "O" else tag[2:]) for tag in side] for side in (mended, tags))
        assert kept == spoken


def test_mending_reads_as_conlleval():
    assert mend(["O", "I-A", "I-A", "O", "I-B"], "iob2") == ["O", "B-A", "I-A", "O", "B-B"]
    assert mend(["B-A", "I-B", "I-B"], "iob2") == ["B-A", "B-B", "I-B"]
    assert mend(["O", "B-A", "O"], "iob1") == ["O", "I-A", "O"]
    assert mend(["B-A", "O", "E-B", "S-A", "I-A"], "iobes") == ["S-A", "O", "S-B", "S-A", "S-A"]


def test_detection():
    assert detect([("NN", "O"), ("VB", "O")]) == PLAIN
    assert detect([("O", "O")]) == PLAIN
    assert detect([("O", "I-A"), ("I-A", "O")]) == "iob1"
    assert detect([("B-A", "I-A"), ("B-A", "O")]) == "iob2"
    assert detect([*[("B-A", "I-A")] * 3, ("B-B", "I-A")]) == "iob2"  # a slip in a file of that scheme
    assert detect([("S-A", "O", "B-B", "E-B")]) == "iobes"
    assert [find_scheme(name) for name in ("BIOES", "bio", "IOB1", "plain")] == ["iobes", "iob2", "iob1", "plain"]
    with pytest.raises(UsageError):
        find_scheme("x")


def test_a_broken_tag_is_told_with_its_line(tmp_path):
    (sentence,) = tagged(tmp_path, "\n\nBob B-PER\n, O\nof I-LOC\n")
    fault = broken_tag(sentence, "iob2")
    assert "f.conll:5: tag 'I-LOC' after O breaks the scheme iob2" in str(fault) and fault.hint
    assert broken_tag(sentence, PLAIN) is None
    with pytest.raises(DataError, match=r"f\.conll:3: tag 'B-PER', expected O, I-TYPE, E-TYPE \(ioe2\)"):
        broken_tag(sentence, "ioe2")


def test_a_file_to_iob2(tmp_path, capsys):
    text = "a I-X\nb I-X\nc B-X\n\nd O\ne B-Y\nf I-Y\n\n"
    made, scheme = as_iob2(tagged(tmp_path, text))
    assert scheme == "iob1"
    assert [s.tags for s in made] == [("B-X", "I-X", "B-X"), ("O", "B-Y", "I-Y")]
    assert "f.conll:6: tag 'B-Y' after O breaks the scheme iob1; 1 sentence with such tags" in capsys.readouterr().err
    assert as_iob2(made, "BIO") == (made, "iob2")
    with pytest.raises(DataError, match=r"f\.conll:2: tag 'Z', expected O, I-TYPE, E-TYPE"):
        as_iob2(tagged(tmp_path, "a E-X\nb Z\n"), "ioe2")
    plain = tagged(tmp_path, "a NN\nb VB\n")
    assert as_iob2(plain) == (plain, PLAIN)


# -- roles ------------------------------------------------------------------------------------------------------------

ROLES = """# nothing happens
1	Oh	oh	INTJ	UH	_	0	root	_	_	_

# text = The man you saw wants to sleep
1	The	_	DET	_	_	2	det	_	_	_	_	_	_
2	man	_	NOUN	_	_	5	nsubj	_	_	_	ARG1	ARG0	ARG0
3	you	_	PRON	_	_	4	nsubj	_	_	_	ARG0	_	_
4	saw	_	VERB	_	_	2	acl	_	_	see.01	V	_	_
5	wants	_	VERB	_	_	0	root	_	_	want.01	_	V	_
6	to	_	PART	_	_	7	mark	_	_	_	_	_	_
7	sleep	_	VERB	_	_	5	xcomp	_	_	sleep.01	_	ARG1	V

"""


def roles(tmp_path: Path, text: str, **options: object) -> list[PredicateSentence]:
    examples = list(read("roles", [write(tmp_path, text, "f.conllu")], Options(**options)))  # type: ignore[arg-type]
    assert all(isinstance(example, PredicateSentence) for example in examples)
    return examples  # type: ignore[return-value]


def test_roles_one_example_per_predicate(tmp_path):
    examples = roles(tmp_path, ROLES)
    assert [(e.predicate, e.sense) for e in examples] == [(3, "see.01"), (4, "want.01"), (6, "sleep.01")]
    assert examples[0].roles == ("O", "B-ARG1", "B-ARG0", "O", "O", "O", "O")
    assert examples[1].roles == ("O", "B-ARG0", "O", "O", "O", "O", "B-ARG1")
    assert {e.words for e in examples} == {("The", "man", "you", "saw", "wants", "to", "sleep")}
    assert {e.place.line for e in examples} == {4}
    assert "".join(row.text + "\n" for e in examples for row in e.rows) == ROLES
    assert [row.word for row in examples[0].rows][:5] == [None, None, None, None, 0]


def test_roles_on_subtrees(tmp_path):
    seen, wants, sleep = roles(tmp_path, ROLES, role_spans="subtrees")
    assert wants.roles == ("B-ARG0", "I-ARG0", "I-ARG0", "I-ARG0", "O", "B-ARG1", "I-ARG1")
    assert sleep.roles == ("B-ARG0", "I-ARG0", "I-ARG0", "I-ARG0", "O", "O", "O")
    assert seen.roles == ("B-ARG1", "I-ARG1", "B-ARG0", "O", "O", "O", "O")  # the predicate is no part of its argument


def test_roles_that_are_not_there(tmp_path):
    bare = ROLES.replace("\tV\t_\t_", "").replace("\t_\tV\t_", "")
    text = "1\tRun\t_\tVERB\t_\t_\t0\troot\t_\t_\trun.01\n\n"
    with pytest.raises(DataError, match=r"f\.conllu:1: predicate 1 has no column of roles"):
        roles(tmp_path, text)
    (example,) = roles(tmp_path, text, labelled=False)
    assert (example.roles, example.predicate) == (None, 0)
    with pytest.raises(DataError, match=r"f\.conllu:1: 10 columns, expected 11 or more"):
        roles(tmp_path, text.replace("\trun.01", ""))
    with pytest.raises(DataError, match=r"f\.conllu:1: head 'x', expected the number"):
        roles(tmp_path, text.replace("0\troot", "x\troot").replace("run.01", "run.01\tV"), role_spans="subtrees")
    with pytest.raises(UsageError, match="role spans"):
        roles(tmp_path, bare, role_spans="all")


# -- the published files ----------------------------------------------------------------------------------------------


def test_published_files():
    path = published("conll2003", "eng.testa")
    gold = [s for s in read("tag", [str(path)]) if isinstance(s, TaggedSentence)]
    assert len(gold) == 3250
    assert sum(len(s.words) for s in gold) == 51362
    count = 0
    made, scheme = as_iob2(gold)
    assert scheme == "iob1"
    for before, after in zip(gold, made):
        assert tuple(convert(after.tags or (), "iob2", "iob1")) == before.tags
        count += len(spans(after.tags or (), "iob2")[0])
    assert count == 5942
    every = [s for s in read("tag", [str(path)], Options(labelled=False)) if isinstance(s, TaggedSentence)]
    assert lines(every) == path.read_text(encoding="utf-8")

    path = published("ud_ewt", "en_ewt-ud-dev.conllu")
    options = Options(label_column="upos", labelled=False)
    every = [s for s in read("tag", [str(path)], options) if isinstance(s, TaggedSentence)]
    raw = [line.split("\t")[0] for line in path.read_text(encoding="utf-8").split("\n")]
    assert len(every) == sum(line.startswith("# sent_id") for line in raw) == 2001
    assert sum(len(s.words) for s in every) == sum(field.isdecimal() for field in raw)
    assert len({tag for s in every for tag in s.tags or ()}) == 17
    assert lines(every) == path.read_text(encoding="utf-8")

    path = published("up_ewt_srl", "en_ewt-up-dev.conllu")
    found = [e for e in read("roles", [str(path)], Options(labelled=False)) if isinstance(e, PredicateSentence)]
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").split("\n")]
    senses = [row[10] for row in rows if row[0].isdecimal() and row[10] not in ("", "_")]
    assert [e.sense for e in found] == senses
    assert all(e.roles is not None and e.roles[e.predicate][2:] != "V" for e in found)
    counted = sum(field not in ("", "_", "V") for row in rows if row[0].isdecimal() for field in row[11:])
    assert sum(tag != "O" for e in found for tag in e.roles or ()) == counted
    wide = read("roles", [str(path)], Options(role_spans="subtrees"))
    assert sum(tag[:2] == "B-" for e in wide if isinstance(e, PredicateSentence) for tag in e.roles or ()) == counted
