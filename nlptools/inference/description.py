"""Description of models, word vectors and tokenizers."""

from __future__ import annotations

from dataclasses import fields
from math import prod
from pathlib import Path

from nlptools import bundle
from nlptools.errors import BundleError, UsageError, display
from nlptools.files import artifacts, gguf_file, hub_cache
from nlptools.inference import mixture_directory
from nlptools.json_types import JsonObject
from nlptools.models.huggingface import peft
from nlptools.text.tokenizer import BUNDLE_FILES, Tokenizer
from nlptools.vectors import static_directory
from nlptools.vectors.table import Vectors

_SOME = 10  # words or tokens that are shown

Facts = dict[str, object]  # what `info` shows about a part of a model


def describe(source: str | Path) -> dict[str, Facts]:
    """Properties in sections.

    A model directory has the sections model, task (if it has labels or finetune wrote it), tokenizer, training and files; an
    encoder-decoder with two tokenizers has source tokenizer and target tokenizer. One of low-rank adapters also has adapter, and
    the weights of the section model are theirs. A directory of vectors has vectors, training
    (if train-w2v wrote it) and files; one of a mixture has mixture (the weight of each model) and files. Directories of models
    are not loaded. One of static vectors has vectors, tokenizer, distilled and files. A GGUF file has model, tokenizer and files.
    A file of vectors, in any format that convert reads, has the section vectors; a tokenizer or a vocabulary, a file or a
    directory, has tokenizer.

    Raises:
        InputError, BundleError: no such file or directory, neither a model nor vectors nor a tokenizer, or a damaged file.
    """
    if gguf_file.is_gguf(source):
        from nlptools.inference import gguf_bundle

        return gguf_bundle.describe(Path(source))
    path = hub_cache.locate(source)
    if path.is_file() or _is_tokenizer(path):
        return _alone(str(source))
    if (path / "training.json").is_file() and not (path / "config.json").is_file() and not peft.is_adapter(path):
        raise BundleError(
            f"{display(str(path))}: no config.json: a training run without a model",
            hint="nlptools plot draws its training curves",
        )
    if static_directory.locate(path) is not None:
        return _static(path)
    bundle.check_directory(path)
    verified = artifacts.verify(path)
    config = peft.read_config(path)
    files = _files(path, verified)
    if mixture_directory.is_saved(path):
        parts, weights = mixture_directory.read(path)
        return {"mixture": {part.name: weight for part, weight in zip(parts, weights, strict=True)}, "files": files}
    training = artifacts.read_json(path / "training.json") if (path / "training.json").is_file() else {}
    if config.get("kind") == "vectors":
        trained = {"training": _vector_training(training)} if training else {}
        return {"vectors": _vectors(path, config), **trained, "files": files}
    return {
        "model": _model(path, config),
        **({"adapter": _adapter(path)} if peft.is_adapter(path) else {}),
        **_task(config, training),
        **_tokenizers(peft.home(path, BUNDLE_FILES), config),
        "training": _training(training),
        "files": files,
    }


def _static(path: Path) -> dict[str, Facts]:
    """Properties of a directory of static vectors, which is read."""
    static = static_directory.load(path)
    count, dimensions = static.table.shape
    vectors: Facts = {"layout": "static", "tokens": count, "dimensions": dimensions, "normalize": static.normalize}
    training = artifacts.read_json(path / "training.json") if (path / "training.json").is_file() else {}
    made = {"distilled": {**training}} if training else {}
    files = {"files": _files(path, artifacts.verify(path))}
    return {"vectors": vectors, "tokenizer": _tokenizer(static.tokenizer), **made, **files}


def _is_tokenizer(path: Path) -> bool:
    """Whether a directory has the files of a tokenizer, and none of a model."""
    model = any((path / name).exists() for name in ("config.json", peft.CONFIG, "model.safetensors", "training.json"))
    return not model and any((path / name).is_file() for name in BUNDLE_FILES)


