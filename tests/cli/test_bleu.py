"""nlptools bleu."""

from __future__ import annotations

import contextlib
import gzip
import json
import math
import os
import random
import re
import subprocess
import sys

import pytest
from conftest import environment

from nlptools.cli import bleu as command
from tests.real_data import published

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


def test_score_only_width_and_references(call, files):
    assert call("bleu", "hyp", "-b", "-w", "14", stdin=HYP).text == "100.00000000000004\n"
    assert call("bleu", "ref", "hyp", "--score-only", stdin=HYP).text == "100.0\n"
    assert "nrefs:2|" in call("bleu", "ref", "hyp", stdin=HYP).text
    assert "tok:none|" in call("bleu", "ref", "--tokenize", "none", stdin=HYP).text


def test_fail_under(call, files):
    assert call("bleu", "hyp", "--fail-under", "99", stdin=HYP).code == 0
    done = call("bleu", "ref", "--fail-under", "99", stdin=HYP)
    assert done.code == 1
    assert done.text.startswith("BLEU|")
    assert re.fullmatch(r"nlptools bleu: the score \d+\.\d\d is below 99\n", done.err)


def test_unequal_numbers_of_lines(call, files):
    done = call("bleu", "ref", "hyp", stdin="one\ntwo\nthree\n")
    assert (done.code, done.out) == (65, b"")
    assert done.err == "nlptools bleu: unequal numbers of lines: <stdin> has 3, ref has 2, hyp has 2\n"


@pytest.mark.parametrize("extra", [[], ["--sentence"], ["--confidence"], ["--statistics", "out"], ["-f", "json"]])
def test_nothing_to_score(call, files, extra):
    (files / "empty").touch()
    done = call("bleu", "empty", *extra)
    assert (done.code, done.out) == (65, b"")
    assert done.err == "nlptools bleu: no segments: translations and references are empty\n"
    assert not (files / "out").exists()


def test_bad_input(call, files):
    assert call("bleu", "nowhere", stdin=HYP).code == 66
    assert call("bleu", ".", stdin=HYP).code == 66
    assert call("bleu", "-", stdin=HYP).code == 2  # standard input twice
    done = call("bleu", "ref", stdin=b"fine\nbad \xff\n")
    assert done.code == 65
    assert done.err.startswith("nlptools bleu: <stdin>:2: invalid UTF-8 at byte 5")
    assert call("bleu", "ref", "--encoding-errors", "replace", stdin=b"fine\nbad \xff\n").code == 0


def test_compressed_and_strange_line_ends(call, files):
    with gzip.open(files / "ref.gz", "wt", newline="") as stream:
        stream.write(REF.replace("\n", "\r\n"))
    assert call("bleu", "ref.gz", stdin=HYP.rstrip("\n")).text == call("bleu", "ref", stdin=HYP).text


def test_text_that_looks_tokenized(call, files):
    (files / "many").write_text("a b c d .\n" * 100)
    done = call("bleu", "many", stdin="a b c d .\n" * 100)
    assert done.code == 0
    assert "100 translations end in ' .'" in done.err
    assert call("bleu", "many", "--tokenize", "none", stdin="a b c d .\n" * 100).err == ""


# -- usage ------------------------------------------------------------------------------------------------------------

