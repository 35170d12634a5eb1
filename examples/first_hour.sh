#!/usr/bin/env bash
# Forty commands of four people in their first hour: NLPTOOLS_DATA=DIR examples/first_hour.sh [OUT]
#
# DIR holds corpora in folders (its MANIFEST.tsv lists them): sst2, trec, sick, multi30k, conll2003, ud_ewt, ptb,
# eltec_eng_novels, enwiki_slice, tinyshakespeare, karate, analogies, wordsim, wmt17_en_de_systems, aeslc.
# Everything is written to OUT, by default a temporary directory. Each command is printed with OK or FAIL and its seconds;
# a failure shows the end of its messages, and the script goes on. It ends with a count, and with status 1 after a failure.
set -u
: "${NLPTOOLS_DATA:?names the folder of corpora}"
D=$(cd "$NLPTOOLS_DATA" && pwd) || exit 66
command -v nlptools > /dev/null || PATH=$(cd "$(dirname "$0")/../bin" && pwd):$PATH
out=${1:-$(mktemp -d)}
mkdir -p "$out" && cd "$out" || exit 73
export D
passed=0 failed=0

try() { # try COMMAND: run it in bash; a pipe closed by head is no failure
    local began=$SECONDS status
    bash -o pipefail -c "$1" > output.txt 2> messages.txt < /dev/null
    status=$?
    if [ $status = 0 ] || [ $status = 141 ]; then
        passed=$((passed + 1))
        printf 'OK   %3d s  %s\n' $((SECONDS - began)) "$1"
    else
        failed=$((failed + 1))
        printf 'FAIL %3d s  %s\n' $((SECONDS - began)) "$1"
        tail -n 3 messages.txt | sed "s/^/     status $status: /"
    fi
}

echo '--- a practitioner: labels, search'
# learn to tell good reviews from bad ones, without a pretrained model
try 'nlptools finetune --task classify --scratch bag --valid $D/sst2/dev.tsv -o sst2 $D/sst2/train.tsv'
# try two reviews of my own
try 'nlptools predict sst2 --text "a gripping , funny film" --text "dull and far too long"'
# label a file
try 'nlptools predict sst2 $D/sst2/dev.tsv | cut -f 1 > predicted.txt'
# precision and recall of each label, and the confusion matrix
try 'cut -f 2 $D/sst2/dev.tsv > gold.txt; nlptools evaluate -m accuracy --to report -r gold.txt predicted.txt'
# the same from a spreadsheet
try '(echo review,stars; head -n 2000 $D/sst2/train.tsv | tr -d \" | awk -F"\t" "{ print \"\\\"\" \$1 \"\\\",\" \$2 }") > reviews.csv
    nlptools finetune --task classify --scratch bag --text-column review --label-column stars -o reviews reviews.csv'
# sort questions into six types; the file is not all UTF-8
try 'nlptools finetune --task classify --scratch bag --encoding-errors replace -o trec $D/trec/train.txt'
# does one sentence follow from the other?
try 'nlptools finetune --task pair --scratch mean --label-column entailment_judgment --epochs 3 \
    --valid $D/sick/SICK_trial.txt -o sick $D/sick/SICK_train.txt'
# what is in that directory?
try 'nlptools describe sst2'
# an encoder of my own; so few steps only show how
try 'nlptools build-vocab --kind wordpiece --size 4000 --lowercase --max-lines 20000 -o pieces $D/multi30k/train.en
    nlptools pretrain-bert -t pieces --objective mlm --layers 2 --hidden 64 --heads 2 --steps 40 -o bert $D/multi30k/train.en'
# names in news, on top of it
try 'head -n 8000 $D/conll2003/eng.train > ner.txt
    nlptools finetune --task tag -m bert --epochs 1 --valid ner.txt -o names ner.txt'

echo '--- a linguist: words'
# novels, one sentence per line
try 'nlptools split $D/eltec_eng_novels/valid.txt > sentences.txt; head -n 3 sentences.txt'
# the most frequent words
try 'nlptools tokenize -t words --lowercase sentences.txt | tr " " "\n" | sort | uniq -c | sort -gr | head -n 20'
# words that belong together
try 'gzip -cd $D/eltec_eng_novels/train.txt.gz | head -n 20000 | nlptools tokenize -t words --lowercase |
    nlptools phrases --connectors english > tokens.txt; grep -o "[a-z]*_[a-z]*" tokens.txt | sort | uniq -c | sort -gr | head'
