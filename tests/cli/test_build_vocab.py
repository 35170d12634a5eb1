"""nlptools build-vocab: what is learned, that nothing is lost, and that it is the same each time."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import pytest
from conftest import environment

PIECES = ("unigram", "bpe", "char")
DIRECTORIES = ("wordpiece", "byte-bpe")


@pytest.fixture
def text(tmp_path, english):
    path = tmp_path / "text.txt"
    path.write_text("\n".join(english[:1200]) + "\n", encoding="utf-8")
    return path


def content(path):
    """The bytes of a file, or of all files in a directory."""
    if path.is_dir():
        return {file.name: file.read_bytes() for file in sorted(path.iterdir())}
    return path.read_bytes()


def test_words(run):
    done = run("build-vocab", stdin="b a b\nc b a\n\n")
    assert done.text == "<unk>\t0\n<s>\t0\n</s>\t0\nb\t3\na\t2\nc\t1\n"
    assert run("build-vocab", "--special", "", "--size", "2", stdin="b a b\nc b a").text == "b\t3\na\t2\n"
    assert (
        run("build-vocab", "--special", "<pad>,x", "--min-count", "2", stdin="x y y").text == "<pad>\t0\nx\t1\ny\t2\n"
    )
    assert run("build-vocab", "--lowercase", "--special", "", stdin="A a B").text == "a\t2\nb\t1\n"
    characters = run("build-vocab", "-t", "char", "--special", "", stdin="a\\ b\t\n")
    assert characters.text == "\\t\t1\n\\n\t1\n\\\\\t1\na\t1\nb\t1\n▁\t1\n"


def test_words_of_a_pipe(shell):
    done = shell("printf 'A, b. A!\\n' | nlptools tokenize | nlptools build-vocab --special ''")
    assert done.text == "A\t2\n!\t1\n,\t1\n.\t1\nb\t1\n"


@pytest.mark.parametrize("kind", [*PIECES, *DIRECTORIES])
def test_the_same_bytes_again(call, text, tmp_path, kind):
    size = ["--size", "400"] if kind != "char" else []
    for name, threads, hash_seed in (("a", "1", "1"), ("b", "2", "2"), ("c", "0", "3")):
        done = call(
            "build-vocab",
            "--kind",
            kind,
            *size,
            "-o",
            name,
            "--threads",
            threads,
            text,
            env={"PYTHONHASHSEED": hash_seed},
        )
        assert (done.code, done.out, done.err) == (0, b"", "")
    suffix = ".model" if kind in PIECES else ""
    first = content(tmp_path / f"a{suffix}")
    assert content(tmp_path / f"b{suffix}") == first
    assert content(tmp_path / f"c{suffix}") == first
    if kind in PIECES:
        assert content(tmp_path / "a.vocab") == content(tmp_path / "b.vocab")
        rows = (tmp_path / "a.vocab").read_text(encoding="utf-8").removesuffix("\n").split("\n")
        assert [row.split("\t")[0] for row in rows[:3]] == ["<unk>", "<s>", "</s>"]
        assert len(rows) == 400 or kind == "char"
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", DIRECTORIES)
@pytest.mark.parametrize("lowercase", [False, True])
def test_transformers_opens_it(call, text, tmp_path, kind, lowercase, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    extra = ["--lowercase"] if lowercase else []
    assert (
        call("build-vocab", "--kind", kind, "--size", "500", "-o", "tok/", "--special", "<x>", *extra, text).code == 0
    )
    names = {"wordpiece": {"vocab.txt"}, "byte-bpe": {"vocab.json", "merges.txt"}}[kind]
    assert set(os.listdir(tmp_path / "tok")) == names | {"tokenizer.json", "tokenizer_config.json"}
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoTokenizer.from_pretrained(str(tmp_path / "tok"))
    line = "The module <x> isn't Here."
    ours = call("tokenize", "-t", "tok", "--to", "ids", stdin=line + "\n").text.split()
    assert theirs(line, add_special_tokens=False)["input_ids"] == [int(id) for id in ours]
    if kind == "wordpiece":
        assert (theirs.pad_token_id, theirs.cls_token, theirs.sep_token) == (0, "[CLS]", "[SEP]")
        ids = theirs("a", "b")["input_ids"]
        assert (ids[0], ids[2], ids[-1]) == (2, 3, 3)


MARKED = [
    "ÄRGER ärger Čaj čaj",
    "नमस्ते दुनिया",  # vowel signs and a virama
    "ぱん ぼうし パン",  # sound marks, composed and not
    "สวัสดี ชื่อ",
    "Tiếng Việt naïve",
    "שָׁלוֹם مَرْحَبًا",
]


def test_wordpiece_in_lower_case_keeps_the_marks_of_letters(call, tmp_path, monkeypatch):
    """Also in other programs that read the directory, or its vocab.txt with its tokenizer_config.json alone."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    text = "".join(f"{line}\n" for line in MARKED)
    learn = ("build-vocab", "--kind", "wordpiece", "--size", "300", "--lowercase")
    assert call(*learn, "-o", "kept", stdin=text * 9).code == 0
    said = call("tokenize", "-t", "kept", stdin=text)
    joined = call("tokenize", "-t", "kept", "--decode", stdin=said.out)
    assert joined.text == text.lower() and "[UNK]" not in said.text
    assert call(*learn, "--strip-accents", "-o", "stripped", stdin=text * 9).code == 0
    stripped = call("tokenize", "-t", "stripped", stdin="ÄRGER ärger Čaj Việt दु\n").text
    assert "".join(stripped.replace("##", "").split()) == "argerargercajvietद"
    assert call("build-vocab", "--kind", "bpe", "--strip-accents", "-o", "x", stdin=text).code == 2
    transformers = pytest.importorskip("transformers")
    for name in ("kept", "stripped"):
        theirs = transformers.AutoTokenizer.from_pretrained(str(tmp_path / name))
        ours = [
            [int(id) for id in row.split()] for row in call("tokenize", "-t", name, "--to", "ids", stdin=text).lines
        ]
        assert theirs(MARKED, add_special_tokens=False)["input_ids"] == ours
        (tmp_path / name / "tokenizer.json").unlink()
        assert [
            [int(id) for id in row.split()] for row in call("tokenize", "-t", name, "--to", "ids", stdin=text).lines
        ] == ours


