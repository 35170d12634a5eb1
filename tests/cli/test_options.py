"""cli/options.py: bounds of numbers, and what configuration files may hold."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import click
import pytest

from nlptools import configs
from nlptools.cli import COMMANDS, group
from nlptools.cli.command import Command
from nlptools.cli.manual.completions import root
from nlptools.cli.option_types import Number

# functions of configs whose text holds a number; the others check names
NUMBERS = ("duration", "interval", "size", "lengths", "long_phase", "frozen", "class_weights", "shard")


def commands() -> Iterator[tuple[str, Command]]:
    for name in COMMANDS:
        command = group.get_command(root(), name)
        if isinstance(command, Command):
            yield name, command


@cache
def options(command: Command, variant: tuple[str, ...]) -> dict[str, click.Parameter]:
    return {option.name: option for option in command.parameters(*command.all_groups()[variant])}


@dataclass
class Setting:
    """An option of a command."""

    command: Command
    variant: tuple[str, ...]  # the arguments that choose it
    field: dataclasses.Field

    @property
    def option(self) -> click.Option:
        return options(self.command, self.variant)[self.field.name]


def settings() -> Iterator[Setting]:
    """Every field of every command; one that several variants have by inheritance once."""
    for _, command in commands():
        seen = set()
        for variant, groups in command.all_groups().items():
            for field in (field for each in groups for field in dataclasses.fields(each) if id(field) not in seen):
                seen.add(id(field))
                yield Setting(command, variant, field)


NUMERIC = [setting for setting in settings() if configs.bounds(setting.field) is not None]
CHECKED = [setting for setting in settings() if getattr(setting.field.metadata["check"], "__name__", "") in NUMBERS]


def refused(setting: Setting, value: str) -> str:
    """The message for a value of an option; fails where the value is taken."""
    flag = max(setting.option.opts, key=len)
    with pytest.raises(click.UsageError) as caught:
        setting.command.make_context(setting.command.name, [*setting.variant, f"{flag}={value}"], parent=root())
    assert caught.value.exit_code == 2
    message = caught.value.format_message()
    assert flag in message, message
    return message


def all_refused(setting: Setting, first: str, *others: str) -> None:
    """The first value on the command line, the others by the type of the option."""
    refused(setting, first)
    for value in others:
        with pytest.raises(click.UsageError):
            setting.option.type.convert(value, setting.option, None)


def test_common_options_have_one_place(call):
    common = call("help", "common").text
    for name in ("bleu", "train-lm"):
        text = call(name, "--help").text
        assert (
            "--encoding-errors" in text and "Handling of invalid UTF-8" not in text and "nlptools help common" in text
        )
    assert "--config FILE.toml" in common and "Handling of invalid UTF-8" in common


def test_all_commands_are_looked_at():
    assert {setting.command.name for setting in NUMERIC} >= set(COMMANDS) - {"help", "describe", "split", "export"}
    assert {setting.field.metadata["check"].__name__ for setting in CHECKED} == set(NUMBERS)
    assert len(NUMERIC) > 200


def test_every_number_has_bounds():
    for setting in NUMERIC:
        field, kind = setting.field, setting.option.type
        assert isinstance(kind, Number), field.name
        assert math.isfinite(kind.min) and math.isfinite(kind.max) and kind.min < kind.max, field.name
        assert kind.min >= -1e12 and kind.max <= (1e12 if kind.parse is float else 2**63 - 1), field.name
        if field.name != "seed":
            assert kind.max <= 2**31 or kind.parse is float, field.name
        default = field.default
        if isinstance(default, (int, float)):
            assert kind.min <= default <= kind.max, field.name


def test_numbers_beyond_bounds():
    for setting in NUMERIC:
        all_refused(setting, "nan", "inf", "-inf", str(10**30), str(-(10**30)), "1e400", "9" * 5000, "", "x")


def test_texts_with_numbers_beyond_bounds():
    huge = str(10**30)
    units = ("", "s", "e", "d", "G", f"-{huge}", ":0.5", "/" + huge, f",{huge}")
    values = ("nan", "inf", huge, "-" + huge, "9" * 5000, *(huge + unit for unit in units), f"A={huge}", "A=1e400")
    for setting in CHECKED:
        all_refused(setting, *values)


def test_a_number_beyond_bounds_is_a_usage_error(call):
    for args in (["train-w2v", "--ns-exponent", "inf"], ["evaluate", "--metric", "accuracy", "--width", 10**30]):
        done = call(*args)
        assert (done.code, done.out) == (2, b"")
        assert done.err.count("\n") == 2 and (": must be " in done.err or "not a finite number" in done.err)
    done = call("build-vocab", "--kind", "unigram", "--size", 10**10, "-o", "m")
    assert done.code == 2 and "--size: must be at most 2147483647, not 10000000000" in done.err


# -- configuration files -----------------------------------------------------------------------------------------------


WRONG = {
    "seed = inf": "'inf' is not a whole number",
    "seed = 1.5": "'1.5' is not a whole number",
    "seed = [1]": "seed is a list, expected one value",
    "seed = {a = 1}": "seed is a dict, expected one value",
    "seed = true": "'true' is not a whole number",
    "seed = 1000000000000000000000000000000": "must be between 0 and",
    "score-only = 5": "'5' is neither true nor false",
    "smooth = [1]": "smooth is a list, expected one value",
    "smooth-value = nan": "not a finite number",
    "tokenize = 1979-05-27": "1979-05-27",
}


def test_values_of_the_wrong_type(call, tmp_path):
    (tmp_path / "ref").write_text("a b c d\n")
    for line, said in WRONG.items():
        (tmp_path / "set.toml").write_text(line + "\n")
        done = call("bleu", "ref", "--config", "set.toml", stdin="a b c d\n")
        assert (done.code, done.out) == (2, b""), line
        assert said in done.err and done.err.count("\n") <= 2, done.err


def test_values_that_are_right(call, tmp_path):
    (tmp_path / "ref").write_text("a b c d\n")
    (tmp_path / "set.toml").write_text('score-only = 1\nwidth = 3\nmetrics = ["bleu"]\ninput = "ref"\n')
    done = call("bleu", "ref", "--config", "set.toml")
    assert (done.code, done.text) == (0, "100.000\n"), done.err


def test_commas_in_lists(call, tmp_path):
    """Lists may be given with commas and several times; items of a list in a file and its dump keep their commas."""
    (tmp_path / "set.toml").write_text('labels = ["New York, NY", "Rome"]\n')
    dumped = call("evaluate", "-m", "f1", "accuracy", "-m", "mcc", "--config", "set.toml", "--dump-config").text
    assert 'metric = ["f1", "accuracy", "mcc"]\n' in dumped
    assert 'labels = ["New York, NY", "Rome"]\n' in dumped
    expected = 'labels = ["New York", "Rome", "Bonn"]\n'
    assert (
        expected in call("evaluate", "-m", "f1", "--labels", "New York,Rome", "--labels", "Bonn", "--dump-config").text
    )
    found = call("evaluate", "-m", "f1", "--dump-config", env={"NLPTOOLS_EVALUATE_LABELS": "New York,Rome,,Bonn"})
    assert expected in found.text


# -- the largest seed works --------------------------------------------------------------------------------------------

SEED = ("--seed", 2**63 - 1)


def test_the_largest_seed(call, tmp_path, english):
    text = "\n".join(english[:500]) + "\n"
    (tmp_path / "text").write_text(text)
    for line in (
        "build-vocab --kind unigram --size 200 --max-lines 100 -o m text",
        "tokenize -t m.model --sample 0.1 text",
        "bleu text -i text --confidence 10",
        "walks",
        "train-w2v --dim 4 --epochs 1 --workers 1 --to bundle -o v text",
        "convert v q --to bundle --quantize pq",
        "train-lm -t m.model --layers 1 --hidden 8 --heads 1 --context 8 --steps 1 -o lm text",
        "generate lm --max-new-tokens 2",
    ):
        done = call(*line.split(), *SEED, stdin="a b\n")
        assert done.code == 0, (line, done.err)
