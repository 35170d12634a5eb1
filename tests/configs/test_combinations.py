"""configs/combinations.py: rules of combination, as they are declared, checked and shown in the help."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import pytest
from conftest import Run

from nlptools.cli import COMMANDS, group
from nlptools.cli.command import Command
from nlptools.cli.manual.completions import root
from nlptools.configs import option
from nlptools.configs.combinations import check_combinations, describe_rules, named_options
from nlptools.errors import UsageError


@dataclass(frozen=True)
class Model:
    kind: str = option("plain", "", choices=("plain", "deep", "wide"))
    init: str | None = option(None, "")
    vectors: str | None = option(None, "", excludes=("init",))
    freeze: bool = option(False, "", needs=("vectors or init",))
    depth: int = option(1, "", only={"kind": ("deep", "wide")})
    ends: bool = option(True, "", excludes=("rate 0.5",))


@dataclass(frozen=True)
class Training:
    rate: float = option(1.0, "")
    schedule: str = option("flat", "", choices=("flat", "steps"), needs={"steps": ("valid",)})
    valid: str | None = option(None, "", flag="held-out")


REFUSED: dict[str, dict[str, Any]] = {
    "--vectors cannot be combined with --init": {"vectors": "a", "init": "b"},
    "--freeze requires --vectors or --init": {"freeze": True},
    "--depth applies to --kind deep, wide only": {"depth": 2},
    "--no-ends cannot be combined with --rate 0.5": {"ends": False, "rate": 0.5},
    "--schedule steps requires --held-out": {"schedule": "steps"},
}
ALLOWED: list[dict[str, Any]] = [
    {},
    {"vectors": "a", "freeze": True},
    {"init": "a", "freeze": True, "depth": 2, "kind": "wide"},
    {"ends": False, "rate": 0.25},
    {"schedule": "steps", "valid": "v"},
]


def settings(values: dict[str, Any]) -> list[Any]:
    return [
        group(**{f.name: values[f.name] for f in fields(group) if f.name in values})  # type: ignore[arg-type]
        for group in (Model, Training)
    ]


def test_rules() -> None:
    for message, values in REFUSED.items():
        with pytest.raises(UsageError) as caught:
            check_combinations(*settings(values))
        assert str(caught.value) == message
    for values in ALLOWED:
        check_combinations(*settings(values))


def test_help() -> None:
    options = {field.name: field for each in (Model, Training) for field in fields(each)}  # type: ignore[arg-type]
    assert {name: text for name, field in options.items() if (text := describe_rules(field, options))} == {
        "vectors": " Not with --init.",
        "freeze": " Requires --vectors or --init.",
        "depth": " Only with --kind deep, wide.",
        "ends": " Not with --rate 0.5.",
        "schedule": " steps requires --held-out.",
    }


def check_names(field: Any, options: dict[str, Any]) -> int:
    """The number of rules of an option, all of which name options and values that exist."""
    for rule in ("needs", "excludes"):
        declared, choices = field.metadata[rule], field.metadata["choices"]
        assert not isinstance(declared, dict) or not choices or set(declared) <= set(choices), field.name
    rules = list(named_options(field))
    for alternatives in rules:
        known = [(options[other], values) for other, values in alternatives if other in options]
        assert known, (field.name, alternatives)
        for other, values in known:
            choices = other.metadata["choices"]
            assert not choices or set(values) <= set(choices), (field.name, values)
    return len(rules)


def test_every_rule_names_options_of_its_command() -> None:
    rules = 0
    for name in COMMANDS:
        command = group.get_command(root(), name)
        for groups in command.all_groups().values() if isinstance(command, Command) else ():
            options = {f.name: f for each in groups for f in fields(each)}
            for field in options.values():
                rules += check_names(field, options)
    assert rules > 40


def test_from_every_source(call: Run, tmp_path: Any) -> None:
    (tmp_path / "run.toml").write_text("freeze-embeddings = true\n")
    for arguments, env in (
        (["--freeze-embeddings"], {}),
        (["--config", "run.toml"], {}),
        ([], {"NLPTOOLS_TRAIN_LM_FREEZE_EMBEDDINGS": "1"}),
    ):
        done = call("train-lm", "-t", "words", "-o", "lm", *arguments, "text", env=env)
        assert (done.code, done.err.splitlines()[0]) == (2, "nlptools train-lm: --freeze-embeddings requires --vectors")
