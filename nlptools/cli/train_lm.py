"""nlptools train-lm: language models from text."""

from __future__ import annotations

from nlptools.cli.options import command as make_command
from nlptools.cli.options import inputs_argument, invocation
from nlptools.configs import Common, Compute, Training
from nlptools.configs.lm import PRESETS, TrainLM


@make_command(
    "train-lm",
    TrainLM,
    Training,
    Compute,
    presets=PRESETS,
    formats="""Input is text. By default each line is a document of its own; --document says otherwise. The output is a model
directory: config.json, model.safetensors and the tokenizer's files in the layout of Hugging Face (a transformer opens there
as GPT-2), training.json (how it was made), log.jsonl (one JSON object per report), manifest.json (sizes and SHA-256 sums),
checkpoints/ and data/ (token ids, to continue from). With --valid the weights are those with the lowest validation loss,
otherwise the last; --average may take the mean of several. Standard output stays empty.""",
    examples=(
        (
            "A small Transformer on a text file, with held-out text to measure on:",
            "nlptools train-lm -t pieces.model --valid held-out.txt -o lm/ train.txt",
        ),
        (
            "From standard input, for half an hour at most; the same command again goes on (status 75):",
            "zcat corpus.gz | nlptools train-lm -t pieces.model --preset tiny --max-time 30m -o lm/",
        ),
        (
            "On two processes:",
            "torchrun --nproc-per-node 2 -m nlptools train-lm -t pieces.model -o lm/ train.txt",
        ),
    ),
    exit_codes=(0, 2, 3, 65, 66, 69, 73, 74, 75, 78),
)
@inputs_argument
def command(inputs: tuple[str, ...], trainlm: TrainLM, training: Training, compute: Compute, common: Common) -> None:
    """Train a language model on text.

    Text from files or standard input is encoded once into the output directory, then a Transformer (GPT-2's) or an LSTM is
    trained on it. A run that was stopped, by a signal, a time limit or a crash, is continued by the same command and ends
    with the weights it would have had anyway.
    """
    from nlptools.files import streams

    # what is wrong is said before torch is loaded
    training.check()
    streams.check_inputs(inputs, training.held_out)
    from nlptools.training.language_model import train_lm

    record = invocation()
    train_lm(inputs, trainlm, training, compute, encoding_errors=common.encoding_errors, invocation=record)
