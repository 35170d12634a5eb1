"""nlptools pretrain-bert: BERT and ELECTRA from text."""

from __future__ import annotations

from nlptools.cli.options import command as make_command
from nlptools.cli.options import inputs_argument, invocation
from nlptools.configs import Common, Compute
from nlptools.configs.pretraining import PRESETS, Pretraining, TrainBert


@make_command(
    "pretrain-bert",
    TrainBert,
    Pretraining,
    Compute,
    presets=PRESETS,
    opens_models=True,
    formats="""Input is text with one sentence per line and blank lines between documents; --sentences auto splits running
text into sentences. Sentences that are too long are cut into pieces, and counted. Masks are drawn during training: of the
tokens to predict (15%), 80% become [MASK], 10% a random token, and 10% stay the same; for ELECTRA 85% become [MASK] and the
others stay the same. Short sequences are packed into one row, and each attends only to itself.

A new model starts with sinusoidal position embeddings of many wavelengths, and with attention heads in its first block that
look one and two tokens to the left and to the right; all of this is trained further. With random weights as published
(--attention random) a small model predicts from a bag of words for thousands of steps before it learns to use word order:
after 800 steps of mini on an encyclopedia (16 sequences of 64 tokens, 30% masked) its loss per masked token is 6.7, instead
of 5.7.

With --objective electra, --init also takes a BERT: its encoder becomes the discriminator. A small discriminator with random
weights may never learn to detect replaced tokens; one that was trained on masked tokens for a few thousand steps detects
them at once.

The output is a model directory in the layout of Hugging Face: config.json, model.safetensors and the tokenizer's files. It
opens in transformers as BertForPreTraining (--objective bert), BertForMaskedLM (mlm) or ElectraForPreTraining (electra, whose
generator is in the directory generator/, an ElectraForMaskedLM). The directory also has training.json (the training record),
log.jsonl (one JSON object per report), manifest.json (sizes and SHA-256 sums), checkpoints/ and data/ (token ids, to continue
from). With --valid the saved weights are those with the lowest validation loss, otherwise the last ones. A validation reports
the loss and accuracy per masked token, the accuracy per next sentence, and precision, recall and F1 of replaced tokens.
Nothing is written to standard output.

Each preset except hour is a published training schedule. Its 1,000,000 steps (electra-base: 766,000) take about this many
floating-point operations: tiny 1e17, mini 4e17, small 1.5e18, medium 3e18, electra-small 2e18, base and electra-base 1e20,
large 3e20. A processor with 2 cores and bf16 units does about 1e16 in an hour, a GPU of 2023 about 1e18. For a shorter
training, give --steps: warm-up and decay follow. tiny to medium have the sizes of Turc et al. 2019 and the training of the
small BERT of Clark et al. 2020 (128 sequences of 128 tokens); base and large follow Devlin et al. 2019 (256 sequences of 128
tokens; in the last tenth of the steps the sequences have 512 tokens, and a step the same number of tokens); the ELECTRAs
follow Clark et al. 2020. hour is for two cores and an hour or less: the sizes of mini, masked tokens only, 16,000 steps of 16
sequences of 64 tokens, of which 30% are predicted. It has no dropout: give finetune --encoder-dropout 0.1 afterwards.""",
    examples=(
        (
            "Train a small BERT for at most an hour (status 75); the same command continues:",
            "nlptools pretrain-bert -t tokenizer/ --preset hour --max-time 1h --valid held-out.txt -o bert/ train.txt",
        ),
        (
            "Adapt a published model to text of another domain:",
            "nlptools pretrain-bert --init bert-base-uncased/ --objective mlm --lr 5e-5 --epochs 3 -o adapted/ field.txt",
        ),
        (
            "Train a small ELECTRA in an hour: half the time as a masked language model, half as a discriminator:",
            "nlptools pretrain-bert -t tokenizer/ --preset hour --steps 7000 -o masked/ train.txt\n"
            "nlptools pretrain-bert --init masked/ --preset hour --objective electra --lr 5e-4 --mask-rate 0.2 --steps 7000"
            " --valid held-out.txt -o electra/ train.txt",
        ),
        (
            "Train an ELECTRA from running text on standard input:",
            "zcat corpus.gz | nlptools pretrain-bert -t tokenizer/ --preset electra-small --sentences auto --steps 100000"
            " -o electra/",
        ),
    ),
    exit_codes=(0, 2, 3, 65, 66, 69, 73, 74, 75, 78),
)
@inputs_argument
def command(
    inputs: tuple[str, ...], trainbert: TrainBert, pretraining: Pretraining, compute: Compute, common: Common
) -> None:
    """Train a BERT or an ELECTRA on text.

    Text from files or standard input is encoded once into the output directory, then an encoder is trained to predict
    masked tokens and next sentences (BERT), or to detect tokens that a small generator has replaced (ELECTRA). If a run is
    stopped by a signal, a time limit or a crash, the same command continues it; the final weights are the same as without
    the interruption.
    """
    from nlptools.files import streams

    # report errors before torch is loaded
    trainbert.check()
    pretraining.check()
    streams.check_inputs(inputs, pretraining.held_out)
    from nlptools.training.pretraining.encoder import train_bert

    record = invocation()
    train_bert(inputs, trainbert, pretraining, compute, encoding_errors=common.encoding_errors, invocation=record)
