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
    formats="""Input is text with one sentence per line and blank lines between documents; --sentences auto splits running
text into sentences. Sentences that are too long are cut into pieces, which is counted. Masks are drawn while training:
of the tokens to be predicted (15%), 80% become [MASK], 10% a random token, 10% stay; for ELECTRA 85% become [MASK]. Several
sequences share a row when they are short, and see themselves only.

A new model begins with positions that are waves of many lengths, and with heads of its first block that look at the token
before, behind, two before and two behind; all of it is learned on. With weights drawn at random as published (--attention
random) a small model guesses from a bag of words for thousands of steps before it finds that order matters: after 800 steps
of mini on an encyclopedia (16 sequences of 64 tokens, 30% masked) its loss is 6.7 a masked token, otherwise 5.7.

With --objective electra, --init takes a BERT as well: its encoder becomes the discriminator. A small one that begins with chance
alone may never find a replaced token; one that has filled in masked tokens for some thousand steps finds them at once.

The output is a model directory in the layout of Hugging Face: config.json, model.safetensors and the tokenizer's files. It
opens in transformers as BertForPreTraining (--objective bert), BertForMaskedLM (mlm) or ElectraForPreTraining (electra, whose
generator is in the directory generator/, an ElectraForMaskedLM). Besides there are training.json (how it was made), log.jsonl
(one JSON object per report), manifest.json (sizes and SHA-256 sums), checkpoints/ and data/ (token ids, to continue from).
With --valid the weights are those with the lowest validation loss, otherwise the last. A validation gives the loss and
accuracy per masked token, the accuracy per next sentence, and precision, recall and F1 of replaced tokens. Standard output
stays empty.

The presets state a published training, and 1,000,000 steps of it (electra-base 766,000) come to about so many floating-point
operations: tiny 1e17, mini 4e17, small 1.5e18, medium 3e18, electra-small 2e18, base and electra-base 1e20, large 3e20. A
processor with 2 cores and bf16 units does some 1e16 in an hour, a GPU of 2023 some 1e18. For less, give --steps: warm-up
and decay follow. tiny to medium have the sizes of Turc et al. 2019 and the training of the small BERT of Clark et al. 2020
(128 sequences of 128 tokens), base and large those of Devlin et al. 2019 (256 sequences of 128 tokens, of 512 in the last
tenth of the steps, at as many tokens), the ELECTRAs those of Clark et al. 2020. hour is for two cores and an hour or less: the
sizes of mini, masked tokens alone, 16,000 steps of 16 sequences of 64 tokens, of which 30% are to be predicted; without
dropout, so that finetune wants --encoder-dropout 0.1 afterwards.""",
    examples=(
        (
            "A small BERT, an hour at most; the same command again goes on (status 75):",
            "nlptools pretrain-bert -t tokenizer/ --preset hour --max-time 1h --valid held-out.txt -o bert/ train.txt",
        ),
        (
            "Go on with a published model on text of another field:",
            "nlptools pretrain-bert --init bert-base-uncased/ --objective mlm --lr 5e-5 --epochs 3 -o adapted/ field.txt",
        ),
        (
            "A small ELECTRA in an hour: half of it as a masked language model, half as a discriminator:",
            "nlptools pretrain-bert -t tokenizer/ --preset hour --steps 7000 -o masked/ train.txt\n"
            "nlptools pretrain-bert --init masked/ --preset hour --objective electra --lr 5e-4 --mask-rate 0.2 --steps 7000"
            " --valid held-out.txt -o electra/ train.txt",
        ),
        (
            "An ELECTRA, from running text on standard input:",
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

    Text from files or standard input is encoded once into the output directory, then an encoder learns to fill in masked
    tokens and to tell next sentences (BERT), or to find tokens that a small generator has replaced (ELECTRA). A run that
    was stopped, by a signal, a time limit or a crash, is continued by the same command and ends with the weights it would
    have had anyway.
    """
    from nlptools.files import streams

    # what is wrong is said before torch is loaded
    trainbert.check()
    pretraining.check()
    streams.check_inputs(inputs, pretraining.held_out)
    from nlptools.training.pretraining.encoder import train_bert

    record = invocation()
    train_bert(inputs, trainbert, pretraining, compute, encoding_errors=common.encoding_errors, invocation=record)
