"""The text of the manual pages nlptools-formats(5) and nlptools-pipelines(7)."""

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
            Term("vocabulary", "TOKEN, tab, COUNT; the number of the line, from 0, is the id."),
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
            Term("config.json", "The architecture and its sizes, under the names that transformers uses."),
            Term("model.safetensors", "The weights."),
            Term("tokenizer files", "Those of its kind, such as vocab.tsv, tokenizer.json, or a SentencePiece model."),
            Term(
                "training.json",
                "The command line, the settings and where each came from, versions, the seed, names, "
                "sizes and SHA-256 sums of the data, and the final measurements.",
            ),
            Term("log.jsonl", "The reports of the run."),
            Term("manifest.json", "The SHA-256 sum of each file; nlptools-describe(1) checks them."),
            Term("checkpoints/", "What a run that was stopped continues from."),
        ],
    ),
]

# nlptools-pipelines(7): how the commands are put together.
PIPELINES: Sections = [
    (
        "Description",
        [
            "Each command does one thing and can be followed by another, or by sort(1), cut(1), paste(1), head(1), "
            "split(1) and parallel(1). set -o pipefail makes a script notice when any part of a pipe fails."
        ],
    ),
    (
        "A language model",
        [
            Example(
                "Learn a vocabulary of subwords",
                "nlptools build-vocab --kind unigram --size 8000 -o en.model corpus.gz",
            ),
            Example("Look at what it does", "head -n 3 valid.txt | nlptools tokenize -t en.model"),
            Example(
                "Train; the same command continues after an interruption (status 75)",
                "zcat corpus.gz | nlptools train-lm -t en.model --valid valid.txt -o lm/",
            ),
            Example("Look at the curves, while it runs or later", "nlptools plot lm/"),
            Example("Measure perplexity", "nlptools score lm/ --per total < test.txt"),
            Example("Continue prompts", "echo 'Once upon a time' | nlptools generate lm/"),
            Example("See what was made, and that it is intact", "nlptools describe lm/"),
        ],
    ),
    (
        "Evaluation",
        [
            Example(
                "Generate answers and score them against references",
                "nlptools generate lm/ < prompts.txt > answers.txt\nnlptools bleu references.txt < answers.txt",
            ),
            Example("In one pipe", "nlptools generate lm/ < prompts.txt | nlptools bleu references.txt"),
            Example(
                "A table of several systems",
                "for f in system.*.txt; do\n"
                '    printf "%s\\t%s\\n" "$f" "$(nlptools bleu ref.txt -i "$f" -b -w 2)"\n'
                "done | sort -t $'\\t' -k 2 -nr",
            ),
            Example(
                "Perplexity of a test set with its 95% interval",
                "nlptools score lm/ < test.txt | nlptools evaluate -m perplexity:perplexity --confidence",
            ),
            Example(
                "F1 of each type of entity, highest first",
                "nlptools evaluate -m entity-f1 --average none tagged.txt |\n"
                "    grep '^entity-f1:f1:' | sort -t $'\\t' -k 2 -gr",
            ),
            Example("Stop a script when quality drops", "nlptools bleu ref.txt -i hyp.txt --fail-under 27.5 || exit 1"),
        ],
    ),
    (
        "Words and graphs",
        [
            Example(
                "Phrases of up to four words, learned from one text and joined in another",
                "nlptools tokenize corpus.gz |\n"
                "    nlptools phrases --passes 2 --connectors english --save phrases.tsv > joined.txt\n"
                "nlptools tokenize new.txt | nlptools phrases --model phrases.tsv > new.joined",
            ),
            Example(
                "The most frequent of them",
                "nlptools phrases tokens.txt | tr ' ' '\\n' | grep '._.' | sort | uniq -c | sort -nr | head",
            ),
            Example(
                "Walks over a graph, a text like any other for nlptools-train-w2v(1)",
                "nlptools walks --p 0.5 --q 2 --seed 1 edges.tsv | gzip > walks.gz",
            ),
            Example(
                "How often walks come to each node",
                "nlptools walks edges.tsv | tr ' ' '\\n' | sort | uniq -c | sort -nr | head",
            ),
            Example(
                "The nearest words of a few words, and an analogy",
                "printf '%s\\n' cat dog | nlptools neighbors vectors.bin -k 5\n"
                "echo 'king - man + woman' | nlptools neighbors vectors.bin -k 1 --method mul",
            ),
            Example(
                "A line for each neighbor",
                "nlptools neighbors vectors.bin -k 5 --json words.txt |\n"
                "    jq -r '.query as $q | .neighbors[] | [$q, .[0], .[1]] | @tsv'",
            ),
            Example(
                "Words that have no vector",
                "nlptools neighbors vectors.bin -k 1 words.txt | awk -F'\\t' 'NF == 1'",
            ),
            Example(
                "Text that took minutes to read as a directory that opens at once, at a quarter of the size",
                "nlptools convert glove.840B.300d.txt glove/ --quantize int8\necho frog | nlptools neighbors glove/",
            ),
            Example(
                "The first 100,000 words only, of length 1, for another program",
                "nlptools convert vectors.bin small.txt --restrict 100000 --normalize",
            ),
        ],
    ),
    (
        "Vectors of words, nodes and items",
        [
            Example(
                "From text to vectors, with phrases as words; the same command continues after an interruption (status 75)",
                "nlptools tokenize -t words --lowercase corpus.gz | nlptools phrases > tokens.txt\n"
                "nlptools train-w2v --run run/ -o vectors.bin tokens.txt",
            ),
            Example(
                "What is near, and how good they are at analogies and similarity",
                "echo new_york | nlptools neighbors vectors.bin\n"
                "nlptools eval-vectors vectors.bin --analogies questions-words.txt --pairs wordsim353.tsv",
            ),
            Example(
                "Skip-gram, CBOW and GloVe side by side",
                "for model in skipgram cbow glove; do\n"
                "    nlptools train-w2v --model $model -o $model.bin tokens.txt\n"
                "done\n"
                "nlptools eval-vectors skipgram.bin cbow.bin glove.bin --analogies questions-words.txt --confidence",
            ),
            Example(
                "Words that the text does not have, by their n-grams, in a file that fastText and gensim load",
                "nlptools train-w2v --subwords 3-6 --format fasttext -o model.bin tokens.txt\n"
                "echo unfriendliest | nlptools neighbors model.bin",
            ),
            Example(
                "Nodes of a graph: walks are the text, and frequent nodes are not thinned out",
                "nlptools walks --p 0.5 --q 2 edges.tsv |\n"
                "    nlptools train-w2v --window 10 --no-shrink-windows --sample 0 --min-count 1 -o nodes.bin\n"
                "echo 34 | nlptools neighbors nodes.bin -k 5",
            ),
            Example(
                "Items that are bought together: from lines of order, tab, item to an order per line; the window holds all "
                "of it",
                "sort -t $'\\t' -k 1,1 orders.tsv |\n"
                '    awk -F\'\\t\' \'{ printf "%s%s", ($1 == o ? " " : NR > 1 ? "\\n" : ""), $2; o = $1 } '
                'END { print "" }\' |\n'
                "    nlptools train-w2v --window 50 --no-shrink-windows --sample 0 -o items.bin\n"
                "echo butter | nlptools neighbors items.bin",
            ),
            Example(
                "Two languages in one space, and the nearest words in both",
                "nlptools train-w2v -o de.vec de.tokens && nlptools train-w2v -o en.vec en.tokens\n"
                "nlptools align-vectors de.vec en.vec -d de-en.txt --both de:,en: -o both/\n"
                "echo de:hund | nlptools neighbors both/",
            ),
            Example(
                "A map of the most frequent words, with search and neighbors, for a browser",
                "nlptools project vectors.bin --method tsne --count 3000 -o map.html",
            ),
            Example(
                "New text, for vectors that are there: its words are added",
                "nlptools train-w2v --init model.bin --subwords 3-6 --format fasttext -o newer.bin new.tokens",
            ),
        ],
    ),
    (
        "Lines next to lines",
        [
            Example(
                "The least likely lines of a text first",
                "nlptools score lm/ --per line < text.txt | paste - text.txt | sort -n | head",
            ),
            Example("On all cores", "parallel --pipe -k nlptools tokenize -t en.model < big.txt > big.tok"),
        ],
    ),
    (
        "On a cluster",
        [
            Example(
                "Stop in time with everything saved, and queue again",
                "nlptools train-lm corpus.txt -t en.model -o lm/ --max-time 11h30m\n"
                '[ $? = 75 ] && scontrol requeue "$SLURM_JOB_ID"',
            ),
            Example(
                "The settings of a run as a file, and the run from the file",
                "nlptools train-lm corpus.txt -t en.model -o lm/ --lr 6e-4 --dump-config > run.toml\n"
                "nlptools train-lm corpus.txt --config run.toml",
            ),
        ],
    ),
]
