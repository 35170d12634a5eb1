"""Files of statistics: parts add up to the whole, and what is damaged is refused with its place."""

from __future__ import annotations

import gzip
import json
import random
from itertools import pairwise

import numpy as np
import pytest

from nlptools.configs.bleu import BleuReport, Significance
from nlptools.errors import DataError, InputError, UsageError
from nlptools.metrics.translation import corpus, statistics_files
from nlptools.metrics.translation.bleu import Bleu
from nlptools.metrics.translation.chrf import Chrf
from nlptools.metrics.translation.corpus import CorpusStatistics
from nlptools.metrics.translation.report import lines
from nlptools.metrics.translation.systems import compare
from nlptools.metrics.translation.ter import Ter

METRICS = [
    Bleu(),
    Bleu(order=2, smooth="floor", smooth_value=0.25, tokenize="intl", lowercase=True, effective_order=True),
    Chrf(),
    Chrf(char_order=2, word_order=2, beta=3, whitespace=True, lowercase=True, eps_smoothing=True),
    Ter(),
    Ter(normalized=True, no_punct=True, case_sensitive=True),
]
ASKED = [Significance(), Significance(confidence=50), Significance(confidence=30, seed=3)]


def segments(seed, count=60):
    rng = random.Random(seed)
    return [" ".join(rng.choices(["ab", "c,", "D.", "the", "x-y", "3.5"], k=rng.randrange(12))) for _ in range(count)]


HYPOTHESES, REFERENCES = segments(0), [segments(1), segments(2), segments(3)]
RAGGED = [REFERENCES[0], [text if i % 3 else None for i, text in enumerate(REFERENCES[1])], REFERENCES[2]]


def write(path, metric, hypotheses, references):
    lines = statistics_files.header(metric) + statistics_files.rows(
        metric.statistics(hypotheses, references), references
    )
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "wt", encoding="utf-8", newline="") as stream:
        stream.write("".join(line + "\n" for line in lines))
    return str(path)


def parts(folder, metric, references, cuts=(0, 7, 8, 40, 60)):
    return [
        write(folder / f"{start}-{end}.tsv{'.gz' if start == 7 else ''}", metric, HYPOTHESES[start:end],
              [reference[start:end] for reference in references])
        for start, end in pairwise(cuts)
    ]  # fmt: skip


def printed(counted, asked, **report):
    return lines(compare(counted, ["x"], asked), BleuReport(width=17, **report), asked)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("references", [REFERENCES[:1], REFERENCES, RAGGED], ids=["one", "three", "ragged"])
@pytest.mark.parametrize("metric", METRICS, ids=str)
def test_parts_make_the_whole(metric, references, tmp_path):
    paths = parts(tmp_path, metric, references)
    for asked in ASKED:
        whole = CorpusStatistics([metric], 1, keep_rows=bool(asked.confidence))
        whole.add([HYPOTHESES], references)
        restored, merged = statistics_files.merge(paths, keep_rows=bool(asked.confidence))
        assert restored == metric
        assert printed(merged, asked) == printed(whole, asked)
        assert printed(merged, asked, format="json") == printed(whole, asked, format="json")
    assert merged.segments == 60


@pytest.mark.parametrize("metric", METRICS, ids=str)
def test_statistics_read_back_exactly(metric, tmp_path):
    path = write(tmp_path / "all", metric, HYPOTHESES, RAGGED)
    (table,) = statistics_files.merge([path], keep_rows=True)[1].tables()[0]
    expected = metric.statistics(HYPOTHESES, RAGGED)
    assert np.array_equal(table, expected) and table.dtype == expected.dtype


def test_the_order_of_parts_does_not_matter_for_a_score(tmp_path):
    paths = parts(tmp_path, Bleu(), RAGGED)
    forwards, backwards = (statistics_files.merge(order)[1] for order in (paths, paths[::-1]))
    assert printed(forwards, Significance()) == printed(backwards, Significance())
    assert printed(forwards, Significance())[0].startswith("BLEU|nrefs:var|")


