"""`nlptools COMMAND -h`: the options that most people need, and an example."""

from __future__ import annotations

import re

import click

from nlptools.cli.manual.command_pages import command_page
from nlptools.configs.shares import Shares

# command -> its main options; without a row, all except those that every command has
MAIN = {
    "tokenize": "tokenizer to decode lowercase vocab sample text output force line_buffered",
    "build-vocab": "kind size min_count special lowercase tokenizer max_lines output force",
    "attend": "layer head mean part per to view text output force",
    "phrases": "scoring threshold min_count connectors save model text output force",
    "train-w2v": "output model dim window negative subwords min_count epochs lr init workers run valid force",
    "train-lm": "tokenizer output valid arch preset layers hidden context lr epochs max_time init",
    "train-seq2seq": "tokenizer output source target valid valid_source valid_target arch preset lr epochs max_time init",
    "pretrain-bert": "tokenizer output valid objective preset layers batch_size lr steps max_time init",
    "finetune": "task model scratch lora output valid epochs lr layout label_column force",
    "train-reward": "model output valid epochs lr batch_size max_length chat layout seeds force",
    "train-ppo": "policy reward algorithm output samples rollouts max_new_tokens kl_target kl_limit lora steps max_time",
    "predict": "columns probabilities top_k submission to label_column max_length text output force device",
    "rerank": "top_k layout columns max_length text output force device",
    "prompt": "template description examples shots to candidates task chat text output",
    "generate": "max_new_tokens temperature top_p beam num_samples nbest to stop stream seed text output device",
    "chat": "system chat max_new_tokens temperature top_p min_p repetition_penalty stop seed output device",
    "serve": "host port name chat quantize batch_size most_tokens most_body cors timeout device threads",
    "fill": "top choices mask to quantize text output force line_buffered device",
    "score": "per stride document text output force line_buffered device",
    "embed": "output to unit pooling layers normalize prompt max_length text force device",
    "cluster": "clusters model vectors summary words central to iterations text output force device",
    "dedupe": "threshold ngrams n model vectors labels text output force device",
    "distill-static": "output dims sif fit force device",
    "neighbors": "neighbors method metric restrict lines_file model corpus index to source_format text output line_buffered",
    "project": "output method dims count words arrows perplexity title force seed",
    "align-vectors": "dictionary output both refine normalize test held_out force",
    "bleu": "input metrics tokenize lowercase confidence paired_bs sentence format score_only fail_under",
    "evaluate": "metric reference average positive column scheme confidence to confusion fail_under",
}


def text(ctx: click.Context) -> str:
    """The short help of the command of `ctx`."""
    options = {option.name: option for option in ctx.command.get_params(ctx) if isinstance(option, click.Option)}
    groups = getattr(ctx.command, "groups", ())
    own = [name for group in groups[:-1] if group is not Shares for name in group.__dataclass_fields__]
    names = MAIN[str(ctx.info_name)].split() if ctx.info_name in MAIN else ["text", *own]
    formatter = ctx.make_formatter()
    ctx.command.format_usage(ctx, formatter)
    formatter.write(f"\n{ctx.command.get_short_help_str(200)}\n")
    rows = [_row(options[name], ctx) for name in names if name in options]
    if rows:
        with formatter.section("Main options"):
            formatter.write_dl(rows)
    for _, lines in command_page(str(ctx.info_name)).examples[:1]:
        with formatter.section("Example"):
            formatter.write("".join(f"  {line}\n" for line in lines.split("\n")))
    shared = ctx if "nlptools.chosen" in ctx.meta else click.Context(ctx.command, info_name=ctx.info_name)
    count = sum(isinstance(option, click.Option) for option in ctx.command.get_params(shared))
    formatter.write(f"\n{ctx.command_path} --help: all {count} options\n")
    return formatter.getvalue().rstrip("\n")


def _row(option: click.Option, ctx: click.Context) -> tuple[str, str]:
    """Names and value of an option, and its help up to the first stop."""
    long = next(name for name in option.opts if name.startswith("--"))
    names = ", ".join([*(name for name in option.opts if len(name) == 2), long])
    value = "" if option.is_flag else f" {option.make_metavar(ctx)}"
    value = value if len(value) < 18 else f" {(option.name or '').upper()}"
    first = re.split(r"[.;] ", re.sub(r" \([^()]*\)", "", option.help or ""), maxsplit=1)[0].rstrip(".")
    if isinstance(option.type, click.Choice) and value.isupper():
        first += ": " + ", ".join(map(str, option.type.choices))
    return names + value, first + "."


def option() -> click.Option:
    """The option -h."""

    def show(ctx: click.Context, param: click.Parameter, value: bool) -> None:
        if value and not ctx.resilient_parsing:
            click.echo(text(ctx))
            ctx.exit()

    return click.Option(
        ["-h", "short_help"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=show,
        help="Show the main options and an example, and exit.",
    )
