"""Model directories that are damaged, foreign or hostile: one line, status 78, no memory taken, nothing executed."""

from __future__ import annotations

import json
import pickle
import random
import resource
import shutil
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import Finished, Run
from safetensors.torch import load_file, save_file
from tiny_bundles import bytes_bundle, words_bundle

from nlptools import bundle
from nlptools.errors import BundleError
from nlptools.models import registry
from nlptools.text import tokenizer_pairs
from nlptools.text.tokenizer import load
from nlptools.text.vocab import Vocab
from nlptools.training.engine import run_directory

FILES = (
    "config.json",
    "generation_config.json",
    "manifest.json",
    "model.safetensors",
    "nlptools_tokenizer.json",
    "training.json",
    "vocab.tsv",
)


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return words_bundle(tmp_path_factory.mktemp("intact") / "lm")


@pytest.fixture
def lm(intact: Path, tmp_path: Path) -> Path:
    """A copy to be damaged."""
    shutil.copytree(intact, tmp_path / "lm")
    return tmp_path / "lm"


@pytest.fixture
def foreign(lm: Path) -> Path:
    """A copy without what only we write."""
    for name in ("manifest.json", "training.json", "generation_config.json"):
        (lm / name).unlink()
    return lm


def use(call: Run, model: Path, command: str = "score") -> Finished:
    more = ("--threads", 1) if command == "score" else ()
    return call(command, model, *more, stdin="w1 w2\n")


def refused(call: Run, model: Path, said: str = "", commands: tuple[str, ...] = ("score", "describe")) -> None:
    for command in commands:
        began = time.monotonic()
        done = use(call, model, command)
        message = done.err.split("\n")
        assert done.code in (66, 78), (command, done)
        assert said in message[0] and message[0].startswith(f"nlptools {command}: "), done.err
        assert done.out == b"" and (len(message) == 2 or (len(message) == 3 and message[1].startswith("  hint: ")))
        assert len(done.err) < 1000 and time.monotonic() - began < 20


def change(path: Path, edit: Callable[[dict[str, Any]], Any]) -> None:
    data = json.loads(path.read_text())
    edit(data)
    path.write_text(json.dumps(data))


# -- damage -----------------------------------------------------------------------------------------------------------


def test_the_list_of_files_is_whole(lm: Path, call: Run) -> None:
    assert tuple(sorted(p.name for p in lm.iterdir())) == FILES
    assert use(call, lm).code == 0


def test_a_directory_may_have_the_name_of_a_tokenizer(lm: Path, call: Run) -> None:
    for name in ("words", "bytes"):
        lm = lm.rename(lm.with_name(name))
        for command in ("score", "describe"):
            assert use(call, lm, command).code == 0 and use(call, Path(name), command).code == 0


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_damaged(call: Run, lm: Path, name: str) -> None:
    data = (lm / name).read_bytes()
    rng = random.Random(name)
    for kept in {0, 1, len(data) // 2, len(data) - 1, *(rng.randrange(len(data)) for _ in range(3))}:
        (lm / name).write_bytes(data[:kept])
        if name != "manifest.json" or kept < len(data.rstrip()):
            refused(call, lm)
    for place in (0, len(data) // 2, *(rng.randrange(len(data)) for _ in range(3))):
        (lm / name).write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        if name != "manifest.json":
            refused(call, lm, f"{name}: damaged: its SHA-256 is not the one in manifest.json")
        else:  # white space may have become something else, or a number another
            assert use(call, lm).code in (0, 78) and use(call, lm, "describe").code in (0, 78)
    (lm / name).write_bytes(data + b"\0")
    refused(call, lm, name)
    (lm / name).unlink()
    if name != "manifest.json":
        refused(call, lm, "no config.json" if name == "config.json" else f"{name}: missing, but listed")
    else:
        assert use(call, lm).code == 0 and use(call, lm, "describe").code == 0


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "nlptools_tokenizer.json", "vocab.tsv"])
def test_damage_without_a_manifest(call: Run, foreign: Path, name: str) -> None:
    data = (foreign / name).read_bytes()
    for kept in {0, 1, 7, 9, len(data) // 4, len(data) // 2, len(data) - 3}:
        (foreign / name).write_bytes(data[:kept])
        if name != "vocab.tsv" or kept in (0,):
            refused(call, foreign)
    if name != "nlptools_tokenizer.json":  # without it, the vocabulary alone is a tokenizer of its own
        (foreign / name).unlink()
        refused(call, foreign)
        (foreign / name).mkdir()
        refused(call, foreign)
        (foreign / name).rmdir()
        (foreign / name).symlink_to("nowhere")
        refused(call, foreign)


@pytest.mark.parametrize("text", ["", "x", "[]", "1", "null", '{"a":', '{"a": NaN}', '{"a": Infinity}', '{"a": 1e999}',
                                  '{"a": ' + "9" * 10_000 + "}", "[" * 100_000, '{"a":' * 100_000, "\xff"])  # fmt: skip
def test_json_that_is_none(call: Run, foreign: Path, text: str) -> None:
    for name in ("config.json", "training.json", "manifest.json"):
        path = foreign / name
        kept = path.read_bytes() if path.exists() else None
        path.write_bytes(text.encode("latin-1"))
        refused(call, foreign, name)
        path.unlink() if kept is None else path.write_bytes(kept)
    assert use(call, foreign).code == 0


def test_a_json_file_of_absurd_size(call: Run, foreign: Path) -> None:
    with open(foreign / "config.json", "wb") as stream:
        stream.truncate(1 << 40)  # a hole: no disk is taken
    refused(call, foreign, "larger than 64 MiB")


# -- manifest and shards ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["../lm/config.json", "/etc/hostname", "..", ".", "", "a/b", "nul\0", "new\nline",
                                  "a/../config.json", "a/..", "../config.json", "a//config.json", "/config.json",
                                  "a/b/config.json", "a/"])  # fmt: skip