TWO = ["-i", "hyp", "-i", "ref"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "missing argument 'REF...'"),
        (["--merge"], "--merge expects files of statistics"),
        (["-i", "hyp", "ref"], "no references: all arguments of --input are systems"),
        (["ref", "-m", "bleu,rouge,meteor"], "'rouge' is not one of bleu, chrf, ter"),
        (["ref", "-m", "bleu", "rouge1"], "'rouge1' is not one of bleu, chrf, ter"),
        (["ref", "-m", ""], "no metric is named, expected some of bleu, chrf, ter"),
        (
            ["ref", "--tokenize", "xyz"],
            "no such tokenizer: 'xyz', expected one of 13a, intl, zh, ja-mecab, ko-mecab, char, none or a .model",
        ),
        (["ref", "--paired-bs", "--confidence", *TWO], "--confidence cannot be combined with --paired-bs"),
        (["ref", "--paired-bs", "--paired-ar", *TWO], "--paired-bs cannot be combined with --paired-ar"),
        (["ref", "--paired-bs"], "a paired test compares systems: give --input at least two"),
        (["ref", "--paired-ar", "5", "-i", "hyp"], "a paired test compares systems: give --input at least two"),
        (
            ["ref", "--paired-ar", "-i", "hyp", "-i", "hyp"],
            "a paired test compares systems: give --input at least two",
        ),
        (["ref", "--confidence", *TWO], "for several systems use --paired-bs, which gives intervals too"),
        (["ref", "--holm", *TWO], "--holm requires --paired-bs or --paired-ar"),
        (["ref", "ref2", "--num-refs", "2"], "--num-refs splits the lines of one file of references"),
        (["ref", "ref2", "--num-refs", "0"], "--num-refs splits the lines of one file of references"),
        (["--merge", "ref", "-i", "hyp"], "--merge cannot be combined with"),
        (["--merge", "ref", "--sentence"], "--merge cannot be combined with"),
        (["--merge", "ref", "--statistics", "x"], "--merge cannot be combined with"),
        (["ref", "-f", "latex"], "--to latex is for several systems"),
        (["ref", "--sentence", "--confidence"], "--sentence cannot be combined with --confidence"),
        (["ref", "--sentence", "-f", "tsv"], "--sentence cannot be combined with --to tsv"),
        (["ref", "--sentence", *TWO], "--sentence is for one system"),
        (["ref", "--sentence", "-m", "bleu,chrf"], "--sentence is for one metric"),
        (["ref", "--sentence", "--statistics", "x"], "--sentence cannot be combined with --statistics"),
        (["ref", "--statistics", "x", *TWO], "--statistics are of one system and metric"),
        (["ref", "--statistics", "x", "-m", "bleu,ter"], "--statistics are of one system and metric"),
        (["ref", "--statistics", "-"], "--statistics expects the name of a file"),
        (["ref", "--fail-under", "3", *TWO], "--fail-under is for one system"),
        (["ref", "--fail-under", "3", "-m", "ter"], "--fail-under is for bleu or chrf"),
        (["ref", "--fail-under", "3", "-m", "bleu,chrf"], "--fail-under is for bleu or chrf"),
        (["ref", "--fail-under", "3", "--sentence"], "--fail-under cannot be combined with --sentence"),
        (["ref", "--fail-under", "nan"], "not a finite number"),
        (["ref", "--smooth-value", "1"], "smoothing 'exp' takes no value"),
        (["ref", "-m", "chrf", "--chrf-char-order", "0"], "not both 0"),
        (["ref", *TWO, "-i", "hyp"], "--input hyp is given twice"),
        (["ref", "--paired-bs", *TWO, "-i", "ref"], "--input ref is given twice"),
        (["ref", "-i", "-", "-i", "-"], "--input - is given twice"),
        (["-", "-"], "may occur only once"),
        (["-"], "may occur only once"),
        (["ref", "--confidence=x"], "not a whole number"),
        (["ref", "--confidence", "-5"], "--confidence: must be at least 0, not -5"),
        (["ref", "--num-refs", "-1"], ", not -1"),
        (["ref", "-n", "0"], "must be between 1 and 64, not 0"),
        (["ref", "-w", "18"], "must be between 0 and 17, not 18"),
        (["ref", "--seed", "-1"], ", not -1"),
        (["ref", "--signature", "moses"], "'moses' is not one of"),
    ],
)
def test_refusals(call, files, arguments, message):
    done = call("bleu", *arguments, stdin=HYP)
    assert (done.code, done.out) == (2, b"")
    assert message in done.err
    assert sum(line.startswith("nlptools bleu: ") for line in done.err.split("\n")) == 1
    assert sorted(path.name for path in files.iterdir()) == ["hyp", "ref"]


