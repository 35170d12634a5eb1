#!/bin/bash
#SBATCH --job-name tokenize --array=1-16 --cpus-per-task 1 --mem 1G --requeue --open-mode=append
# Tokenize a corpus: each task of the array writes the tokens of its part of the lines, and goes on after the lines that it has
# written when it is queued again.
#   sbatch --export=ALL,CORPUS=corpus.txt,TOKENIZER=pieces.model,OUT=tokens examples/slurm/tokenize.sh
set -euo pipefail
mkdir -p "$OUT"
part=$(printf '%s/%05d.txt' "$OUT" "$SLURM_ARRAY_TASK_ID")
nlptools tokenize -t "$TOKENIZER" --shard array --skip-done -o "$part" "$CORPUS"