def test_names_in_a_manifest(call: Run, lm: Path, name: str) -> None:
    change(lm / "manifest.json", lambda data: data["files"].update({name: {"size": 1, "sha256": "0"}}))
    refused(call, lm)


@pytest.mark.parametrize("files", [[], "x", None, 1, {"config.json": None}, {"config.json": []}, {"config.json": {}}])
def test_manifests_of_another_form(call: Run, lm: Path, files: Any) -> None:
    (lm / "manifest.json").write_text(json.dumps({"format": 1, "files": files}))
    refused(call, lm)


@pytest.mark.parametrize("places", [None, [], {}, "x", {"a": 1}, {"a": None}, {"a": ["x"]}, {"a": "../x.safetensors"},
                                    {"a": "/x.safetensors"}, {"a": "weights.bin"}, {"a": "nowhere.safetensors"},
                                    {"a": ".."}, {"a": "x\0.safetensors"}, {"a": "m.safetensors", "b": 2}])  # fmt: skip
def test_an_index_of_shards(call: Run, foreign: Path, places: Any) -> None:
    (foreign / "model.safetensors").rename(foreign / "m.safetensors")
    (foreign / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    refused(call, foreign, "safetensors")


# -- weights ----------------------------------------------------------------------------------------------------------


def weights(directory: Path, edit: Callable[[dict[str, torch.Tensor]], Any]) -> None:
    tensors = load_file(directory / "model.safetensors")
    edit(tensors)
    save_file(tensors, directory / "model.safetensors")


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda t: t.pop("transformer.wpe.weight"), "no weight wpe.weight"),
        (lambda t: t.pop("transformer.h.1.attn.c_attn.bias"), "no weight h.1.attn.c_attn.bias"),
        (lambda t: t.update(extra=torch.zeros(2)), "unknown weight extra"),
        (lambda t: t.update({"transformer.ln_f.bias": torch.zeros(31)}), "ln_f.bias has shape (31,)"),
        (lambda t: t.update({"transformer.ln_f.bias": torch.zeros(1, 32)}), "ln_f.bias has shape (1, 32)"),
        (lambda t: t.update({"transformer.wte.weight": torch.zeros(50)}), "wte.weight has shape (50,)"),
        (
            lambda t: t.update({"transformer.wte.weight": torch.zeros(65, 32)}),
            "wte.weight has 65 rows, config.json says 50",
        ),
        (lambda t: t["transformer.wpe.weight"].fill_(torch.nan), "position_embedding.weight holds values"),
        (lambda t: t["transformer.wte.weight"][3].fill_(torch.inf), "token_embedding.weight holds values"),
        (lambda t: t.clear(), "do not belong together"),
    ],
)
def test_weights_that_do_not_fit(call: Run, foreign: Path, edit: Callable[..., Any], said: str) -> None:
    weights(foreign, edit)
    refused(call, foreign, said, commands=("score",))


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"{}",
        b"x" * 100,
        b'{"a": 1}',
        b'{"a": {"dtype": "F32", "shape": [1000000000000, 1000000], "data_offsets": [0, 4]}}',
        b'{"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}',
        b'{"a": {"dtype": "X9", "shape": [1], "data_offsets": [0, 4]}}',
        b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 400]}}',
        b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}}',
        b'{"a":' * 50_000,
    ],
)
def test_headers_of_weights(call: Run, foreign: Path, header: bytes) -> None:
    (foreign / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + b"\0\0\0\0")
    refused(call, foreign, commands=("score",) if header == b"{}" else ("score", "describe"))
    for length in (len(header) + 100, 1 << 40, (1 << 64) - 1):
        (foreign / "model.safetensors").write_bytes(struct.pack("<Q", length) + header)
        refused(call, foreign, "model.safetensors: damaged")


