"""nlptools evaluate: every family of metrics worked out by hand, bad input, pipes, forms of the output."""

from __future__ import annotations

import gzip
import json

import pytest

from nlptools import __version__
from nlptools.cli.manual.command_pages import command_page
from nlptools.configs import bleu
from nlptools.configs import evaluate as settings
from nlptools.configs.metrics import AVERAGED, GROUPS
from tests.real_data import published

GOLD, PREDICTED = "1\n0\n1\n1\n", "1\n0\n0\n1\n"
FIVE = "a\nb\nc\na\nb\n"
FIVE_PREDICTED = "a\nb\nb\na\nc\n"  # a: 2 of 2; b: 1 of 2 and 1 of 2; c: 0 of 1 and 0 of 1
TAGS = "".join(
    f"{line}\n"
    for line in (
        "U.N. B-ORG B-ORG",
        "official O O",
        "Ekeus B-PER B-LOC",
        "",
        "to O O",
        "New B-LOC B-LOC",
        "York I-LOC O",
    )
)  # correct: ORG; found: ORG, LOC, LOC; wanted: ORG, PER, LOC
SQUAD = {
    "data": [
        {
            "paragraphs": [
                {
                    "qas": [
                        {"id": "q1", "answers": [{"text": "the black cat"}]},
                        {"id": "q2", "answers": [{"text": "Oslo"}, {"text": "in Oslo"}]},
                        {"id": "q3", "answers": []},
                    ]
                }
            ]
        }
    ]
}
SQUAD_11 = {"data": [{"paragraphs": [{"qas": SQUAD["data"][0]["paragraphs"][0]["qas"][:2]}]}]}
KEY, RESPONSE = (
    "".join(
        "\n".join([f"#begin document ({name})", *cells.split(), "#end document", ""])
        for name, cells in zip("ab", documents)
    )
    for documents in (("(0) (1 1) (0)", "(0) (0) (1) (1)"), ("(0) (1) - (0)", "(0) (0) - (0)"))
)
EXAMPLES = [
    ("f1", GOLD, PREDICTED),
    ("spearman", "1\n2\n3\n4\n", "3\n1\n2\n4\n"),
    ("entity-f1:f1", None, TAGS),
    ("tagging-accuracy", None, "a N N\nb V N\n\nc V V\n"),
    ("squad:f1", json.dumps(SQUAD_11, indent=1), json.dumps({"q1": "black dog", "q2": "in Oslo"})),
    ("lea", KEY, RESPONSE),
    ("rouge1", "a b\nc d\n", "a c\nc d\n"),
    ("bleu", "a b c d e\nc d e f g\n", "a b c d x\nc d e f g\n"),
    ("chrf", "a b\nc d\n", "a c\nc d\n"),
    ("perplexity:perplexity", None, "-1\t1\n-4\t2\n"),
]  # metric, gold, predicted: one of each family


@pytest.fixture
def write(tmp_path):
    """write("gold", "text") puts a file into the working directory of the commands."""

    def write(name, text):
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        return name

    return write


@pytest.fixture
def score(call, write):
    """score("f1", gold, predicted, options...) -> name -> value, of what is printed."""

    def score(metric, gold, predicted, *options):
        references = [] if gold is None else ["-r", write("gold", gold)]
        done = call("evaluate", "-m", metric, *references, "-w", "17", *options, stdin=predicted)
        assert (done.code, done.err) == (0, "")
        return {name: float(value) for name, value, *_ in (line.split("\t") for line in done.lines)}

    return score


# -- labels and numbers -----------------------------------------------------------------------------------------------


def test_the_columns(call, write):
    write("gold", GOLD)
    done = call("evaluate", "-m", "accuracy,f1", "-r", "gold", stdin=PREDICTED)
    made = f"labels:2|positive:1|unit:labels|version:nlptools-{__version__}"
    assert done.lines == [f"accuracy\t0.7500\t4\tlabels\t{made}", f"f1\t0.8000\t4\tlabels\t{made}"]
    assert (done.code, done.err) == (0, "")


def test_labels(score):
    # 3 of 4 right; of three 1s two are found, and no others
    found = score("accuracy,precision,recall,f1,support,mcc,balanced_accuracy", GOLD, PREDICTED)
    expected = {"accuracy": 0.75, "precision": 1, "recall": 2 / 3, "f1": 0.8, "support": 3, "balanced_accuracy": 5 / 6}
    assert found == pytest.approx({**expected, "matthews": (2 * 1 - 0) / (2 * 3 * 1 * 2) ** 0.5})
    assert score("precision,recall", GOLD, PREDICTED, "--positive", "0") == {"precision": 0.5, "recall": 1}


def test_averages(score):
    assert score("f1", FIVE, FIVE_PREDICTED, "--average", "macro") == {"f1_macro": 0.5}
    assert score("f1,recall", FIVE, FIVE_PREDICTED, "--average", "micro") == {"f1_micro": 0.6, "recall_micro": 0.6}
    assert score("F1-weighted,f1_macro", FIVE, FIVE_PREDICTED) == {"f1_weighted": 0.6, "f1_macro": 0.5}
    assert score("f1", FIVE, FIVE_PREDICTED, "--average", "none") == {"f1:a": 1, "f1:b": 0.5, "f1:c": 0}
    assert score("recall:b,support:a,accuracy", FIVE, FIVE_PREDICTED) == {
        "recall:b": 0.5, "support:a": 2, "accuracy": 0.6,
    }  # fmt: skip


