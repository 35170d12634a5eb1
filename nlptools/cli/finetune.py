"""nlptools finetune: encoders and GPTs for a task, from examples."""

from __future__ import annotations

from nlptools.cli.options import command as make_command
from nlptools.cli.options import inputs_argument, invocation
from nlptools.configs import Common, Compute
from nlptools.configs.finetuning import Files, Finetune, FinetuneTraining
from nlptools.configs.text_classifiers import PRESETS, Scratch, told


@make_command(
    "finetune",
    Finetune,
    Scratch,
    Files,
    FinetuneTraining,
    Compute,
    presets=PRESETS,
    preset_option="scratch",
    formats="""Published files are taken as they are. classify: lines of `text TAB label`, a table whose header names its
columns, JSON lines, TREC's `LABEL:fine text`, GLUE's CoLA and SST-2. pair: two texts and a label: SICK, SNLI, GLUE's MRPC, QQP,
MNLI, QNLI, RTE. regress: two texts and a number: STS-B, SICK. --task glue/NAME knows the columns and the metrics of each GLUE
task. tag: CoNLL's columns of words and tags, empty lines between sentences, the tag last, or CoNLL-U with --label-column upos;
the scheme of spans (iob1, iob2, bioes and so on) is told by the tags, or by --scheme; they are learnt as IOB2, broken ones are
mended and counted. roles: PropBank's CoNLL-U, the sense of each predicate in column 11, then a column of roles for each. Roles
that only the --valid file has count as missed.
answer: SQuAD 1.1 and 2.0 (JSON), QAMR's TSV with wiki-sentences.tsv beside it or named by --sentences, JSON lines of `id`,
`question`, `context` and `answers`, BoolQ, the simplified Natural Questions. Long contexts are read in overlapping windows;
--yes-no learns to say yes and no, too (`yes_no_answer` in the files). An answer that does not stand where the file says is an
error, or moved by --move-answers. Where some question has no answer, the model can leave questions unanswered; from which odds
on is tuned for F1 on the --valid file and kept in config.json. choice: SWAG's CSV, or JSON lines of `context`, `endings` (or
SWAG's and HellaSwag's keys) and `label`, the number of the right one. coreference: GAP's TSV; f1 is GAP's, f1_nearest that of
always taking the name nearest to the pronoun.
--text-column and --label-column name others.
seq2seq: lines of `source TAB target`, and -m is a directory that
train-seq2seq made, which learns on by the same means; train-seq2seq --init has more options.
The output is a model directory that opens in Hugging Face as BertForSequenceClassification, BertForTokenClassification,
BertForQuestionAnswering or BertForMultipleChoice (and as Electra's), or as GPT2ForSequenceClassification,
GPT2ForTokenClassification or GPT2ForQuestionAnswering, with the same logits; besides training.json (how it was
made), log.jsonl (one JSON object per report), manifest.json (sizes and SHA-256 sums), checkpoints/ and data/ (to continue
from). The weights of --crf are there as crf.transitions, crf.start_transitions and crf.end_transitions, as pytorch-crf
names them, those of --yes-no as nlptools.yes_no, the head of coreference as nlptools.mentions (the rest of it is a
BertModel or a GPT2Model), and that of a GPT's choices as nlptools.choice; Hugging Face leaves them out.
A GPT reads the end-of-text token, a text and, where there is a second one, the same token and that; the last token has seen all
of it and stands for it. The predicate of roles comes before its sentence, and of several equal words it is not told which is
meant. No answer, yes and no are judged at one more end-of-text token behind the context.
How far above what needs no model a run should end, in points, with an encoder of 6 layers and 384 numbers
(all-MiniLM-L6-v2) and some passes over the data: parts of speech of UD English EWT 9 above tagging each word as it is tagged most
often; answers of QAMR 60 (F1) above the longest run of words that the question lacks; roles of PropBank's EWT 45 (F1) above
the nearest nouns for ARG0 and ARG1; coreference in GAP 20 (F1) above the nearest name; SICK's relatedness 25 (Pearson) above the
share of common words; which of four answers to QAMR's questions on a sentence is asked for 15 above the one with least in common
with the question. Without an encoder, SST-2 is 28 (bag) and 29 (cnn, lstm) above the more frequent
label. Much less means that something is wrong: the rate, the labels, too few passes.
With --valid the weights are the best by --best; otherwise the last. A label in the --valid file that training has not seen is
an error. Standard output stays empty.

--scratch trains without an encoder, for comparison, or because that is enough: words are learnt from the texts, with
--vectors they begin with vectors of a file, whose other words are understood as well (--freeze all leaves them as they are).
Two texts are read one by one; the head sees both, their difference and their product. bag does what fastText's supervised mode
does, in batches; n-grams that training has not seen are left out. The output is a model directory for predict alone. Unless
said otherwise:
"""
    + told(PRESETS),
    examples=(
        (
            "Kinds of questions, measured on held-out ones:",
            "nlptools finetune --task classify -m bert-base/ --valid dev.txt -o questions/ train.txt",
        ),
        (
            "The same with five seeds; the best is kept, mean and spread are told:",
            "nlptools finetune --task classify -m bert-base/ --seeds 5 --valid dev.txt -o questions/ train.txt",
        ),
        (
            "Without an encoder, as fastText does it:",
            "nlptools finetune --task classify --scratch bag --valid dev.tsv -o bag/ train.tsv",
        ),
        (
            "A recurrent network that begins with word vectors:",
            "nlptools finetune --task classify --scratch lstm --vectors vectors.txt --valid dev.tsv -o lstm/ train.tsv",
        ),
        (
            "On top of a language model, ours or a GPT-2:",
            "nlptools finetune --task classify -m gpt2/ --valid dev.tsv -o classifier/ train.tsv",
        ),
        ("GLUE's RTE:", "nlptools finetune --task glue/rte -m bert-base/ --valid dev.tsv -o rte/ train.tsv"),
        (
            "Named entities, from CoNLL's columns:",
            "nlptools finetune --task tag -m bert-base/ --lr 1e-4 --valid eng.testa -o ner/ eng.train",
        ),
        (
            "What a frozen encoder's layers know, by weights that are learnt (ELMo's way):",
            "nlptools finetune --task tag -m bert-base/ --freeze all --layers mix --lr 1e-3 -o mix/ eng.train",
        ),
        (
            "Parts of speech, from CoNLL-U:",
            "nlptools finetune --task tag --label-column upos -m bert-base/ --valid dev.conllu -o pos/ train.conllu",
        ),
        (
            "Answers to questions, of which some have none:",
            "nlptools finetune --task answer -m bert-base/ --valid dev-v2.0.json -o squad/ train-v2.0.json",
        ),
        (
            "Small data: cross-validation, with lower layers that learn more slowly:",
            "nlptools finetune --task classify -m bert-base/ --folds 5 --layer-decay 0.8 --class-weights balanced -o out/"
            " all.tsv",
        ),
    ),
    exit_codes=(0, 2, 3, 65, 66, 69, 73, 74, 75, 78),
)
@inputs_argument
def command(
    inputs: tuple[str, ...],
    finetune: Finetune,
    scratch: Scratch,
    files: Files,
    finetunetraining: FinetuneTraining,
    compute: Compute,
    common: Common,
) -> None:
    """Train an encoder or a GPT for a task: labels, tags, answers, choices from examples.

    A BERT, an ELECTRA or a GPT gets a head for the task and both learn together. Examples of like length are trained on
    together. A run that was stopped, by a signal, a time limit or a crash, is continued by the same command and ends with the
    weights it would have had anyway.
    """
    # what is wrong is said before torch is loaded
    finetune.check()
    if finetune.scratch is not None:
        scratch.check(finetune.scratch)
    finetunetraining.check()
    from nlptools.training.finetuning.finetune import finetune as train

    record = invocation()
    train(
        inputs,
        finetune,
        finetunetraining,
        compute,
        files,
        scratch,
        encoding_errors=common.encoding_errors,
        invocation=record,
    )
