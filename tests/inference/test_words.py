"""Surprisal of words: which tokens belong to which word, the correction at word ends, and what scores do not depend on."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import LANGUAGE_MODELS, TOY, tiny

from nlptools import bundle
from nlptools.compute.backend import Backend
from nlptools.configs.scoring import Score
from nlptools.configs.text import BuildVocab
from nlptools.inference.language_model import TextLanguageModel
from nlptools.inference.ngram_scorer import NGramScorer
from nlptools.inference.token_details import TokenDetails
from nlptools.inference.words import BOUNDARY, COLUMNS, IMPOSSIBLE, LOG_PROBABILITY, Wanted, WordScorer
from nlptools.layers.output import LogProbabilities
from nlptools.models import registry
from nlptools.models.language.ngram import NGramConfig, NGrams
from nlptools.models.language.ngram_decoder import NGramDecoder
from nlptools.text import vocabulary_building
from nlptools.text.builtin import NamedTokenizer
from nlptools.text.packages import tokenizers_package
from nlptools.text.tokenizer import Tokenizer, load
from nlptools.text.vocab import Vocab
from nlptools.text.word_marks import word_marks
from nlptools.training.ngrams import counting, smoothing

ALL = ("surprisal", "rank", "entropy", "tokens")
WORDS = Score(per="word", measures=ALL)
UNCORRECTED = Score(per="word", boundary_correction=False)
LINES = ["the cat sat on a mat", "", "  two   spaces\tand a tab ", "x", "ünï cat's 日本語 🎉.", "a cat"]


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory: pytest.TempPathFactory, english: list[str]) -> dict[str, Tokenizer]:
    """Tokenizers by kind, learned from a little English."""
    directory = tmp_path_factory.mktemp("tokenizers")
    text = directory / "text.txt"
    text.write_text("\n".join(english[:300]) + "\n", encoding="utf-8")
    learned = {}
    for kind, name in (("unigram", "u.model"), ("bpe", "b.model"), ("wordpiece", "wp"), ("byte-bpe", "bb")):
        vocabulary_building.build_vocab([str(text)], BuildVocab(kind=kind, output=str(directory / name), size=350))
        learned[kind] = load(directory / name)
    letters = Vocab(["<unk>", "</s>", "▁", "\t", *"abcdefghijklmnopqrstuvwxyz"])
    words = Vocab(["<unk>", "</s>", "the", "cat", "sat", "on", "a", "mat"])
    learned["char"], learned["bytes"] = NamedTokenizer("char", letters), load("bytes")
    learned["whitespace"], learned["words"] = NamedTokenizer("whitespace", words), NamedTokenizer("words", words)
    return learned


KINDS = ("unigram", "bpe", "wordpiece", "byte-bpe", "char", "bytes", "whitespace", "words")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", KINDS)
def test_all_pieces_belong_to_a_word_and_stand_in_its_order(kind: str, tokenizers: dict[str, Tokenizer]) -> None:
    tokenizer = tokenizers[kind]
    size = len(tokenizer.vocab or ())
    scorer = WordScorer(tokenizer, UNCORRECTED, size + 1, size)
    for line in LINES:
        pieces = tokenizer.encode(line)
        details = np.zeros((len(pieces) + 1, COLUMNS))
        details[:, LOG_PROBABILITY] = -1.0
        score = scorer.scores(line, details)
        assert score.words == line.split()
        assert score.surprisals == [float(n) for n in score.tokens] and min(score.tokens, default=1) > 0
        after = 1 if kind in ("char", "bytes", "byte-bpe") and line.endswith(" ") else 0
        assert sum(score.tokens) == len(pieces) - after
    spaced = scorer.scores(" a  cat", np.zeros((len(tokenizer.encode(" a  cat")) + 1, COLUMNS)))
    if kind in ("char", "bytes"):
        assert spaced.tokens == [2, 5], "white space belongs to the word after it"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", KINDS)
def test_marks_are_those_of_the_text(kind: str, tokenizers: dict[str, Tokenizer]) -> None:
    """Where tokens show that a word begins, they do so at each word but the first, and nowhere inside a word."""
    tokenizer = tokenizers[kind]
    begins = word_marks(tokenizer).begins
    assert (begins is None) == (kind in ("whitespace", "words"))
    if begins is None:
        return
    for line in ("the cat sat on a mat", "zebras quickly jumped over\tlazy wizards"):
        pieces, scorer = tokenizer.encode(line), WordScorer(tokenizer, UNCORRECTED, len(begins))
        counts = scorer.scores(line, np.zeros((len(pieces), COLUMNS))).tokens
        first = np.cumsum([0, *counts[:-1]])
        marked = np.flatnonzero(begins[pieces])
        assert set(first[1:]) <= set(marked.tolist()) <= set(first)


def test_marks_of_other_layouts() -> None:
    package = tokenizers_package()
    from nlptools.text.huggingface import HuggingFace

    def marks(model: Any, pre_tokenizer: Any = None, decoder: Any = None) -> Any:
        tokenizer = package.Tokenizer(model)
        if pre_tokenizer is not None:
            tokenizer.pre_tokenizer = pre_tokenizer
        if decoder is not None:
            tokenizer.decoder = decoder
        return word_marks(HuggingFace(tokenizer, "x"))

    bpe, decoders, splits = package.models.BPE, package.decoders, package.pre_tokenizers
    ids = {"a": 0, "▁a": 1, "<0x0A>": 2, "<0x41>": 3, "▁": 4}
    fallback = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    assert marks(bpe(ids, []), None, fallback).begins.tolist() == [False, True, True, False, True]
    ids = {"a": 0, "Ġa": 1, "Ċ": 2, "ĉb": 3, "Âł": 4, "Â": 5, "ã": 6, "ãĢĢ": 7, "<|end|>": 8}
    found = marks(bpe(ids, []), splits.ByteLevel()).begins
    assert found.tolist() == [False, True, True, True, True, False, False, True, False]
    at_end = marks(bpe({"a</w>": 0, "b": 1}, [], end_of_word_suffix="</w>"))
    assert at_end.begins is None and at_end.at_end
    assert marks(package.models.WordLevel({"a": 0, "b": 1}), splits.WhitespaceSplit()) == (None, False)


def test_the_mark_at_the_end_of_a_piece_belongs_to_its_word() -> None:
    tokenizer = NamedTokenizer("char", Vocab(["<unk>", "a▁", "▁", "b", "a"]))
    scorer = WordScorer(tokenizer, UNCORRECTED, 5)
    scorer.marks = scorer.marks._replace(begins=None, at_end=True)
    assert scorer.scores("ab a", np.zeros((4, COLUMNS))).tokens == [3, 1]


def test_pieces_of_several_words_and_words_without_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = NamedTokenizer("char", Vocab([*"▁abcd"]))
    monkeypatch.setattr(tokenizer, "offsets", lambda line: [(0, 4), (4, 6)])  # "ab c" and " d"
    details = np.full((3, COLUMNS), -2.0)
    score = WordScorer(tokenizer, WORDS, 6, 5).scores("ab c d", details)
    assert (score.words, score.tokens) == (["ab", "c", "d"], [1, 0, 1])
    assert score.surprisals == [4.0, 0.0, 2.0]  # the first pays for the space after "ab c", the last for the end
    assert score.ranks == [-2, None, -2] and score.entropies == [-2.0, None, -2.0]


def test_the_correction_moves_the_end_of_a_word_to_the_word() -> None:
    tokenizer = NamedTokenizer("char", Vocab([*"▁ab"]))
    line = "ab b"
    details = np.zeros((5, COLUMNS))
    details[:, LOG_PROBABILITY] = [-1, -2, -3, -4, -0.5]
    details[:, BOUNDARY] = [-9, -8, -2.5, -6, -0.25]
    found = WordScorer(tokenizer, WORDS, 4, 3).scores(line, details)
    assert found.surprisals == [1 + 2 + 2.5, 3 + 4 + 0.25 - 2.5]
    assert WordScorer(tokenizer, UNCORRECTED, 4, 3).scores(line, details).surprisals == [3, 7]
    details[2, LOG_PROBABILITY] = -np.inf
    found = WordScorer(tokenizer, WORDS, 4, 3).scores(line, details)
    assert found.surprisals == [5.5, math.inf]


# -- models -----------------------------------------------------------------------------------------------------------


def scorer_of(model: Any, arch: str, tokenizer: Tokenizer, eos: int) -> TextLanguageModel:
    loaded = bundle.Bundle(Path("lm"), arch, model, tokenizer, {"eos_token_id": eos}, {})
    return TextLanguageModel(loaded, Backend(torch.device("cpu")))


@pytest.mark.sampled(7)
@pytest.mark.parametrize("kind", ["char", "unigram", "byte-bpe"])
@pytest.mark.parametrize("arch", LANGUAGE_MODELS)
def test_scores_of_words_depend_on_their_line_alone_and_sum_to_it(
    arch: str, kind: str, tokenizers: dict[str, Tokenizer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law: neither batch size nor neighbours change a value; words and the end of text together are the line."""
    monkeypatch.setitem(registry.ARCHITECTURES, TOY.name, TOY)
    tokenizer = tokenizers[kind]
    assert tokenizer.vocab is not None
    eos = len(tokenizer.vocab)
    model = scorer_of(tiny(arch, vocab_size=eos + 1), arch, tokenizer, eos)
    lines = [*LINES, "the cat sat on the mat and on the other mat"]  # longer than the context
    together = model.words(lines, WORDS)
    for line, score in zip(lines, together, strict=True):
        [alone] = model.words([line], Score(per="word", measures=ALL, batch_tokens=1))
        assert alone.surprisals == pytest.approx(score.surprisals, abs=2e-4, rel=1e-4)
        assert alone.entropies == pytest.approx(score.entropies, abs=2e-4)
        assert alone.tokens == score.tokens
    uncorrected = model.words(lines, UNCORRECTED)
    for score, plain, whole in zip(together, uncorrected, model.score_batch(lines, Score(per="token")), strict=True):
        n = sum(score.tokens)
        assert sum(plain.surprisals) == pytest.approx(-sum(whole.logprobs[:n]), rel=1e-4, abs=1e-4)
        # what the last word takes from the end of the text
        assert sum(score.surprisals) >= sum(plain.surprisals) - 1e-4


