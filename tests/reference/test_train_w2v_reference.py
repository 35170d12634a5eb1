"""What train-w2v writes, as gensim and fastText read it; its vocabulary, thinning out and neighbours beside gensim's."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

import nlptools
from nlptools.compute.backend import Backend
from nlptools.configs import Compute, Devices
from nlptools.configs.word_vectors import TrainW2V, VectorRun
from nlptools.corpora import word_sequences
from nlptools.training.word_vectors import building

pytestmark = [pytest.mark.reference, pytest.mark.filterwarnings("ignore")]
UNSEEN = ["cat7", "cats", "xq", "übersee7", "日本語学", "語", "ü", "𝔘nicode", "naïveté", "a", "re-assignment"]
GROUPS = [[f"{name}{i}" for i in range(6)] for name in ("cat", "sun", "über", "日本語", "naïve")]


@pytest.fixture(scope="module")
def gensim():
    return pytest.importorskip("gensim")


@pytest.fixture(scope="module")
def fasttext():
    return pytest.importorskip("fasttext")


def corpus(seed=1, groups=GROUPS, lines=600, own=0.7, others=40):
    """Sentences of 12 words, a share `own` of them from one group and the rest, some often, from a list of others."""
    generator = random.Random(seed)
    names = [f"n{i}" for i in range(others)]
    chances = [1 / (i + 1) for i in range(others)]
    drawn = []
    for _ in range(lines):
        group = generator.choice(groups)
        noise = generator.choices(names, chances, k=12)
        drawn.append([generator.choice(group) if generator.random() < own else word for word in noise])
    return drawn


def trained(folder, name, text, format=None, **settings):
    """Vectors trained by one process on `text`, written to a file of this name; and its path."""
    (folder / "text").write_text("".join(" ".join(line) + "\n" for line in text), encoding="utf-8")
    run = VectorRun(output=str(folder / name), format=format, workers=1)
    devices = Devices(device="cpu", deterministic=True)
    made = nlptools.train_vectors(
        [str(folder / "text")], TrainW2V(**{"dim": 12, "epochs": 2, **settings}), run, devices
    )
    return made, folder / name


# -- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("format", "options"),
    [("binary", {"binary": True}), ("text", {}), ("glove", {"no_header": True}), ("vec", {})],
)
def test_keyed_vectors(gensim, tmp_path, format, options):
    made, path = trained(tmp_path, "vectors", corpus(), format)
    theirs = gensim.models.KeyedVectors.load_word2vec_format(str(path), **options)
    assert theirs.index_to_key == made.words.list()
    assert {"über1", "日本語5", "naïve0", "n0"} < set(theirs.index_to_key)
    if format == "vec":  # with as many digits as fastText's
        np.testing.assert_allclose(theirs.vectors, made.matrix, rtol=1e-4, atol=1e-5)
    else:
        assert theirs.vectors.tobytes() == made.matrix.tobytes()


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "settings",
    [{}, {"model": "cbow"}, {"loss": "hs"}, {"loss": "softmax"}, {"model": "cbow", "position_weights": True}],
    ids=str,
)
def test_subwords(gensim, fasttext, tmp_path, settings):
    made, path = trained(tmp_path, "v.bin", corpus(), "fasttext", subwords="3-6", buckets=5000, **settings)
    ours = nlptools.load_vectors(path)
    model = fasttext.load_model(str(path))
    wv = gensim.models.fasttext.load_facebook_vectors(str(path))
    assert ours.words.list() == model.get_words() == wv.index_to_key == made.words.list()
    assert ours.counts == model.get_words(include_freq=True)[1].tolist()
    assert ours.counts == [wv.get_vecattr(word, "count") for word in wv.index_to_key]
    unknown = 0
    for word in [*ours.words, *UNSEEN]:
        expected, found = model.get_word_vector(word), ours.vector(word)
        if found is None:  # too short for an n-gram
            assert not expected.any()
            unknown += 1
            continue
        np.testing.assert_allclose(found, expected, atol=1e-5)
        np.testing.assert_allclose(found, wv[word], atol=1e-5)
        np.testing.assert_allclose(found, made.vector(word), atol=1e-5)
    assert unknown <= 1
    args = model.f.getArgs()
    assert (args.minn, args.maxn, args.bucket, args.dim, args.ws, args.minCount) == (3, 6, 5000, 12, 5, 5)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("subwords", [None, "3-6"])
@pytest.mark.parametrize("model", ["skipgram", "cbow"])
def test_gensim_goes_on_from_it(gensim, tmp_path, model, subwords):
    text = corpus()
    made, path = trained(tmp_path, "v.bin", text, "fasttext", model=model, subwords=subwords, buckets=5000)
    theirs = gensim.models.fasttext.load_facebook_model(str(path))
    assert (theirs.sg, theirs.negative, theirs.epochs, theirs.window) == (int(model == "skipgram"), 5, 2, 5)
    assert theirs.sample == pytest.approx(1e-3)
    np.testing.assert_allclose(theirs.wv["über1"], made["über1"], atol=1e-5)
    np.testing.assert_allclose(theirs.syn1neg, made.subwords.output, atol=1e-6)
    before = theirs.wv.similarity("cat1", "cat2") - theirs.wv.similarity("cat1", "sun2")
    theirs.workers = 1
    theirs.train(text, total_examples=len(text), epochs=20)
    after = theirs.wv.similarity("cat1", "cat2") - theirs.wv.similarity("cat1", "sun2")
    assert np.isfinite(theirs.wv.vectors).all() and after > before


def test_no_subwords(gensim, fasttext, tmp_path):
    made, path = trained(tmp_path, "v.bin", corpus(), "fasttext")
    model = fasttext.load_model(str(path))
    assert model.get_words() == made.words.list()
    for word in made.words:
        np.testing.assert_allclose(model.get_word_vector(word), made[word], atol=1e-6)
    assert not model.get_word_vector("unheard").any()
    wv = gensim.models.fasttext.load_facebook_vectors(str(path))
    np.testing.assert_allclose(wv.vectors, made.matrix, atol=1e-6)


# -- words ------------------------------------------------------------------------------------------------------------


def spooled(folder, text, **settings):
    (folder / "text").write_text("".join(" ".join(line) + "\n" for line in text), encoding="utf-8")
    return word_sequences.spool([str(folder / "text")], folder / "ids", **settings)


@pytest.mark.parametrize("min_count", [1, 5, 40])
def test_vocabulary(gensim, tmp_path, min_count):
    text = corpus(lines=300, others=600)
    theirs = gensim.models.Word2Vec(min_count=min_count)
    theirs.build_vocab(text)
    found = spooled(tmp_path, text, min_count=min_count)
    counts = {word: theirs.wv.get_vecattr(word, "count") for word in theirs.wv.index_to_key}
    assert dict(zip(found.words, found.counts.tolist(), strict=True)) == counts
    assert found.counts.tolist() == sorted(counts.values(), reverse=True) == list(counts.values())
    assert found.tokens == sum(counts.values()) and found.tokens + found.left_out == 12 * len(text)
    assert (min_count == 1) == (found.left_out == 0)


@pytest.mark.parametrize("sample", [0.0, 1e-5, 1e-3, 0.05])
def test_thinning_out(gensim, tmp_path, sample):
    """The probability that a word is kept; gensim's is a whole number of 2^-32."""
    text = corpus(lines=300)
    theirs = gensim.models.Word2Vec(min_count=5, sample=sample)
    theirs.build_vocab(text)
    found = spooled(tmp_path, text)
    settings = TrainW2V(sample=sample)
    tables = building.tables(settings, found, None, 1, torch.device("cpu"))
    keep = building.model(settings, found, tables, Backend.detect(Compute(device="cpu"))).windows.keep
    expected = [theirs.wv.get_vecattr(word, "sample_int") / 2**32 for word in found.words]
    np.testing.assert_allclose(keep[:-1], expected, rtol=1e-5, atol=1e-6)
    assert keep[-1] == 0 and (min(expected) < 0.9) == (0 < sample < 0.05)


