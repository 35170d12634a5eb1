"""Beam search against that of transformers: the same weights, the same outputs and scores."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_encoder_decoders import BACKEND
from tiny_models import tiny as tiny_language_model

from nlptools import bundle
from nlptools.configs.generation import Generate
from nlptools.inference.generation.continuation import padded
from nlptools.inference.generation.decoding import generate, translate
from nlptools.models import registry
from nlptools.text import learning, tokenizer_pairs
from nlptools.text import tokenizer as tokenizers
from nlptools.text.pair_format import PairMarks
from nlptools.text.pieces import SentencePiece
from nlptools.text.vocab import Vocab

transformers = pytest.importorskip("transformers")
pytestmark = [pytest.mark.reference, pytest.mark.filterwarnings("ignore")]

SIZES = {
    "hidden_size": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_heads": 4,
    "decoder_heads": 2,
    "encoder_intermediate_size": 48,
    "decoder_intermediate_size": 40,
    "max_position_embeddings": 64,
}
LONGEST = 40


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """A model that has learned a little, so that it is never sure, and what transformers makes of its directory."""
    rng = random.Random(1)
    text = [" ".join("".join(rng.choices("abcdefgh", k=4)) for _ in range(8)) for _ in range(200)]
    source, target = tokenizer_pairs.pair(SentencePiece(learning.train_sentencepiece(text, "unigram", 40), "m"), None)
    pad, eos, size, _ = tokenizer_pairs.special_ids(source, target)
    config = registry.config_class("seq2seq-transformer")(size, size, pad, eos, **SIZES)
    model = registry.model_class("seq2seq-transformer")(config)
    torch.manual_seed(1)
    model.initialize()
    learn_a_little(model)
    out = tmp_path_factory.mktemp("beam") / "m"
    out.mkdir()
    bundle.save_pair(out, "seq2seq-transformer", model, model.state_dict(), source, target, training={"by": "a test"})
    return model.eval(), transformers.MarianMTModel.from_pretrained(out).eval()


def learn_a_little(model: Any) -> None:
    """Count upwards, in steps of several sizes, to the last token there is; and then mind the source more than is good."""
    rng, config = np.random.default_rng(3), model.config
    optimizer = torch.optim.Adam(model.parameters(), 5e-3)
    for _ in range(60):
        source = rng.integers(3, config.pad, (24, rng.integers(1, 12)))
        text = rng.integers(3, 12, (24, 1)) + np.cumsum(rng.choice([2, 2, 3, 9], (24, 20)), 1)
        said = torch.from_numpy(np.where(text < config.pad, text, config.eos))
        over = (said == config.eos).int().cumsum(1) > 1  # there is one end
        ends = torch.full((24, 1), config.eos)
        hidden, _ = model(
            torch.cat([torch.full_like(ends, config.pad), said[:, :-1]], 1),
            model.encode(torch.cat([torch.from_numpy(source), ends], 1)),
        )
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(
            model.output.logits(hidden).transpose(1, 2), said.masked_fill(over, -100)
        ).backward()
        optimizer.step()
    with torch.no_grad():
        for block in model.decoder:
            block.cross_attention.output.weight.mul_(3)
    bias = torch.zeros_like(model.output_bias)
    bias[config.eos], bias[config.pad] = -2.0, -1e4  # and go on a little longer
    model.load_state_dict({**model.state_dict(), "output_bias": bias})


def sources(model: Any) -> list[list[int]]:
    rng = np.random.default_rng(2)
    return [rng.integers(3, model.config.pad, 1 + i % 17).tolist() for i in range(30)]


def marks(model: Any) -> PairMarks:
    """As the directory says."""
    return PairMarks(model.start_token, model.config.eos, ends_at_limit=True)


def theirs_of(row: torch.Tensor, eos: int) -> list[int]:
    """The tokens of an output of theirs, without its start, its end and what comes after."""
    ids: list[int] = row.tolist()[1:]
    return ids[: ids.index(eos)] if eos in ids else ids


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "changes",
    [
        {"length_penalty": 0.6},
        {"length_penalty": 1.0},
        {"length_penalty": 2.0},
        {"length_penalty": 0.0, "min_new_tokens": 5},
        {"no_repeat_ngram": 2},
        {"no_repeat_ngram": 3, "min_new_tokens": 8, "beam": 5},
        {"beam": 7, "length_penalty": 1.5},
        {"early_stopping": True, "length_penalty": 2.0},
        {"early_stopping": True, "max_new_tokens": 9, "repetition_penalty": 1.2},
        {"max_new_tokens": 5, "length_penalty": 0.3, "beam": 6},
    ],
    ids=str,
)
@pytest.mark.parametrize("best", [1, 4])
def test_outputs_and_scores_of_a_beam(both: tuple[Any, Any], changes: dict[str, Any], best: int) -> None:
    model, theirs = both
    settings = Generate(**{"beam": 4, "nbest": best, "max_new_tokens": LONGEST, **changes})
    eos = model.config.eos
    found = translate(model, sources(model), settings, BACKEND, marks=marks(model))
    assert found is not None
    rows = [[*source, eos] for source in sources(model)]
    ids, mask = padded(rows, model.config.pad)
    with torch.inference_mode():
        out = theirs.generate(
            input_ids=torch.from_numpy(ids),
            attention_mask=torch.from_numpy(mask).long(),
            num_beams=settings.beam,
            num_return_sequences=best,
            max_new_tokens=settings.max_new_tokens,
            min_new_tokens=settings.min_new_tokens,
            repetition_penalty=settings.repetition_penalty,
            length_penalty=settings.length_penalty,
            no_repeat_ngram_size=settings.no_repeat_ngram,
            early_stopping=settings.early_stopping,
            do_sample=False,
            return_dict_in_generate=True,
            output_scores=True,
        )
    for i, outputs in enumerate(found):
        rows = [theirs_of(row, eos) for row in out.sequences[i * best : (i + 1) * best]]
        assert [c.ids for c in outputs] == rows
        scores = out.sequences_scores[i * best : (i + 1) * best].tolist()
        assert [c.score for c in outputs] == pytest.approx(scores, abs=1e-4)
    assert len({tuple(c.ids) for outputs in found for c in outputs}) >= 2 * best


def test_greedy_search(both: tuple[Any, Any]) -> None:
    model, theirs = both
    found = translate(
        model, sources(model), Generate(temperature=0, max_new_tokens=LONGEST), BACKEND, marks=marks(model)
    )
    assert found is not None
    for source, (output,) in zip(sources(model), found, strict=True):
        with torch.inference_mode():
            out = theirs.generate(
                input_ids=torch.tensor([[*source, model.config.eos]]),
                num_beams=1,
                do_sample=False,
                max_new_tokens=LONGEST,
            )
        assert output.ids == theirs_of(out[0], model.config.eos)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("penalty", [0.0, 1.0, 1.7])
def test_a_beam_of_a_language_model(tmp_path: Path, penalty: float) -> None:
    words = ["<unk>", "</s>", *(f"w{i}" for i in range(8))]
    model = tiny_language_model("transformer", vocab_size=len(words), max_position_embeddings=64)
    optimizer, rng = torch.optim.Adam(model.parameters(), 3e-3), np.random.default_rng(3)
    for _ in range(40):  # counting upwards, now and then by two, to the end
        text = np.cumsum(rng.choice([1, 1, 1, 2], (16, 20)), 1) + rng.integers(-8, 1, (16, 1))
        text = torch.from_numpy(np.where((text < 1) | (text > 9), 1, text))
        optimizer.zero_grad()
        logits = model.output.logits(model(text[:, :-1])[0])
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten()).backward()
        optimizer.step()
    tokenizer = tokenizers.load("words", vocab=Vocab(words))
    bundle.save(
        tmp_path, "transformer", model, model.state_dict(), tokenizer, eos=1, document="line", training={"by": "a test"}
    )
    theirs = transformers.GPT2LMHeadModel.from_pretrained(tmp_path).eval()
    prompts = [[1, *row] for row in np.random.default_rng(4).integers(2, len(words), (20, 5)).tolist()]
    settings = Generate(beam=4, max_new_tokens=LONGEST, length_penalty=penalty)
    found = generate(model, prompts, settings, BACKEND, eos=1)
    with torch.inference_mode():
        out = theirs.generate(
            input_ids=torch.tensor(prompts),
            attention_mask=torch.ones(20, 6, dtype=torch.int64),
            num_beams=4,
            max_new_tokens=LONGEST,
            length_penalty=penalty,
            early_stopping=False,
            do_sample=False,
            eos_token_id=1,
            pad_token_id=1,
            return_dict_in_generate=True,
            output_scores=True,
        )
    for i, outputs in enumerate(found):
        assert outputs[0].ids == theirs_of(out.sequences[i, 5:], 1)
        assert outputs[0].score == pytest.approx(float(out.sequences_scores[i]), abs=1e-4)
    assert len({len(outputs[0].ids) for outputs in found}) > 3
