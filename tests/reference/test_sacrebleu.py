"""BLEU equals sacrebleu's: the score to the last bit, and the printed line."""

from __future__ import annotations

import hashlib
import io
import random
from itertools import product

import numpy as np
import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from nlptools import __version__
from nlptools.metrics import significance
from nlptools.metrics.translation.bleu import Bleu
from nlptools.metrics.translation.chrf import Chrf
from nlptools.metrics.translation.corpus import bleu
from nlptools.metrics.translation.metric import corpus_evaluation
from nlptools.metrics.translation.ter import Ter
from nlptools.text.mteval import split_13a
from tests.real_data import published

sacrebleu = pytest.importorskip("sacrebleu")
pytestmark = pytest.mark.reference

WORDS = [
    "the",
    "The",
    "cat",
    "sat",
    "on",
    "a",
    "mat",
    ".",
    "3.5",
    "1,000",
    "x-ray",
    "don't",
    "(see",
    "„Hut“",
    "ü",
    "日本",
]
QUIRKS = "ab01 \t.,,..--/\\&;:!?\"'()[]{}<>~^@#$%*+=_`|äß„“–…\u00a0\u3000\u2028\x1c\x0b\r\n日"
TOKENIZERS = ["13a", "intl", "zh", "char", "none"]
SMOOTHINGS = [("exp", None), ("floor", None), ("floor", 0.5), ("add-k", None), ("add-k", 0.3), ("none", None)]


def segments(rng, count=60, words=WORDS):
    return [" ".join(rng.choices(words, k=rng.choice([0, 1, 2, 3, 5, 12, 40]))) for _ in range(count)]


def ragged(rng, references):
    """`references`, some of which are not there; the first segment has them all."""
    rows = [[text if i == keep or rng.random() < 0.6 else None for i, text in enumerate(row)]
            for row in zip(*references) for keep in [rng.randrange(len(row))]]  # fmt: skip
    rows[0] = [reference[0] for reference in references]  # sacrebleu looks at it to see what it got
    return [list(reference) for reference in zip(*rows)]


def check(hypotheses, references, tokenize="13a", order=4, **options):
    """Compare everything that a score consists of."""
    theirs_metric = sacrebleu.BLEU(
        tokenize=tokenize,
        max_ngram_order=order,
        smooth_method=options.get("smooth", "exp"),
        **{k: v for k, v in options.items() if k != "smooth"},
    )
    theirs = theirs_metric.corpus_score(hypotheses, references)
    ours = bleu(hypotheses, references, tokenize=tokenize, order=order, **options)
    assert ours.score == theirs.score  # equal, not about equal
    assert list(ours.precisions) == theirs.precisions
    assert (list(ours.counts), list(ours.totals)) == (theirs.counts, theirs.totals)
    assert (ours.bp, ours.sys_len, ours.ref_len) == (theirs.bp, theirs.sys_len, theirs.ref_len)
    signature = str(theirs_metric.get_signature())
    extra = f"|order:{order}" if order != 4 else ""  # which sacrebleu does not tell
    signature = signature.replace(f"|version:{sacrebleu.__version__}", f"{extra}|version:nlptools-{__version__}")
    for width in (1, 2, 6):
        assert ours.line(width) == theirs.format(width=width, signature=signature)


@pytest.mark.sampled(20)
@pytest.mark.parametrize("tokenize", TOKENIZERS)
@pytest.mark.parametrize("num_references", [1, 2, 3, 4])
@pytest.mark.parametrize("seed", range(3))
def test_random_segments(seed, num_references, tokenize):
    rng = random.Random(seed)
    references = [segments(rng) for _ in range(num_references)]
    check(segments(rng), references, tokenize)
    check(segments(rng), ragged(rng, references), tokenize)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("order", range(1, 7))