def test_white_space_that_tokens_do_not_show_moves_nothing(tmp_path: Path) -> None:
    """The bytes of a no-break space are no marks of words, so that a new word is not certain to begin with a mark."""
    from tiny_bundles import bytes_bundle

    likely = "ab \u00a0".encode()
    model = scorer_of(bundle.load(bytes_bundle(tmp_path / "lm", likely)).model, "transformer", load("bytes"), 256)
    [score] = model.words(["a\u00a0b a"], WORDS)
    # five likely bytes; "b" and the last word end before a space or the end of the text
    assert score.words == ["a", "b", "a"] and score.tokens == [1, 3, 2]
    assert score.surprisals == pytest.approx([n * math.log(5) for n in (1, 4, 2)], rel=1e-5)


def test_surprisal_in_a_distribution_that_is_known(tmp_path: Path) -> None:
    """Three bytes, equally likely: a word of n letters has probability (1/3)^n, times 1/3 for the space after it."""
    from tiny_bundles import bytes_bundle

    model = scorer_of(bundle.load(bytes_bundle(tmp_path / "lm", "ab ")).model, "transformer", load("bytes"), 256)
    [first] = model.words(["a ab bba"], WORDS)
    # later words have the space before them, too, which the word before has paid for
    assert first.surprisals == pytest.approx([n * math.log(3) for n in (2, 3, 4)], rel=1e-5)
    assert first.entropies == pytest.approx([math.log(3)] * 3, rel=1e-5)
    [plain] = model.words(["a ab bba"], UNCORRECTED)
    assert plain.surprisals == pytest.approx([n * math.log(3) for n in (1, 3, 4)], rel=1e-5)
    assert first.ranks == [1, 1, 1]