def test_a_part_without_segments_adds_nothing(tmp_path):
    paths = parts(tmp_path, Bleu(), REFERENCES, (0, 30, 30, 60))
    assert statistics_files.merge(paths)[1].segments == 60
    empty = write(tmp_path / "empty", Bleu(), [], [[]])
    with pytest.raises(DataError, match="no segments"):
        statistics_files.merge([empty])[1].tables()


def test_a_tokenizer_that_is_a_file_need_not_be_there(tmp_path):
    metric = Bleu.without_tokenizer("spm-0123", {"tokenize": "elsewhere/my.model", "smooth": "none"})
    paths = parts(tmp_path, metric, REFERENCES[:1])
    restored, counted = statistics_files.merge(paths)
    line = printed(counted, Significance())[0]
    assert "|tok:spm-0123|smooth:none|" in line
    assert (
        json.loads(statistics_files.header(restored)[0].split(" ", 3)[3])["options"]["tokenize"] == "elsewhere/my.model"
    )
    score = corpus.bleu(HYPOTHESES, REFERENCES[:1], tokenize="none", smooth="none").score
    assert f" = {score:.17f} " in line


def test_lines_that_come_one_by_one(tmp_path, monkeypatch):
    path = write(tmp_path / "all", Bleu(), HYPOTHESES, REFERENCES)
    expected = statistics_files.merge([path])[1].tables()
    blocks = statistics_files.streams.blocks
    monkeypatch.setattr(statistics_files.streams, "blocks", lambda path: blocks(path, size=40))
    assert len(list(statistics_files.streams.blocks(path))) > 30
    assert np.array_equal(statistics_files.merge([path])[1].tables(), expected)


def replaced(line, old, new):
    return lambda lines: [text.replace(old, new) if i == line - 1 else text for i, text in enumerate(lines)]


def fields(line, column, text):
    def change(lines):
        row = lines[line - 1].split("\t")
        row[column] = text
        return [*lines[: line - 1], "\t".join(row), *lines[line:]]

    return change