def test_report_of_labels(call, write):
    """Every metric of labels gives the same report; it needs no positive label."""
    write("g", "a\nb\nb\nc\n")
    done = call("evaluate", "-m", "f1", "--to", "report", "-w", "2", "-r", "g", stdin="a\nb\na\na\n")
    assert done.lines == [
        "              precision    recall  f1-score   support",
        "",
        "           a       0.33      1.00      0.50         1",
        "           b       1.00      0.50      0.67         2",
        "           c       0.00      0.00      0.00         1",
        "",
        "    accuracy                           0.50         4",
        "   macro avg       0.44      0.50      0.39         4",
        "weighted avg       0.58      0.50      0.46         4",
        "",
        "gold \\ predicted  a  b  c",
        "a                 1  0  0",
        "b                 1  1  0",
        "c                 1  0  0",
    ]
    assert (
        call("evaluate", "-m", "acc", "mcc", "--to", "report", "-w", "2", "-r", "g", stdin="a\nb\na\na\n").lines
        == done.lines
    )
    tags = call("evaluate", "-m", "tagging-accuracy", "--to", "report", "-w", "2", stdin="a a\nb b\nb a\nc a\n")
    assert tags.lines == done.lines
    many = "".join(f"{i}\n" for i in range(1001))
    refused = call("evaluate", "-m", "accuracy", "--to", "report", "-r", write("many", many), stdin=many)
    assert refused.code == 2 and "--to report is for 1,000 labels at most" in refused.err


def test_each_label(score):
    """--average none: a value for each label, of every metric that is of one label."""
    assert score("f1,support", "a\na\nb\nc\n", "a\nb\nb\nc\n", "--average", "none") == pytest.approx(
        {"f1:a": 2 / 3, "f1:b": 2 / 3, "f1:c": 1, "support:a": 2, "support:b": 1, "support:c": 1}
    )


def test_confusion_matrix(call, write):
    write("gold", FIVE)
    done = call("evaluate", "-m", "accuracy,f1:b", "-r", "gold", "--confusion", stdin=FIVE_PREDICTED)
    table = ["gold \\ predicted  a  b  c", "a                 2  0  0", "b                 0  1  1"]
    assert done.lines[2:] == ["", *table, "c                 0  1  0"]
    done = call("evaluate", "-m", "pearson,accuracy", "-r", write("gold", GOLD), "--confusion", stdin=PREDICTED)
    assert (done.lines[2:], done.err) == (
        ["", "gold \\ predicted  0  1", "0                 1  0", "1                 1  2"],
        "",
    )
    done = call("evaluate", "-m", "sts-b", "-r", "gold", "--confusion", stdin=PREDICTED)
    assert len(done.lines) == 3 and "warning: there is no confusion matrix" in done.err


def test_numbers_and_labels_in_one_call(score):
    # deviations -1.5 -0.5 0.5 1.5 and 0.5 -1.5 -0.5 1.5: 2 of 5; one pair of six more agrees than not... 4 against 2
    found = score("accuracy,pearson,spearman,kendall", "1\n2\n3\n4\n", "3\n1\n2\n4\n")
    assert found == pytest.approx({"accuracy": 0.25, "pearson": 0.4, "spearman": 0.4, "kendall": 1 / 3})


def test_glue(score):
    assert score("mrpc", GOLD, PREDICTED) == pytest.approx({"mrpc:accuracy": 0.75, "mrpc:f1": 0.8, "mrpc:mean": 0.775})
    words = PREDICTED.replace("1", "equivalent").replace("0", "not_equivalent")
    assert score("glue:MRPC", GOLD, words) == score("mrpc", GOLD, PREDICTED)
    assert score("cola", GOLD, PREDICTED) == {"cola": pytest.approx(3**-0.5)}
    assert score("sts-b", "1\n2\n3\n4\n", "3\n1\n2\n4\n") == pytest.approx(
        {"sts-b:pearson": 0.4, "sts-b:spearman": 0.4, "sts-b:mean": 0.4}
    )
    assert score("sst2,mrpc:f1", GOLD, PREDICTED) == pytest.approx({"sst-2": 0.75, "mrpc:f1": 0.8})
    assert score("mnli-matched", "entailment\nneutral\n", "entailment\ncontradiction\n") == {"mnli-m": 0.5}


def test_columns_and_headers(score, call, write):
    gold = "id\tsentence\tlabel\n" + "".join(f"{i}\tsome 'quoted\" text\t{x}\n" for i, x in enumerate(GOLD.split()))
    predicted = "index\tprediction\n" + "".join(f"{i}\t{x}\n" for i, x in enumerate(PREDICTED.split()))
    columns = ("--gold-column", 3, "--gold-header", "--text-column", 2, "--header")
    assert score("accuracy", gold, predicted, *columns) == {"accuracy": 0.75}
    assert score("accuracy", gold, PREDICTED, *columns[:3]) == {"accuracy": 0.75}
    done = call("evaluate", "-m", "accuracy", "-r", "gold", "--text-column", 2, stdin="0\t1\n0\n1\t1\n1\t1\n")
    assert (done.code, done.out) == (65, b"")
    assert done.err == "nlptools evaluate: <stdin>:2: 1 column, expected at least 2\n"
    wrong = predicted.replace("2\t0", "2\t7")  # its fourth line
    write("gold.csv", 'text,label\n"a, b",1\nc,0\n"d\ne",0\nf,1\n')
    named = ("--gold-column", "label", "--text-column", "two")
    done = call(
        "evaluate", "-m", "accuracy", "-b", "-r", "gold.csv", *named, stdin="one\ttwo\na\t1\nb\t0\nc\t0\nd\t1\n"
    )
    assert done.text.split() == ["1.0000"], done.err
    done = call("evaluate", "-m", "accuracy", "-r", "gold", *columns, "--labels", "0,1", stdin=wrong)
    assert (done.code, done.err) == (
        65, "nlptools evaluate: <stdin>:4: label '7' is none of those declared: 0, 1\n",
    )  # fmt: skip


# -- tags -------------------------------------------------------------------------------------------------------------


