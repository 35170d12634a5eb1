"""Text to ids for pretraining: speed compared with tokenizers.

    NLPTOOLS_DATA=DIR python benchmarks/spooling_speed.py [TEXT] [--tokenizer PATH] [--megabytes N] [--rounds N]

TEXT has one sentence per line, by default articles of Wikipedia; it is repeated up to so many megabytes. PATH is a
tokenizer.json or a directory that holds one, by default all-MiniLM-L6-v2's. The other side is `encode_batch` of the tokenizers
package on the same lines, 1,000 at a time and all at once, in as many threads as it likes, which leaves its ids in memory as
objects; ours also reads, finds documents, counts, writes and maps the files.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import samples
from side_by_side import Job, bench, read, separate


def main() -> None:
    with bench(__doc__, "/text?", tokenizer="", megabytes=50.0) as run:
        chosen, text = run.options, run.folder / "text"
        source, most = chosen.text or samples.wikipedia(run.folder / "articles"), int(chosen.megabytes * 1e6)
        data = source.read_bytes().rstrip(b"\n") + b"\n\n"
        data *= most // len(data) + 1
        text.write_bytes(data[: data.index(b"\n", min(most, len(data) - 1)) + 1])
        tokenizer = Path(chosen.tokenizer or samples.minilm())
        sides = {
            "tokenizers, encode_batch of 1,000 lines": separate(theirs, tokenizer, text, 1000),
            "tokenizers, encode_batch of all lines": separate(theirs, tokenizer, text, 0),
            "nlptools, ids on disk": separate(ours, tokenizer, text, chosen.threads),
        }
        run.compare(f"text to ids, {text.stat().st_size / 1e6:.0f} MB, {chosen.threads} threads", "MB/s", sides)


def theirs(tokenizer: Path, text: Path, size: int) -> Job:
    """Megabytes of `encode_batch`."""
    import tokenizers

    path = tokenizer / "tokenizer.json" if tokenizer.is_dir() else tokenizer
    loaded, lines = tokenizers.Tokenizer.from_file(str(path)), [line for line in read(text) if line]

    def job() -> float:
        for start in range(0, len(lines), size or len(lines)):
            batch = lines[start : start + (size or len(lines))]
            [row.ids for row in loaded.encode_batch(batch, add_special_tokens=False)]
        return text.stat().st_size / 1e6

    return job


def ours(tokenizer: Path, text: Path, threads: int) -> Job:
    """Megabytes of what `pretrain-bert` does to its text."""
    from nlptools.corpora import documents
    from nlptools.files import streams
    from nlptools.text import tokenizer as tokenizers

    loaded = tokenizers.load(str(tokenizer))

    def job() -> float:
        with tempfile.TemporaryDirectory() as directory:
            blocks = streams.all_blocks([str(text)], "strict")
            documents.spool(blocks, Path(directory) / "train", loaded, longest=125, threads=threads)
        return text.stat().st_size / 1e6

    return job


if __name__ == "__main__":
    main()
