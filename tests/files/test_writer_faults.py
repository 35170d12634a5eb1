"""Each change of the file system fails in turn while a directory is replaced: the name is the old or the new one, whole."""

from __future__ import annotations

import contextlib
import errno
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faults import Fault, Killed
from tiny_bundles import WORDS
from tiny_models import tiny

from nlptools import bundle
from nlptools.errors import NlptoolsError
from nlptools.files import artifacts, atomic, whole_directory
from nlptools.text.builtin import NamedTokenizer
from nlptools.text.vocab import Vocab
from nlptools.vectors.files import directory
from nlptools.vectors.table import Vectors


def language_model(path: Path, value: int) -> None:
    model: Any = tiny("transformer", vocab_size=len(WORDS))
    tokenizer = NamedTokenizer("words", Vocab(WORDS))
    with whole_directory.replacing(str(path)) as folder:
        training = {"value": value}
        bundle.save(
            folder, "transformer", model, model.state_dict(), tokenizer, eos=1, document="line", training=training
        )


def vectors(path: Path, value: int) -> None:
    directory.save(Vectors(["a", "b"], np.full((2, 3), value, np.float32)), str(path), force=True)


KINDS: dict[str, Callable[[Path, int], None]] = {"language model": language_model, "vectors": vectors}
FAULTS: dict[str, dict[str, Any]] = {
    "killed": {"kill": True},
    **{
        f"{errno.errorcode[code]}{' for ever' * forever}": {"kill": False, "error": code, "forever": forever}
        for code in (errno.EIO, errno.ENOSPC, errno.EINTR)
        for forever in (False, True)
    },
}


def content(path: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in sorted(path.iterdir())}


def points(place: Path, write: Callable[[Path, int], None], how: dict[str, Any]) -> int:
    """The number of points at which replacing a directory can fail, after a failure at each."""
    path = place / "out"
    at = 0
    while True:
        at += 1
        for each in place.iterdir():
            shutil.rmtree(each)
        write(path, 1)
        old = content(path)
        with pytest.MonkeyPatch.context() as patch:
            fault = Fault(patch, at, **how)
            with contextlib.suppress(Killed, NlptoolsError, OSError):
                write(path, 2)
        assert path.is_dir(), f"nothing there after {fault.where}"
        artifacts.verify(path)
        if not fault.happened:
            assert content(path) != old
            return at - 1
        hidden = [each for each in place.iterdir() if each != path]
        assert not hidden or how["kill"] or how["forever"] or "rmdir" in fault.where or "unlink" in fault.where, (
            fault.where
        )
        write(path, 3)
        artifacts.verify(path)


@pytest.mark.parametrize("kind", KINDS)
def test_the_old_or_the_new_directory_is_whole(tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    counts = {name: points(tmp_path, KINDS[kind], how) for name, how in FAULTS.items()}
    with capsys.disabled():
        print(f"\n{kind}: {sum(counts.values())} points: {counts}", end=" ")
    assert min(counts.values()) >= 5


def test_without_an_exchange_of_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system has none, an error still leaves a whole directory."""
    monkeypatch.setattr(atomic, "exchange", lambda first, second: False)
    assert points(tmp_path, vectors, FAULTS["EIO"]) >= 5