def test_entities(score):
    expected = {"precision": 1 / 3, "recall": 1 / 3, "f1": 1 / 3, "accuracy": 4 / 6}
    assert score("entity-f1", None, TAGS) == pytest.approx({f"entity-f1:{k}": v for k, v in expected.items()})
    assert score("entity-f1:f1", None, TAGS, "--scheme", "iob2") == {"entity-f1:f1": pytest.approx(1 / 3)}
    assert score("entity_f1:macro_f1", None, TAGS, "--average", "macro") == {"entity-f1:macro_f1": pytest.approx(1 / 3)}
    by_type = score("entity-f1", None, TAGS, "--average", "none")
    assert {k: v for k, v in by_type.items() if "f1:f1:" in k} == {
        "entity-f1:f1:LOC": 0, "entity-f1:f1:ORG": 1, "entity-f1:f1:PER": 0,
    }  # fmt: skip
    assert score("entity-f1:f1:ORG", None, TAGS) == {"entity-f1:f1:ORG": 1}


def test_schemes_differ(score):
    # an I without B: an entity to conlleval, none to IOB2
    tags = "a I-X I-X\nb O O\nc S-Y S-Y\n".replace("S-Y", "B-Y")
    assert score("entity-f1:recall", None, tags, "--scheme", "conlleval") == {"entity-f1:recall": 1}
    gold = "a I-X\nb B-X\n"
    assert score("entity-f1:f1", gold, gold, "--scheme", "iob2") == {"entity-f1:f1": 1}
    bioes = "a S-X S-X\nb B-X B-X\nc E-X I-X\n"  # the second entity has no end
    assert score("entity-f1:recall", None, bioes, "--scheme", "bioes") == {"entity-f1:recall": 0.5}
    assert score("entity-f1:recall", None, "a X X\nb Y X\nc - -\n", "--raw", "--outside", "-") == {
        "entity-f1:recall": 0.5
    }


def test_tags_of_bioes_and_bilou_are_noticed(call):
    """Without --scheme: each count is that of the scheme that the warning names, and differs from that of conlleval."""
    bioes = "a B-X B-X\nb I-X E-X\nc E-X O\n\nd S-Y S-Y\ne S-Y S-Y\n"
    ends = "a B-X B-X\nb E-X I-X\n\nc B-Y B-Y\nd E-Y E-Y\n"  # the E is all that tells bioes from iob
    for scheme, tags in (("bioes", bioes), ("bioes", ends), ("bilou", bioes.replace("E-", "L-").replace("S-", "U-"))):
        noticed = call("evaluate", "-m", "entity-f1", stdin=tags)
        named = call("evaluate", "-m", "entity-f1", "--scheme", scheme, stdin=tags)
        old = call("evaluate", "-m", "entity-f1", "--scheme", "conlleval", stdin=tags)
        assert noticed.text == named.text != old.text and f"scheme:{scheme}" in noticed.text
        assert f"look like {scheme}" in noticed.err and not named.err and not old.err
    for tags in (TAGS, "a I-X I-X\nb E-X E-X\n"):  # iob, ioe: conlleval knows them
        done = call("evaluate", "-m", "entity-f1", stdin=tags)
        assert "scheme:conlleval" in done.text and not done.err
    mixed = call("evaluate", "-m", "entity-f1", stdin="a S-X S-X\nb U-X U-X\n")
    assert mixed.code == 0 and "scheme:conlleval" in mixed.text and "but not all" in mixed.err
    assert "look" not in call("evaluate", "-m", "entity-f1", "--raw", stdin="a S-X S-X\n").err


def test_two_files_of_tags_and_tagging_accuracy(score):
    gold = "".join(" ".join(line.split()[:2]) + "\n" for line in TAGS.split("\n"))
    predicted = "".join(" ".join(line.split()[::2]) + "\n" for line in TAGS.split("\n"))
    assert score("entity-f1:f1", gold, predicted) == {"entity-f1:f1": pytest.approx(1 / 3)}
    assert score("tagging-accuracy", gold, predicted) == {"tagging-accuracy": pytest.approx(4 / 6)}
    both = score("tagging-accuracy,entity-f1:accuracy", None, "-DOCSTART- O O\n\n" + TAGS, "--skip-docstart")
    assert both == pytest.approx({"tagging-accuracy": 4 / 6, "entity-f1:accuracy": 4 / 6})
    assert score("tagging-accuracy", None, "-DOCSTART- O O\n\n" + TAGS) == {"tagging-accuracy": pytest.approx(5 / 7)}


def test_each_type_of_entity(score):
    every = score("entity-f1", None, TAGS, "--average", "none")
    for kind in ("precision", "recall", "f1"):
        expected = {f"entity-f1:{kind}:{name}": every[f"entity-f1:{kind}:{name}"] for name in ("LOC", "ORG", "PER")}
        assert score(f"entity-f1:{kind}", None, TAGS, "--average", "none") == expected
    assert score("entity-f1:f1", None, TAGS, "--average", "macro") == {"entity-f1:macro_f1": pytest.approx(1 / 3)}
    assert score("entity-f1:accuracy", None, TAGS, "--average", "none") == {"entity-f1:accuracy": pytest.approx(4 / 6)}


def test_report_of_types(call):
    lines = call("evaluate", "-m", "entity-f1", "--to", "report", "--scheme", "lenient", stdin=TAGS).lines
    assert [line.split() for line in lines[2:5]] == [
        ["LOC", "0.0000", "0.0000", "0.0000", "1"],
        ["ORG", "1.0000", "1.0000", "1.0000", "1"],
        ["PER", "0.0000", "0.0000", "0.0000", "1"],
    ]
    assert lines[6].split() == ["micro", "avg", "0.3333", "0.3333", "0.3333", "3"]


def test_report_of_conlleval(call):
    done = call("evaluate", "-m", "entity-f1", "--to", "report", stdin=TAGS)
    assert done.lines == [
        "processed 6 tokens with 3 phrases; found: 3 phrases; correct: 1.",
        "accuracy:  66.67%; precision:  33.33%; recall:  33.33%; FB1:  33.33",
        "              LOC: precision:   0.00%; recall:   0.00%; FB1:   0.00  2",
        "              ORG: precision: 100.00%; recall: 100.00%; FB1: 100.00  1",
        "              PER: precision:   0.00%; recall:   0.00%; FB1:   0.00  0",
    ]


