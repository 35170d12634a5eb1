"""The layout of a file of records by the suffix of its name, for reading and for writing alike."""

from __future__ import annotations

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
