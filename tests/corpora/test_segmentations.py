"""Segmentations drawn at random: which there are, how often each comes, and that they are the text."""

from __future__ import annotations

import io
import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import numpy as np
import pytest

from nlptools.batches.pairs import PairBatches
from nlptools.corpora.parallel import ParallelCorpus, open_spooled, spool
from nlptools.corpora.segmentations import MOST, DistinctWords, Sampling, Segmentations, Sentences, n_best, offsets_of
from nlptools.corpora.sentence_pairs import PairBlock, read_parallel
from nlptools.errors import UsageError
from nlptools.text import tokenizer as tokenizers
from nlptools.text.learning import train_sentencepiece
from nlptools.text.packages import sentencepiece_package
from nlptools.text.pair_format import PairMarks
from nlptools.text.pieces import SentencePiece
from tests.real_data import published

MARKS = {"pad": 0, "marks": PairMarks(1, 2)}


def generated(sentences: int = 300) -> list[str]:
    """Sentences of words made of a few syllables, with some punctuation."""
    random = Random(5)
    syllables = ["ba", "nu", "kir", "to", "sel", "mi", "dra", "o"]
    words = ["".join(random.choices(syllables, k=random.randint(1, 4))) for _ in range(200)]
    return [
        " ".join(random.choices(words, k=random.randint(1, 9))) + random.choice([".", "", " !"])
        for _ in range(sentences)
    ]


LINES = generated()
PHRASES = [f"ba nu {line} ba nu" for line in LINES]


def trained(kind: str, lines: Sequence[str] = LINES, **options: object) -> SentencePiece:
    """A model with the package's own options."""
    out = io.BytesIO()
    sentencepiece_package().SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=out,
        model_type=kind,
        hard_vocab_limit=False,
        num_threads=1,
        minloglevel=2,
        **{"vocab_size": 60, **options},
    )
    return SentencePiece(out.getvalue(), "model")


@pytest.fixture(scope="module")
def unigram() -> SentencePiece:
    return SentencePiece(train_sentencepiece(LINES, "unigram", 80, special=["<c>"], threads=1), "model")


@pytest.fixture(scope="module")
def bpe() -> SentencePiece:
    return SentencePiece(train_sentencepiece(LINES, "bpe", 80, special=["<c>"], threads=1), "model")


def block(lines: list[str]) -> PairBlock:
    return PairBlock("p", 1, lines, lines)


def spooled(
    path: Path, model: SentencePiece, alpha: float, lines: list[str] = LINES, **options: object
) -> ParallelCorpus:
    return spool([block(lines)], path, model, model, threads=1, sampling=Sampling(alpha, alpha), **options)  # type: ignore[arg-type]


def rows(sentences: Sentences) -> list[list[int]]:
    return [sentences.ids[a:b].tolist() for a, b in itertools.pairwise(sentences.offsets)]


def cuts(text: str) -> Iterator[list[str]]:
    """All ways to cut `text`."""
    if not text:
        yield []
    for end in range(1, len(text) + 1):
        for rest in cuts(text[end:]):
            yield [text[:end], *rest]


def all_segmentations(model: SentencePiece, word: str) -> dict[tuple[int, ...], float]:
    """The segmentations of a word without its space, with their scores, by trying all."""
    known, scores = model.vocab.ids, model._pieces.scores
    out = {}
    for pieces in cuts("\u2581" + word):
        if all(piece in known for piece in pieces):
            ids = tuple(known[piece] for piece in pieces)
            out[ids] = math.fsum(scores[id] for id in ids)
    return out


def test_n_best_by_hand() -> None:
    pieces = {"a": (-1.0, 0), "b": (-2.0, 1), "ab": (-2.5, 2), "ba": (-1.0, 3)}
    assert n_best("aba", pieces, 2, 9) == [(-2.0, (0, 3)), (-3.5, (2, 0)), (-4.0, (0, 1, 0))]
    assert n_best("aba", pieces, 2, 2) == [(-2.0, (0, 3)), (-3.5, (2, 0))]
    assert n_best("abc", pieces, 2, 2) == []


def test_n_best_are_the_best_of_all(unigram: SentencePiece) -> None:
    table = {t: (s, i) for i, (t, s) in enumerate(zip(unigram.vocab.tokens, unigram._pieces.scores)) if i > 2}
    longest = max(map(len, table))
    for word in ("kirbanu", "seltomidra", "o", "drakirselmi"):
        every = all_segmentations(unigram, word)
        found = n_best("\u2581" + word, table, longest, 10)
        scores = sorted(every.values(), reverse=True)[:10]
        assert [score for score, _ in found] == pytest.approx(scores)
        for score, ids in found:
            assert every[ids] == pytest.approx(score)
        assert len({ids for _, ids in found}) == len(found)
        assert list(found[0][1]) == unigram.encode(word)
        package = unigram.nbest(word, 10, ids=True)
        assert sorted(map(list, package)) == sorted(list(ids) for _, ids in found)