@pytest.mark.parametrize("name", ["confidence", "paired-bs", "paired-ar"])
def test_an_option_without_its_number_leaves_the_file_that_follows_alone(call, files, name):
    default = {"confidence": "bs:1000", "paired-bs": "bs:1000", "paired-ar": "ar:10000"}[name]
    systems = [] if name == "confidence" else TWO
    for arguments in ([f"--{name}", "ref"], [f"--{name}", "--", "ref"]):
        assert (
            call("bleu", *systems, *arguments, stdin=HYP).text
            == call("bleu", "ref", *systems, f"--{name}", stdin=HYP).text
        )
        done = call("bleu", *systems, *arguments, stdin=HYP)
        assert done.code == 0, done.err
        assert f"nrefs:1|{default}|seed:12345|" in done.text
    for arguments in ([f"--{name}", "50", "ref"], [f"--{name}=50", "ref"]):
        assert "s:50|seed:7|" in call("bleu", *systems, *arguments, "--seed", "7", stdin=HYP).text.replace("ar:", "bs:")
    assert "seed" not in call("bleu", *systems, f"--{name}", "0", "ref", stdin=HYP).text
    found = call("bleu", *systems, f"--{name}", "ref", "--dump-config").text
    assert f"{name.replace('-', '_')} = {default.split(':')[1]}\n" in found


def test_every_option_has_its_variable_and_its_line_in_a_file(call, files):
    (files / "my.toml").write_text('[bleu]\nmetrics = ["bleu", "ter"]\ninput = ["hyp", "ref"]\nwidth = 3\n')
    expected = call("bleu", "ref", "-m", "bleu,ter", *TWO, "-w", "3")
    assert call("bleu", "ref", "--config", "my.toml").text == expected.text
    dumped = call("bleu", "ref", "-m", "bleu,ter", *TWO, "-w", "3", "--dump-config").text
    (files / "dumped.toml").write_text(dumped)
    assert call("bleu", "ref", "--config", "dumped.toml").text == expected.text
    assert call("bleu", "ref", "-b", env={"NLPTOOLS_BLEU_WIDTH": "7"}, stdin=REF).text == "100.0000000\n"


def test_several_values_behind_one_name(call, files):
    """`-i A B` are two systems, as for sacrebleu, and `-m bleu chrf` two metrics; neither takes a reference."""
    expected = call("bleu", "ref", "-m", "bleu,chrf", *TWO, "-b").text
    assert len(expected.split()) == 4
    for arguments in (
        ["ref", "-m", "bleu", "chrf", "-b", "-i", "hyp", "ref"],
        ["-i", "hyp", "ref", "-m", "bleu", "-m", "chrf", "-b", "ref"],
        ["-m", "bleu,chrf", "ref", "-b", "--input", "hyp", "ref"],
        ["-bm", "bleu", "-m", "chrf,bleu", "-i", "hyp", "--input=ref", "--", "ref"],
    ):
        assert call("bleu", *arguments).text == expected, arguments
    (files / "chrf").write_text(REF)
    done = call("bleu", "-m", "bleu", "chrf", "-i", "hyp")
    assert (done.code, done.out) == (2, b"")
    assert done.err == (
        "nlptools bleu: 'chrf' is a metric and a file\n"
        "  hint: the metric: separated by a comma, not by a space; the file: ./chrf\n"
    )
    assert call("bleu", "-m", "bleu", "./chrf", "-i", "ref", "-b").text == "100.0\n"


# -- references -------------------------------------------------------------------------------------------------------