@pytest.mark.parametrize("kind", ["words", *PIECES, *DIRECTORIES])
@pytest.mark.parametrize("stdin", [b"", b" \n\n"])
def test_no_training_data(call, tmp_path, kind, stdin):
    done = call("build-vocab", "--kind", kind, "-o", "out", stdin=stdin)
    assert done.code == 65
    assert "no training data" in done.err
    assert done.err.count("\n") == 1
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("kind", [*PIECES, *DIRECTORIES])
def test_hardly_any_training_data(call, kind):
    done = call("build-vocab", "--kind", kind, "--size", "2000", "-o", "out", stdin=b"hello world\n")
    assert done.code == 0
    assert ("the vocabulary has" in done.err) == (kind != "char")


@pytest.mark.parametrize("kind", ["unigram", "bpe", *DIRECTORIES])
def test_too_small_a_size(call, kind, tmp_path):
    done = call("build-vocab", "--kind", kind, "--size", "5", "-o", "out", stdin=b"hello world\n" * 5)
    assert done.code == 65
    assert "a vocabulary of 5 is too small" in done.err
    assert os.listdir(tmp_path) == []


def test_existing_output(call, text, tmp_path):
    for kind, name, file in (("words", "v", "v"), ("char", "c", "c.vocab"), ("char", "d.model", "d.model")):
        (tmp_path / file).write_text("old")
        assert call("build-vocab", "--kind", kind, "-o", name, text).code == 73
        assert (tmp_path / file).read_text() == "old"
        assert call("build-vocab", "--kind", kind, "-o", name, "--force", text).code == 0
    (tmp_path / "dir").mkdir()
    assert call("build-vocab", "--kind", "byte-bpe", "-o", "dir", "--size", "300", text).code == 0
    assert call("build-vocab", "--kind", "byte-bpe", "-o", "dir", "--size", "300", text).code == 73
    assert call("build-vocab", "--kind", "byte-bpe", "-o", "dir", "--size", "300", "--force", text).code == 0
    assert call("build-vocab", "--kind", "char", "-o", "none/x", text).code == 73
    (tmp_path / "dir/model.safetensors").write_text("a model with this tokenizer")
    before = {path.name: path.read_bytes() for path in (tmp_path / "dir").iterdir()}
    refused = call("build-vocab", "--kind", "byte-bpe", "-o", "dir", "--size", "290", "--force", text)
    assert refused.code == 73 and "something other than a tokenizer" in refused.err
    assert {path.name: path.read_bytes() for path in (tmp_path / "dir").iterdir()} == before


@pytest.mark.parametrize(
    "args",
    [
        ["--kind", "unigram"],
        ["--kind", "bpe", "-o", "x", "--min-count", "2"],
        ["--kind", "bpe", "-o", "x", "-t", "words"],
        ["--kind", "words", "--special", "a b"],
        ["--kind", "nonsense"],
        ["--size", "-1"],
    ],
)
def test_usage(call, args):
    assert call("build-vocab", *args, stdin="a\n").code == 2


def test_long_lines_are_cut_aloud(call, tmp_path):
    stdin = b"short line\n" + b"long words here " * 1000 + b"zebra\n" + "ü".encode() * 5000 + b"\n"
    done = call("build-vocab", "--kind", "char", "--coverage", "1", "-o", "out", stdin=stdin)
    assert done.code == 0
    assert "cut 2 lines longer than 4192 bytes into shorter ones" in done.err
    pieces = (tmp_path / "out.vocab").read_text(encoding="utf-8")
    assert "z\t" in pieces
    assert "ü\t" in pieces


