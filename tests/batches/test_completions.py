"""Packed sequences: each token and target once, and no sequence sees another one."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nlptools.batches.completions import NEXT, ChatSegment, CompletionEncoding, PackedBatches, in_order, packed_batch
from nlptools.batches.features import Features
from nlptools.batches.windows import NO_TARGET
from nlptools.text.builtin import NamedTokenizer
from nlptools.text.vocab import Vocab
from tests.tasks.tiny_tasks import GPT_WORDS
from tests.tiny_models import tiny


def encoding(max_length: int = 24) -> CompletionEncoding:
    return CompletionEncoding(NamedTokenizer("whitespace", Vocab(GPT_WORDS)), 1, 0, max_length)


def some(count: int, seed: int = 0) -> Features:
    rng = np.random.default_rng(seed)
    texts = [
        [" ".join(f"w{i}" for i in rng.integers(20, size=rng.integers(1, 6))) for _ in range(2)] for _ in range(count)
    ]
    return encoding().sequences([[ChatSegment(prompt, False), ChatSegment(answer, True)] for prompt, answer in texts])


def test_sequences() -> None:
    features = encoding().sequences(
        [[ChatSegment("w0 w1", False), ChatSegment("w2", True), ChatSegment("w3", False), ChatSegment("", True)]]
    )
    assert features.rows.ids.tolist() == [1, 4, 5, 6, 0, 7]
    assert features.targets[NEXT].tolist() == [NO_TARGET, NO_TARGET, 6, 0, NO_TARGET, 0]
    prompt, answer = ChatSegment("w0 w1 w2 w3", False), ChatSegment("w5 w6", True)
    cut = encoding(5).sequences([[prompt, answer]])
    assert cut.cut == 1 and cut.rows.ids.tolist() == [1, 6, 7, 9, 10] and cut.targets[NEXT].tolist()[-3:] == [9, 10, 0]
    short = encoding(3).sequences([[prompt, ChatSegment("w5 w6 w7 w8", True)]])
    assert short.rows.ids.tolist() == [1, 7, 9] and short.targets[NEXT].tolist() == [NO_TARGET, 9, 10]


def test_every_token_once() -> None:
    features = some(50)
    batches = PackedBatches(features, 8, seed=1)
    source, seen = iter(batches), []
    for _ in range(7):
        batch = next(source)
        real = batch.segments >= 0
        assert real.sum() == features.lengths[batch.sequences].sum()
        for place, sequence in enumerate(batch.sequences.tolist()):
            span = slice(*features.rows.bounds[sequence : sequence + 2])
            assert np.array_equal(batch.ids[batch.segments == place], features.rows.ids[span])
            assert np.array_equal(batch.targets[batch.segments == place], features.targets[NEXT][span])
        assert (batch.targets[~real] == NO_TARGET).all()
        seen += batch.sequences.tolist()
    assert sorted(seen) == list(range(50)) and batches.epoch == 1
    assert sorted(np.concatenate(in_order(features, 40)).tolist()) == list(range(50))
    padding = packed_batch(features, np.arange(3), counts=False)
    assert padding.num_targets == 0


@pytest.mark.parametrize("arch", ["transformer", "modern", "window"])
def test_no_sequence_sees_another(arch: str) -> None:
    features = some(12)
    window = {"sliding_window": 3, "whole_layers": (0,)} if arch == "window" else {}
    model = tiny("modern" if window else arch, vocab_size=len(GPT_WORDS), **window)
    batch = packed_batch(features, np.arange(12))
    assert len(batch.ids) < 12
    hidden = model.packed(torch.from_numpy(batch.ids), torch.from_numpy(batch.segments))
    for place in range(12):
        where = torch.from_numpy(batch.segments == place)
        alone, _ = model(torch.from_numpy(batch.ids)[where][None])
        assert torch.allclose(hidden[where], alone[0], atol=1e-5)
