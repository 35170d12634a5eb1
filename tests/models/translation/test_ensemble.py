"""Several models as one: one twice is itself, two are the mean of their probabilities."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tiny_encoder_decoders import BACKEND, FORMS, marks_of, next_scores, some_sources, source_batch, tiny

from nlptools.configs.generation import Generate
from nlptools.errors import BundleError
from nlptools.inference.generation.decoding import translate
from nlptools.inference.generation.forced import pair_scores
from nlptools.models.translation.ensemble import Ensemble

SOURCES = some_sources(4, 0, 7, 2)
WAYS = [Generate(temperature=0, max_new_tokens=9), Generate(beam=3, nbest=3, max_new_tokens=9), Generate(num_samples=2)]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("way", WAYS, ids=["greedy", "beam", "samples"])
def test_one_model_twice_is_the_model(form: str, way: Generate) -> None:
    model = tiny(form)
    twice = Ensemble([model, model])
    expected = translate(model, SOURCES, way, BACKEND, marks=marks_of(model))
    found = translate(twice, SOURCES, way, BACKEND, marks=marks_of(twice))
    assert expected is not None and found is not None
    for ours, theirs in zip(found, expected, strict=True):
        assert [c.ids for c in ours] == [c.ids for c in theirs]
        for a, b in zip(ours, theirs, strict=True):
            assert np.allclose(a.logprobs, b.logprobs, atol=1e-4)


def test_several_architectures_are_the_mean_of_their_probabilities() -> None:
    models = [tiny("transformer"), tiny("rnn"), tiny("convolution")]
    ensemble = Ensemble(models)
    assert ensemble.max_context == 100 and not ensemble.runs_in_16_bits
    assert ensemble.output.vocab_size == models[0].output.vocab_size and ensemble.start_token == models[0].start_token
    found = translate(ensemble, SOURCES, Generate(beam=4, nbest=2, max_new_tokens=8), BACKEND, marks=marks_of(ensemble))
    assert found is not None
    pairs, outputs = [], []
    for source, hypotheses in zip(SOURCES, found, strict=True):
        for output in hypotheses:
            pairs.append((source, output.ids))
            outputs.append(output)
            for t, token in enumerate(output.ids):
                each = [float(next_scores(model, source, output.ids[:t])[token].exp()) for model in models]
                assert np.exp(output.logprobs[t]) == pytest.approx(np.mean(each), abs=1e-5)
    forced = pair_scores(ensemble, pairs, BACKEND, marks=marks_of(ensemble))
    assert forced is not None
    for output, scores in zip(outputs, forced, strict=True):
        assert np.allclose(output.logprobs, scores[: len(output.logprobs)], atol=1e-4)


@torch.inference_mode()
def test_attention_is_the_mean_of_theirs() -> None:
    models = [tiny("transformer"), tiny("rnn")]
    read = torch.tensor([[models[0].start_token, 3]] * 4)
    batch = source_batch(SOURCES)
    states = [m.encode(*batch, capacity=5) for m in (Ensemble(models), *models)]
    assert not states[0].keeps_attention
    after = []
    for state, model in zip(states, (Ensemble(models), *models), strict=True):
        state.keeps_attention = True
        _, out = model(read, state)
        _, out = model(torch.tensor([[5]] * 4), out.select(torch.tensor([2, 2, 0, 0]), 2))
        assert out.keeps_attention
        after.append(out.attention)
    assert torch.allclose(after[0], (after[1] + after[2]) / 2, atol=1e-6)
    plain = Ensemble(models).encode(*batch, capacity=5)
    hidden, plain = Ensemble(models)(read, plain)
    assert plain.attention is None
    assert torch.allclose(hidden.exp().sum(-1), torch.ones(4, 2), atol=1e-5), "log-probabilities, for who reads them"


@pytest.mark.parametrize("changes", [{"size": 31}, {"target_vocab_size": 40, "share_embeddings": False}, {"eos": 3}])
def test_members_have_the_same_tokens(changes: dict[str, int]) -> None:
    with pytest.raises(BundleError, match="same vocabularies"):
        Ensemble([tiny("rnn"), tiny("rnn", **changes)])  # type: ignore[arg-type]
