"""nlptools finetune: encoders and GPTs for a task, from examples."""

from __future__ import annotations

from nlptools.cli.options import command as make_command
from nlptools.cli.options import inputs_argument, invocation
from nlptools.configs import Common, Compute
from nlptools.configs.finetuning import Files, Finetune, FinetuneTraining
from nlptools.configs.tasks import check_options
from nlptools.configs.text_classifiers import PRESETS, Scratch, described
from nlptools.configs.word_taggers import FEATURES_PRESETS
from nlptools.configs.word_taggers import PRESETS as TAG_PRESETS


@make_command(
    "finetune",
    Finetune,
    Scratch,
    Files,
    FinetuneTraining,
    Compute,
    presets={**PRESETS, **TAG_PRESETS, **FEATURES_PRESETS},
    preset_options=("task", "scratch", "features"),
    opens_models=True,
    formats="""Published files are read unchanged. A table has fields between tabs, or is CSV (.csv), Parquet (.parquet) or JSON
lines (.jsonl); names in the first line (keys in JSON) tell texts and labels apart, or --text-column and --label-column name
them. Tabs in the examples below are written as \\t.

classify: a text and a label, also TREC's `LABEL:fine text` and GLUE's SST-2; --multi-label takes several labels.

\b
a gripping movie\\tpositive

pair: two texts and a label, such as SICK, SNLI, GLUE's MRPC, QQP, MNLI, QNLI and RTE, and RTE's XML. --task glue/NAME knows
the columns and the metrics of each task of GLUE.

\b
A man sleeps.\\tA man is awake.\\tcontradiction

regress: one text or two, and a number, such as STS-B and SICK.

\b
A man sleeps.\\tA man is asleep.\\t4.8

tag: CoNLL's columns, a word per line, its tag last, an empty line after each sentence; or CoNLL-U with --label-column upos. The
scheme of spans is detected from the tags. The model learns IOB2; broken tags are repaired and counted.

\b
Ann B-PER
sleeps O

roles: PropBank's CoNLL-U, the sense of each predicate in column 11, then a column of roles for each predicate. Roles that
occur only in the --valid file count as missed.

\b
1\\tAnn\\tAnn\\tPROPN\\tNNP\\t_\\t2\\tnsubj\\t_\\t_\\t_\\tARG0
2\\tsleeps\\tsleep\\tVERB\\tVBZ\\t_\\t0\\troot\\t_\\t_\\tsleep.01\\tV

answer: SQuAD 1.1 and 2.0, tables of question, context and answer (empty for none), JSON lines and Parquet of `id`, `question`,
`context` and `answers`, BoolQ, the simplified Natural Questions, QAMR with wiki-sentences.tsv in its folder. Long contexts are
read in overlapping windows. An answer that is not at its stated place moves to the nearest place with its text, and is
counted. If some training question has the answer yes or no (`yes_no_answer`), the model learns these too; if some has no
answer, it can leave questions unanswered, and the threshold is tuned for F1 on the --valid file and kept in config.json.

\b
Who sleeps?\\tAnn sleeps in Rome.\\tAnn

choice: a context, its endings, and the number of the right one, from 0: SWAG's CSV, or objects with SWAG's or HellaSwag's keys.

\b
{"context": "Ann is tired.", "endings": ["She sleeps.", "She sings."], "label": 0}

coreference: GAP's TSV. f1 is GAP's measure, f1_nearest that of always choosing the name nearest to the pronoun.

seq2seq: `source TAB target`; -m is a directory of train-seq2seq, whose training continues. train-seq2seq --init has more options.

\b
A man sleeps.\\tEin Mann schläft.

instruct: prompts and the answers to them, as JSON lines: `prompt` and `completion`, Alpaca's `instruction`, `input` and `output`,
or `messages`. A language model learns the answers, and to stop after them; -m is a GPT-2, a LLaMA, or a directory of train-lm
--arch transformer or modern. A prompt is read as it is; messages by the chat template of the model, or the known one that
--chat names and the output keeps, as chat and serve read them; without a template as \\n\\nHuman: ... \\n\\nAssistant: ... The
loss is that of the answers. Prompts that are too long lose their beginning, and are counted.

\b
{"prompt": "Name a color.", "completion": " Blue."}
{"messages": [{"role": "user", "content": "Name a color."}, {"role": "assistant", "content": "Blue."}]}

reward: ranked responses to prompts, as JSON lines: `prompt`, `chosen` and `rejected`, perhaps with a `margin`; or `prompt`,
`responses` and their `ranking`, where 1 is the best. Texts may be lists of messages. Without `prompt` it is what both responses
begin with in common. -m is an encoder or a GPT. With --valid, accuracy over pairs is reported beside that of always
preferring the longer response (accuracy_longer), the correlation of rewards with lengths, and the error of calibration; and the
rewards of predict are shifted so that the best responses of that file have 0 on average. train-reward is the same command.

\b
{"prompt": "Name a color.", "chosen": " Blue.", "rejected": " Ann."}
{"prompt": "Name a color.", "responses": [" Ann.", " Blue.", " Blue or red."], "ranking": [3, 1, 2]}

preference: the pairs and rankings of reward, or `prompt`, `completion` and a `label`, true or false (--loss kto, which also takes
the responses of pairs). A language model learns to prefer the better response; -m is its reference, usually a model of --task
instruct. With --valid, accuracy says how often the better response gains more probability than the worse one.

\b
{"prompt": "Name a color.", "completion": " Ann.", "label": false}

The output is a directory that Hugging Face opens as BertForSequenceClassification, BertForTokenClassification,
BertForQuestionAnswering or BertForMultipleChoice, as Electra's, or as GPT2ForSequenceClassification,
LlamaForSequenceClassification and their like, with the same logits; it ignores the weights of --crf (crf.*, named as in
pytorch-crf), of yes and no, of coreference and of a GPT for choices
(nlptools.*). training.json is the training record, log.jsonl has one JSON object per report. With --valid the saved weights are
the best by --best, otherwise the last. A label that is only in the --valid file is an error. Standard output stays empty.

With --lora R, the directory holds low-rank adapters and the head, in the layout of PEFT: adapter_config.json, which names the
base by its path, and adapter_model.safetensors. Each map of the model of Hugging Face has its own adapter (queries, keys and
values, too, where they have three matrices), so that PEFT computes the same. Every command opens the directory, and those that
PEFT writes (LoRA, without variants such as DoRA), if the base is there. If it has moved, correct base_model_name_or_path in
adapter_config.json: an absolute path, or one from that directory. `convert` makes one model of both, which --lora adapts again.

A GPT reads its start token (often the end-of-text token), a text and, before a second text, the end-of-text token; the last
token represents the row.
For roles, the predicate comes before its sentence, and equal words cannot be distinguished. For answers, one more
end-of-text token after the context represents no answer, yes and no.

An ELMo (train-lm --arch elmo, convert) goes with --features: bidirectional LSTMs read the words, each as its vector beside
one of its spelling and a mix of the layers of the frozen ELMo, and have the head of the task; that of whole texts sees the
maximum over the words. Each stretch of words, a sentence, a question or a context, is a text of its own for the ELMo. The
weights of the mix are a softmax of s times gamma; layer_mix.json has both, as embed --layers mix:FILE reads them
(output_mix.json: of the mix beside the output). --vectors, --characters and the other options without pretraining apply.
--features none is the same network without the ELMo.

--scratch trains without an encoder: words are learned from the training texts; with --vectors they start from the vectors of a
file, whose other words are known as well (--freeze all keeps the vectors unchanged). Two texts are read one by one; the head
sees both, their difference and their product. bag does what fastText's supervised mode does, in batches; n-grams that do not
occur in the training data are ignored. The output is a model directory for predict alone.

With --task tag, each word has a vector beside one of its spelling (--characters); layers in both directions read the sentence.
lstm with --crf is the model of Lample et al. 2016 and Ma & Hovy 2016. Words are looked up in lower case, in a vocabulary of the
training words and the first --max-vectors words of --vectors; the spelling keeps its case. A word of more than 64 characters is
spelled without its middle, a sentence of more than 512 words is read in overlapping rows. Defaults:

"""
    + described({**PRESETS, **TAG_PRESETS}),
    examples=(
        (
            "Types of questions, evaluated on held-out ones:",
            "nlptools finetune --task classify -m bert-base/ --valid dev.txt -o questions/ train.txt",
        ),
        (
            "Reviews in a CSV file, by the names of its columns:",
            "nlptools finetune --task classify -m bert-base/ --text-column review --label-column rating -o reviews/ all.csv",
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
            "On top of a language model of train-lm, GPT-2 or LLaMA:",
            "nlptools finetune --task classify -m gpt2/ --valid dev.tsv -o classifier/ train.tsv",
        ),
        ("GLUE's RTE:", "nlptools finetune --task glue/rte -m bert-base/ --valid dev.tsv -o rte/ train.tsv"),
        (
            "Named entities, from CoNLL's columns:",
            "nlptools finetune --task tag -m bert-base/ --lr 1e-4 --valid eng.testa -o ner/ eng.train",
        ),
        (
            "Named entities without an encoder: an LSTM over words and characters, with a CRF:",
            "nlptools finetune --task tag --scratch lstm --crf --vectors vectors.bin --valid eng.testa -o ner/ eng.train",
        ),
        (
            "A frozen encoder with learned weights of its layers (like ELMo):",
            "nlptools finetune --task tag -m bert-base/ --freeze all --layers mix --lr 1e-3 -o mix/ eng.train",
        ),
        (
            "Named entities with the features of an ELMo, and the vectors that the tagger sees:",
            "nlptools finetune --task tag -m elmo/ --features input --crf --valid eng.testa -o ner/ eng.train && nlptools"
            " embed elmo/ --unit word --layers mix:ner/layer_mix.json --to jsonl lines.txt",
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
            "Low-rank adapters, and one model of them and their base:",
            "nlptools finetune --task instruct -m gpt2/ --lora 8 --lr 5e-4 -o adapters/ train.jsonl && nlptools convert"
            " adapters/ assistant/",
        ),
        (
            "Preferences without a reward model, on top of a model that answers:",
            "nlptools finetune --task preference --loss dpo -m assistant/ --lr 5e-6 -o aligned/ pairs.jsonl",
        ),
        (
            "A reward model, and the reward of a response:",
            "nlptools finetune --task reward -m gpt2/ --valid dev.jsonl -o reward/ pairs.jsonl\n"
            'echo \'{"prompt": "Name a color.", "completion": " Blue."}\' | nlptools predict reward/',
        ),
        (
            "A language model that answers instructions, and continues them:",
            "nlptools finetune --task instruct -m gpt2/ --valid dev.jsonl -o assistant/ train.jsonl\n"
            "echo 'Name a color.' | nlptools generate assistant/",
        ),
        (
            "Conversations in the format chatml, for a model without a chat template:",
            "nlptools finetune --task instruct --chat chatml -m gpt2/ -o assistant/ messages.jsonl && nlptools chat assistant/",
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
        check_options(finetune.task, scratch)
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
