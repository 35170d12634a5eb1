"""Generated files that are damaged or hostile: one line, the status of bad data or a bad model, soon, in little memory.

While a command reads one, nothing is executed, no process begins, no socket opens and no file outside is written: an audit hook
fails the test otherwise.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import resource
import shutil
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from conftest import Record, within
from tiny_bundles import words_bundle

from tests.models.test_peft import adapters

SECONDS = 2.0  # of processor time
EXTRA = 64 << 20  # bytes of memory, besides twice the size of the file

FORBIDDEN = ("pickle.", "subprocess.", "os.system", "os.exec", "os.fork", "os.posix_spawn", "socket.")


class Hostile(NamedTuple):
    """A file or directory to read, and the command that reads it, in which FILE is its name."""

    name: str
    write: Callable[[Path], object]
    command: str
    codes: tuple[int, ...] = (78,)


def data(content: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(content)


# -- word vectors -----------------------------------------------------------------------------------------------------


def npy(header: str, content: bytes = b"", length: int | None = None) -> bytes:
    text = header.encode("latin-1")
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text) if length is None else length) + text + content


def shape(numbers: str, kind: str = "<f4", order: str = "False") -> str:
    return f"{{'descr': '{kind}', 'fortran_order': {order}, 'shape': {numbers}, }}\n"


def fasttext(
    settings: dict[int, int] | None = None, words: int = 1, rest: bytes = b"", magic: int = 793712314
) -> bytes:
    numbers = [2, 5, 5, 1, 5, 1, 2, 2, 0, 3, 6, 100]
    for place, value in (settings or {}).items():
        numbers[place] = value
    head = struct.pack("<ii12id", magic, 12, *numbers, 1e-4)
    return head + struct.pack("<iiiqq", words, words, 0, 10, -1) + rest


ROW = b"a\0" + struct.pack("<qb", 1, 0)
NPY = {
    "more-than-the-file": npy(shape("(65536, 65536)")),
    "objects": npy(shape("(1, 2)", "|O"), pickle.dumps([print, 1])),
    "negative": npy(shape("(-1, 4)"), bytes(16)),
    "overflow": npy(shape("(4294967296, 4294967296)"), bytes(16)),
    "code-in-header": npy(
        "{'descr': '<f4', 'fortran_order': False, 'shape': (__import__('os').system('touch owned'),)}\n"
    ),
    "deep-header": npy("(" * 30000 + "\n"),
    "long-header": npy("x", length=65535),
    "records": npy(shape("(1, 2)", "f4,f4"), bytes(16)),
    "one-dimension": npy(shape("(4,)"), bytes(16)),
    "text": npy(shape("(2, 2)", "<U9"), bytes(144)),
    "short": npy(shape("(2, 2)"), bytes(15)),
    "empty": b"",
}
WORD2VEC_TEXT = {
    "vocabulary-without-end": b"1000000000000 300\na 1 2 3\n",
    "other-dimensions": b"2 3\na 1 2 3\nb 1 2\n",
    "not-a-number": b"1 2\na 1 x\n",
    "nan": b"1 2\na 1 nan\n",
    "negative-count": b"-1 2\na 1 2\n",
    "long-number": b"1 2\na 1 " + b"9" * 100000 + b"\n",
    "many-rows": b"2 2\n" + b"a 1 2\n" * 5,
}
WORD2VEC_BINARY = {
    "vocabulary-without-end": b"1000000000000 300\n" + b"a " + bytes(1200),
    "short": b"2 4\na " + bytes(16) + b"b " + bytes(7),
    "word-without-end": b"1 4\n" + b"a" * 100000,
    "wide": b"1 2147483647\na " + bytes(16),
}
FASTTEXT = {
    "magic": fasttext(magic=1),
    "cut": fasttext()[:40],
    "words-without-end": fasttext(words=2**31 - 1),
    "negative-words": fasttext(words=-1),
    "word-without-end": fasttext(rest=b"a" * 5000),
    "wide": fasttext({0: 2**31 - 1}, rest=ROW + struct.pack("<Bqq", 0, 2**40, 2**31 - 1)),
    "overflow": fasttext(rest=ROW + struct.pack("<Bqq", 0, 2**62, 8)),
    "long-grams": fasttext({9: 1, 10: 2**30}, rest=ROW + struct.pack("<Bqq", 0, 101, 2) + bytes(808)),
    "quantized": fasttext(rest=ROW + b"\1"),
}
ARPA = {
    "counts-without-end": b"\\data\\\nngram 1=1000000000000\n\n\\1-grams:\n-1\ta\n\n\\end\\\n",
    "infinite": b"\\data\\\nngram 1=3\n\n\\1-grams:\n+inf\t<unk>\n-1\t<s>\n-1\t</s>\n\n\\end\\\n",
    "nan": b"\\data\\\nngram 1=3\n\n\\1-grams:\nnan\t<unk>\n-1\t<s>\n-1\t</s>\n\n\\end\\\n",
    "missing-context": b"\\data\\\nngram 1=1\nngram 2=1\n\n\\1-grams:\n-1\t<unk>\n\n\\2-grams:\n-1\tx y\n\n\\end\\\n",
    "order": b"\\data\\\nngram 1=1\nngram 99999999=1\n\n\\1-grams:\n-1\ta\n\n\\end\\\n",
    "no-end": b"\\data\\\nngram 1=1\n\n\\1-grams:\n-1\t<unk>",
    "nothing": b"\\data\\\n\\end\\\n",
}

# -- tokenizers -------------------------------------------------------------------------------------------------------


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes(out) + bytes([number])


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def piece(text: bytes, score: float = 0.0, kind: int = 1) -> bytes:
    return field(1, field(1, text) + b"\x15" + struct.pack("<f", score) + b"\x18" + varint(kind))


UNK = piece(b"<unk>", 0, 2)


def character_map(trie_size: int, trie: bytes) -> bytes:
    return UNK + piece(b"a") + field(3, field(2, struct.pack("<I", trie_size) + trie))


PIECES = {
    "long-piece": UNK + piece(b"a" * 200_000),
    "nul": UNK + piece(b"a\0b"),
    "twice": UNK + piece(b"a") + piece(b"a"),
    "no-unknown": piece(b"a"),
    "two-unknowns": UNK + piece(b"b", 0, 2),
    "nan": UNK + piece(b"a", float("nan")),
    "short-map": UNK + piece(b"a") + field(3, field(2, b"\1")),
    "map-without-end": character_map(2**32 - 1, bytes(16)),
    "map-out-of-bounds": character_map(16, struct.pack("<4I", 0x7FFFFC00, 0, 0, 0)),
    "length-without-end": UNK + b"\x0a" + varint(2**62),
    "varint-without-end": b"\xff" * 5000,
    "broken-text": UNK + piece(b"\xff\xfe"),
    "other-kind": UNK + piece(b"a", 0, 77),
    "cut": (UNK + piece(b"hello"))[:-4],
    "empty": b"",
}
TOKENIZERS: dict[str, Any] = {
    "not-json": b"{",
    "deep": b"[" * 100_000,
    "list": b"[]",
    "twice": b'{"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}, "model": 1}',
    "no-model": b'{"version": "1.0"}',
    "other-model": b'{"version": "1.0", "model": {"type": "Pickle", "vocab": {}}}',
    "huge-id": b'{"version": "1.0", "model": {"type": "WordLevel", "vocab": {"a": 4294967295}, "unk_token": "a"}}',
    "long-number": b'{"version": "1.0", "model": {"type": "WordLevel", "vocab": {"a": ' + b"9" * 5000 + b"}}}",
}

# -- model directories ------------------------------------------------------------------------------------------------


def tensors(header: bytes, content: bytes = bytes(8), length: int | None = None) -> bytes:
    return struct.pack("<Q", len(header) if length is None else length) + header + content


def entry(kind: str = "F32", numbers: str = "[2]", ends: str = "[0, 8]", name: str = "transformer.wte.weight") -> str:
    return f'"{name}": {{"dtype": "{kind}", "shape": {numbers}, "data_offsets": {ends}}}'


SAFETENSORS = {
    "length-2-63": tensors(b"{}", length=2**63),
    "length-zero": tensors(b"", length=0),
    "length-of-100-MB": tensors(b"{}", length=100_000_001),
    "no-object": tensors(b"[1]"),
    "twice": tensors(f"{{{entry()}, {entry()}}}".encode()),
    "overlap": tensors(f"{{{entry()}, {entry(name='b')}}}".encode()),
    "hole": tensors(f"{{{entry(ends='[4, 12]')}}}".encode(), bytes(12)),
    "trailing": tensors(f"{{{entry()}}}".encode(), bytes(99)),
    "overflow": tensors(f"{{{entry(numbers='[4294967296, 4294967296, 4294967296]')}}}".encode()),
    "kind": tensors(f"{{{entry('PICKLE')}}}".encode()),
    "metadata": tensors(b'{"__metadata__": {"a": 1}}'),
    "pickle": pickle.dumps([print]),
}
INDEXES: dict[str, Any] = {
    "climbs": {"weight_map": {"a": "../../model.safetensors"}},
    "absolute": {"weight_map": {"a": "/etc/passwd"}},
    "nul": {"weight_map": {"a": "a\0b"}},
    "itself": {"weight_map": {"a": "model.safetensors.index.json"}},
    "list": [],
    "no-map": {"metadata": {}},
    "device": {"weight_map": {"a": "/dev/zero"}},
}
CONFIGS: dict[str, Any] = {
    "layers": {"n_layer": 10**9},
    "width": {"n_embd": -1},
    "vocabulary": {"vocab_size": 10**12},
    "heads": {"n_head": 7},
    "dropout": {"attn_pdrop": "x"},
    "code": {"auto_map": {"AutoModel": "evil.Model"}, "model_type": "evil"},
}
ADAPTERS: dict[str, Any] = {
    "rank": {"r": 10**9},
    "negative": {"r": -1},
    "no-number": {"r": "eight"},
    "other-modules": {"target_modules": ["nowhere"]},
    "no-names": {"target_modules": 7},
    "kind": {"peft_type": "PICKLE"},
    "base": {"base_model_name_or_path": "/nowhere/at/all"},
}


class Canary:
    def __reduce__(self) -> Any:
        return os.system, ("touch owned",)


def in_copy(model: str, change: Callable[[Path], object]) -> Callable[[Path], object]:
    """A copy of the directory `model`, without its manifest, then changed."""

    def write(path: Path) -> None:
        shutil.copytree(path.parent / model, path)
        (path / "manifest.json").unlink(missing_ok=True)
        change(path)

    return write


def weights(content: bytes) -> Callable[[Path], object]:
    return in_copy("lm", lambda path: (path / "model.safetensors").write_bytes(content))


def index(content: object) -> Callable[[Path], object]:
    def change(path: Path) -> None:
        (path / "model.safetensors").unlink()
        (path / "model.safetensors.index.json").write_text(json.dumps(content))

    return in_copy("lm", change)


def updated(model: str, name: str, **values: object) -> Callable[[Path], object]:
    def change(path: Path) -> None:
        (path / name).write_text(json.dumps(json.loads((path / name).read_text()) | values))

    return in_copy(model, change)


def repeated(model: str, name: str) -> Callable[[Path], object]:
    """With two values of one key."""

    def change(path: Path) -> None:
        (path / name).write_text('{"a": 1, "a": 2, ' + (path / name).read_text().lstrip()[1:])

    return in_copy(model, change)


def pickled(path: Path) -> None:
    (path / "model.safetensors").unlink()
    (path / "pytorch_model.bin").write_bytes(pickle.dumps(Canary()))


def linked(path: Path) -> None:
    (path / "model.safetensors").unlink()
    (path / "model.safetensors").symlink_to("/dev/zero")


def piped(path: Path) -> None:
    (path / "model.safetensors").unlink()
    os.mkfifo(path / "model.safetensors")


LINES = {
    "syntax": b'{"text": "a"\n',
    "deep": b'{"text": ' + b"[" * 100_000 + b"\n",
    "twice": b'{"text": "a", "text": "b"}\n',
    "nan": b'{"text": NaN}\n',
    "infinite": b'{"text": 1e999}\n',
    "long-number": b'{"text": ' + b"9" * 5000 + b"}\n",
    "surrogate": b'{"text": "\\ud800"}\n',
    "list": b"[1]\n",
    "nul": b'{"text": "a"}\0\n',
    "invalid": b'{"text": "\xff"}\n',
}


def rows(
    name: str, contents: dict[str, Any], write: Callable[[Any], Callable[[Path], object]], command: str, *codes: int
) -> list[Hostile]:
    """A row for each of `contents`; `name` has a * for its key."""
    return [Hostile(name.replace("*", key), write(each), command, codes or (78,)) for key, each in contents.items()]


def config(content: dict[str, object]) -> Callable[[Path], object]:
    return updated("lm", "config.json", **content)


def adapter(content: dict[str, object]) -> Callable[[Path], object]:
    return updated("adapters", "adapter_config.json", **content)


FILES = [
    *rows("*.npy", NPY, data, "neighbors FILE -k 1"),
    *rows("text-*.vec", WORD2VEC_TEXT, data, "neighbors FILE -k 1"),
    *rows("binary-*.w2v", WORD2VEC_BINARY, data, "neighbors --from word2vec-binary FILE -k 1"),
    *rows("fasttext-*.bin", FASTTEXT, data, "neighbors --from fasttext FILE -k 1"),
    *rows("*.arpa", ARPA, data, "score FILE", 65),
    *rows("pieces-*.model", PIECES, data, "tokenize -t FILE"),
    *rows("*.json", TOKENIZERS, data, "tokenize -t FILE"),
    *rows("safetensors-*", SAFETENSORS, weights, "score FILE"),
    *rows("index-*", INDEXES, index, "score FILE", 66, 78),
    *rows("config-*", CONFIGS, config, "score FILE"),
    *rows("adapter-*", ADAPTERS, adapter, "score FILE", 66, 78),
    *rows("adapter-*-predict", ADAPTERS, adapter, "predict FILE labels"),
    *rows("adapter-*-finetune", ADAPTERS, adapter, "finetune --task classify -m FILE --threads 1 -o new labels"),
    Hostile("adapter-repeated", repeated("adapters", "adapter_config.json"), "score FILE"),
    Hostile("config-repeated", repeated("lm", "config.json"), "score FILE"),
    Hostile("adapter-pattern", adapter({"target_modules": "(a+)+$"}), "score FILE", (0,)),  # a pattern that is not run
    Hostile("pickle", in_copy("lm", pickled), "score FILE"),
    Hostile("link", in_copy("lm", linked), "score FILE"),
    Hostile("pipe", in_copy("lm", piped), "score FILE", (66, 78)),
    *rows("lines-*.jsonl", LINES, data, "prompt -t {text} FILE", 65),
]

_watching: dict[str, Any] = {"place": None, "seen": []}


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    place = _watching["place"]
    if place is None:
        return
    if event.startswith(FORBIDDEN):
        _watching["seen"].append((event, str(arguments)[:200]))
    elif event == "exec" and str(place) in arguments[0].co_filename:
        _watching["seen"].append((event, arguments[0].co_filename))
    elif (
        event == "open"
        and isinstance(arguments[0], (str, bytes))
        and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    ):
        name = os.path.abspath(os.fsdecode(arguments[0]))
        if name not in ("/dev/null", tempfile.gettempdir()) and not name.startswith(str(place)):
            _watching["seen"].append((event, name))


@contextlib.contextmanager
def watched(place: Path, memory: int) -> Iterator[list[tuple[str, str]]]:
    """Nothing that the audit hook sees is allowed, and not more than `memory` bytes besides those in use.

    Modules that are imported meanwhile are not compiled into files, which the hook would see.
    """
    if "hook" not in _watching:
        sys.addaudithook(_hook)  # which stays
        _watching["hook"] = True
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    _watching["seen"] = seen = list[tuple[str, str]]()
    resource.setrlimit(resource.RLIMIT_AS, (used + memory, before[1]))
    _watching["place"] = place
    compiled, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield seen
    finally:
        sys.dont_write_bytecode = compiled
        _watching["place"] = None
        resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Intact models, which each command has read once: what it imports does not count."""
    place = tmp_path_factory.mktemp("hostile")
    words_bundle(place / "lm")
    adapters(place, place / "lm")
    (place / "a.vec").write_text("1 2\na 1 2\n")
    (place / "a.npy").write_bytes(npy(shape("(1, 2)"), bytes(8)))
    (place / "a.arpa").write_text("\\data\\\nngram 1=3\n\n\\1-grams:\n-1\t<unk>\n-1\t<s>\n-1\t</s>\n\n\\end\\\n")
    (place / "labels").write_text("w1 w2\tyes\nw3\tno\n" * 4)
    (place / "a.jsonl").write_text('{"text": "a"}\n')
    jobs = [
        "neighbors a.vec -k 1",
        "neighbors a.npy -k 1",
        "score lm",
        "score adapters",
        "finetune --task classify -m adapters --dry-run --threads 1 -o new labels",
        "score a.arpa",
        "prompt -t {text} a.jsonl",
    ]
    for job in jobs:
        done = within(place, *job.split(), stdin="w1\n")
        assert done.code == 0 or "a.npy" in job, (job, done.err)
    within(place, "tokenize", "-t", "a.jsonl", stdin="a\n")
    within(place, "predict", "adapters", "labels")
    return place


