"""What pages of the manual on a topic are made of, and the text of nlptools-formats(5)."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias


class Term(NamedTuple):
    """A name and what it means."""

    term: str
    text: str


class Example(NamedTuple):
    """Lines for the shell, and what they do."""

    what: str
    lines: str


Block: TypeAlias = "str | Term | Example"  # a str holds paragraphs
Sections: TypeAlias = "list[tuple[str, list[Block]]]"


# nlptools-formats(5): what the commands read and write.
FORMATS: Sections = [
    (
        "Description",
        [
            "The commands pass plain text from one to the next, one record per line. A format is never guessed "
            "from what a file holds: it follows from the command and its options. What the pages of the commands "
            "say under FORMATS goes before what is said here."
        ],
    ),
    (
        "Streams",
        [
            Term("Input", "Files are arguments; none, or -, means standard input, which may be named once."),
            Term(
                "Output",
                "--output names a file; - is standard output. Only data goes there: messages and progress "
                "go to standard error. A file gets its name when it is whole. One that exists is replaced only "
                "with --force.",
            ),
            Term("Compression", "By the name of the file: .gz, .bz2, .xz, and .zst with the zstandard package."),
            Term(
                "Encoding",
                "UTF-8, whatever the locale. A byte order mark at the start is dropped. Invalid bytes end "
                "the command with status 65 and their place, unless --encoding-errors is replace or ignore.",
            ),
            Term(
                "Lines",
                "End at a newline and nowhere else; one carriage return before it is dropped. U+2028, U+0085, "
                "vertical tab and form feed are data. The last newline may be missing.",
            ),
            Term(
                "Filters",
                "Commands that answer line by line write exactly one record for each line, in order, an "
                "empty line included, so that paste(1) puts answers next to questions. Memory does not grow with "
                "the input.",
            ),
        ],
    ),
    (
        "Formats",
        [
            Term("text", "A sentence, a paragraph or a document per line."),
            Term("tokens", "Tokens separated by one space."),
            Term("ids", "Numbers of tokens in a vocabulary, decimal, separated by one space."),
            Term(
                "TSV",
                "Fields separated by a tab, without header. Backslash, tab, newline and carriage return inside "
                "a field are written \\\\, \\t, \\n and \\r.",
            ),
            Term("JSON lines", "An object per line; keys that a command does not know pass through."),
            Term(
                "pairs",
                "TSV of two fields: a source and its target. paste(1) makes it of two texts without tabs and backslashes, "
                "jq(1) of JSON with @tsv.",
            ),
            Term(
                "translations",
                "JSON lines: source, and translations, a list of objects with text, finish (eos, length, stop, empty) and, "
                "where it is known or asked for, score, tokens, logprobs and alignment. See nlptools-generate(1).",
            ),
            Term(
                "alignment",
                "Pharaoh's: I-J for each token J of the output and the token I of the source that it attends to most, both "
                "from 0, separated by spaces. In JSON a list of [I, J].",
            ),
            Term("vocabulary", "TOKEN, tab, COUNT; the number of the line, from 0, is the id."),
            Term(
                "vectors",
                "JSON lines: text, and embedding, a list of numbers. Of the tokens or words of a line: text, tokens or "
                "words, and vectors, a list of lists. In TSV the text, then a number in each field. Formats of word "
                "vectors: nlptools-convert(1). See nlptools-embed(1).",
            ),
            Term(
                "npy",
                "An array of numpy, a row for each line, word or token. On a pipe arrays stand one behind the other, "
                "each whole and as many rows as were ready: numpy.lib.format.read_array reads the next, and commands "
                "take all as one.",
            ),
            Term(
                "NAME.vocab.tsv",
                "Beside NAME.npy, what its rows are of: a word on each line, or a word, a tab and its count; or the "
                "lines of a text, tab, newline and backslash in them as in TSV.",
            ),
            Term(
                "log.jsonl",
                "JSON lines, one report of a training run each: kind (train or valid), step, epoch, "
                "loss, lr, grad_norm, tokens, tokens_per_second (words or pairs of vectors), perplexity, seconds, time. See "
                "nlptools-plot(1).",
            ),
            Term(
                "score line",
                "BLEU, a bar, the signature, an equals sign, the score and its parts. The signature says "
                "how the score was made. See nlptools-bleu(1).",
            ),
            Term(
                "values",
                "TSV, a value per line: its name, the number, how many examples it is of, what these are, and the "
                "signature. See nlptools-evaluate(1).",
            ),
            Term(
                "tags",
                "A token per line, columns separated by spaces or tabs, tags in the last; sentences end with an empty "
                "line.",
            ),
        ],
    ),
    (
        "Models",
        [
            "A model is a directory. Nothing in it is executed when it is read: no pickle, no code, no template.",
            Term(
                "config.json",
                "The architecture and its sizes, under the names that transformers uses. model_type says the layout: gpt2; "
                "marian, a Transformer for translation; pegasus, the same with --norm pre; bert and electra, encoders; these "
                "open in transformers, and theirs here. nlptools-lstm, nlptools-seq2seq-rnn, nlptools-seq2seq-convolution and "
                "nlptools-seq2seq-transformer (with --norm pre and separate embeddings) are known here only.",
            ),
            Term(
                "encoders",
                "What a BERT or an ELECTRA can do besides giving vectors depends on its heads: those of pretraining, which "
                "nlptools-pretrain-bert(1) trains, or those of a task (nlptools-finetune(1)). Which there are is told by the "
                "weights and by the class under architectures in config.json, such as BertForPreTraining or "
                "ElectraForSequenceClassification; id2label has the names of labels. See nlptools-describe(1).",
            ),
            Term(
                "GPTs for tasks",
                "What nlptools-finetune(1) makes of a language model is told from one by architectures, such as "
                "GPT2ForSequenceClassification, and by nlptools.arch. It says no text any more.",
            ),
            Term(
                "generator/",
                "In the directory of an ELECTRA that was pretrained here, a model of its own: the generator of the tokens "
                "that are to be found out. Only more pretraining wants it.",
            ),
            Term(
                "modules.json",
                "In a directory of sentence-transformers: the steps from the states of an encoder to one vector, each with "
                "a folder of its own. nlptools-embed(1) follows them.",
            ),
            Term("model.safetensors", "The weights."),
            Term(
                "tokenizer files",
                "Those of its kind, such as vocab.tsv, tokenizer.json, or a SentencePiece model. A model for translation with "
                "SentencePiece has source.spm, target.spm and vocab.json, the ids of the pieces, and target_vocab.json where "
                "each side has its own; with another kind, the target's own tokenizer is in target/.",
            ),
            Term(
                "training.json",
                "The command line, the settings and where each came from, versions, the seed, names, "
                "sizes and SHA-256 sums of the data, and the final measurements.",
            ),
            Term("log.jsonl", "The reports of the run."),
            Term("manifest.json", "The SHA-256 sum of each file; nlptools-describe(1) checks them."),
            Term(
                "data/",
                "The text as ids: what nlptools-train-lm(1), nlptools-train-seq2seq(1) and nlptools-pretrain-bert(1) read "
                "while they train.",
            ),
            Term("checkpoints/", "What a run that was stopped continues from."),
        ],
    ),
]
