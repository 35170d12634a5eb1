"""Every row of the table of `help models` has a test beside transformers."""

from __future__ import annotations

import copy
import re
import signal
from pathlib import Path

import pytest

from nlptools.errors import BundleError
from nlptools.inference import families, uses
from nlptools.models.huggingface.directories import config_from_hf

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.reference
TESTS = "".join(path.read_text("utf-8") for path in Path(__file__).parent.glob("*.py") if path != Path(__file__))


def test_every_family_of_the_table_is_compared_with_transformers(run) -> None:  # type: ignore[no-untyped-def]
    rows = families.families()
    assert len({(row.model_type, row.kind) for row in rows}) == len(rows)
    for row in rows:
        classes = transformers.CONFIG_MAPPING[row.model_type].__name__.removesuffix("Config")
        assert re.search(rf"\b{classes}(MT|Model|LMHead|For|Config|\b)", TESTS), f"no test of a {row.model_type}"
    shown = run("help", "models")
    assert shown.code == 0, shown.err
    lines = [line.split()[:2] for line in shown.lines[1:] if line]
    known = {name for use in vars(uses).values() if isinstance(use, uses.Use) for name in use.name.split(" and ")}
    for row in rows:
        assert [row.model_type, row.kind] in lines
        assert all(name in known or name.startswith(("finetune", "train-")) for name in row.commands), row
    assert {"encoder", "decoder", "encoder-decoder"} == {row.kind for row in rows}
    qwen, bert = (next(row for row in rows if row.model_type == name) for name in ("qwen3", "bert"))
    assert {"generate", "score", "embed", "finetune", "chat", "serve"} <= set(qwen.commands)
    assert {"fill", "score --masked", "embed", "finetune"} <= set(bert.commands)


def test_absurd_numbers_in_a_configuration_cost_no_time() -> None:
    def too_long(*_: object) -> None:
        raise AssertionError("a second is over")

    before = signal.signal(signal.SIGALRM, too_long)
    read = 0
    try:
        for kind in sorted({row.model_type for row in families.families()}):
            data = transformers.CONFIG_MAPPING[kind]().to_dict()
            for key in [key for key, value in data.items() if type(value) in (int, type(None))]:
                for number in (10**9, 10**18, 1e12, -(10**9)):
                    changed = {**copy.deepcopy(data), "layer_types": None, key: number}
                    signal.setitimer(signal.ITIMER_REAL, 1)
                    try:
                        config_from_hf(changed)[1].least_weights()
                        read += 1
                    except BundleError as error:
                        assert "\n" not in str(error), (kind, key)
                    except Exception as error:
                        pytest.fail(f"{kind}: {key} = {number}: {error!r}")
                    finally:
                        signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert read
