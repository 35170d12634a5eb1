"""GGUF files: what is written is read back by us and by the package gguf; what llama.cpp cannot express is refused by name."""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path
from typing import Any, cast

import gguf
import gguf_models
import numpy as np
import pytest
import torch
from conftest import Run
from gguf import GGMLQuantizationType, quants
from tiny_bundles import words_bundle
from tiny_encoders import encoder_bundle

from nlptools.configs.embed import Embed
from nlptools.configs.scoring import Score
from nlptools.converters.gguf_export import convert
from nlptools.errors import BundleError, NlptoolsError, OutputError, UsageError
from nlptools.files import gguf_file, gguf_writer
from nlptools.inference import gguf_bundle, loading
from nlptools.inference.opening import open_model
from nlptools.text import chat_templates, gguf_vocabulary, learning
from nlptools.text.exported_json import Inexpressible
from nlptools.text.gguf_tokenizer import read as read_tokenizer
from nlptools.text.huggingface import HuggingFace
from nlptools.text.packages import tokenizers_package

TEXTS = ["The quick brown fox", "Быстрая лиса", "", "emoji 😀👍🏽 and more"]
TOLERANCE = {"none": 1e-6, "f16": 1e-3, "bf16": 1e-2, "q8_0": 3e-2}  # of a log-probability per token
STORED = {"none": "F32", "f16": "F16", "bf16": "BF16", "q8_0": "Q8_0"}


def scores(path: Path) -> list[float]:
    model = loading.load(path, settings=Score(), device="cpu", precision="fp32")
    return [total / count for total, count in model.totals(TEXTS, Score())]


def vectors(path: Path, **settings: Any) -> np.ndarray:
    return loading.load(path, settings=Embed(**settings), device="cpu", precision="fp32").embed(TEXTS)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("family", gguf_models.FAMILIES)
def test_scores_are_those_of_the_directory(tmp_path: Path, family: str) -> None:
    directory, file = gguf_models.language_model(tmp_path / "lm", family), tmp_path / "lm.gguf"
    expected = scores(directory)
    for quantize, tolerance in TOLERANCE.items():
        convert(str(directory), str(file), quantize=quantize, force=True)
        assert scores(file) == pytest.approx(expected, abs=tolerance), quantize
        theirs = {tensor.name: tensor for tensor in gguf.GGUFReader(file).tensors}
        ours = gguf_file.read(file)
        assert theirs.keys() == ours.tensors.keys()
        for name, place in ours.tensors.items():
            tensor = theirs[name]
            assert (place.type, list(place.shape[::-1])) == (tensor.tensor_type, tensor.shape.tolist()), name
            assert (place.start, place.size) == (tensor.data_offset, tensor.n_bytes), name
            full = len(place.shape) == 1 or name == "position_embd.weight"
            assert tensor.tensor_type.name == ("F32" if full else STORED[quantize]), name
    loaded, again = open_model(directory).bundle, open_model(file).bundle
    for name in ("start", "eos", "ends", "prepends_start", "document"):
        assert getattr(loaded, name) == getattr(again, name), name


@pytest.mark.parametrize("family", ["gemma2", "gemma3"])
def test_tensors_of_gemma_have_the_names_of_the_package(tmp_path: Path, family: str) -> None:
    directory, file = gguf_models.language_model(tmp_path / "lm", family), tmp_path / "lm.gguf"
    convert(str(directory), str(file))
    known = {gguf.TENSOR_NAMES[each] for each in gguf.MODEL_TENSORS[gguf.MODEL_ARCH[family.upper()]]}
    names = {name.removesuffix(".weight").replace("blk.0.", "blk.{bid}.") for name in gguf_file.read(file).tensors}
    names = {name for name in names if not name.startswith("blk.") or "{bid}" in name}
    assert names == known - {"output"}
    there = gguf_file.read(file)
    weights = open_model(directory).bundle.weights()
    theirs = {tensor.name: tensor.data for tensor in gguf.GGUFReader(file).tensors}["blk.1.attn_norm.weight"]
    np.testing.assert_allclose(theirs, weights["blocks.1.attention_norm.weight"].numpy() + 1)
    assert there.metadata[f"{family}.attention.sliding_window"] == 5