# -- answers ----------------------------------------------------------------------------------------------------------


def test_squad(score, call, write):
    answers = json.dumps({"q1": "black dog", "q2": "in Oslo"})
    found = score("squad", json.dumps(SQUAD_11), answers)
    assert found == pytest.approx({"squad:exact_match": 50, "squad:f1": 75})  # one of two words, both ways
    done = call("evaluate", "-m", "squad", "-r", write("gold", json.dumps(SQUAD_11)), "--to", "report", stdin=answers)
    assert done.lines == ['{"exact_match": 50.0, "f1": 75.0}']


def test_squad_2_with_thresholds(score, call, write):
    gold, answers = json.dumps(SQUAD), json.dumps({"q1": "black cat", "q2": "Bergen", "q3": "cat"})
    found = score("squad2", gold, answers)
    assert found == pytest.approx(
        {"squad2:exact": 100 / 3, "squad2:f1": 100 / 3, "squad2:HasAns_exact": 50, "squad2:HasAns_f1": 50,
         "squad2:NoAns_exact": 0, "squad2:NoAns_f1": 0}
    )  # fmt: skip
    write("odds", json.dumps({"q1": -3, "q2": 0.5, "q3": 2}))
    # taken as unanswered above 0.5: the wrong answer of q3 becomes right
    assert score("squad2:exact,squad2:best_f1", gold, answers, "--null-odds", "odds") == pytest.approx(
        {"squad2:exact": 200 / 3, "squad2:best_f1": 200 / 3}
    )
    assert score("squad2:exact", gold, answers, "--null-odds", "odds", "--threshold", "-4") == {
        "squad2:exact": pytest.approx(100 / 3)
    }
    done = call("evaluate", "-m", "squad2", "-r", "gold", "--null-odds", "odds", stdin=answers)
    assert "threshold:1|best_exact_thresh:-3|best_f1_thresh:-3|" in done.lines[0]
    done = call("evaluate", "-m", "squad2", "-r", "gold", "--null-odds", "odds", "--to", "report", stdin=answers)
    assert done.lines[0] == "{" and json.loads(done.text)["best_exact_thresh"] == -3


def test_missing_answers_are_told(call, write):
    write("gold", json.dumps(SQUAD_11))
    done = call("evaluate", "-m", "squad:exact_match", "-b", "-r", "gold", stdin='{"q2": "Oslo", "q9": ""}')
    assert (done.code, done.lines) == (0, ["50.0000"])
    assert "warning: 1 of 2 questions have no prediction and count 0: q1\n" in done.err
    assert "warning: 1 prediction is of no question, and not counted\n" in done.err


# -- texts ------------------------------------------------------------------------------------------------------------


def test_rouge(score, call, write):
    gold, predicted = "the cat sat down\n", "the cats sat up\n"
    assert score("rouge1,rouge2,rougeL", gold, predicted) == {"rouge1": 0.5, "rouge2": 0, "rougeL": 0.5}
    assert score("rouge1,rouge2:recall", gold, predicted, "--stem") == pytest.approx(
        {"rouge1": 0.75, "rouge2:recall": 2 / 3}
    )
    # the second reference has all words of the first line
    write("other", "the cats sat up\n")
    assert score("rouge1", gold, predicted, "-r", "other") == {"rouge1": 1}
    assert score("rouge1", "привет мир\n", "привет\n", "--tokenize", "words") == {"rouge1": pytest.approx(2 / 3)}
    lines = "c d\\na b\n"  # two sentences, in the other order
    assert score("rougeL,rougeLsum", "a b\\nc d\n", lines, "--escaped") == {"rougeL": 0.5, "rougeLsum": 1}


def test_texts_whose_words_a_metric_does_not_see_are_told(call, write):
    def said(gold, predicted, *options, metric="rouge1"):
        done = call("evaluate", "-m", metric, "-b", *options, "-r", write("gold", gold), stdin=predicted)
        assert done.code == 0
        return float(done.text), done.err

    for text in (
        "добрый день 2020\n",
        "नमस्ते दुनिया\n",
        "καλημέρα\n",
        "สวัสดี\n",
        "안녕하세요 여러분\n",
        "東京へ行きます\n",
    ):
        _, err = said(text, text)
        assert "miss most of 2 of 2 texts: --tokenize" in err, text
        value, err = said(text, text, "--tokenize", "char")
        assert (value, err) == (1, ""), text
    assert "miss most of 1 of 4 texts" in said("a\nb\n", "a\nб\n")[1]
    assert said("我很好\n", "我不好\n", "--tokenize", "zh") == (pytest.approx(2 / 3, abs=1e-4), "")
    assert said("abc，你好。\n", "abc 你\n", "--tokenize", "zh")[0] == pytest.approx(4 / 5, abs=1e-4), "without marks"
    assert said("a b\n", "ab\n", "--tokenize", "char") == (1, "")
    for tokenize in ("words", "whitespace"):
        assert "use zh or char" in said("我很好\n", "我不好\n", "--tokenize", tokenize)[1]
    assert "nlptools bleu --tokenize zh" in said("我很好\n", "我不好\n", metric="bleu")[1]
    for metric, text in (("rouge1", "the café is naïve\n"), ("bleu", "one two three four\n"), ("chrf", "我很好\n")):
        assert said(text, text, metric=metric)[1] == ""