class Canary:
    def __init__(self, place: str) -> None:
        self.place = place

    def __reduce__(self) -> Any:
        return Path.touch, (Path(self.place),)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "weights.pth", "model.safetensors"])
def test_a_pickle_is_never_read(call: Run, foreign: Path, tmp_path: Path, name: str) -> None:
    (foreign / "model.safetensors").unlink()
    (foreign / name).write_bytes(pickle.dumps(Canary(str(tmp_path / "canary"))))
    refused(call, foreign, name)
    if name != "model.safetensors":
        assert "hint: pickled weights are not read" in use(call, foreign).err
    torch.save({"a": Canary(str(tmp_path / "canary"))}, foreign / name)
    refused(call, foreign, name)
    assert not (tmp_path / "canary").exists()


# -- configurations ---------------------------------------------------------------------------------------------------


ABSURD = [
    *[("n_layer", x) for x in (10**9, -1, 0, 1.5, "x", None, True, [2], 3, 1, 1000)],
    *[("n_embd", x) for x in (0, -32, 33, 10**9, 1 << 16, 64, "32", {})],
    *[("vocab_size", x) for x in (10**12, 0, -1, 49, 51, 1 << 22, "50", 5e1)],
    *[("n_head", x) for x in (0, 3, 5, -4, 10**6, 1e0, None)],
    *[("n_positions", x) for x in (0, -1, 23, 25, 1 << 22, 10**15, "24")],
    *[("n_inner", x) for x in (-1, 1, 127, 1 << 18, 10**12, "x", 1.5)],
    *[("layer_norm_epsilon", x) for x in ("x", None, -1, [], 1e300)],
    *[("attn_pdrop", x) for x in ("x", 2, -0.5, None, [])],
    *[("activation_function", x) for x in ("tanh", "none", 1, None, [], {})],
    *[("model_type", x) for x in ("llama", None, 1, [], "nlptools-lstm")],
    *[("eos_token_id", x) for x in (50, -1, 1.0, "1", [50], [], True, 10**12)],
    *[("nlptools", x) for x in (1, "x", [], None, {"document": "novel"}, {"document": []})],
    ("scale_attn_by_inverse_layer_idx", True),
    ("tie_word_embeddings", False),
]


