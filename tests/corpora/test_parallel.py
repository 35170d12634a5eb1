"""Pairs in, ids out: what is read, kept, left out, counted, and found again."""

from __future__ import annotations

import errno
import hashlib
import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from nlptools.corpora import parallel
from nlptools.corpora.parallel import ParallelCorpus, ParallelCounts, open_spooled, spool
from nlptools.corpora.sentence_pairs import PairBlock, read_pairs, read_parallel
from nlptools.errors import DataError, InputError, StreamError, UsageError
from nlptools.files import atomic
from nlptools.text import tokenizer as tokenizers
from nlptools.text.vocab import Vocab


def words(*tokens: str) -> tokenizers.Tokenizer:
    return tokenizers.load("whitespace", Vocab(["<unk>", *tokens]))


SOURCE, TARGET = words("a", "b", "c"), words("x", "y")
PAIRS = [("a b c", "x y"), ("", "x"), ("b q", "y y z"), ("a", " "), ("c c c c", "x"), ("a", "x y x y x y")]


def block(pairs: list[tuple[str, str]]) -> PairBlock:
    return PairBlock("p", 1, [a for a, _ in pairs], [b for _, b in pairs])


def rows(corpus: ParallelCorpus) -> list[tuple[list[int], list[int]]]:
    sides = []
    for side in (corpus.source, corpus.target):
        sides.append([side.ids[a:b].tolist() for a, b in zip(side.offsets, side.offsets[1:])])
    return list(zip(*sides, strict=True))


# -- reading -----------------------------------------------------------------------------------------------------------