def test_translations(score, call, write):
    gold, predicted = "the cat sat on the mat\nhello\n", "the cat sat on the mat\nhello\n"
    done = call("evaluate", "-m", "bleu", "-b", "-w", 14, "-r", write("gold", gold), stdin=predicted)
    assert done.text == "100.00000000000004\n", "to the last digit, as nlptools bleu"
    assert score("bleu,chrf,ter", gold, predicted) == pytest.approx({"bleu": 100, "chrf": 100, "ter": 0})
    assert score("ter", "a b c d\n", "a b d d\n") == {"ter": 25}
    write("a", "the cat sat on a mat\n")
    write("b", "my cat sat on the mat\n")
    text = "the cat sat on that mat\n"
    one = call("bleu", "a", "b", "-b", "-w", 14, stdin=text).text
    assert call("evaluate", "-m", "bleu", "-b", "-w", 14, "-r", "a", "-r", "b", stdin=text).text == one
    assert "nrefs:2|case:mixed|eff:no|tok:13a|" in call("evaluate", "-m", "bleu", "-r", "a", "-r", "b", stdin=text).text


def test_perplexity(score, call):
    # 8 tokens of probability 1/2 in all
    found = score("perplexity", None, "-2.0794415416798357\t3\n-3.4657359027997265\t5\n0\t0\n")
    assert found == pytest.approx(
        {"perplexity": 2, "perplexity:nats_per_token": 0.6931471805599453, "perplexity:bits_per_token": 1}
    )
    assert score("perplexity:perplexity", None, "-2\t2\n", "--log-base", "10") == {"perplexity": pytest.approx(10)}
    done = call("evaluate", "-m", "perplexity", stdin="-1\t1\nnan\t2\n")
    assert (done.code, done.err) == (65, "nlptools evaluate: <stdin>:2: expected a finite number, got 'nan'\n")


# -- forms of the output ----------------------------------------------------------------------------------------------


def test_groups_by_length_have_the_values_of_their_lines_alone(call, write):
    texts = ["the cat sat on the mat", "a dog", "it rains again today", "no", "we saw two old ships", "he is here"]
    out = ["the cat sat on a mat", "a dog", "it rained again", "yes", "we saw the old ships", "he was here now"]
    sources = [" ".join("x" * length) for length in (6, 2, 5, 0, 9, 3)]
    groups = {"0-3": [1, 3, 5], "4-5": [2], "6-": [0, 4], "all": [*range(6)]}
    sides = {
        "accuracy,f1_macro": (list("abbaca"), list("abaabc")),
        "spearman": (list("123456"), list("213465")),
        "bleu,chrf,ter,rougeL:f1": (texts, out),
        "perplexity": ([], ["-3.5\t2", "-1\t1", "-2\t2", "-9\t4", "-4\t1", "-2\t3"]),
    }

    def values(metric, places, *more):
        gold, predicted = ([f"{side[i]}\n" for i in places] if side else [] for side in sides[metric])
        reference = ["-r", write("gold", "".join(gold))] if gold else []
        done = call("evaluate", "-m", metric, *reference, *more, write("out", "".join(predicted)))
        assert done.code == 0, done.err
        return [line.split("\t") for line in done.text.split("\n")[:-1]]

    lengths = ("--by-length", write("sources", "".join(f"{line}\n" for line in sources)), "--length-limits", "3,5")
    for metric in sides:
        grouped = values(metric, groups["all"], *lengths)
        assert list(dict.fromkeys(row[0] for row in grouped)) == list(groups)
        for name, places in groups.items():
            if metric == "spearman" and len(places) < 2:
                continue
            alone = values(metric, places)
            rows = [row[1:] for row in grouped if row[0] == name]
            assert [row[:4] for row in rows] == [row[:4] for row in alone], (metric, name)
            assert all("length:source words" in row[4] for row in rows if name != "all")
    bare = values("bleu,chrf,ter,rougeL:f1", groups["all"], *lengths, "-b", "--confidence", "20")
    assert [len(row) for row in bare] == [4] * 16 and bare[0][0] == "0-3"
    write("out", "".join(f"{line}\n" for line in out))
    write("gold", "".join(f"{line}\n" for line in texts))
    done = call("evaluate", "-m", "bleu", "-r", "gold", *lengths, "--to", "jsonl", "out")
    assert [json.loads(line)["length"] for line in done.text.split("\n")[:-1]] == list(groups)
    for arguments, code, message in (
        (("--by-length", write("short", "a\n")), 65, "unequal numbers of lines: short has 1, out has 6"),
        (("--length-limits", "3"), 2, "--length-limits requires --by-length"),
        ((*lengths[:2], "--length-limits", "5,3"), 2, "expected ascending numbers of words"),
        ((*lengths, "--fail-under", "3"), 2, "--by-length cannot be combined with --fail-under"),
    ):
        done = call("evaluate", "-m", "bleu", "-r", "gold", *arguments, "out")
        assert done.code == code and message in done.err, done.err
    done = call("evaluate", "-m", "squad", "-r", "gold", "--by-length", "short", "out")
    assert done.code == 2 and "--by-length is not for squad" in done.err


@pytest.mark.parametrize(("metric", "gold", "predicted"), EXAMPLES)
def test_intervals(call, write, metric, gold, predicted):
    references = [] if gold is None else ["-r", write("gold", gold)]
    plain = call("evaluate", "-m", metric, *references, stdin=predicted).lines[0].split("\t")
    # what follows an option without its number may be a file
    done = call("evaluate", "-m", metric, *references, "--confidence", write("predicted", predicted))
    assert (done.code, done.err) == (0, "")
    told = done.lines[0].split("\t")
    assert len(told) == 7 and told[:4] == plain[:4]
    assert "|bs:1000|seed:12345|" in told[4]
    assert float(told[6]) > 0 and abs(float(told[5]) - float(told[1])) <= max(2 * float(told[6]), 0.3)
    assert call("evaluate", "-m", metric, *references, "--confidence", 1000, "predicted").out == done.out
    numbers = call("evaluate", "-m", metric, *references, "--confidence", "predicted", "-b")
    assert numbers.lines == ["\t".join([told[1], *told[5:]])]
    other = call("evaluate", "-m", metric, *references, "--confidence", 50, "--seed", 3, "predicted")
    assert "|bs:50|seed:3|" in other.text


