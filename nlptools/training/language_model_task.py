"""Training runs of language models: `LanguageModelTask`, and the part that runs of ELMo share, `StreamTask`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar, cast

import numpy as np
from torch import Tensor

from nlptools import bundle, messages
from nlptools.batches.source import BatchSource, Share
from nlptools.batches.windows import ContiguousStreams, ShuffledWindows
from nlptools.compute.backend import Backend
from nlptools.configs import Training
from nlptools.configs.lm import TrainLM
from nlptools.corpora import text_lines, token_file
from nlptools.corpora.token_file import Corpus, TextCounts
from nlptools.inference import scoring
from nlptools.inference.perplexity import perplexities
from nlptools.metrics.criterion import LOSS, Criterion
from nlptools.models import registry
from nlptools.models.contract import LanguageModel, Sizes
from nlptools.models.language.elmo import Elmo
from nlptools.text.tokenizer import Tokenizer
from nlptools.training import advice, initial
from nlptools.training.engine.loop import Evaluate
from nlptools.training.engine.spooled import Spooled, SpooledTask
from nlptools.training.objective import Objective
from nlptools.training.objectives import CausalLM
from nlptools.training.token_vectors import TokenVectors

M = TypeVar("M", bound=LanguageModel | Elmo)


@dataclass(frozen=True)
class StreamTask(SpooledTask[Corpus], Generic[M]):
    """A model of type M that reads a stream of text. Subclasses also define the rest of `training.engine.job.TrainingRun`."""

    options: TrainLM
    run: Training
    seed: int
    inputs: Sequence[str]
    tokenizer: Tokenizer
    eos: int
    config: Sizes  # the sizes of the model
    vectors: TokenVectors | None  # of --vectors
    encoding_errors: str
    unit: str = "tokens"
    criterion: Criterion = LOSS
    measures: tuple[str, ...] = ("loss", "perplexity")

    def encode(self, path: Path, backend: Backend, held_out: bool) -> Corpus:
        blocks = text_lines.blocks(self.run.held_out if held_out else self.inputs, self.encoding_errors)
        path = path.with_suffix(".bin")
        force = None if held_out else self.run.force
        return token_file.spool(blocks, path, self.tokenizer, self.eos, self.options.document, backend.threads, force)

    def reopen(self, path: Path) -> Corpus:
        return token_file.open_spooled(path)

    def describe(self, counts: TextCounts) -> str:
        unknown = f", {counts.unknown:,} unknown" if counts.unknown else ""
        tokens, documents = messages.counted(counts.tokens, "token"), messages.counted(counts.documents, "document")
        return f"{tokens} in {documents}{unknown}"

    def model(self) -> M:
        return cast(M, initial.model(self.options.arch, self.config, self.seed, self.options.init))

    def _joint(self, backend: Backend) -> tuple[int, Share]:
        """The size of joint batches, and the share of this process."""
        return Share.of(self.run.batch_size, self.run.global_batch, backend.rank, backend.world_size)

    def save(self, directory: Path, model: M, weights: Mapping[str, Tensor], record: Mapping[str, object]) -> None:
        options = self.options
        bundle.save(
            directory,
            options.arch,
            model,
            weights,
            self.tokenizer,
            eos=self.eos,
            document=options.document,
            training=record,
        )

    def advice(self, name: str) -> str:
        return advice.of_language_model(name, [*self.run.held_out, *self.inputs])


@dataclass(frozen=True)
class LanguageModelTask(StreamTask[LanguageModel]):
    """Next-token prediction."""

    def model(self) -> LanguageModel:
        model = super().model()
        if self.vectors is not None:
            self.vectors.place(model.token_embedding.weight)
        return model

    def objective(self, model: LanguageModel) -> Objective[LanguageModel]:
        frozen = self.vectors.ids if self.vectors is not None and self.options.freeze_embeddings else None
        return CausalLM(model, frozen)

    def source(self, data: Spooled[Corpus], model: LanguageModel, backend: Backend) -> BatchSource:
        length, (rows, share) = self.options.context, self._joint(backend)
        # documents that are scored one by one start from a new state, so training must see new states
        one_stream = self.options.carry or self.options.document == "file"
        if one_stream and registry.model_class(self.options.arch).streams:
            return ContiguousStreams(
                data.train, length, rows, seed=self.seed, share=share, varied=self.options.varies_context
            )
        return ShuffledWindows(data.train, length, rows, seed=self.seed, share=share)

    def evaluate(self, data: Spooled[Corpus], backend: Backend) -> Evaluate[LanguageModel] | None:
        """Measures the validation text as `score --per total` does, with or without --carry."""
        valid = data.valid
        if valid is None:
            return None

        def evaluate(model: LanguageModel, stop: Callable[[], bool]) -> dict[str, float] | None:
            scored = scoring.score_stream(
                model,
                [(np.asarray(valid.ids[1:], np.int64), valid.counts)],
                backend,
                eos=self.eos,
                carry=self.options.carry,
                stop=stop if backend.world_size == 1 else None,
            )
            return None if scored is None else perplexities(*scored)

        return evaluate
