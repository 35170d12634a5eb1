"""The losses of transformers on the same masked batch with the same weights, and directories that open on either side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

from nlptools import bundle
from nlptools.configs.pretraining import TrainBert
from nlptools.errors import BundleError, UsageError
from nlptools.models.encoders.electra import parts
from nlptools.models.huggingface.bert import FAMILY as door
from nlptools.text import huggingface, tokenizer
from nlptools.training.pretraining import models, objectives
from nlptools.training.pretraining.objectives import DISCRIMINATOR_WEIGHT, Masked, Replaced
from tests.training.pretraining.test_objectives import VOCAB, batch, bert, electra

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.reference

ROWS = [(13,), (9,), (4,)]  # one sequence each: transformers does not pack


def theirs(name: str, model: Any, weights: dict[str, torch.Tensor]) -> Any:
    """A model of theirs with weights of ours."""
    config = getattr(transformers, "BertConfig" if name.startswith("Bert") else "ElectraConfig")
    made = getattr(transformers, name)(config(**door.config_to_hf(model.config, model.heads)))
    told = made.load_state_dict(door.weights_to_hf(weights, model.config), strict=False)
    assert not told.unexpected_keys
    made.tie_weights()
    return made.eval()


def inputs(rows: Any) -> dict[str, torch.Tensor]:
    """A batch as they take it."""
    return {
        "input_ids": torch.from_numpy(rows.ids),
        "token_type_ids": torch.from_numpy(rows.types),
        "attention_mask": torch.from_numpy((rows.sequences > 0).astype(np.int64)),
    }


def labels(rows: Any) -> torch.Tensor:
    flat = np.full(rows.ids.size, -100)
    flat[rows.masked] = rows.targets
    return torch.from_numpy(flat.reshape(rows.ids.shape))


def test_the_loss_of_bert_is_theirs() -> None:
    model, rows = bert(), batch(ROWS)
    objective = Masked(model)
    sums = objective(*map(torch.from_numpy, objective.arrays(rows)))
    counts = objective.counts(rows)
    loss = sum(sums[kind] / counts[kind] for kind in sums)
    other = theirs("BertForPreTraining", model, model.state_dict())
    expected = other(**inputs(rows), labels=labels(rows), next_sentence_label=torch.from_numpy(rows.next_sentence)).loss
    assert torch.allclose(loss, expected, atol=1e-5)
    loss.backward()
    expected.backward()
    mine = door.weights_to_hf({name: p.grad for name, p in model.named_parameters()}, model.config)
    for name, parameter in other.named_parameters():
        if name in mine:
            assert torch.allclose(mine[name], parameter.grad, atol=1e-5, rtol=1e-4), name


@pytest.mark.parametrize("embedding", [8, 0])
def test_the_losses_of_electra_are_theirs(embedding: int) -> None:
    model, rows = electra(embedding), batch(ROWS)
    objective = Replaced(model)
    torch.manual_seed(11)
    sums = objective(*map(torch.from_numpy, objective.arrays(rows)))
    counts = objective.counts(rows)
    generator, discriminator = parts(model.state_dict())
    other = theirs("ElectraForMaskedLM", model.generator, generator)
    out = other(**inputs(rows), labels=labels(rows))
    assert torch.allclose(sums["masked"] / counts["masked"], out.loss, atol=1e-5)
    # the same lots, drawn from their logits
    torch.manual_seed(11)
    masked, targets = torch.from_numpy(rows.masked), torch.from_numpy(rows.targets)
    chances = torch.rand(len(masked), 1, dtype=torch.float64)
    drawn = objectives.draw(out.logits.detach().reshape(-1, VOCAB)[masked], chances)
    given = inputs(rows)
    ids = given["input_ids"].reshape(-1).clone()
    ids[masked] = drawn
    replaced = torch.zeros(rows.ids.size, dtype=torch.int64)
    replaced[masked] = (drawn != targets).long()
    assert replaced.sum() > 0
    second = theirs("ElectraForPreTraining", model.discriminator, discriminator)
    expected = second(**{**given, "input_ids": ids.view(rows.ids.shape)}, labels=replaced.view(rows.ids.shape)).loss
    assert torch.allclose(sums["replaced"] / counts["replaced"], DISCRIMINATOR_WEIGHT * expected, atol=1e-4)
    (sums["replaced"] / counts["replaced"] / DISCRIMINATOR_WEIGHT).backward()
    expected.backward()
    gradients = {name: p.grad for name, p in model.discriminator.named_parameters()}
    mine = door.weights_to_hf(gradients, model.discriminator.config)
    for name, parameter in second.named_parameters():
        assert torch.allclose(mine[name], parameter.grad, atol=1e-5, rtol=1e-4), name


# -- directories --------------------------------------------------------------------------------------------------------


@pytest.fixture
def pieces(tmp_path: Path) -> Any:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(VOCAB - 5))]
    (tmp_path / "vocab.txt").write_text("".join(f"{word}\n" for word in words))
    return tokenizer.load(tmp_path / "vocab.txt")


def close(mine: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.allclose(mine, other, atol=1e-5)


@torch.inference_mode()
def test_saved_directories_open_there(tmp_path: Path, pieces: Any) -> None:
    rows = batch(ROWS)
    given, real = inputs(rows), torch.from_numpy(rows.sequences > 0)

    def opened(name: str, directory: Path) -> Any:
        model, told = getattr(transformers, name).from_pretrained(directory, output_loading_info=True)
        assert not told["missing_keys"] and not told["mismatched_keys"], told
        ids = transformers.AutoTokenizer.from_pretrained(directory)("w3 w7 nothing")["input_ids"]
        assert ids == [2, 8, 12, 1, 3]
        return model.eval()(**given, output_hidden_states=True)

    def hidden(model: Any) -> Any:
        return model.encoder(given["input_ids"], real, given["token_type_ids"])

    model = bert().eval()
    (tmp_path / "bert").mkdir()
    models.save(tmp_path / "bert", model, model.state_dict(), pieces, {})
    out, mine = opened("BertForPreTraining", tmp_path / "bert"), hidden(model)
    for layer, expected in zip(mine.layers, out.hidden_states, strict=True):
        assert close(layer[real], expected[real])
    assert close(model.masked_logits(mine.last[real]), out.prediction_logits[real])
    logits = objectives.next_sentence_logits(model, mine.last[:, 0])
    assert close(logits, out.seq_relationship_logits)
    assert close(mine.last[real], opened("BertModel", tmp_path / "bert").last_hidden_state[real])

    pair = electra().eval()
    (tmp_path / "electra").mkdir()
    models.save(tmp_path / "electra", pair, pair.state_dict(), pieces, {})
    mine, out = hidden(pair.discriminator), opened("ElectraForPreTraining", tmp_path / "electra")
    assert close(pair.discriminator.replaced(mine.last)[real], out.logits[real])
    mine, out = hidden(pair.generator), opened("ElectraForMaskedLM", tmp_path / "electra" / "generator")
    assert close(pair.generator.masked_logits(mine.last[real]), out.logits[real])


SIZES = {
    "vocab_size": VOCAB,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 128,
}


def published(name: str, directory: Path, pieces: Any, change: Any = lambda weights: weights, **more: Any) -> Any:
    """A directory of theirs, and the model in it."""
    kind = "BertConfig" if name.startswith("Bert") else "ElectraConfig"
    torch.manual_seed(2)
    model = getattr(transformers, name)(getattr(transformers, kind)(**SIZES, **more))
    directory.mkdir(parents=True)
    model.save_pretrained(directory)
    file = directory / "model.safetensors"
    safetensors.torch.save_file(change(safetensors.torch.load_file(file)), file, {"format": "pt"})
    pieces.save(directory)
    return model


def old(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """As BERT was first uploaded: gamma and beta, a copy of what is tied, a buffer."""
    out = {n.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta"): t for n, t in weights.items()}
    out["cls.predictions.decoder.weight"] = weights["bert.embeddings.word_embeddings.weight"].clone()
    return {**out, "bert.embeddings.position_ids": torch.arange(128)[None]}


def bare(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """As sentence-transformers saves it."""
    return {name.removeprefix("bert."): tensor for name, tensor in weights.items()}


@pytest.mark.parametrize(
    ("name", "change", "new"),
    [
        ("BertForPreTraining", dict, ""),
        ("BertForPreTraining", old, ""),
        ("BertForMaskedLM", dict, "pooler, the next sentence"),
        ("BertModel", bare, "masked tokens, the next sentence"),
    ],
)
def test_going_on_with_a_bert_of_theirs(
    name: str, change: Any, new: str, tmp_path: Path, pieces: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    model = published(name, tmp_path / "m", pieces, change)
    start = models.start(TrainBert(init=str(tmp_path / "m"), dropout=0.2), VOCAB, 0)
    assert start.config.hidden_dropout == start.config.attention_dropout == 0.2
    made = start.model()
    assert made.heads == ("pooler", "masked", "next_sentence")
    told = capsys.readouterr().err
    assert ("initialized at random: " + new in told) if new else "initialized at random" not in told
    mine = door.weights_to_hf(made.state_dict(), made.config)
    for key, tensor in model.state_dict().items():
        key = key if key.startswith(("bert.", "cls.")) else f"bert.{key}"
        assert key not in mine or torch.equal(mine[key], tensor), key
    rows = batch(ROWS)
    losses = Masked(made)(*map(torch.from_numpy, Masked(made).arrays(rows)))
    assert all(torch.isfinite(value) for value in losses.values())


def test_going_on_with_an_electra_of_theirs(tmp_path: Path, pieces: Any, capsys: pytest.CaptureFixture[str]) -> None:
    more = {"embedding_size": 8}
    model = published("ElectraForPreTraining", tmp_path / "m", pieces, **more)
    options = TrainBert(init=str(tmp_path / "m"), objective="electra", generator_size=0.5)
    made = models.start(options, VOCAB, 0).model()
    assert "no generator, a new one is initialized" in capsys.readouterr().err
    _, mine = parts(made.state_dict())
    mine = door.weights_to_hf(mine, made.discriminator.config)
    assert all(torch.equal(mine[key], tensor) for key, tensor in model.state_dict().items() if key in mine)
    # its generator, of sizes of its own
    other = published("ElectraForMaskedLM", tmp_path / "m" / "generator", pieces, **more)
    made = models.start(options, VOCAB, 0).model()
    assert made.generator.config.hidden_size == 16
    mine, _ = parts(made.state_dict())
    mine = door.weights_to_hf(mine, made.generator.config)
    shared = "electra.embeddings."
    for key, tensor in other.state_dict().items():
        assert key not in mine or key.startswith(shared) or torch.equal(mine[key], tensor), key
    masked = models.start(TrainBert(init=str(tmp_path / "m" / "generator"), objective="mlm"), VOCAB, 0)
    assert masked.model().heads == ("masked",)


def test_a_discriminator_begins_as_a_masked_model(
    tmp_path: Path, pieces: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    published("BertForMaskedLM", tmp_path / "m", pieces)
    options = TrainBert(init=str(tmp_path / "m"), objective="electra", generator_size=0.5)
    made = models.start(options, VOCAB, 0).model()
    told = capsys.readouterr().err
    assert (
        "initialized at random: replaced tokens" in told
        and "left out: masked tokens" in told
        and "no generator" in told
    )
    encoder = models.start(TrainBert(init=str(tmp_path / "m"), objective="mlm"), VOCAB, 0).model().encoder.state_dict()
    mine = made.discriminator.encoder.state_dict()
    assert mine.keys() == encoder.keys() and all(torch.equal(mine[name], tensor) for name, tensor in encoder.items())
    assert made.discriminator.config.layout == "electra" and made.generator.config.hidden_size == 8
    (tmp_path / "saved").mkdir()
    models.save(tmp_path / "saved", made, made.state_dict(), pieces, {})
    opened = transformers.ElectraForPreTraining.from_pretrained(tmp_path / "saved").eval()
    made.eval()
    ids = torch.tensor([[2, 9, 10, 11, 3]])
    with torch.no_grad():
        logits = made.discriminator.replaced(made.discriminator.encoder(ids).last)
        assert torch.allclose(logits.squeeze(-1), opened(ids).logits, atol=1e-5)


def test_a_new_generator_looks_around_where_positions_began_as_waves(tmp_path: Path, pieces: Any) -> None:
    published("BertForMaskedLM", tmp_path / "m", pieces)
    options = TrainBert(init=str(tmp_path / "m"), objective="electra", generator_size=0.5)
    assert not models.start(options, VOCAB, 0).looks_around  # nobody knows how these began
    for told, around in (({"attention": "neighbors", "init": None}, True), ({"attention": "random", "init": None}, False),
                         ({"attention": "neighbors", "init": "x"}, False)):  # fmt: skip
        (tmp_path / "m" / "training.json").write_text(json.dumps({"settings": told}))
        assert models.start(options, VOCAB, 0).looks_around == around


def test_what_does_not_go_together_is_refused(tmp_path: Path, pieces: Any) -> None:
    published("BertForPreTraining", tmp_path / "bert", pieces)
    published("ElectraForPreTraining", tmp_path / "electra", pieces, embedding_size=8)
    published("ElectraForMaskedLM", tmp_path / "generator", pieces, embedding_size=8)

    def start(name: str, objective: str, vocab_size: int = VOCAB, **more: Any) -> Any:
        options = TrainBert(init=str(tmp_path / name), objective=objective, **more)
        return models.start(options, vocab_size, 0)

    with pytest.raises(UsageError, match="has no next-sentence prediction"):
        start("electra", "bert")
    with pytest.raises(UsageError, match="is a generator, expected a discriminator"):
        start("generator", "electra")
    with pytest.raises(UsageError, match=r"256 tokens are longer than the 128 positions of"):
        start("bert", "bert", max_length=256)
    with pytest.raises(BundleError, match="has ids up to 70, but the model only 70 tokens"):
        start("bert", "bert", VOCAB + 1)
    config = json.loads((tmp_path / "bert" / "config.json").read_text())
    (tmp_path / "bert" / "config.json").write_text(json.dumps({**config, "type_vocab_size": 3}))
    with pytest.raises(
        BundleError, match=r"token_type_embeddings.weight has shape \(2, 16\), config.json says \(3, 16\)"
    ):
        start("bert", "bert")
    (tmp_path / "bert" / "model.safetensors").rename(tmp_path / "bert" / "pytorch_model.bin")
    with pytest.raises(BundleError, match=r"no model.safetensors \(found pytorch_model.bin\)"):
        start("bert", "bert")


def test_what_was_saved_is_gone_on_with(tmp_path: Path, pieces: Any, capsys: pytest.CaptureFixture[str]) -> None:
    pair = electra(max_position_embeddings=128)
    (tmp_path / "m").mkdir()
    models.save(tmp_path / "m", pair, pair.state_dict(), pieces, {})
    made = models.start(TrainBert(init=str(tmp_path / "m"), objective="electra"), VOCAB, 0).model()
    assert capsys.readouterr().err == ""
    for (name, mine), other in zip(made.state_dict().items(), pair.state_dict().values(), strict=True):
        rows = VOCAB if name.endswith("token_embedding.weight") else len(mine)
        assert torch.equal(mine[:rows], other[:rows]), name
    assert bundle.load(tmp_path / "m").model.heads == ("replaced",)  # type: ignore[attr-defined]
    assert isinstance(bundle.load(tmp_path / "m" / "generator").tokenizer, huggingface.HuggingFace)
