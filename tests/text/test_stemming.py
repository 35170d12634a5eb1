"""Porter's stems: the examples of the paper, step by step, and what was changed since."""

from __future__ import annotations

import pytest

from nlptools.text.stemming import stem


@pytest.mark.parametrize(
    ("words", "stems"),
    [
        ("caresses ponies ties caress cats", "caress poni tie caress cat"),
        ("feed agreed plastered bled motoring sing", "feed agre plaster bled motor sing"),
        ("conflated troubled sized hopping tanned falling", "conflat troubl size hop tan fall"),
        ("hissing fizzed failing filing", "hiss fizz fail file"),
        ("happy sky enjoy spy spied died flies dies", "happi sky enjoy spi spi die fli die"),
        ("relational conditional rational valency hesitancy", "relat condit ration valenc hesit"),
        ("digitizer conformably radically differently vilely", "digit conform radic differ vile"),
        ("vietnamization predication operator feudalism", "vietnam predic oper feudal"),
        ("decisiveness hopefulness callousness formality", "decis hope callous formal"),
        ("sensitivity sensibility fulfully geology theology", "sensit sensibl ful geolog theolog"),
        ("triplicate formative formalize electrical goodness", "triplic form formal electr good"),
        ("revival allowance inference airliner gyroscopic", "reviv allow infer airlin gyroscop"),
        ("adjustable defensible irritant replacement adjustment", "adjust defens irrit replac adjust"),
        ("dependent adoption homologous communism activate", "depend adopt homolog commun activ"),
        ("onion bowdlerize effective probate rate cease", "onion bowdler effect probat rate ceas"),
        ("controlling rolling", "control roll"),
        ("dying news proceed innings", "die news proceed inning"),
        ("a is by 2nd 1990s", "a is by 2nd 1990"),
        ("syzygy yyyy", "syzygi yyyi"),
    ],
)
def test_stems(words, stems):
    assert " ".join(map(stem, words.split())) == stems


def test_the_empty_word():
    assert stem("") == ""
