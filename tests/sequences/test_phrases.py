"""Phrases: scores by hand, joining as the plain loops of the original tools do it, files of counts."""

from __future__ import annotations

import math
import random
from collections import Counter

import numpy as np
import pytest

from nlptools.errors import BundleError, DataError, UsageError
from nlptools.files import streams
from nlptools.files.streams import LineBlock
from nlptools.sequences import bigrams as pairs_module
from nlptools.sequences import phrase_file
from nlptools.sequences.bigrams import BigramWords, PairCounts
from nlptools.sequences.phrases import Joiner, Rule, join, learn, learn_and_join


def joined(lines, rule, **settings):
    return "".join(learn_and_join([LineBlock("text", 1, lines)], rule, **settings))


def some_lines(seed, size=40, connectors=("of", "the")):
    rng = random.Random(seed)
    words = [f"w{i}" for i in range(rng.randint(2, 9))] + list(connectors)
    return ["w0 w1", *(" ".join(rng.choices(words, k=rng.randint(0, 14))) for _ in range(rng.randint(1, size)))]


def plain(lines, rule):
    """The rule of both tools as loops over words: count, then join from left to right."""
    words, found, total, last = Counter(), Counter(), 0, None
    for line in lines:
        between = []
        if rule.scoring != "word2phrase":
            last = None
        for word in line.split():
            total += 1
            if word in rule.connectors:
                between.append(word)
                continue
            words[word] += 1
            if last is not None:
                found[(last, *between, word)] += 1
            last, between = word, []
    entries = len(words) + len(found)

    def is_phrase(pair):
        n, a, b = found[pair], words[pair[0]], words[pair[-1]]
        if not n:
            return False
        if rule.scoring == "default":
            return (n - rule.min_count) / a / b * entries > rule.threshold
        if min(n, a, b) < rule.min_count:
            return False
        if rule.scoring == "npmi":
            pa, pb, pab = a / total, b / total, n / total
            return math.log(pab / (pa * pb)) / -math.log(pab) > rule.threshold
        one = np.float32
        return one(n - rule.min_count) / one(a) / one(b) * one(total) > rule.threshold

    out = []
    for line in lines:
        tokens, done, i = line.split(), [], 0
        while i < len(tokens):
            end = i + 1
            while end < len(tokens) and tokens[end] in rule.connectors:
                end += 1
            whole = tuple(tokens[i : end + 1])
            if tokens[i] not in rule.connectors and end < len(tokens) and is_phrase(whole):
                done.append(rule.delimiter.join(whole))
                i = end + 1
            else:
                done.append(tokens[i])
                i += 1
        out.append(" ".join(done) + "\n")
    return "".join(out)


def test_the_score_of_gensim_by_hand():
    lines = ["a b c", "a b d", "a b"]  # 4 words and the pairs ab, bc, bd: 7 entries; (3 - 1) / 3 / 3 * 7 = 1.56
    assert joined(lines, Rule(threshold=1.5, min_count=1)) == "a_b c\na_b d\na_b\n"
    assert joined(lines, Rule(threshold=1.6, min_count=1)) == "a b c\na b d\na b\n"


def test_the_score_of_word2phrase_by_hand():
    # 8 words; with pairs over line ends ca and da too; (3 - 1) / 3 / 3 * 8 = 1.78
    lines = ["a b c", "a b d", "a b"]
    assert joined(lines, Rule("word2phrase", 1.7, 1)) == "a_b c\na_b d\na_b\n"
    assert joined(lines, Rule("word2phrase", 1.8, 1)) == "a b c\na b d\na b\n"
    # a pair over a line end is counted, though not joined
    assert joined(["x a", "b y", "a b"], Rule("word2phrase", 1.4, 1)) == "x a\nb y\na_b\n"
    assert joined(["x a", "z y", "a b"], Rule("word2phrase", 1.4, 1)) == "x a\nz y\na b\n"


def test_the_score_of_npmi_by_hand():
    # p(a) = p(b) = p(ab) = 3/8: log(8/3) / log(8/3) = 1, which is not above 1
    lines = ["a b c", "a b d", "a b"]
    assert joined(lines, Rule("npmi", 0.99, 1)) == "a_b c\na_b d\na_b\n"
    assert joined(lines, Rule("npmi", 1.0, 1)) == "a b c\na b d\na b\n"
    assert joined(lines, Rule("npmi", 0.2, 4)) == "a b c\na b d\na b\n"


