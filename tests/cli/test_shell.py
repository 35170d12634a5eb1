"""The shell around the commands: statuses, messages, settings from everywhere, signals, closed pipes, completions."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import signal
import subprocess
import sys

import click
import pytest
from conftest import ROOT, environment

from nlptools import __version__
from nlptools.cli import COMMANDS, short_help
from nlptools.cli.manual import pages
from nlptools.configs import bleu

REF = "the cat sat on the mat\n"


@pytest.fixture
def ref(tmp_path):
    (tmp_path / "ref").write_text(REF)
    return tmp_path


# -- usage ------------------------------------------------------------------------------------------------------------


def test_no_command_shows_the_commands(run):
    done = run()
    assert (done.code, done.out) == (2, b"")
    for name in COMMANDS:
        assert name in done.err


def test_help_and_version(run):
    done = run("--help")
    assert (done.code, done.err) == (0, "")
    for name, (section, _) in COMMANDS.items():
        assert f"  {name} " in done.text and f"{section}:" in done.text
    assert run("-h").out == done.out
    assert run("--version").text == f"nlptools {__version__}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_short_help(call, name):
    done = call(name, "-h")
    assert (done.code, done.err) == (0, "")
    full = pages.load(name)
    options = [option for option in full.params if isinstance(option, click.Option)]
    assert 5 <= len(done.lines) <= 32 and done.lines[-1] == f"nlptools {name} --help: all {len(options) + 1} options"
    if name != "help":
        example = full.page.examples[0][1].replace("\n", "\n  ")
        assert f"\n\nExample:\n  {example}\n\n" in done.text
    names = {option.name for option in (*options, *full.every_option(click.Context(full)))}
    assert set(short_help.MAIN.get(name, "").split()) <= names
    required = [max(option.opts, key=len) for option in options if option.required]
    assert all(flag in done.text for flag in required)


def test_short_help_has_a_row_for_commands_with_many_options():
    several = {name for name in COMMANDS if len(pages.load(name).params) > 28}
    assert several <= short_help.MAIN.keys() <= COMMANDS.keys()


def test_unknown_command(run):
    done = run("blue")
    assert (done.code, done.out) == (2, b"")
    assert (
        done.err
        == "nlptools blue: no such command: blue (did you mean bleu?)\n  hint: 'nlptools --help' lists the options\n"
    )
    assert run("xyzzy").err.startswith("nlptools xyzzy: no such command: xyzzy\n")
    assert run("ble").code == 2  # nothing is abbreviated


def test_unknown_option(run, ref):
    done = run("bleu", "ref", "--tokenise", "none")
    assert (done.code, done.out) == (2, b"")
    assert done.err.startswith("nlptools bleu: no such option")
    assert "--tokenize" in done.err
    assert run("bleu", "ref", "--tok", "none").code == 2


@pytest.mark.parametrize("value", ["13b", "", "13A"])
def test_wrong_value(call, ref, value):
    done = call("bleu", "ref", "--tokenize", value)
    assert done.code == 2
    assert "13a" in done.err and "none" in done.err
    assert done.err.count("\n") == 2  # the message and the hint


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("bleu ref --width one", "--width: 'one' is not a whole number"),
        ("bleu ref --width -1", "--width: must be between 0 and 17, not -1"),
        ("train-lm --lr abc", "--lr: 'abc' is not a number"),
        ("train-lm --lr inf", "--lr: 'inf' is not a finite number"),
        ("train-lm --epochs -1", "--epochs: must be at least 0, not -1"),
        ("train-lm --steps 3000000000", "--steps: must be at most 2147483647, not 3000000000"),
        ("train-lm --arch lstn", "--arch: 'lstn' is not one of transformer, "),
        ("train-lm --max-time soon", "--max-time: not a duration: 'soon', expected "),
        ("train-lm x", "missing option -t/--tokenizer"),
        ("describe", "missing argument MODEL"),
        ("describe a b", "unexpected argument: b"),
        ("tokenize -t", "-t: the value is missing"),
        ("tokenize --decode=no", "--decode: takes no value"),
        ("tokenize --tokeniser char", "no such option: --tokeniser (did you mean --tokenizer?)"),
    ],
)
def test_wrong_arguments(call, line, message):
    command = line.split()[0]
    done = call(*line.split())
    assert (done.code, done.out) == (2, b"")
    assert done.err.startswith(f"nlptools {command}: {message}")
    assert done.err.endswith(f"\n  hint: 'nlptools {command} --help' lists the options\n") and done.err.count("\n") == 2


def test_wrong_values_from_elsewhere(call, ref):
    done = call("bleu", "ref", env={"NLPTOOLS_BLEU_WIDTH": "one"})
    assert done.code == 2
    assert done.err.startswith("nlptools bleu: environment variable NLPTOOLS_BLEU_WIDTH: 'one' is not a whole number\n")
    (ref / "set.toml").write_text('smooth = "none at all"\n')
    done = call("bleu", "ref", "--config", "set.toml")
    assert done.code == 2
    assert done.err.startswith("nlptools bleu: set.toml: smooth: 'none at all' is not one of exp, floor, add-k, none\n")


def test_help_command(run, tmp_path):
    env = {"PATH": str(tmp_path)}  # without man(1)
    assert "--fail-under" in run("help", "bleu", env=env).text
    assert "\nFormats:\n" in run("help", "bleu", env=env).text
    assert "bleu" in run("help", env=env).text
    assert run("help", "formats", env=env).text.startswith("# Formats")
    assert run("help", "pipeline", env=env).out == run("help", "pipelines", env=env).out
    assert run("help", "bleus", env=env).out == run("help", "bleu", env=env).out
    for wrong, hint in (("blue", "did you mean bleu?"), ("train", "did you mean train-w2v, train-lm, ")):
        done = run("help", wrong, env=env)
        assert (done.code, done.out) == (2, b"")
        assert done.err.startswith(f"nlptools help: no such command or topic: {wrong}\n  hint: {hint}")
    assert "'nlptools help' lists" in run("help", "xyzzy", env=env).err


def test_sections_of_pages_and_guides(run):
    assert "\n```sh\nnlptools score lm/ < candidates.txt\n```\n" in run("help", "score", "examples").text
    formats = run("help", "convert", "format").text
    assert "glove" in formats and "{{" not in formats and "lm.arpa.gz" not in formats
    vocabularies = run("help", "language-models", "vocab").text
    assert "nlptools build-vocab" in vocabularies and "<!--" not in vocabularies
    assert vocabularies == run("help", "lang", "Vocabularies").text
    done = run("help", "score", "options")
    assert (done.code, done.out) == (2, b"") and "formats, examples" in done.err
    if (
        shutil.which("man")
        and subprocess.run(["man", "-l", str(ROOT / "man" / "nlptools.1")], capture_output=True).returncode == 0
    ):
        assert "EXIT STATUS" in run("help", "bleu").text


# -- settings ---------------------------------------------------------------------------------------------------------


def score(done):
    assert done.code == 0, done.err
    return done.text.removesuffix("\n")


def test_flag_before_environment_before_file_before_default(call, ref):
    (ref / "set.toml").write_text("score-only = true\nwidth = 4\n")
    env = {"NLPTOOLS_BLEU_WIDTH": "3"}
    base = ("bleu", "ref", "--config", "set.toml")
    assert score(call("bleu", "ref", "-b", stdin=REF)) == "100.0"
    assert score(call(*base, stdin=REF)) == "100.0000"
    assert score(call(*base, stdin=REF, env=env)) == "100.000"
    assert score(call(*base, "-w", "2", stdin=REF, env=env)) == "100.00"
    assert score(call(*base, "--no-score-only", stdin=REF)).startswith("BLEU|")


def test_a_table_for_the_command(call, ref):
    (ref / "set.toml").write_text('[bleu]\nscore_only = true\n[tokenize]\ntokenizer = "char"\n')
    assert score(call("bleu", "ref", "--config", "set.toml", stdin=REF)) == "100.0"


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("widht = 1\n", 2, "set.toml: no such option: widht"),
        ("width = \n", 78, "set.toml: not valid TOML"),
        ("width = 99\n", 2, "99"),
        ('tokenize = "13b"\n', 2, "13b"),
    ],
)
def test_wrong_config_files(call, ref, text, code, said):
    (ref / "set.toml").write_text(text)
    done = call("bleu", "ref", "--config", "set.toml", stdin=REF)
    assert (done.code, done.out) == (code, b"")
    assert said in done.err


def test_missing_config_file(call, ref):
    done = call("bleu", "ref", "--config", "nowhere.toml")
    assert done.code == 2
    assert "nowhere.toml: no such file or directory" in done.err


def test_dump_config_comes_back(run, ref):
    done = run("bleu", "ref", "-w", "5", "-b", "--dump-config")
    assert done.code == 0
    assert "width = 5\n" in done.text and "score_only = true\n" in done.text
    (ref / "set.toml").write_bytes(done.out)
    assert run("bleu", "ref", "--config", "set.toml", "--dump-config").out == done.out
    assert score(run("bleu", "ref", "--config", "set.toml", stdin=REF)) == "100.00000"


# -- messages ---------------------------------------------------------------------------------------------------------


def test_debug_shows_the_traceback(run, ref):
    plain = run("bleu", "nowhere", stdin=REF)
    assert plain.err == "nlptools bleu: nowhere: no such file or directory\n"
    for done in (run("bleu", "nowhere", "--debug"), run("bleu", "nowhere", env={"NLPTOOLS_DEBUG": "1"})):
        assert done.code == 66
        assert "Traceback" in done.err and done.err.endswith(plain.err)
    assert run("bleu", "nowhere", env={"NLPTOOLS_DEBUG": "0"}).err == plain.err


def test_log_file(run, ref):
    for _ in range(2):
        assert run("bleu", "ref", "ref", "--log-file", "log", "-q", stdin="a\nb\n").code == 65
    lines = (ref / "log").read_text().splitlines()
    assert len(lines) == 2
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S* nlptools bleu: unequal numbers of lines", lines[0])
    assert run("bleu", "ref", "--log-file", "no/where", stdin=REF).code == 74


def test_internal_error(tmp_path):
    code = (
        "import sys; sys.argv = ['nlptools', 'bleu', 'ref']\n"
        "from nlptools import cli; from nlptools.files import streams\n"
        "def broken(*_): raise KeyError('what nobody thought of')\n"
        "streams.check_inputs = broken\n"
        "cli.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment(TMPDIR=str(tmp_path)),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 70
    first, second = done.stderr.splitlines()
    assert first == "nlptools bleu: internal error: KeyError: 'what nobody thought of'"
    (log,) = tmp_path.glob("nlptools-crash-*.log")
    assert str(log) in second
    assert "Traceback" in log.read_text() and "in broken" in log.read_text()
    log.unlink()
    full = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
    code = code.replace("KeyError('what nobody thought of')", "ValueError('of a file \\udcff')")
    for more, logs in (("", 1), (full, 0)):
        done = subprocess.run(
            [sys.executable, "-c", more + code],
            cwd=tmp_path,
            env=environment(TMPDIR=str(tmp_path)),
            capture_output=True,
            text=True,
        )
        assert done.returncode == 70 and len(done.stderr.splitlines()) == 2 and "Traceback" not in done.stderr
        assert len([*tmp_path.glob("nlptools-crash-*.log")]) == logs and ("no place" in done.stderr) == (not logs)
        for path in tmp_path.glob("nlptools-crash-*.log"):
            path.unlink()


def test_a_directory_as_standard_input(tmp_path):
    """Python aborts on it before its first line, so the script that starts Python answers, also through a link."""
    (tmp_path / "linked").symlink_to(ROOT / "bin/nlptools")
    for program in (ROOT / "bin/nlptools", tmp_path / "linked"):
        for stdin, code, out, message in (
            (tmp_path, 66, "", "nlptools: -: is a directory, expected a file\n"),
            (ROOT / "README.md", 0, f"nlptools {__version__}\n", ""),
        ):
            handle = os.open(stdin, os.O_RDONLY)
            path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
            done = subprocess.run(
                [program, "--version"], stdin=handle, capture_output=True, text=True, env=environment(PATH=path)
            )
            os.close(handle)
            assert (done.returncode, done.stdout[: len(out)], done.stderr) == (code, out, message), program


def test_a_checkout_uses_its_own_environment_and_names_a_package_that_is_missing(tmp_path):
    """`bin/nlptools` takes the Python of the `.venv` that `bin/venv` makes; without packages, one line tells the cure."""
    (tmp_path / "nlptools").symlink_to(ROOT / "nlptools")
    (tmp_path / "bin").mkdir()
    program = shutil.copy(ROOT / "bin/nlptools", tmp_path / "bin")
    (tmp_path / ".venv/bin").mkdir(parents=True)
    python = tmp_path / ".venv/bin/python3"
    # without its site directories, this Python has the standard library alone
    python.write_text(f'#!/bin/sh\nexec {sys._base_executable} -S -E "$@"\n')
    python.chmod(0o755)
    done = subprocess.run([program, "--version"], capture_output=True, text=True)
    first, second = done.stderr.splitlines()
    assert (done.returncode, first) == (69, "nlptools: the Python package click is not installed")
    assert "pip install ." in second
    command = ["train-lm", "-t", "char", "-o", str(tmp_path / "lm")]
    blocked = f"import sys; sys.modules['torch'] = None; from nlptools import cli; sys.exit(cli.run({command}))"
    done = subprocess.run(
        [sys.executable, "-c", blocked], capture_output=True, text=True, env=environment(), input="a b\n"
    )
    first = "nlptools train-lm: the Python package torch is not installed"
    assert (done.returncode, done.stderr.splitlines()[0]) == (69, first)


def test_the_locale_does_not_matter(run, tmp_path):
    (tmp_path / "ü").write_text("äöü äöü äöü äöü\n", encoding="utf-8")
    for locale in ("C", "POSIX", "C.UTF-8"):
        done = run("bleu", "ü", "-b", stdin="äöü äöü äöü äöü\n", env={"LC_ALL": locale})
        assert (done.code, done.out) == (0, b"100.0\n")


# -- long lines ---------------------------------------------------------------------------------------------------------


def test_a_long_line_ends_the_command(run, tmp_path):
    with gzip.open(tmp_path / "long.gz", "wb") as packed:
        packed.write(b"a\n")
        for _ in range(65):
            packed.write(b"a" * (1 << 20))
    done = run("tokenize", "-t", "bytes", "long.gz")
    assert (done.code, done.out) == (65, b"<0x61>\n")
    assert done.err.startswith(
        "nlptools tokenize: long.gz:2: a line of more than 67,108,864 bytes, the limit of --max-line\n"
    )


@pytest.mark.parametrize("command", ["tokenize", "phrases", "walks"])
@pytest.mark.parametrize("value", ["5", "1K"])
def test_the_limit_of_a_line(call, command, value):
    lines = "a b\n" + "a " * 600 + "b\n"
    done = call(command, "--max-line", value, stdin=lines)
    assert done.code == 65 and done.err.startswith(f"nlptools {command}: <stdin>:2: a line of more than ")
    assert call("tokenize", "--max-line", "1M", stdin=lines).text == lines


@pytest.mark.parametrize("value", ["0", "-1", "64Q", "", "1.5M", "9" * 30, "9" * 14 + "G", "M", "²"])
def test_sizes_that_are_none(call, value):
    done = call("tokenize", "--max-line", value)
    assert (done.code, done.out) == (2, b"") and "not a size" in done.err


# -- outputs that fail ------------------------------------------------------------------------------------------------


@pytest.mark.sampled(1)
@pytest.mark.parametrize("what", ["bleu ref -i ref", "plot log.jsonl", "tokenize ref"])
def test_closed_and_full_outputs(shell, ref, what):
    (ref / "log.jsonl").write_text('{"kind": "train", "step": 1, "loss": 2}\n')
    name = what.split()[0]
    done = shell(f"nlptools {what} >&-")
    assert done.code == 74
    assert done.err == f"nlptools {name}: <stdout>: standard output is closed\n"
    if os.path.exists("/dev/full"):
        done = shell(f"nlptools {what} > /dev/full")
        assert done.code == 74
        assert done.err == f"nlptools {name}: <stdout>: write failed: no space left on device\n"
    done = shell(f"nlptools {what} 2>&-")
    assert (done.code, done.err) == (0, "")


def test_closed_input(shell, ref):
    done = shell("nlptools bleu ref <&-")
    assert done.code == 66
    assert done.err == "nlptools bleu: <stdin>: standard input is closed\n"


def test_help_on_a_full_disk(shell):
    if os.path.exists("/dev/full"):
        done = shell("nlptools --help > /dev/full")
        assert done.code == 74
        assert "no space left on device" in done.err
        assert "Traceback" not in done.err


def test_head_ends_a_filter_in_silence(shell):
    done = shell('yes "some text" | nlptools tokenize | head -n 1; echo "${PIPESTATUS[*]}"')
    assert (done.code, done.err) == (0, "")
    assert done.lines == ["some text", "141 141 0"]
    assert done.err == ""


@pytest.mark.parametrize(("given", "missing"), [((), "-t/--tokenizer"), (("-t", "words"), "-o/--output DIR")])
def test_required_options(call, given, missing):
    done = call("train-lm", *given, "train.txt")
    assert done.code == 2 and f"missing option {missing}" in done.err
    assert done.err.count("\n") == 2 and "Traceback" not in done.err


# -- signals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_end_a_filter(tmp_path, number):
    child = subprocess.Popen(
        [sys.executable, "-m", "nlptools", "tokenize"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env=environment(),
        # a suite started in the background has SIGINT and SIGHUP ignored, and hands that on
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
    )
    assert child.stdin and child.stdout
    child.stdin.write(b"a line\n")
    child.stdin.flush()
    assert child.stdout.readline() == b"a line\n"  # from here on it waits for the next
    child.send_signal(number)
    out, err = child.communicate(timeout=20)
    assert (child.returncode, out, err) == (-number, b"", b"")  # a shell shows 128 + number


# -- completions ------------------------------------------------------------------------------------------------------


BASH = shutil.which("bash")


def complete(*words):
    """What bash would offer for the last of `words`."""
    line = " ".join(f"'{word}'" for word in words)
    script = (
        f"source '{ROOT}/completions/nlptools'; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _nlptools;"
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run([BASH, "-c", script], capture_output=True, text=True, env={"PATH": "/nowhere"})
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.skipif(not BASH, reason="no bash")
def test_bash_completion():
    assert complete("nlptools", "") == [*COMMANDS, "--help", "--version"]
    assert complete("nlptools", "bl") == ["bleu"]
    assert complete("nlptools", "bleu", "--score") == ["--score-only"]
    assert complete("nlptools", "bleu", "ref", "--no-sc") == ["--no-score-only"]
    assert complete("nlptools", "bleu", "--smooth", "") == ["exp", "floor", "add-k", "none"]
    assert complete("nlptools", "bleu", "--smooth", "=") == ["exp", "floor", "add-k", "none"]
    assert complete("nlptools", "bleu", "--smooth", "=", "n") == ["none"]
    assert complete("nlptools", "bleu", "--tokenize", "") == list(bleu.TOKENIZERS)
    assert complete("nlptools", "bleu", "--tokenize", "dir/") == []  # a name, or a file
    assert complete("nlptools", "finetune", "--task", "co") == ["coreference"]
    assert complete("nlptools", "train-lm", "--arch", "l") == ["lstm"]
    assert complete("nlptools", "train-lm", "-t", "w") == ["whitespace", "words"]
    assert complete("nlptools", "evaluate", "-m", "f1,acc") == ["f1,accuracy"]
    assert complete("nlptools", "bleu", "") == []  # file names
    assert complete("nlptools", "help", "pi") == ["pipelines"]
    assert complete("nlptools", "nonsense", "--") == []


@pytest.mark.parametrize(("shell", "file"), [("bash", "nlptools"), ("zsh", "_nlptools"), ("fish", "nlptools.fish")])
def test_completions_parse(shell, file):
    if not shutil.which(shell):
        pytest.skip(f"no {shell}")
    done = subprocess.run([shell, "-n", str(ROOT / "completions" / file)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


# -- text on the command line -----------------------------------------------------------------------------------------


def test_text_in_place_of_files(call, ref):
    assert call("tokenize", "--text", "It's here.", "--text", "", "--text", "ü").lines == ["It 's here .", "", "ü"]
    done = call("tokenize", "--text", "a", "ref")
    assert done.code == 2 and "--text cannot be combined with files, but ref is also given" in done.err
    done = call("tokenize", "--text", "a\nb")
    assert done.code == 2 and "several lines" in done.err
    done = call("tokenize", "--text", b"a\xff".decode("utf-8", "surrogateescape"))
    assert done.code == 65 and done.err.startswith("nlptools tokenize: <text>:1: invalid UTF-8 at byte 2")


@pytest.mark.parametrize("command", ["extract", "phrases"])
def test_other_filters_take_text(call, command):
    assert call(command, "--text", "a line").lines == ["a line"]


@pytest.mark.parametrize(("name", "quoted"), [("great movie", "'great movie'"), ("king", "king"), ("a. b!", "'a. b!'")])
def test_a_missing_file_that_looks_like_text(call, name, quoted):
    done = call("tokenize", name)
    assert done.code == 66
    assert done.err == (
        f"nlptools tokenize: {name}: no such file or directory\n  hint: for the text itself: --text {quoted}\n"
    )
    assert "hint" not in call("tokenize", "data/king.txt").err
