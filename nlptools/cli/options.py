"""Command options from dataclass fields; config files, presets, and the origin of each value."""

from __future__ import annotations

import dataclasses
import functools
import os
import shlex
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from nlptools import messages
from nlptools.cli import config_files
from nlptools.cli.command import Command
from nlptools.cli.option_types import Checked
from nlptools.cli.variants import Variants
from nlptools.configs import Common, LineOutput
from nlptools.configs.combinations import check_combinations
from nlptools.configs.units import size
from nlptools.errors import InputError, UsageError, display
from nlptools.files import hub_cache, progress, run_paths, streams
from nlptools.files.input_parts import TEXT

if TYPE_CHECKING:
    pass

_SOURCES = {
    ParameterSource.COMMANDLINE: "flag",
    ParameterSource.ENVIRONMENT: "environment",
    ParameterSource.DEFAULT_MAP: "config",
    ParameterSource.DEFAULT: "default",
}


def command(
    name: str,
    *groups: type,
    presets: Mapping[str, Mapping[str, object]] | None = None,
    preset_options: tuple[str, ...] = ("preset",),
    variants: Variants | None = None,
    opens_models: bool = False,
    exit_codes: tuple[int, ...] = (0, 2, 65, 66, 74, 130, 141, 143),
) -> Callable[[Callable[..., None]], Command]:
    """Decorator that turns a function into a command.

    The function receives one instance of each settings class in `groups` and of `Common`, in the parameter annotated with
    the class, and the click arguments declared below this decorator.
    `presets` maps the values of an option `--preset`, or of `preset_options`, to values of other options: see
    `config_files.read_preset`. `variants` replace `groups`. A command that `opens_models` says in its help where published ones
    come from.
    """
    groups = (*groups, Common)

    def decorate(function: Callable[..., None]) -> Command:
        parameters = {part: name for name, text in function.__annotations__.items() for part in text.split(" | ")}

        @functools.wraps(function)
        def callback(**values: object) -> None:
            _apply_common(values)
            chosen = click.get_current_context().meta.get("nlptools.groups", groups)
            settings = {parameters[group.__name__]: None for group in groups}
            for group in chosen:
                known = [parameters[base.__name__] for base in group.__mro__ if base.__name__ in parameters]
                settings[known[0]] = _built(group, values)
            check_combinations(*filter(None, settings.values()))
            function(**settings, **values)

        result = click.command(name, cls=Command, context_settings={"help_option_names": ["--help"]})(callback)
        result.groups, result.own, result.exit_codes = groups, list(result.params), exit_codes
        result.published = hub_cache.PUBLISHED if opens_models else ""
        result.presets, result.preset_options, result.variants = presets or {}, preset_options, variants
        result.params = result.parameters(*groups)
        return result

    return decorate


inputs_argument = click.argument("inputs", nargs=-1, metavar="[INPUT]...", type=click.Path(path_type=str))


def filter_inputs(function: Callable[..., None]) -> Callable[..., None]:
    """Decorator of a command that reads lines: adds the inputs and --text, and reports progress through them.

    Raises:
        UsageError: files and --text.
        InputError: an argument that is no file, but looks like a text.
    """

    @functools.wraps(function)
    def with_inputs(inputs: tuple[str, ...], text: tuple[str, ...], **values: object) -> None:
        if text:
            files = [name for name in inputs if not os.path.isdir(name)]  # generate takes more models among its inputs
            if files:
                raise UsageError(f"--text cannot be combined with files, but {display(files[0])} is also given")
            inputs = (*inputs, streams.hold_text(text))
        for name in inputs:
            run_paths.restore(name)
            if name not in ("-", TEXT) and not os.path.exists(name) and (" " in name or not set(name) & set("/.")):
                hint = f"for the text itself: --text {shlex.quote(name)}"
                raise InputError(f"{display(name)}: no such file or directory", hint=hint)
        lines = values.get("lines")
        progress.start(inputs, lines.output if isinstance(lines, LineOutput) else "-")
        function(inputs=inputs, **values)

    option = click.option(
        "--text",
        metavar="TEXT",
        multiple=True,
        type=Checked(_one_line),
        help="A line of input, instead of files; may be repeated.",
    )
    return inputs_argument(option(with_inputs))


def is_model(name: str) -> bool:
    """Whether an input is the directory of one more model."""
    return any(os.path.isfile(os.path.join(name, file)) for file in ("config.json", "adapter_config.json"))


def _one_line(text: str) -> None:
    if "\n" in text:
        raise UsageError("a text of several lines: give --text for each")


def without_blas_threads() -> None:
    """Limit numpy's matrix products to one thread, for commands with products too small for several.

    Call it before numpy is imported. A setting of the user takes precedence.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def invocation() -> dict[str, object]:
    """The invocation of the running command for training records: argv, resolved settings and the origin of each."""
    context = click.get_current_context()
    sources = {}
    for name in context.params:
        source = context.get_parameter_source(name)
        origin = _SOURCES.get(source, "default") if source else "default"
        sources[name] = "preset" if origin == "config" and name not in context.meta["nlptools.config"] else origin
    return {"argv": ["nlptools", *sys.argv[1:]], "settings": dict(context.params), "sources": sources}


def _built(group: type, values: dict[str, object]) -> Any:
    given = {field.name: values.pop(field.name) for field in dataclasses.fields(group)}
    return group(**{field.name: given[field.name] for field in dataclasses.fields(group) if field.init})


def _apply_common(values: dict[str, Any]) -> None:
    """Apply the common options before the command begins."""
    context = click.get_current_context()
    if context.meta.get("nlptools.dump"):
        config_files.dump(context)
    settings = messages.settings
    settings.command = context.info_name or ""
    settings.quiet, settings.verbose = values["quiet"], values["verbose"]
    settings.progress, settings.color = values["progress"], values["color"]
    for note in context.meta["nlptools.renamed"]:
        messages.note(note)
    streams.limit_lines(size(values["max_line"]))
    if values["log_file"]:
        settings.log_file = open(values["log_file"], "a", encoding="utf-8")  # noqa: SIM115 - open until the end
