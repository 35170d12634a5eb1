"""Opens a path: a model directory, a sentence-transformers directory, an ARPA file, a mixture or word vectors."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Generic, cast

from nlptools import bundle, messages
from nlptools.configs import Compute
from nlptools.configs.embed import EmbedWords
from nlptools.configs.vectors import FOREIGN, SUFFIXES
from nlptools.errors import display
from nlptools.files import compression, gguf_file, hub_cache
from nlptools.inference import arpa_bundle

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from nlptools.configs.tasks.files import Files
    from nlptools.inference.embedding.sentence_steps import SentenceSteps
    from nlptools.models.contract import LanguageModel

    M = TypeVar("M", covariant=True, default=LanguageModel)
    S = TypeVar("S", covariant=True)
else:
    from typing import TypeVar

    M, S = TypeVar("M", covariant=True), TypeVar("S", covariant=True)


@dataclass(frozen=True)
class Opened(Generic[M]):
    """A model directory.

    Attributes:
        path: the directory.
        bundle: its model and tokenizer, on the CPU in float32; of a sentence-transformers directory, of its encoder.
        steps: pooling, dense layers, prompts of a sentence-transformers directory; None for other directories.
    """

    path: Path
    bundle: bundle.Bundle[M]
    steps: SentenceSteps | None

    @property
    def has_task(self) -> bool:
        """Whether finetune wrote the model for a task, or a head of a task is in the directory."""
        from nlptools.models.tasks.heads import TASK_HEADS

        task = self.bundle.ours.get("task")
        return task is not None or bool(set(self.bundle.heads) & set(TASK_HEADS))


NO_WORDS = EmbedWords()  # what has no word vectors


@dataclass(frozen=True)
class Asked(Generic[S]):
    """The arguments of `loading.load` that the classes in the table of uses need.

    Attributes:
        path: of the model, or of the first of several.
        settings: of the use; None: the defaults.
        compute: device, precision, threads.
        weights: of the parts of a mixture; None: equal weights.
        words: how word vectors are weighted.
        files: the layout of input files; None: as the model says.
        errors: what to do with invalid UTF-8 in files of word vectors and ARPA files: strict, replace, ignore.
    """

    path: str | Path
    settings: S | None
    compute: Compute
    weights: tuple[float, ...] | None = None
    words: EmbedWords = NO_WORDS
    files: Files | None = None
    errors: str = "strict"


def open_model(path: str | Path, errors: str = "strict") -> Opened:
    """The model directory, ARPA file or GGUF file `path`, or the model of this name in the local Hugging Face cache.

    Args:
        errors: what to do with invalid UTF-8 in an ARPA file: strict, replace, ignore.

    Raises:
        InputError: no such directory.
        BundleError: see `bundle.load` and `sentence_steps.read`.
    """
    if arpa_bundle.is_arpa(path):
        return Opened(Path(path), cast("bundle.Bundle", arpa_bundle.load(path, errors)), None)
    if gguf_file.is_gguf(path):
        from nlptools.inference import gguf_bundle

        return Opened(Path(path), gguf_bundle.load(Path(path)), gguf_bundle.steps(Path(path)))
    where = hub_cache.locate(path)
    steps = None
    if (where / "modules.json").is_file():
        from nlptools.inference.embedding import sentence_steps

        steps = sentence_steps.read(where)
    loaded = bundle.load(where if steps is None else steps.encoder)
    _report_unfinished(loaded)
    return Opened(where, loaded, steps)


def _report_unfinished(loaded: bundle.Bundle) -> None:
    """Note which steps the weights are of, if the training was stopped or continues."""
    kept = loaded.training.get(bundle.WEIGHTS_OF)
    if isinstance(kept, list) and kept and loaded.training.get("status") in ("stopped", "running"):
        steps = f"step{'s' * (len(kept) > 1)} {', '.join(map(str, kept))}"
        messages.note(f"{display(str(loaded.path))}: the training is not finished; the weights are from {steps}")


def holds_vectors(path: str | Path) -> bool:
    """Whether `path` has the name of a file of word vectors, or is a directory of word vectors."""
    if not os.path.isdir(path):
        return compression.without_suffix(str(path)).endswith((*SUFFIXES, *FOREIGN))
    if os.path.isfile(os.path.join(path, "model.safetensors")):  # a model directory, recognised without reading it
        return False
    from nlptools.vectors.files import directory

    return directory.holds_vectors(Path(path))
