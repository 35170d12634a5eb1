"""Every family of decoders gives the hidden states, logits, texts and vectors that transformers gives, in folders of both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("transformers")
import transformers

import nlptools
from nlptools import bundle
from nlptools.configs import Compute
from nlptools.configs.embed import Embed
from nlptools.configs.generation import Generate
from nlptools.configs.lora import LoRA
from nlptools.configs.scoring import Score
from nlptools.errors import BundleError
from nlptools.files import artifacts
from nlptools.models.huggingface import directories, peft
from nlptools.tasks import outputs
from nlptools.training import lora
from tests.reference.decoder_families import FAMILIES

pytestmark = [pytest.mark.reference, pytest.mark.filterwarnings("ignore")]
FP32 = Compute(device="cpu", precision="fp32", threads=1)
CLOSE = {"atol": 1e-5, "rtol": 1e-5}
families = pytest.mark.parametrize("name", FAMILIES)
HEADS = {"SequenceClassification": "sequence", "TokenClassification": "tokens", "QuestionAnswering": "spans"}
TEXTS = ["the cat sat on the mat and the dog sat on the log", "a cat and a dog"]


def ids(size: int, length: int = 32) -> torch.Tensor:
    return torch.randint(3, size, (2, length), generator=torch.Generator().manual_seed(1))


@pytest.mark.sampled(3)
@families
@torch.inference_mode()
def test_hidden_states_and_logits_are_theirs_and_ours_open_there(name: str, tmp_path: Path) -> None:
    family = FAMILIES[name]
    for number, more in enumerate(family.variants):
        path, again = tmp_path / str(number), tmp_path / f"{number}-again"
        theirs = family.folder(path, **more)
        loaded = bundle.load(path)
        assert loaded.arch == "modern"
        for length in (32, 9):  # longer and shorter than the trained length of scaled positions
            x = ids(theirs.config.vocab_size, length)
            out = theirs(x, output_hidden_states=True)
            hidden = loaded.model.states(x)
            assert len(hidden.layers) == len(out.hidden_states)
            for mine, other in zip(hidden.layers, out.hidden_states, strict=True):
                torch.testing.assert_close(mine, other, **CLOSE)
            torch.testing.assert_close(loaded.model.output.logits(hidden.last), out.logits, **CLOSE)
            check_ways_to_read(loaded.model, x, hidden.last)
        again.mkdir()
        bundle.save(
            again, "modern", loaded.model, loaded.weights(), loaded.tokenizer, eos=1, document="line", training={}
        )
        config = json.loads((again / "config.json").read_text())
        assert directories.config_from_hf(config) == ("modern", loaded.model.config)
        there, report = type(theirs).from_pretrained(again, output_loading_info=True, attn_implementation="eager")
        assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")), report
        torch.testing.assert_close(there.eval()(x).logits, out.logits, **CLOSE)


def check_ways_to_read(model: Any, x: torch.Tensor, expected: torch.Tensor) -> None:
    """Steps with a cache, rows padded on the left, and packed rows have the hidden states of whole rows."""
    length = x.shape[1]
    state, steps = model.start(2, length), []
    for part in x.split([3, 1, 2, 1, 1, length - 8], 1):
        hidden, state = model(part, state)
        steps.append(hidden)
    torch.testing.assert_close(torch.cat(steps, 1), expected, **CLOSE)
    mask = torch.arange(length + 3) >= torch.tensor([[0], [3]])
    rows = torch.stack([torch.cat([x[0], x[0, :3]]), torch.cat([x[1, :3], x[1]])])
    hidden, _ = model(rows, model.start(2, length + 3), mask)
    torch.testing.assert_close(hidden[1, 3:], expected[1], **CLOSE)
    packed = torch.cat([x[0], x[1], x[0, :2]])[None]
    segments = torch.tensor([[0] * length + [1] * length + [-1] * 2])
    found = model.packed(packed, segments)[0, : 2 * length]
    torch.testing.assert_close(found, expected.flatten(0, 1), **CLOSE)


@pytest.mark.sampled(3)
@families
@torch.inference_mode()
def test_heads_of_tasks_are_theirs_and_open_there_again(name: str, tmp_path: Path) -> None:
    family = FAMILIES[name]
    for kind in family.tasks:
        path, again, head = tmp_path / kind, tmp_path / f"{kind}-again", HEADS[kind]
        labels = 2 if head == "spans" else 3
        model = family.folder(path, f"For{kind}", num_labels=labels, **family.variants[-1])
        loaded = bundle.load(path)
        assert loaded.heads == (head,)
        again.mkdir()
        bundle.save_encoder(again, loaded.model, loaded.weights(), loaded.tokenizer, arch=loaded.arch, training={},
                            more={"id2label": {str(i): f"L{i}" for i in range(labels)}, "pad_token_id": 2})  # fmt: skip
        there, report = type(model).from_pretrained(again, output_loading_info=True, attn_implementation="eager")
        assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")), report
        x = ids(model.config.vocab_size, 9)
        states = outputs.hidden_states(loaded.model, head, outputs.LAST, x, torch.ones_like(x, dtype=torch.bool), None)
        found = loaded.model.task_logits(head, states)
        for each in (model, there.eval()):
            out = each(x)
            logits = torch.stack([out.start_logits, out.end_logits], -1) if head == "spans" else out.logits
            torch.testing.assert_close(found, logits, **CLOSE)


@pytest.mark.sampled(3)
@families
@torch.inference_mode()
def test_texts_are_continued_scored_and_embedded_as_there(name: str, tmp_path: Path) -> None:
    family = FAMILIES[name]
    for number, more in enumerate(family.variants[:3]):
        path, bos = tmp_path / str(number), number == 1
        model = family.folder(path, bos=bos, **more)
        fast = transformers.AutoTokenizer.from_pretrained(path)
        loaded: Any = nlptools.load(path, compute=FP32)
        prompts = ["the cat", "on the log the", "dog", "a"]
        for prompt, [mine] in zip(
            prompts, loaded.generate(prompts, Generate(temperature=0, max_new_tokens=8)), strict=True
        ):
            x = fast(prompt, return_tensors="pt")
            theirs = model.generate(**x, max_new_tokens=8, do_sample=False, bad_words_ids=[[0]])
            new = [i for i in theirs[0, x.input_ids.shape[1] :].tolist() if i != 1]
            assert mine.tokens == fast.convert_ids_to_tokens(new)
        for text, score in zip(TEXTS, loaded.score(TEXTS, Score()), strict=True):
            x = torch.tensor([[0, *fast(text, add_special_tokens=False).input_ids, 1]])
            logs = model(x).logits[0, :-1].log_softmax(-1).gather(1, x[0, 1:, None]).squeeze(1)
            np.testing.assert_allclose(score.logprobs, logs.numpy(), atol=1e-4)
        embedder: Any = nlptools.load(path, compute=FP32, settings=Embed(pooling="last"))
        for text, row in zip(TEXTS, embedder.embed(TEXTS), strict=True):
            hidden = model(**fast(text, return_tensors="pt"), output_hidden_states=True).hidden_states[-1]
            np.testing.assert_allclose(row, hidden[0, -1].numpy(), atol=1e-5)


@pytest.mark.sampled(3)
@families
@torch.no_grad()
def test_adapters_belong_to_their_modules(name: str, tmp_path: Path) -> None:
    model = FAMILIES[name].folder(tmp_path / "base", **FAMILIES[name].variants[-1])
    base = bundle.load(tmp_path / "base")
    made = bundle.load(tmp_path / "base").model
    settings = LoRA(lora=2, lora_alpha=6.0)
    lora.adapt(made, "modern", settings, 0, {})
    for each, weight in made.named_parameters():
        if each.endswith("lora_B"):
            weight.normal_(std=0.1)
    (tmp_path / "tuned").mkdir()
    adapter = peft.Adapter(settings, str(tmp_path / "base"), artifacts.weights_digest(tmp_path / "base"))
    bundle.save(tmp_path / "tuned", "modern", made, made.state_dict(), base.tokenizer, eos=1, document="line", training={},
                adapter=adapter)  # fmt: skip
    x = ids(model.config.vocab_size, 9)
    expected = made.output.logits(made(x)[0])
    tensors = artifacts.load_tensors(tmp_path / "tuned/adapter_model.safetensors")
    assert len(tensors) >= 4 * model.config.num_hidden_layers
    for module, part in model.named_modules():
        down = tensors.pop(f"base_model.model.{module}.lora_A.weight", None)
        if down is not None:  # as the package PEFT adds them
            part.weight += 3 * tensors.pop(f"base_model.model.{module}.lora_B.weight") @ down
    assert not tensors
    torch.testing.assert_close(model(x).logits, expected, **CLOSE)
    loaded = bundle.load(tmp_path / "tuned").model
    torch.testing.assert_close(loaded.output.logits(loaded(x)[0]), expected, **CLOSE)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["phi3", "gpt_neox", "gemma2"])
def test_commands_take_such_folders(name: str, fork, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    FAMILIES[name].folder(tmp_path / "base", **FAMILIES[name].variants[-1])
    chats = [{"messages": [{"role": "user", "content": "the cat"}, {"role": "assistant", "content": "sat"}]}] * 4
    (tmp_path / "chats.jsonl").write_text("".join(json.dumps(each) + "\n" for each in chats))
    done = fork("finetune", "--model", "base", "--task", "instruct", "--lora", 2, "--chat", "chatml", "--epochs", 1, "-q", "-o",
               "tuned", "chats.jsonl")  # fmt: skip
    assert done.code == 0, done.err
    described = fork("describe", "tuned", "-q")
    assert described.code == 0 and name in described.text, described.err
    done = fork("convert", "tuned", "whole", "-q")
    assert done.code == 0, done.err
    assert json.loads((tmp_path / "whole/config.json").read_text())["model_type"] == name


def test_the_first_folders_of_gemma_have_another_name_of_the_activation(tmp_path: Path) -> None:
    FAMILIES["gemma"].folder(tmp_path)
    data = json.loads((tmp_path / "config.json").read_text())
    assert data["hidden_act"] == "gelu_pytorch_tanh"
    assert directories.config_from_hf({**data, "hidden_act": "gelu"}) == directories.config_from_hf(data)


def test_an_olmo_3_is_read_in_the_spelling_of_transformers_4(tmp_path: Path) -> None:
    FAMILIES["olmo3"].folder(tmp_path, **FAMILIES["olmo3"].variants[1])
    data = json.loads((tmp_path / "config.json").read_text())
    scaling = data.pop("rope_parameters")["full_attention"]
    _, old = directories.config_from_hf({**data, "rope_theta": 500.0, "rope_scaling": scaling})
    assert (old.rope_theta, old.local_rope_theta, old.rope_scaling["factor"]) == (500.0, 500.0, 3.0)


def test_a_gemma_3_is_read_in_the_spelling_of_transformers_4(tmp_path: Path) -> None:
    FAMILIES["gemma3_text"].folder(tmp_path, **FAMILIES["gemma3_text"].variants[2])
    data = json.loads((tmp_path / "config.json").read_text())
    new = directories.config_from_hf(data)
    del data["rope_parameters"], data["layer_types"]
    old = {"rope_theta": 500.0, "rope_local_base_freq": 50.0, "rope_scaling": {"rope_type": "linear", "factor": 2.0}}
    assert directories.config_from_hf({**data, **old, "sliding_window_pattern": 3}) == new


@pytest.mark.parametrize("name", [name for name, family in FAMILIES.items() if family.refused])
def test_what_is_not_supported_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    FAMILIES[name].folder(tmp_path)
    file = tmp_path / "config.json"
    data = json.loads(file.read_text())
    for changes, message in FAMILIES[name].refused:
        file.write_text(json.dumps({**data, **changes}))
        with pytest.raises(BundleError, match=message) as caught:
            bundle.load(tmp_path)
        assert "\n" not in str(caught.value)
    file.write_text(json.dumps(data))
    weights = artifacts.load_weights(tmp_path)
    artifacts.save_tensors(tmp_path / "model.safetensors", {**weights, "model.layers.0.extra.weight": torch.ones(1)})
    with pytest.raises(BundleError, match="unknown weight"):
        bundle.load(tmp_path)
