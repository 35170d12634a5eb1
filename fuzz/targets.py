"""Readers of foreign files: each reads any bytes, or refuses them with one line."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from nlptools.errors import NlptoolsError

CORPUS = Path(__file__).parent / "corpus"


class Target(NamedTuple):
    """A reader, and the name of the file that it reads; in a directory of its own, if the name has one."""

    file: str
    read: Callable[[Path], object]


def _manifest(path: Path) -> object:
    from nlptools.files import artifacts

    return artifacts.verify_all(path.parent)


def _config(path: Path) -> object:
    from nlptools.inference.description import describe

    return describe(path.parent)


def _pieces(path: Path) -> object:
    from nlptools.text import sentencepiece_file

    data = path.read_bytes()
    vocabulary = sentencepiece_file.check(data, str(path))
    return vocabulary, sentencepiece_file.settings(data)


def _vectors(name: str) -> Callable[[Path], object]:
    def read(path: Path) -> object:
        from nlptools.vectors.files import formats

        return list(formats.load(str(path), name).words.list())

    return read


def _array(path: Path) -> object:
    from nlptools.vectors.files import npy

    with contextlib.suppress(NlptoolsError):
        npy.load_array(str(path))  # the mapped one; pipes have records one after the other
    return npy.read_arrays(str(path))


def _arpa(path: Path) -> object:
    from nlptools.models.language import arpa

    return arpa.read(str(path))


def _lines(path: Path) -> object:
    from nlptools.formats import records

    return list(records.columns_of(str(path), ["text"], "strict", False, None))


def _conll(path: Path) -> object:
    from nlptools.formats import conll
    from nlptools.formats.reading_options import Options
    from nlptools.metrics.tags import read_tags

    with contextlib.suppress(NlptoolsError):
        read_tags([path])
    return list(conll.read_columns(str(path), Options()))


def _squad(path: Path) -> object:
    from nlptools.formats import squad

    for read in (squad.read_predictions, squad.read_no_answer):
        with contextlib.suppress(NlptoolsError):
            read(path)
    return list(squad.gold_answers(path))


def _gguf(path: Path) -> object:
    from nlptools.files import gguf_file

    return gguf_file.read(path)


TARGETS = {
    "manifest": Target("model/manifest.json", _manifest),
    "config": Target("model/config.json", _config),
    "sentencepiece": Target("a.model", _pieces),
    "npy": Target("a.npy", _array),
    "word2vec": Target("a.vec", _vectors("word2vec")),
    "word2vec-binary": Target("a.w2v", _vectors("word2vec-binary")),
    "fasttext": Target("a.bin", _vectors("fasttext")),
    "arpa": Target("a.arpa", _arpa),
    "jsonl": Target("a.jsonl", _lines),
    "conll": Target("a.conll", _conll),
    "squad": Target("a.json", _squad),
    "gguf": Target("a.gguf", _gguf),
}


def run(name: str, data: bytes, place: Path) -> None:
    """Read `data` as a file of a kind in the directory `place`. Raises what is no NlptoolsError."""
    target = TARGETS[name]
    path = place / target.file
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)  # a mapped file is not changed
    path.write_bytes(data)
    os.utime(path, ns=(run.count, run.count))  # descriptions of files are kept by their time
    run.count += 1
    with contextlib.suppress(NlptoolsError):
        target.read(path)


run.count = 1  # type: ignore[attr-defined]
