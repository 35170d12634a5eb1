"""A directory for the TensorFlow Embedding Projector: what TensorBoard and its web page load.

`tensors.tsv` has a vector on each line, `metadata.tsv` a word (no header; with groups two columns and a header, as the
projector wants it), `projector_config.pbtxt` names both for TensorBoard. The projector drops lines of white space alone
and turns nothing back, so that words of white space are shown by their code points.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from nlptools.errors import OutputError, display, reason
from nlptools.files import atomic
from nlptools.files.line_records import escape
from nlptools.files.streams import Output
from nlptools.vectors.maps.points import Points

TENSORS, METADATA, CONFIG = "tensors.tsv", "metadata.tsv", "projector_config.pbtxt"
_CONFIG = f'embeddings {{\n  tensor_name: "vectors"\n  tensor_path: "{TENSORS}"\n  metadata_path: "{METADATA}"\n}}\n'


def check_target(path: str, force: bool) -> None:
    """Raise OutputError unless a directory can be made at `path`: not there, empty, or ours and `force`."""
    target = Path(path)
    if target.exists() and not target.is_dir():
        raise OutputError(f"{display(path)}: is a file, expected a directory for the projector")
    if target.is_dir() and any(target.iterdir()):
        if not force:
            raise OutputError(f"{display(path)}: exists", hint="--force replaces it")
        if {entry.name for entry in target.iterdir()} != {TENSORS, METADATA, CONFIG}:
            raise OutputError(f"{display(path)}: holds something else than files of the projector; it is not replaced")


def write(points: Points, path: str, *, force: bool = False) -> None:
    """Write a directory, whole or not at all.

    Raises:
        OutputError: see `check_target`.
        StreamError: a write failed.
    """
    check_target(path, force)
    target = Path(path).absolute()
    try:
        made = Path(atomic.temporary_directory(target))
    except OSError as error:
        raise OutputError(f"{display(path)}: {reason(error)}") from None
    try:
        with Output(str(made / TENSORS)) as out:
            size = max(1, (1 << 18) // points.rows.shape[1])
            for start in range(0, len(points.words), size):
                rows = points.rows[start : start + size].tolist()
                out.write_lines(["\t".join(f"{x:.9g}" for x in row) for row in rows])
        with Output(str(made / METADATA)) as out:
            out.write_lines(_metadata(points))
        atomic.write_whole(made / CONFIG, _CONFIG)
        made.chmod(0o755)
        if target.exists():
            shutil.rmtree(target)
        made.replace(target)
        atomic.sync_directory(target.parent)
    except OSError as error:
        raise OutputError(f"{display(path)}: {reason(error)}") from None
    finally:
        atomic.discard(made)


def _metadata(points: Points) -> list[str]:
    if not points.groups:
        return [label(word) for word in points.words]
    rows = [f"{label(word)}\t{escape(group)}" for word, group in zip(points.words, points.groups, strict=True)]
    return ["word\tgroup", *rows]


def label(word: str) -> str:
    """`word` as a line that the projector shows and does not drop."""
    if word.strip().strip("\ufeff"):
        return escape(word)
    return f"({' '.join(f'U+{ord(c):04X}' for c in word) or 'empty'})"
