"""Training of bidirectional language models over words that are read as their spellings (ELMo)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch import Tensor

from nlptools.batches.spelled_texts import SpelledBatch, SpelledTexts
from nlptools.compute.backend import Backend
from nlptools.configs.architectures.elmo import ElmoOptions
from nlptools.corpora import text_lines, token_file
from nlptools.corpora.token_file import Corpus
from nlptools.inference.bidirectional import BothDirections, total_of_both
from nlptools.inference.perplexity import perplexities, perplexity
from nlptools.layers.sampled_softmax import summed_sampled_loss
from nlptools.models.language.elmo import Elmo
from nlptools.text.open_words import OpenWords
from nlptools.training.engine.loop import Evaluate
from nlptools.training.engine.spooled import Spooled
from nlptools.training.language_model_task import StreamTask
from nlptools.training.objective import Objective


class BidirectionalLM(Objective[Elmo]):
    """The mean of the cross-entropies of each word given the words before it, and given the words after it, in nats.

    With `sampled`, training compares each word with that many draws from the vocabulary, see `layers.sampled_softmax`.
    """

    def __init__(self, model: Elmo, sampled: int = 0) -> None:
        super().__init__(model)
        self.sampled = sampled

    def counts(self, batch: SpelledBatch) -> dict[str, int]:
        """Number of targets of each kind of loss."""
        return {"loss": batch.num_targets}

    def arrays(self, batch: SpelledBatch) -> tuple[np.ndarray, ...]:
        """The arguments of `forward` for a batch, to be put on the device."""
        return batch.spellings, batch.places, batch.lengths, batch.following, batch.preceding

    def forward(
        self, spellings: Tensor, places: Tensor, lengths: Tensor, following: Tensor, preceding: Tensor
    ) -> dict[str, Tensor]:
        """(U, C) spellings, (B, T) places and (B,) lengths of texts, (B, T) targets of both directions -> the summed loss."""
        forward, backward = self.model.read(self.model.words(spellings.long()), places, lengths)
        loss = self._loss(forward[-1], following) + self._loss(backward[-1], preceding)
        return {"loss": loss / 2}

    def _loss(self, hidden: Tensor, targets: Tensor) -> Tensor:
        model = self.model
        kept = targets.flatten() >= 0
        flat, wanted = model.dropout(hidden.flatten(0, 1)[kept]), targets.flatten()[kept]
        assert model.output is not None
        if self.sampled and self.training:
            return summed_sampled_loss(flat, model.output_matrix.weight, model.output_bias, wanted, self.sampled)
        return model.output.summed_loss(flat, wanted)


@dataclass(frozen=True)
class BidirectionalTask(StreamTask[Elmo]):
    """Prediction of the words before and after each word."""

    options: ElmoOptions

    def encode(self, path: Path, backend: Backend, held_out: bool) -> Corpus:
        blocks = text_lines.blocks(self.run.held_out if held_out else self.inputs, self.encoding_errors)
        path, force = path.with_suffix(".bin"), None if held_out else self.run.force
        words = OpenWords(self.tokenizer, self.config.vocab_size)
        corpus = token_file.spool(
            blocks, path, self.tokenizer, self.eos, self.options.document, backend.threads, force, words
        )
        if not held_out:
            words.warn_of_cut()
        return corpus

    def objective(self, model: Elmo) -> BidirectionalLM:
        return BidirectionalLM(model, self.options.sampled)

    def source(self, data: Spooled[Corpus], model: Elmo, backend: Backend) -> SpelledTexts:
        assert self.tokenizer.vocab is not None
        size, share = self._joint(backend)
        return SpelledTexts(
            data.train,
            self.tokenizer.vocab.tokens,
            self.options.context,
            size,
            eos=self.eos,
            unk=self.tokenizer.vocab.unk,
            seed=self.seed,
            share=share,
        )

    def evaluate(self, data: Spooled[Corpus], backend: Backend) -> Evaluate[Elmo] | None:
        """Measures the validation text as `score --per total` does."""
        valid, vocab = data.valid, self.tokenizer.vocab
        if valid is None or vocab is None:
            return None

        def evaluate(model: Elmo, stop: Callable[[], bool]) -> dict[str, float] | None:
            scores = BothDirections(model, vocab, self.eos, backend)
            scores.extend(np.asarray(valid.spellings))
            pieces = [(np.asarray(valid.ids[1:], np.int64), valid.counts)]
            scored = total_of_both(scores, pieces, stop if backend.world_size == 1 else None)
            if scored is None:
                return None
            forward, backward, counts = scored
            sides = {"forward": forward, "backward": backward}
            each = {f"{name}_perplexity": perplexity(-value / max(1, counts.tokens)) for name, value in sides.items()}
            return {**perplexities((forward + backward) / 2, counts), **each}

        return evaluate
