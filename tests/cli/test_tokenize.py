"""nlptools tokenize: one line for each line, whatever comes in."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from conftest import ROOT, environment, this_month, within

ODD = "a\u2028b\u0085c\x0bd\x0ce\n"


@pytest.fixture(scope="module")
def model(tmp_path_factory, english):
    directory = tmp_path_factory.mktemp("model")
    text = "\n".join(english[:1500]) + "\n"
    for kind in ("unigram", "bpe"):
        done = within(directory, "build-vocab", "--kind", kind, "--size", 500, "--coverage", 1, "-o", kind, stdin=text)
        assert done.code == 0, done.err
    return directory / "unigram.model"


def test_words_by_default(run):
    done = run("tokenize", stdin="Hello, world.\n\nIt isn't.\n")
    assert (done.code, done.text, done.err) == (0, "Hello , world .\n\nIt isn 't .\n", "")


@pytest.mark.parametrize("name", ["words", "13a", "bytes"])
@pytest.mark.parametrize(
    ("stdin", "count"),
    [(b"", 0), (b"\n", 1), (b"a", 1), (b"a\r\nb\r\n", 2), (b"\xef\xbb\xbfa\n", 1), (ODD.encode(), 1), (b"a\0b\n\n", 2)],
)
def test_one_line_for_each_line(call, name, stdin, count):
    done = call("tokenize", "-t", name, stdin=stdin)
    assert done.code == 0
    assert done.out.count(b"\n") == count
    assert b"\r" not in done.out
    assert "\ufeff" not in done.text


def test_one_line_for_each_line_of_pieces(call, model, tmp_path):
    text = "".join(f"{line}\n" for line in ["", "a\0b", "a\u2028b", "ünï", " ", "x" * 5000, ""])
    for extra in ([], ["--to", "ids"], ["--sample", "0.1"], ["--nbest", "2"], ["--to", "ids", "--bos", "--eos"]):
        done = call("tokenize", "-t", model, *extra, stdin=text)
        assert (done.code, done.out.count(b"\n"), done.err) == (0, 7, "")
        if "--bos" in extra:
            assert done.lines[0] == "1 2"
            assert all(line.startswith("1 ") and line.endswith(" 2") for line in done.lines)
        else:
            assert done.lines[0] == done.lines[-1] == ""


@pytest.mark.parametrize(("name", "exact"), [("char", True), ("bytes", True), ("words", False)])
def test_there_and_back(call, english, name, exact):
    text = "".join(line + "\n" for line in [*english[:300], "▁ \\▁ ünï 🎉 \u2028", ""])
    done = call("tokenize", "-t", name, stdin=text)
    back = call("tokenize", "-t", name, "--decode", stdin=done.out)
    assert back.code == 0
    assert (back.text == text) if exact else ("".join(back.text.split()) == "".join(text.split()))


def test_pieces_and_ids_come_back(call, model, english):
    text = "".join(" ".join(line.split()) + "\n" for line in english[:300])
    for to in ("pieces", "ids"):
        done = call("tokenize", "-t", model, "--to", to, stdin=text)
        back = call("tokenize", "-t", model, "--to", to, "--decode", stdin=done.out)
        assert back.text == text


def test_ids_from_a_vocabulary(call, tmp_path):
    (tmp_path / "v.tsv").write_text("<unk>\t0\n<s>\t0\n</s>\t0\n▁\t3\na\t2\nb\t1\n", encoding="utf-8")
    done = call("tokenize", "-t", "char", "--vocab", "v.tsv", "--to", "ids", "--bos", stdin="a b\n\nz\n")
    assert done.text == "1 4 3 5\n1\n1 0\n"
    back = call("tokenize", "-t", "char", "--vocab", "v.tsv", "--to", "ids", "--decode", stdin=done.out)
    assert back.text == "a b\n\n<unk>\n"
    assert call("tokenize", "-t", "v.tsv", "--to", "ids", stdin="a b zz\n").text == "4 5 0\n"
    (tmp_path / "w.tsv").write_text("a\t1\n")
    done = call("tokenize", "-t", "whitespace", "--vocab", "w.tsv", "--to", "ids", stdin="a a\na b\n")
    assert done.code == 65
    assert "<stdin>:2: token 'b' is not in the vocabulary" in done.err


@pytest.mark.parametrize("bad", ["x", "500", "-1", "1_0", "+1", "٣", "9" * 5000, "1 2 1e3", "1.0"])
def test_bad_ids(call, model, bad):
    done = call("tokenize", "-t", model, "--to", "ids", "--decode", stdin=f"1 2\n{bad}\n")
    assert done.code == 65
    assert "<stdin>:2: not an id: " in done.err
    assert done.err.count("\n") == 1


def test_sampling_depends_on_the_seed_alone(call, model, english, tmp_path):
    text = "\n".join(english[:100]) + "\n"
    for path in (model, model.with_name("bpe.model")):
        sampled = ["tokenize", "-t", path, "--sample", "0.2", "--seed"]
        first = call(*sampled, 7, stdin=text)
        assert call(*sampled, 7, "--threads", "1", "--line-buffered", stdin=text).out == first.out
        assert call(*sampled, 8, stdin=text).out != first.out
        assert call("tokenize", "-t", path, "--decode", stdin=first.out).lines[0] == english[0]
    repeated = call("tokenize", "-t", model, "--sample", "0.2", stdin=(english[5] + "\n") * 20)
    assert len(set(repeated.lines)) > 1


def test_nbest(call, model):
    done = call("tokenize", "-t", model, "--nbest", "3", stdin="the module\n\n")
    assert len(done.lines[0].split("\t")) == 3
    best = call("tokenize", "-t", model, stdin="the module\n").lines[0]
    assert done.lines[0].split("\t")[0] == best
    assert done.lines[1] == ""


@pytest.mark.parametrize(
    "extra",
    [
        ["--sample", "0.1"],
        ["--nbest", "2"],
        ["--decode", "--bos"],
        ["--decode", "--nbest", "2"],
        ["--to", "ids"],
        ["--bos"],
        ["--to", "words"],
        ["-", "-"],
    ],
)
def test_usage(call, extra):
    done = call("tokenize", *extra, stdin="a\n")
    assert (done.code, done.out) == (2, b"")
    assert done.err.startswith("nlptools tokenize: ")


def test_nbest_needs_unigram(call, model):
    done = call("tokenize", "-t", model.with_name("bpe.model"), "--nbest", "2", stdin="a\n")
    assert done.code == 2


def test_invalid_utf8(call):
    done = call("tokenize", stdin=b"good\nab\xffc\n")
    assert done.code == 65
    assert "<stdin>:2: invalid UTF-8 at byte 3 of the line (0xff)" in done.err
    assert call("tokenize", "--encoding-errors", "replace", stdin=b"ab\xffc\n").text == "ab \ufffd c\n"


@pytest.mark.parametrize("name", ["missing.txt", "."])
def test_inputs_that_are_not_there(call, name):
    for args in ([name], ["-t", "missing.model"]):
        assert call("tokenize", *args, stdin="a\n").code == 66


@pytest.mark.sampled(law="an output that fails ends the command")
def test_full_disk_closed_output_and_closed_pipe(shell, run):
    assert run("tokenize", "-o", "/dev/full", stdin="a\n").code == 74
    assert shell("nlptools tokenize > /dev/full", stdin=b"a\n").code == 74
    closed = shell("nlptools tokenize >&-", stdin=b"a\n")
    assert closed.code == 74
    assert closed.err.count("\n") == 1
    ended = shell("yes 'a b, c.' | nlptools tokenize | head -n 1", timeout=60)
    assert (ended.out, ended.err) == (b"a b , c .\n", "")


def test_locale_does_not_matter(run):
    for name in ("C", "tr_TR.UTF-8"):
        done = run("tokenize", "--lowercase", stdin="ÜNÏ I\n", env={"LC_ALL": name, "PYTHONUTF8": "0"})
        assert done.text == "ünï i\n"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["words", "char", "bytes", "13a", "model"])
def test_a_long_line(call, model, name):
    line = b"a word " * 1_000_000
    done = call("tokenize", "-t", model if name == "model" else name, "--to", "pieces", stdin=line + b"\n")
    assert done.code == 0
    assert done.out.count(b"\n") == 1


def test_blocks_and_files(call, tmp_path, english):
    (tmp_path / "a").write_text("x, y\n")
    (tmp_path / "b").write_text("z.")
    assert call("tokenize", "a", "-", "b", stdin="q!").text == "x , y\nq !\nz .\n"
    assert call("tokenize", "a", "-o", "out").code == 0
    assert (tmp_path / "out").read_text() == "x , y\n"
    assert call("tokenize", "a", "-o", "out").code == 73
    assert call("tokenize", "a", "-o", "out", "--force").code == 0


def test_a_long_file_is_what_a_pipe_gives(run, call, model, tmp_path, english):
    text = ("\n".join(english) + "\n") * 16  # beyond the size from which two blocks are worked on at a time
    assert len(text) > 5 << 20
    (tmp_path / "long").write_text(text)
    for extra in this_month([(), ("--to", "ids")], 1):
        done = call("tokenize", "-t", model, *extra, "long")
        assert done.code == 0 and done.out == run("tokenize", "-t", model, *extra, stdin=text).out
    (tmp_path / "long").write_bytes(text.encode() + b"bad \xff\n")
    done = call("tokenize", "-t", model, "long")
    assert done.code == 65 and f"long:{len(english) * 16 + 1}: invalid UTF-8" in done.err
    assert done.err.count("\n") == 2


def test_answers_while_the_input_goes_on(model):
    command = [sys.executable, "-m", "nlptools", "tokenize", "-t", str(model), "--to", "ids", "--line-buffered"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()) as process:
        process.stdin.write(b"the module\n")
        process.stdin.flush()
        assert process.stdout.readline().strip()
        process.stdin.close()
    assert process.returncode == 0


def test_line_ends_inside_a_decoded_text(call):
    done = call("tokenize", "-t", "bytes", "--to", "ids", "--decode", stdin="97 10 98\n99\n")
    assert done.text == "a b\nc\n"
    assert "became spaces" in done.err


def test_bundles(call, tmp_path):
    (tmp_path / "nlptools_tokenizer.json").write_text(json.dumps({"kind": "char", "lowercase": True}))
    (tmp_path / "vocab.tsv").write_text("<unk>\na\nb\n")
    assert call("tokenize", "-t", ".", "--to", "ids", stdin="ABC\n").text == "1 2 0\n"


def test_torch_is_not_imported(tmp_path):
    code = (
        "import sys\n"
        "sys.argv = ['nlptools', 'tokenize', '-t', '13a']\n"
        "from nlptools.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "bad = {'torch', 'numpy', 'sentencepiece', 'tokenizers', 'rich'} & set(sys.modules)\n"
        "sys.exit(str(bad) if bad else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=b"a b.\n", capture_output=True, env=environment(), cwd=ROOT
    )
    assert (done.returncode, done.stdout) == (0, b"a b .\n")
