"""The text of the manual page nlptools-pipelines(7): examples of pipelines."""

from __future__ import annotations

from nlptools.cli.manual.topics import Example, Sections

PIPELINES: Sections = [
    (
        "Description",
        [
            "Each command does one thing and combines with the others and with sort(1), cut(1), paste(1), head(1), "
            "split(1) and parallel(1). With set -o pipefail, a script fails if any part of a pipe fails."
        ],
    ),
    (
        "A language model",
        [
            Example(
                "Learn a vocabulary of subwords",
                "nlptools build-vocab --kind unigram --size 8000 -o en.model corpus.gz",
            ),
            Example("Inspect the tokens", "head -n 3 valid.txt | nlptools tokenize -t en.model"),
            Example(
                "Train; the same command continues after an interruption (status 75)",
                "zcat corpus.gz | nlptools train-lm -t en.model --valid valid.txt -o lm/",
            ),
            Example("Plot the training curves, during training or later", "nlptools plot lm/"),
            Example("Measure perplexity", "nlptools score lm/ --per total < test.txt"),
            Example("Continue prompts", "echo 'Once upon a time' | nlptools generate lm/"),
            Example("Describe the model and check its files", "nlptools describe lm/"),
        ],
    ),
    (
        "Evaluation",
        [
            Example(
                "Generate answers and score them against references",
                "nlptools generate lm/ < prompts.txt > answers.txt\nnlptools bleu references.txt < answers.txt",
            ),
            Example("The same in one pipe", "nlptools generate lm/ < prompts.txt | nlptools bleu references.txt"),
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
        "Translation",
        [
            Example(
                "A shared vocabulary and a model; the same command continues after an interruption (status 75)",
                "nlptools build-vocab --kind unigram --coverage 1 -o shared.model train.en train.de\n"
                "nlptools train-seq2seq -t shared.model --preset multi30k --patience 10 -o en-de/ \\\n"
                "    --source train.en --target train.de --valid-source valid.en --valid-target valid.de",
            ),
            Example("Translate and score", "nlptools generate en-de/ test.en | nlptools bleu test.de"),
            Example("An ensemble of two runs", "nlptools generate run1/ run2/ test.en | nlptools bleu test.de"),
            Example("Token alignments only", "nlptools generate en-de/ --alignments test.en | cut -f 2"),
            Example(
                "50 candidates for reranking: source line number, score and text",
                "nlptools generate en-de/ test.en --nbest 50 --json |\n"
                "    jq -r 'input_line_number as $n | .translations[] | [$n, .score, .text] | @tsv'",
            ),
            Example(
                "The pairs of a noisy parallel text with the highest probability per token",
                "nlptools generate en-de/ --score-target noisy.tsv | awk '{ print $1 / $2 }' | paste - noisy.tsv |\n"
                "    sort -gr | cut -f 2- | head -n 1000000 > cleaner.tsv",
            ),
        ],
    ),
    (
        "Back-translation",
        [
            Example(
                "Pairs from monolingual text in the target language: a model of the opposite direction samples tagged sources "
                "(Sennrich et al. 2016; Edunov et al. 2018; Caswell et al. 2019)",
                "nlptools build-vocab --kind unigram --coverage 1 --special '<BT>' -o shared.model train.en train.de\n"
                "nlptools train-seq2seq -t shared.model --source train.de --target train.en -o de-en/\n"
                "sed 's/\\\\/&&/g' mono.de > mono.tsv\n"
                "nlptools generate de-en/ --beam 0 mono.de | sed 's/^/<BT> /' | paste - mono.tsv > back.tsv\n"
                "paste train.en train.de | cat - back.tsv |\n"
                "    nlptools train-seq2seq -t shared.model --valid valid.tsv -o en-de/",
            ),
            Example(
                "Real pairs counted twice, and target text copied as its own source (Currey et al. 2017)",
                "paste mono.tsv mono.tsv > copied.tsv\n"
                "cat train.tsv train.tsv back.tsv copied.tsv | nlptools train-seq2seq -t shared.model -o en-de/",
            ),
        ],
    ),
    (
        "Summarization",
        [
            Example(
                "From JSON to pairs, a vocabulary and a model; sources are truncated to 400 tokens",
                "jq -r '[.text, .subject] | @tsv' train.jsonl > train.tsv\n"
                "tr '\\t' '\\n' < train.tsv | sed 's/\\\\n/ /g' | nlptools build-vocab --kind unigram -o mails.model\n"
                "nlptools train-seq2seq -t mails.model --max-source-length 400 --long cut --best loss -o subjects/ \\\n"
                "    --valid valid.tsv train.tsv",
            ),
            Example(
                "Summaries of JSON objects; other keys pass through",
                "jq -c '.source = .text' test.jsonl |\n"
                "    nlptools generate subjects/ --json-input --json --max-source-length 400 |\n"
                "    jq -r '.translations[0].text' > subjects.txt",
            ),
            Example(
                "Comparison with two baselines: the first sentences, and the most central ones",
                "jq -r '[.text] | @tsv' test.jsonl > texts.txt\n"
                "jq -r '.subject' test.jsonl > gold.txt\n"
                "nlptools extract --method lead --sentences 3 texts.txt > lead.txt\n"
                "nlptools extract --method textrank texts.txt > textrank.txt\n"
                "for f in lead.txt textrank.txt subjects.txt; do\n"
                '    nlptools evaluate -m rouge1,rouge2,rougeL -r gold.txt "$f" | sed "s/^/$f\\t/"\n'
                "done",
            ),
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
                "The most frequent phrases",
                "nlptools phrases tokens.txt | tr ' ' '\\n' | grep '._.' | sort | uniq -c | sort -nr | head",
            ),
            Example(
                "Random walks over a graph, as input for nlptools-train-w2v(1)",
                "nlptools walks --p 0.5 --q 2 --seed 1 edges.tsv | gzip > walks.gz",
            ),
            Example(
                "The number of visits to each node",
                "nlptools walks edges.tsv | tr ' ' '\\n' | sort | uniq -c | sort -nr | head",
            ),
            Example(
                "The nearest words of a few words, and an analogy",
                "printf '%s\\n' cat dog | nlptools neighbors vectors.bin -k 5\n"
                "echo 'king - man + woman' | nlptools neighbors vectors.bin -k 1 --method mul",
            ),
            Example(
                "One line per neighbor",
                "nlptools neighbors vectors.bin -k 5 --json words.txt |\n"
                "    jq -r '.query as $q | .neighbors[] | [$q, .[0], .[1]] | @tsv'",
            ),
            Example(
                "Words without a vector",
                "nlptools neighbors vectors.bin -k 1 words.txt | awk -F'\\t' 'NF == 1'",
            ),
            Example(
                "A large text file as a directory that opens at once, at a quarter of the size",
                "nlptools convert glove.840B.300d.txt glove/ --quantize int8\necho frog | nlptools neighbors glove/",
            ),
            Example(
                "The first 100,000 words, normalized to length 1, for another program",
                "nlptools convert vectors.bin small.txt --restrict 100000 --normalize",
            ),
        ],
    ),
    (
        "Vectors of words, nodes and items",
        [
            Example(
                "From text to vectors, with phrases as tokens; the same command continues after an interruption (status 75)",
                "nlptools tokenize -t words --lowercase corpus.gz | nlptools phrases > tokens.txt\n"
                "nlptools train-w2v --run run/ -o vectors.bin tokens.txt",
            ),
            Example(
                "Nearest neighbors, and evaluation on analogies and similarity",
                "echo new_york | nlptools neighbors vectors.bin\n"
                "nlptools eval-vectors vectors.bin --analogies questions-words.txt --pairs wordsim353.tsv",
            ),
            Example(
                "Comparison of skip-gram, CBOW and GloVe",
                "for model in skipgram cbow glove; do\n"
                "    nlptools train-w2v --model $model -o $model.bin tokens.txt\n"
                "done\n"
                "nlptools eval-vectors skipgram.bin cbow.bin glove.bin --analogies questions-words.txt --confidence",
            ),
            Example(
                "Character n-grams for unseen words, in a file that fastText and gensim load",
                "nlptools train-w2v --subwords 3-6 --format fasttext -o model.bin tokens.txt\n"
                "echo unfriendliest | nlptools neighbors model.bin",
            ),
            Example(
                "Vectors of graph nodes: random walks as text, without subsampling of frequent nodes",
                "nlptools walks --p 0.5 --q 2 edges.tsv |\n"
                "    nlptools train-w2v --window 10 --no-shrink-windows --sample 0 --min-count 1 -o nodes.bin\n"
                "echo 34 | nlptools neighbors nodes.bin -k 5",
            ),
            Example(
                "Vectors of items in shopping baskets: lines of order, tab, item become one line per order; the window covers "
                "a whole order",
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
                "A map of the most frequent words as a page with search and neighbors",
                "nlptools project vectors.bin --method tsne --count 3000 -o map.html",
            ),
            Example(
                "More training on new text; new words are added",
                "nlptools train-w2v --init model.bin --subwords 3-6 --format fasttext -o newer.bin new.tokens",
            ),
        ],
    ),
    (
        "Line by line",
        [
            Example(
                "The least probable lines of a text first",
                "nlptools score lm/ --per line < text.txt | paste - text.txt | sort -n | head",
            ),
            Example(
                "A job array: each job translates a shard and continues where it stopped; the outputs concatenate",
                "#SBATCH --array=1-40\n"
                'nlptools generate en-de/ big.en --shard "$SLURM_ARRAY_TASK_ID/40" --skip-done '
                '-o "big.de.$(printf %02d "$SLURM_ARRAY_TASK_ID")"\n'
                "# when all have ended: cat big.de.?? > big.de",
            ),
            Example("On all cores", "parallel --pipe -k nlptools tokenize -t en.model < big.txt > big.tok"),
        ],
    ),
    (
        "On a cluster",
        [
            Example(
                "Stop before the time limit with a checkpoint, and requeue",
                "nlptools train-lm corpus.txt -t en.model -o lm/ --max-time 11h30m\n"
                '[ $? = 75 ] && scontrol requeue "$SLURM_JOB_ID"',
            ),
            Example(
                "The settings of a run in a file, and a run from the file",
                "nlptools train-lm corpus.txt -t en.model -o lm/ --lr 6e-4 --dump-config > run.toml\n"
                "nlptools train-lm corpus.txt --config run.toml",
            ),
        ],
    ),
]
