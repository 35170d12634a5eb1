"""Directories are replaced whole or not at all, and only those of their own kind."""

from __future__ import annotations

import pytest

from nlptools.errors import OutputError
from nlptools.files import whole_directory


def is_kind(path):
    return (path / "mark").exists()


def test_a_directory_appears_when_it_is_complete(tmp_path):
    target = tmp_path / "a"
    with whole_directory.replacing(str(target)) as folder:
        (folder / "mark").write_text("1")
        assert not target.exists()
    with whole_directory.replacing(str(target)) as folder:
        (folder / "mark").write_text("2")
        assert (target / "mark").read_text() == "1"
    assert (target / "mark").read_text() == "2" and [path.name for path in tmp_path.iterdir()] == ["a"]


def test_an_error_leaves_what_was_there(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a/mark").write_text("1")
    with pytest.raises(KeyError), whole_directory.replacing(str(tmp_path / "a")):
        raise KeyError
    with (
        pytest.raises(OutputError, match=r"[Nn]o such file"),
        whole_directory.replacing(str(tmp_path / "x/a")),
    ):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["a"] and (tmp_path / "a/mark").read_text() == "1"


def test_only_directories_of_the_kind_are_replaced(tmp_path):
    target = tmp_path / "a"
    whole_directory.check_target(str(target), "marks", is_kind, force=False)
    target.mkdir()
    whole_directory.check_target(str(target), "marks", is_kind, force=False)
    (target / "thesis.tex").write_text("all my work")
    with pytest.raises(OutputError, match="exists"):
        whole_directory.check_target(str(target), "marks", is_kind, force=False)
    with pytest.raises(OutputError, match="something other than marks"):
        whole_directory.check_target(str(target), "marks", is_kind, force=True)
    (target / "mark").write_text("")
    whole_directory.check_target(str(target), "marks", is_kind, force=True)
    with pytest.raises(OutputError, match="is a file, expected a directory of marks"):
        whole_directory.check_target(str(target / "mark"), "marks", is_kind, force=True)
