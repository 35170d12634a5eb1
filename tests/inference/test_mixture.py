"""Mixtures: the laws of language models, and their probabilities beside the definition, token by token."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from head_law import assert_head_agrees
from tiny_bundles import WORDS, words_bundle
from tiny_models import tiny

import nlptools
from nlptools import bundle
from nlptools.compute.backend import Backend
from nlptools.configs import Training
from nlptools.configs.architectures.ngram import NGramOptions
from nlptools.configs.generation import Generate
from nlptools.configs.scoring import Score
from nlptools.errors import UsageError
from nlptools.inference import mixture, scoring
from nlptools.inference.generation import decoding
from nlptools.inference.mixed_model import MixedLanguageModel
from nlptools.models.language.alignment import TokenAlignment, Tokens, align
from nlptools.models.language.ngram_mixture import NGramMixture, interpolated
from nlptools.text import tokenizer as tokenizers
from nlptools.text.vocab import Vocab
from nlptools.training.ngrams.train import train_ngrams

EOS = 1
BACKEND = Backend(torch.device("cpu"))
GREEDY = Generate(temperature=0, max_new_tokens=8, logprobs=True)
# other words in another order, another end of text, no padding
OTHERS = ["w3", *(f"w{i}" for i in range(20, 44)), "extra", "<eos>", "[UNK]", "w1", "w2", ",", "more"]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directories `lstm`, `gpt` and the n-gram model `counts`, each with a vocabulary of its own."""
    place = tmp_path_factory.mktemp("models")
    words_bundle(place / "lstm", "lstm")
    words_bundle(place / "same", "transformer")
    (place / "gpt").mkdir()
    tokenizer, model = (
        tokenizers.load("words", vocab=Vocab(OTHERS)),
        tiny("transformer", vocab_size=len(OTHERS), seed=3),
    )
    weights = model.state_dict()
    bundle.save(place / "gpt", "transformer", model, weights, tokenizer, eos=26, document="line", training={})
    draw = np.random.default_rng(5)
    lines = [" ".join(f"w{i}" for i in draw.integers(0, 6, draw.integers(1, 8))) for _ in range(40)]
    for name, order, extra in (("counts", 3, "rare w1 w2\nseldom w3 w1\n"), ("pairs", 2, "w9 w2 , w1\n")):
        (place / "text").write_text("\n".join(lines) + "\n" + extra)
        options = NGramOptions(tokenizer="words", order=order)
        train_ngrams([str(place / "text")], options, Training(output=str(place / name)))
    return place


def load(models: Path, *names: str, settings: Any = None) -> Any:
    paths = [models / name for name in names]
    return nlptools.load(*paths, settings=settings or Score(), precision="fp32", threads=1)


@pytest.fixture(scope="module")
def mixed(models: Path) -> MixedLanguageModel:
    loaded: MixedLanguageModel = load(models, "lstm", "gpt", "counts", settings=Score(mix_weights=".5,.3,.2"))
    return loaded


def ids(rows: int = 3, length: int = 10, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).integers(0, 50, (rows, length)))


def logits(model: Any, x: torch.Tensor, state: Any = None) -> torch.Tensor:
    out: torch.Tensor = model.output.logits(model(x, state)[0])
    return out


# -- what is mixed ----------------------------------------------------------------------------------------------------


def definition(loaded: Any, alone: Any, sentence: list[str]) -> dict[str, float]:
    """The distribution of `alone` after a sentence, over the tokens of `loaded`, by the words of `models.language.alignment`."""
    main, other = loaded.vocab, alone.vocab
    unknown, end = main.token(main.unk), main.token(loaded.bundle.eos)
    known = [word if word in main.ids else unknown for word in sentence]
    its = [other.id(word) if word != unknown else other.unk for word in known]
    if isinstance(alone, mixture.NGramScorer):
        own = 10.0 ** alone.model.next_words([alone.model.config.bos, *its]).astype(np.float64)
    else:
        with torch.inference_mode():
            own = logits(alone.model, torch.tensor([[alone.bundle.eos, *its]]))[0, -1].double().softmax(-1).numpy()
    names = [*other.tokens]
    names[alone.bundle.eos], names[other.unk] = end, unknown
    out = dict.fromkeys(main.tokens, 0.0)
    lacking = [token for token in main.tokens if token not in names and token not in ("<s>", "<pad>")]
    for name, p in zip(names, own.tolist(), strict=True):
        if name == unknown:
            for token in (*lacking, unknown):
                out[token] += p / (1 + len(lacking))
        else:
            out[name if name in out and name != "<s>" else unknown] += p
    return out


