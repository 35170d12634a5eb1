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
    formats="""Published files are read unchanged. classify: lines of `text TAB label`, a table whose header names its
columns, JSON lines, TREC's `LABEL:fine text`, GLUE's CoLA and SST-2. pair: two texts and a label: SICK, SNLI, GLUE's MRPC, QQP,
MNLI, QNLI, RTE. regress: two texts and a number: STS-B, SICK. --task glue/NAME knows the columns and the metrics of each GLUE
task. tag: CoNLL's columns of words and tags, the tag last, empty lines between sentences, or CoNLL-U with --label-column upos;
the scheme of spans (iob1, iob2, bioes and so on) is detected from the tags, or given by --scheme; the model learns IOB2, and
broken tags are repaired and counted. roles: PropBank's CoNLL-U, the sense of each predicate in column 11, then a column of roles
for each predicate. Roles that occur only in the --valid file count as missed.
answer: SQuAD 1.1 and 2.0 (JSON), QAMR's TSV with wiki-sentences.tsv in its folder or given by --sentences, JSON lines of `id`,
`question`, `context` and `answers`, BoolQ, the simplified Natural Questions. Long contexts are read in overlapping windows;
--yes-no also learns to answer yes and no (`yes_no_answer` in the files). An answer that is not at its stated place is an
error, unless --move-answers moves it. If some training question has no answer, the model can leave questions unanswered; the
threshold is tuned for F1 on the --valid file and kept in config.json. choice: SWAG's CSV, or JSON lines of `context`, `endings`
(or SWAG's and HellaSwag's keys) and `label`, the number of the right ending. coreference: GAP's TSV; f1 is GAP's measure,
f1_nearest that of always choosing the name nearest to the pronoun.
--text-column and --label-column name other columns.
seq2seq: lines of `source TAB target`; -m is a directory of train-seq2seq, whose training continues; train-seq2seq --init has
more options.
The output is a model directory that opens in Hugging Face as BertForSequenceClassification, BertForTokenClassification,
BertForQuestionAnswering or BertForMultipleChoice (and as Electra's), or as GPT2ForSequenceClassification,
GPT2ForTokenClassification or GPT2ForQuestionAnswering, with the same logits. It also has training.json (the training record),
log.jsonl (one JSON object per report), manifest.json (sizes and SHA-256 sums), checkpoints/ and data/ (to continue
the run). The weights of --crf are named crf.transitions, crf.start_transitions and crf.end_transitions, as in pytorch-crf,
those of --yes-no nlptools.yes_no, the head of coreference nlptools.mentions (the rest of the model is a
BertModel or a GPT2Model), and the head of a GPT for choices nlptools.choice; Hugging Face ignores them.
A GPT reads the end-of-text token, a text and, before a second text, the same token again; the last token, which sees all
others, represents the row. For roles, the predicate comes before its sentence, and several equal words cannot be distinguished.
For answers, one more end-of-text token after the context represents no answer, yes and no.
Expected results, in points above a baseline without a model, with an encoder of 6 layers and 384 dimensions
(all-MiniLM-L6-v2) and some passes over the data: parts of speech of UD English EWT 9 above the most frequent tag of each word;
answers of QAMR 60 (F1) above the longest run of words that are not in the question; roles of PropBank's EWT 45 (F1) above
the nearest nouns for ARG0 and ARG1; coreference in GAP 20 (F1) above the nearest name; SICK's relatedness 25 (Pearson) above the
share of common words; choosing among four answers to QAMR's questions on a sentence 15 above the answer with the fewest words in
common with the question. Without an encoder, SST-2 is 28 (bag) and 29 (cnn, lstm) above the more frequent
label. Much less indicates a problem: the learning rate, the labels, too few passes.
With --valid the saved weights are the best by --best; otherwise the last. A label in the --valid file that is not in the training
data is an error. Standard output stays empty.

--scratch trains without an encoder: words are learned from the training texts; with --vectors they start from the vectors of a
file, whose other words are known as well (--freeze all keeps the vectors unchanged).
Two texts are read one by one; the head sees both, their difference and their product. bag does what fastText's supervised mode
does, in batches; n-grams that do not occur in the training data are ignored. The output is a model directory for predict alone.
Defaults:
"""
    + told(PRESETS),
    examples=(
        (
            "Types of questions, evaluated on held-out ones:",
            "nlptools finetune --task classify -m bert-base/ --valid dev.txt -o questions/ train.txt",
        ),
        (
            "The same with five seeds; keep the best, report mean and standard deviation:",
            "nlptools finetune --task classify -m bert-base/ --seeds 5 --valid dev.txt -o questions/ train.txt",
        ),
        (
            "Without an encoder, like fastText:",
            "nlptools finetune --task classify --scratch bag --valid dev.tsv -o bag/ train.tsv",
        ),
        (
            "A recurrent network with pretrained word vectors:",
            "nlptools finetune --task classify --scratch lstm --vectors vectors.txt --valid dev.tsv -o lstm/ train.tsv",
        ),
        (
            "On top of a language model of train-lm, or GPT-2:",
            "nlptools finetune --task classify -m gpt2/ --valid dev.tsv -o classifier/ train.tsv",
        ),
        ("GLUE's RTE:", "nlptools finetune --task glue/rte -m bert-base/ --valid dev.tsv -o rte/ train.tsv"),
        (
            "Named entities, from CoNLL's columns:",
            "nlptools finetune --task tag -m bert-base/ --lr 1e-4 --valid eng.testa -o ner/ eng.train",
        ),
        (
            "A frozen encoder with learned weights of its layers (like ELMo):",
            "nlptools finetune --task tag -m bert-base/ --freeze all --layers mix --lr 1e-3 -o mix/ eng.train",
        ),
        (
            "Parts of speech, from CoNLL-U:",
            "nlptools finetune --task tag --label-column upos -m bert-base/ --valid dev.conllu -o pos/ train.conllu",
        ),
        (
            "Answers to questions, some of which have none:",
            "nlptools finetune --task answer -m bert-base/ --valid dev-v2.0.json -o squad/ train-v2.0.json",
        ),
        (
            "Small data: cross-validation, with lower learning rates for lower layers:",
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

    A BERT, an ELECTRA or a GPT gets a head for the task and both are trained together. A batch has examples of similar
    length. After a stop by a signal, a time limit or a crash, the same command continues the run, which ends with the same
    weights as without the stop.
    """
    # report wrong options before torch is loaded
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
