"""Values of files: one spelling and one key for equal values, whatever their types."""

import json
from decimal import Decimal

import pytest

from nlptools.formats import values


@pytest.mark.parametrize(
    "equal",
    [
        (1, 1.0, Decimal("1.00"), "1", "1.0", "1.000"),
        (0, -0.0, "0", "-0", "-0.0"),
        (10**22, 1e22, "1e+22", json.dumps(1e22), str(10**22)),
        (2**63, float(2**63), str(2**63)),
        (1e-7, "1e-07", Decimal("1e-7"), "1.0e-07"),
        (True, "true", "True", "TRUE"),
        (Decimal("12345678901234567890123456789012345678.0"), "12345678901234567890123456789012345678"),
    ],
)
def test_equal_values_have_one_key(equal: tuple[object, ...]) -> None:
    assert len({values.key(values.text(value)) for value in equal}) == 1


def test_codes_and_versions_are_text() -> None:
    codes = [
        "3.1",
        "3.10",
        "007",
        "7",
        "1e5",
        "100000",
        ".5",
        "0.5",
        "1.",
        "1",
        "+1",
        "１.0",
        "1_0",
        "10",
        "yes",
        "Yes",
    ]
    assert [values.key(code) for code in codes] == codes


def test_true_is_one_wherever_only_these_labels_occur() -> None:
    names, gold, predicted = values.compared(["1", "0", "true", "0"], ["True", "false", "1", "1.0"])
    assert gold == ["1", "0", "1", "0"] and predicted == ["1", "0", "1", "1"]
    assert names["true"] == names["1"] == "1"
    names, _, _ = values.compared(["1"], ["1"])
    assert names == {"1": "1", "true": "1"}  # a label that does not occur keeps the spelling of the user
    _, gold, predicted = values.compared(["1", "true", "2"], ["true", "1", "2.0"])
    assert (gold, predicted) == (["1", "true", "2"], ["true", "1", "2"])