def test_variants_of_gemma_that_llama_cpp_does_not_have(tmp_path: Path) -> None:
    changes: dict[str, tuple[str, dict[str, Any]]] = {
        "query_pre_attn_scalar 16 in a gemma2 of these sizes, expected 24": ("gemma2", {"score_size": 16}),
        "has 1 layer with a sliding window, then one without, in a gemma2": ("gemma2", {"whole_layers": (0,)}),
        "has 5 layers with a sliding window, then one without, in a gemma3": ("gemma3", {"whole_layers": (2, 5)}),
        "always has attn_logit_softcapping": ("gemma2", {"score_cap": 0.0}),
        "no tie_word_embeddings False": ("gemma2", {"tie_word_embeddings": False}),
    }
    for number, (words, (family, more)) in enumerate(changes.items()):
        directory = gguf_models.language_model(tmp_path / str(number), family, **more)
        with pytest.raises(BundleError, match=words):
            convert(str(directory), str(tmp_path / "out.gguf"))
    whole = gguf_models.language_model(tmp_path / "whole", "gemma3", sliding_window=0, whole_layers=(), logit_cap=9.0)
    convert(str(whole), str(tmp_path / "whole.gguf"))
    assert scores(tmp_path / "whole.gguf") == pytest.approx(scores(whole), abs=1e-6)


def test_the_base_of_positions_in_layers_with_a_window(tmp_path: Path) -> None:
    directory, file = gguf_models.language_model(tmp_path / "lm", "gemma3", local_rope_theta=50.0), tmp_path / "lm.gguf"
    convert(str(directory), str(file))
    assert gguf_file.read(file).metadata["gemma3.rope.freq_base_swa"] == 50.0
    assert scores(file) == pytest.approx(scores(directory), abs=1e-6)
    rewritten(file, tmp_path / "plain.gguf", {}, drop=("gemma3.rope.freq_base_swa",))
    usual = gguf_models.language_model(tmp_path / "usual", "gemma3")
    assert scores(tmp_path / "plain.gguf") == pytest.approx(scores(usual), abs=1e-6), "10,000 as in llama.cpp"


def test_numbers_of_the_model_are_read_as_llama_cpp_does_or_refused_by_name(tmp_path: Path) -> None:
    file, other = tmp_path / "lm.gguf", tmp_path / "x.gguf"
    directory = gguf_models.language_model(tmp_path / "lm", "qwen2", num_key_value_heads=4)
    convert(str(directory), str(file))
    factor = ("qwen2.rope.scaling.type", "qwen2.rope.scaling.factor")
    dropped = (*factor, "qwen2.rope.freq_base", "qwen2.attention.head_count_kv", "qwen2.attention.key_length")
    kept: list[tuple[dict[str, Any], tuple[str, ...]]] = [
        ({}, factor[:1]),  # a factor alone is a linear one
        ({"qwen2.rope.scale_linear": 2.0}, factor),
        ({"qwen2.expert_count": 0, "qwen2.attention.scale": 0.0, "qwen2.logit_scale": 1.0}, ()),
        ({"qwen2.rope.scaling.finetuned": True, "qwen2.attention.causal": True, "qwen2.pooling_type": 1}, dropped[2:]),
    ]
    for changes, without in kept:
        rewritten(file, other, {}, drop=without, **changes)
        assert scores(other) == pytest.approx(scores(directory), abs=1e-6), changes
    plain = gguf_models.language_model(tmp_path / "plain", "qwen2", num_key_value_heads=4, rope_scaling=None)
    for changes, without in (({}, factor), ({factor[0]: "none"}, ())):
        rewritten(file, other, {}, drop=without, **changes)
        assert scores(other) == pytest.approx(scores(plain), abs=1e-6)
    wrong: dict[str, Any] = {
        "rope.scaling.type": "yarn",
        "rope.scaling.attn_factor": 1.5,
        "rope.dimension_count": 8,
        "attention.value_length": 32,
        "attention.sliding_window": 4,
        "attention.scale": 0.5,
        "attention.causal": False,
        "attention.clamp_kqv": 8.0,
        "final_logit_softcapping": 30.0,
        "logit_scale": 0.1,
        "expert_count": 8,
        "rope.dimension_sections": [1, 1, 1, 1],
    }
    for name, value in wrong.items():
        rewritten(file, other, {}, **{f"qwen2.{name}": value})
        with pytest.raises(BundleError, match="not supported") as error:
            open_model(other)
        said = {"rope.scaling.type": "'yarn'", "attention.sliding_window": "sliding windows"}
        assert said.get(name, f"qwen2.{name}") in str(error.value), name
    rewritten(file, other, {}, drop=("qwen2.attention.layer_norm_rms_epsilon",))
    with pytest.raises(BundleError, match=r"no qwen2\.attention\.layer_norm_rms_epsilon"):
        open_model(other)


