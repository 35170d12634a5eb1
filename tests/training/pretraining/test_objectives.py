"""Pretraining objectives: laws of packed rows, the draw of replacements, what counts as replaced, the numbers of validation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from nlptools.batches.pretraining import PretrainingBatch
from nlptools.batches.source import BatchSource
from nlptools.compute.backend import Backend
from nlptools.configs import Training
from nlptools.models.encoders.bert import EncoderConfig
from nlptools.models.encoders.bert_with_heads import BertWithHeads
from nlptools.models.encoders.electra import Electra, generator_config, parts
from nlptools.training.engine.steps import Fit
from nlptools.training.pretraining import evaluation, objectives
from nlptools.training.pretraining.objectives import Masked, Replaced

VOCAB = 70
SIZES = {"hidden_dropout": 0.0, "attention_dropout": 0.0}
LENGTHS = [(9, 4), (13,), (5, 5, 3)]  # of the sequences of each row


def bert(**more: Any) -> BertWithHeads:
    torch.manual_seed(0)
    model = BertWithHeads(
        EncoderConfig(VOCAB, 16, 2, 2, 24, **{**SIZES, **more}), ("pooler", "masked", "next_sentence")
    )
    model.initialize()
    return randomized(model)


def electra(embedding: int = 8, **more: Any) -> Electra:
    torch.manual_seed(0)
    config = EncoderConfig(VOCAB, 16, 2, 2, 24, "electra", embedding, **{**SIZES, **more})
    model = Electra(generator_config(config, 0.5), config)
    model.initialize()
    return randomized(model)


def randomized(model: Any) -> Any:
    """With weights large enough to tell one output from another."""
    torch.manual_seed(5)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    return model


def batch(lengths: Any = LENGTHS, seed: int = 0, width: int = 0) -> PretrainingBatch:
    """Rows of sequences; every fourth token is masked."""
    random = np.random.default_rng(seed)
    width = width or max(map(sum, lengths))
    ids, types, positions, sequences = (np.zeros((len(lengths), width), np.int64) for _ in range(4))
    firsts, masked = [], []
    for row, sizes in enumerate(lengths):
        start = 0
        for number, size in enumerate(sizes, 1):
            here = slice(start, start + size)
            ids[row, here] = random.integers(5, VOCAB, size)
            types[row, here] = np.arange(size) > size // 2
            positions[row, here] = np.arange(size)
            sequences[row, here] = number
            firsts.append(row * width + start)
            masked += [row * width + start + i for i in range(1, size, 4)]
            start += size
    targets = random.integers(5, VOCAB, len(masked))
    following = random.integers(0, 2, len(firsts))
    places = np.array(masked, np.int64), targets, np.array(firsts, np.int64), following
    return PretrainingBatch(ids, types, positions, sequences, *places)


def alone(whole: PretrainingBatch) -> list[PretrainingBatch]:
    """Each sequence of a batch as a batch of its own, without padding."""
    found = []
    flat = whole.sequences.ravel() + 10 * np.repeat(np.arange(len(whole.ids)), whole.ids.shape[1])
    for i, first in enumerate(whole.firsts):
        places = np.flatnonzero((flat == flat[first]) & (whole.sequences.ravel() > 0))
        inside = np.isin(whole.masked, places)
        found.append(
            PretrainingBatch(
                *(a.ravel()[None, places] for a in (whole.ids, whole.types, whole.positions)),
                np.ones((1, len(places)), np.int64),
                np.searchsorted(places, whole.masked[inside]),
                whole.targets[inside],
                np.zeros(1, np.int64),
                whole.next_sentence[i : i + 1],
            )
        )
    return found


def run(objective: Any, batch: PretrainingBatch) -> tuple[dict[str, float], dict[str, torch.Tensor]]:
    """Losses and gradients."""
    objective.zero_grad()
    losses = objective(*map(torch.from_numpy, objective.arrays(batch)))
    sum(losses.values()).backward()
    gradients = {name: p.grad.clone() for name, p in objective.named_parameters() if p.grad is not None}
    return {name: float(value.detach()) for name, value in losses.items()}, gradients


# -- masked tokens and next sentences -----------------------------------------------------------------------------------


@pytest.mark.parametrize("attention_dropout", [0.0, 1e-9])  # the second takes the way of training on a CPU
def test_packed_is_each_sequence_alone(attention_dropout: float) -> None:
    objective = Masked(bert(attention_dropout=attention_dropout)).train()
    losses, gradients = run(objective, batch())
    total: dict[str, float] = {}
    added: dict[str, torch.Tensor] = {}
    for single in alone(batch()):
        assert objective.arrays(single)[3].size == 0  # nothing to mask
        more, parts_ = run(objective, single)
        total = {name: total.get(name, 0.0) + value for name, value in more.items()}
        added = {name: added.get(name, 0.0) + value for name, value in parts_.items()}
    assert losses.keys() == {"masked", "next_sentence"}
    for name, value in losses.items():
        assert value == pytest.approx(total[name], rel=1e-5)
    for name, value in gradients.items():
        assert torch.allclose(value, added[name], atol=1e-4 * max(1.0, float(value.abs().max()))), name
    assert gradients["model.masked.bias"].abs().sum() > 0


def test_padding_changes_nothing() -> None:
    for objective in (Masked(bert()), Replaced(electra())):
        torch.manual_seed(3)
        narrow, _ = run(objective, batch())
        torch.manual_seed(3)
        wide, _ = run(objective, moved(batch(), 20))
        assert narrow == pytest.approx(wide, rel=1e-5)


def moved(batch: PretrainingBatch, width: int) -> PretrainingBatch:
    """The same with rows of another width, filled up with tokens that mean nothing."""
    old = batch.ids.shape[1]
    pad = ((0, 0), (0, width - old))

    def place(flat: np.ndarray) -> np.ndarray:
        moved: np.ndarray = flat // old * width + flat % old
        return moved

    return PretrainingBatch(
        np.pad(batch.ids, pad, constant_values=9),
        np.pad(batch.types, pad),
        np.pad(batch.positions, pad),
        np.pad(batch.sequences, pad),
        place(batch.masked),
        batch.targets,
        place(batch.firsts),
        batch.next_sentence,
    )


def test_counts_and_a_batch_of_padding() -> None:
    objective = Masked(bert())
    assert objective.counts(batch()) == {"masked": len(batch().masked), "next_sentence": 6}
    nothing = batch([(), ()], width=8)
    assert objective.counts(nothing) == {"masked": 0, "next_sentence": 0}
    losses, _ = run(objective, nothing)
    assert losses == {"masked": 0.0, "next_sentence": 0.0}
    second = Replaced(electra())
    assert second.counts(batch()) == {"masked": len(batch().masked), "replaced": 39}
    assert run(second, nothing)[0] == {"masked": 0.0, "replaced": 0.0}


# -- replaced tokens ----------------------------------------------------------------------------------------------------


def test_draws_are_as_probable_as_the_model_says() -> None:
    torch.manual_seed(0)
    logits = torch.randn(1, 150) * 2
    chances = (torch.arange(100_000, dtype=torch.float64)[:, None] + 0.5) / 100_000
    counts = torch.bincount(objectives.draw(logits.expand(100_000, -1).clone(), chances), minlength=150)
    assert (counts / 100_000 - logits.softmax(1)[0]).abs().max() < 3e-5


def test_draws_at_the_ends_are_tokens_that_can_be() -> None:
    logits = torch.tensor([[-math.inf] * 70 + [0.0, 0.0] + [-math.inf] * 80])
    ends = torch.tensor([[0.0], [0.4999], [0.5], [1 - 2**-53]], dtype=torch.float64)
    assert objectives.draw(logits.expand(4, -1).clone(), ends).tolist() == [70, 70, 71, 71]


def test_logits_that_are_no_numbers_give_tokens_all_the_same() -> None:
    """A step that diverges is refused by its loss: it must not end the run before."""
    drawn = objectives.draw(torch.full((2, 70), math.nan), torch.tensor([[0.1], [0.9]], dtype=torch.float64))
    assert drawn.max() < 128 and drawn.min() >= 0


def test_a_token_drawn_as_it_was_is_not_replaced() -> None:
    ids = torch.tensor([[1, 3, 3], [4, 3, 6]])
    replaced, labels = objectives.replacements(
        ids, torch.tensor([1, 2, 4]), torch.tensor([8, 9, 7]), torch.tensor([8, 5, 6])
    )
    assert replaced.tolist() == [[1, 8, 5], [4, 6, 6]]
    assert labels.tolist() == [0, 0, 1, 0, 1, 0]
    assert ids.tolist() == [[1, 3, 3], [4, 3, 6]]


def test_the_discriminator_teaches_the_generator_nothing_but_embeddings() -> None:
    model = electra()
    objective = Replaced(model)
    losses = objective(*map(torch.from_numpy, objective.arrays(batch())))
    losses["replaced"].backward()
    touched = {name for name, p in model.named_parameters() if p.grad is not None and bool(p.grad.any())}
    assert not [name for name in touched if name.startswith("generator")]
    assert "discriminator.encoder.token_embedding.weight" in touched


def test_the_pair_holds_each_weight_once_and_parts_into_two() -> None:
    model = electra(embedding=0)
    names = model.state_dict().keys()
    assert not [name for name in names if name.startswith("generator.encoder.token")]
    assert model.generator.encoder.token_embedding is model.discriminator.encoder.token_embedding
    generator, discriminator = parts(model.state_dict())
    config = model.discriminator.config
    BertWithHeads(generator_config(config, 0.5), ("masked",)).load_state_dict(generator)
    BertWithHeads(config, ("replaced",)).load_state_dict(discriminator)


@pytest.mark.parametrize(
    ("share", "hidden", "heads", "inner"),
    [(0.25, 64, 1, 256), (1 / 3, 64, 1, 256), (0.5, 128, 2, 512), (1, 256, 4, 1024)],
)
def test_sizes_of_generators(share: float, hidden: int, heads: int, inner: int) -> None:
    """electra-small's is a quarter as wide (Clark et al. 2020, table 6)."""
    found = generator_config(EncoderConfig(VOCAB, 256, 12, 4, 1024, "electra", 128), share)
    assert (found.hidden_size, found.num_attention_heads, found.intermediate_size) == (hidden, heads, inner)
    assert (found.embedding_size, found.num_hidden_layers) == (128, 12)