def test_json(call, write):
    write("gold", FIVE)
    done = call(
        "evaluate", "-m", "accuracy,f1_macro", "-r", "gold", "--to", "jsonl", "--confidence=20", stdin=FIVE_PREDICTED
    )
    first, second = map(json.loads, done.lines)
    assert (first["name"], first["value"], first["count"], first["unit"]) == ("accuracy", 0.6, 5, "labels")
    assert first["details"] == {"labels": ["a", "b", "c"], "confusion": [[2, 0, 0], [0, 1, 1], [0, 1, 0]]}
    assert second["name"] == "f1_macro" and "details" not in second
    assert second["interval"].keys() == {"mean", "half_width", "resamples", "seed"}
    assert (second["interval"]["resamples"], second["interval"]["seed"]) == (20, 12345)
    (tags,) = map(json.loads, call("evaluate", "-m", "entity-f1:f1", "--to", "jsonl", stdin=TAGS).lines)
    assert tags["details"]["types"]["LOC"]["predicted"] == 2 and "interval" not in tags


def test_width_and_score_only(call, write):
    write("gold", "1\n2\n3\n")
    for width, shown in ((0, "-0"), (2, "-0.50"), (17, "-0.50000000000000000")):
        done = call("evaluate", "-m", "pearson", "-r", "gold", "-b", "-w", width, stdin="2\n3\n1\n")
        assert done.text == (shown.replace("-0", "0") if width == 0 else shown) + "\n"


def test_fail_under(call, write):
    write("gold", GOLD)
    assert call("evaluate", "-m", "accuracy", "-r", "gold", "--fail-under", "0.75", stdin=PREDICTED).code == 0
    done = call("evaluate", "-m", "accuracy", "-r", "gold", "--fail-under", "0.8", "-b", stdin=PREDICTED)
    assert (done.code, done.text) == (1, "0.7500\n")
    assert done.err == "nlptools evaluate: the value 0.7500 is below 0.8\n"
    done = call("evaluate", "-m", "entity-f1", "--fail-under", "0.8", stdin=TAGS)
    assert (done.code, done.out) == (2, b"")
    assert done.err == (
        "nlptools evaluate: --fail-under is for one value, there are 4: name one, such as -m entity-f1:precision\n"
    )
    assert call("evaluate", "-m", "entity-f1:f1", "--fail-under", "0.3", stdin=TAGS).code == 0


# -- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-m", "acuracy", "-r", "g"], "no such metric: acuracy (did you mean accuracy or tagging-accuracy?)"),
        (["-m", "glue:accuracy", "-r", "g"], "no such metric: glue:accuracy"),
        (["-m", "bleu:f1", "-r", "g"], "bleu has only one value: no bleu:f1"),
        (["-m", "", "-r", "g"], "no metric is named"),
        (["-r", "g"], "no metric is named: expected -m/--metric NAME,..."),
        (["-m", "f1"], "f1 needs gold data: missing option '-r'"),
        (["-m", "perplexity", "-r", "g"], "perplexity takes no reference"),
        (["-m", "f1", "-r", "g", "-r", "g"], "f1 takes one reference"),
        (
            ["-m", "f1,rouge1", "-r", "g"],
            "metrics of one call read the same files: f1 reads labels or numbers, one per line, "
            "rouge1 texts, one per line",
        ),
        (["-m", "f1", "--scheme", "iob1", "-r", "g"], "--scheme is not for f1, but for entity-f1"),
        (["-m", "squad", "--null-odds", "g", "-r", "g"], "--null-odds is not for squad, but for squad2"),
        (["-m", "squad2", "--threshold", "0", "-r", "g"], "--threshold requires --null-odds"),
        (
            ["-m", "entity-f1", "--text-column", "2"],
            "--text-column is not for entity-f1, but for metrics of labels or numbers, metrics of texts",
        ),
        (["-m", "entity-f1", "--raw", "--scheme", "iob2"], "--raw applies to --scheme conlleval only"),
        (["-m", "entity-f1", "--outside", "X"], "--outside requires --raw"),
        (["-m", "entity-f1:f1", "--to", "report"], "--to report is for one metric, and all of it"),
        (["-m", "f1:1", "--to", "report", "-r", "g"], "--to report is for one metric, and all of it"),
        (
            ["-m", "f1", "--to", "report", "--average", "macro", "-r", "g"],
            "--to report cannot be combined with --average",
        ),
        (["-m", "pearson", "--to", "report", "-r", "g"], "--to report is not for pearson, but for metrics of labels"),
        (["-m", "ter", "--fail-under", "3", "-r", "g"], "--fail-under: of ter, lower values are better"),
        (["-m", "f1", "-b", "--confusion", "-r", "g"], "--confusion cannot be combined with --score-only"),
        (["-m", "f1", "-r", "-"], "'-' (standard input) may occur only once"),
        (["-m", "f1:x", "-r", "g"], "no such value: f1:x, expected some of precision:0, recall:0, f1:0, support:0"),
        (["-m", "accuracy:x", "-r", "g"], "accuracy has only one value: no accuracy:x"),
        (["-m", "mrpc:x", "-r", "g"], "no such value: x, expected some of accuracy, f1, mean"),
        (["-m", "rouge1:x", "-r", "g"], "no such kind of ROUGE in ['rouge1:x']"),
        (["-m", "f1", "-r", "g", "--positive", "x"], "the positive label 'x' is none of the labels: 0, 1"),
    ],
)
def test_wrong_usage(call, write, arguments, message):
    write("g", GOLD)
    done = call("evaluate", *arguments, stdin=PREDICTED)
    assert (done.code, done.out) == (2, b"")
    assert done.err.startswith(f"nlptools evaluate: {message}")