def test_references_separated_by_tabs(call, files):
    (files / "both").write_text("".join(f"{a}\t{b}\n" for a, b in zip(REF.split("\n")[:-1], HYP.split("\n"))))
    done = call("bleu", "both", "--num-refs", "2", "-w", "9", stdin=HYP)
    assert done.text == call("bleu", "ref", "hyp", "-w", "9", stdin=HYP).text
    assert done.text == call("bleu", "both", "--num-refs", "0", "-w", "9", stdin=HYP).text
    assert "nrefs:2|" in done.text
    done = call("bleu", "both", "--num-refs", "3", stdin=HYP)
    assert (done.code, done.err) == (65, "nlptools bleu: both:1: 2 references, expected 3\n")


def test_as_many_references_as_each_line_has(call, files):
    (files / "some").write_text("the cat sat on a mat .\nhello there , my world\thello there , world\n")
    done = call("bleu", "some", "--num-refs", "0", stdin=HYP)
    assert "nrefs:var|" in done.text and "ref_len = 11)" in done.text
    assert call("bleu", "some", "--num-refs", "2", stdin=HYP).err == "nlptools bleu: some:1: 1 references, expected 2\n"
    lines = call("bleu", "some", "--num-refs", "0", "--sentence", stdin=HYP).lines
    assert ["nrefs:1|" in lines[0], "nrefs:2|" in lines[1]] == [True, True]


@pytest.mark.parametrize("extra", [[], ["--sentence"], ["--paired-bs", "5"], ["--statistics", "out"]])
def test_all_counts_of_unequal_files_are_named(call, files, extra):
    (files / "long").write_text("x\n" * 20_000)
    systems = ["-i", "long", "-i", "hyp"] if "--paired-bs" in extra else ["-i", "long"]
    done = call("bleu", "ref", *systems, *extra)
    assert done.code == 65
    assert "long has 20000, " in done.err and "ref has 2" in done.err
    assert not (files / "out").exists()


# -- lines ------------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.rstrip("\n"),
        lambda text: text.replace("\n", " \t\n"),
        lambda text: text.replace(" mat", "\u2028mat"),
        lambda text: text.replace(" mat", "\r mat"),
        lambda text: text.replace(" mat", "\x0b\x0c\u0085mat"),
    ],
    ids=["CRLF", "no last newline", "blanks", "U+2028", "CR", "VT FF NEL"],
)
@pytest.mark.parametrize("metric", ["bleu", "chrf", "ter"])
def test_line_ends_and_blanks_change_no_score(call, files, change, metric):
    text = HYP + "\na fine mat here\n"
    (files / "ref").write_text(REF + "nothing\na fine mat there\n")
    expected = call("bleu", "ref", "-m", metric, "-w", "9", stdin=text)
    assert expected.code == 0
    assert call("bleu", "ref", "-m", metric, "-w", "9", stdin=change(text)).text == expected.text
    (files / "hyp").write_bytes(change(text).encode())
    assert call("bleu", "ref", "-m", metric, "-w", "9", "-i", "hyp").text == expected.text
    (files / "ref").write_bytes(change((files / "ref").read_text()).encode())
    assert call("bleu", "ref", "-m", metric, "-w", "9", "-i", "hyp").text == expected.text


@pytest.mark.parametrize("marked", [{"hyp"}, {"ref"}, {"hyp", "ref"}, set()])
def test_a_byte_order_mark_counts_and_is_named(call, files, marked):
    for name, text in (("hyp", HYP), ("ref", REF)):
        (files / name).write_text("\ufeff" * (name in marked) + text, encoding="utf-8")
    done = call("bleu", "ref", "-i", "hyp", "-m", "chrf", "-b", "-w", "9")
    assert done.code == 0
    assert done.err.count("begins with a byte order mark") == len(marked)
    assert all(f"warning: {name}: begins" in done.err for name in marked)
    (files / "hyp").write_text(HYP, encoding="utf-8")
    (files / "ref").write_text(REF, encoding="utf-8")
    plain = call("bleu", "ref", "-i", "hyp", "-m", "chrf", "-b", "-w", "9")
    assert (done.text == plain.text) == (len(marked) == 0)


