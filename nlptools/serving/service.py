"""The model of a server: batches of jobs in, texts and vectors out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nlptools.configs import Compute
from nlptools.configs.embed import Embed
from nlptools.configs.generation import Generate
from nlptools.configs.serve import Serve
from nlptools.inference import loading, uses
from nlptools.inference.embedding.line_readers import DecoderReader
from nlptools.inference.embedding.text_embedder import TextEmbedder
from nlptools.inference.generation import folder_settings
from nlptools.inference.generation.generated import Generated
from nlptools.inference.generation.requests import CompletionRequest
from nlptools.inference.generation.token_pieces import Piece
from nlptools.inference.language_model import TextLanguageModel
from nlptools.inference.opening import Asked
from nlptools.inference.quantization import quantize
from nlptools.inference.uses import Embeds
from nlptools.serving import completions
from nlptools.serving.worker import AnyJob, Job
from nlptools.text import chat_templates

EMBED = "embed"  # the key of jobs that embed; those that generate have their settings as key
Embedded = tuple[NDArray[np.float32], int]  # (D,) a vector, and the number of tokens of its text
EmbeddingJob = Job[str, Embedded]
CompletionJob = Job[CompletionRequest, list[Generated]]


@dataclass
class Service:
    """A language model, which generates and embeds, or a model that only embeds.

    Attributes:
        name: of the model, in answers.
        generator: None for a model that only embeds.
        embedder: None for a model without hidden states: n-grams, mixtures.
        render: makes a prompt of a conversation; None for a model without a chat template.
    """

    name: str
    generator: TextLanguageModel | None
    embedder: Embeds | None
    render: chat_templates.Renderer | None = None

    def __post_init__(self) -> None:
        self._answered = 0

    @classmethod
    def open(cls, path: str, settings: Serve, compute: Compute) -> Service:
        """The model in the directory `path`.

        Raises as `load` and `chat_template`; UsageError if the model neither generates nor embeds.
        """
        name, found = settings.name or Path(path).resolve().name, loading.source(path)
        if found.default is not uses.EMBED:
            found.check(uses.CONTINUE)
        else:
            vectors = found.put_to(uses.EMBED, Asked(path, Embed(), compute))
            if settings.quantize is not None:
                quantize(vectors, settings.quantize)
            return cls(name, None, vectors)
        model = found.put_to(uses.CONTINUE, found.asked(compute))
        if settings.quantize is not None:
            quantize(model, settings.quantize)
        folder_settings.note(model.bundle, Generate(), flags=False)
        embedder = None
        if found.serves(uses.EMBED):
            reader = DecoderReader(model.bundle, model.model)
            embedder = TextEmbedder(model.bundle, reader, None, model.backend, Embed(pooling="last"))
        return cls(name, model, embedder, chat_templates.renderer(settings.chat or path, model.tokenizer))

    @property
    def prompting(self) -> completions.Prompting:
        """What makes prompts of this model."""
        return completions.Prompting(self.render, None if self.generator is None else self.generator.tokenizer.decode)

    def check(self, asked: Sequence[CompletionRequest]) -> None:
        """Raise DataError for requests that would be refused while they are computed; safe to call from any thread."""
        assert self.generator is not None
        for each in asked:
            self.generator.check_request(each)

    def compute(self, jobs: Sequence[AnyJob]) -> Sequence[object]:
        """The results of jobs with one key: vectors and their numbers of tokens, or continuations."""
        return self._embed(jobs) if jobs[0].key == EMBED else self._generate(jobs)

    def _embed(self, jobs: Sequence[EmbeddingJob]) -> list[Embedded]:
        assert self.embedder is not None
        texts = [job.item for job in jobs]
        return list(zip(self.embedder.embed(texts), map(self.embedder.count_tokens, texts), strict=True))

    def _generate(self, jobs: Sequence[CompletionJob]) -> list[list[Generated]]:
        assert self.generator is not None
        # a request without a seed has a new one: other texts for the same prompt
        first, self._answered = self._answered, self._answered + len(jobs)
        results = self.generator.answer(
            [job.item for job in jobs],
            first=first,
            on_text=partial(_pass, jobs) if any(job.on_text for job in jobs) else None,
            ended=lambda number: jobs[number].unwanted,
        )
        return [
            [replace(each, finish="length") for each in row] if job.unwanted else row
            for job, row in zip(jobs, results, strict=True)
        ]


def _pass(jobs: Sequence[CompletionJob], number: int, sample: int, text: str, pieces: Sequence[Piece]) -> None:
    on_text = jobs[number].on_text
    if on_text is not None:
        on_text(sample, text, pieces)