def test_the_metadata_as_the_package_reads_it(tmp_path: Path) -> None:
    directory, file = gguf_models.language_model(tmp_path / "lm", "llama", "llama"), tmp_path / "lm.gguf"
    convert(str(directory), str(file))
    ours = gguf_file.read(file).metadata
    theirs = {name: field.contents() for name, field in gguf.GGUFReader(file).fields.items()}
    assert ours.keys() <= theirs.keys()
    for name, value in ours.items():
        assert theirs[name] == (list(value) if isinstance(value, bytes) else value), name


def test_scaled_rotary_positions(tmp_path: Path) -> None:
    scaling = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    scaling["original_max_position_embeddings"] = 8192
    directory = gguf_models.language_model(tmp_path / "lm", "llama", rope_scaling=scaling)
    convert(str(directory), str(tmp_path / "lm.gguf"))
    assert scores(tmp_path / "lm.gguf") == pytest.approx(scores(directory), abs=1e-6)
    config: Any = open_model(tmp_path / "lm.gguf").bundle.model.config
    assert config.rope_scaling == pytest.approx(scaling)
    other = gguf_models.language_model(tmp_path / "yarn", "llama", rope_scaling={"rope_type": "yarn", "factor": 4.0})
    with pytest.raises(BundleError, match="yarn"):
        convert(str(other), str(tmp_path / "other.gguf"))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", gguf_models.KINDS)
def test_tokenizers_give_the_same_ids(tmp_path: Path, kind: str) -> None:
    made = gguf_models.encoder if kind.startswith("wordpiece") else gguf_models.language_model
    directory, file = made(tmp_path / "model", kind=kind), tmp_path / "model.gguf"
    convert(str(directory), str(file))
    lines = gguf_models.expressible(kind, gguf_models.lines(400))
    here, there = open_model(directory).bundle.tokenizer, open_model(file).bundle.tokenizer
    assert here.encode_lines(lines) == there.encode_lines(lines)
    assert [here.decode(row) for row in here.encode_lines(lines)] == [
        there.decode(row) for row in there.encode_lines(lines)
    ]
    assert here.vocab is not None and there.vocab is not None
    inner = {role: id for role, id in here.vocab.roles.items() if role not in ("bos", "eos")}  # those are the model's
    assert inner.items() <= there.vocab.roles.items()


def test_rows_without_a_token(tmp_path: Path) -> None:
    """A vocabulary that is smaller than the embedding: the file needs a name for each row."""
    directory = gguf_models.language_model(tmp_path / "lm", rows=7)
    convert(str(directory), str(tmp_path / "lm.gguf"))
    tokens = gguf_file.read(tmp_path / "lm.gguf").texts("tokenizer.ggml.tokens")
    loaded = open_model(tmp_path / "lm.gguf").bundle
    assert len(tokens) == loaded.model.config.vocab_size == len(loaded.tokenizer.vocab or "") + 7
    assert scores(tmp_path / "lm.gguf") == pytest.approx(scores(directory), abs=1e-6)


