#!/bin/bash
#SBATCH --job-name train --nodes 2 --ntasks-per-node 4 --gpus-per-task 1 --cpus-per-task 4
#SBATCH --time 12:00:00 --signal=TERM@300 --requeue --open-mode=append
# A language model on several nodes. SLURM sends SIGTERM five minutes before the time limit; the run saves a checkpoint and ends with
# status 75, and the job is queued again until the run is finished. Status 143: the signal came before the first step.
#   sbatch --export=ALL,CORPUS=corpus.txt,TOKENIZER=pieces.model,OUT=lm examples/slurm/train.sh
set -uo pipefail
srun nlptools train-lm "$CORPUS" -t "$TOKENIZER" -o "$OUT" --max-time 11h30m
status=$?
if [ "$status" = 75 ] || [ "$status" = 143 ]; then
  scontrol requeue "$SLURM_JOB_ID"
  exit 0
fi
exit "$status"
