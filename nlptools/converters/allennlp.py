"""ELMo weights as AllenNLP published them: a folder with options.json and weights.hdf5 (their names may have a prefix).

Layouts: LSTM gates in the order of TensorFlow (input, candidate, forget, output), without the 1 that it adds to the bias of the
forget gate; matrices with inputs in rows; characters without the row of zeros for padded words. There is no vocabulary and no
softmax, so the models have features only.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nlptools import bundle
from nlptools.errors import BundleError, Unavailable, UsageError, display
from nlptools.files import artifacts, whole_directory
from nlptools.models.language.elmo import Elmo, ElmoConfig
from nlptools.text import byte_spelling
from nlptools.text import tokenizer as tokenizers
from nlptools.text.vocab import Vocab
from nlptools.version import __version__

_VOCAB = ("<unk>", "</s>")  # of the directories that are written, which need one


def convert(source: str, target: str, *, force: bool = False) -> None:
    """Write the model in the folder `source` as a model directory.

    Raises:
        BundleError: options or weights are missing, damaged, or do not belong together.
        Unavailable: there is no h5py.
        UsageError: the target is standard output.
        OutputError: the target exists, and is no model directory or not to be replaced.
    """
    if target == "-":
        raise UsageError("a model is written to a directory, not to standard output")
    whole_directory.check_target(target, "a model", lambda path: (path / "config.json").is_file(), force=force)
    model = load(Path(source))
    vocab = Vocab(_VOCAB)
    record = {"status": "converted from AllenNLP", "nlptools": __version__, "versions": {"torch": torch.__version__}}
    with whole_directory.replacing(target) as directory:
        bundle.save(
            directory,
            "elmo",
            model,
            model.state_dict(),
            tokenizers.load("whitespace", vocab=vocab),
            eos=len(_VOCAB) - 1,
            document="line",
            training=record,
        )


def load(folder: Path) -> Elmo:
    """The model in a folder. Raises as `convert`."""
    path = _only(folder, "options.json")
    config = config_from(artifacts.read_json(path), display(str(path)))
    weights = _Weights(_only(folder, ".hdf5"))
    with weights:
        tensors = _tensors(weights, config)
    model = Elmo(config)
    model.load_state_dict({name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in tensors.items()})
    for name, tensor in model.state_dict().items():
        if not bool(torch.isfinite(tensor).all()):
            raise BundleError(f"{weights.name}: weight {name} holds values that are not finite")
    return model.eval()


def _only(folder: Path, suffix: str) -> Path:
    """The file with this end of its name. Raises BundleError unless there is exactly one."""
    paths = sorted(folder.glob(f"*{suffix}"))
    if len(paths) != 1:
        what = f"no {suffix}" if not paths else f"{len(paths)} files *{suffix}"
        raise BundleError(f"{display(str(folder))}: {what}, expected options.json and weights.hdf5 of one model")
    return paths[0]


def config_from(options: Mapping[str, Any], name: str) -> ElmoConfig:
    """The sizes in an options.json, which is called `name` in messages. Raises BundleError."""
    try:
        lstm, characters = options["lstm"], options["char_cnn"]
        columns = characters["max_characters_per_token"]
        if columns != byte_spelling.COLUMNS:
            raise BundleError(f"max_characters_per_token is {columns!r:.80}, only 50 is supported")
        return ElmoConfig(
            vocab_size=len(_VOCAB),
            hidden_size=lstm["projection_dim"],
            cell_size=lstm["dim"],
            num_hidden_layers=lstm["n_layers"],
            highway_layers=characters["n_highway"],
            character_size=characters["embedding"]["dim"],
            filters=characters["filters"],
            activation=characters["activation"],
            cell_clip=0 if lstm["cell_clip"] is None else lstm["cell_clip"],
            projection_clip=0 if lstm["proj_clip"] is None else lstm["proj_clip"],
            skip=lstm["use_skip_connections"],
            softmax=False,
        )
    except BundleError as error:
        raise BundleError(f"{name}: {error}") from None
    except KeyError as error:
        raise BundleError(f"{name}: {error} is missing") from None
    except TypeError:
        raise BundleError(f'{name}: expected objects under "lstm", "char_cnn" and its "embedding"') from None


class _Weights:
    """The arrays of an HDF5 file, by name. Use as a context manager."""

    def __init__(self, path: Path) -> None:
        """Raises Unavailable if there is no h5py, BundleError for a damaged file."""
        try:
            import h5py
        except ImportError:
            raise Unavailable("reading HDF5 needs the h5py package", extra="hdf5") from None
        self.name = display(str(path))
        try:
            self._file = h5py.File(path, "r")
        except OSError as error:
            raise BundleError(f"{self.name}: damaged: {error}") from None

    def __enter__(self) -> _Weights:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def array(self, name: str, *shape: int) -> np.ndarray:
        """A float32 array. Raises BundleError if it is missing or has another shape, before it is read."""
        import h5py

        held = self._file.get(name)
        if not isinstance(held, h5py.Dataset):
            raise BundleError(f"{self.name}: weight {name} is missing")
        if held.shape != shape or held.dtype.kind != "f":
            found = f"{tuple(held.shape)} {held.dtype}"
            raise BundleError(f"{self.name}: weight {name} is {found}, options.json asks for {shape} floats")
        try:
            return np.asarray(held[()], np.float32)
        except OSError as error:
            raise BundleError(f"{self.name}: damaged: {error}") from None


def _tensors(weights: _Weights, config: ElmoConfig) -> dict[str, np.ndarray]:
    """The weights under our names, in our layout."""
    P, D, C = config.hidden_size, config.cell_size, config.character_size
    held = sum(number for _, number in config.filters)
    known = weights.array("char_embed", byte_spelling.NUMBERS - 1, C)
    out = {"words.embedding.weight": np.concatenate([np.zeros((1, C), np.float32), known])}
    for i, (width, number) in enumerate(config.filters):
        filters = weights.array(f"CNN/W_cnn_{i}", 1, width, C, number)
        out[f"words.filters.{i}.weight"] = filters.reshape(width * C, number).T
        out[f"words.filters.{i}.bias"] = weights.array(f"CNN/b_cnn_{i}", number)
    for i in range(config.highway_layers):
        names = [f"CNN_high_{i}/{{}}_{part}" for part in ("transform", "carry")]
        matrices = [weights.array(name.format("W"), held, held).T for name in names]
        out[f"words.highways.{i}.weight"] = np.concatenate(matrices)
        out[f"words.highways.{i}.bias"] = np.concatenate([weights.array(name.format("b"), held) for name in names])
    out["words.projection.weight"] = weights.array("CNN_proj/W_proj", held, P).T
    out["words.projection.bias"] = weights.array("CNN_proj/b_proj", P)
    for direction in (0, 1):
        for i in range(config.num_hidden_layers):
            theirs = f"RNN_{direction}/RNN/MultiRNNCell/Cell{i}/LSTMCell"
            matrix = _gates(weights.array(f"{theirs}/W_0", 2 * P, 4 * D).T)
            bias = _gates(weights.array(f"{theirs}/B", 4 * D))
            bias[D : 2 * D] += 1.0
            ours = f"directions.{direction}.layers.{i}"
            out[f"{ours}.weight_ih_l0"], out[f"{ours}.weight_hh_l0"] = matrix[:, :P], matrix[:, P:]
            out[f"{ours}.weight_hr_l0"] = weights.array(f"{theirs}/W_P_0", D, P).T
            out[f"{ours}.bias_l0"] = bias
    return out


def _gates(rows: np.ndarray) -> np.ndarray:
    """Rows of the gates input, candidate, forget, output in PyTorch's order: input, forget, candidate, output."""
    i, g, f, o = np.split(rows, 4)
    return np.concatenate([i, f, g, o])
