"""Command options from dataclass fields; config files, presets, and the origin of each value."""

from __future__ import annotations

import dataclasses
import functools
import os
import shlex
import sys
import textwrap
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from nlptools import messages
from nlptools.cli import config_files, earlier_names, environment, short_help
from nlptools.cli.option_types import Checked, CommaList, flat, value_type
from nlptools.configs import Common, LineOutput
from nlptools.configs.combinations import check_combinations, describe_rules
from nlptools.configs.units import size
from nlptools.errors import InputError, UsageError, display
from nlptools.files import hub_cache, progress, streams

if TYPE_CHECKING:
    from nlptools.cli.manual.command_pages import CommandPage

_SOURCES = {
    ParameterSource.COMMANDLINE: "flag",
    ParameterSource.ENVIRONMENT: "environment",
    ParameterSource.DEFAULT_MAP: "config",
    ParameterSource.DEFAULT: "default",
}


class Command(click.Command):
    """A command with named groups of options, and the formats, examples and exit codes of its manual page."""

    groups: tuple[type, ...] = ()
    presets: Mapping[str, Mapping[str, Any]] = {}
    preset_options: tuple[str, ...] = ()
    published: str = ""
    exit_codes: tuple[int, ...] = (0, 2)

    @property
    def page(self) -> CommandPage:
        """The formats and examples, which are read when a help or a manual page shows them."""
        from nlptools.cli.manual.command_pages import command_page

        return command_page(self.name or "")

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta["nlptools.earlier"] = earlier = earlier_names.table(self.groups)
        args, ctx.meta["nlptools.renamed"] = earlier_names.renamed(args, earlier, self._valued(self._fields()))
        environment.check(ctx)
        return super().parse_args(ctx, self._one_value_each(args))

    def _fields(self) -> dict[str, dataclasses.Field[Any]]:
        """The field of each option, by its long and short name."""
        return {
            name: field
            for group in self.groups
            for field in dataclasses.fields(group)
            for name in ("--" + (field.metadata["flag"] or field.name.replace("_", "-")), field.metadata["short"])
        }

    def _valued(self, fields: Mapping[str, dataclasses.Field[Any]]) -> set[str]:
        """The names of options that need a value."""
        options = [option for option in self.params if isinstance(option, click.Option) and not option.is_flag]
        names = {name for option in options for name in option.opts}
        return {name for name in names if name not in fields or fields[name].metadata["bare"] is None}

    def _one_value_each(self, args: list[str]) -> list[str]:
        """`args` with one value per name: `-i A B` becomes `-i A -i B`, and `--confidence` gets its default number."""
        fields = self._fields()
        valued = self._valued(fields)
        options = earlier_names.options_among(args, valued)
        out: list[str] = []
        name, values = "", 0  # the last option, and the arguments since
        for i, arg in enumerate(args):
            if arg == "--" and not (i and options[i - 1] and args[i - 1] in valued):
                return out + args[i:]
            data = fields[arg].metadata if arg in fields and options[i] else {}
            if options[i]:
                name, values = arg, 0
                following = args[i + 1] if i + 1 < len(args) else ""
                choices = data.get("choices")
                alone = following not in choices if choices else not following.lstrip("-").isdigit()
                arg += f"={data['bare']}" if alone and data.get("bare") is not None else ""
            else:
                values += 1
                more = fields[name].metadata["more"] if name in fields else None
                if values > 1 and more is not None and more(arg):
                    out.append(name)
                elif values > 1:
                    name = ""
            out.append(arg)
        return out

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, options in self.option_groups(ctx):
            with formatter.section(title):
                if title == _title(Common):
                    names = ", ".join(min(option.opts, key=len) for option in options)
                    space = " " * formatter.current_indent
                    layout: dict[str, Any] = {
                        "initial_indent": space,
                        "subsequent_indent": space,
                        "break_on_hyphens": False,
                    }
                    text = f"{names}: 'nlptools help common' explains them."
                    formatter.write(textwrap.fill(text, formatter.width, **layout) + "\n")
                else:
                    formatter.write_dl([row for option in options if (row := option.get_help_record(ctx))])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.published:
            with formatter.section("Published models"):
                formatter.write_text(self.published)
        if self.page.examples:
            with formatter.section("Examples"):
                for _, lines in self.page.examples:
                    formatter.write(textwrap.indent(f"{lines}\n", " " * formatter.current_indent))

    def option_groups(self, ctx: click.Context) -> list[tuple[str, list[click.Option]]]:
        """The options under the titles of their settings classes, in order of declaration."""
        titles = {
            field.name: field.metadata["section"] or _title(group)
            for group in self.groups
            for field in dataclasses.fields(group)
        }
        titled: dict[str, list[click.Option]] = {title: [] for title in titles.values()}
        for parameter in self.get_params(ctx):
            if isinstance(parameter, click.Option):
                titled.setdefault(titles.get(parameter.name or "", _title(Common)), []).append(parameter)
        return [(title, options) for title, options in titled.items() if options]


