"""N-grams counted in parts, in files: the same counts and the same models as in memory."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from nlptools.corpora import columns
from nlptools.corpora.columns import Column, ColumnWriter
from nlptools.errors import BundleError, InputError, StreamError
from nlptools.models.language.key_table import rising_order
from nlptools.models.language.ngram import NGramConfig
from nlptools.training.ngrams import counting, places, runs, smoothing
from nlptools.training.ngrams.counting import CountedLevel
from nlptools.training.ngrams.runs import Merger
from tests.test_ngrams import V, flat, sentences

IDS = flat(sentences(11, 300))


def in_parts(ids: np.ndarray, order: int, size: int, folder: Path, rows: int = 7) -> list[CountedLevel]:
    """The counts of a text, counted `size` tokens at a time and merged `rows` n-grams at a time."""
    config = NGramConfig(V, order)
    merger = Merger(config, folder, 1)
    merger._rows = rows
    parts, lead = [], ids[:0]
    for start in range(0, len(ids), size):
        part = ids[start : start + size]
        parts.append(merger.write(counting.count(np.concatenate([lead, part]), config, len(lead))))
        lead = ids[max(0, start + size - max(1, order - 1)) : start + size]
    return merger.merged(parts)


@pytest.mark.parametrize(("order", "size"), [(1, 100), (2, 100), (3, 1), (3, 50), (5, 333), (5, 10**6)])
@pytest.mark.parametrize("together", [2, 32])
def test_parts_have_the_counts_of_the_whole(order, size, together, tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "TOGETHER", together)
    ids = IDS[:100] if size == 1 else IDS
    whole = counting.count(ids, NGramConfig(V, order))
    for ours, theirs in zip(in_parts(ids, order, size, tmp_path), whole, strict=True):
        for name in ("keys", "counts", "suffixes"):
            np.testing.assert_array_equal(getattr(ours, name)[:], getattr(theirs, name), err_msg=name)
        assert ours.starts == theirs.starts
    assert len(list(tmp_path.iterdir())) <= 3 * order  # nothing stays but the result


METHODS = {
    "kneser-ney": smoothing.kneser_ney,
    "absolute": smoothing.absolute,
    "witten-bell": smoothing.witten_bell,
    "add-k": smoothing.add_k(0.3, V),
    "jelinek-mercer": smoothing.jelinek_mercer([0.9, 0.6, 0.5, 0.4]),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("prune", [(), (0, 0, 1)])
def test_models_from_files_are_those_in_memory(method, prune, tmp_path, monkeypatch):
    config = NGramConfig(V, 4)
    expected = smoothing.estimate(counting.count(IDS, config), config, METHODS[method], prune).arrays()
    monkeypatch.setattr(smoothing, "ROWS", 5)
    levels = in_parts(IDS, 4, 100, tmp_path)
    fast = smoothing.estimate(levels, config, METHODS[method], prune, tmp_path)
    assert isinstance(fast.levels[2].keys, Column)
    for name, array in fast.arrays().items():
        assert array[:].tobytes() == expected[name].tobytes(), name
    np.testing.assert_array_equal(
        fast.mapped().score(IDS).log_probs,
        smoothing.estimate(levels, config, METHODS[method], prune).score(IDS).log_probs,
    )


def test_damaged_counts_are_refused(tmp_path):
    config = NGramConfig(V, 3)
    merger = Merger(config, tmp_path, 1)
    run = merger.write(counting.count(IDS, config))
    run.keys[2] = run.keys[2][:]
    run.keys[2][-1] += V - 1 - run.keys[2][-1] % V  # ends with a word that does not occur
    with pytest.raises(BundleError, match="the counts are damaged"):
        merger.merged([run])


# -- columns ------------------------------------------------------------------------------------------------------------


def test_a_column_is_read_by_slices(tmp_path):
    writer = ColumnWriter(tmp_path / "a", np.float32)
    for part in (np.arange(5), np.arange(5, 8)):
        writer.append(part)
    column = writer.close()
    assert (len(column), column[7], column[2:4].tolist()) == (8, 7, [2, 3])
    assert column[6:].tolist() == [6, 7] and column[9:].tolist() == [] and column.mapped().sum() == 28
    (tmp_path / "a").write_bytes(b"\0" * 8)
    with pytest.raises(InputError, match="ends too early"):
        column[:]


def test_arrays_are_saved_as_safetensors_does(tmp_path):
    from safetensors.numpy import load_file, save

    arrays = {"b": np.arange(3), "a": np.arange(4, dtype=np.float32), "c": np.zeros(0)}
    columns.save(tmp_path / "x", arrays)
    assert (tmp_path / "x").read_bytes() == save(arrays)
    again = columns.open_columns(tmp_path / "x")
    for name, array in load_file(tmp_path / "x").items():
        np.testing.assert_array_equal(again[name][:], array)
        assert again[name].dtype == array.dtype


@pytest.mark.parametrize("data", [b"", b"\xff" * 40, (2).to_bytes(8, "little") + b"[]", b"\x40" + b"\0" * 7 + b"{}"])
def test_a_file_that_holds_no_arrays_is_refused(data, tmp_path):
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(BundleError, match="damaged"):
        columns.open_columns(tmp_path / "x")


def test_arrays_beyond_the_end_are_refused(tmp_path):
    columns.save(tmp_path / "x", {"a": np.arange(9)})
    (tmp_path / "x").write_bytes((tmp_path / "x").read_bytes()[:-1])
    with pytest.raises(BundleError, match="damaged"):
        columns.open_columns(tmp_path / "x")


def test_a_full_disk_is_an_error_of_one_line():
    writer = ColumnWriter(Path("/dev/full"), np.int64)
    with pytest.raises(StreamError, match="write failed: no space left"):
        writer.append(np.arange(10**5))


@pytest.mark.parametrize("largest", [0, 40, 2**16, 2**32, 2**56, 2**62])
def test_keys_of_any_size_are_sorted(largest):
    keys = np.random.default_rng(3).integers(0, largest + 1, 1000)
    np.testing.assert_array_equal(rising_order(keys), np.argsort(keys, kind="stable"))


@pytest.mark.parametrize("size", [1, 60, 1000])
@pytest.mark.parametrize("lead", [0, 4, 9])
def test_counts_do_not_depend_on_the_parts_that_are_sorted(size, lead, monkeypatch):
    config = NGramConfig(V, 4)
    whole = counting.count(IDS, config, lead)
    grams = [IDS[i : i + 4].tolist() for i in range(len(IDS) - 3)]
    expected = Counter(tuple(gram) for gram in grams if config.bos not in gram[1:])
    expected.subtract(tuple(gram) for gram in grams[: max(0, lead - 3)] if config.bos not in gram[1:])
    assert whole[3].counts.tolist() == [count for _, count in sorted(expected.items())]
    monkeypatch.setattr(places, "PLACES", size)
    for ours, theirs in zip(counting.count(IDS, config, lead, threads=3), whole, strict=True):
        for name in ("keys", "counts", "suffixes"):
            np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name), err_msg=name)
