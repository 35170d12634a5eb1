"""The class of all commands: reads arguments, configuration files and presets, and writes the help."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from nlptools.cli import click_options, config_files, earlier_names, environment, short_help
from nlptools.cli.variants import Variants
from nlptools.configs import Common

if TYPE_CHECKING:
    from nlptools.cli.manual.command_pages import CommandPage


class Command(click.Command):
    """A command with named groups of options, and the formats, examples and exit codes of its manual page.

    Attributes:
        groups: its settings classes. Where it has `variants`, the first one holds what all of them have.
        own: its parameters that are no settings.
    """

    groups: tuple[type, ...] = ()
    variants: Variants | None = None
    own: Sequence[click.Parameter] = ()
    presets: Mapping[str, Mapping[str, object]] = {}
    preset_options: tuple[str, ...] = ()
    published: str = ""
    exit_codes: tuple[int, ...] = (0, 2)

    @property
    def page(self) -> CommandPage:
        """The formats and examples, which are read when a help or a manual page shows them."""
        from nlptools.cli.manual.command_pages import command_page

        return command_page(self.name or "")

    def groups_in(self, ctx: click.Context) -> tuple[type, ...]:
        """The settings classes in a context, which depend on the value that chooses among variants."""
        groups: tuple[type, ...] = ctx.meta.get("nlptools.groups", self.groups)
        return groups

    def all_groups(self) -> dict[tuple[str, ...], tuple[type, ...]]:
        """The arguments that choose each variant, and its settings classes."""
        if self.variants is None:
            return {(): self.groups}
        variants = self.variants
        return {variants.arguments(value): (*variants.groups(value), Common) for value in variants.classes()}

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """See click."""
        params: list[click.Parameter] = super().get_params(ctx)
        chosen: list[click.Parameter] = ctx.meta.get("nlptools.params", self.params)
        return [*chosen, *params[len(self.params) :]]

    def parameters(self, *groups: type) -> list[click.Parameter]:
        """The parameters of the command with these settings classes."""
        options = click_options.of_groups(str(self.name), *groups)
        for option in options:
            if self.presets and option.name in self.preset_options:
                # a required option comes on the command line, or first among the others, before any default is read
                option.is_eager, option.callback = not option.required, config_files.read_preset
        if self.variants is not None:
            self._list_variants(options, groups[0], self.variants)
        return [*self.own, *options, *config_files.config_options(), short_help.option()]

    def _list_variants(self, options: list[click.Option], group: type, variants: Variants) -> None:
        """Give the options that choose a variant, or a preset, the values that the settings class `group` allows."""
        known = list(variants.classes())
        value = next((field.default for field in dataclasses.fields(group) if not field.init), None)
        values = {name: preset.get(variants.option, known[0]) for name, preset in self.presets.items()}
        for option in options:
            if option.name == variants.option and not option.required:
                option.type, option.default = click.Choice(known), known[0]
            elif option.name == "preset":
                fitting = [name for name, other in values.items() if value in (None, other)]
                option.help, option.hidden = f"{option.help} {', '.join(fitting)}.", not fitting

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """See click."""
        if self.variants is not None:
            self._choose(ctx, args, self.variants)
        ctx.meta["nlptools.earlier"] = earlier = earlier_names.table(self.groups_in(ctx))
        args, ctx.meta["nlptools.renamed"] = earlier_names.renamed(args, earlier, self._valued(ctx))
        ctx.meta["nlptools.refuse"] = self.refuse_variant
        environment.check(ctx, lambda name: self.variants is not None and bool(self.variants.having(name)))
        try:
            return super().parse_args(ctx, self._one_value_each(ctx, args))
        except click.NoSuchOption as error:
            self.refuse_variant(error.option_name)
            raise

    def refuse_variant(self, name: str, lead: str = "") -> None:
        """Raise UsageError for an option, a flag or a field, that only other variants have."""
        if self.variants is not None:
            self.variants.refuse(name, lead)

    def _choose(self, ctx: click.Context, args: list[str], variants: Variants) -> None:
        """Look up the value that chooses among variants, before the options are read, and take over its settings classes."""

        def given(name: str) -> str:
            """The text of an option on the command line, in the environment or in the configuration file."""
            option = next((option for option in self.params if option.name == name), None)
            if option is None and name in own:
                option = click_options.of_field(own[name], str(self.name))
            if option is None:
                return ""
            positions = earlier_names.options_among(args, self._valued(ctx))
            value: object = option.resolve_envvar_value(ctx)
            for i, (arg, is_option) in enumerate(zip(args, positions, strict=True)):
                flag, equals, text = arg.partition("=")
                if is_option and flag in option.opts:
                    value = text if equals else "".join(args[i + 1 : i + 2])
            return str(value or table.get(name, ""))

        own = {field.name: field for _, fields in variants.own_fields(*self.groups) for field in fields}
        table: Mapping[str, object] = {}
        if config := given("config"):
            table = config_files.read_table(config, ctx)
        known, name = variants.classes(), variants.option
        preset = self.presets.get(given("preset"), {})
        implied = given(name) or str(preset.get(name, "")) or variants.implied(given)
        chosen = variants.variant(implied, given)
        if chosen in known:
            ctx.meta["nlptools.chosen"], ctx.meta["nlptools.implied"] = chosen, {name: implied}
        groups = variants.groups(chosen if chosen in known else next(iter(known)))
        ctx.meta["nlptools.groups"] = (*groups, Common)
        ctx.meta["nlptools.params"] = self.parameters(*groups, Common)
        fields = {field.name for group in groups for field in dataclasses.fields(group)}
        for key in preset:
            if key not in fields:
                variants.refuse(key, f"--preset {given('preset')}: ")

    def _fields(self, ctx: click.Context) -> dict[str, dataclasses.Field[object]]:
        """The settings of the long and short names of options."""
        return {
            name: field
            for group in self.groups_in(ctx)
            for field in dataclasses.fields(group)
            for name in ("--" + (field.metadata["flag"] or field.name.replace("_", "-")), field.metadata["short"])
        }

    def _valued(self, ctx: click.Context) -> set[str]:
        return click_options.names_with_values(self.get_params(ctx), self._fields(ctx))

    def _one_value_each(self, ctx: click.Context, args: list[str]) -> list[str]:
        """`args` with one value per name: `-i A B` becomes `-i A -i B`, and `--confidence` gets its default number."""
        fields, valued = self._fields(ctx), self._valued(ctx)
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

    # -- help ---------------------------------------------------------------------------------------------------------

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """See click. Without a value that chooses among variants, only the options that all have."""
        if self.variants is not None and "nlptools.chosen" not in ctx.meta:
            ctx = click.Context(self, info_name=self.name)
        for i, (title, options) in enumerate(self.option_groups(ctx)):
            with formatter.section(title):
                if title == title_of(Common):
                    self._write_names(options, formatter)
                else:
                    formatter.write_dl([row for option in options if (row := option.get_help_record(ctx))])
            if not i and self.variants is not None and "nlptools.chosen" not in ctx.meta:
                with formatter.section(self.variants.title):
                    formatter.write_dl(self.variants.summaries())
                    formatter.write_paragraph()
                    formatter.write_text(
                        f"'nlptools {self.name} --{self.variants.option} NAME --help' shows the options of one."
                    )

    def _write_names(self, options: list[click.Option], formatter: click.HelpFormatter) -> None:
        names = ", ".join(min(option.opts, key=len) for option in options)
        space = " " * formatter.current_indent
        text = f"{names}: 'nlptools help common' explains them."
        filled = textwrap.fill(
            text, formatter.width, initial_indent=space, subsequent_indent=space, break_on_hyphens=False
        )
        formatter.write(filled + "\n")

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """See click."""
        if self.published:
            with formatter.section("Published models"):
                formatter.write_text(self.published)
        if examples := self._examples(ctx):
            with formatter.section("Examples"):
                for lines in examples:
                    formatter.write(textwrap.indent(f"{lines}\n", " " * formatter.current_indent))

    def _examples(self, ctx: click.Context) -> list[str]:
        """The examples of the chosen variant if some name it, otherwise all."""
        examples = [lines for _, lines in self.page.examples]
        if self.variants is None or "nlptools.chosen" not in ctx.meta:
            return examples
        option, value, *_ = self.variants.arguments(ctx.meta["nlptools.chosen"])
        return [lines for lines in examples if f"{option} {value} " in lines] or examples

    def option_groups(self, ctx: click.Context) -> list[tuple[str, list[click.Option]]]:
        """The options under the titles of their settings classes, in order of declaration."""
        groups, chosen = self.groups_in(ctx), ctx.meta.get("nlptools.chosen")
        titles = {
            field.name: field.metadata["section"] or title_of(group)
            for group in groups
            for field in dataclasses.fields(group)
        }
        if self.variants is not None and groups != self.groups:
            shared = {field.name for field in dataclasses.fields(self.groups[0])}
            for field in dataclasses.fields(groups[0]):
                own = f"Options of --{self.variants.option} {chosen}"
                titles[field.name] = title_of(self.groups[0]) if field.name in shared else own
        titled: dict[str, list[click.Option]] = {title: [] for title in titles.values()}
        for parameter in self.get_params(ctx):
            if isinstance(parameter, click.Option):
                titled.setdefault(titles.get(parameter.name or "", title_of(Common)), []).append(parameter)
        return [(title, options) for title, options in titled.items() if options]

    def all_option_groups(self, ctx: click.Context) -> list[tuple[str, list[click.Option]]]:
        """As `option_groups`, with the options of each variant."""
        first, *others = self.option_groups(ctx)
        variants = []
        if self.variants is not None:
            for values, fields in self.variants.own_fields(*self.groups):
                title = f"Options of --{self.variants.option} {', '.join(values)}"
                context = {field.name: field for field in fields}
                variants.append((title, [click_options.of_field(f, str(self.name)) for f in context.values()]))
        return [first, *variants, *others]

    def every_option(self, ctx: click.Context) -> list[click.Option]:
        """The options of all variants, each name once."""
        options = [option for _, options in self.all_option_groups(ctx) for option in options]
        return list({option.name: option for option in reversed(options)}.values())[::-1]


def title_of(group: type) -> str:
    """The first line of a docstring."""
    return (group.__doc__ or group.__name__).strip().split("\n")[0].rstrip(".")
