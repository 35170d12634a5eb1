"""The suffix of a file name determines the layout of its records, for reading and for writing."""

from __future__ import annotations

from nlptools.errors import UsageError, display
from nlptools.files.compression import without_suffix

SUFFIXES = {
    ".csv": "csv",
    ".tsv": "table",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".npy": "npy",
    ".npz": "npz",
    ".json": "json",
    ".h5": "hdf5",
    ".hdf5": "hdf5",
    ".xlsx": "xlsx",
    ".ods": "ods",
    ".feather": "feather",
    ".arrow": "arrow",
}
TABLES = ("csv", "table", "jsonl", "parquet")  # layouts of records with columns


def suffix_of(path: str) -> str:
    """The suffix of `path` that names a layout, without one for compression; "" if there is none."""
    name = without_suffix(path).lower()
    return next((suffix for suffix in SUFFIXES if name.endswith(suffix)), "")


def named_layout(path: str) -> str:
    """The layout that the suffix of `path` names; "" if it names none."""
    return SUFFIXES.get(suffix_of(path), "")


# The layouts that each suffix allows, by what a command writes; "text" means lines, perhaps with tabs in them.
_FITTING = {
    "text": ("table",),
    "table": ("table",),
    "jsonl": ("jsonl", "json"),
    "json": ("json",),
    "csv": ("csv",),
    "npy": ("npy",),
    "hdf5": ("hdf5",),
}
_TITLES = {
    "text": "text (.txt, .tsv)",
    "table": "tab-separated fields (.tsv)",
    "jsonl": "JSON lines (.jsonl)",
    "json": "JSON (.json)",
    "csv": "CSV (.csv)",
    "npy": "an array (.npy)",
    "hdf5": "HDF5 (.hdf5)",
}


def check_output(path: str, layout: str) -> None:
    """Raise UsageError if the suffix of the output `path` names another layout than `layout`.

    `layout`: a key of `_FITTING`.
    """
    suffix = suffix_of(path)
    if suffix and SUFFIXES[suffix] not in _FITTING[layout]:
        raise UsageError(f"{display(path)}: the output is {_TITLES[layout]}, but the name ends with {suffix}")