def test_joining_goes_from_left_to_right_and_takes_no_word_twice():
    lines = ["a a a a a", "a a a a", "b"]
    assert joined(lines, Rule(threshold=0.01, min_count=1)) == "a_a a_a a\na_a a_a\nb\n"


def test_connectors_stand_inside_and_not_at_the_ends():
    rule = Rule(threshold=0.1, min_count=1, connectors=("of", "the"))
    lines = ["the house of the lord of", "house of the lord", "of house", "lord"]
    assert joined(lines, rule) == "the house_of_the_lord of\nhouse_of_the_lord\nof house\nlord\n"


def test_joins_as_plain_loops_do():
    for seed in range(60):
        rng = random.Random(seed)
        scoring = rng.choice(["default", "npmi", "word2phrase"])
        connectors = rng.choice([(), ("of",), ("of", "the")]) if scoring != "word2phrase" else ()
        threshold = rng.choice([-0.2, 0.0, 0.1, 0.3]) if scoring == "npmi" else rng.choice([0.1, 0.5, 1.0, 2.0])
        rule = Rule(scoring, threshold, rng.randint(1, 3), rng.choice(["_", "", "~~"]), connectors)
        lines = some_lines(seed)
        whole = joined(lines, rule)
        assert whole == plain(lines, rule)
        with pytest.MonkeyPatch.context() as patch:  # windows and parts of text are cut anywhere
            patch.setattr(pairs_module, "CHARACTERS", rng.randint(1, 30))
            patch.setattr("nlptools.sequences.phrases.WINDOW", rng.randint(1, 9))
            assert joined(lines, rule) == whole, seed


def test_a_second_pass_is_a_first_pass_over_its_output():
    lines = ["new york city hall", "new york city", "in new york city hall", "york", "a new hall in a city"] * 3
    rule = Rule(threshold=0.5, min_count=1)
    once = joined(lines, rule)
    assert joined(lines, rule, passes=2) == joined(once.split("\n")[:-1], rule)
    assert "new_york_city_hall" in joined(lines, rule, passes=2)


def test_blanks_and_line_ends():
    rule = Rule(threshold=0.1, min_count=1)
    assert joined(["", " a \t b ", "\t", "a b", "a\u2028b\xa0c", ""], rule) == "\na_b\n\na_b\na\u2028b\xa0c\n\n"


def test_no_words():
    for lines in ([], [""], [" ", "\t"]):
        with pytest.raises(DataError, match="no training data"):
            joined(lines, Rule())


@pytest.mark.parametrize(
    "values",
    [
        ("x",),
        ("default", 0.0),
        ("word2phrase", -1.0),
        ("npmi", 1.5),
        ("npmi", math.nan),
        ("default", math.inf),
        ("default", 1.0, 0),
        ("default", 1.0, 1, "a b"),
        ("default", 1.0, 1, "_", ("a b",)),
        ("default", 1.0, 1, "_", ("a", "a")),
    ],
)
def test_senseless_rules_are_refused(values):
    with pytest.raises(UsageError):
        Rule(*values)


def test_pair_counts_forget_the_rarest():
    counts = PairCounts(most=2)
    counts.add(np.array([5, 5, 5, 7, 9, 9, -1]))
    counts.finish()
    assert (counts.keys.tolist(), counts.counts.tolist(), counts.lost) == ([5, 9], [3, 2], 1)
    counts = PairCounts()
    for _ in range(3):
        counts.add(np.array([4, 4, 2]))
    counts.finish()
    assert (counts.keys.tolist(), counts.counts.tolist(), counts.lost) == ([2, 4], [3, 6], 0)


# -- files ------------------------------------------------------------------------------------------------------------


def learned(lines, rule):
    words = BigramWords()
    windows = list(words.encode("".join(line + "\n" for line in lines)))
    return learn(windows, words, rule)


def saved(path, *models):
    with streams.LineWriter(str(path), force=True) as output:
        phrase_file.save(output, models)


