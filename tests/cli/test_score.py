"""score: a record for each line, perplexities that agree with one another, whatever comes in."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from conftest import Run
from tiny_bundles import bytes_bundle, words_bundle

from nlptools.inference import scoring

ODD = b"\xef\xbb\xbfw1 w2.\r\n\r\nw3\x00 w4\xe2\x80\xa8w5 \xc2\x85 w6\n\n  \nw7 nowhere\nlast w8"


@pytest.fixture(scope="module")
def lstm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return words_bundle(tmp_path_factory.mktemp("lstm") / "lm", "lstm")


@pytest.fixture(scope="module")
def letters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bytes_bundle(tmp_path_factory.mktemp("bytes") / "lm")


def rows(text: list[str]) -> list[tuple[float, int]]:
    return [(float(score), int(tokens)) for score, tokens in (line.split("\t") for line in text)]


def total(call: Run, *args: Any, stdin: str | bytes) -> dict[str, Any]:
    done = call("score", *args, "--per", "total", stdin=stdin)
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads(done.out)
    return found


# -- per line ---------------------------------------------------------------------------------------------------------


def test_one_record_for_each_line_in_order(call: Run, words: Path) -> None:
    done = call("score", words, stdin=ODD)
    assert done.code == 0 and done.err.count("\n") == 1
    assert "warning: 25% of the tokens of the text are unknown" in done.err
    found = rows(done.lines)
    # U+2028 and U+0085 are white space to the tokenizer, and no ends of lines
    assert [tokens for _, tokens in found] == [4, 1, 6, 1, 1, 3, 3]
    assert found[3][0] == pytest.approx(found[1][0]) == pytest.approx(found[4][0])
    assert all(score < 0 for score, _ in found)
    assert rows(call("score", words, "--text", "w1 w2.", "--text", "").lines) == found[:2]


@pytest.mark.parametrize(("stdin", "count"), [(b"", 0), (b"\n", 1), (b"w1", 1), (b"\xef\xbb\xbf", 0), (b"\n\nw1\n", 3)])
def test_few_lines(call: Run, words: Path, stdin: bytes, count: int) -> None:
    done = call("score", words, stdin=stdin)
    assert (done.code, done.out.count(b"\n"), done.err) == (0, count, "")
    tokens = call("score", words, "--per", "token", stdin=stdin)
    assert tokens.code == 0 and [line for line in tokens.lines if not line] == [""] * count


def test_line_ends_and_a_byte_order_mark_change_nothing(call: Run, words: Path) -> None:
    plain = rows(call("score", words, stdin="w1 w2\nw3\n").lines)
    for other in (b"w1 w2\r\nw3\r\n", b"\xef\xbb\xbfw1 w2\nw3\n", b"w1 w2\nw3"):
        found = rows(call("score", words, stdin=other).lines)
        assert [score for score, _ in found] == pytest.approx([score for score, _ in plain], abs=1e-3)
        assert [tokens for _, tokens in found] == [tokens for _, tokens in plain]


def test_scores_depend_on_the_line_alone(call: Run, words: Path, lstm: Path) -> None:
    lines = [" ".join(f"w{(7 * i + j) % 44}" for j in range(i % 40)) for i in range(60)]
    for model in (words, lstm):
        whole = rows(call("score", model, stdin="\n".join(lines) + "\n").lines)
        others = (("--batch-tokens", 30), ("--line-buffered",), ("--threads", 2))
        for extra in others:
            again = rows(call("score", model, *extra, stdin="\n".join(lines) + "\n").lines)
            assert [n for _, n in again] == [n for _, n in whole]
            assert [s for s, _ in again] == pytest.approx([s for s, _ in whole], abs=1e-3), extra
        backwards = rows(call("score", model, stdin="\n".join(lines[::-1]) + "\n").lines)
        assert [s for s, _ in backwards[::-1]] == pytest.approx([s for s, _ in whole], abs=1e-3)


def test_tokens_sum_to_their_line(call: Run, words: Path, letters: Path) -> None:
    text = 'w1, w2 "w3"\n\nw4 zzz\tw5 \\\n'
    for model in (words, letters):
        lines = rows(call("score", model, stdin=text).lines)
        blocks = call("score", model, "--per", "token", stdin=text).text.split("\n\n")
        assert blocks.pop() == "" and len(blocks) == len(lines) == 3
        for block, (score, tokens) in zip(blocks, lines, strict=True):
            values = [float(row.split("\t")[1]) for row in block.split("\n")]
            assert len(values) == tokens and sum(values) == pytest.approx(score, abs=1e-3)
    names = [row.split("\t")[0] for row in call("score", words, "--per", "token", stdin=text).lines]
    assert names[:8] == ["w1", ",", "w2", '"', "w3", '"', "</s>", ""]
    assert "<unk>" in names


def test_without_the_end_of_text(call: Run, words: Path) -> None:
    text = "w1 w2\n\nw3\n"
    tokens = call("score", words, "--per", "token", stdin=text).lines
    bare = call("score", words, "--per", "token", "--no-eos", stdin=text).lines
    kept = [row for row in tokens if not row.startswith("</s>")]
    assert [row.split("\t")[0] for row in kept] == [row.split("\t")[0] for row in bare]
    values = [[float(row.split("\t")[1]) for row in part if row] for part in (kept, bare)]
    assert values[0] == pytest.approx(values[1], abs=1e-3)
    assert rows(call("score", words, "--no-eos", stdin=text).lines)[1] == (0.0, 0)


def test_a_text_without_its_ends(call: Run, words: Path, letters: Path, lstm: Path) -> None:
    text = " ".join(f"w{i % 44}" for i in range(60)) + "\nw3\n\nw1 w2\n"
    for model in (words, letters, lstm):
        found = total(call, model, "--no-eos", "--document", "line", stdin=text)
        lines = rows(call("score", model, "--no-eos", stdin=text).lines)
        assert found["log_probability"] == pytest.approx(sum(score for score, _ in lines), abs=1e-3)
        assert found["tokens"] == sum(tokens for _, tokens in lines)
        assert (found["protocol"]["name"], found["protocol"]["end_of_text_counted"]) == (scoring.ROLLING, False)
    assert total(call, words, "--no-eos", "--stride", 5, stdin=text)["protocol"]["name"] is None


def test_a_line_longer_than_the_context(call: Run, words: Path, letters: Path) -> None:
    line = " ".join(f"w{i % 44}" for i in range(100))
    for model in (words, letters):
        done = call("score", model, "--stride", 5, stdin=line * 3 + "\nw1\n")
        assert done.code == 0 and done.err == ""
    found = rows(call("score", words, stdin=line + "\nw1\n").lines)
    assert [n for _, n in found] == [101, 2]
    assert found[1] == rows(call("score", words, stdin="w1\n").lines)[0]


def test_a_line_of_two_megabytes(call: Run, words: Path) -> None:
    done = call("score", words, stdin="x" * 2_000_000 + "\n" + ("w1" + " " * 98) * 20_000 + "\nw1\n")
    assert done.code == 0, done.err
    assert [n for _, n in rows(done.lines)] == [2, 20_001, 2]


# -- per total --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["words", "lstm", "letters"])
def test_perplexities_agree(call: Run, kind: str, request: pytest.FixtureRequest) -> None:
    model = request.getfixturevalue(kind)
    text = "w1 w2, w3.\n\nw4 w5 nowhere ünï\n" * 20
    found = total(call, model, "--document", "line", stdin=text)
    lines = rows(call("score", model, stdin=text).lines)
    assert found["log_probability"] == pytest.approx(sum(score for score, _ in lines), rel=1e-5)
    assert found["tokens"] == sum(tokens for _, tokens in lines)
    assert (found["documents"], found["lines"], found["words"]) == (60, 60, 140)
    assert found["bytes"] == len(text.encode())
    assert found["unknown"] == (0 if kind == "letters" else 40)
    nats = -found["log_probability"]
    assert found["loss"] == pytest.approx(nats / found["tokens"])
    for name, count in (("perplexity", "tokens"), ("word_perplexity", "words"), ("byte_perplexity", "bytes")):
        assert math.log(found[name]) == pytest.approx(nats / found[count])
    assert 2 ** found["bits_per_byte"] == pytest.approx(found["byte_perplexity"])


def test_the_protocol_is_told(call: Run, words: Path, lstm: Path, letters: Path) -> None:
    protocol = total(call, words, "--stride", 6, "--precision", "fp32", stdin="w1\n")["protocol"]
    assert (protocol["context"], protocol["stride"], protocol["document"]) == (24, 6, "line")
    assert (protocol["before_first_token"], protocol["end_of_text_counted"]) == ("</s>", True)
    assert protocol["logarithm"] == "natural" and "unknown" in protocol["unknown_tokens"]
    assert protocol["precision"] == "fp32" and "device" in protocol
    assert total(call, words, stdin="w1\n")["protocol"]["stride"] == 24
    unlimited = total(call, lstm, stdin="w1\n")["protocol"]
    assert unlimited["context"] is None and unlimited["stride"] is None
    protocol = total(call, letters, stdin="w1\n")["protocol"]
    assert protocol["unknown_tokens"] == "none possible" and protocol["document"] == "file"


@pytest.mark.parametrize("stride", [0, 5, 24])
def test_the_protocol_reproduces_the_number(call: Run, words: Path, stride: int) -> None:
    """Windows as the protocol has them, each by itself: the last one ends with the text and is full."""
    import torch

    import nlptools

    ids = [3 + i * i % 7 for i in range(55)]
    loaded: Any = nlptools.load(words, precision="fp32", threads=1)
    names = [loaded.tokenizer.vocab.token(i) for i in ids]
    found = total(call, words, "--stride", stride, stdin=" ".join(names) + "\n")
    protocol, eos = found["protocol"], loaded.bundle.eos
    assert protocol["last_window"] == "moved back to be full"
    context, step, tokens = protocol["context"], protocol["stride"], [eos, *ids, eos]
    targets, scored, summed = len(tokens) - 1, 0, 0.0
    while scored < targets:
        end = min(targets, scored + (step if scored else context))
        begin = max(0, end - context)
        with torch.inference_mode():
            hidden, _ = loaded.model(torch.tensor([tokens[begin:end]]))
            logs = (hidden[0] @ loaded.model.token_embedding.weight[: loaded.model.output.vocab_size].T).log_softmax(-1)
        summed += sum(float(logs[t - begin, tokens[t + 1]]) for t in range(scored, end))
        scored = end
    assert found["log_probability"] == pytest.approx(summed, rel=1e-5) and found["tokens"] == 56


def test_documents(call: Run, words: Path, letters: Path, tmp_path: Path) -> None:
    text = "\n\nw1 w2\nw3\n\n\nw4\n \nw5"
    counts = {}
    for model in (words, letters):
        for document in ("line", "paragraph", "file"):
            found = total(call, model, "--document", document, stdin=text)
            counts[document] = found["documents"]
            assert found["protocol"]["document"] == document
        assert counts == {"line": 9, "paragraph": 3, "file": 1}
    # in one document, later tokens see those of lines before
    assert total(call, words, "--document", "file", stdin="w1\nw2\n")["tokens"] == 3
    one, two = (total(call, words, "--document", d, stdin="w1\nw2\n") for d in ("line", "file"))
    assert one["log_probability"] != pytest.approx(two["log_probability"])
    for name in ("a", "b"):
        (tmp_path / name).write_text("w1\n")
    files = call("score", words, "--per", "total", "--document", "file", "a", "b")
    assert json.loads(files.out)["documents"] == 2


def test_a_smaller_stride_changes_long_texts_only(call: Run, words: Path) -> None:
    long, short = "w1 w2 w3 " * 40, "w1 w2 w3"
    found = [total(call, words, "--stride", n, stdin=long)["log_probability"] for n in (1, 12, 24, 0, 99)]
    assert len({round(x, 3) for x in found[:3]}) == 3
    assert found[2] == pytest.approx(found[3]) == pytest.approx(found[4])
    found = [total(call, words, "--stride", n, stdin=short)["log_probability"] for n in (1, 12, 0)]
    assert found[0] == pytest.approx(found[1]) == pytest.approx(found[2])


def test_what_a_float_cannot_hold_is_null(call: Run, words: Path) -> None:
    done = call("score", words, "--per", "total", stdin="\n" * 5000 + "w1\n")
    found = json.loads(done.out, parse_constant=lambda text: pytest.fail(f"{text} is not JSON"))
    assert found["words"] == 1 and found["word_perplexity"] is None and found["perplexity"] > 1


@pytest.mark.parametrize("stdin", [b"", b"\xef\xbb\xbf"])
def test_nothing_to_score(call: Run, words: Path, stdin: bytes) -> None:
    done = call("score", words, "--per", "total", stdin=stdin)
    assert done.code == 65 and done.out == b""
    assert done.err == "nlptools score: no text to score: the input is empty\n"


# -- one stream -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["words", "lstm", "letters"])
def test_lines_of_a_stream(call: Run, kind: str, request: pytest.FixtureRequest) -> None:
    model = request.getfixturevalue(kind)
    text = "".join(f"w{i % 7} w{i % 11} w{i % 5}\n" for i in range(30)) + "\n"
    alone, lines = (rows(call("score", model, *more, stdin=text).lines) for more in ((), ("--carry",)))
    assert [n for _, n in lines] == [n for _, n in alone]
    assert lines[0] == pytest.approx(alone[0]) and lines[1][0] != pytest.approx(alone[1][0], abs=1e-2)
    one_by_one = rows(call("score", model, "--carry", "--line-buffered", stdin=text).lines)
    assert [s for s, _ in one_by_one] == pytest.approx([s for s, _ in lines], abs=1e-3)
    tokens = call("score", model, "--carry", "--per", "token", stdin=text).lines
    values = [float(row.split("\t")[1]) for row in tokens if row]
    assert sum(values) == pytest.approx(sum(s for s, _ in lines), abs=0.05)
    bare = call("score", model, "--carry", "--no-eos", "--per", "token", stdin=text).lines
    without = [row for row in tokens if not row.startswith(("</s>\t", "256\t"))]
    assert [row.split("\t")[0] for row in bare] == [row.split("\t")[0] for row in without]
    words = call(
        "score", model, "--carry", "--per", "word", "--base", "e", "--no-boundary-correction", stdin=text
    ).lines
    of_words = sum(float(row.split("\t")[1]) for row in words if row)
    assert -of_words == pytest.approx(sum(float(row.split("\t")[1]) for row in bare if row), abs=0.1)
    found = total(call, model, "--carry", "--document", "line", stdin=text)
    assert found["log_probability"] == pytest.approx(sum(s for s, _ in lines), rel=1e-5)
    assert found["protocol"]["state"] == "carried over documents"
    assert found["protocol"]["stride"] == {"words": 12, "lstm": None, "letters": 128}[kind]
    assert total(call, model, stdin=text)["protocol"]["state"] == "new for each document"


# -- what is wrong ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "stdin", "code", "said"),
    [
        (("MODEL",), b"w1\nw2\n\xff\n", 65, "<stdin>:3: invalid UTF-8 at byte 1"),
        (("MODEL", "--per", "total"), b"w1 \xc3\n", 65, "<stdin>:1: invalid UTF-8 at byte 4"),
        (("MODEL", "bad.txt"), b"", 65, "bad.txt:2: invalid UTF-8"),
        (("nowhere",), b"", 66, "nowhere: no such model directory"),
        (("MODEL", "nowhere"), b"", 66, "nowhere: no such file"),
        (("MODEL", "."), b"", 66, ".: is a directory"),
        (("bad.txt",), b"", 78, "bad.txt: is a file, expected a model directory"),
        ((".",), b"", 78, ".: no config.json: not a model directory"),
        (("MODEL", "-", "-"), b"", 2, "may occur only once"),
        (("MODEL", "--per", "letter"), b"", 2, "'letter' is not one of"),
        (("MODEL", "--stride", "-1"), b"", 2, "--stride"),
        (("MODEL", "--batch-tokens", "0"), b"", 2, "--batch-tokens"),
        (
            ("MODEL", "--per", "total", "--no-eos", "--carry"),
            b"",
            2,
            "--no-eos with --per total cannot be combined with --carry",
        ),
        (("MODEL", "--document", "line"), b"", 2, "--document applies to --per total only"),
        (("MODEL", "-o", "bad.txt"), b"w1\n", 73, "bad.txt: exists"),
        (("MODEL", "-o", "nowhere/x"), b"w1\n", 73, "nowhere/x: no such file or directory"),
        (("MODEL", "-o", "/dev/full"), b"w1\n", 74, "/dev/full: write failed: no space left on device"),
        (("MODEL", "--per", "total", "-o", "/dev/full"), b"w1\n", 74, "write failed"),
        ((), b"", 2, "missing argument"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    call: Run, words: Path, tmp_path: Path, args: tuple[str, ...], stdin: bytes, code: int, said: str
) -> None:
    (tmp_path / "bad.txt").write_bytes(b"w1\n\xfe\n")
    done = call("score", *(str(words) if arg == "MODEL" else arg for arg in args), stdin=stdin)
    message = done.err.split("\n")
    assert done.code == code and said in message[0], done.err
    assert message[0].startswith("nlptools score: ") and (len(message) == 2 or message[1].startswith("  hint: "))
    assert (tmp_path / "bad.txt").read_bytes() == b"w1\n\xfe\n"


def test_invalid_bytes_replaced_or_ignored(call: Run, words: Path) -> None:
    for how, tokens in (("replace", 3), ("ignore", 2)):
        done = call("score", words, "--encoding-errors", how, stdin=b"w1 \xff\n")
        assert done.code == 0 and rows(done.lines)[0][1] == tokens


def test_into_a_file(call: Run, words: Path, tmp_path: Path) -> None:
    direct = call("score", words, stdin="w1\nw2\n").out
    assert call("score", words, "-o", "out", stdin="w1\nw2\n").out == b""
    assert (tmp_path / "out").read_bytes() == direct
    assert call("score", words, "-o", "out", "--force", stdin="w3\n").code == 0
    assert (tmp_path / "out").read_bytes().count(b"\n") == 1
    assert call("score", words, "-o", "out", "--force", stdin=b"\xff\n").code == 65
    assert (tmp_path / "out").read_bytes().count(b"\n") == 1, "a failed run leaves the old file alone"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out"]


# -- as a process -----------------------------------------------------------------------------------------------------


@pytest.mark.sampled(law="an output that fails ends the command")
def test_closed_and_full_outputs(shell: Run, fork_shell: Run, words: Path) -> None:
    done = shell(f"echo w1 | nlptools score {words} >&-")
    assert done.code == 74 and done.err == "nlptools score: <stdout>: standard output is closed\n"
    done = fork_shell(f"echo w1 | nlptools score --threads 1 {words} > /dev/full")
    assert done.code == 74 and done.err.count("\n") == 1 and "no space left" in done.err


@pytest.mark.sampled(law="an output that fails ends the command")
def test_a_pipe_that_closes(fork_shell: Run, call: Run, letters: Path) -> None:
    text = "ünï 🎉\n" * 40_000
    line = f"nlptools score --threads 1 {letters} | head -1"
    done = fork_shell(line, stdin=text.encode())
    assert done.err == "" and done.code in (141, 0), done.err
    assert rows(done.lines) == [(pytest.approx(rows(call("score", letters, stdin=text[:6]).lines)[0][0], abs=1e-3), 11)]