# -- neighbours -------------------------------------------------------------------------------------------------------


def precision(words, matrix, groups):
    """Share of the nearest five words of words in groups that are of the same group."""
    group = {word: place for place, members in enumerate(groups) for word in members}
    keep = [place for place, word in enumerate(words) if word in group]
    unit = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
    scores = unit[keep] @ unit.T
    scores[np.arange(len(keep)), keep] = -np.inf
    nearest = np.argsort(-scores, 1)[:, :5]
    pairs = [(words[other], words[place]) for place, row in zip(keep, nearest, strict=True) for other in row]
    return float(np.mean([group.get(other) == group[word] for other, word in pairs]))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("model", ["skipgram", "cbow"])
def test_neighbours_are_as_good(gensim, tmp_path, model, seed):
    """Groups of words that a fifth to a third of a small text is made of."""
    groups = [[f"g{place}w{member}" for member in range(6)] for place in range(60)]
    text = corpus(seed, groups, lines=4000, own=0.3, others=300)
    options = {"min_count": 5, "window": 5, "negative": 5, "sample": 1e-3, "epochs": 5}
    theirs = gensim.models.Word2Vec(text, sg=int(model == "skipgram"), vector_size=32, workers=1, seed=seed, **options)
    made, _ = trained(tmp_path, "v.bin", text, model=model, dim=32, **options)
    known = precision(theirs.wv.index_to_key, theirs.wv.vectors, groups)
    found = precision(made.words.list(), made.matrix, groups)
    assert found > 0.8 and found >= known - 0.02, (found, known)