@pytest.mark.parametrize(
    ("change", "line", "message"),
    [
        (lambda lines: [], 1, "not a file that --statistics wrote"),
        (lambda lines: lines[:1], 1, "not a file that --statistics wrote"),
        (lambda lines: lines[1:], 1, "not a file that --statistics wrote"),
        (lambda lines: ["a text"] * 5, 1, "not a file that --statistics wrote"),
        (replaced(1, "{", "[["), 1, "not valid JSON"),
        (lambda lines: [lines[0].split("{")[0] + "[1]", *lines[1:]], 1, "expected a JSON object"),
        (replaced(1, '"metric": "bleu"', '"metric": "meteor"'), 1, "no metric that is known here"),
        (replaced(1, '"metric": "bleu"', '"metric": ["bleu"]'), 1, "no metric that is known here"),
        (replaced(1, '"metric"', '"metrics"'), 1, "no metric that is known here"),
        (replaced(1, '"metric": "bleu"', '"metric": "ter"'), 1, "no metric that is known here"),
        (replaced(1, '"order": 4', '"order": 4.5'), 1, "order 4.5"),
        (replaced(1, '"order": 4', '"order": "4"'), 1, "order '4'"),
        (replaced(1, '"order": 4', '"order": true'), 1, "order True"),
        (replaced(1, '"order": 4', '"order": 1000000000'), 1, "order 1000000000"),
        (replaced(1, '"order": 4', '"order": -4'), 1, "1 token or more"),
        (replaced(1, '"order": 4, ', ""), 1, "expected the options order"),
        (replaced(1, '"smooth": "exp", "smooth_value"', '"smooth": "xyz", "smooth_value"'), 1, "no such smoothing"),
        (replaced(1, '"smooth_value": null', '"smooth_value": NaN'), 1, "smooth_value nan"),
        (replaced(1, '"smooth_value": null', '"smooth_value": "1"'), 1, "smooth_value '1'"),
        (replaced(1, '"lowercase": false', '"lowercase": true'), 1, "options and signature differ"),
        (replaced(1, '"tokenize": "13a"', '"tokenize": 13'), 1, "tokenize 13"),
        (replaced(2, "match1", "match7"), 2, "not the columns"),
        (replaced(2, "\tmatch1", ""), 2, "not the columns"),
        (lambda lines: [lines[0], *lines[2:]], 2, "not the columns"),
        (lambda lines: [*lines[:4], lines[4].rpartition("\t")[0], *lines[5:]], 5, "expected 11 numbers"),
        (lambda lines: [*lines[:4], lines[4] + "\t1", *lines[5:]], 5, "expected 11 numbers"),
        (lambda lines: [*lines[:4], "", *lines[4:]], 5, "expected 11 numbers"),
        (lambda lines: [*lines, lines[0]], 63, "expected 11 numbers"),
        *[
            (fields(9, column, text), 9, "expected 11 numbers")
            for column in (0, 1, 10)
            for text in ("nan", "inf", "-1", "x", "", "1.5", "1e3", "1_0", " 7", "٣", "9" * 30, "0x1")
        ],
        (fields(9, 0, "0"), 9, "expected 11 numbers"),
        (fields(62, 10, "77"), 62, "numbers of n-grams that no segment has"),
        (fields(62, 3, "99"), 62, "numbers of n-grams that no segment has"),
        (fields(62, 1, "99"), 62, "numbers of n-grams that no segment has"),
    ],
)  # fmt: skip
def test_damaged_files(change, line, message, tmp_path):
    path = tmp_path / "part.tsv"
    write(path, Bleu(), HYPOTHESES, REFERENCES)
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    changed = change(lines)
    assert changed != lines
    path.write_text("".join(text + "\n" for text in changed), encoding="utf-8")
    with pytest.raises(DataError) as caught:
        statistics_files.merge([str(path)])
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["nan", "inf", "-0.5", "x", "1,5"])
def test_damaged_numbers_with_a_point(text, tmp_path):
    path = tmp_path / "part.tsv"
    write(path, Ter(), HYPOTHESES, REFERENCES)
    lines = fields(5, 2, text)(path.read_text(encoding="utf-8").split("\n"))
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(DataError, match=r"part\.tsv:5: expected 3 numbers"):
        statistics_files.merge([str(path)])


def test_a_compressed_file_cut_off(tmp_path):
    path = tmp_path / "part.tsv.gz"
    write(path, Bleu(), HYPOTHESES, REFERENCES)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match=r"part\.tsv\.gz: damaged"):
        statistics_files.merge([str(path)])


def test_parts_that_do_not_belong_together(tmp_path):
    one = write(tmp_path / "one", Bleu(), HYPOTHESES, REFERENCES)
    for i, metric in enumerate([Bleu(lowercase=True), Bleu(order=3), Chrf(), Bleu(smooth="floor")]):
        other = write(tmp_path / f"other{i}", metric, HYPOTHESES, REFERENCES)
        with pytest.raises(DataError, match=rf"other{i}:1: made with other options than .*one"):
            statistics_files.merge([one, other])
    # the version that wrote a part is none of its options
    text = (tmp_path / "one").read_text(encoding="utf-8").replace('"version": "', '"version": "9.')
    (tmp_path / "newer").write_text(text, encoding="utf-8")
    assert statistics_files.merge([one, str(tmp_path / "newer")])[1].segments == 120


def test_nothing_to_merge(tmp_path):
    with pytest.raises(UsageError, match="expected files"):
        statistics_files.merge([])
    with pytest.raises(InputError, match="nowhere"):
        statistics_files.merge([str(tmp_path / "nowhere")])
