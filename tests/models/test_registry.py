"""The table of architectures: every row leads to classes that do what their family asks for."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest
from conftest import environment

from nlptools.errors import BundleError
from nlptools.models import registry
from nlptools.models.huggingface import directories

MEMBERS = {
    registry.LANGUAGE: ("start", "states", "initialize", "forward", "runs_in_16_bits", "streams"),
    registry.ENCODER_DECODER: ("encode", "initialize", "forward", "runs_in_16_bits"),
}


@pytest.mark.parametrize("name", registry.ARCHITECTURES)
def test_a_row_leads_to_a_model_and_its_sizes(name: str) -> None:
    row, sizes = registry.find(name), registry.config_class(name)
    assert row.name == name and dataclasses.is_dataclass(sizes) and callable(sizes.least_weights)
    assert set(MEMBERS.get(row.family, ())) <= set(dir(registry.model_class(name)))
    assert row.family not in MEMBERS or callable(sizes.from_options)


def test_names_are_those_of_a_family_in_order() -> None:
    assert registry.names(registry.LANGUAGE)[:5] == ("transformer", "modern", "rnn", "lstm", "gru")
    options = [registry.find(name).option for name in registry.names(registry.ENCODER_DECODER)]
    assert options == ["transformer", "rnn", "convolution"]
    assert registry.names("nothing") == ()


def test_an_unknown_architecture_is_refused_with_a_guess() -> None:
    with pytest.raises(
        BundleError, match=r"unknown architecture 'lstn' \(did you mean lstm\? known: transformer, modern, rnn, lstm,"
    ):
        registry.model_class("lstn")
    with pytest.raises(
        BundleError, match=r"'nlptools-nothing' is not supported, see the table of `nlptools help models`"
    ):
        directories.config_from_hf({"model_type": "nlptools-nothing"})


def test_the_table_is_read_without_torch() -> None:
    code = (
        "import sys; from nlptools.models import registry; print(len(registry.ARCHITECTURES), 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment())
    assert done.stdout == f"{len(registry.ARCHITECTURES)} False\n", done.stderr
