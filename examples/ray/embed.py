#!/usr/bin/env python3
"""Turn the rows of text, JSON lines or Parquet into vectors on the machines of a Ray cluster (pip install '.[ray]'):

    examples/ray/embed.py corpus.jsonl -m all-MiniLM-L6-v2 -o vectors --workers 8 --to parquet

Start it again after an interruption: complete parts are skipped. It ends with status 1 if rows have an error.
"""

import argparse
import sys

import ray

from nlptools import ray as jobs
from nlptools.errors import NlptoolsError


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("inputs", nargs="+")
    parser.add_argument("-m", "--model", required=True)
    parser.add_argument("-o", "--output", required=True, help="a directory that all machines see")
    parser.add_argument("--column", default="text", help="the key of the text")
    parser.add_argument("--to", default="jsonl", choices=("jsonl", "parquet"))
    parser.add_argument("--workers", type=int, default=2, help="actors, with a model each")
    parser.add_argument("--gpus", type=float, default=0, help="GPUs of each actor")
    parser.add_argument("--part-bytes", type=int, default=1 << 22)
    parser.add_argument("--address", help="of the Ray cluster; by default RAY_ADDRESS, else this machine alone")
    options = parser.parse_args()
    job = jobs.RayJob((options.column,), options.to, options.workers, gpus=options.gpus, part_bytes=options.part_bytes)
    ray.init(address=options.address, logging_level="WARNING", log_to_driver=False)  # messages would go to stdout
    try:
        counts = jobs.embed(options.inputs, options.output, options.model, job=job)
    except NlptoolsError as error:
        print(f"embed.py: {error}", file=sys.stderr)
        return error.exit_code
    print(f"{counts.rows} rows, {counts.errors} with errors, {counts.parts} parts, {counts.skipped} complete before")
    return 1 if counts.errors else 0


if __name__ == "__main__":
    sys.exit(main())
