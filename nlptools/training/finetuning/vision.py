"""Training of Vision Transformers on lists of pictures: `finetune --task classify --scratch vit`.

Shapes: C channels of a picture.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from nlptools.batches.features import Features
from nlptools.batches.images import ImageBatches, ImageEncoding, picture
from nlptools.batches.source import BatchSource, Share
from nlptools.compute.backend import Backend
from nlptools.configs.checks import check_patches
from nlptools.configs.text_classifiers import HEADS
from nlptools.errors import InvalidText, UsageError
from nlptools.files.images import PatchGrid
from nlptools.files.json_fields import numbers, wholes
from nlptools.formats.examples import TaskExample
from nlptools.json_types import JsonObject
from nlptools.models.tasks.vision import VisionConfig, VisionTransformer
from nlptools.tasks import pictures
from nlptools.tasks.task import Task
from nlptools.tasks.without_pretraining import RowLogits
from nlptools.text import builtin
from nlptools.text.tokenizer import Tokenizer
from nlptools.text.vocab import Vocab
from nlptools.training.finetuning.words import LEARNED, NetworkOptions, WordNetwork


class ImageNetwork(WordNetwork[VisionTransformer]):
    """A Vision Transformer to train, as `words.WordNetwork`. The texts of examples are paths."""

    arch = "vision-transformer"
    inputs = 1

    def __init__(self, options: NetworkOptions) -> None:
        """Raises UsageError for word vectors."""
        if options.vectors is not None:
            raise UsageError("--vectors cannot be combined with --scratch vit, which has no word vectors")
        self.options, self.scratch = options, options.scratch
        self._encoding: ImageEncoding | None = None
        self._mean = self._scale = torch.empty(0)  # (C,) of the training data

    @property
    def tokenizer(self) -> Tokenizer:
        assert self._encoding is not None
        return self._encoding.tokenizer

    def encoding(self, task: Task, examples: Sequence[TaskExample], threads: int) -> ImageEncoding:
        """How paths become rows: with the size and the channels of the first picture, unless options say otherwise."""
        try:
            first = picture(examples[0].texts[0], 0)
            H, W, C = first.shape
            side = self.scratch.image_size
            self._encoding = self._of_size(side or H, side or W, C)
            rows = self._encoding.rows([example.texts for example in examples])
        except InvalidText as error:
            raise examples[error.row].place.error(str(error), error.hint) from None
        values = torch.from_numpy(rows.tables["pixels"]).view(-1, C)
        self._scale, self._mean = torch.std_mean(values.double() / 255, 0, correction=0)
        return self._encoding

    def _of_size(self, height: int, width: int, channels: int) -> ImageEncoding:
        """Raises UsageError for a size that is not a multiple of the patches, or of the windows."""
        patch = self.scratch.patch_size
        check_patches(width, height, patch, "--image-size scales them to a multiple of --patch-size")
        grid = PatchGrid(height, width, channels, patch)
        window, (rows, columns) = self.scratch.window, grid.sides
        if window and (rows % window or columns % window):
            raise UsageError(
                f"{columns} x {rows} patches cannot be divided into windows of {window} x {window}",
                hint="--image-size and --patch-size determine the number of patches",
            )
        names = Vocab([str(number) for number in range(1, grid.count + 1)], [0] * grid.count, {})
        return ImageEncoding(builtin.NamedTokenizer("words", names), grid)

    def learned(self) -> JsonObject:
        assert self._encoding is not None
        grid = self._encoding.grid
        size = [grid.height, grid.width, grid.channels]
        return {"size": [*size], "mean": [*self._mean.tolist()], "scale": [*self._scale.tolist()]}

    def restore(self, learned: JsonObject) -> None:
        self._encoding = self._of_size(*wholes(learned, "size", LEARNED))
        self._mean, self._scale = (
            torch.tensor(numbers(learned, key, LEARNED), dtype=torch.float64) for key in ("mean", "scale")
        )

    def model(self, task: Task) -> VisionTransformer:
        encoding, scratch = self._encoding, self.scratch
        assert encoding is not None
        grid = encoding.grid
        shape = grid.height, grid.width, grid.channels, grid.patch
        sizes = scratch.hidden_size, scratch.depth, HEADS
        config = VisionConfig(
            grid.count, task.num_labels, *shape, *sizes, dropout=scratch.dropout, window=scratch.window
        )
        return VisionTransformer(config)

    def begin(self, model: VisionTransformer) -> None:
        model.standardize(self._mean, self._scale)

    def source(self, features: Features, batch_size: int, seed: int, share: Share, backend: Backend) -> BatchSource:
        return ImageBatches(features, batch_size, seed=seed, pad=0, share=share)

    def row_logits(self, model: VisionTransformer, features: Features, backend: Backend) -> RowLogits:
        return pictures.row_logits(model, features, backend)