def command(
    name: str,
    *groups: type,
    presets: Mapping[str, Mapping[str, Any]] | None = None,
    preset_options: tuple[str, ...] = ("preset",),
    opens_models: bool = False,
    exit_codes: tuple[int, ...] = (0, 2, 65, 66, 74, 130, 141, 143),
) -> Callable[[Callable[..., None]], Command]:
    """Decorator that turns a function into a command.

    The function receives one instance of each settings class in `groups` and of `Common`, in the parameter annotated with
    the class, and the click arguments declared below this decorator.
    `presets` maps the values of an option `--preset`, or of `preset_options`, to values of other options: see
    `config_files.read_preset`. A command that `opens_models` says in its help where published ones come from.
    """
    groups = (*groups, Common)

    def decorate(function: Callable[..., None]) -> Command:
        annotated = {annotation: name for name, annotation in function.__annotations__.items()}
        parameters = {annotated[group.__name__]: group for group in groups}

        @functools.wraps(function)
        def callback(**values: Any) -> None:
            _apply_common(values)
            settings = {name: _built(group, values) for name, group in parameters.items()}
            check_combinations(*settings.values())
            function(**settings, **values)

        result = click.command(name, cls=Command, context_settings={"help_option_names": ["--help"]})(callback)
        fields = {field.name: field for group in groups for field in dataclasses.fields(group)}
        result.params.extend(_option(field, name, describe_rules(field, fields)) for field in fields.values())
        result.params.extend([*config_files.config_options(), short_help.option()])
        result.groups, result.exit_codes = groups, exit_codes
        result.published = hub_cache.PUBLISHED if opens_models else ""
        result.presets, result.preset_options = presets or {}, preset_options
        for option in result.params:
            if presets and option.name in preset_options:
                # a required option comes on the command line, or first among the others, before any default is read
                option.is_eager, option.callback = not option.required, config_files.read_preset
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
    def with_inputs(inputs: tuple[str, ...], text: tuple[str, ...], **values: Any) -> None:
        if text:
            files = [name for name in inputs if not os.path.isdir(name)]  # generate takes more models among its inputs
            if files:
                raise UsageError(f"--text cannot be combined with files, but {display(files[0])} is also given")
            inputs = (*inputs, streams.hold_text(text))
        for name in inputs:
            if (
                name not in ("-", streams.TEXT)
                and not os.path.exists(name)
                and (" " in name or not set(name) & set("/."))
            ):
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


def invocation() -> dict[str, Any]:
    """The invocation of the running command for training records: argv, resolved settings and the origin of each."""
    context = click.get_current_context()
    sources = {}
    for name in context.params:
        source = context.get_parameter_source(name)
        origin = _SOURCES.get(source, "default") if source else "default"
        sources[name] = "preset" if origin == "config" and name not in context.meta["nlptools.config"] else origin
    return {"argv": ["nlptools", *sys.argv[1:]], "settings": dict(context.params), "sources": sources}


def _title(group: type) -> str:
    return (group.__doc__ or group.__name__).strip().split("\n")[0].rstrip(".")


def _built(group: type, values: dict[str, Any]) -> Any:
    return group(**{field.name: values.pop(field.name) for field in dataclasses.fields(group)})


def _option(field: dataclasses.Field[Any], command: str, rules: str) -> click.Option:
    """The click option of a settings field of a command; `rules`: sentences at the end of its help."""
    data = field.metadata
    flag = "--" + (data["flag"] or field.name.replace("_", "-"))
    variables = environment.variables(command, flag, field.name)
    required = field.default is dataclasses.MISSING
    annotation = str(field.type).removesuffix(" | None")
    help_text = data["help"] + rules
    if annotation == "bool":
        names = [f"{flag}/--no-{flag[2:]}"] + ([data["short"]] if data["short"] else [])
        if data["short"]:
            names = [f"{data['short']}/", f"{flag}/--no-{flag[2:]}"]
        return click.Option([*names, field.name], default=field.default, help=help_text, is_flag=True, envvar=variables)
    names = [flag, field.name, *([data["short"]] if data["short"] else [])]
    kind = value_type(annotation, field)
    shown = not required and field.default not in (None, "", ()) and data["bare"] is None
    return click.Option(
        names,
        # a required option must have no default at all, not even None
        **({"required": True} if required else {"default": field.default}),
        help=help_text,
        envvar=variables,
        metavar=data["metavar"],
        type=kind,
        show_default=shown,
        multiple=data["multiple"] or isinstance(kind, CommaList),
        callback=flat if isinstance(kind, CommaList) else None,
    )


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