def test_the_locale_does_not_matter(run, files):
    text = "der Käse schmeckt „gut“ 日本\n"
    (files / "ref").write_text(text, encoding="utf-8")
    done = run("bleu", "ref", "--confidence", "5", stdin=text, env={"LC_ALL": "C", "PYTHONUTF8": "0"})
    assert (done.code, done.err) == (0, "")
    assert "μ = 100.0 ± 0.0" in done.text


# -- sentences --------------------------------------------------------------------------------------------------------


def test_sentences(call, files):
    done = call("bleu", "ref", "--sentence", "-w", "6", stdin=HYP)
    assert len(done.lines) == 2 and all("|eff:yes|" in line for line in done.lines)
    records = [json.loads(line) for line in call("bleu", "ref", "--sentence", "-f", "json", "-w", "6", stdin=HYP).lines]
    numbers = call("bleu", "ref", "--sentence", "-b", "-w", "6", stdin=HYP).lines
    assert [f"{record['score']:.6f}" for record in records] == numbers
    assert [f" = {number} " in line for number, line in zip(numbers, done.lines)] == [True, True]
    assert records[0]["eff"] == "yes" and records[0]["signature"].startswith("nrefs:1|")


@pytest.mark.sampled(law="an output that fails ends the command")
def test_a_reader_that_has_seen_enough(shell, files):
    (files / "many").write_text("a b c d e f\n" * 6_000)
    done = shell("nlptools bleu many -i many --sentence | head -1; echo ${PIPESTATUS[0]}")
    assert done.lines[0].startswith("BLEU|nrefs:1|") and done.lines[1:] == ["141"]
    assert done.err == ""


# -- statistics -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["bleu", "chrf", "ter"])
def test_parts_counted_apart(call, files, metric):
    rng = random.Random(1)
    hypotheses, references = ([" ".join(rng.choices("abcd", k=rng.randrange(9))) for _ in range(90)] for _ in range(2))
    paths = []
    for i, part in enumerate((slice(0, 50), slice(50, 51), slice(51, 90))):
        (files / f"r{i}").write_text("\n".join(references[part]) + "\n")
        name = f"{i}.tsv" + (".gz" if i == 1 else "")
        done = call("bleu", f"r{i}", "-m", metric, "--statistics", name, stdin="\n".join(hypotheses[part]) + "\n")
        assert done.code == 0 and done.text.count("\n") == 1
        paths.append(name)
    (files / "whole").write_text("\n".join(references) + "\n")
    for extra in (["-w", "12"], ["-w", "12", "-f", "json"], ["--confidence", "60", "-w", "12"], ["--short"]):
        whole = call("bleu", "whole", "-m", metric, *extra, stdin="\n".join(hypotheses) + "\n")
        assert call("bleu", "--merge", *paths, *extra).text == whole.text
    assert call("bleu", "--merge", *paths[1:], "-", stdin=(files / paths[0]).read_bytes()).code == 0


def test_statistics_that_are_no_good(call, files):
    done = call("bleu", "--merge", "ref")
    assert (done.code, done.err) == (65, "nlptools bleu: ref:1: not a file that --statistics wrote\n")
    assert call("bleu", "--merge", "nowhere").code == 66
    assert call("bleu", "ref", "--statistics", "s.tsv", "-m", "ter", stdin=HYP).code == 0
    done = call("bleu", "--merge", "s.tsv", "--fail-under", "3")
    assert (done.code, done.err) == (2, "nlptools bleu: --fail-under is for bleu or chrf\n")
    (files / "s.tsv").write_text((files / "s.tsv").read_text().replace("\t", " ", 3))
    assert call("bleu", "--merge", "s.tsv").err.startswith("nlptools bleu: s.tsv:2: not the columns")


def test_statistics_do_not_replace_a_file(call, files):
    done = call("bleu", "ref", "--statistics", "hyp", stdin=HYP)
    assert (done.code, done.out) == (73, b"")
    assert done.err == "nlptools bleu: hyp: exists\n  hint: choose another name\n"  # --force of bleu silences warnings
    assert (files / "hyp").read_text() == HYP
    assert call("bleu", "ref", "--statistics", "nowhere/x", stdin=HYP).code == 73