def test_n_grams_without_pytorch_give_the_same_values(tokenizers: dict[str, Tokenizer]) -> None:
    tokenizer = tokenizers["char"]
    assert tokenizer.vocab is not None
    tokens = [*tokenizer.vocab.tokens, "<s>"]
    tokenizer = NamedTokenizer("char", Vocab(tokens))
    eos, bos = 1, len(tokens) - 1
    text = ["the cat sat on a mat", "a hat", "the rat ate the oats"]
    flat = np.array([i for line in text for i in (bos, *tokenizer.encode(line), eos)])
    config = NGramConfig(len(tokens), 3, bos)
    model = smoothing.estimate(counting.count(flat, config), config, smoothing.witten_bell)
    assert isinstance(model, NGrams)
    loaded = bundle.Bundle(Path("lm"), "ngram", model, tokenizer, {"eos_token_id": eos}, {})  # type: ignore[arg-type]
    ours = NGramScorer(loaded, model)
    torch_one = scorer_of(NGramDecoder(model, eos), "ngram", tokenizer, eos)
    for settings in (WORDS, UNCORRECTED):
        for a, b in zip(ours.words(LINES[:4], settings), torch_one.words(LINES[:4], settings), strict=True):
            assert a.words == b.words and a.tokens == b.tokens and a.ranks == b.ranks
            assert a.surprisals == pytest.approx(b.surprisals, rel=1e-4)
            assert a.entropies == pytest.approx(b.entropies, rel=1e-4)
    assert ours.words([], WORDS) == []


def test_no_value_is_missing_where_no_word_can_end() -> None:
    details = TokenDetails(Wanted(np.array([True, False, False]), rank=True, entropy=True), torch.device("cpu"))
    logs = torch.tensor([[-torch.inf, 0.5, 0.5], [0.5, -torch.inf, 0.5]]).log_softmax(-1)
    found = details(LogProbabilities(3), logs, torch.tensor([1, 1]))
    half = math.log(0.5)
    expected = [[half, IMPOSSIBLE, 1, -half], [-math.inf, half, 3, -half]]
    assert found.tolist() == [pytest.approx(row) for row in expected]
