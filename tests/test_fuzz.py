"""The targets of fuzz/ on the files of their corpus, whole and changed: each is read or refused, whatever its bytes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from conftest import Record
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz.targets import CORPUS, TARGETS, run
from nlptools import messages
from nlptools.errors import NlptoolsError

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "25"))
ENDS = [
    b"",
    b"\n",
    b"\0",
    b"\xff",
    b"-1",
    b"1e999",
    b"nan",
    b"9" * 30,
    b"\xed\xa0\x80",
    b'"',
    b"{",
    b"\xff\xff\xff\x7f",
]
# where in the file, how many bytes go, and what comes
EDITS = st.lists(
    st.tuples(
        st.floats(0, 1),
        st.integers(0, 9),
        st.one_of(st.sampled_from(ENDS), st.binary(max_size=4)),
        st.sampled_from([1, 1, 1, 50]),
    ),
    min_size=1,
    max_size=4,
)


def edited(data: bytes, edits: list[tuple[float, int, bytes, int]]) -> bytes:
    for share, gone, come, times in edits:
        place = int(share * len(data))
        data = data[:place] + come * times + data[place + gone :]
    return data


@pytest.mark.parametrize("name", TARGETS)
def test_changed_files_are_read_or_refused(name: str, tmp_path: Path, record_property: Record) -> None:
    messages.settings.quiet = True
    seeds = [path.read_bytes() for path in sorted((CORPUS / name).iterdir())]
    assert seeds
    record_property("count", EXAMPLES + len(seeds))
    for seed in seeds:
        run(name, seed, tmp_path)

    @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(seeds), EDITS)
    def change(seed: bytes, edits: list[tuple[float, int, bytes, int]]) -> None:
        run(name, edited(seed, edits), tmp_path)

    change()


def test_each_target_reads_a_file_of_its_corpus(tmp_path: Path) -> None:
    """Otherwise it would refuse all bytes at the beginning."""
    for name, target in TARGETS.items():
        read = 0
        for seed in (CORPUS / name).iterdir():
            path = tmp_path / target.file
            path.parent.mkdir(exist_ok=True)
            path.unlink(missing_ok=True)
            path.write_bytes(seed.read_bytes())
            try:
                target.read(path)
                read += 1
            except NlptoolsError:
                pass
        assert read or name == "config", f"{name}: a description needs the weights of the model too"
