"""From model directories to models at work: `load`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nlptools import bundle
from nlptools.configs import Compute
from nlptools.errors import BundleError, UsageError, display

if TYPE_CHECKING:
    from nlptools.language_model import LanguageModel
    from nlptools.translation import Translator


def load(
    path: str | Path,
    *others: str | Path,
    device: str = "auto",
    precision: str = "auto",
    threads: int = 0,
    compute: Compute | None = None,
) -> LanguageModel | Translator:
    """The model in the directory `path`: a language model (ours, or a Hugging Face GPT-2), or an encoder-decoder (ours,
    or a MarianMT). Encoder-decoders make an ensemble with `others`.

    Raises:
        InputError, BundleError: see `bundle.load`.
        UsageError: an encoder, which `text_embedder.load` takes.
        Unavailable: no such device or precision.
    """
    loaded = [bundle.load(each) for each in (path, *others)]
    from nlptools.backend import Backend

    for each in loaded:
        if each.is_encoder:
            raise UsageError(
                f"{display(str(each.path))} is an encoder, which says no text",
                hint="embed makes vectors with it, finetune trains it for a task, predict does the task",
            )
    backend = Backend.detect(compute or Compute(device=device, precision=precision, threads=threads))
    if loaded[0].is_encoder_decoder:
        from nlptools.translation import Translator

        return Translator(loaded, backend)
    if others:
        raise BundleError(f"{display(str(others[0]))}: only encoder-decoders make an ensemble")
    from nlptools.language_model import LanguageModel

    return LanguageModel(loaded[0], backend)
