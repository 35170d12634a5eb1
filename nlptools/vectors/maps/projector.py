"""A directory for the TensorFlow Embedding Projector: what TensorBoard and its web page load.

`tensors.tsv` has a vector per line, `metadata.tsv` a word per line (with groups two columns and a header, as the projector
requires), `projector_config.pbtxt` names both files for TensorBoard. The projector drops lines of white space and does not
decode escapes, so words of white space are written as their code points.
"""

from __future__ import annotations

from pathlib import Path

from nlptools.files import atomic, whole_directory
from nlptools.files.line_records import escape
from nlptools.files.streams import LineWriter
from nlptools.vectors.maps.points import Points

TENSORS, METADATA, CONFIG = "tensors.tsv", "metadata.tsv", "projector_config.pbtxt"
_CONFIG = f'embeddings {{\n  tensor_name: "vectors"\n  tensor_path: "{TENSORS}"\n  metadata_path: "{METADATA}"\n}}\n'


def check_target(path: str, force: bool) -> None:
    """Raise OutputError unless a directory can be written at `path`; see `whole_directory.check_target`."""
    whole_directory.check_target(path, "files of the projector", _holds_projector, force=force)


def _holds_projector(path: Path) -> bool:
    return {entry.name for entry in path.iterdir()} == {TENSORS, METADATA, CONFIG}


def write(points: Points, path: str, *, force: bool = False) -> None:
    """Write a directory, whole or not at all.

    Raises:
        OutputError: see `check_target`.
        StreamError: a write failed.
    """
    check_target(path, force)
    with whole_directory.replacing(path) as folder:
        with LineWriter(str(folder / TENSORS), layout=None) as out:
            size = max(1, (1 << 18) // points.rows.shape[1])
            for start in range(0, len(points.words), size):
                rows = points.rows[start : start + size].tolist()
                out.write_lines(["\t".join(f"{x:.9g}" for x in row) for row in rows])
        with LineWriter(str(folder / METADATA)) as out:
            out.write_lines(_metadata(points))
        atomic.write_whole(folder / CONFIG, _CONFIG)


def _metadata(points: Points) -> list[str]:
    if not points.groups:
        return [label(word) for word in points.words]
    rows = [f"{label(word)}\t{escape(group)}" for word, group in zip(points.words, points.groups, strict=True)]
    return ["word\tgroup", *rows]


def label(word: str) -> str:
    """`word` as a line that the projector shows."""
    if word.strip().strip("\ufeff"):
        return escape(word)
    return f"({' '.join(f'U+{ord(c):04X}' for c in word) or 'empty'})"
