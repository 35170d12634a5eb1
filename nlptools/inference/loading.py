"""From model directories to models at work: `load`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nlptools import bundle
from nlptools.configs import Compute
from nlptools.configs.embed import Embed
from nlptools.configs.finetuning import Predict
from nlptools.errors import BundleError, UsageError, display

if TYPE_CHECKING:
    from nlptools.inference.embedding.text_embedder import TextEmbedder
    from nlptools.inference.language_model import LanguageModel
    from nlptools.inference.prediction import Predictor
    from nlptools.inference.translation import Translator


def load(
    path: str | Path,
    *others: str | Path,
    device: str = "auto",
    precision: str = "auto",
    threads: int = 0,
    compute: Compute | None = None,
    settings: Embed | Predict | None = None,
) -> LanguageModel | Translator | Predictor | TextEmbedder:
    """The model in the directory `path`: a language model (ours, or a Hugging Face GPT-2), an encoder-decoder (ours, or a
    MarianMT), what `finetune` made (or a BertForSequenceClassification, a GPT2ForSequenceClassification and their like) as
    a `Predictor`, another encoder or a sentence-transformers directory as a `TextEmbedder`. Encoder-decoders make an
    ensemble with `others`.

    Args:
        settings: of a predictor (`Predict`) or an embedder (`Embed`).

    Raises:
        InputError, BundleError: see `bundle.load` and `sentence_steps.read`.
        UsageError: settings that this model cannot follow, or of another kind of model.
        Unavailable: no such device or precision.
    """
    from nlptools.inference.embedding import sentence_steps

    compute = compute or Compute(device=device, precision=precision, threads=threads)
    steps = None if others else sentence_steps.read(Path(path))
    loaded = [bundle.load(each) for each in (path if steps is None else steps.encoder, *others)]
    first = loaded[0]
    kind = Predict if steps is None and predicts(first) else Embed if first.is_encoder else None
    if settings is not None and (kind is None or not isinstance(settings, kind)):
        raise UsageError(f"{type(settings).__name__}: no settings of the model in {display(str(path))}")
    if kind is None or others:
        return _speaking(loaded, compute)
    from nlptools.compute.backend import Backend

    backend = Backend.detect(compute)
    if isinstance(settings, Predict) or kind is Predict:
        from nlptools.inference.prediction import Predictor

        return Predictor(first, backend, settings if isinstance(settings, Predict) else None)
    from nlptools.inference.embedding.text_embedder import TextEmbedder

    return TextEmbedder(first, steps, backend, settings)


def load_speaking(path: str | Path, *others: str | Path, compute: Compute | None = None) -> LanguageModel | Translator:
    """As `load`, for a model that can say text: a language model or an encoder-decoder.

    Raises:
        UsageError: an encoder.
    """
    return _speaking([bundle.load(each) for each in (path, *others)], compute or Compute())


def predicts(found: bundle.Bundle) -> bool:
    """Whether a directory holds a model of a task, for `Predictor`."""
    from nlptools.models.tasks.heads import TASK_HEADS

    task = found.config.get("nlptools", {}).get("task")
    return task is not None or bool(set(getattr(found.model, "heads", ())) & set(TASK_HEADS))


def _speaking(loaded: list[bundle.Bundle], compute: Compute) -> LanguageModel | Translator:
    from nlptools.compute.backend import Backend

    for each in loaded:
        if each.has_task or predicts(each):
            what = "a model for a task" if each.is_task_gpt else "an encoder"
            raise UsageError(
                f"{display(str(each.path))} is {what}, which says no text",
                hint="embed makes vectors with it, finetune trains it for a task, predict does the task",
            )
    backend = Backend.detect(compute)
    if loaded[0].is_encoder_decoder:
        from nlptools.inference.translation import Translator

        return Translator(loaded, backend)
    if len(loaded) > 1:
        raise BundleError(f"{display(str(loaded[1].path))}: only encoder-decoders make an ensemble")
    from nlptools.inference.language_model import LanguageModel

    return LanguageModel(loaded[0], backend)