@pytest.mark.parametrize("kind", [*PIECES, *DIRECTORIES])
def test_nul_and_reserved_characters_lose_no_lines(call, tmp_path, kind):
    stdin = b"hello world\n" * 50 + b"zebra \0 zoo\n" * 20 + "quiz \u2585 quick\n".encode() * 20
    done = call("build-vocab", "--kind", kind, "--size", "330", "-o", "out", stdin=stdin)
    assert done.code == 0
    if kind in PIECES:
        assert "in 40 lines, NUL and U+2585" in done.err
        pieces = (tmp_path / "out.vocab").read_text(encoding="utf-8")
        assert "z" in pieces
        assert "q" in pieces


def test_special_symbols(call, text, tmp_path):
    args = ["build-vocab", "--kind", "bpe", "--size", "300", "--special", "<pad>,<mask>,<unk>", "-o", "m"]
    assert call(*args, text).code == 0
    done = call("tokenize", "-t", "m.model", stdin="a<mask>b <pad>\n")
    assert "<mask>" in done.text.split()
    assert "<pad>" not in done.text.split()


def test_lower_case_stays_in_the_model(call, text, tmp_path):
    assert call("build-vocab", "--kind", "bpe", "--size", "300", "--lowercase", "-o", "m", text).code == 0
    upper, lower = (call("tokenize", "-t", "m.model", stdin=line).out for line in ("THE MODULE", "the module"))
    assert upper == lower


def test_max_lines(call, text):
    args = ["build-vocab", "--max-lines", "50", text, "--seed"]
    assert call(*args, 1).out == call(*args, 1).out != call(*args, 2).out


def test_bad_input(call, tmp_path):
    for kind in ("words", "unigram", "wordpiece"):
        done = call("build-vocab", "--kind", kind, "-o", "out", stdin=b"good\nab\xffc\n")
        assert done.code == 65
        assert "<stdin>:2: invalid UTF-8 at byte 3" in done.err
        assert os.listdir(tmp_path) == []
        assert call("build-vocab", "--kind", kind, "-o", "out", "missing").code == 66
    assert call("build-vocab", "-o", "/dev/full", stdin="a\n").code == 74


@pytest.mark.sampled(law="memory does not grow with the data")
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs /proc")
def test_memory_does_not_grow_with_the_text(tmp_path):
    code = (
        "import sys\n"
        "from nlptools.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "with open('/proc/self/status') as status: text = status.read()\n"
        "sys.stderr.write(text.split('VmHWM:')[1].split()[0])"
    )
    line = " ".join(f"w{i}" for i in range(1000)) + "\n"
    peaks = []
    for repeats in (800, 8000):  # 4 and 40 MB
        (tmp_path / "big.txt").write_text(line * repeats)
        done = subprocess.run(
            [sys.executable, "-c", code, "build-vocab", str(tmp_path / "big.txt")],
            capture_output=True,
            env=environment(),
        )
        peaks.append(int(done.stderr))
    assert peaks[1] - peaks[0] < 8192  # KiB


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", DIRECTORIES)
@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("letters", "abcde" * 40_000),
        ("one letter", "a" * 200_000),
        ("marks", "a" + "\u0301" * 200_000),
        ("random", "".join(random.Random(1).choices("abcdefghij", k=200_000))),
    ],
    ids=lambda value: value if len(value) < 20 else "",
)
def test_long_words_are_cut(call, tmp_path, kind, name, line):
    """The trainers take time by the square of a word's length: each of these took more than 20 s."""
    done = call("build-vocab", "--kind", kind, "--size", "300", "-o", "dir", stdin=f"{line} b\nb c\n")
    assert done.code == 0, done.err
    assert "cut 1 word longer than 1,000 characters into shorter ones" in done.err
    assert call("tokenize", "-t", "dir", stdin="b c\n").code == 0


@pytest.mark.parametrize("kind", DIRECTORIES)
def test_words_are_cut_as_if_they_stood_apart(call, tmp_path, kind):
    long = "".join(random.Random(2).choices("abc", k=2500))
    parts = [long[:1000], long[1000:2000], long[2000:]]
    for name, text in (("long", f"x {long} y"), ("apart", "\n".join([f"x {parts[0]}", parts[1], f"{parts[2]} y"]))):
        done = call("build-vocab", "--kind", kind, "--size", "400", "-o", name, stdin=text + "\n")
        assert done.code == 0, done.err
    if kind == "wordpiece":
        assert (tmp_path / "long" / "vocab.txt").read_bytes() == (tmp_path / "apart" / "vocab.txt").read_bytes()
    assert call("build-vocab", "--kind", kind, "--size", "400", "-o", "short", stdin="x" * 1000 + "\n").code == 0