# -- encoders --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["bert", "roberta", "distilbert", "electra"])
def test_vectors_of_encoders(tmp_path: Path, layout: str) -> None:
    changes = {"roberta": {"first_position": 2, "type_vocab_size": 1}, "distilbert": {"type_vocab_size": 0}}
    directory = gguf_models.encoder(tmp_path / "encoder", layout, **changes.get(layout, {}))
    for quantize, tolerance in (("none", 1e-5), ("q8_0", 0.05)):
        convert(str(directory), str(tmp_path / "encoder.gguf"), quantize=quantize, force=True)
        np.testing.assert_allclose(vectors(tmp_path / "encoder.gguf"), vectors(directory), atol=tolerance)


@pytest.mark.parametrize(("mode", "number"), [("mean", 1), ("cls", 2), ("lasttoken", 3)])
def test_pooling_of_sentence_transformers(tmp_path: Path, mode: str, number: int) -> None:
    directory = gguf_models.encoder(tmp_path / "model")
    steps = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    rows = [{"idx": i, "name": f"{i}", "path": path, "type": f"x.{kind}"} for i, (path, kind) in enumerate(steps)]
    (directory / "modules.json").write_text(json.dumps(rows))
    (directory / "1_Pooling").mkdir()
    (directory / "1_Pooling/config.json").write_text(json.dumps({"pooling_mode": mode, "embedding_dimension": 64}))
    (directory / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 6}))
    prompts = {"query": "a ", "document": ""}
    named = {"prompts": prompts, "default_prompt_name": "query"}
    (directory / "config_sentence_transformers.json").write_text(json.dumps(named))
    convert(str(directory), str(tmp_path / "model.gguf"))
    assert gguf_file.read(tmp_path / "model.gguf").metadata["bert.pooling_type"] == number
    plain = vectors(directory, prompt="document")
    for name, differs in ((None, True), ("query", True), ("document", False)):
        expected = vectors(directory, prompt=name)
        np.testing.assert_allclose(vectors(tmp_path / "model.gguf", prompt=name), expected, atol=1e-6)
        assert differs == (np.abs(expected - plain).max() > 1e-3), name


def test_prompts_that_are_not_supported(tmp_path: Path) -> None:
    names, texts, default = gguf_bundle.PROMPT_NAMES, gguf_bundle.PROMPT_TEXTS, gguf_bundle.DEFAULT_PROMPT
    convert(str(gguf_models.encoder(tmp_path / "model")), str(tmp_path / "model.gguf"))
    held = gguf_file.read(tmp_path / "model.gguf").metadata
    wrong: dict[str, dict[str, Any]] = {
        "2 names of prompts, 1 texts": {names: ["a", "b"], texts: ["x"]},
        "no prompt named 'c'": {names: ["a"], texts: ["x"], default: "c"},
        "is no list of texts": {names: "a"},
    }
    for words, metadata in wrong.items():
        kept = {**held, "bert.pooling_type": 1, **metadata}
        (tmp_path / "wrong.gguf").write_bytes(gguf_writer.begin(kept, {}))
        with pytest.raises(BundleError, match=words):
            gguf_bundle.steps(tmp_path / "wrong.gguf")


# -- refused ---------------------------------------------------------------------------------------------------------------


def test_what_llama_cpp_cannot_express(tmp_path: Path) -> None:
    gguf_models.KINDS["bpe"] = lambda: gguf_models._sentencepiece("bpe")
    made = gguf_models.language_model
    refused: dict[str, Path] = {
        "none for such vocabularies": made(tmp_path / "bpe", kind="bpe"),
        "of the kind words": words_bundle(tmp_path / "words"),
        "activation_function 'relu'": made(tmp_path / "relu", activation="relu"),
        "sliding windows": made(tmp_path / "window", "llama", sliding_window=8),
        "attention_bias": made(tmp_path / "bias", "qwen3", attention_bias=True, output_bias=True),
        "'nlptools-lstm'": words_bundle(tmp_path / "lstm", "lstm"),
        "head of a task": encoder_bundle(tmp_path / "task", heads=("pooler", "sequence")),
        "factored embeddings": encoder_bundle(tmp_path / "electra", "electra"),
    }
    del gguf_models.KINDS["bpe"]
    for words, directory in refused.items():
        with pytest.raises(NlptoolsError, match=words) as error:
            convert(str(directory), str(tmp_path / "out.gguf"))
        assert isinstance(error.value, (BundleError, UsageError)), words
        assert not [path for path in tmp_path.iterdir() if "out.gguf" in path.name], words