@pytest.mark.parametrize(
    ("metric", "gold", "predicted", "message"),
    [
        ("f1", GOLD, "1\n", "unequal numbers of lines: gold has 4, <stdin> has 1"),
        ("pearson", "1\n2\n", "1\nNaN\n", "<stdin>:2: expected a finite number, got 'NaN'"),
        ("sts-b", "1\n2\n", "inf\n2\n", "<stdin>:1: expected a finite number, got 'inf'"),
        ("accuracy", "1\n\n", "1\n1\n", "gold:2: the label is empty"),
        ("mrpc", "1\n0\n", "1\nmaybe\n", "<stdin>:2: expected one of 0, 1 (or not_equivalent, equivalent), got 'maybe'"),
        ("accuracy", "", "", "<stdin>: no lines: the input is empty"),
        ("rouge1", "", "", "<stdin>: no lines: the input is empty"),
        ("chrf", "a\n", "a\nb\n", "unequal numbers of lines: gold has 1, <stdin> has 2"),
        ("perplexity", None, "", "<stdin>: no lines: the input is empty"),
        ("perplexity", None, "-1\t1\n-1 1\n", "<stdin>:2: expected log-probability, tab, number of tokens, got '-1 1'"),
        ("entity-f1", None, "", "<stdin>: no sentences"),
        ("tagging-accuracy", None, "", "<stdin>: no sentences"),
        ("entity-f1", None, "a O O\nb O\n", "<stdin>:2: 2 columns, expected 3"),
        ("entity-f1", "a O\n\nb O\n", "a O\n", "<stdin>: unequal numbers of sentences: 2 of gold tags, 1 of predictions"),
        ("squad", json.dumps(SQUAD_11), '{\n"q1": "x",\n}', "<stdin>:3: not valid JSON: "),
        ("squad", '{"data": 1}', "{}", "gold:1: data is a number, expected a list"),
        ("squad", json.dumps(SQUAD_11), "", "<stdin>:1: not valid JSON: "),
        ("squad", json.dumps(SQUAD), "{}", "question 'q3' has no answer"),
        ("squad2", json.dumps(SQUAD), '{"q1": 1}', "<stdin>:1: the prediction of question 'q1' is a number, expected text"),
        ("f1", GOLD.encode(), b"1\n\xff\n1\n1\n", "<stdin>:2: invalid UTF-8 at byte 1"),
    ],
)  # fmt: skip
def test_bad_data(call, write, metric, gold, predicted, message):
    references = [] if gold is None else ["-r", write("gold", gold)]
    done = call("evaluate", "-m", metric, *references, stdin=predicted)
    assert (done.code, done.out) == (65, b"")
    assert done.err.startswith(f"nlptools evaluate: {message}")


def test_labels_that_are_not_declared(call, write):
    write("gold", GOLD)
    done = call("evaluate", "-m", "accuracy", "--labels", "0,1,2", "-r", "gold", stdin="1\n0\n3\n1\n")
    assert (done.code, done.err) == (65, "nlptools evaluate: <stdin>:3: label '3' is none of those declared: 0, 1, 2\n")
    done = call("evaluate", "-m", "tagging-accuracy", "--labels", "O,B-LOC,B-ORG,I-LOC", write("tags", TAGS))
    assert (done.code, done.err.split(": ", 1)[1]) == (
        65, "tags:3: label 'B-PER' is none of those declared: O, B-LOC, B-ORG, I-LOC\n",
    )  # fmt: skip
    assert call("evaluate", "-m", "accuracy", "-r", "nowhere", stdin=GOLD).code == 66


# -- a process, and pipes ---------------------------------------------------------------------------------------------


def test_locale_line_ends_and_marks_change_no_score(run, write, tmp_path):
    gold, predicted = "chat\u2028noir\nä\nchat\u2028noir\nå\n", "chat\u2028noir\nä\nä\nå\n"
    write("gold", gold)
    plain = run("evaluate", "-m", "accuracy,f1_macro", "-r", "gold", stdin=predicted)
    assert (plain.code, plain.err) == (0, "") and plain.lines[0].startswith("accuracy\t0.7500\t4\t")
    windows = b"\xef\xbb\xbf" + predicted.replace("\n", "\r\n").encode()
    write("gold.crlf", b"\xef\xbb\xbf" + gold.rstrip("\n").replace("\n", "\r\n").encode())
    with gzip.open(tmp_path / "gold.gz", "wb") as stream:
        stream.write(gold.encode())
    for name, text in (("gold.crlf", windows), ("gold.gz", predicted.rstrip("\n")), ("gold", windows)):
        done = run("evaluate", "-m", "accuracy,f1_macro", "-r", name, stdin=text, env={"LC_ALL": "C"})
        assert (done.out, done.err) == (plain.out, "")
    tags = run(
        "evaluate", "-m", "entity-f1", stdin=TAGS.replace("U.N.", "U\u2028N").replace("\n", "\r\n").rstrip("\r\n")
    )
    assert [line.split("\t")[1] for line in tags.lines] == ["0.3333", "0.3333", "0.3333", "0.6667"]


@pytest.mark.parametrize(("metric", "gold", "predicted"), EXAMPLES)
def test_line_ends_change_no_score_of_any_family(call, write, metric, gold, predicted):
    done = []
    for change in (str.encode, lambda text: b"\xef\xbb\xbf" + text.removesuffix("\n").replace("\n", "\r\n").encode()):
        references = [] if gold is None else ["-r", write("gold", change(gold))]
        done.append(call("evaluate", "-m", metric, *references, stdin=change(predicted)))
    assert done[0] == done[1] and done[0].code == 0


def test_pipes(shell, write):
    write("gold.tsv", "sentence\tlabel\ngood\t1\nbad\t0\nfine\t1\n")
    line = "printf '1\\n0\\n0\\n' | nlptools evaluate -m sst-2 -r gold.tsv --gold-column 2 --gold-header | cut -f 1,2"
    assert shell(line).lines == ["sst-2\t0.6667"]
    scores = "printf -- '-0.6931\\t1\\n-1.3863\\t2\\n' | nlptools evaluate -m perplexity:perplexity -b -w 2"
    assert shell(scores).lines == ["2.00"]
    done = shell("nlptools evaluate -m accuracy -r gold.tsv -b --fail-under 2 gold.tsv || echo too low")
    assert done.lines == ["1.0000", "too low"]