# word vectors
try 'nlptools train-w2v --epochs 2 -o vectors.bin tokens.txt'
# what is near a word, and in an analogy?
try 'nlptools neighbors vectors.bin -k 5 --text house --text "king - man + woman"'
# how many words, how many dimensions?
try 'nlptools describe vectors.bin'
# do they agree with what people say?
try 'nlptools eval-vectors vectors.bin --pairs $D/wordsim/wordsim353.tsv --analogies $D/analogies/questions-words.txt'
# a map to click through
try 'nlptools project vectors.bin -n 500 -o map.html'
# how similar are the sentences of a pair?
try 'tail -n +2 $D/sick/SICK_trial.txt | cut -f 2,3 | nlptools embed vectors.bin -t words --lowercase --similarity > cosines.txt'
# do the cosines rank the pairs as people do?
try 'tail -n +2 $D/sick/SICK_trial.txt | cut -f 4 > people.txt; nlptools evaluate -m spearman -r people.txt cosines.txt'

echo '--- a student: language models'
# which characters does Shakespeare need?
try 'nlptools build-vocab -t char -o characters.tsv $D/tinyshakespeare/input.txt; wc -l characters.tsv'
# a small Transformer on the whole file
try 'nlptools train-lm --document file -t char --vocab characters.tsv --layers 2 --hidden 64 --heads 2 --context 64 \
    --batch-size 16 --steps 150 -o shakespeare $D/tinyshakespeare/input.txt'
# let it write
try 'nlptools generate shakespeare --max-new-tokens 100 --text "ROMEO:"'
# a recurrent model of words, in the way of the Penn Treebank
try 'nlptools build-vocab -o ptb.tsv $D/ptb/ptb.train.txt
    head -n 4000 $D/ptb/ptb.train.txt | nlptools train-lm -t whitespace --vocab ptb.tsv --arch lstm --layers 1 --hidden 64 \
        --steps 60 --valid $D/ptb/ptb.valid.txt -o lstm'
# its perplexity, and how that is counted
try 'nlptools score lstm --per total $D/ptb/ptb.valid.txt'
# which word surprises it?
try 'nlptools score lstm --per token --text "the company said its profit rose"'
# the curves of both runs
try 'nlptools plot shakespeare lstm'
# a club that fell apart, as vectors of its members
try 'nlptools walks $D/karate/karate.edgelist |
    nlptools train-w2v --no-shrink-windows --sample 0 --min-count 1 --dim 16 -o club.bin; nlptools neighbors club.bin -k 3 --text 34'
# what else is there about word vectors?
try 'nlptools help word-vectors | head -n 20'
# the main options of a command, and an example
try 'nlptools generate -h'

echo '--- a data engineer: translations, files'
# one vocabulary for two languages
try 'nlptools build-vocab --kind unigram --coverage 1 --size 4000 -o shared.model $D/multi30k/train.en $D/multi30k/train.de'
# compressed text in, ids out
try 'gzip -cd $D/enwiki_slice/train.txt.gz | head -n 2000 | gzip | nlptools tokenize -t shared.model --to ids > ids.txt'
# a translator; so few steps only show how
try 'nlptools train-seq2seq -t shared.model --layers 1 --hidden 64 --heads 2 --steps 30 --source $D/multi30k/train.en \
    --target $D/multi30k/train.de -o en-de'
# translate, and score
try 'head -n 50 $D/multi30k/test_2016_flickr.en | nlptools generate en-de --max-new-tokens 20 > translated.txt
    head -n 50 $D/multi30k/test_2016_flickr.de | nlptools bleu /dev/stdin -i translated.txt'
# two systems by three metrics
try 'cd $D/wmt17_en_de_systems; nlptools bleu newstest2017-ref.de -i newstest2017.online-A.0.de newstest2017.online-B.0.de -m bleu chrf ter'
# is the difference more than chance?
try 'cd $D/wmt17_en_de_systems
    nlptools bleu newstest2017-ref.de -i newstest2017.online-A.0.de newstest2017.online-B.0.de --paired-bs'
# e-mails in JSON lines: two sentences as their summary
try 'nlptools tokenize -t words --text-column text $D/aeslc/dev.jsonl | nlptools extract --sentences 2 > summaries.txt'
# vectors for another program, a quarter of the size
try 'nlptools convert vectors.bin vectors.vec && nlptools convert vectors.bin small --quantize int8'
# the lines most similar to a query, in a text that has no index
try 'nlptools neighbors vectors.bin --corpus sentences.txt -k 3 --text "the door was open"'
# the settings of a run in a file
try 'nlptools train-lm -t shared.model --layers 2 -o other --dump-config text.txt > run.toml; cat run.toml'

printf '%d of %d commands succeeded; their files are in %s\n' "$passed" $((passed + failed)) "$out"
[ "$failed" = 0 ]