def _alone(path: str) -> dict[str, Facts]:
    """Properties of a tokenizer, or of a file of vectors; a file of a tokenizer is known by its suffix or its name."""
    from nlptools.text import tokenizer as tokenizers
    from nlptools.vectors.files import formats

    name = Path(path).name
    if Path(path).is_dir() or name.endswith((".model", ".json", ".tsv")) or name == "vocab.txt":
        loaded = tokenizers.load_path(Path(path))
        assert loaded.vocab is not None
        return {"tokenizer": {**_tokenizer(loaded), "first tokens": loaded.vocab.tokens[:_SOME]}}
    try:
        kind = formats.source_format(path)
    except UsageError:
        kind = "bundle"
    if kind == "bundle":
        raise BundleError(f"{display(path)}: neither a model directory nor a file of word vectors or of a tokenizer")
    size = Path(path).stat().st_size
    return {"vectors": {"format": kind, "bytes": size, **_table(formats.load(path, kind, "replace"))}}


def _files(path: Path, verified: dict[str, str]) -> Facts:
    from nlptools.text.tokenizer_pairs import FOLDER

    paths = {p.name: p for p in path.iterdir()}
    paths |= {f"{FOLDER}/{p.name}": p for p in (path / FOLDER).glob("*")}  # the tokenizer of the target
    return {
        name: f"{p.stat().st_size:,} bytes" + (f", {verified[name]}" if name in verified else ", not in the manifest")
        for name, p in sorted(paths.items())
        if p.is_file() and not p.name.startswith(".")
    }


def _vectors(path: Path, config: JsonObject) -> Facts:
    """Properties of a directory of vectors, which is opened, and thereby checked, but not read."""
    from nlptools.vectors.files import directory as bundle_format
    from nlptools.vectors.product_quantization import ProductRows

    table = bundle_format.read(str(path), "replace")
    facts = {**_table(table), "quantized": config.get("quantized", "none")}
    if isinstance(table.rows, ProductRows):
        codes, centroids, _ = table.rows.product
        facts |= {"subvectors": codes.shape[1], "centroids": len(centroids)}
    return facts


def _table(vectors: Vectors) -> Facts:
    ngrams, counts = vectors.subwords, vectors.counts is not None
    facts: Facts = {"words": len(vectors), "dimensions": vectors.dimensions, "counts": counts}
    if ngrams is not None and len(ngrams.buckets):
        facts["subwords"] = {"shortest": ngrams.shortest, "longest": ngrams.longest, "rows": len(ngrams.buckets)}
    return {**facts, "first words": vectors.words.list()[:_SOME]}


def _model(path: Path, config: JsonObject) -> Facts:
    files = [path / peft.WEIGHTS] if peft.is_adapter(path) else artifacts.weight_files(path)
    tensors = [tensor for file in files for tensor in _tensors(file)]
    sizes = {k: v for k, v in config.items() if isinstance(v, (int, float)) and not isinstance(v, bool)}
    ours = config.get("nlptools")
    arch = ours.get("arch") if isinstance(ours, dict) else None
    return {
        "family": config.get("model_type"),
        **({"architecture": arch} if arch is not None else {}),
        "weights": sum(prod(shape) for shape, _ in tensors),
        "types": sorted({dtype for _, dtype in tensors}),
        **sizes,
    }


def _adapter(path: Path) -> Facts:
    """The base of low-rank adapters, and their sizes."""
    data = peft.read(path)
    names = {"base_model_name_or_path": "base", "r": "rank", "lora_alpha": "alpha", "target_modules": "targets"}
    return {ours: data.get(theirs) for theirs, ours in names.items()}