def test_unknown_parts_of_merged_pieces() -> None:
    content = json.loads(cast(HuggingFace, gguf_models.tokenizer("gemma-json")).source)
    model = content["model"]
    metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False}
    changes: dict[str, dict[str, Any]] = {
        "a space after user-defined symbols": {"normalizer": None, "pre_tokenizer": metaspace},
        "one before each text, or before none": {"normalizer": None, "pre_tokenizer": {**metaspace, "split": True}},
        "not those of a SentencePiece model": {"model": {**model, "merges": model["merges"][:-1]}},
    }
    for words, change in changes.items():
        tokenizer = tokenizers_package().Tokenizer.from_str(json.dumps({**content, **change}))
        with pytest.raises(Inexpressible, match=words):
            gguf_vocabulary.metadata(HuggingFace(tokenizer, "changed"), 1000)


def test_unknown_parts_of_a_byte_level_bpe(tmp_path: Path) -> None:
    content = json.loads(learning.train_byte_bpe(gguf_models.lines(100), 300).to_str())
    changes: dict[str, dict[str, Any]] = {
        "pre-tokenizer": {"pre_tokenizer": {**content["pre_tokenizer"], "add_prefix_space": True}},
        "Lowercase": {"normalizer": {"type": "Lowercase"}},
        "takes along spaces": {"added_tokens": [{**content["added_tokens"][0], "special": False, "lstrip": True}]},
    }
    for words, change in changes.items():
        tokenizer = tokenizers_package().Tokenizer.from_str(json.dumps({**content, **change}))
        gguf_models.KINDS[words] = lambda tokenizer=tokenizer: HuggingFace(tokenizer, "changed")
        directory = gguf_models.language_model(tmp_path / words.replace(" ", "-"), kind=words)
        del gguf_models.KINDS[words]
        with pytest.raises(BundleError, match=words):
            convert(str(directory), str(tmp_path / "out.gguf"))


def test_targets_are_not_replaced(tmp_path: Path) -> None:
    directory = gguf_models.language_model(tmp_path / "lm")
    convert(str(directory), str(tmp_path / "lm.gguf"))
    with pytest.raises(OutputError, match="exists"):
        convert(str(directory), str(tmp_path / "lm.gguf"))


def test_numbers_that_f16_cannot_hold(tmp_path: Path) -> None:
    directory = gguf_models.language_model(tmp_path / "lm", scale=1e7)
    with pytest.raises(BundleError, match="F16 cannot hold"):
        convert(str(directory), str(tmp_path / "lm.gguf"), quantize="f16")
    convert(str(directory), str(tmp_path / "lm.gguf"), quantize="bf16")


# -- reading ---------------------------------------------------------------------------------------------------------------