@pytest.mark.parametrize(("smooth", "value"), SMOOTHINGS)
def test_options(smooth, value, order):
    rng = random.Random(order)
    for lowercase, effective, tokenize in product([False, True], [False, True], ["13a", "char"]):
        options = {"smooth": smooth, "smooth_value": value, "lowercase": lowercase, "effective_order": effective}
        for size in (1, 2, 20):
            references = [segments(rng, size), segments(rng, size)]
            check(segments(rng, size), references, tokenize, order, **options)
            check(segments(rng, size), ragged(rng, references), tokenize, order, **options)


@pytest.mark.parametrize(("smooth", "value"), SMOOTHINGS)
def test_single_segments(smooth, value):
    rng = random.Random(4)
    theirs = sacrebleu.BLEU(smooth_method=smooth, smooth_value=value, effective_order=True)
    ours = Bleu(smooth=smooth, smooth_value=value, effective_order=True)
    hypotheses, *references = (segments(rng, 150) for _ in range(3))
    table = ours.statistics(hypotheses, references)
    for row, hypothesis, *compared in zip(table, hypotheses, *references, strict=True):
        assert ours.score(row).score == theirs.sentence_score(hypothesis, compared).score


def test_pieces_of_a_model(english, tmp_path):
    sentencepiece = pytest.importorskip("sentencepiece")
    writer = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(english[:800]), model_writer=writer, vocab_size=300, minloglevel=2
    )
    (tmp_path / "my.model").write_bytes(writer.getvalue())
    processor = sentencepiece.SentencePieceProcessor(model_proto=writer.getvalue())
    rng = random.Random(2)
    lines = [*english[:200], "", "日本", "..", "\u00a0x"]
    texts = [[" ".join(rng.sample(line.split(), len(line.split()))) for line in lines], lines]
    pieces = [[" ".join(tokens) for tokens in processor.encode(text, out_type=str)] for text in texts]
    theirs = sacrebleu.BLEU(tokenize="none").corpus_score(pieces[0], pieces[1:])
    ours = bleu(texts[0], texts[1:], tokenize=str(tmp_path / "my.model"))
    assert (ours.score, list(ours.counts), list(ours.totals)) == (theirs.score, theirs.counts, theirs.totals)
    assert f"|tok:spm-{hashlib.sha256(writer.getvalue()).hexdigest()}|" in ours.signature


@pytest.mark.sampled(2)
@pytest.mark.parametrize("tokenize", TOKENIZERS)
def test_english(english, tokenize):
    rng = random.Random(7)
    lines = english[:1500]
    noisy = []
    for line in lines:
        words = line.split()
        if len(words) > 2:
            i = rng.randrange(len(words))
            words[i : i + 2] = reversed(words[i : i + 2])
            del words[rng.randrange(len(words))]
        noisy.append(" ".join(words))
    check(noisy, [lines], tokenize)
    check(lines, [noisy, lines[::-1]], tokenize, lowercase=True)


PAIRS = [
    (Bleu(), lambda: sacrebleu.BLEU()),
    (Bleu(smooth="add-k", order=3), lambda: sacrebleu.BLEU(smooth_method="add-k", max_ngram_order=3)),
    (Bleu(smooth="floor", effective_order=True), lambda: sacrebleu.BLEU(smooth_method="floor", effective_order=True)),
    (Bleu(smooth="none"), lambda: sacrebleu.BLEU(smooth_method="none")),
    (Chrf(), lambda: sacrebleu.CHRF()),
    (Chrf(word_order=2, eps_smoothing=True), lambda: sacrebleu.CHRF(word_order=2, eps_smoothing=True)),
    (Ter(), lambda: sacrebleu.TER()),
]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("resamples", [2, 39, 120])
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: str(pair[0]))
def test_intervals_and_paired_tests(pair, resamples):
    from sacrebleu.significance import PairedTest

    ours, make = pair
    rng = random.Random(1)

    def short():  # TER takes sacrebleu long
        return [" ".join(line.split()[:7]) for line in segments(rng, 40)]

    references = [short(), short()]
    systems = [
        [line if rng.random() < share else other for line, other in zip(references[0], short())]
        for share in (0.4, 0.5, 0.45, 0.9)
    ]
    evaluations = [
        corpus_evaluation(ours, ours.statistics(system, references), precision=np.float32) for system in systems
    ]
    theirs = make().corpus_score(systems[0], references, n_bootstrap=resamples)
    (found,) = significance.results(evaluations[0], resamples)
    assert (found.value, found.mean, found.ci) == (theirs.score, theirs._mean, theirs._ci)
    runs = {"bs": significance.paired_bootstrap, "ar": significance.paired_randomization}
    for kind, run in runs.items():
        named = [(str(i), system) for i, system in enumerate(systems)]
        _, columns = PairedTest(named, {"x": make()}, references, kind, resamples)()
        for result, expected in zip(run(evaluations, resamples), columns[ours.name], strict=True):
            assert (result.value, result.p_value) == (expected.score, expected.p_value)
            assert (result.mean, result.ci) == (expected.mean, expected.ci)


