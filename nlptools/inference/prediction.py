"""Predictions of fine-tuned models for examples, in their order, a window at a time."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from nlptools import bundle, messages
from nlptools.batches.features import Features
from nlptools.compute import memory
from nlptools.compute.backend import Backend
from nlptools.configs.finetuning import Files, Predict
from nlptools.configs.seq2seq import Translate
from nlptools.configs.tasks.table import check_options, refuse_other_options
from nlptools.errors import BundleError, display, reading
from nlptools.files import progress, streams
from nlptools.files.line_records import escape, unescape
from nlptools.files.prefetch import one_ahead
from nlptools.inference.opening import Asked, Opened
from nlptools.models.contract import EncoderDecoder
from nlptools.models.tasks.heads import TaskHeads
from nlptools.models.tasks.logistic import Logistic
from nlptools.models.tasks.text_classifiers import TextClassifier
from nlptools.models.tasks.word_tagger import WordTagger
from nlptools.tasks import outputs
from nlptools.tasks import task as tasks

WINDOW = 8192
TaskModel = TaskHeads | TextClassifier | Logistic | WordTagger


class Predictor:
    """A model directory of `finetune`, or one of Hugging Face such as BertForSequenceClassification, on a device."""

    def __init__(
        self,
        loaded: bundle.Bundle[TaskModel],
        backend: Backend,
        settings: Predict | None = None,
        files: Files | None = None,
        window: int = 0,
    ) -> None:
        """`window`: examples that are read and sorted by length together; 0: as the task says.

        Raises:
            BundleError: a model without a task.
            UsageError: options of other tasks.
        """
        settings = settings or Predict()
        self.settings, self.backend = settings, backend.for_model(loaded.model)
        with reading(loaded.path):
            self.task = tasks.for_prediction(loaded, settings, files or Files())
            self.window = window or self.task.window
            saved = tasks.saved_setting(loaded.config, "max_length", 0)
            if saved < 0:
                raise BundleError(f"{display(str(loaded.path))}: config.json: max_length is {saved}")
            self.encoding = tasks.encoding(loaded, settings.max_length or saved, backend.threads)
            self.which = tasks.seen_layers(loaded)
        self.model: TaskHeads = self.backend.for_inference(loaded.model)
        self.cut = 0  # examples so far that lost tokens
        self.layout = "text"  # of `lines`, known with the first ones

    @classmethod
    def opened(cls, asked: Asked[Predict], model: Opened[TaskModel]) -> Predictor:
        """See `uses`."""
        memory.expect_new_shapes()
        return cls(model.bundle, Backend.detect(asked.compute), asked.settings, asked.files)

    def predictions(self, examples: Iterable[Any]) -> Iterator[tuple[list[Any], list[Any]]]:
        """(examples, their predictions), `window` examples at a time, in order; see `Task.decode`.

        The next window is read and encoded while one is computed. The predictions for the examples before a malformed one
        come before its error.
        """
        task, batch_tokens = self.task, self.settings.batch_tokens
        for some, features in one_ahead(self._windows(examples)):
            self.cut += features.cut
            count = len(some)
            logits = outputs.logits(
                self.model,
                task.head,
                features,
                self.backend,
                self.which,
                batch_tokens=batch_tokens,
                look=lambda share, count=count: progress.ahead(int(share * count)),  # type: ignore[misc]
            )
            assert logits is not None
            yield some, task.decode(logits, features, some, **task.layers_of(self.model))

    def lines(self, paths: Sequence[str], errors: str = "strict", force: bool = False) -> Iterator[list[str]]:
        """The lines that `predict` writes for the examples of files, a window at a time; warns of cut examples at the end.

        `force`: replace existing files of --predictions, --nbest-file and --null-odds.
        """
        first = True
        with self.task.files(self.settings, force) as add:
            for some, predictions in self.predictions(self.task.read(paths, False, errors)):
                self.layout = self.task.layout_written(some[0], self.settings)
                yield self.task.lines(predictions, some, self.settings, first)
                first = False
                add(predictions)
        if self.cut:
            messages.warn(f"cut {messages.counted(self.cut, 'example')} that exceeded the maximum length of the model")

    def _windows(self, examples: Iterable[Any]) -> Iterator[tuple[list[Any], Features]]:
        """Some examples and their rows; an error in the examples comes after those before it."""
        iterator = iter(examples)
        while True:
            some: list[Any] = []
            error = None
            try:
                some.extend(itertools.islice(iterator, self.window))
            except Exception as raised:
                error = raised
            if some:
                yield some, self.task.features(some, self.encoding, False)
            if error is not None:
                raise error
            if len(some) < self.window:
                return


class PairPredictor:
    """An encoder-decoder as a model of the task `seq2seq`."""

    def __init__(
        self,
        found: bundle.Bundle[EncoderDecoder],
        backend: Backend,
        settings: Predict | None = None,
        files: Files | None = None,
    ) -> None:
        """Raises UsageError for settings of other tasks."""
        self.settings, self.window, self.layout = settings or Predict(), WINDOW, "text"
        refuse_other_options(self.settings, "seq2seq", ("columns", "max_length"))
        check_options("seq2seq", files or Files())
        from nlptools.inference.translation import Translator  # the other tasks need no decoding

        self.translator = Translator([found], backend)

    @classmethod
    def opened(cls, asked: Asked[Predict], model: Opened[EncoderDecoder]) -> PairPredictor:
        """See `uses`."""
        return cls(model.bundle, Backend.detect(asked.compute), asked.settings, asked.files)

    def lines(self, paths: Sequence[str], errors: str = "strict", force: bool = False) -> Iterator[list[str]]:
        """The output lines of `predict` for lines of `source` or `source TAB target`, a window at a time."""
        settings, translator = self.settings, self.translator
        options = Translate(max_source_length=settings.max_length, window=self.window)
        for block in streams.all_blocks(paths, errors):
            for start in range(0, len(block.lines), self.window):
                window = block.lines[start : start + self.window]
                sources = [unescape(line.partition("\t")[0]) for line in window]
                outputs = [escape(row[0].text) for row in translator.translate_batch(sources, None, options)]
                yield [f"{a}\t{b}" for a, b in zip(window, outputs, strict=True)] if settings.columns else outputs
        translator.unknown.report()
