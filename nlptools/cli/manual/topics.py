"""Building blocks of manual pages on a topic, and the text of nlptools-formats(5)."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias


class Term(NamedTuple):
    """A term and its explanation."""

    term: str
    text: str


class Example(NamedTuple):
    """Shell commands with a description."""

    what: str
    lines: str


Block: TypeAlias = "str | Term | Example"  # a str holds paragraphs
Sections: TypeAlias = "list[tuple[str, list[Block]]]"


# nlptools-formats(5): the formats that the commands read and write.
FORMATS: Sections = [
    (
        "Description",
        [
            "The commands pass plain text to each other, one record per line. The command and its options determine the "
            "format; the content of a file does not. The section FORMATS in the page of a command takes precedence over "
            "this page."
        ],
    ),
    (
        "Streams",
        [
            Term(
                "Input", "Input files are arguments; no argument, or -, means standard input, which may be named once."
            ),
            Term(
                "Output",
                "--output names a file; - is standard output. Only data goes there; messages and progress "
                "go to standard error. A file appears under its name when it is complete. An existing file is "
                "replaced only with --force.",
            ),
            Term(
                "Compression",
                "gzip, bzip2, xz, and Zstandard with the zstandard package: input by its first bytes, whatever its name, and "
                "from standard input, too; output by the suffixes .gz, .bz2, .xz and .zst.",
            ),
            Term(
                "Encoding",
                "UTF-8 in every locale. A byte order mark at the start is dropped (bleu counts it, as sacrebleu does). "
                "Invalid bytes are an error with status 65 that names file, line and byte, unless --encoding-errors is "
                "replace or ignore.",
            ),
            Term(
                "Lines",
                "End at a newline and nowhere else; one carriage return before it is dropped. U+2028, U+0085, "
                "vertical tab and form feed are data. The last newline may be missing. A line longer than --max-line "
                "(64M) ends the command with status 65, before more of it is read.",
            ),
            Term(
                "Filters",
                "A command that works line by line writes exactly one record per input line, in order, also for empty "
                "lines, so that paste(1) aligns input and output. Memory does not grow with the input. predict --probabilities "
                "writes a line of the labels first.",
            ),
        ],
    ),
    (
        "Formats",
        [
            Term("text", "A sentence, a paragraph or a document per line."),
            Term("tokens", "Tokens separated by one space."),
            Term("ids", "Vocabulary ids of tokens as decimal numbers, separated by one space."),
            Term(
                "CSV, Parquet",
                "finetune, predict, evaluate, tokenize, embed and train-seq2seq read columns of .csv (quoted as in RFC 4180), "
                ".parquet (with the pyarrow package), .jsonl and tables between tabs, by their names.",
            ),
            Term(
                "TSV",
                "Fields separated by a tab, without a header line. Backslash, tab, newline and carriage return inside "
                "a field are written \\\\, \\t, \\n and \\r.",
            ),
            Term("JSON lines", "One object per line; unknown keys pass through."),
            Term(
                "pairs",
                "TSV with two fields, source and target. paste(1) joins two texts that have no tabs and backslashes; jq(1) "
                "converts JSON with @tsv.",
            ),
            Term(
                "translations",
                "JSON lines: source, and translations, a list of objects with text, finish (eos, length, stop, empty) and, "
                "if available or requested, score, tokens, logprobs and alignment. See nlptools-generate(1).",
            ),
            Term(
                "alignment",
                "Pharaoh format: one I-J per output token J, where I is the source token with the highest attention weight, "
                "both counted from 0, separated by spaces. In JSON, a list of [I, J].",
            ),
            Term("vocabulary", "TOKEN, tab, COUNT; the line number, counted from 0, is the id."),
            Term(
                "vectors",
                "JSON lines: text, and embedding, a list of numbers. With vectors of tokens or words: text, tokens or "
                "words, and vectors, a list of lists. TSV: the text, then one number per field. For formats of word "
                "vectors, see nlptools-convert(1); see also nlptools-embed(1).",
            ),
            Term(
                "npy",
                "A NumPy array with one row per line, word or token. On a pipe, complete arrays follow each other, each with "
                "the rows that were ready; numpy.lib.format.read_array reads the next one, and the commands concatenate "
                "all of them.",
            ),
            Term(
                "NAME.vocab.tsv",
                "The labels of the rows of NAME.npy, one per line: a word; a word, a tab and its count; or a line of text, "
                "escaped as in TSV.",
            ),
            Term(
                "log.jsonl",
                "JSON lines, one object per report of a training run: kind (train or valid), step, epoch, "
                "loss, lr, grad_norm, tokens, tokens_per_second (words or pairs of vectors), perplexity, seconds, time. See "
                "nlptools-plot(1).",
            ),
            Term(
                "score line",
                "BLEU, a bar, the signature, an equals sign, the score and its components. The signature records "
                "all settings of the metric. See nlptools-bleu(1).",
            ),
            Term(
                "values",
                "TSV, one value per line: name, value, number of examples, unit of the examples, signature. See "
                "nlptools-evaluate(1).",
            ),
            Term(
                "tags",
                "One token per line, columns separated by spaces or tabs, the tag in the last column; an empty line ends a "
                "sentence.",
            ),
        ],
    ),
    (
        "Models",
        [
            "A model is a directory. Reading it executes nothing: no pickle, no code, no template.",
            Term(
                "config.json",
                "The architecture and its sizes, under the names that transformers uses. model_type names the layout: gpt2; "
                "marian, a Transformer for translation; pegasus, the same with --norm pre; bert and electra, encoders. "
                "Directories with these layouts are interchangeable with transformers. nlptools-lstm, nlptools-seq2seq-rnn, "
                "nlptools-seq2seq-convolution and nlptools-seq2seq-transformer (--norm pre with separate embeddings) are "
                "specific to nlptools.",
            ),
            Term(
                "encoders",
                "A BERT or an ELECTRA has heads for pretraining (nlptools-pretrain-bert(1)) or for a task "
                "(nlptools-finetune(1)). The weights and the class under architectures in config.json, such as "
                "BertForPreTraining or ElectraForSequenceClassification, determine the heads; id2label holds the names of the "
                "labels. See nlptools-describe(1).",
            ),
            Term(
                "GPTs for tasks",
                "A language model that nlptools-finetune(1) has trained for a task has a class such as "
                "GPT2ForSequenceClassification under architectures, and nlptools.arch. It cannot generate text.",
            ),
            Term(
                "generator/",
                "In the directory of a pretrained ELECTRA: the model that generates replacement tokens. Only further "
                "pretraining needs it.",
            ),
            Term(
                "modules.json",
                "In a sentence-transformers directory: the steps from hidden states to one vector, with a folder for each "
                "step. nlptools-embed(1) applies them.",
            ),
            Term("model.safetensors", "The weights."),
            Term(
                "tokenizer files",
                "The files of the tokenizer, such as vocab.tsv, tokenizer.json or a SentencePiece model. A translation model "
                "with SentencePiece has source.spm, target.spm and vocab.json (the ids of the pieces), and "
                "target_vocab.json if the target has its own vocabulary. With other tokenizers, a separate target tokenizer "
                "is in target/.",
            ),
            Term(
                "training.json",
                "The command line, the settings and their origin, versions, the seed, names, "
                "sizes and SHA-256 sums of the data, and the final measurements.",
            ),
            Term("log.jsonl", "The reports of the run."),
            Term("manifest.json", "The SHA-256 sum of each file; nlptools-describe(1) checks them."),
            Term(
                "data/",
                "The training text as ids, for nlptools-train-lm(1), nlptools-train-seq2seq(1) and "
                "nlptools-pretrain-bert(1).",
            ),
            Term("checkpoints/", "The state from which a stopped run continues."),
        ],
    ),
]
