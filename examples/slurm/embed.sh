#!/bin/bash
#SBATCH --job-name embed --array=1-16 --gpus-per-task 1 --cpus-per-task 4 --mem 16G --requeue --open-mode=append
# Vectors of the lines of a corpus, as JSON lines: each task of the array embeds its part of the lines, and goes on after those that
# it has written when it is queued again.
#   sbatch --export=ALL,CORPUS=corpus.txt,MODEL=all-MiniLM-L6-v2,OUT=vectors examples/slurm/embed.sh
set -euo pipefail
mkdir -p "$OUT"
part=$(printf '%s/%05d.jsonl' "$OUT" "$SLURM_ARRAY_TASK_ID")
nlptools embed "$MODEL" --to jsonl --shard array --skip-done -o "$part" "$CORPUS"