# -- training -----------------------------------------------------------------------------------------------------------


class Batches(BatchSource):
    """Batches without end, a function of the step."""

    batches_per_epoch, epoch, rate = 1e6, 0.0, 1.0

    def __init__(self) -> None:
        self.step = 0

    def __iter__(self) -> Any:
        while True:
            self.step += 1
            yield batch(seed=self.step)

    def state(self) -> dict[str, Any]:
        return {"step": self.step}

    def restore(self, state: dict[str, Any]) -> None:
        self.step = state["step"]


@pytest.mark.sampled(law="a stopped run goes on")
@pytest.mark.parametrize("kind", ["bert", "electra"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_stopped_and_continued_is_never_stopped(kind: str, precision: str) -> None:
    """Dropout and the replacements that are drawn included."""
    backend = Backend(torch.device("cpu"), precision)

    def fresh() -> Fit:
        dropout = {"hidden_dropout": 0.1, "attention_dropout": 0.1}
        objective = Replaced(electra(**dropout)) if kind == "electra" else Masked(bert(**dropout))
        backend.seed(7)
        return Fit(objective, Batches(), backend, Training(output="", lr=1e-2, steps=6, warmup=0), None)

    whole = fresh()
    for _ in range(4):
        whole.step()
    first = fresh()
    first.step()
    first.step()
    state = {f"random.{name}": t.clone() for name, t in backend.random_state().items()}
    state |= {name: t.clone() for name, t in first.optimizer.state().items()}
    weights = {name: t.clone() for name, t in first.weights.state_dict().items()}
    record = {"progress": vars(first.progress), "source": first.source.state(), "updates": first.optimizer.steps}
    torch.manual_seed(99)
    second = fresh()
    second.restore(weights, state, record)
    second.step()
    second.step()
    found = second.weights.state_dict()
    for name, expected in whole.weights.state_dict().items():
        assert expected.dtype == torch.float32 and torch.equal(expected, found[name]), name


# -- validation ---------------------------------------------------------------------------------------------------------


def test_numbers_of_a_validation_are_those_of_the_objective() -> None:
    backend = Backend(torch.device("cpu"), "fp32")
    model = bert().eval()
    with torch.inference_mode():
        found = evaluation.measure(lambda: iter([batch(), batch(seed=1)]), backend, model, lambda: False)
    assert found is not None
    losses = [run(Masked(model), batch(seed=seed))[0] for seed in range(2)]
    masked = sum(row["masked"] for row in losses) / (2 * len(batch().masked))
    following = sum(row["next_sentence"] for row in losses) / 12
    assert found["masked_loss"] == pytest.approx(masked, rel=1e-5)
    assert found["next_sentence_loss"] == pytest.approx(following, rel=1e-5)
    assert found["loss"] == pytest.approx(masked + following, rel=1e-5)
    assert set(found) == set(evaluation.NAMES["bert"])
    assert evaluation.measure(lambda: iter([batch()]), backend, model, lambda: True) is None


def test_precision_recall_and_f1_of_replaced_tokens() -> None:
    sums = {"masked_loss": 6.0, "masked_right": 1, "masked": 4, "replaced_loss": 5.0, "tokens": 50}
    found = evaluation.numbers({**sums, "replaced_right": 2, "replaced_predicted": 5, "replaced": 4})
    assert found["replaced_precision"] == 0.4 and found["replaced_recall"] == 0.5
    assert found["replaced_f1"] == pytest.approx(2 * 0.4 * 0.5 / 0.9)
    assert found["loss"] == pytest.approx(1.5 + 50 * 0.1)
    nothing = evaluation.numbers({**sums, "replaced_right": 0, "replaced_predicted": 0, "replaced": 0})
    assert nothing["replaced_f1"] == 0


def test_an_electra_is_measured_the_same_every_time() -> None:
    backend = Backend(torch.device("cpu"), "fp32")
    model = electra().eval()
    state = torch.get_rng_state()
    with torch.inference_mode():
        first, second = (
            evaluation.measure(lambda: iter([batch(), batch(seed=1)]), backend, model, lambda: False) for _ in range(2)
        )
    assert first is not None and first == second and set(first) == set(evaluation.NAMES["electra"])
    assert torch.equal(torch.get_rng_state(), state)  # training goes on as if nothing had been measured
