"""nlptools bleu: score translations."""

from __future__ import annotations

from collections.abc import Iterator

import click

from nlptools.cli.options import command as make_command
from nlptools.configs import Common
from nlptools.configs.bleu import Bleu


@make_command(
    "bleu",
    Bleu,
    formats=(
        "References and translations are text, one segment per line, detokenized unless --tokenize none is given; "
        "line n of each belongs to line n of all others. The output is one line: the signature, which tells how the "
        "score was made, the score, the precisions for 1 to 4 words, the brevity penalty, the ratio of the lengths, "
        "and the lengths in tokens. With several references an n-gram may match any of them."
    ),
    examples=(
        ("Score translations against one reference", "nlptools bleu ref.txt < hyp.txt"),
        ("Against two references, compressed", "nlptools bleu ref.a.txt.gz ref.b.txt.gz -i hyp.txt"),
        ("Only the number, with two decimals", "nlptools bleu ref.txt -i hyp.txt --score-only --width 2"),
        ("Stop a script when quality drops", "nlptools bleu ref.txt -i hyp.txt --fail-under 27.5 || exit 1"),
    ),
    exit_codes=(0, 1, 2, 65, 66, 74, 130, 141, 143),
)
@click.argument("references", nargs=-1, required=True, metavar="REF...", type=click.Path(path_type=str))
def command(references: tuple[str, ...], bleu: Bleu, common: Common) -> None:
    """Score translations with corpus BLEU.

    The translations come on standard input, or from --input. Score and signature are those of sacrebleu, to the last
    digit. Memory does not grow with the input.
    """
    from nlptools import streams
    from nlptools.errors import CheckFailed
    from nlptools.metrics import bleu as metric

    paths = streams.check_inputs([bleu.input, *references])
    blocks = _watched(streams.zip_blocks(paths, common.encoding_errors), bleu)
    score = metric.score(metric.total_statistics(blocks, bleu.tokenize), len(references), bleu.tokenize)
    with streams.Output() as out:
        out.write_lines([f"{score.score:.{bleu.width}f}" if bleu.score_only else score.line(bleu.width)])
    if bleu.fail_under is not None and score.score < bleu.fail_under:
        raise CheckFailed(f"the score {score.score:.{max(bleu.width, 2)}f} is below {bleu.fail_under:g}")


def _watched(blocks: Iterator[tuple[list[str], ...]], bleu: Bleu) -> Iterator[tuple[list[str], ...]]:
    """`blocks` as they are; warns at the end if the translations look tokenized and would be tokenized again."""
    from nlptools import messages

    tokenized = 0
    for block in blocks:
        tokenized += sum(line.endswith(" .") for line in block[0])
        yield block
    if tokenized >= 100 and bleu.tokenize != "none":
        messages.warn(
            f"{tokenized} translations end in ' .': they look tokenized, which makes the score another one; "
            "detokenize them"
        )
