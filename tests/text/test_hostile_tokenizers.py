"""Files of tokenizers that are valid and hostile: expressions without end, normalizers that grow, errors inside Rust."""

from __future__ import annotations

import base64
import json
import os
import random
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tokenizers import normalizers

from nlptools.errors import BundleError
from nlptools.text import guarded_calls, text_growth
from nlptools.text.guarded_calls import guarded as guarded_at
from nlptools.text.learning import train_byte_bpe
from nlptools.text.text_growth import check_growth, growth
from nlptools.text.tokenizer import load

guarded = partial(guarded_at, path="file")
MODEL: dict[str, Any] = {"type": "WordLevel", "vocab": {"a": 0, "[UNK]": 1}, "unk_token": "[UNK]"}


def written(path: Path, **parts: Any) -> str:
    path.write_text(json.dumps({"version": "1.0", "model": MODEL, **parts}), encoding="utf-8")
    return str(path)


def split(expression: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": expression}, "behavior": "Isolated", "invert": False}


def replace(pattern: str, content: str, kind: str = "String") -> dict[str, Any]:
    return {"type": "Replace", "pattern": {kind: pattern}, "content": content}


def chain(*parts: dict[str, Any], name: str = "normalizers") -> dict[str, Any]:
    return {"type": "Sequence", name: list(parts)}


def expression(pattern: str, content: str = "") -> dict[str, Any]:
    return replace(pattern, content, "Regex")


HOSTILE: list[dict[str, Any]] = [
    {"pre_tokenizer": split("(a+)+$")},
    {"pre_tokenizer": split("(?:a|aa|a?)+$")},
    {"pre_tokenizer": chain(split("([a-z]*)*[0-9]$"), split("(a|a)*$"), name="pretokenizers")},
    {"normalizer": expression("(a+a+)+$")},
    {"normalizer": chain(*[replace("a", "aaaaaaaaaa")] * 9)},
    {"normalizer": chain(*[chain(replace("a", "bb"), replace("b", "aa"))] * 20)},
    {"normalizer": chain(*[expression(".", "xxxx")] * 15)},
    {"normalizer": chain(*[{"type": "Prepend", "prepend": "yy"}, expression("", "y" * 99)] * 3)},
    {"normalizer": {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(bytes(4) + b"x" * 9999).decode()}},
    {"decoder": chain(*[replace("a", "aaaaaaaaaa")] * 9, name="decoders")},
    {"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a a"]}},
    {"model": {**MODEL, "unk_token": "<nowhere>"}},
    {"normalizer": chain(*[replace("a", "b")] * 1001)},
]


def test_a_pause_and_a_busy_machine_do_not_use_up_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarded_calls, "LOOK", 0.01)
    monkeypatch.setattr(guarded_calls, "LEAST", 0.05)
    assert guarded(1, lambda: time.sleep(0.3)) is None, "without processor time"
    with pytest.raises(BundleError, match="takes longer"):
        guarded(1, lambda: sum(range(50_000_000)))


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_a_hostile_file_is_one_line_and_status_78(call: Any, tmp_path: Path, number: int) -> None:
    """Also on standard error itself, where Rust prints."""
    written(tmp_path / "tokenizer.json", **HOSTILE[number])
    done = call("tokenize", "-t", "tokenizer.json", stdin="a" * 40 + "b\n")
    assert (done.code, done.text) == (78, "")
    assert done.err.startswith("nlptools tokenize: tokenizer.json: ") and done.err.count("\n") == 1, done.err


def test_a_call_without_end_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = load(written(tmp_path / "tokenizer.json", pre_tokenizer=split("(a*a*)c?$")))  # cubic
    assert slow.encode("a") == [0]
    monkeypatch.setattr(guarded_calls, "LEAST", 0.05)
    monkeypatch.setattr(guarded_calls, "LOOK", 0.02)
    for work in (slow.tokens, slow.encode, slow.offsets):
        with pytest.raises(BundleError, match=r"tokenizer.json: the tokenizer takes longer than 0 s: 601 characters"):
            work("a" * 600 + "d")
    assert slow.encode("a") == [0], "other calls go on"