def test_a_failed_run_leaves_no_statistics(call, files):
    for stdin in (b"one\n", b"fine\nbad \xff\n", b"1\n2\n3\n"):
        assert call("bleu", "ref", "--statistics", "out", stdin=stdin).code == 65
        assert sorted(path.name for path in files.iterdir()) == ["hyp", "ref"]


# -- outputs ----------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(law="an output that fails ends the command")
@pytest.mark.parametrize("extra", ["", "--sentence", "--statistics out"])
def test_full_disk_and_closed_output(shell, files, extra):
    done = shell(f"nlptools bleu ref -i hyp {extra} > /dev/full")
    assert (done.code, done.err) == (74, "nlptools bleu: <stdout>: write failed: no space left on device\n")
    done = shell(f"rm -f out; nlptools bleu ref -i hyp {extra} >&-")
    assert (done.code, done.err) == (74, "nlptools bleu: <stdout>: standard output is closed\n")
    done = shell("nlptools bleu ref -i hyp --statistics /dev/full")
    assert (done.code, done.err) == (74, "nlptools bleu: /dev/full: write failed: no space left on device\n")


def test_fail_under_of_merged_and_of_chrf(call, files):
    assert call("bleu", "ref", "--statistics", "s.tsv", "-m", "chrf", stdin=HYP).code == 0
    assert call("bleu", "--merge", "s.tsv", "--fail-under", "10").code == 0
    done = call("bleu", "--merge", "s.tsv", "--fail-under", "99.5")
    assert done.code == 1 and done.err.endswith(" is below 99.5\n")
    assert call("bleu", "hyp", "-m", "chrf", "--fail-under", "100", stdin=HYP).code == 0


def test_systems_side_by_side(call, files):
    done = call("bleu", "ref", *TWO, "-m", "bleu,chrf", "-f", "text")
    assert "│" in done.text and "Metric signatures" in done.text
    records = json.loads(call("bleu", "ref", *TWO, "-f", "json").text)
    assert [record["system"] for record in records] == ["hyp", "ref"]
    assert call("bleu", "ref", *TWO, "-m", "chrf,bleu", "-b").lines[1] == "100.0\t100.0"
    piped = call("bleu", "ref", "-i", "-", "-i", "ref", "-b", "-w", "9", stdin=HYP)
    assert piped.lines == call("bleu", "ref", *TWO, "-b", "-w", "9").lines


def test_systems_in_a_pipe(call, files):
    """A line for each system and metric, columns separated by tabs: nothing has to be cut out of a drawing."""
    table = [line.split("\t") for line in call("bleu", "ref", *TWO, "-m", "bleu", "chrf", "-w", "3").lines]
    records = json.loads(call("bleu", "ref", *TWO, "-m", "bleu", "chrf", "-w", "3", "-f", "json").text)
    assert [row[:3] for row in table] == [
        [record["system"], metric, record[metric]] for record in records for metric in ("BLEU", "chrF2")
    ]
    assert {len(row) for row in table} == {4}
    assert table[0][3].startswith("nrefs:1|case:mixed|") and table[1][3].startswith("nrefs:1|case:mixed|eff:yes|nc:6|")
    for test, columns in (("bs", 7), ("ar", 5)):
        arguments = ["ref", *TWO, f"--paired-{test}", "50"]
        rows = [line.split("\t") for line in call("bleu", *arguments).lines]
        assert [len(row) for row in rows] == [columns, columns]
        (_, other) = json.loads(call("bleu", *arguments, "-f", "json").text)
        assert (rows[0][-1], rows[1][-1]) == ("", f"{other['BLEU']['p_value']:.4f}")
    (one,) = call("bleu", "ref", "-i", "hyp", "-f", "tsv", "--confidence", "50").lines
    assert one.split("\t")[:2] == ["hyp", "BLEU"] and one.count("\t") == 5
    assert call("bleu", "ref", "-f", "tsv", stdin=HYP).text.startswith("-\tBLEU\t")


