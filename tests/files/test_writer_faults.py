"""Each change of the file system fails in turn while a directory is replaced: what was there, or the new one, is whole.

`bin/test --all` tries every point; `bin/test` one in eight, which change with the month.
"""

from __future__ import annotations

import contextlib
import errno
import time
from collections.abc import Callable
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from conftest import ALL, Record
from faults import Fault, Killed
from tiny_bundles import WORDS
from tiny_encoder_decoders import tiny as tiny_pair
from tiny_models import tiny

from nlptools import bundle
from nlptools.errors import NlptoolsError
from nlptools.files import artifacts, atomic, whole_directory
from nlptools.models.encoders.bert import EncoderConfig
from nlptools.models.encoders.bert_with_heads import BertWithHeads
from nlptools.text.builtin import NamedTokenizer
from nlptools.text.vocab import Vocab
from nlptools.training.engine.checkpoint import Checkpoints
from nlptools.vectors.files import directory
from nlptools.vectors.table import Vectors

STEP = 1 if ALL else 8
tiny, tiny_pair = cache(tiny), cache(tiny_pair)


@cache
def encoder() -> BertWithHeads:
    config = EncoderConfig(len(WORDS), 8, 1, 2, 12, "bert", 0, max_position_embeddings=12)
    return BertWithHeads(config, ("pooler", "masked"))


def language_model(path: Path, value: int) -> None:
    model, tokenizer = tiny("transformer", vocab_size=len(WORDS)), NamedTokenizer("words", Vocab(WORDS))
    with whole_directory.replacing(str(path)) as folder:
        how: dict[str, Any] = {"eos": 1, "document": "line", "training": {"value": value}}
        bundle.save(folder, "transformer", model, model.state_dict(), tokenizer, **how)


def bert(path: Path, value: int) -> None:
    tokenizer = NamedTokenizer("whitespace", Vocab(WORDS))
    with whole_directory.replacing(str(path)) as folder:
        bundle.save_encoder(folder, encoder(), encoder().state_dict(), tokenizer, training={"value": value})


def translator(path: Path, value: int) -> None:
    model, tokenizer = tiny_pair("transformer", size=len(WORDS)), NamedTokenizer("words", Vocab(WORDS))
    with whole_directory.replacing(str(path)) as folder:
        weights, training = model.state_dict(), {"value": value}
        bundle.save_pair(folder, "seq2seq-transformer", model, weights, tokenizer, training=training)


def vectors(path: Path, value: int) -> None:
    directory.save(Vectors(["a", "b"], np.full((2, 3), value, np.float32)), str(path), force=True)


def policy_and_critic(path: Path, value: int) -> None:
    """The next checkpoint of train-ppo, with the two that stay."""
    models = {name: tiny("transformer", seed=seed) for seed, name in enumerate(("policy", "critic"))}
    weights = {f"{name}.{key}": each for name, model in models.items() for key, each in model.state_dict().items()}
    moments = {f"optimizer.mean.{name}": tensor for name, tensor in weights.items()}
    Checkpoints(path, keep=2).clean()
    Checkpoints(path, keep=2).save(value, weights, moments, {"step": value})


def is_directory(path: Path) -> int:
    """How many directories are whole; an error if one is not."""
    return bool(artifacts.verify(path))


def has_checkpoints(path: Path) -> int:
    return sum(bool(artifacts.verify(each)) for each in path.glob("checkpoints/step-*"))


class Kind(NamedTuple):
    write: Callable[[Path, int], None]
    whole: Callable[[Path], int] = is_directory
    least: int = 1  # directories that must be whole at any time


KINDS = {
    "language model": Kind(language_model),
    "BERT": Kind(bert),
    "translator": Kind(translator),
    "vectors": Kind(vectors),
    "checkpoints of PPO": Kind(policy_and_critic, has_checkpoints, 2),
}
FAULTS: dict[str, dict[str, Any]] = {
    "killed": {"kill": True, "forever": True},
    **{
        f"{errno.errorcode[code]}{' for ever' * forever}": {"kill": False, "error": code, "forever": forever}
        for code in (errno.EIO, errno.ENOSPC, errno.EINTR)
        for forever in (False, True)
    },
}


NUMBERS = count(3)  # a different directory every time


def hidden(place: Path) -> list[Path]:
    return list(place.rglob(".*"))


def removes(where: str) -> bool:
    """Whether a call removes a temporary file, or opens a temporary directory to remove it."""
    inner = where.startswith(("open('new'", "open('old'"))  # see `whole_directory.replacing`
    return "rmdir" in where or "unlink" in where or inner or (where.startswith("open(") and "/." in where)


def points(place: Path, kind: Kind, how: dict[str, Any], first: int = 1, step: int = 1) -> int:
    """The number of points that were tried: each `step`th call that changes the file system, from the `first` on, fails once.

    The next write begins with what the one before has left.
    """
    path, tried, lasting = place / "out", 0, how["forever"]
    if not path.exists():
        kind.write(path, 1)
        kind.write(path, 2)
    while True:
        with pytest.MonkeyPatch.context() as patch:
            fault = Fault(patch, first + tried * step, **how)
            with contextlib.suppress(Killed, NlptoolsError, OSError):
                kind.write(path, next(NUMBERS))
        assert kind.whole(path) >= kind.least, f"nothing whole after {fault.where}"
        if not fault.happened:
            assert not hidden(place)
            return tried
        tried += 1
        assert lasting or removes(fault.where) or not hidden(place), fault.where


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", KINDS)
def test_what_was_there_or_the_new_one_is_whole(tmp_path: Path, name: str, record_property: Record) -> None:
    first, place, counts = int(time.strftime("%m")) % STEP + 1, tmp_path, {}
    for number, (fault, how) in enumerate(FAULTS.items()):
        before, place = place, tmp_path / fault
        place.mkdir()
        if number:
            (before / "out").rename(place / "out")
        counts[fault] = points(place, KINDS[name], how, (first + number) % STEP + 1, STEP)
    record_property("count", sum(counts.values()))
    assert min(counts.values()) >= (40 if ALL else 5)


def test_without_an_exchange_of_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system has none, an error still leaves a whole directory."""
    monkeypatch.setattr(atomic, "exchange", lambda first, second: False)
    assert points(tmp_path, KINDS["vectors"], FAULTS["EIO"], step=STEP) >= 5
