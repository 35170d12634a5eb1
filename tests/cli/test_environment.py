"""cli/environment.py: options in environment variables, and those before the command."""

from __future__ import annotations

import pytest
from conftest import Run


def test_a_variable_that_no_option_reads(run: Run) -> None:
    done = run("tokenize", "--text", "A b", env={"NLPTOOLS_TOKENIZE_LOWERCAS": "1", "NLPTOOLS_TRAIN_LM_ORDR": "3"})
    assert (done.code, done.text) == (0, "A b\n")
    assert done.err == (
        "nlptools tokenize: warning: no option reads the environment variable NLPTOOLS_TOKENIZE_LOWERCAS (did you mean"
        " NLPTOOLS_TOKENIZE_LOWERCASE?)\n"
    )
    done = run("tokenize", "--text", "A", env={"NLPTOOLS_LOWERCASE": "1", "NLPTOOLS_DATA": "x", "NLPTOOLS_DEBUG": "0"})
    assert done.err.count("warning") == 1 and "NLPTOOLS_LOWERCASE" in done.err


@pytest.mark.parametrize("variable", ["NLPTOOLS_CONVERT_FROM", "NLPTOOLS_CONVERT_SOURCE_FORMAT"])
def test_a_variable_has_the_name_of_the_flag(run: Run, variable: str) -> None:
    done = run("convert", "a", "b", "--dump-config", env={variable: "glove"})
    assert done.code == 0 and done.lines[0] == 'source_format = "glove"' and not done.err


def test_a_flag_in_a_configuration_file(run: Run, tmp_path) -> None:
    (tmp_path / "c.toml").write_text('from = "glove"\n')
    done = run("convert", "--config", "c.toml", "a", "b", "--dump-config")
    assert done.code == 0 and done.lines[0] == 'source_format = "glove"'
    (tmp_path / "c.toml").write_text("json = true\n")
    done = run("describe", "--config", "c.toml", "a")
    assert done.code == 2 and "no such option: json; --json is now --to json" in done.err


def test_an_option_before_the_command(run: Run) -> None:
    done = run("-q", "train-lm")
    assert done.code == 2 and "hint: options follow the command: nlptools train-lm -q\n" in done.err