def on_terminal(place, *args):
    """What a command writes to a terminal as its standard output."""
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "nlptools", *args]
    try:
        done = subprocess.run(command, cwd=place, env=environment(), stdout=theirs, stderr=subprocess.PIPE)
        os.close(theirs)
        parts = []
        with contextlib.suppress(OSError):  # the end of a terminal
            while part := os.read(ours, 1 << 16):
                parts.append(part)
    finally:
        os.close(ours)
    assert done.returncode == 0, done.stderr
    return b"".join(parts).decode().replace("\r\n", "\n")


def test_a_paired_test_on_a_terminal_is_a_table_that_explains_itself(call, files):
    (files / "good").write_text((REF + "a b c d e\n") * 30)
    (files / "gold").write_text((REF + "a b c d e\n") * 30)
    (files / "bad").write_text((HYP + "e d c b a\n") * 30)
    arguments = ["bleu", "gold", "-i", "bad", "good", "--paired-bs", "50"]
    shown = on_terminal(files, *arguments)
    header, baseline, system, p_value = (
        next(line for line in shown.split("\n") if word in line) for word in ("System", "bad", " good ", "(p =")
    )
    assert "BLEU (μ ± 95% CI)" in header and "Baseline: bad" in baseline and "100.0 (100.0 ± 0.0)" in system
    assert "*" in p_value and "p <= 0.05, marked *" in shown
    assert "μ ± 95% CI is the mean over the resamples" in shown
    text = call(*arguments, "-f", "text").text
    assert "is the mean over" not in text and len(call(*arguments).lines) == 2
    assert [line for line in shown.split("\n") if "is the mean over" not in line] == text.split("\n")


def test_verbose_shows_how_bleu_comes_about(call, files):
    done = call("bleu", "ref", "-i", "hyp", "-v", "-m", "bleu", "chrf")
    assert done.text == call("bleu", "ref", "-i", "hyp", "-m", "bleu", "chrf").text
    score = json.loads(call("bleu", "ref", "-i", "hyp", "-f", "json", "-w", "6").text)["score"]
    lines = done.err.strip().split("\n")
    assert lines[:3] == [
        "1-grams: 10 of 11 match, 90.91%",
        "2-grams: 6 of 9 match, 66.67%",
        "3-grams: 3 of 7 match, 42.86%",
    ]
    penalty = math.exp(1 - 12 / 11)
    assert lines[5] == f"brevity penalty: {penalty:.4f}, exp(1 - 12/11): 11 tokens, of the nearest references 12"
    assert lines[4] == f"geometric mean of the precisions: {score / penalty:.2f}"
    assert lines[6] == f"BLEU = {penalty:.4f} x {score / penalty:.2f} = {score:.2f}" and len(lines) == 7
    (files / "far").write_text("the cat\nworld\n")
    several = call("bleu", "ref", "-i", "hyp", "far", "-v").err
    assert "hyp: 1-grams: 10 of 11 match" in several and "far: 2-grams: 1 of 1 match" in several
    assert "far: 3-grams: 0 of 0 match" in several
    smoothed = call("bleu", "ref", "-v", stdin="the dog sat there\nworld of wonders\n").err
    assert "(smoothed)" in smoothed and "\nBLEU = " in smoothed