def size_of(path: Path) -> int:
    files = [path] if path.is_file() else [each for each in path.iterdir() if each.is_file()]
    return sum(each.stat().st_size for each in files if not each.is_symlink())


def test_hostile_files(place: Path, record_property: Record) -> None:
    record_property("count", len(FILES))
    assert len(FILES) >= 100 and len({each.name for each in FILES}) == len(FILES)
    wrong = []
    for hostile in FILES:
        path = place / hostile.name
        hostile.write(path)
        before = sorted(os.listdir(place))
        with watched(place, 2 * size_of(path) + EXTRA) as seen:
            began = time.process_time()
            done = within(place, *hostile.command.replace("FILE", hostile.name).split(), stdin="w1\n")
            seconds = time.process_time() - began
        message = done.err.split("\n")
        one_line = len(message) == 2 or (len(message) == 3 and message[1].startswith("  hint: "))
        named = hostile.name in done.err or "config.json" in message[0]
        if done.code not in hostile.codes or (done.code and not (one_line and named)):
            wrong.append(f"{hostile.name}: status {done.code}: {done.err[:300]}")
        if seconds > SECONDS or seen or sorted(os.listdir(place)) != before:
            wrong.append(f"{hostile.name}: {seconds:.1f} s, {seen}, {set(os.listdir(place)) - set(before)}")
    assert not wrong, "\n".join(wrong)
