"""nlptools score: log-probabilities and perplexity."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from nlptools.cli.options import command as make_command
from nlptools.cli.options import filter_inputs
from nlptools.configs import Common, Compute, Lines
from nlptools.configs.scoring import Score

if TYPE_CHECKING:
    from nlptools.files.streams import Output
    from nlptools.inference.language_model import LanguageModel
    from nlptools.inference.ngram_scorer import NGramScorer


@make_command(
    "score",
    Score,
    Compute,
    Lines,
    formats="""--per line writes, for each input line, its log-probability (natural logarithm), a tab, and its number of
tokens, including the end-of-text token. --per token writes a line for each token, the token and its log-probability separated
by a tab, and an empty line after each input line. --per total writes one JSON object: perplexity per token, per word and per
byte, bits per byte, the counts, and the protocol (context, stride, the last window, the token before the first one, unknown
words, device and precision).""",
    examples=(
        ("Write the log-probability of each line:", "nlptools score lm/ < candidates.txt"),
        ("Measure the perplexity of a text:", "nlptools score lm/ --per total held-out.txt"),
        (
            "Find the most probable of some sentences:",
            "nlptools score lm/ < in.txt | paste - in.txt | sort -gr | head -1",
        ),
    ),
    exit_codes=(0, 2, 65, 66, 69, 73, 74, 78, 130, 141, 143),
)
@click.argument("model", type=click.Path())
@filter_inputs
def command(model: str, inputs: tuple[str, ...], score: Score, compute: Compute, lines: Lines, common: Common) -> None:
    """Write the log-probability of lines, or the perplexity of a text.

    MODEL is a directory written by train-lm, a Hugging Face GPT-2, or an ARPA file of n-grams (.arpa, .arpa.gz). Each line
    is scored independently.
    """
    score.check()
    import json
    import math

    from nlptools.files import streams
    from nlptools.inference.loading import load

    names = streams.check_inputs(inputs)
    with streams.Output(lines.output, force=lines.force, line_buffered=lines.line_buffered) as out:
        loaded = load(model, compute=compute, settings=score)
        if score.per == "total":
            result = loaded.perplexity(streams.all_blocks(names, common.encoding_errors), score)
            if result["tokens"] == 0:
                from nlptools.errors import DataError

                raise DataError("no text to score: the input is empty")
            # JSON has no infinity: a perplexity too large for a float becomes null
            plain = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in result.items()}
            out.write(json.dumps(plain, indent=1, ensure_ascii=False) + "\n")
            loaded.unknown.report()
            return
        for block in streams.batches(names, 1 if lines.line_buffered else 1024, common.encoding_errors):
            _write(loaded, block.lines, score, out)
        loaded.unknown.report()


def _write(loaded: LanguageModel | NGramScorer, texts: list[str], score: Score, out: Output) -> None:
    from nlptools.files.line_records import escape

    if score.per == "line":
        out.write_lines([f"{logprob:.4f}\t{tokens}" for logprob, tokens in loaded.totals(texts, score)])
        return
    for row in loaded.score_batch(texts, score):
        pairs = zip(row.tokens, row.logprobs, strict=True)
        out.write_lines([*(f"{escape(token)}\t{value:.4f}" for token, value in pairs), ""])
