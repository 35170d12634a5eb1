"""Japanese and Korean tokenizers, and the warning of the others about such text."""

from __future__ import annotations

import time

import pytest

from nlptools.errors import Unavailable
from nlptools.metrics.translation.bleu import Bleu
from nlptools.metrics.translation.corpus import bleu
from nlptools.text import mecab
from nlptools.text.east_asian import tokenizer_for
from nlptools.text.tokenizer import load

TEXTS = {
    "ja-mecab": [
        "私はNew Yorkへ行きます。",
        "すもももももももものうち",
        "",
        "  猫が\u3000好き？ ",
        "12月3日（木）、3.5%",
    ],
    "ko-mecab": ["나는 서울에 갑니다.", "아버지가방에들어가신다", "", "  좋은 아침! ", "2024년 3월, 3.5%"],
}


@pytest.fixture(params=mecab.NAMES)
def name(request):
    try:
        mecab.signature(request.param)
    except Unavailable as error:
        pytest.skip(str(error))
    return request.param


def test_equal_to_sacrebleu(name):
    pytest.importorskip("sacrebleu")
    from sacrebleu.metrics import BLEU

    theirs = BLEU(tokenize=name)
    ours = load(name)
    assert [" ".join(ours.tokens(text)) for text in TEXTS[name]] == [
        " ".join(theirs.tokenizer(text).split()) for text in TEXTS[name]
    ]
    references = [text.replace("は", "が").replace("에", "의") for text in TEXTS[name]]
    score = theirs.corpus_score(TEXTS[name], [references])
    assert bleu(TEXTS[name], [references], tokenize=name).score == score.score
    assert dict(Bleu(tokenize=name).signature())["tok"] == dict(theirs.get_signature().info)["tok"]


def test_offsets_and_odd_text(name):
    tokenizer = load(name)
    for text in [*TEXTS[name], "a\0b", "a\nb\u2028c", "x" * 25_000]:
        assert [text[a:b] for a, b in tokenizer.offsets(text)] == tokenizer.tokens(text)
        assert "".join(tokenizer.tokens(text)) == "".join(text.replace("\0", "").split())
    assert tokenizer.tokens("\ud800") == ["?"]


def test_a_long_word_takes_linear_time(name):
    began = time.process_time()
    assert len("".join(load(name).tokens("ー" * 100_000))) == 100_000
    assert time.process_time() - began < 10


def test_without_the_package(monkeypatch, call):
    monkeypatch.setitem(mecab._LANGUAGES, "ja", mecab._Language("no_such_package", "no_such_dictionary", 1, "IPA"))
    mecab._tagger.cache_clear()
    done = call("tokenize", "-t", "ja-mecab", stdin="猫\n")
    assert done.code == 69 and "the tokenizer ja-mecab needs the package no_such_dictionary" in done.err
    assert "pip install '.[ja]'" in done.err
    with pytest.raises(Unavailable):
        Bleu(tokenize="ja-mecab")
    mecab._tagger.cache_clear()


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["The cat sat.", "日本"], None),
        ([], None),
        (["我们今天去北京。"], "zh"),
        (["今日は東京に行きます。"], "ja-mecab"),
        (["오늘 서울에 갑니다."], "ko-mecab"),
        (["", "  ", "カタカナ"], "ja-mecab"),
    ],
)
def test_the_tokenizer_for_a_text(lines, expected):
    assert tokenizer_for(lines) == expected


def test_other_tokenizers_warn(call, tmp_path):
    text = "我们今天去北京。\n" * 3
    (tmp_path / "ref").write_text(text)
    for name in ("words", "13a", "intl"):
        done = call("tokenize", "-t", name, stdin=text)
        assert done.err == (
            f"nlptools tokenize: warning: {name} does not split Chinese, Japanese and Korean; use zh or char\n"
        )
    assert call("tokenize", "-t", "zh", stdin=text).err == ""
    assert (
        "--tokenize 13a does not split Chinese, Japanese and Korean; use zh or char"
        in call("bleu", "ref", stdin=text).err
    )
    for args in (("--tokenize", "zh"), ("--force",)):
        assert call("bleu", "ref", *args, stdin=text).err == ""