def _task(config: JsonObject, training: JsonObject) -> dict[str, Facts]:
    """The task of a fine-tuned model: its labels, the settings that finetune saved, the metric that selected the weights."""
    saved, labels = _part(_part(config, "nlptools"), "task"), _part(config, "id2label")
    if not saved and not labels:
        return {}
    metrics = _part(training, "metrics")
    name = next((name for name in reversed(metrics) if name.startswith("valid_")), None)
    chosen = {} if name is None else {"metric": name.removeprefix("valid_"), "validation": metrics[name]}
    settings = {key: value for key, value in saved.items() if value not in ("", 0)}
    named = list(labels.values()) if config.get("problem_type") != "regression" else []
    return {"task": {**settings, **({"labels": named} if named else {}), **chosen}}


def _tensors(path: Path) -> list[tuple[list[int], str]]:
    """Shape and type of each tensor of a safetensors file. Checks the header against the size of the file."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as file:
            slices = [file.get_slice(name) for name in file.keys()]  # noqa: SIM118  not a dict
            return [(tensor.get_shape(), str(tensor.get_dtype())) for tensor in slices]
    except (SafetensorError, OSError, ValueError) as error:
        raise BundleError(f"{display(str(path))}: damaged: {error}") from None


def _tokenizers(path: Path, config: JsonObject) -> dict[str, Facts]:
    from nlptools.text import tokenizer as tokenizers
    from nlptools.text import tokenizer_pairs

    if not config.get("is_encoder_decoder"):
        loaded = tokenizers.load_path(path)
        bundle.check_tokenizer(path, loaded, config)
        return {"tokenizer": _tokenizer(loaded)}
    source, target = tokenizer_pairs.load_pair(path)
    size = config.get("vocab_size")
    bundle.check_tokenizer(path, source, {"vocab_size": config.get("source_vocab_size") or size})
    other = config.get("target_vocab_size") or config.get("decoder_vocab_size") or size
    bundle.check_tokenizer(path, target, {"vocab_size": other})
    if target is source:
        return {"tokenizer": _tokenizer(source)}
    return {"source tokenizer": _tokenizer(source), "target tokenizer": _tokenizer(target)}


def _tokenizer(loaded: Tokenizer) -> Facts:
    assert loaded.vocab is not None
    special = {role: loaded.vocab.token(id) for role, id in loaded.vocab.roles.items()}
    why = loaded.json_obstacle()
    missing = {"tokenizer.json": f"none: {why}"} if why else {}
    return {"kind": loaded.kind, "tokens": len(loaded.vocab), "special": special, **missing}


def _training(record: JsonObject) -> Facts:
    if not record:
        return {"record": "none"}
    data, call, versions = _part(record, "data"), _part(record, "invocation"), _part(record, "versions")
    text, argv = _part(data, "train") or data, call.get("argv")
    parts = record.get("parts")
    counts = ("pairs", "source_tokens", "target_tokens", "tokens", "words")
    counted = ", ".join(f"{text[n]:,} {n.replace('_', ' ')}" for n in counts if isinstance(text.get(n), int))
    inputs = text.get("inputs")
    return {
        "status": record.get("status"),
        "command": " ".join(map(str, argv)) if isinstance(argv, list) else None,
        "text": counted + (f" of {', '.join(map(str, inputs))}" if isinstance(inputs, list) else "") or None,
        "metrics": record.get("metrics"),
        "began": parts[0] if isinstance(parts, list) and parts else None,
        "by": f"nlptools {record.get('nlptools')}, torch {versions.get('torch')}",
        "on": record.get("backend"),
    }


def _vector_training(record: JsonObject) -> Facts:
    """How vectors were trained by `nlptools train-w2v`."""
    from nlptools.configs.word_vectors import TrainW2V

    settings = _part(record, "settings")
    chosen = {field.name: settings[field.name] for field in fields(TrainW2V) if field.name in settings}
    common = {name: value for name, value in _training(record).items() if name != "began"}
    return {**common, "settings": chosen, "seed": record.get("seed")}


def _part(record: JsonObject, name: str) -> JsonObject:
    """The object `name` of a record; empty if it is missing or not an object."""
    value = record.get(name)
    return value if isinstance(value, dict) else {}