def test_growth_is_a_bound(tmp_path: Path) -> None:
    draw = random.Random(1)
    for _ in range(300):
        parts = []
        for _ in range(draw.randrange(1, 5)):
            pattern, content = ("".join(draw.choices("abc", k=draw.randrange(low, 4))) for low in (1, 0))
            parts.append(replace(pattern, content, draw.choice(["String", "Regex"])))
        of_package = normalizers.Sequence([normalizers.Replace(part["pattern"]["String"], part["content"]) if "String" in
                                           part["pattern"] else one_expression(part) for part in parts])  # fmt: skip
        for text in ("".join(draw.choices("abc", k=12)) for _ in range(5)):
            assert len(of_package.normalize_str(text)) <= len(text) * growth(chain(*parts)) + 1e-6, (parts, text)


def one_expression(part: dict[str, Any]) -> Any:
    from tokenizers import Regex

    return normalizers.Replace(Regex(part["pattern"]["Regex"]), part["content"])


def test_ordinary_normalizers_grow_little() -> None:
    bert = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "lowercase": True}
    charsmap = base64.b64encode((8).to_bytes(4, "little") + bytes(8) + b"a\0" + b"x" * 33 + b"\0").decode()
    albert = chain(replace("``", '"'), replace("''", '"'), {"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"},
                   {"type": "Precompiled", "precompiled_charsmap": charsmap})  # fmt: skip
    llama = chain({"type": "Prepend", "prepend": "\u2581"}, replace(" ", "\u2581"))
    table = chain(*(replace(chr(0x2150 + i), f" {i}/7 ") for i in range(200)))  # none finds what another one writes
    for part, most in (
        (bert, 12),
        (albert, 1200),
        (llama, 2),
        (table, 7),
        (None, 1),
        ({"type": "NFC"}, 3),
        ("damaged", 1),
    ):
        assert 1 <= growth(part) <= most
    check_growth({"normalizer": bert, "decoder": {"type": "ByteLevel"}}, "t")


def test_a_batch_is_measured_before_it_takes_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grows = load(written(tmp_path / "tokenizer.json", normalizer=chain(replace("b", "b" * 900))))
    monkeypatch.setattr(text_growth, "MOST_CHARACTERS", 10_000)
    assert grows.encode_lines(["a"] * 200) == [[0]] * 200 and grows.encode_lines(["a" * 5000, "b" * 5])
    for lines in (["b" * 12], ["a" * 30, "b"] * 12, ["b\ud800" * 12]):
        with pytest.raises(BundleError, match=r"its normalizers make a text longer than 10,000 characters"):
            grows.encode_lines(lines)


def test_guarded_calls() -> None:
    assert guarded(1, lambda: 5) == 5
    with pytest.raises(BundleError, match="file: cannot be read: ZeroDivisionError"):
        guarded(1, lambda: 1 / 0)
    before = threading.active_count()
    for _ in range(50):
        guarded(1, lambda: time.sleep(0.001))
    assert threading.active_count() <= before + 1, "one thread for many calls"
    barrier = threading.Barrier(4)
    results: list[int] = []
    callers = [threading.Thread(target=lambda: results.append(guarded(1, barrier.wait))) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(20)
    assert sorted(results) == [0, 1, 2, 3], "calls at the same time do not wait for each other"
    child = os.fork()
    if not child:
        os._exit(guarded(1, lambda: 7))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7, "threads do not survive a fork"


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="Linux alone has a table of open files for a thread")
def test_a_library_is_silent_in_a_guarded_call(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    held = os.open(tmp_path / "held", os.O_CREAT | os.O_RDWR)
    assert guarded(1, lambda: os.write(2, b"panic\n")) == 6
    os.write(2, b"ours\n")
    assert os.write(held, b"x") == 1
    os.close(held)
    assert capfd.readouterr().err == "ours\n"
    load(written(tmp_path / "tokenizer.json")).encode_lines(["a", "a"])  # starts the threads of the package
    with open(tmp_path / "text", "w+b", buffering=0) as stream:
        stream.write(b"ab ab\n" * 50)
        stream.seek(0)
        made = train_byte_bpe((line.decode() for line in stream), 300)
    assert "ab" in made.get_vocab(), "a trainer reads files that were opened later"
