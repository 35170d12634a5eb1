"""Pseudo-log-likelihoods beside transformers, one masked copy at a time, as the papers define them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

import nlptools
from nlptools.configs.scoring import Score

pytestmark = [pytest.mark.reference, pytest.mark.filterwarnings("ignore")]
WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "the",
    "cat",
    "sat",
    "on",
    "ma",
    "##t",
    "##ing",
    "##s",
    ".",
    "do",
    "##g",
]
LINES = ["the cats sat on matting.", "", "dogs", "the mat on the mats on the dog sat on the cat sat.", "unknown zebras"]
MOST = 12  # tokens that the model sees


@pytest.fixture(scope="module", params=["bert", "electra"])
def directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory as transformers saves it, with a WordPiece tokenizer."""
    from transformers import BertConfig, BertForMaskedLM, BertTokenizer, ElectraConfig, ElectraForMaskedLM

    path = tmp_path_factory.mktemp("masked") / request.param
    path.mkdir()
    (path / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    sizes: dict[str, Any] = {
        "vocab_size": len(WORDS),
        "hidden_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "intermediate_size": 40,
        "max_position_embeddings": MOST,
    }
    torch.manual_seed(0)
    model: Any
    if request.param == "bert":
        model = BertForMaskedLM(BertConfig(**sizes))
    else:
        model = ElectraForMaskedLM(ElectraConfig(**sizes, embedding_size=16))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    model.save_pretrained(path)
    BertTokenizer(vocab=str(path / "vocab.txt")).save_pretrained(path)
    return path


@torch.inference_mode()
def one_by_one(directory: Path, line: str, how: str) -> list[float]:
    """The log-probability of each token of a line, in nats."""
    from transformers import AutoModelForMaskedLM

    from nlptools.text.tokenizer import load

    model = AutoModelForMaskedLM.from_pretrained(directory).eval()
    tokens = load(directory / "vocab.txt").tokens(line)
    ids = [WORDS.index(token) for token in tokens]
    scores = []
    for place, id in enumerate(ids):
        masked = list(ids)
        masked[place] = WORDS.index("[MASK]")
        after = place + 1
        while how == "within-word" and after < len(ids) and tokens[after].startswith("##"):
            masked[after] = WORDS.index("[MASK]")
            after += 1
        first = min(max(0, place - (MOST - 2) // 2), max(0, len(ids) - (MOST - 2)))
        row = [2, *masked[first : first + MOST - 2], 3]
        logs = model(torch.tensor([row])).logits[0, 1 + place - first].double().log_softmax(-1)
        scores.append(float(logs[id]))
    return scores


@pytest.mark.sampled(2)
@pytest.mark.parametrize("how", ["pll", "within-word"])
def test_masked_scores(directory: Path, how: str) -> None:
    model: Any = nlptools.load(directory, precision="fp32", threads=1, settings=Score(masked=how))
    settings = Score(masked=how, batch_tokens=40)
    expected = [one_by_one(directory, line, how) for line in LINES]
    found = list(model.score(LINES, settings))
    assert len(found[3].tokens) > MOST
    for score, values in zip(found, expected, strict=True):
        assert score.logprobs == pytest.approx(values, abs=1e-4)
    assert found[0].tokens[:3] == ["the", "cat", "##s"]
    totals = model.totals(LINES, settings)
    assert [score for score, _ in totals] == pytest.approx([sum(values) for values in expected], abs=1e-3)
    assert [tokens for _, tokens in totals] == [len(values) for values in expected]
    alone = [model.score_batch([line], Score(masked=how, batch_tokens=1))[0] for line in LINES]
    for score, values in zip(alone, expected, strict=True):
        assert score.logprobs == pytest.approx(values, abs=1e-4)
    words = model.words(LINES[:1], Score(per="word", masked=how))[0]
    values = expected[0]
    by_word = [values[0], sum(values[1:3]), values[3], values[4], sum(values[5:])]
    assert words.words == LINES[0].split() and words.tokens == [1, 2, 1, 1, len(values) - 5]
    assert words.surprisals == pytest.approx([-value for value in by_word], abs=1e-4)


def test_ways_differ_where_words_have_several_pieces(directory: Path) -> None:
    model: Any = nlptools.load(directory, precision="fp32", threads=1, settings=Score(masked="pll"))
    [one], [other] = (model.score_batch(LINES[:1], Score(masked=how)) for how in ("pll", "within-word"))
    differ = [abs(a - b) > 1e-4 for a, b in zip(one.logprobs, other.logprobs, strict=True)]
    assert differ == [token in ("cat", "ma") or token == "##t" for token in one.tokens]


def test_pseudo_perplexity(directory: Path) -> None:
    from nlptools.files.streams import LineBlock

    model: Any = nlptools.load(directory, precision="fp32", threads=1, settings=Score(masked="pll"))
    result = model.perplexity(iter([LineBlock("x", 1, LINES)]), Score(per="total", masked="pll"))
    values = [value for line in LINES for value in one_by_one(directory, line, "pll")]
    assert result["log_probability"] == pytest.approx(sum(values), abs=1e-3)
    assert result["perplexity"] == pytest.approx(math.exp(-sum(values) / len(values)), rel=1e-4)
    assert (result["tokens"], result["lines"], result["words"]) == (len(values), 5, sum(len(x.split()) for x in LINES))
    assert result["protocol"]["masked"] == "pll" and result["protocol"]["context"] == MOST
    assert result["unknown"] == 2
