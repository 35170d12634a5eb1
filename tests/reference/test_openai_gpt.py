"""GPT directories: ours open in transformers, theirs open here, with the same logits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import tiny

from nlptools import bundle
from nlptools.errors import BundleError
from nlptools.models.huggingface import directories, openai_gpt
from nlptools.models.language.gpt import GPT, GPTConfig
from nlptools.models.tasks.with_heads import WithHeads

pytestmark = [pytest.mark.reference, pytest.mark.filterwarnings("ignore")]


def random_gpt(kind: str = "OpenAIGPTLMHeadModel", **options: Any) -> Any:
    import transformers

    config = transformers.OpenAIGPTConfig(vocab_size=70, n_positions=16, n_embd=32, n_layer=2, n_head=4, **options)
    torch.manual_seed(0)
    model = getattr(transformers, kind)(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


@pytest.mark.parametrize("name", ["gelu", "relu", "silu", "swish"])
def test_their_weights_here(name: str) -> None:
    theirs = random_gpt(afn=name)
    arch, config = directories.config_from_hf(theirs.config.to_dict())
    assert arch == "transformer" and config.post_norm
    ours = GPT(config).eval()
    ours.load_state_dict(directories.weights_from_hf(arch, theirs.state_dict(), ours.state_dict(), config))
    ids = torch.randint(0, 70, (2, 16), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        assert (ours.output.logits(ours(ids)[0]) - theirs(ids).logits).abs().max() < 1e-4
    back = directories.weights_to_hf(arch, ours.state_dict(), config)
    known = theirs.state_dict()
    assert back.keys() == known.keys() - {"lm_head.weight"}
    assert all(torch.equal(tensor, known[name]) for name, tensor in back.items())
    with pytest.raises(BundleError, match="activation 'gelu_new' is not supported"):
        directories.config_from_hf({**theirs.config.to_dict(), "afn": "gelu_new"})


def test_our_directory_opens_there(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    from nlptools.text import tokenizer as tokenizers

    (tmp_path / "v.tsv").write_text("<unk>\t0\n</s>\t0\n" + "".join(f"w{i}\t1\n" for i in range(48)))
    tokenizer = tokenizers.load(str(tmp_path / "v.tsv"))
    ours = tiny("transformer", post_norm=True)
    out = tmp_path / "gpt"
    out.mkdir()
    bundle.save(out, "transformer", ours, ours.state_dict(), tokenizer, eos=1, document="line", training={})
    data = json.loads((out / "config.json").read_text())
    assert (data["model_type"], data["architectures"]) == ("openai-gpt", ["OpenAIGPTLMHeadModel"])
    theirs = AutoModelForCausalLM.from_pretrained(out).eval()
    assert type(theirs).__name__ == "OpenAIGPTLMHeadModel"
    ids = torch.randint(0, 50, (2, 20), generator=torch.Generator().manual_seed(1))
    again = bundle.load(out)
    assert again.arch == "transformer"
    with torch.inference_mode():
        logits = ours.output.logits(ours(ids)[0])
        assert (logits - theirs(ids).logits).abs().max() < 1e-4
        assert torch.equal(logits, again.model.output.logits(again.model(ids)[0]))


def test_a_directory_without_an_end_of_text_token_opens_with_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As GPT was published: lower-cased BPE with </w>, and <unk> as the only special token."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.BPEDecoder(suffix="</w>")
    trainer = trainers.BpeTrainer(vocab_size=70, special_tokens=["<unk>"], end_of_word_suffix="</w>")
    tokenizer.train_from_iterator(["the cat sat on the mat and the dog ate a long log by itself"], trainer)
    theirs = random_gpt()
    theirs.save_pretrained(tmp_path)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    loaded = bundle.load(tmp_path)
    assert loaded.eos == 0 and "no end-of-text token, the unknown token takes its place" in capsys.readouterr().err
    assert loaded.tokenizer.decode(loaded.tokenizer.encode("The cat sat")) == "the cat sat"


def test_a_classifier_of_theirs_here_and_back() -> None:
    theirs = random_gpt("OpenAIGPTForSequenceClassification", num_labels=3, pad_token_id=0)
    data = {**theirs.config.to_dict(), "architectures": ["OpenAIGPTForSequenceClassification"]}
    arch, config = directories.config_from_hf(data)
    assert arch == "transformer-tasks"
    options = directories.heads_in(arch, theirs.state_dict(), config, data)
    ours = WithHeads(GPT(config), **options).eval()
    ours.load_state_dict(directories.weights_from_hf(arch, theirs.state_dict(), ours.state_dict(), config))
    ids = torch.randint(1, 70, (2, 9), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        hidden = theirs.transformer(ids).last_hidden_state
        assert (ours.states(ids).last - hidden).abs().max() < 1e-4
    assert directories.config_to_hf(arch, config, ("sequence",))["architectures"] == data["architectures"]
    assert directories.config_to_hf(arch, config, ("tokens",))["architectures"] == ["OpenAIGPTModel"]
    back = directories.weights_to_hf(arch, ours.state_dict(), config)
    assert all(torch.equal(tensor, theirs.state_dict()[name]) for name, tensor in back.items())


@pytest.mark.parametrize(
    ("changes", "family"),
    [
        ({}, "gpt2"),
        ({"post_norm": True}, "openai-gpt"),
        ({"post_norm": True, "activation": "gelu"}, "nlptools-transformer"),
        ({"post_norm": True, "intermediate_size": 40}, "nlptools-transformer"),
        ({"post_norm": True, "positions": "none"}, "nlptools-transformer"),
    ],
)
def test_every_configuration_comes_back(changes: dict[str, Any], family: str) -> None:
    """What neither layout can express is kept under our names."""
    config = GPTConfig(50, 32, 2, 4, 24, **changes)
    data = directories.config_to_hf("transformer", config)
    assert data["model_type"] == family
    assert directories.config_from_hf(data) == ("transformer", config)
    assert openai_gpt.can_express(config) == (family == "openai-gpt")
