"""nlptools bleu, as a process."""

from __future__ import annotations

import gzip
import os
import re
from pathlib import Path

import pytest

HYP = "the cat sat on the mat .\nhello there , world\n"
REF = "the cat sat on a mat .\nhello there , my world\n"


@pytest.fixture
def files(tmp_path):
    (tmp_path / "hyp").write_text(HYP)
    (tmp_path / "ref").write_text(REF)
    return tmp_path


def test_the_line(run, files):
    done = run("bleu", "ref", stdin=HYP)
    assert (done.code, done.err) == (0, "")
    assert re.fullmatch(
        r"BLEU\|nrefs:1\|case:mixed\|eff:no\|tok:13a\|smooth:exp\|version:nlptools-[\d.]+ = \d+\.\d "
        r"[\d.]+/[\d.]+/[\d.]+/[\d.]+ \(BP = 0\.913 ratio = 0\.917 hyp_len = 11 ref_len = 12\)\n",
        done.text,
    )
    assert run("bleu", "ref", "-i", "hyp").text == done.text
    assert run("bleu", "-", "-i", "hyp", stdin=REF).text == done.text


def test_score_only_width_and_references(run, files):
    assert run("bleu", "hyp", "-b", "-w", "14", stdin=HYP).text == "100.00000000000004\n"
    assert run("bleu", "ref", "hyp", "--score-only", stdin=HYP).text == "100.0\n"
    assert "nrefs:2|" in run("bleu", "ref", "hyp", stdin=HYP).text
    assert "tok:none|" in run("bleu", "ref", "--tokenize", "none", stdin=HYP).text


def test_fail_under(run, files):
    assert run("bleu", "hyp", "--fail-under", "99", stdin=HYP).code == 0
    done = run("bleu", "ref", "--fail-under", "99", stdin=HYP)
    assert done.code == 1
    assert done.text.startswith("BLEU|")
    assert re.fullmatch(r"nlptools bleu: the score \d+\.\d\d is below 99\n", done.err)


def test_unequal_numbers_of_lines(run, files):
    done = run("bleu", "ref", "hyp", stdin="one\ntwo\nthree\n")
    assert (done.code, done.out) == (65, b"")
    assert done.err == "nlptools bleu: unequal numbers of lines: <stdin> has 3, ref has 2, hyp has 2\n"


def test_nothing_to_score(run, files):
    (files / "empty").touch()
    done = run("bleu", "empty")
    assert done.code == 65
    assert "no segments" in done.err


def test_bad_input(run, files):
    assert run("bleu", "nowhere", stdin=HYP).code == 66
    assert run("bleu", ".", stdin=HYP).code == 66
    assert run("bleu", "-", stdin=HYP).code == 2  # standard input twice
    done = run("bleu", "ref", stdin=b"fine\nbad \xff\n")
    assert done.code == 65
    assert done.err.startswith("nlptools bleu: <stdin>:2: invalid UTF-8 at byte 5")
    assert run("bleu", "ref", "--encoding-errors", "replace", stdin=b"fine\nbad \xff\n").code == 0


def test_compressed_and_strange_line_ends(run, files):
    with gzip.open(files / "ref.gz", "wt", newline="") as stream:
        stream.write("\ufeff" + REF.replace("\n", "\r\n"))
    assert run("bleu", "ref.gz", stdin=HYP.rstrip("\n")).text == run("bleu", "ref", stdin=HYP).text


def test_text_that_looks_tokenized(run, files):
    (files / "many").write_text("a b c d .\n" * 100)
    done = run("bleu", "many", stdin="a b c d .\n" * 100)
    assert done.code == 0
    assert "100 translations end in ' .'" in done.err
    assert run("bleu", "many", "--tokenize", "none", stdin="a b c d .\n" * 100).err == ""


@pytest.mark.skipif("NLPTOOLS_DATA" not in os.environ, reason="NLPTOOLS_DATA names no folder of data")
def test_wmt17(run):
    folder = Path(os.environ["NLPTOOLS_DATA"]) / "wmt17_en_de_systems"
    hypotheses = folder / "newstest2017.C-3MA.4959.de"
    done = run("bleu", folder / "newstest2017-ref.de", "-i", hypotheses)
    # mteval-v13a.pl gives 22.67
    assert " = 22.7 56.2/28.7/16.9/10.3 (BP = 0.985 ratio = 0.985 hyp_len = 60395 ref_len = 61287)" in done.text
