"""Text to ids for pretraining: speed compared with tokenizers.

    python benchmarks/spooling_speed.py TOKENIZER TEXT [--megabytes N] [--rounds N]

TOKENIZER is a tokenizer.json or a directory that holds one, TEXT one sentence per line; it is repeated up to so many
megabytes. The other side is `encode_batch` of the tokenizers package on the same lines, 1,000 at a time and all at once, in
as many threads as it likes, which leaves its ids in memory as objects; ours also reads, finds documents, counts, writes and
maps the files. Each side is a separate process; each round of ours includes everything but loading the tokenizer.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

import side_by_side

BATCH = 1000  # lines


def sample(path: Path, megabytes: float, out: Path) -> None:
    """Write so much text, repeated where the file has less."""
    data, most = path.read_bytes(), int(megabytes * 1e6)
    data = (data.rstrip(b"\n") + b"\n\n") * (most // max(1, len(data)) + 1)
    out.write_bytes(data[: data.index(b"\n", min(most, len(data) - 1)) + 1])


def theirs(tokenizer: str, text: Path, whole: bool) -> Callable[[], float]:
    """Megabytes per second of `encode_batch`."""
    import tokenizers

    path = Path(tokenizer)
    loaded = tokenizers.Tokenizer.from_file(str(path / "tokenizer.json" if path.is_dir() else path))
    lines = [line for line in text.read_text(encoding="utf-8").split("\n") if line]
    size = len(lines) if whole else BATCH

    def job() -> None:
        for start in range(0, len(lines), size):
            [row.ids for row in loaded.encode_batch(lines[start : start + size], add_special_tokens=False)]

    return lambda: text.stat().st_size / 1e6 / side_by_side.seconds(job)


def ours(name: str, text: Path) -> Callable[[], float]:
    """Megabytes per second of what `pretrain-bert` does to its text."""
    from nlptools.corpora import documents
    from nlptools.files import streams
    from nlptools.text import tokenizer

    loaded = tokenizer.load(name)
    threads = side_by_side.CORES

    def job() -> None:
        with tempfile.TemporaryDirectory() as directory:
            blocks = streams.all_blocks([str(text)], "strict")
            documents.spool(blocks, Path(directory) / "train", loaded, longest=125, threads=threads)

    return lambda: text.stat().st_size / 1e6 / side_by_side.seconds(job)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokenizer")
    parser.add_argument("text", type=Path)
    parser.add_argument("--megabytes", type=float, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--worker", metavar="SIDE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        kind = options.worker
        given = options.tokenizer, options.text
        side_by_side.serve(ours(*given) if kind == "ours" else theirs(*given, kind == "whole"))
        return
    print(side_by_side.machine())
    with tempfile.TemporaryDirectory() as directory:
        text = Path(directory) / "text"
        sample(options.text, options.megabytes, text)
        sides = {
            "tokenizers, encode_batch of 1,000 lines": "batches",
            "tokenizers, encode_batch of all lines": "whole",
            "nlptools, ids on disk": "ours",
        }
        workers = {
            name: side_by_side.Worker(__file__, kind, options.tokenizer, str(text)) for name, kind in sides.items()
        }
        title = f"text to ids, {text.stat().st_size / 1e6:.0f} MB, {side_by_side.CORES} cores"
        side_by_side.compare(title, "MB/s", workers, options.rounds)


if __name__ == "__main__":
    main()