def test_unclipped_precision(call, tmp_path):
    for number, line in enumerate(["The cat is on the mat", "There is a cat on the mat"], 1):
        (tmp_path / f"ref{number}").write_text(f"{line}\n")
    options = ("--lowercase", "--order", 1, "--tokenize", "none", "--verbose")
    for references, clipped in ((["ref1"], 2), (["ref2"], 1), (["ref1", "ref2"], 2)):
        done = call("bleu", *references, *options, stdin="the the the the the the the\n")
        assert f"1-grams: {clipped} of 7 match" in done.err and "clip" not in done.text
        done = call("bleu", *references, *options, "--no-clip", stdin="the the the the the the the\n")
        assert "1-grams: 7 of 7 match, 100.00%" in done.err and "|clip:no|" in done.text
        done = call("bleu", *references, *options, "--no-clip", stdin="no such words\n")
        assert "1-grams: 0 of 3 match" in done.err
    hypothesis, parts = "the the mat\n", ("--statistics", "part.tsv")
    expected = call("bleu", "ref1", "--no-clip", *parts, stdin=hypothesis).out
    assert call("bleu", "--merge", "part.tsv").out == expected
    done = call("bleu", "ref1", "--no-clip", "--signature", "sacrebleu", stdin=hypothesis)
    assert done.code == 2 and "--no-clip cannot be combined with --signature sacrebleu" in done.err


def test_holm(call, files):
    (files / "third").write_text("the mat\nhello\n")
    arguments = ["ref", *TWO, "-i", "third", "--paired-ar", "50", "-f", "json"]
    plain, corrected = (json.loads(call("bleu", *arguments, *extra).text) for extra in ([], ["--holm"]))
    assert [record["BLEU"].get("corrected") for record in corrected] == [None, "holm", "holm"]
    p = sorted(record["BLEU"]["p_value"] for record in plain[1:])
    assert sorted(record["BLEU"]["p_value"] for record in corrected[1:]) == pytest.approx(
        [min(1, 2 * p[0]), max(min(1, 2 * p[0]), p[1])]
    )
    assert "(Holm)" in call("bleu", *arguments[:-1], "text", "--holm").text
    assert all("|seed:12345|p:holm|" in line for line in call("bleu", *arguments[:-1], "tsv", "--holm").lines)


def test_the_baseline_may_stand_twice(call, files):
    done = call("bleu", "ref", *TWO, "-i", "hyp", "--paired-ar", "50", "-f", "json")
    assert done.code == 0 and len(json.loads(done.text)) == 2
    assert "hyp is the baseline; not compared with itself" in done.err


def test_the_warning_about_tokenized_text_can_be_silenced(call, files):
    (files / "many").write_text("a b c d .\n" * 100)
    (files / "few").write_text("a b c d .\n" * 99 + "a b c d.\n")
    for arguments in (["many", "--force"], ["many", "-m", "chrf"], ["few"], ["many", "--tokenize", "none"]):
        assert call("bleu", *arguments, stdin=(files / arguments[0]).read_bytes()).err == ""
    for extra in (["--sentence"], ["--confidence", "5"], ["-m", "bleu,ter"]):
        assert call("bleu", "many", *extra, stdin="a b c d .\n" * 100).err.count("100 translations end in ' .'") == 1


def test_a_score_keeps_no_rows():
    """What is held after many blocks is one row of sums, however many segments there were."""
    from nlptools.metrics.translation.bleu import Bleu

    def blocks():
        for _ in range(50):
            yield [["a b c d e"] * 40], [["a b c d f"] * 40]

    for keep_rows, rows in ((False, 1), (True, 2000)):
        counted = command._count([Bleu()], 1, command._watched(blocks(), "13a"), keep_rows, None)
        assert counted.segments == 2000
        assert [len(table) for table in counted.tables()[0]] == [rows]
        total = counted.tables()[0][0].sum(axis=0)
        assert total.tolist() == [10000, 10000, 8000, 6000, 4000, 2000, 10000, 8000, 6000, 4000]


def test_wmt17(call):
    folder = published("wmt17_en_de_systems")
    hypotheses = folder / "newstest2017.C-3MA.4959.de"
    done = call("bleu", folder / "newstest2017-ref.de", "-i", hypotheses)
    # mteval-v13a.pl gives 22.67
    assert " = 22.7 56.2/28.7/16.9/10.3 (BP = 0.985 ratio = 0.985 hyp_len = 60395 ref_len = 61287)" in done.text
