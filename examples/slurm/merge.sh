#!/bin/bash
#SBATCH --job-name merge --cpus-per-task 1 --mem 1G
# One file of the parts that an array wrote, in order, after a check that it has a line for each line of the corpus.
#   sbatch --dependency=afterok:JOB --export=ALL,CORPUS=corpus.txt,PARTS=tokens,RESULT=tokens.txt examples/slurm/merge.sh
set -euo pipefail
export LC_ALL=C  # the order of the names
cat "$PARTS"/[0-9]* > "$RESULT.part"
lines=$(grep -c '' "$CORPUS" || true)
found=$(grep -c '' "$RESULT.part" || true)
if [ "$lines" != "$found" ]; then
  echo "$PARTS has $found lines, $CORPUS has $lines: a task has not ended" >&2
  exit 65
fi
mv "$RESULT.part" "$RESULT"