def test_a_table_of_pairs(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_bytes("a\\tb\tc\\\\d\r\n\t\nä\u2028ö\tz\n".encode())
    (found,) = read_pairs([str(path)])
    assert found == (str(path), 1, ["a\tb", "", "ä\u2028ö"], ["c\\d", "", "z"])


@pytest.mark.parametrize(("line", "told"), [("a", "1 field"), ("", "1 field"), ("a\tb\tc", "3 fields")])
def test_a_line_without_two_fields_is_refused(line: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text(f"a\tb\n{line}\nc\td\n")
    with pytest.raises(DataError) as caught:
        list(read_pairs([str(path)]))
    assert str(caught.value) == f"{path}:2: expected source TAB target, found {told}"


def test_line_numbers_go_on_behind_the_first_block(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("a\tb\n" * 400_000 + "a\n")
    with pytest.raises(DataError, match=":400001: expected source TAB target"):
        list(read_pairs([str(path)]))


def test_two_files_side_by_side(tmp_path: Path) -> None:
    source, target = tmp_path / "s", tmp_path / "t"
    source.write_text("a\\t\n\nc\td\n")
    target.write_text("x\ny\nz")
    found = list(read_parallel(str(source), str(target)))
    assert [line for part in found for line in part.sources] == ["a\\t", "", "c\td"]  # as they stand
    assert [line for part in found for line in part.targets] == ["x", "y", "z"]
    assert {part.path for part in found} == {str(source)}
    target.write_text("x\ny\n")
    with pytest.raises(DataError, match=f"unequal numbers of lines: {source} has 3, {target} has 2"):
        list(read_parallel(str(source), str(target)))
    with pytest.raises(UsageError):
        next(read_parallel("-", "-"))
    with pytest.raises(InputError):
        next(read_parallel(str(source), str(tmp_path / "none")))


def test_blocks_of_two_files_know_their_lines(tmp_path: Path) -> None:
    source, target = tmp_path / "s", tmp_path / "t"
    source.write_text("".join(f"{i}\n" for i in range(300_000)))
    target.write_text("".join(f"a much longer line {i}\n" for i in range(300_000)))
    blocks = list(read_parallel(str(source), str(target)))
    assert len(blocks) > 2
    for found in blocks:
        assert found.sources[0] == str(found.start - 1) and found.targets[-1].split()[-1] == found.sources[-1]


# -- spooling ----------------------------------------------------------------------------------------------------------


def test_ids_and_counts_of_a_few_pairs(tmp_path: Path) -> None:
    made = spool([block(PAIRS[:4]), block(PAIRS[4:])], tmp_path / "pairs", SOURCE, TARGET, threads=1)
    again = open_spooled(tmp_path / "pairs")
    for corpus in (made, again):
        assert rows(corpus) == [
            ([1, 2, 3], [1, 2]),
            ([2, 0], [2, 2, 0]),
            ([3, 3, 3, 3], [1]),
            ([1], [1, 2, 1, 2, 1, 2]),
        ]
        assert corpus.counts == ParallelCounts(
            pairs=4, source_tokens=10, target_tokens=12, source_unknown=1, target_unknown=1, empty=2
        )
        assert len(corpus) == 4 and corpus.source.ids.dtype == corpus.target.ids.dtype == np.uint16
        assert corpus.source.lengths.tolist() == [3, 2, 4, 1]
        assert corpus.digest == hashlib.sha256("".join(f"{a}\t{b}\n" for a, b in PAIRS).encode()).hexdigest()
        assert corpus.draw(1, 0) == (corpus.source, corpus.target)  # no sampling: the same every epoch
    assert not list(tmp_path.glob(".*"))


def test_long_pairs_are_left_out_or_cut(tmp_path: Path) -> None:
    limits = {"max_source_length": 3, "max_target_length": 2, "threads": 1}
    skipped = spool([block(PAIRS)], tmp_path / "a", SOURCE, TARGET, **limits)
    assert rows(skipped) == [([1, 2, 3], [1, 2])]
    assert skipped.counts == ParallelCounts(pairs=1, source_tokens=3, target_tokens=2, empty=2, skipped=3)
    cut = spool([block(PAIRS)], tmp_path / "b", SOURCE, TARGET, long="cut", **limits)
    assert rows(cut) == [([1, 2, 3], [1, 2]), ([2, 0], [2, 2]), ([3, 3, 3], [1]), ([1], [1, 2])]
    assert cut.counts == ParallelCounts(pairs=4, source_tokens=9, target_tokens=7, source_unknown=1, empty=2, cut=3)


def test_counts_add_up() -> None:
    total = ParallelCounts(*range(8)) + ParallelCounts(*range(0, 80, 10))
    assert list(asdict(total).values()) == list(range(0, 88, 11))


def test_blocks_and_the_way_pairs_came_do_not_matter(tmp_path: Path) -> None:
    one = spool([block(PAIRS)], tmp_path / "one", SOURCE, TARGET, threads=1)
    many = spool([block([pair]) for pair in PAIRS], tmp_path / "many", SOURCE, TARGET, threads=2)
    assert rows(one) == rows(many) and one.counts == many.counts and one.digest == many.digest
    tab = block([("a\tb", "x\\")])
    (tmp_path / "tsv").write_text("a\\tb\tx\\\\\n")
    (read,) = read_pairs([str(tmp_path / "tsv")])
    digests = [spool([b], tmp_path / "d", SOURCE, TARGET, threads=1).digest for b in (tab, read)]
    assert digests[0] == digests[1]


def test_wide_ids_where_the_vocabulary_needs_them(tmp_path: Path) -> None:
    wide = words(*(f"w{i}" for i in range(70_000)))
    corpus = spool([PairBlock("p", 1, ["w69999 a"], ["x"])], tmp_path / "pairs", wide, TARGET, threads=1)
    assert corpus.source.ids.dtype == np.uint32 and corpus.target.ids.dtype == np.uint16
    assert corpus.source.ids.tolist() == [70_000, 0]


@pytest.mark.parametrize(
    ("pairs", "told"),
    [
        ([], "no training data: the input has no pairs"),
        ([("", "x"), ("a", "")], r"no training data: no pair is left \(2 with an empty side\)"),
        (
            [("", "x"), ("a a", "x")],
            r"no training data: no pair is left \(1 with an empty side, 1 with a side that is too long\)",
        ),
    ],
)
def test_no_pairs_are_no_training_data(pairs: list[tuple[str, str]], told: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=told):
        spool([block(pairs)], tmp_path / "pairs", SOURCE, TARGET, max_source_length=1, threads=1)
    assert not list(tmp_path.iterdir())


def test_an_earlier_corpus_stays_until_the_next_is_whole(tmp_path: Path) -> None:
    first = spool([block(PAIRS[:1])], tmp_path / "pairs", SOURCE, TARGET, threads=1)
    expected = rows(first)

    def broken() -> object:
        yield block(PAIRS)
        raise DataError("bad line")

    with pytest.raises(DataError, match="bad line"):
        spool(broken(), tmp_path / "pairs", SOURCE, TARGET, threads=1)
    assert rows(open_spooled(tmp_path / "pairs")) == expected
    spool([block(PAIRS[4:])], tmp_path / "pairs", SOURCE, TARGET, threads=1)
    assert rows(open_spooled(tmp_path / "pairs")) == [([3, 3, 3, 3], [1]), ([1], [1, 2, 1, 2, 1, 2])]


def test_a_corpus_half_replaced_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool([block(PAIRS[:1])], tmp_path / "pairs", SOURCE, TARGET, threads=1)
    publish = atomic.publish

    def full(temporary: str, final: Path) -> None:
        if final.name == "pairs.target.ids":
            raise OSError(errno.ENOSPC, "No space left on device")
        publish(temporary, final)

    monkeypatch.setattr(atomic, "publish", full)
    with pytest.raises(StreamError, match="pairs: write failed: no space left on device"):
        spool([block(PAIRS)], tmp_path / "pairs", SOURCE, TARGET, threads=1)
    with pytest.raises(InputError):
        open_spooled(tmp_path / "pairs")
    assert not list(tmp_path.glob(".*"))


def test_what_is_missing_or_damaged_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"pairs\.json"):
        open_spooled(tmp_path / "pairs")
    spool([block(PAIRS)], tmp_path / "pairs", SOURCE, TARGET, threads=1)
    (tmp_path / "pairs.source.ids").write_bytes(b"\0\0")
    with pytest.raises(DataError, match=r"pairs\.source\.ids: damaged: expected 10 numbers of type uint16"):
        open_spooled(tmp_path / "pairs")
    (tmp_path / "pairs.source.ids").unlink()
    with pytest.raises(InputError, match=r"pairs\.source\.ids"):
        open_spooled(tmp_path / "pairs")
    (tmp_path / "pairs.json").write_text(json.dumps({"arrays": 3}))
    with pytest.raises(DataError, match=r"pairs\.json: damaged"):
        open_spooled(tmp_path / "pairs")


def test_spooling_holds_a_block_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every block is written before the next one is read."""
    events = []
    write = parallel._spool_block

    def noted(*args: object) -> ParallelCounts:
        events.append("written")
        return write(*args)  # type: ignore[arg-type]

    def blocks() -> object:
        for _ in range(3):
            events.append("read")
            yield block(PAIRS)

    monkeypatch.setattr(parallel, "_spool_block", noted)
    spool(blocks(), tmp_path / "pairs", SOURCE, TARGET, threads=1)
    assert events == ["read", "written"] * 3
