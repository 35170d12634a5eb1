"""GPT-2 directories: ours open in transformers, theirs open here, with the same logits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from tiny_models import tiny

pytestmark = [pytest.mark.reference, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A GPT-2 directory as transformers saves it, with a byte-level BPE tokenizer trained on the spot."""
    from tokenizers import ByteLevelBPETokenizer
    from transformers import GPT2Config, GPT2LMHeadModel, GPT2TokenizerFast

    out = tmp_path / "gpt2"
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(
        ["the cat sat on the mat and the dog sat on the log"] * 10, vocab_size=290, special_tokens=["<|endoftext|>"]
    )
    eos = tokenizer.token_to_id("<|endoftext|>")
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    fast = GPT2TokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))
    fast.save_pretrained(out)
    config = GPT2Config(
        vocab_size=tokenizer.get_vocab_size(),
        n_positions=32,
        n_embd=48,
        n_layer=3,
        n_head=4,
        bos_token_id=eos,
        eos_token_id=eos,
    )
    torch.manual_seed(0)
    model = GPT2LMHeadModel(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(out)
    return out


def test_their_directory_opens_here(theirs: Path) -> None:
    from transformers import GPT2LMHeadModel

    from nlptools import bundle

    model = GPT2LMHeadModel.from_pretrained(theirs).eval()
    loaded = bundle.load(theirs)
    assert not loaded.prepends_start and loaded.start == loaded.eos
    ids = torch.randint(0, loaded.model.output.vocab_size, (2, 32))
    with torch.inference_mode():
        ours = loaded.model.output.logits(loaded.model(ids)[0])
        assert (ours - model(ids).logits).abs().max() < 1e-4


@pytest.mark.parametrize("name", ["gelu", "gelu_pytorch_tanh", "relu", "silu"])
def test_their_activations(name: str, tmp_path: Path) -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    from nlptools.models.huggingface import directories, gpt2
    from nlptools.models.language.gpt import GPT

    torch.manual_seed(0)
    theirs = GPT2LMHeadModel(
        GPT2Config(vocab_size=64, n_positions=8, n_embd=32, n_layer=2, n_head=2, activation_function=name)
    ).eval()
    arch, config = directories.config_from_hf(theirs.config.to_dict())
    assert arch == "transformer"
    ours = GPT(config).eval()
    ours.load_state_dict(gpt2.weights_from_hf(theirs.state_dict(), ours.state_dict(), config))
    ids = torch.randint(0, 64, (2, 8))
    with torch.inference_mode():
        assert (ours.output.logits(ours(ids)[0]) - theirs(ids).logits).abs().max() < 1e-4
    again = GPT2LMHeadModel(GPT2Config(**gpt2.config_to_hf(config))).eval()  # and back, under our name
    again.load_state_dict(theirs.state_dict())
    with torch.inference_mode():
        assert (again(ids).logits - theirs(ids).logits).abs().max() < 1e-6


def test_old_uploads_without_prefix_and_with_buffers_open(theirs: Path) -> None:
    from safetensors.torch import load_file, save_file

    from nlptools import bundle

    file = theirs / "model.safetensors"
    old = {name.removeprefix("transformer."): tensor for name, tensor in load_file(file).items()}
    old["h.0.attn.bias"] = torch.ones(1, 1, 32, 32)
    old["h.0.attn.masked_bias"] = torch.tensor(-1e4)
    save_file(old, file, metadata={"format": "pt"})
    assert bundle.load(theirs).model.max_context == 32


def test_greedy_generation_equals_theirs(theirs: Path) -> None:
    from transformers import GPT2LMHeadModel, GPT2TokenizerFast

    import nlptools
    from nlptools.configs.generation import Generate

    model, fast = GPT2LMHeadModel.from_pretrained(theirs).eval(), GPT2TokenizerFast.from_pretrained(theirs)
    loaded = nlptools.load(theirs, precision="fp32")
    for prompt in ("the cat", "on the log the", "dog"):
        ids = fast(prompt, return_tensors="pt")
        expected = model.generate(**ids, max_new_tokens=12, do_sample=False, pad_token_id=0)[
            0, ids.input_ids.shape[1] :
        ]
        eos = loaded.bundle.eos
        want = [i for i in expected.tolist() if i != eos]
        [[found]] = loaded.generate([prompt], Generate(temperature=0, max_new_tokens=12))
        assert found.tokens == fast.convert_ids_to_tokens(want)


def test_our_directory_opens_there(fork, tmp_path: Path, english: list[str]) -> None:  # type: ignore[no-untyped-def]
    from transformers import AutoConfig, GPT2LMHeadModel

    from nlptools import bundle

    (tmp_path / "text").write_text("\n".join(english[:300]) + "\n")
    assert fork("build-vocab", "--kind", "byte-bpe", "--size", 400, "-o", "tok", "text").code == 0
    done = fork("train-lm", "-t", "tok", "--layers", 2, "--hidden", 32, "--heads", 2, "--context", 16, "--steps", 3,
               "-o", "lm", "text")  # fmt: skip
    assert done.code == 0, done.err
    loaded = bundle.load(tmp_path / "lm")
    config = AutoConfig.from_pretrained(tmp_path / "lm")
    assert config.model_type == "gpt2" and config.vocab_size == len(loaded.tokenizer.vocab or ())
    model = GPT2LMHeadModel.from_pretrained(tmp_path / "lm").eval()
    ids = torch.randint(0, loaded.model.output.vocab_size, (2, 16))
    with torch.inference_mode():
        assert (loaded.model.output.logits(loaded.model(ids)[0]) - model(ids).logits).abs().max() < 1e-4


def test_weights_survive_the_way_out_and_back() -> None:
    from nlptools.models.huggingface import directories

    model = tiny("transformer")
    out = directories.weights_to_hf("transformer", model.state_dict(), model.config)
    assert out["transformer.wte.weight"].shape == (50, 32)
    back = directories.weights_from_hf("transformer", out, model.state_dict(), model.config)
    for name, tensor in model.state_dict().items():
        rows = 50 if name == "token_embedding.weight" else len(tensor)
        assert torch.equal(tensor[:rows], back[name][:rows])
    config = json.loads(json.dumps(directories.config_to_hf("transformer", model.config)))
    assert directories.config_from_hf(config) == ("transformer", model.config)
