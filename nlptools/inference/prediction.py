"""Predictions of fine-tuned models for examples, in their order, a window at a time."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from nlptools import bundle, messages
from nlptools.batches.features import Features
from nlptools.batches.row_encodings import RowEncoding
from nlptools.compute import memory
from nlptools.compute.backend import Backend
from nlptools.configs.finetuning import Predict
from nlptools.configs.layers import Layers
from nlptools.configs.seq2seq import Translate
from nlptools.configs.tasks.files import Files
from nlptools.configs.tasks.table import check_options, refuse_other_options
from nlptools.errors import BundleError, UsageError, display, reading
from nlptools.files import progress, streams
from nlptools.files.line_ranges import lines_from
from nlptools.files.line_records import escape, unescape
from nlptools.files.prefetch import one_ahead
from nlptools.inference.opening import Asked, Opened
from nlptools.layers.quantized import Rounding
from nlptools.models.contract import EncoderDecoder
from nlptools.models.tasks.heads import EncoderWithHeads
from nlptools.models.tasks.task_model import TaskModel
from nlptools.tasks import outputs
from nlptools.tasks import task as tasks

WINDOW = 8192


@dataclass(frozen=True)
class TaskMember:
    """A model with its task, on a device.

    Attributes:
        path: its directory.
        which: the layers that its head sees.
    """

    path: Path
    task: tasks.Task
    encoding: RowEncoding
    which: Layers
    backend: Backend
    model: EncoderWithHeads

    @classmethod
    def of(cls, loaded: bundle.Bundle[TaskModel], backend: Backend, settings: Predict, files: Files) -> TaskMember:
        """The model of a directory. Raises UsageError, BundleError."""
        backend = backend.for_model(loaded.model)
        with reading(loaded.path):
            task = tasks.for_prediction(loaded, settings, files)
            saved = tasks.saved_setting(loaded.config, "max_length", 0)
            if saved < 0:
                raise BundleError(f"{display(str(loaded.path))}: config.json: max_length is {saved}")
            encoding = tasks.encoding(loaded, settings.max_length or saved, backend.threads)
            which = tasks.seen_layers(loaded)
        model = cast(EncoderWithHeads, backend.for_inference(loaded.model))
        return cls(loaded.path, task, encoding, which, backend, model)

    @property
    def rounding(self) -> Rounding:
        """What `quantization.quantize` rounds."""
        return Rounding(self.model, self.model.rounded_part)

    def predict(
        self, examples: Sequence[object], features: Features, batch_tokens: int, look: Callable[[float], None]
    ) -> list[object]:
        """The predictions for examples with these features; see `Task.decode`. `look` gets the share that is computed."""
        logits = outputs.logits(
            self.model,
            self.task.head,
            features,
            self.backend,
            self.which,
            batch_tokens=batch_tokens,
            look=look,
        )
        assert logits is not None
        return self.task.decode(logits, features, examples, **self.task.layers_of(self.model))


class Predictor:
    """A model directory of `finetune`, or one of Hugging Face such as BertForSequenceClassification, on a device; or several of
    the same task, an ensemble.

    Attributes:
        members: the models; the first one reads the files.
        task: of the model, or of the ensemble.
    """

    def __init__(
        self,
        loaded: bundle.Bundle[TaskModel],
        backend: Backend,
        settings: Predict | None = None,
        files: Files | None = None,
        window: int = 0,
        others: Sequence[bundle.Bundle[TaskModel]] = (),
    ) -> None:
        """`window`: examples that are read and sorted by length together; 0: as the task says. `others`: of the ensemble.

        Raises:
            BundleError: a model without a task.
            UsageError: options of other tasks; models of several tasks, or with different labels.
        """
        self.settings = settings or Predict()
        self.members = [TaskMember.of(each, backend, self.settings, files or Files()) for each in (loaded, *others)]
        first = self.members[0]
        for other in self.members[1:]:
            if difference := first.task.difference(other.task):
                paths = f"{display(str(first.path))} and {display(str(other.path))}"
                raise UsageError(f"{paths} are no ensemble: {difference}")
        self.task = first.task.ensemble([member.task for member in self.members]) if others else first.task
        self.window = window or self.task.window
        self.cut = 0  # examples so far that lost tokens
        self.layout = "text"  # of `lines`, known with the first ones

    @classmethod
    def opened(cls, asked: Asked[Predict], model: Opened[TaskModel], *others: Opened[TaskModel]) -> Predictor:
        """See `uses`; several models are an ensemble."""
        memory.expect_new_shapes()
        bundles = [each.bundle for each in others]
        return cls(model.bundle, Backend.detect(asked.compute), asked.settings, asked.files, others=bundles)

    @property
    def roundings(self) -> list[Rounding]:
        """See `quantization.Quantizable`."""
        return [each.rounding for each in self.members]

    def predictions(self, examples: Iterable[object]) -> Iterator[tuple[list[object], list[object]]]:
        """(examples, their predictions), `window` examples at a time, in order; see `Task.decode`.

        The next window is read and encoded while one is computed. The predictions for the examples before a malformed one
        come before its error.
        """
        for some, features in one_ahead(self._windows(examples)):
            self.cut += max(each.cut for each in features)
            predictions = []
            for number, (member, rows) in enumerate(zip(self.members, features, strict=True)):
                begun, part = number / len(features), len(some) / len(features)

                def look(share: float, begun: float = begun * len(some), part: float = part) -> None:
                    progress.ahead(int(begun + share * part))

                predictions.append(member.predict(some, rows, self.settings.batch_tokens, look))
            yield some, self.task.combined(predictions) if len(predictions) > 1 else predictions[0]

    def count(self, paths: Sequence[str], errors: str = "strict") -> int:
        """The number of examples of files."""
        return sum(1 for _ in self.task.read(paths, False, errors))

    def lines(
        self, paths: Sequence[str], errors: str = "strict", force: bool = False, first: int = 0, end: int | None = None
    ) -> Iterator[list[str]]:
        """The lines that `predict` writes for the examples of files, a window at a time; warns of cut examples at the end.

        `force`: replace existing files of --predictions, --nbest-file and --null-odds. `first`, `end`: the examples, from 0; the
        first of all has a header before it, in layouts with one.
        """
        head = first == 0
        examples = itertools.islice(self.task.read(paths, False, errors), first, end)
        with self.task.files(self.settings, force) as add:
            for some, predictions in self.predictions(examples):
                self.layout = self.task.layout_written(some[0], self.settings)
                yield self.task.lines(predictions, some, self.settings, head)
                head = False
                add(predictions)
        if self.cut:
            messages.warn(f"cut {messages.counted(self.cut, 'example')} that exceeded the maximum length of the model")

    def _windows(self, examples: Iterable[object]) -> Iterator[tuple[list[object], list[Features]]]:
        """Some examples and their rows for each model; an error in the examples comes after those before it."""
        iterator = iter(examples)
        while True:
            some: list[object] = []
            error = None
            try:
                some.extend(itertools.islice(iterator, self.window))
            except Exception as raised:
                error = raised
            if some:
                yield some, [member.task.features(some, member.encoding, False) for member in self.members]
            if error is not None:
                raise error
            if len(some) < self.window:
                return


class PairPredictor:
    """An encoder-decoder as a model of the task `seq2seq`, or an ensemble of several."""

    def __init__(
        self,
        bundles: Sequence[bundle.Bundle[EncoderDecoder]],
        backend: Backend,
        settings: Predict | None = None,
        files: Files | None = None,
    ) -> None:
        """Raises UsageError for settings of other tasks, BundleError for models with different vocabularies."""
        self.settings, self.window, self.layout = settings or Predict(), WINDOW, "text"
        refuse_other_options(self.settings, "seq2seq", ("columns", "max_length"))
        check_options("seq2seq", files or Files())
        from nlptools.inference.translation import Translator  # the other tasks need no decoding

        self.translator = Translator(bundles, backend)

    @property
    def roundings(self) -> list[Rounding]:
        """See `quantization.Quantizable`."""
        return self.translator.roundings

    @classmethod
    def opened(cls, asked: Asked[Predict], *models: Opened[EncoderDecoder]) -> PairPredictor:
        """See `uses`."""
        return cls([each.bundle for each in models], Backend.detect(asked.compute), asked.settings, asked.files)

    def count(self, paths: Sequence[str], errors: str = "strict") -> int:
        """The number of lines of files."""
        return sum(len(block.lines) for block in streams.all_blocks(paths, errors))

    def lines(
        self, paths: Sequence[str], errors: str = "strict", force: bool = False, first: int = 0, end: int | None = None
    ) -> Iterator[list[str]]:
        """The output lines of `predict` for lines of `source` or `source TAB target`, a window at a time; see `Predictor`."""
        settings, translator = self.settings, self.translator
        options = Translate(max_source_length=settings.max_length, window=self.window)
        for _, block in lines_from(streams.all_blocks(paths, errors), first, end):
            for start in range(0, len(block.lines), self.window):
                window = block.lines[start : start + self.window]
                sources = [unescape(line.partition("\t")[0]) for line in window]
                outputs = [escape(row[0].text) for row in translator.translate_batch(sources, None, options)]
                yield [f"{a}\t{b}" for a, b in zip(window, outputs, strict=True)] if settings.columns else outputs
        translator.unknown.report()