@torch.inference_mode()
def test_each_token_has_the_weighted_mean_of_its_probabilities(models: Path, mixed: Any) -> None:
    parts = [load(models, name) for name in ("lstm", "gpt", "counts")]
    # `extra` and `rare` are words of one model that the main one does not know
    for line in ("w1 w2 nowhere w3", "w30 extra w4", "rare w1 w2", "w3 w1 more", ""):
        words = [*line.split(), "</s>"]
        row = mixed.score_batch([line], Score())[0]
        for t, (word, found) in enumerate(zip(words, row.logprobs, strict=True)):
            expected = 0.0
            for weight, part in zip((0.5, 0.3, 0.2), parts, strict=True):
                distribution = definition(mixed, part, words[:t])
                assert sum(distribution.values()) == pytest.approx(1, abs=1e-5)
                expected += weight * distribution[word if word in distribution else "<unk>"]
            assert found == pytest.approx(np.log(expected), abs=1e-4), (line, t)


def test_ngrams_are_mixed_without_pytorch_as_with_it(models: Path) -> None:
    settings = Score(mix_weights=".6,.4")
    plain: Any = load(models, "counts", "pairs", settings=settings)
    assert isinstance(plain, mixture.NGramMixtureScorer)
    general = MixedLanguageModel(plain.parts, BACKEND)
    assert general.weights == plain.weights == [0.6, 0.4]
    lines = ["w1 w2 w3", "", "w9 , w1 nowhere", "rare w9 w2 w1 w1 w3", "nowhere w0"]
    for one, other in zip(plain.score(lines, settings), general.score(lines, settings), strict=True):
        assert one.tokens == other.tokens and one.logprobs == pytest.approx(other.logprobs, abs=1e-4)
    model: Any = plain.model
    assert isinstance(model, NGramMixture)
    for context in ([], [1], [1, 5], [5, 0, 4]):
        assert np.exp(model.next_words(context) * np.log(10)).sum() == pytest.approx(1, abs=1e-5)
    words = np.array([1, 5, 4, 0, 2, 1, 2])
    found = model.score(words)
    for t in range(1, len(words)):
        if words[t] != 1:
            context = words[max(np.flatnonzero(words[:t] == 1)) : t].tolist()
            assert found.log_probs[t] == pytest.approx(float(model.next_words(context)[words[t]]), abs=1e-5)


def test_alignment_of_vocabularies() -> None:
    main = Tokens(Vocab(["<unk>", "</s>", "<pad>", "a", "b", "c"]), 7, 1, 2)
    part = Tokens(Vocab(["b", "<unk>", "x", "<eos>", "<pad>", "</s>"]), 6, 3, 3, frozenset({4}))
    found = align(main, part)
    assert found.ids.tolist() == [1, 3, 3, 1, 0, 1, 1]  # what stands before a text belongs together
    assert found.sharing.tolist() == [3, 1, 0, 3, 1, 3, 0]  # padding, and the id that only the model has, get nothing
    assert found.others.tolist() == [2, 5] and found.lacking == 2 and not found.same
    assert TokenAlignment.identity(main).same
    text, its = np.array([4, 3, 0, 1]), np.array([0, 1, 2, 3])
    assert not found.differs(text, its)
    assert found.differs(text, its[:3]) and found.differs(np.array([3]), np.array([2]))


