"""The 40 bad inputs. They are generated; each has a rule that says which end of a program is right."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from benchmarks.reliability import damages

TEXT = b"w1 w2 w3 w4\nw3 w4 w1 w5 w6\nw2 w7 w1\nw8 w2 w3 w4 w9 w1\n" * 3
LINES = 12
ACCENTS = "w1 w2 caf\u00e9\nw3 na\u00efve w1\n".encode() * 6
VECTORS = b"3 4\nw1 1 2 3 4\nw2 4 3 2 1\nw3 1 1 2 2\n"
RECORDS = b'{"text": "w1 w2"}\n{"text": "w3 w4 w1"}\n' * 6
CODES = r"utf-?8|decod|encod|codec|surrogate|unicode|byte order|\bbytes? "
SIZES = r"memory|alloc|size|large|long|too |header|length|invalid|fewer|expected|exceed|sum|corrupt|damaged|manifest"


@dataclass(frozen=True)
class Input:
    """A defect, in files of one kind.

    Attributes:
        name: what is wrong.
        kind: "text", "lines" (JSON lines), "vectors" or "model".
        words: a regular expression; a message that matches names the problem.
        content: bytes of the file, or what makes it.
        twin: a file of these bytes means the same, and must give the same result. None: there is no such file.
        rows: so many lines are in the file, all of which must be read. None: they are not compared.
        refusable: to refuse it with a message is also right. If neither twin nor rows: only that is.
        suffix: of the name of the file.
        c_locale: the program runs in the locale C.
        file_name: without the suffix.
    """

    name: str
    kind: str
    words: str
    content: bytes | Callable[[Path], object]
    twin: bytes | None = None
    rows: int | None = None
    refusable: bool = True
    suffix: str = ".txt"
    c_locale: bool = False
    file_name: str = "input"


def _ignored(path: Path) -> None:
    """No file."""


def _text(name: str, words: str, content: bytes | Callable[[Path], object], **rule: object) -> Input:
    return Input(name, "text", words, content, **rule)  # type: ignore[arg-type]


def _lines(name: str, words: str, line: bytes) -> Input:
    return Input(name, "lines", words, RECORDS + line + b"\n" + RECORDS, suffix=".jsonl")


def _vectors(name: str, words: str, content: bytes) -> Input:
    return Input(name, "vectors", words, content, suffix=".vec")


def _model(name: str, words: str) -> Input:
    return Input(name, "model", words, _ignored)


EMPTY = (
    r"empty|no (training )?(data|text|words?|lines?|rows|sentences?|examples|samples)|at least|too few|reference|lines"
    r"|vocab|enough|\b0 "
)
HARMLESS = {"refusable": False}
INPUTS = (
    _text("empty file", EMPTY, b"", rows=0),
    _text("only ends of lines", EMPTY, b"\n" * LINES, rows=LINES),
    _text("no end of the last line", "end", TEXT[:-1], twin=TEXT, **HARMLESS),
    _text("CRLF", "CR|carriage|line end", TEXT.replace(b"\n", b"\r\n"), twin=TEXT, **HARMLESS),
    _text("LF and CRLF mixed", "CR|carriage|line end", TEXT.replace(b"\n", b"\r\n", 5), twin=TEXT, **HARMLESS),
    _text("byte order mark", "BOM|byte.order|mark|feff", b"\xef\xbb\xbf" + TEXT, twin=TEXT),
    _text("UTF-16", CODES, b"\xff\xfe" + TEXT.decode().encode("utf-16-le")),
    _text("byte FF", CODES, TEXT + b"w1 \xff w2\n"),
    _text("cut character at the end", CODES, TEXT + b"w1 \xe2\x82"),
    _text("overlong encoding", CODES, TEXT + b"w1 \xc0\x80\n"),
    _text("encoded surrogate", CODES, TEXT + b"w1 \xed\xa0\x80\n"),
    _text("U+2028, U+0085, VT, FF in lines", "separator|control", TEXT + "w1\u2028w2\u2029\x85\x0b\x0c\x1c w3\n".encode(),
          rows=LINES + 1, **HARMLESS),
    _text("NUL in a line", "NUL|null|0x00|binary", TEXT + b"w1 w2\0w3 w4\n", rows=LINES + 1),
    _text("line of 4 MB without a space", "long|length|size", TEXT + b"a" * (4 << 20) + b"\n", rows=LINES + 1),
    _text("10,000 combining marks", "long|mark", TEXT + b"e" + "\u0301".encode() * 10_000 + b"\n", rows=LINES + 1),
    _text("10,000 joined emoji", "long|join", TEXT + "\U0001f468\u200d".encode() * 10_000 + b"\n", rows=LINES + 1),
    _text("terminal escapes, bidi controls", "control|escape", TEXT + "\x1b[31mw1\x1b[0m \u202e w2\x07\n".encode(),
          rows=LINES + 1, **HARMLESS),
    _text("marks of models in text", "special|reserved|token", TEXT + b"<s> [MASK] </s> <unk> __label__x\n",
          rows=LINES + 1, **HARMLESS),
    _text("ELF program", CODES + "|binary|NUL", b"\x7fELF\x02\x01\x01" + bytes(range(256)) * 4),
    _text("cut gzip", "gzip|compress|end-of-stream|end of|cut|trunc|decod",
          gzip.compress(Random(1).randbytes(5000).hex().encode())[:-900], suffix=".txt.gz"),
    _text("Zstandard bytes in .txt", CODES + "|zst|compress", b"\x28\xb5\x2f\xfd" + bytes([0xFF, 0x81]) * 40),
    _text("directory for a file", "director|EISDIR|not a file|Input/output|cannot be opened", lambda path: path.mkdir()),
    _text("missing file", "no such|not exist|not found|unable to find|cannot be opened|cannot find|n't find", _ignored),
    _text("file name is not UTF-8", "name", TEXT, twin=TEXT, file_name=os.fsdecode(b"caf\xe9"), **HARMLESS),
    _text("locale C, text is UTF-8", CODES, ACCENTS, twin=ACCENTS, c_locale=True, **HARMLESS),
    _lines("JSON: wrong syntax", "json|syntax|expect|pars|delimiter", b'{"text": "a"'),
    _lines("JSON: 100,000 levels deep", "json|deep|depth|nest|recurs|pars|level", b'{"text": ' + b"[" * 100_000),
    _lines("JSON: a number for the text", r"string|type|number|\bnan\b|infinit|no value|column|json", b'{"text": NaN}'),
    _lines("JSON: lone surrogate", "surrogate|utf|unicode|json|pars|escape", b'{"text": "\\ud800"}'),
    _lines("JSON: key is missing", "key|column|field|missing|no value|null|none", b'{"txt": "w1"}'),
    _vectors("vectors: header of 10^12 words", SIZES + "|words|1000000000000|row|line|dimension",
             b"1000000000000 300\n" + VECTORS.split(b"\n", 1)[1]),
    _vectors("vectors: a row is short", "row|line|dimension|number|vector|invalid|shape|broadcast|column|expected",
             b"3 4\nw1 1 2 3 4\nw2 4 3\nw3 1 1 2 2\n"),
    _vectors("vectors: NaN", "nan|finite", VECTORS.replace(b"4 3 2 1", b"4 nan 2 1")),
    _model("weights cut", SIZES + "|incomplete|EOF|end of|cut|trunc|reshape|read|sha"),
    _model("weights: a bit flipped", "sum|sha|corrupt|damaged|manifest|finite|crc|hash"),
    _model("weights: NaN", "nan|finite"),
    _model("pickle with code as weights", "pickle|safetensors|weights_only|unsafe|magic|wrong file format|invalid|format|no such"
           "|does not appear|not a |no file|missing|legacy"),
    _model("absurd sizes", SIZES + "|magic|format|layers|words|shape|mmap|n_layer|hidden|limit"),
    _model("tokenizer cut", "token|json|vocab|EOF|pars|sha|manifest|column|pieces"),
    _model("tensor missing", "missing|newly|not initialized|lacks|no (tensor|weight)|unexpected|not used|manifest|key"),
)  # fmt: skip
CLEAN = {"text": TEXT, "lines": RECORDS, "vectors": VECTORS}


def write(case: Input, place: Path, layout: str, twin: bool = False) -> str:
    """Write the input, or the file that it must be equal to, into `place`; return the name of the file or directory."""
    if case.kind == "model":
        if not twin:
            damages.damage(place / "model", layout, case.name)
        return "model"
    clean = CLEAN[case.kind] if case.twin is None else case.twin
    path = place / ((case.file_name if not twin else "input") + case.suffix.replace(".gz", "" if twin else ".gz"))
    if twin or isinstance(case.content, bytes):
        path.write_bytes(clean if twin else case.content)  # type: ignore[arg-type]
    else:
        case.content(path)
    lines = LINES if case.rows is None or twin else case.rows
    (place / "reference.txt").write_bytes(b"".join([*TEXT.splitlines(keepends=True) * 2][: max(1, lines)]))
    return path.name