def rewritten(
    source: Path, target: Path, types: dict[str, str], *, drop: tuple[str, ...] = (), **metadata: Any
) -> dict[str, np.ndarray]:
    """Write `source` again with tensors of these types and random blocks, and other metadata; returns their numbers."""
    file = gguf_file.read(source)
    data = source.read_bytes()
    random_bytes = np.random.default_rng(0)
    held, chosen = {}, {}
    for name, place in file.tensors.items():
        block = gguf_file.TYPES[place.type]
        if name in types:
            kind = gguf_writer.type_number(types[name])
            block = gguf_file.TYPES[kind]
            blocks = random_bytes.integers(0, 256, (place.size // 4 // block.numbers, block.bytes), np.uint8)
            if types[name].endswith("F16"):  # random numbers may not be finite
                blocks[:] = np.frombuffer(np.float16(0.25).tobytes(), np.uint8)
            for start in {"F16": (), "BF16": (), "Q6_K": (208,), "Q3_K": (108,), "Q2_K": (80, 82), "Q8_0": (0,)}.get(
                types[name], (0, 2)
            ):
                blocks[:, start : start + 2] = np.frombuffer(np.float16(0.001).tobytes(), np.uint8)  # scales
            held[name] = (kind, place.shape, blocks.tobytes())
            rows = blocks.reshape(place.shape[0], -1)
            chosen[name] = quants.dequantize(rows, GGMLQuantizationType(kind)).reshape(place.shape)
        else:
            held[name] = (place.type, place.shape, data[place.start : place.start + place.size])
    values = {key: value for key, value in file.metadata.items() if key not in drop} | metadata
    begin = gguf_writer.begin(values, {name: (kind, shape) for name, (kind, shape, _) in held.items()})
    target.write_bytes(begin + b"".join(gguf_writer.padded(content) for _, _, content in held.values()))
    return chosen


def test_quantized_blocks_are_those_of_the_package(tmp_path: Path) -> None:
    sizes = {"hidden_size": 256, "intermediate_size": 256, "num_hidden_layers": 3}
    directory = gguf_models.language_model(tmp_path / "lm", **sizes)
    convert(str(directory), str(tmp_path / "lm.gguf"))
    kinds = ("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "F16", "BF16")
    parts = {"attn_output": "attention.output", "ffn_up": "feed_forward.up", "ffn_down": "feed_forward.down"}
    places = [(layer, *part) for layer in range(3) for part in parts.items()]
    for used in (kinds[: len(places)], kinds[len(places) :]):
        types = {f"blk.{layer}.{part}.weight": kind for (layer, part, _), kind in zip(places, used, strict=False)}
        numbers = rewritten(tmp_path / "lm.gguf", tmp_path / "small.gguf", types)
        weights = open_model(tmp_path / "small.gguf").bundle.weights()
        for layer, part, name in places[: len(used)]:
            expected = numbers[f"blk.{layer}.{part}.weight"].copy()
            torch.testing.assert_close(weights[f"blocks.{layer}.{name}.weight"], torch.from_numpy(expected))


def test_damaged_files_are_one_line(tmp_path: Path, call: Run) -> None:
    directory, file = gguf_models.language_model(tmp_path / "lm"), tmp_path / "lm.gguf"
    convert(str(directory), str(file))
    data, bad = file.read_bytes(), tmp_path / "bad.gguf"
    drawn = random.Random(0)
    for length in [0, 3, 4, 20, 24, 40, len(data) - 1, *(drawn.randrange(len(data)) for _ in range(20))]:
        bad.write_bytes(data[:length])
        with pytest.raises(BundleError):
            open_model(bad)
    for _ in range(60):  # flipped bytes in the description: an error, or a file that is read
        changed = bytearray(data)
        changed[drawn.randrange(4, 20_000)] ^= 1 << drawn.randrange(8)
        bad.write_bytes(bytes(changed))
        try:
            open_model(bad)
        except BundleError as error:
            assert "\n" not in str(error)
    bad.write_bytes(data[: len(data) // 2])
    for command, *options in (
        ("score", "--text", "a"),
        ("generate", "--text", "a"),
        ("embed", "--text", "a"),
        ("describe",),
    ):
        done = call(command, bad, *options)
        assert done.code == 78 and done.err.count("\n") == 1 and "cut short" in done.err, done.err


def test_absurd_sizes_allocate_nothing(tmp_path: Path) -> None:
    big = (1 << 63) - 1
    head = gguf.GGUF_MAGIC.to_bytes(4, "little") + struct.pack("<I", 3)
    text = struct.pack("<Q", 1) + b"a"
    wrong = {
        "tensors and": head + struct.pack("<QQ", big, 1),
        "values in": head + struct.pack("<QQ", 0, big),
        "cut short": head + struct.pack("<QQ", 0, 1) + struct.pack("<Q", big) + b"x" * 50,
        "a size that": head + struct.pack("<QQ", 0, 1) + text + struct.pack("<IIQ", 9, 6, big) + b"x" * 50,
        "does not have": head + struct.pack("<QQ", 0, 1) + text + struct.pack("<IIQ", 9, 8, big) + b"x" * 50,
        "of type 99": head + struct.pack("<QQ", 0, 1) + text + struct.pack("<I", 99) + b"x" * 50,
        "has the sizes": head + struct.pack("<QQ", 1, 0) + text + struct.pack("<IQQIQ", 2, big, big, 0, 0) + b"x" * 50,
        "is not supported": head + struct.pack("<QQ", 1, 0) + text + struct.pack("<IQIQ", 1, 32, 77, 0) + b"x" * 50,
        "after the end": head + struct.pack("<QQ", 1, 0) + text + struct.pack("<IQIQ", 1, 1 << 39, 0, 0) + b"x" * 50,
        "dimensions": head + struct.pack("<QQ", 1, 0) + text + struct.pack("<I", 5) + b"x" * 50,
        "does not begin": b"GGML" + bytes(60),
        "version 9": head[:4] + struct.pack("<I", 9) + bytes(60),
    }
    for words, data in wrong.items():
        (tmp_path / "bad.gguf").write_bytes(data)
        with pytest.raises(BundleError, match=words):
            gguf_file.read(tmp_path / "bad.gguf")


def test_contents_that_are_not_supported(tmp_path: Path) -> None:
    directory, file, bad = gguf_models.language_model(tmp_path / "lm"), tmp_path / "lm.gguf", tmp_path / "bad.gguf"
    convert(str(directory), str(file))
    wrong: dict[str, dict[str, Any]] = {
        "architecture 'mamba'": {"general.architecture": "mamba"},
        "pre-tokenizer 'strange'": {"tokenizer.ggml.pre": "strange"},
        "tokenizer 'rwkv'": {"tokenizer.ggml.model": "rwkv"},
        "several files": {"split.count": 2},
        "layer": {"gpt2.block_count": 1_000_000},
        "at least": {"gpt2.block_count": 900},
        "types of tokens": {"tokenizer.ggml.token_type": [1]},
        "not a merge": {"tokenizer.ggml.merges": ["no such"]},
        "no truth value": {"tokenizer.ggml.add_bos_token": "yes"},
        "the metadata says": {"gpt2.context_length": 99},
    }
    for words, change in wrong.items():
        rewritten(file, bad, {}, **change)
        with pytest.raises(BundleError) as error:
            open_model(bad)
        assert "\n" not in str(error.value) and "bad.gguf" in str(error.value), words
        assert words in str(error.value), (words, error.value)


def test_commands_take_files(tmp_path: Path, call: Run) -> None:
    directory = gguf_models.language_model(tmp_path / "lm", "llama")
    (directory / "chat_template.jinja").write_text(chat_templates.FORMATS["chatml"].source)
    done = call("convert", directory, "lm.gguf", "--quantize", "f16")
    assert done.code == 0 and "tensors" in done.err
    assert call("convert", directory, "lm.gguf").code == 73
    assert call("convert", directory, "x.gguf", "--quantize", "int8").code == 2
    assert call("convert", directory, "vectors", "--quantize", "f16").code == 2
    assert call("score", "lm.gguf", "--text", "The fox").code == 0
    greedy = ["--max-new-tokens", "5", "--temperature", "0", "--text", "The fox"]
    assert call("generate", "lm.gguf", *greedy).out == call("generate", directory, *greedy).out
    assert len(call("embed", "lm.gguf", "--to", "tsv", "--text", "The fox").text.split("\t")) == 65
    shown = call("describe", "lm.gguf").text
    assert "model family\tllama\n" in shown and "chat template\ttrue" in shown and '["F16", "F32"]' in shown
    assert chat_templates.chat_template(str(tmp_path / "lm.gguf")) is not None
    assert call("score", "none.gguf", "--text", "a").code == 66


def test_a_tokenizer_with_a_control_token_of_another_name(tmp_path: Path) -> None:
    """Special tokens are those that the file names, whatever their texts."""
    directory, file, other = gguf_models.language_model(tmp_path / "lm"), tmp_path / "lm.gguf", tmp_path / "other.gguf"
    convert(str(directory), str(file))
    tokens = gguf_file.read(file).texts("tokenizer.ggml.tokens")
    rewritten(file, other, {}, **{"tokenizer.ggml.tokens": ["<|fin|>", *tokens[1:]]})
    vocab = read_tokenizer(gguf_file.read(other)).vocab
    assert vocab is not None and vocab.token(vocab.eos or 0) == "<|fin|>"