def test_different_tokens_are_refused(models: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("w 1 , w2\nw1\n")
    options = NGramOptions(tokenizer="whitespace", order=2)
    train_ngrams([str(tmp_path / "text")], options, Training(output=str(tmp_path / "split")))
    loaded: Any = nlptools.load(models / "counts", tmp_path / "split", settings=Score())
    assert len(loaded.score_batch(["w1 , w2", "w1 nowhere"], Score())) == 2
    with pytest.raises(UsageError, match=r"reads the tokens 'w1 ,' and .*split reads 'w1,'"):
        loaded.score_batch(["w2", "w1,"], Score())
    with pytest.raises(UsageError, match="3 numbers, the mixture has 2 models"):
        nlptools.load(models / "counts", models / "pairs", settings=Score(mix_weights=".3,.3,.4"))


# -- laws of language models --------------------------------------------------------------------------------------------


@torch.inference_mode()
def test_the_head_is_one_distribution(mixed: Any) -> None:
    hidden = mixed.model(ids())[0].flatten(0, 1)
    assert_head_agrees(mixed.model.output, hidden)
    for k, part in enumerate(mixed.model.output.split(hidden)):
        out = mixed.model.output.heads[k].logits(part).exp().sum(-1)
        assert torch.allclose(out, torch.ones(len(out)), atol=1e-5), k


@torch.inference_mode()
def test_the_future_does_not_change_the_past_and_steps_equal_all_at_once(mixed: Any) -> None:
    model, x = mixed.model, ids()
    whole = logits(model, x)
    y = x.clone()
    y[:, 6] = (y[:, 6] + 1) % 50
    assert torch.allclose(whole[:, :6], logits(model, y)[:, :6], atol=1e-5)
    state, parts = model.start(3, 4), []
    for begin, end in ((0, 4), (4, 5), (5, 6), (6, 10)):
        hidden, state = model(x[:, begin:end], state)
        parts.append(model.output.logits(hidden))
    assert torch.allclose(whole, torch.cat(parts, 1), atol=1e-4)
    rows = torch.tensor([2, 0, 2])
    _, state = model(x, model.start(3, 12))
    chosen, _ = model(ids(3, 1, seed=9), state.select(rows))
    _, again = model(x[rows], model.start(3, 12))
    assert torch.allclose(chosen, model(ids(3, 1, seed=9), again)[0], atol=1e-4)


@torch.inference_mode()
def test_padding_on_the_left_does_not_change_real_positions(mixed: Any) -> None:
    model, x = mixed.model, ids(1, 6)
    alone, _ = model(x, model.start(1, 10))
    padded = torch.cat([torch.cat([torch.full((1, 3), 7), x], 1), ids(1, 9, seed=5)])
    mask = torch.stack([torch.arange(9) >= 3, torch.ones(9, dtype=torch.bool)])
    together, _ = model(padded, model.start(2, 10), mask)
    assert torch.allclose(alone[0], together[0, 3:], atol=1e-4)


def test_decoding(mixed: Any) -> None:
    prompts = [[EOS, 7], [EOS, 8, 9, 30, 0], [EOS]]
    greedy = decoding.generate(mixed.model, prompts, GREEDY, BACKEND, eos=EOS)
    beam = decoding.generate(mixed.model, prompts, Generate(beam=1, max_new_tokens=8), BACKEND, eos=EOS)
    assert [c[0].ids for c in beam] == [c[0].ids for c in greedy]
    for settings in (GREEDY, Generate(max_new_tokens=8, top_p=0.9, num_samples=2), Generate(beam=4, max_new_tokens=30)):
        together = decoding.generate(mixed.model, prompts, settings, BACKEND, eos=EOS, seed=5)
        for number, prompt in enumerate(prompts):
            alone = decoding.generate(mixed.model, [prompt], settings, BACKEND, eos=EOS, seed=5, first=number)
            assert [c.ids for c in alone[0]] == [c.ids for c in together[number]]
    for prompt, (found,) in zip(prompts, greedy, strict=True):
        text = [*prompt[1:], *found.ids, *([EOS] if found.finish == "eos" else [])]
        with torch.inference_mode():
            scored = scoring.document_scores(mixed.model, [text], BACKEND, start=EOS)
        assert scored is not None and np.allclose(scored[0][len(prompt) - 1 :], found.logprobs, atol=1e-4)


@torch.inference_mode()
def test_a_long_state_is_carried_unless_a_part_has_a_longest_context(models: Path) -> None:
    lines = [" ".join(f"w{(i * j) % 9}" for j in range(4)) for i in range(8)]
    for names, carried in ((("lstm", "counts"), True), (("lstm", "same"), True)):
        model: Any = load(models, *names)
        alone = [row.logprob for row in model.score(lines, Score())]
        stream = [row.logprob for row in model.score(lines, Score(carry=True))]
        assert stream[0] == pytest.approx(alone[0], abs=1e-4)
        assert (abs(stream[3] - alone[3]) > 1e-3) == carried
    assert load(models, "lstm", "counts").model.max_context is None
    assert load(models, "lstm", "same").model.max_context == 24


# -- weights ----------------------------------------------------------------------------------------------------------


def test_the_best_weights() -> None:
    draw = np.random.default_rng(0)
    probs = draw.random((500, 3)) * [1.0, 0.7, 1e-9]
    probs[0] = 0.0  # impossible by all
    probs[1, 0] = 0.0
    with np.errstate(divide="ignore"):
        logs = np.log(probs)
    weights = mixture.best_weights(logs)
    assert weights.sum() == pytest.approx(1) and weights[2] < 1e-3
    best = interpolated(logs[1:], weights).mean()
    for _ in range(200):
        other = np.abs(weights + draw.normal(0, 0.1, 3))
        assert interpolated(logs[1:], other / other.sum()).mean() <= best + 1e-6
    assert mixture.best_weights(np.zeros((0, 2))).tolist() == [0.5, 0.5]


def test_tokens_of_the_words_bundle_are_those_of_the_main_model(mixed: Any) -> None:
    assert mixed.vocab.tokens == WORDS and mixed.model.output.vocab_size == len(WORDS)