def test_words_are_numbered_and_cut_where_nothing_crosses(unigram: SentencePiece) -> None:
    words = DistinctWords(unigram, 0.1)
    lines = ["kirba kirba.", "kirba <c>!", "zq", "kirba"]  # z and q are unknown
    encoded = [unigram.encode(line) for line in lines]
    flat = np.array([id for ids in encoded for id in ids])
    numbers, counts = words.number(Sentences(flat, offsets_of(np.array([len(ids) for ids in encoded]))))
    first = numbers[0]
    assert counts.sum() == len(numbers) and len(words) == len(set(numbers.tolist()))
    assert counts[0] == 3  # twice the same word, and the full stop
    assert numbers[1] == first and numbers[2] != first
    assert numbers[3] == first and numbers[-1] == first  # in other sentences, too
    assert counts[3] == 1


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_what_is_drawn_is_the_text(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    model = request.getfixturevalue(kind)
    lines = [*LINES, "kirba zq sel\u00e9", "<c> ba<c>nu", "\u2581 o"]
    corpus = spooled(tmp_path / "pairs", model, 0.3, lines)
    best = rows(corpus.source)
    assert best == model.encode_lines(lines)
    drawn = rows(corpus.draw(1, 0)[0])
    assert [model.decode(row) for row in drawn] == [model.decode(row) for row in best]
    assert sum(a != b for a, b in zip(drawn, best)) > len(lines) / 2
    unk = model.vocab.unk
    assert [row.count(unk) for row in drawn] == [row.count(unk) for row in best]


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_unknown_characters_as_bytes(kind: str, tmp_path: Path) -> None:
    model = trained(kind, byte_fallback=True, vocab_size=330)
    lines = [f"{line} zq{line}\u00e9" for line in LINES]
    corpus = spooled(tmp_path / "pairs", model, 0.3, lines)
    drawn = rows(corpus.draw(1, 0)[0])
    assert drawn != rows(corpus.source)
    assert list(map(model.decode, drawn)) == lines


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_symbols_of_the_user_stay_what_they_are(kind: str, tmp_path: Path) -> None:
    model = trained(kind, user_defined_symbols=["rb", "o"])
    lines = [*LINES, "kirba", "rbrb to rb"]
    corpus = spooled(tmp_path / "pairs", model, 0.3, lines)
    drawn, best = rows(corpus.draw(1, 0)[0]), rows(corpus.source)
    assert drawn != best and list(map(model.decode, drawn)) == lines
    for symbol in ("rb", "o"):
        id = model.vocab.ids[symbol]
        found = [row.count(id) for row in best]
        assert max(found) and [row.count(id) for row in drawn] == found


def test_sentences_are_apart_where_no_space_begins_them(tmp_path: Path) -> None:
    model = trained("unigram", add_dummy_prefix=False)
    lines = ["".join(line.split()) for line in LINES]
    corpus = spooled(tmp_path / "pairs", model, 0.3, lines)
    drawn = rows(corpus.draw(1, 0)[0])
    assert drawn != rows(corpus.source) and list(map(model.decode, drawn)) == lines


class Last(np.random.Generator):
    """Draws the largest number below 1."""

    def random(self, size: int) -> np.ndarray:  # type: ignore[override]
        return np.full(size, 1 - 2.0**-53)


def test_a_draw_stays_with_its_word() -> None:
    """2 + the largest number below 1 is 3, in floating point."""
    places, reached = np.arange(4), np.array([1.0, 2.0, 3.0])
    table = Segmentations(places, reached, places, np.array([7, 8, 9]))
    drawn = table.draw(np.array([2, 1, 0, 2]), np.array([0, 1, 4]), Last(np.random.PCG64()))
    assert rows(drawn) == [[9], [8, 7, 9]]


@pytest.mark.parametrize(("kind", "alpha"), [("unigram", 1000.0), ("bpe", 0.0)])
def test_the_best_segmentation_is_the_limit(
    kind: str, alpha: float, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    corpus = spooled(tmp_path / "pairs", request.getfixturevalue(kind), alpha)
    for epoch in range(3):
        for side in corpus.draw(1, epoch):
            assert rows(side) == rows(corpus.source)


def expected_frequencies(model: SentencePiece, word: str, alpha: float) -> dict[tuple[int, ...], float]:
    """P ** alpha of the best segmentations over the sum of them, from the list of all."""
    scores = sorted(all_segmentations(model, word).items(), key=lambda item: -item[1])[:MOST]
    weights = {ids: math.exp(alpha * score) for ids, score in scores}
    return {ids: weight / math.fsum(weights.values()) for ids, weight in weights.items()}


@pytest.mark.parametrize("alpha", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("word", ["kirba", "mi", "seltobanukir"])  # the last has more segmentations than are kept
def test_frequencies_are_those_of_the_paper(word: str, alpha: float, unigram: SentencePiece, tmp_path: Path) -> None:
    times = 10_000
    corpus = spooled(tmp_path / "pairs", unigram, alpha, ["nudra", *[word] * times])
    drawn = Counter(tuple(row) for row in rows(corpus.draw(1, 0)[0])[1:])
    expected = expected_frequencies(unigram, word, alpha)
    assert drawn.keys() <= expected.keys()
    for ids, share in expected.items():
        deviation = math.sqrt(share * (1 - share) / times)
        assert abs(drawn[ids] / times - share) < 5 * deviation + 1e-9


def test_bpe_leaves_out_merges_as_often_as_the_slow_way(bpe: SentencePiece, tmp_path: Path) -> None:
    corpus = spooled(tmp_path / "pairs", bpe, 0.3)
    fast = np.mean([len(corpus.draw(1, epoch)[0].ids) for epoch in range(4)])
    random = Random(3)
    slow = sum(len(bpe.sample(line, 0.3, random)) for line in LINES)
    assert slow > 1.2 * len(corpus.source.ids)
    assert fast == pytest.approx(slow, rel=0.05)


def test_a_draw_is_a_function_of_seed_and_epoch(unigram: SentencePiece, tmp_path: Path) -> None:
    corpus = spooled(tmp_path / "pairs", unigram, 0.2)
    source, target = map(rows, corpus.draw(1, 0))
    assert source != target  # the sides are drawn apart
    again = open_spooled(tmp_path / "pairs")
    assert again.sampling == Sampling(0.2, 0.2)
    assert [rows(side) for side in again.draw(1, 0)] == [source, target]
    assert rows(corpus.draw(1, 1)[0]) != source
    assert rows(corpus.draw(2, 0)[0]) != source


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_tables_do_not_depend_on_the_rest_of_the_text(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """The same words in another order and other blocks have the same alternatives."""
    model = request.getfixturevalue(kind)
    found = []
    for name, blocks in [("a", [LINES]), ("b", [LINES[200:], LINES[:200]])]:
        sampling = Sampling(0.2, None, seed=3)
        corpus = spool(map(block, blocks), tmp_path / name, model, model, threads=1, sampling=sampling)
        first, reached, offsets, ids = (
            corpus._arrays[f"source.table.{key}"] for key in ("first", "cumulative", "offsets", "ids")
        )
        words = {}
        for word, (a, b) in enumerate(itertools.pairwise(first)):
            pieces = [tuple(ids[offsets[i] : offsets[i + 1]]) for i in range(a, b)]
            words[pieces[0]] = dict(zip(pieces, np.diff(reached[a:b], prepend=word).round(6)))
            assert reached[b - 1] == word + 1 and len(pieces) <= MOST
        found.append(words)
    assert found[0] == found[1]


def test_one_side_alone(unigram: SentencePiece, tmp_path: Path) -> None:
    words = tokenizers.load("bytes")
    corpus = spool([block(LINES)], tmp_path / "p", unigram, words, threads=1, sampling=Sampling(source=0.2))
    source, target = corpus.draw(1, 0)
    assert rows(source) != rows(corpus.source) and target is corpus.target


def test_limits_hold_for_what_is_drawn(unigram: SentencePiece, tmp_path: Path) -> None:
    corpus = spooled(tmp_path / "pairs", unigram, 0.1, max_source_length=12, max_target_length=9, long="cut")
    assert corpus.counts.cut > 10
    source, target = corpus.draw(1, 0)
    assert source.lengths.max() == 12 and target.lengths.max() == 9
    assert rows(source) != rows(corpus.source)
    for drawn, best in zip((source, target), (corpus.source, corpus.target)):
        assert [unigram.decode(row) for row in rows(drawn)] == [unigram.decode(row) for row in rows(best)]


def test_runs_of_words_are_one_draw(unigram: SentencePiece, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = spooled(tmp_path / "pairs", unigram, 0.2, max_source_length=30)
    whole = rows(corpus.draw(1, 0)[0])
    for size in (1, 7, 100):
        monkeypatch.setattr("nlptools.corpora.segmentations.WORDS_AT_A_TIME", size)
        assert rows(corpus.draw(1, 0)[0]) == whole


def test_a_file_of_an_earlier_corpus_goes(unigram: SentencePiece, tmp_path: Path) -> None:
    spooled(tmp_path / "pairs", unigram, 0.2)
    assert (tmp_path / "pairs.source.words").exists()
    spool([block(LINES)], tmp_path / "pairs", unigram, unigram, threads=1)
    assert not (tmp_path / "pairs.source.words").exists()
    assert open_spooled(tmp_path / "pairs").sampling is None


def test_batches_are_drawn_anew_every_epoch_and_resume(unigram: SentencePiece, tmp_path: Path) -> None:
    corpus = spooled(tmp_path / "pairs", unigram, 0.2)
    source = PairBatches(corpus, batch_tokens=300, seed=1, **MARKS)
    best = sorted(map(unigram.decode, rows(corpus.target)))
    texts: list[list[str]] = [[], []]
    pieces: list[list[list[int]]] = [[], []]
    batches, states = [], []
    for batch in source:
        epoch = source.state()["epoch"]
        if epoch == 2:
            break
        batches.append(batch)
        states.append(source.state())
        assert batch.targets.shape[0] * max(batch.targets.shape[1], batch.source.shape[1]) <= 300
        for row in batch.targets:
            pieces[epoch].append(row[row >= 0][:-1].tolist())
            texts[epoch].append(unigram.decode(pieces[epoch][-1]))
    assert sorted(texts[0]) == sorted(texts[1]) == best
    assert sorted(pieces[0]) != sorted(pieces[1])
    for i in (3, len(batches) - 4):
        again = PairBatches(open_spooled(tmp_path / "pairs"), batch_tokens=300, seed=1, **MARKS)
        again.restore(states[i])
        for expected, found in zip(batches[i + 1 :], again):
            assert np.array_equal(expected.source, found.source) and np.array_equal(expected.targets, found.targets)


def test_spaces_behind_words(tmp_path: Path) -> None:
    model = trained("unigram", treat_whitespace_as_suffix=True)
    corpus = spooled(tmp_path / "pairs", model, 0.2)
    drawn = rows(corpus.draw(1, 0)[0])
    assert drawn != rows(corpus.source)
    assert [model.decode(row).strip() for row in drawn] == LINES
    words = len(corpus._arrays["source.words"])
    assert words >= sum(len(line.split()) for line in LINES) > words / 2


@pytest.mark.parametrize(
    ("model", "alpha", "told"),
    [
        (lambda: trained("unigram", PHRASES, split_by_whitespace=False), 0.1, "may cross word boundaries"),
        (lambda: trained("bpe", PHRASES, split_by_whitespace=False), 0.1, "may cross word boundaries"),
        (lambda: trained("char"), 0.1, "needs a unigram or BPE model"),
        (lambda: tokenizers.load("bytes"), 0.1, "needs a SentencePiece model, found a tokenizer of kind 'bytes'"),
        (lambda: trained("bpe"), 1.5, "1.5 is out of range, expected a number from 0 to 1"),
        (lambda: trained("unigram"), -0.1, "-0.1 is out of range, expected a number of at least 0"),
        (lambda: trained("unigram"), math.nan, "nan is out of range"),
    ],
    ids=["unigram", "bpe", "char", "bytes", "dropout", "alpha", "nan"],
)
def test_what_cannot_be_sampled_is_refused(model: object, alpha: float, told: str, tmp_path: Path) -> None:
    made = model()  # type: ignore[operator]
    with pytest.raises(UsageError, match=told):
        spool([block(LINES)], tmp_path / "p", made, made, threads=1, sampling=Sampling(target=alpha))
    assert not list(tmp_path.iterdir())


def test_real_text_is_drawn_whole(tmp_path: Path) -> None:
    paths = [str(published("multi30k", f"val.{side}")) for side in ("en", "de")]
    lines = [line for found in read_parallel(*paths) for line in found.targets]
    model = SentencePiece(train_sentencepiece(lines, "unigram", 1000, threads=1), "model")
    corpus = spool(read_parallel(*paths), tmp_path / "p", model, model, threads=1, sampling=Sampling(0.2, 0.2))
    for drawn, best in zip(corpus.draw(1, 0), (corpus.source, corpus.target)):
        assert len(drawn.ids) > 1.1 * len(best.ids)
        assert list(map(model.decode, rows(drawn))) == list(map(model.decode, rows(best)))