# -- tables that have to agree ----------------------------------------------------------------------------------------


def test_names_of_metrics_are_those_of_the_modules():
    from nlptools.formats.glue import GLUE
    from nlptools.metrics import classification, correlation, rouge, spans

    named = {key: group.metrics for key, group in GROUPS.items()}
    assert {*named["labels"], "per_label"} == set(classification.METRICS)
    assert set(named["numbers"]) == set(correlation.METRICS) and set(named["glue"]) == set(GLUE)
    assert set(named["translation"]) == set(bleu.METRICS) and set(rouge.KINDS) < set(named["rouge"])
    assert set(settings.SCHEMES) == set(spans.SCHEMES) and set(settings.TOKENIZERS) == set(rouge.TOKENIZERS)


def test_every_metric_is_explained():
    shown = command_page("evaluate").formats
    told = str(settings.Evaluate.__dataclass_fields__["metric"].metadata["help"])
    for key, group in GROUPS.items():
        for name in group.metrics:
            if key != "rouge" and not name.startswith(("mnli-", *(f"{score}_" for score in AVERAGED))):
                assert name in shown and name in told


# -- the library ------------------------------------------------------------------------------------------------------


def test_the_function():
    import nlptools
    from nlptools.errors import DataError, UsageError
    from nlptools.metrics.squad import GoldAnswers

    evaluate = nlptools.evaluate
    assert evaluate("f1", [1, 0, 0, 1], [1, 0, 1, 1]).values() == {"f1": 0.8}
    found = evaluate(["accuracy", "f1"], list("abbac"), list("abcab"), average="macro", labels=["a", "b", "c"])
    assert found.values() == {"accuracy": 0.6, "f1_macro": 0.5} and found.details["labels"] == ["a", "b", "c"]
    assert evaluate("pearson", [3, 1, 2, 4.0], [1, 2, 3, 4]).values() == {"pearson": pytest.approx(0.4)}
    tags = evaluate("entity-f1", [["B-X", "O"], ["B-X"]], [["B-X", "O"], ["O"]], scheme="iob2")
    assert tags.values()["entity-f1:f1"] == pytest.approx(2 / 3) and "scheme:iob2" in tags.signature()
    assert evaluate("tagging-accuracy", [["N", "V"]], [["N", "N"]]).values() == {"tagging-accuracy": 0.5}
    answers = evaluate("squad2", {"q": "cat"}, [GoldAnswers("q", ())], null_odds={"q": 3.0})
    assert answers.values()["squad2:exact"] == 100
    assert evaluate("rougeL", ["a b"], [["a c"], ["a b"]]).values() == {"rougeL": 1}
    assert (
        evaluate("bleu", ["a b c d"], [["a b c d"]]).values()["bleu"] == nlptools.bleu(["a b c d"], [["a b c d"]]).score
    )
    assert evaluate("perplexity:perplexity", [(-2, 1), ("-2", "3")]).values() == {
        "perplexity": pytest.approx(2.718281828)
    }
    for wrong in (
        lambda: evaluate("f1,accuracy", ["1"], ["1"]),
        lambda: evaluate(["f1", "pearson"], ["1"], ["1"]),
        lambda: evaluate("f1", ["1"]),
        lambda: evaluate("f1", "1", "1"),
        lambda: evaluate("f1", ["1"], ["1"], averages="macro"),
        lambda: evaluate("f1", ["1"], ["1"], average="mean"),
        lambda: evaluate("f1", ["1"], ["1"], stem=True),
        lambda: evaluate("bleu", ["a"], ["a"]),
    ):
        with pytest.raises(UsageError):
            wrong()
    for metric, sides in (
        ("f1", ([], [])),
        ("f1", (["1"], ["1", "0"])),
        ("bleu", ([], [[]])),
        ("rouge1", (["a"], [[]])),
    ):
        with pytest.raises(DataError):
            evaluate(metric, *sides)


# -- published files --------------------------------------------------------------------------------------------------


def test_published_tags(call, tmp_path):
    gold = published("conll2003", "eng.testa")
    done = call("evaluate", "-m", "entity-f1", "--to", "report", "-r", gold, gold)
    assert done.lines[0] == "processed 51578 tokens with 5942 phrases; found: 5942 phrases; correct: 5942."
    strict = call("evaluate", "-m", "entity-f1:f1", "--scheme", "iob1", "--skip-docstart", "-r", gold, gold)
    assert strict.lines[0].startswith("entity-f1:f1\t1.0000\t3250\tsentences\t")


def test_published_labels_and_numbers(call, write):
    dev = published("sst2", "dev.tsv")
    labels = [line.split("\t")[-1] for line in dev.read_text().removesuffix("\n").split("\n")]
    write("ones", "1\n" * len(labels))
    done = call("evaluate", "-m", "accuracy,sst-2", "-r", dev, "--gold-column", 2, "-w", 10, "ones")
    share = labels.count("1") / len(labels)
    assert [float(line.split("\t")[1]) for line in done.lines] == pytest.approx([share, share], abs=1e-9)
    trial = published("sick", "SICK_trial.txt")
    columns = ("--gold-column", 4, "--gold-header", "--text-column", 4, "--header")
    done = call("evaluate", "-m", "sts-b", "-r", trial, *columns, trial)
    assert [line.split("\t")[1:3] for line in done.lines] == [["1.0000", "500"]] * 3


def test_published_translations(call):
    folder = published("wmt17_en_de_systems")
    reference, hypotheses = folder / "newstest2017-ref.de", folder / "newstest2017.C-3MA.4959.de"
    done = call("evaluate", "-m", "bleu,chrf", "-b", "-w", 14, "-r", reference, hypotheses)
    alone = [
        call("bleu", reference, "-i", hypotheses, "-b", "-w", 14, "-m", metric).text for metric in ("bleu", "chrf")
    ]
    assert done.text == "".join(alone)