def test_a_file_joins_as_what_was_saved(tmp_path):
    for seed in range(20):
        rng = random.Random(seed)
        scoring = rng.choice(["default", "npmi", "word2phrase"])
        connectors = () if scoring == "word2phrase" else ("of", "the")
        rule = Rule(scoring, 0.3, 2, "_", connectors)
        lines = [*some_lines(seed), "back\\slash a\rb back\\slash a\rb back\\slash a\rb"]
        counts = learned(lines, rule)
        saved(tmp_path / "m", (rule, counts))
        ((found_rule, found),) = phrase_file.load(str(tmp_path / "m"))
        assert found_rule == rule
        assert sorted(Joiner(found, rule).phrases) == sorted(Joiner(counts, rule).phrases)
        more = [*some_lines(seed + 100), "of unknown words", "", lines[-1]]
        blocks = [LineBlock("a", 1, more[:2]), LineBlock("a", 3, more[2:])]
        assert "".join(join(blocks, [(rule, counts)])) == "".join(join(blocks, [(rule, found)]))
        saved(tmp_path / "again", (found_rule, found))
        assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()


def test_what_stands_in_a_file(tmp_path):
    rule = Rule(threshold=0.1, min_count=1, connectors=("of",))
    saved(tmp_path / "m", (rule, learned(["a of b", "a of b c"], rule)))
    header, *rows = (tmp_path / "m").read_text().split("\n")
    assert header.startswith('# phrases\t{"version": 1, "words": 7, "entries": 5, ')
    assert rows == ["a\t2", "b\t2", "c\t1", "a of b\t2", "b c\t1", ""]


HEADER = (
    '# phrases\t{"version": 1, "words": 9, "entries": 9, "scoring": "default", "threshold": 1.0, "min_count": 1, '
    '"delimiter": "_", "connectors": ["of"]}\n'
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("a\t1\n", ":1: not a file of phrases"),
        ("# phrases\t{]\n", ":1: not valid JSON"),
        ("# phrases\t{}\n", ":1: the setting 'version'"),
        (HEADER.replace('"version": 1', '"version": 2'), ":1: version 2"),
        (HEADER.replace('"words": 9', '"words": true'), ":1: the setting 'words'"),
        (HEADER.replace("1.0", "NaN"), ":1: the threshold nan"),
        (HEADER.replace('"of"', "7"), ":1: expected counts under 'words' and 'entries'"),
        (HEADER.replace('"words": 9', '"words": 0'), ":1: expected counts under 'words' and 'entries'"),
        (HEADER + "a\n", ":2: expected TOKENS TAB COUNT"),
        (HEADER + "a\t1\t2\n", ":2: expected TOKENS TAB COUNT"),
        (HEADER + "a\tx\n", ":2: not a count: 'x'"),
        (HEADER + "a\t0\n", ":2: not a count"),
        (HEADER + "a\t10\n", ":2: not a count"),
        (HEADER + "a\t" + "9" * 5000 + "\n", ":2: not a count"),
        (HEADER + "a\t1\na\t1\n", ":3: the word 'a' is repeated"),
        (HEADER + "of\t1\n", ":2: the word 'of' is a connector"),
        (HEADER + "a\t1\na b\t1\n", ":3: a pair of words without counts"),
        (HEADER + "a\t1\nb\t1\na a b\t1\n", ":4: a pair of words without counts"),
        (HEADER + "a\t1\nb\t1\na b\t2\n", ":4: a pair is more frequent"),
        (HEADER + "a\t1\nb\t1\na b\t1\na of b\t1\na b\t1\n", ":6: a repeated pair"),
        (HEADER + "a  b\t1\n", ":2: an empty token"),
        (HEADER + "a\t2\n\\n\t1\na \\n\t1\n", ":3: an empty token, or one that is a line end"),
        (HEADER + "a\udcff\t1\n", ":2: invalid UTF-8"),
    ],
)
def test_bad_files(tmp_path, text, said):
    (tmp_path / "m").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(BundleError) as caught:
        phrase_file.load(str(tmp_path / "m"))
    assert said in str(caught.value)


def test_another_threshold_or_scoring_for_a_file(tmp_path):
    rule = Rule(threshold=1.5, min_count=1)
    saved(tmp_path / "m", (rule, learned(["a b c", "a b d", "a b"], rule)))
    ((found, _),) = phrase_file.load(str(tmp_path / "m"), threshold=2.5)
    assert (found.scoring, found.threshold) == ("default", 2.5)
    ((found, _),) = phrase_file.load(str(tmp_path / "m"), scoring="npmi")
    assert (found.scoring, found.threshold) == ("npmi", 0.5)
    with pytest.raises(UsageError):
        phrase_file.load(str(tmp_path / "m"), scoring="npmi", threshold=3)
