"""nlptools train-lm: language models from text."""

from __future__ import annotations

import dataclasses

from nlptools.cli.options import command as make_command
from nlptools.cli.options import inputs_argument, invocation
from nlptools.configs import Common, Compute, Training
from nlptools.configs.lm import TrainLM
from nlptools.configs.lm_presets import PRESETS
from nlptools.errors import UsageError


@make_command(
    "train-lm",
    TrainLM,
    Training,
    Compute,
    presets=PRESETS,
    opens_models=True,
    formats="""Input is text. By default each line is one document; --document changes that. The output is a model directory:
config.json, model.safetensors and the tokenizer's files in the layout of Hugging Face (a transformer opens there as GPT-2, modern
as LLaMA, with --qk-norm as Qwen3), training.json (the training record), log.jsonl (one JSON object per report), and
manifest.json (sizes and SHA-256 sums),
checkpoints/ and data/ (token ids, to continue from). An n-gram model (--arch ngram) is counted in one pass: model.safetensors
holds its tables, counts.safetensors the counts (--keep-counts), and a tokenizer without --vocab gets a vocabulary of all
tokens of the text. With --valid the saved weights are those with the lowest validation loss, otherwise the last ones; --average
can replace them by the mean of several. An ELMo (--arch elmo) reads words as their bytes, up to 48 of each; its --valid
perplexity is that of the mean of both directions. Nothing is written to standard output.""",
    examples=(
        (
            "Train a small Transformer on a text file, with held-out text for validation:",
            "nlptools train-lm -t pieces.model --valid held-out.txt -o lm/ train.txt",
        ),
        (
            "Train from standard input for at most half an hour (status 75); the same command continues:",
            "zcat corpus.gz | nlptools train-lm -t pieces.model --preset tiny --max-time 30m -o lm/",
        ),
        (
            "Train a model of characters, line ends included, on a whole file, and continue a prompt:",
            "nlptools build-vocab -t char -o chars.tsv input.txt\n"
            "nlptools train-lm -t char --vocab chars.tsv --document file --preset small-char --steps 5000 -o chars input.txt\n"
            "echo 'ROMEO:' | nlptools generate chars --max-new-tokens 200",
        ),
        (
            "Train a model of bytes, which needs no vocabulary:",
            "nlptools train-lm -t bytes --document file --preset small-char --steps 5000 -o bytes input.txt\n"
            "echo 'ROMEO:' | nlptools generate bytes --max-new-tokens 200",
        ),
        (
            "Count n-grams, with modified Kneser-Ney smoothing, into a model and an ARPA file:",
            "nlptools train-lm --arch ngram -t words --order 3 -o trigrams --arpa trigrams.arpa train.txt\n"
            "nlptools score trigrams --per total held-out.txt",
        ),
        (
            "Train with two processes:",
            "torchrun --nproc-per-node 2 -m nlptools train-lm -t pieces.model -o lm/ train.txt",
        ),
    ),
    exit_codes=(0, 2, 3, 65, 66, 69, 73, 74, 75, 78),
)
@inputs_argument
def command(
    inputs: tuple[str, ...],
    trainlm: TrainLM,
    training: Training,
    compute: Compute,
    common: Common,
) -> None:
    """Train a language model on text.

    Text from files or standard input is encoded once into the output directory, then a neural model is trained on it, or its
    n-grams are counted. If a training is stopped by a signal, a time limit or a crash, the same command continues it; the
    final weights are the same as without the interruption.
    """
    from nlptools.files import streams

    trainlm.check()
    if trainlm.arch == "ngram":
        refuse_other_options(trainlm, training)
        from nlptools.training.ngrams.train import train_ngrams

        errors = common.encoding_errors
        train_ngrams(inputs, trainlm, training, encoding_errors=errors, invocation=invocation())
        return
    # report errors before torch is loaded
    training.check()
    streams.check_inputs(inputs, training.held_out)
    from nlptools.training.language_model import train_lm

    record = invocation()
    train_lm(inputs, trainlm, training, compute, encoding_errors=common.encoding_errors, invocation=record)


_OF_NGRAMS = ("tokenizer", "arch", "vocab", "document", "output", "valid", "force", "seed", "threads")


def refuse_other_options(*settings: object) -> None:
    """Raise UsageError for options that do not apply to n-gram models, which are counted, not trained in steps."""
    for each in settings:
        for field in dataclasses.fields(each):  # type: ignore[arg-type]
            its_own = "ngram" in field.metadata["architectures"]
            if not its_own and field.name not in _OF_NGRAMS and getattr(each, field.name) != field.default:
                raise UsageError(f"--{field.name.replace('_', '-')} does not go with --arch ngram")
