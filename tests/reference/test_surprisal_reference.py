"""Surprisal of words beside the published equations, written down for one word at a time over transformers."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

import nlptools
from nlptools.configs.scoring import Score

pytestmark = [pytest.mark.reference, pytest.mark.filterwarnings("ignore")]
LINES = ["the cat sat on the mat", "dogs sat, on mats", "the log"]


@pytest.fixture
def gpt2(tmp_path: Path) -> Path:
    """A GPT-2 directory as transformers saves it, with a byte-level BPE tokenizer trained on the spot."""
    from tokenizers import ByteLevelBPETokenizer
    from transformers import GPT2Config, GPT2LMHeadModel, GPT2TokenizerFast

    tokenizer = ByteLevelBPETokenizer()
    text = ["the cat sat on the mat and the dog sat on the log"] * 10
    tokenizer.train_from_iterator(text, vocab_size=290, special_tokens=["<|endoftext|>"])
    eos = tokenizer.token_to_id("<|endoftext|>")
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    GPT2TokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json")).save_pretrained(tmp_path / "gpt2")
    sizes = {"vocab_size": tokenizer.get_vocab_size(), "n_positions": 32, "n_embd": 48, "n_layer": 2, "n_head": 4}
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=eos, eos_token_id=eos))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(tmp_path / "gpt2")
    return tmp_path / "gpt2"


@torch.inference_mode()
def by_the_equations(directory: Path, line: str) -> list[tuple[float, float, float, int, float]]:
    """(surprisal, surprisal without correction, entropy, rank, pieces) of each word, in nats."""
    from transformers import GPT2LMHeadModel, GPT2TokenizerFast

    model, tokenizer = GPT2LMHeadModel.from_pretrained(directory).eval(), GPT2TokenizerFast.from_pretrained(directory)
    eos = model.config.eos_token_id
    new_word = [id for id in range(len(tokenizer)) if id == eos or tokenizer.decode([id])[:1].isspace()]
    before = [eos]
    rows, paid = [], 0.0
    for number, word in enumerate(line.split()):
        ids = tokenizer.encode((" " if number else "") + word)
        logs = model(torch.tensor([before + ids])).logits[0].double().log_softmax(-1)
        nats = -sum(float(logs[len(before) - 1 + i, id]) for i, id in enumerate(ids))
        ends = float(logs[-1, new_word].logsumexp(0))
        first = logs[len(before) - 1]
        entropy = -float((first.exp() * first).sum())
        rank = 1 + int((first > first[ids[0]]).sum())
        rows.append((nats - ends + paid, nats, entropy, rank, len(ids)))
        before, paid = before + ids, ends
    return rows


def test_words_of_a_gpt2(gpt2: Path) -> None:
    model = nlptools.load(gpt2, precision="fp32", threads=1, settings=Score())
    settings = Score(per="word", measures=("surprisal", "rank", "entropy"))
    found = model.words(LINES, settings)
    plain = model.words(LINES, Score(per="word", boundary_correction=False))
    for line, score, uncorrected in zip(LINES, found, plain, strict=True):
        expected = by_the_equations(gpt2, line)
        assert score.surprisals == pytest.approx([row[0] for row in expected], abs=1e-4)
        assert uncorrected.surprisals == pytest.approx([row[1] for row in expected], abs=1e-4)
        assert score.entropies == pytest.approx([row[2] for row in expected], abs=1e-4)
        assert score.ranks == [row[3] for row in expected]
        assert score.tokens == [row[4] for row in expected]
    assert max(found[1].tokens) > 1
    assert not math.isclose(sum(found[0].surprisals), sum(plain[0].surprisals), rel_tol=1e-2)