def test_configurations_that_cannot_be(call: Run, foreign: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    text = (foreign / "config.json").read_text()
    for name, value in ABSURD:
        change(foreign / "config.json", lambda data, name=name, value=value: data.update({name: value}))  # type: ignore[misc]
        done = use(call, foreign)
        assert done.code == 78 and done.err.count("\n") == 1 and len(done.err) < 400, (name, value, done)
        assert done.err.startswith("nlptools score: "), (name, value, done)
        (foreign / "config.json").write_text(text)
    for name in ("n_layer", "n_embd", "n_head", "vocab_size", "n_positions", "model_type"):
        change(foreign / "config.json", lambda data, name=name: data.pop(name))  # type: ignore[misc]
        refused(call, foreign, commands=("score",))
        (foreign / "config.json").write_text(text)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000, "memory was taken (KiB)"


@pytest.mark.parametrize(("name", "value"), [("hidden_size", 64), ("hidden_size", 0), ("num_hidden_layers", 10**9),
                                             ("vocab_size", 10**12), ("hidden_dropout", "x")])  # fmt: skip
def test_configurations_of_an_lstm(call: Run, tmp_path: Path, name: str, value: Any) -> None:
    lm = words_bundle(tmp_path / "lstm", "lstm")
    (lm / "manifest.json").unlink()
    change(lm / "config.json", lambda data: data.update({name: value}))
    refused(call, lm, commands=("score",))


def test_a_tokenizer_that_does_not_fit(call: Run, foreign: Path) -> None:
    vocab = (foreign / "vocab.tsv").read_text()
    (foreign / "vocab.tsv").write_text(vocab + "more\t0\n")
    refused(call, foreign, "the tokenizer has 51 tokens, the model 50", commands=("score",))
    for bad in ("a\t1\na\t2\n", "a\tx\n", "\t1\n", "\xff\n", "a\t1\t2\n"):
        (foreign / "vocab.tsv").write_bytes(bad.encode("latin-1"))
        refused(call, foreign, "vocab.tsv")
    (foreign / "vocab.tsv").write_text(vocab)
    for marker in ("[]", '{"kind": "pickle"}', '{"kind": 1}', '{"kind": ["words"]}', "x"):
        (foreign / "nlptools_tokenizer.json").write_text(marker)
        refused(call, foreign)


def test_weights_of_others_fit(call: Run, foreign: Path) -> None:
    """Without the prefix, with buffers of old uploads, in 16 bits, with an output matrix that is tied."""
    plain = use(call, foreign).out
    tensors = {k.removeprefix("transformer."): v for k, v in load_file(foreign / "model.safetensors").items()}
    tensors["h.0.attn.bias"] = torch.ones(1, 1, 24, 24)
    tensors["lm_head.weight"] = tensors["wte.weight"].clone()
    save_file(tensors, foreign / "model.safetensors")
    assert use(call, foreign).out == plain
    save_file({k: v.to(torch.bfloat16) for k, v in tensors.items()}, foreign / "model.safetensors")
    assert use(call, foreign).code == 0


def test_a_token_beyond_the_vocabulary_may_end_texts(call: Run, tmp_path: Path) -> None:
    done = use(call, bytes_bundle(tmp_path / "b"))
    assert done.code == 0 and done.text.endswith("\t6\n"), done.err


# -- encoder-decoders -------------------------------------------------------------------------------------------------


TOKENS = ["<unk>", "<s>", "</s>", *(f"w{i}" for i in range(30))]
ENCODER_DECODERS: dict[str, dict[str, Any]] = {
    "seq2seq-transformer": {
        "encoder_layers": 2,
        "decoder_layers": 1,
        "encoder_heads": 2,
        "decoder_heads": 4,
        "encoder_intermediate_size": 24,
        "decoder_intermediate_size": 32,
    },
    "seq2seq-rnn": {"embedding_size": 12, "encoder_layers": 2},
    "seq2seq-convolution": {"embedding_size": 12, "encoder_layers": 2, "decoder_layers": 3},
}


def pair_bundle(directory: Path, arch: str, source: list[str], target: list[str] | None = None, **changes: Any) -> Path:
    tokenizers = [load("words", vocab=Vocab(tokens)) for tokens in (source, target or source)]
    first, last = tokenizer_pairs.pair(tokenizers[0], tokenizers[1] if target else None)
    pad, eos, source_size, target_size = tokenizer_pairs.special_ids(first, last)
    sizes = {**ENCODER_DECODERS[arch], "hidden_size": 16, "share_embeddings": target is None, **changes}
    config = registry.config_class(arch)(source_size, target_size, pad, eos, **sizes)
    torch.manual_seed(0)
    model = registry.model_class(arch)(config)
    model.initialize()
    directory.mkdir()
    bundle.save_pair(directory, arch, model, model.state_dict(), first, last, training={"by": "a test"})
    return directory


@pytest.mark.parametrize("arch", ENCODER_DECODERS)
@pytest.mark.parametrize("separate", [False, True])
def test_encoder_decoders_there_and_back(tmp_path: Path, arch: str, separate: bool) -> None:
    out = pair_bundle(tmp_path / "m", arch, TOKENS, TOKENS[:20] if separate else None)
    loaded = bundle.load(out)
    assert loaded.target_tokenizer is not None and loaded.arch == arch and loaded.training == {"by": "a test"}
    sizes = loaded.model.config  # type: ignore[attr-defined]
    assert loaded.eos == sizes.eos == 2 and sizes.pad == (20 if separate else 33)
    assert (loaded.target_tokenizer is loaded.tokenizer) == (not separate)
    assert loaded.target_tokenizer and loaded.target_tokenizer.encode("w3 w16") == [6, 19]
    assert loaded.tokenizer.encode("w3 w25") == [6, 29 if separate else 28]
    source = torch.tensor([[3, 4, 5, 2], [6, 2, sizes.pad, sizes.pad]])
    read = torch.tensor([[sizes.pad, 4, 5], [sizes.pad, 7, 3]])
    torch.manual_seed(0)
    model = registry.model_class(arch)(sizes)
    model.initialize()
    with torch.inference_mode():
        one, other = [
            m.output.logits(m(read, m.encode(source, source != sizes.pad))[0]) for m in (model.eval(), loaded.model)
        ]
    assert torch.equal(one, other) and one.shape == (2, 3, sizes.num_classes)
    # what it holds is what the manifest lists, and another save gives the same bytes
    files = {p.relative_to(out).as_posix() for p in out.rglob("*") if p.is_file()}
    assert set(json.loads((out / "manifest.json").read_text())["files"]) == files - {"manifest.json"}
    assert ("target/vocab.tsv" in files) == separate
    (tmp_path / "again").mkdir()
    bundle.save_pair(tmp_path / "again", arch, loaded.model, loaded.weights(), loaded.tokenizer, loaded.target_tokenizer,
                     training=loaded.training)  # fmt: skip
    assert all((out / name).read_bytes() == (tmp_path / "again" / name).read_bytes() for name in files)
    assert bundle.load(words_bundle(tmp_path / "lm")).target_tokenizer is None


def test_damage_in_the_folder_of_the_target(tmp_path: Path) -> None:
    out = pair_bundle(tmp_path / "m", "seq2seq-rnn", TOKENS, TOKENS[:20])
    good = (out / "target" / "vocab.tsv").read_text()
    for text, said in ((good.replace("w3", "w4"), "damaged"), (good + "more\t0\n", "damaged"), (None, "missing")):
        (out / "target" / "vocab.tsv").unlink(missing_ok=True)
        if text is not None:
            (out / "target" / "vocab.tsv").write_text(text)
        with pytest.raises(BundleError, match=rf"target.vocab\.tsv: {said}"):
            bundle.load(out)
    (out / "target" / "vocab.tsv").write_text(good + "more\t0\n")
    (out / "manifest.json").unlink()
    with pytest.raises(BundleError, match="the tokenizer has 22 tokens, the model 21"):
        bundle.load(out)


@pytest.mark.parametrize("arch", ENCODER_DECODERS)
def test_encoder_decoders_that_cannot_be(tmp_path: Path, arch: str) -> None:
    out = pair_bundle(tmp_path / "m", arch, TOKENS)
    (out / "manifest.json").unlink()
    text = (out / "config.json").read_text()
    names = [name for name, value in json.loads(text).items() if type(value) in (int, str)]
    assert len(names) > 9
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ignored = {"num_hidden_layers", "vocab_size", "pad_token_id", "eos_token_id", "decoder_start_token_id"}
    ignored = ignored - {"pad_token_id", "eos_token_id", "vocab_size"} if "d_model" in names else ignored
    ignored |= {"forced_eos_token_id", "torch_dtype", "max_position_embeddings"}
    for name in names:
        for value in (-1, 10**9, "x", [], {}, True, 1.5, None):
            if name not in ignored and not (value is None and name in ("decoder_vocab_size",)):
                (out / "config.json").write_text(json.dumps({**json.loads(text), name: value}))
                with pytest.raises(BundleError) as raised:
                    bundle.load(out)
                assert len(str(raised.value)) < 400 and "\n" not in str(raised.value), (name, value)
    for name, value in (("share_embeddings", "yes"), ("bidirectional", 1), ("static_position_embeddings", False),
                        ("scale_embedding", 1), ("share_encoder_decoder_embeddings", None), ("dropout", "x"),
                        ("activation_function", "tanh"), ("decoder_start_token_id", 3)):  # fmt: skip
        if name in json.loads(text) and name not in ignored:
            (out / "config.json").write_text(json.dumps({**json.loads(text), name: value}))
            with pytest.raises(BundleError):
                bundle.load(out)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000, "memory was taken (KiB)"


def test_tokenizers_that_do_not_fit_are_not_saved(tmp_path: Path) -> None:
    loaded = bundle.load(pair_bundle(tmp_path / "m", "seq2seq-rnn", TOKENS))
    other = load("words", vocab=Vocab([*TOKENS, "a", "b"]))
    with pytest.raises(BundleError, match="the tokenizer has 36 tokens, the model 34"):
        bundle.save_pair(tmp_path, loaded.arch, loaded.model, loaded.weights(), other, training={})
    assert not (tmp_path / "config.json").exists()


def test_force_clears_the_folder_of_the_target_too(tmp_path: Path) -> None:
    """Else what is saved next would be read with the tokenizer of what was there."""
    out = pair_bundle(tmp_path / "m", "seq2seq-rnn", TOKENS, TOKENS[:20])
    (out / "mine").write_text("stays")
    (out / "training.json").write_text('{"status": "finished"}')
    before = run_directory.previous(out, "auto", True, run_directory.RunSettings({}))
    with run_directory.reading(out, before):
        assert sorted(p.name for p in out.iterdir()) == [".replaced", "data", "mine", "training.json"]
