"""Vector files and neighbours beside gensim and fastText: each reads what the other writes, with the same numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nlptools.configs.vectors import Convert
from nlptools.vectors.files.formats import convert, load, save
from nlptools.vectors.nearest import neighbors
from nlptools.vectors.subwords import Subwords
from nlptools.vectors.table import Vectors

pytestmark = [pytest.mark.reference, pytest.mark.filterwarnings("ignore")]
UNSEEN = ["statemently", "naïveté", "東京タワー", "xq", "𝔘nicode", "re-assignment"]


@pytest.fixture(scope="module")
def gensim():
    return pytest.importorskip("gensim")


@pytest.fixture(scope="module")
def trained(english, tmp_path_factory):
    """A model that fastText itself has trained, its `.bin` and `.vec`."""
    fasttext = pytest.importorskip("fasttext")
    folder = tmp_path_factory.mktemp("fasttext")
    text = folder / "text"
    text.write_text("\n".join([*english, *["naïve 東京 мир café"] * 9]), encoding="utf-8")
    model = fasttext.train_unsupervised(str(text), dim=12, bucket=3000, epoch=1, thread=1, minCount=4, verbose=0)
    model.save_model(str(folder / "m.bin"))
    return folder / "m.bin", model


def table(count=500, dimensions=16):
    rows = np.random.default_rng(0).standard_normal((count, dimensions), dtype=np.float32)
    return Vectors([f"wörd{i}" for i in range(count)], rows)


# -- fastText ---------------------------------------------------------------------------------------------------------


def test_a_model_of_fasttext(trained, tmp_path):
    path, model = trained
    found = load(path)
    assert found.words.list() == model.get_words()
    assert found.counts == model.get_words(include_freq=True)[1].tolist()
    for word in [*found.words[:200], *UNSEEN, "naïve", "東京"]:
        np.testing.assert_allclose(found[word], model.get_word_vector(word), atol=1e-5)
    save(found, str(tmp_path / "copy.bin"), "fasttext")
    assert (tmp_path / "copy.bin").read_bytes() == path.read_bytes()


def test_its_neighbours(trained):
    path, model = trained
    queries = ["function", "statement", "café", "statementish"]
    for word, answer in zip(queries, neighbors(load(path), queries, 5), strict=True):
        expected = model.get_nearest_neighbors(word, k=5)
        # words that are as near as can be told apart in float32 may change places
        assert [score for _, score in answer.neighbors] == pytest.approx([score for score, _ in expected], abs=1e-5)
        query = model.get_word_vector(word)
        for name, score in answer.neighbors:
            other = model.get_word_vector(name)
            assert score == pytest.approx(query @ other / np.linalg.norm(query) / np.linalg.norm(other), abs=1e-5)


def test_fasttext_reads_ours(trained, tmp_path):
    import fasttext

    path, model = trained
    convert(str(path), str(tmp_path / "small.bin"), Convert(restrict=50))
    small = fasttext.load_model(str(tmp_path / "small.bin"))
    assert small.get_words() == model.get_words()[:50]
    for word in [*small.get_words(), *UNSEEN]:
        np.testing.assert_allclose(small.get_word_vector(word), model.get_word_vector(word), atol=1e-5)
    plain = table()
    save(plain, str(tmp_path / "plain.bin"), "fasttext")
    read = fasttext.load_model(str(tmp_path / "plain.bin"))
    for word in plain.words:
        np.testing.assert_allclose(read.get_word_vector(word), plain[word], atol=1e-6)


def test_fresh_ngrams(tmp_path, gensim):
    import fasttext

    rng = np.random.default_rng(2)
    words = ["</s>", "naïve", "東京", "a", "мир", "internationalization"]
    own, buckets = (rng.standard_normal((n, 9), dtype=np.float32) for n in (len(words), 777))
    for shortest, longest in ((3, 6), (1, 2), (5, 5)):
        kept = Subwords(shortest, longest, buckets, own)
        made = Vectors(words, kept.vectors(words, range(len(words))), subwords=kept)
        save(made, str(tmp_path / "m.bin"), "fasttext", force=True)
        read = fasttext.load_model(str(tmp_path / "m.bin"))
        for word in [*words, *UNSEEN]:
            vector = made.vector(word)
            expected = read.get_word_vector(word)
            np.testing.assert_allclose(expected if vector is None else vector, expected, atol=1e-5)
        theirs = gensim.models.fasttext.load_facebook_model(str(tmp_path / "m.bin")).wv
        for word in words[1:] + [word for word in UNSEEN if made.vector(word) is not None]:
            np.testing.assert_allclose(theirs[word], made[word], atol=1e-5)


# -- gensim -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("binary", [True, False])
def test_word2vec_files_both_ways(gensim, tmp_path, binary):
    name, other = ("a.bin", "b.bin") if binary else ("a.txt", "b.txt")
    made = table()
    save(made, str(tmp_path / name))
    theirs = gensim.models.KeyedVectors.load_word2vec_format(str(tmp_path / name), binary=binary)
    assert theirs.index_to_key == made.words.list()
    assert theirs.vectors.tobytes() == made.matrix.tobytes()
    theirs.save_word2vec_format(str(tmp_path / other), binary=binary)
    found = load(tmp_path / other)
    assert found.words.list() == made.words.list() and found.matrix.tobytes() == made.matrix.tobytes()
    if binary:
        assert (tmp_path / other).read_bytes() == (tmp_path / name).read_bytes()


def test_other_text_files(gensim, tmp_path):
    read = gensim.models.KeyedVectors.load_word2vec_format
    made = table()
    save(made, str(tmp_path / "a.glove"))
    save(made, str(tmp_path / "a.vec"))
    assert read(str(tmp_path / "a.glove"), no_header=True).vectors.tobytes() == made.matrix.tobytes()
    np.testing.assert_allclose(read(str(tmp_path / "a.vec")).vectors, made.matrix, rtol=1e-4)


def test_neighbours_and_analogies(gensim):
    made = table()
    theirs = gensim.models.KeyedVectors(made.dimensions)
    theirs.add_vectors(made.words.list(), made.matrix)
    a, b, c = made.words[3], made.words[5], made.words[8]
    pairs = [
        (theirs.most_similar(a, topn=7), neighbors(made, [a], 7)),
        (theirs.most_similar([a, c], [b], topn=7), neighbors(made, [f"{a} - {b} + {c}"], 7)),
        (theirs.most_similar(a, topn=7, restrict_vocab=40), neighbors(made, [a], 7, restrict=40)),
        (
            theirs.most_similar_cosmul([a, c], [b], topn=7),
            neighbors(made, [f"{a} - {b} + {c}"], 7, method="mul", epsilon=1e-6),
        ),
    ]
    for expected, [answer] in pairs:
        assert [word for word, _ in answer.neighbors] == [word for word, _ in expected]
        assert [score for _, score in answer.neighbors] == pytest.approx([score for _, score in expected], rel=1e-4)


@pytest.mark.parametrize("seed", range(4))
def test_many_queries_of_random_models(gensim, tmp_path, seed):
    """The same words and scores as gensim, one by one; through a file, for words, sums and products, with limits."""
    rng = np.random.default_rng(seed)
    count, k = int(rng.integers(30, 4000)), int(rng.integers(1, 25))
    made = table(count, int(rng.integers(2, 70)))
    made.matrix[:] *= rng.uniform(0.01, 50, (count, 1)).astype(np.float32)
    save(made, str(tmp_path / "a.bin"))
    theirs = gensim.models.KeyedVectors.load_word2vec_format(str(tmp_path / "a.bin"), binary=True)
    found = load(tmp_path / "a.bin")
    for limit in (None, count // 3):
        asked = [rng.choice(count, int(rng.integers(1, 6)), replace=False).tolist() for _ in range(60)]
        chosen = [[made.words[i] for i in places] for places in asked]
        sides = [(words[: (len(words) + 1) // 2], words[(len(words) + 1) // 2 :]) for words in chosen]
        lines = [" + ".join(plus) + "".join(f" - {word}" for word in minus) for plus, minus in sides]
        for method, ask in (("add", theirs.most_similar), ("mul", theirs.most_similar_cosmul)):
            if limit and method == "mul":
                continue  # gensim takes restrict_vocab there and does not look at it
            answers = neighbors(found, lines, k, method=method, restrict=limit or 0, epsilon=1e-6)
            for (plus, minus), answer in zip(sides, answers, strict=True):
                expected = ask(plus, minus, topn=k, restrict_vocab=limit)
                scores = dict(expected)
                assert [score for _, score in answer.neighbors] == pytest.approx(
                    [score for _, score in expected], rel=2e-4, abs=1e-5
                )
                for word, score in answer.neighbors:  # words as near as float32 can tell may change places
                    assert word in scores or score == pytest.approx(expected[-1][1], rel=2e-4, abs=1e-5)


@pytest.mark.parametrize("name", ["crime-and-punishment.bin", "toy-model.bin"])
def test_files_of_its_own_tests(gensim, name):
    from gensim.test.utils import datapath

    path = datapath(name)
    if not Path(path).exists():
        pytest.skip("gensim is installed without its test data")
    theirs = gensim.models.fasttext.load_facebook_model(path).wv
    found = load(path)
    assert found.words.list() == theirs.index_to_key
    # gensim gives the end of the sentence n-grams, which fastText does not
    words = [place for place, word in enumerate(found.words) if word != "</s>"]
    np.testing.assert_allclose(found.matrix[words], theirs.vectors[words], atol=1e-5)