@pytest.mark.parametrize(
    ("hypotheses", "references"),
    [
        (["a b c d"], [["a b c d"]]),
        (["a b c"], [["a b c"]]),
        (["a"], [["a"]]),
        (["a"], [["b"]]),
        ([""], [[""]]),
        (["", "a b c d e"], [["x", ""], ["", "a b c d e"]]),
        (["a b c d e f"], [["a b c d"], ["a b c d e f g h"]]),
        (["the the the the the"], [["the cat the"], ["the the the mat"]]),
        (["1990. 3,a ... 1,000-2,000 a..5 7..5 7...5 .,5 5.,5"], [["1990 . 3 , a 1,000 - 2,000 a..5 .5 . , 5"]]),
        (["&quot;x&amp;lt;&gt;&apos; <skipped>y a\u00a0b"], [["\"x&lt;> ' y a b"]]),
        (["x \r y", "trailing \x1f ", "end-\n", "a-\nb"], [["x y", "trailing", "end -", "ab"]]),
        (["no match at all here"] * 3, [["völlig anders als jenes dort"] * 3]),
    ],
)
@pytest.mark.parametrize("tokenize", TOKENIZERS)
def test_corner_cases(hypotheses, references, tokenize):
    check(hypotheses, references, tokenize)


@settings(max_examples=examples(1500), deadline=None)
@given(st.text(st.sampled_from(QUIRKS), max_size=16))
def test_13a_of_quirks(text):
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    assert split_13a([text]) == [Tokenizer13a()(text).split()]


@settings(max_examples=examples(500), deadline=None)
@given(st.lists(st.text(st.sampled_from("a5.,- "), max_size=10), min_size=1, max_size=8))
def test_13a_of_runs_of_points(lines):
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    assert split_13a(lines) == [Tokenizer13a()(line).split() for line in lines]


@settings(max_examples=examples(500), deadline=None)
@given(st.text(max_size=30))
def test_13a_of_any_text(text):
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    assert split_13a([text]) == [Tokenizer13a()(text).split()]


def test_13a_of_every_character():
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    lines = [f"a{c}5{c}{c}b" for c in map(chr, range(0x11000)) if not 0xD800 <= ord(c) < 0xE000 and c != "\n"]
    theirs = Tokenizer13a()
    assert split_13a(lines) == [theirs(line).split() for line in lines]


# -- published figures -------------------------------------------------------------------------------------------------


def test_the_example_of_sacrebleus_documentation():
    references = [
        ["The dog bit the man.", "It was not unexpected.", "The man bit him first."],
        ["The dog had bit the man.", "No one was surprised.", "The man had bitten the dog."],
    ]
    hypotheses = ["The dog bit the man.", "It wasn't surprising.", "The man had just bitten him."]
    scores = [bleu(hypotheses, references, order=order).score for order in range(1, 7)]
    assert scores == pytest.approx([77.65, 60.50, 53.93, 48.53, 46.14, 43.28], abs=0.005)
    assert bleu(hypotheses, references).score == pytest.approx(48.530827)
    assert bleu(hypotheses, references, smooth="none").score == pytest.approx(48.530827)
    assert bleu(hypotheses, references, tokenize="none").score == pytest.approx(49.1919566)
    assert bleu(hypotheses, references, tokenize="intl").score == pytest.approx(43.91623493)


WMT17 = {  # sacrebleu 2.6, and mteval-v13a.pl -c, which prints two decimals
    "C-3MA.4959": (22.674635039470754, 22.67),
    "FBK.4870": (26.3316213125408, 26.33),
    "LIUM-NMT.4900": (26.59580468309487, 26.6),
    "online-A.0": (20.796506153855994, 20.8),
    "online-B.0": (26.651046216335573, 26.65),
    "online-F.0": (15.451735600953818, 15.45),
    "uedin-nmt.4722": (28.301225088283296, 28.3),
}


def wmt17(name):
    folder = published("wmt17_en_de_systems")
    return (folder / f"newstest2017{name}.de").read_text(encoding="utf-8").split("\n")[:-1]


def test_figures_of_wmt17():
    reference = [wmt17("-ref")]
    for name, (exact, mteval) in WMT17.items():
        score = bleu(wmt17(f".{name}"), reference).score
        assert score == exact
        assert score == pytest.approx(mteval, abs=0.01)
    c3ma, lium, fbk, online_b = (
        wmt17(f".{name}") for name in ("C-3MA.4959", "LIUM-NMT.4900", "FBK.4870", "online-B.0")
    )
    assert bleu(c3ma, reference, tokenize="none").score == 17.72476584143154
    assert bleu(c3ma, reference, tokenize="intl").score == 23.09466181737169
    assert bleu(c3ma, reference, tokenize="char").score == 57.789511212553535
    assert bleu(c3ma, reference, lowercase=True).score == 23.174209081669847
    assert bleu(lium, reference, tokenize="none").score == 21.60976793975032
    assert bleu(lium, reference, tokenize="intl").score == 26.893513883179022  # mteval-v14.pl: 26.89
    assert bleu(lium, reference).counts == (36804, 19234, 11381, 6976)
    systems = [
        corpus_evaluation(Bleu(), Bleu().statistics(system, reference), precision=np.float32)
        for system in (lium, c3ma, fbk, online_b)
    ]
    (interval,) = significance.results(systems[1], 1000)
    assert (interval.mean, interval.ci) == (pytest.approx(22.668831, abs=1e-5), pytest.approx(0.5980700, abs=1e-5))
    p_values = [result.p_value for result in significance.paired_bootstrap(systems, 1000)[1:]]
    assert p_values == pytest.approx([0.000999, 0.0979020979, 0.3077], abs=1e-4)
    p_values = [result.p_value for result in significance.paired_randomization(systems[:3], 2000)[1:]]
    assert p_values[1] == pytest.approx(0.1949025487)


@pytest.mark.parametrize("tokenize", ["13a", "intl", "none"])
def test_translations_of_wmt17(tokenize):
    systems = [wmt17(f".{name}")[:600] for name in WMT17]
    for system in systems:
        check(system, [wmt17("-ref")[:600]], tokenize)
    check(systems[0], [wmt17("-ref")[:600], *systems[1:4]], tokenize)


def test_official_scores_of_wmt22():
    folder = published("wmt22")

    def lines(path):
        return (folder / path).read_text(encoding="utf-8").split("\n")[:-1]

    references = {c: lines(f"references/generaltest2022.en-de.ref.{c}.de") for c in "AB"}
    official = {}
    for row in (line.split("\t") for line in lines("automatic-scores.tsv")):
        if row[0] == "en-de":
            official[row[1], row[4]] = float(row[5])
    compared = 0
    for name in ("Online-A", "Online-B", "PROMT"):
        system = lines(f"system-outputs/generaltest2022.en-de.hyp.{name}.de")
        for kind, chosen in {"all": [*references.values()], "A": [references["A"]], "B": [references["B"]]}.items():
            for metric in (Bleu(), Chrf()):
                key = name, f"{type(metric).__name__.lower()}-{kind}"
                if key in official:
                    score = metric.score(metric.statistics(system, chosen).sum(axis=0)).score
                    assert score == pytest.approx(official[key], abs=1e-9), key
                    compared += 1
    assert compared >= 12
