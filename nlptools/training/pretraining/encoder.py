"""Pretraining a BERT or an ELECTRA from text to bundle: `train_bert`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from nlptools import bundle, messages
from nlptools.batches import masking
from nlptools.batches.masking import Masking, MaskingVocabulary
from nlptools.batches.pretraining import Layout, Phase, PretrainingBatches, in_order_batches, phases
from nlptools.batches.sentence_groups import check
from nlptools.batches.source import Share
from nlptools.compute.backend import Backend
from nlptools.configs import Compute
from nlptools.configs.pretraining import Pretraining, TrainBert, long_phase
from nlptools.corpora import documents, text_lines
from nlptools.corpora.documents import DocumentCounts, Documents
from nlptools.errors import UsageError
from nlptools.files import hub_cache, streams
from nlptools.metrics.criterion import LOSS, Criterion
from nlptools.models.encoders.bert_with_heads import BertWithHeads
from nlptools.models.encoders.electra import Electra
from nlptools.text.tokenizer import Tokenizer
from nlptools.training.engine.job import Trained, run_job
from nlptools.training.engine.loop import Evaluate
from nlptools.training.engine.spooled import Spooled, SpooledTask
from nlptools.training.engine.steps import total_steps
from nlptools.training.initial import load_tokenizer
from nlptools.training.pretraining import models
from nlptools.training.pretraining.evaluation import NAMES, measure
from nlptools.training.pretraining.models import Start
from nlptools.training.pretraining.objectives import Masked, Replaced

_SPECIAL_TOKENS = 3  # [CLS], and [SEP] after each segment


def train_bert(
    inputs: Sequence[str],
    settings: TrainBert,
    run: Pretraining,
    compute: Compute | None = None,
    *,
    encoding_errors: str = "strict",
    invocation: Mapping[str, object] | None = None,
) -> Trained:
    """Pretrain an encoder on the text of `inputs` (files; none or `-`: standard input) into `run.output`.

    The same call continues a stopped run. `invocation` goes into the training record. Raises as `engine.job.run_job`.
    """
    settings.check()
    run.check()
    compute = compute or Compute()
    inputs = streams.check_inputs(inputs, run.held_out)
    if settings.init is not None:
        settings = replace(settings, init=str(hub_cache.locate(settings.init)))
        bundle.check_directory(Path(str(settings.init)))
    tokenizer = load_tokenizer("--tokenizer", str(settings.tokenizer or settings.init))
    vocab = masking.vocabulary(tokenizer)
    start = models.start(settings, len(vocab), vocab.pad)
    task = _Pretraining(settings, run, compute.seed, inputs, tokenizer, vocab, start, encoding_errors)
    return run_job(task, run, compute, invocation)


@dataclass(frozen=True)
class _Pretraining(SpooledTask[Documents]):
    """Pretraining on masked tokens, next sentences or replaced tokens. Implements `training.engine.job.TrainingRun`."""

    options: TrainBert
    run: Pretraining
    seed: int
    inputs: Sequence[str]
    tokenizer: Tokenizer
    vocab: MaskingVocabulary
    start: Start
    encoding_errors: str
    unit: str = "predictions"  # masked tokens, next sentences, tokens that may have been replaced
    criterion: Criterion = LOSS

    @property
    def measures(self) -> tuple[str, ...]:
        return NAMES[self.options.objective]

    def encode(self, path: Path, backend: Backend, held_out: bool) -> Documents:
        options, what = self.options, "validation data" if held_out else "training data"
        spooled = documents.spool(
            text_lines.blocks(self.run.held_out if held_out else self.inputs, self.encoding_errors),
            path,
            self.tokenizer,
            longest=options.max_length - _SPECIAL_TOKENS,
            sentences=options.sentences,
            threads=backend.threads,
            what=what,
            force=None if held_out else self.run.force,
        )
        try:
            check(spooled, options.max_length, options.objective == "bert")
        except UsageError as error:
            raise UsageError(f"{what}: {error}", hint=error.hint) from None
        return spooled

    def reopen(self, path: Path) -> Documents:
        return documents.open_spooled(path)

    def describe(self, counts: DocumentCounts) -> str:
        tokens, sentences = messages.counted(counts.tokens, "token"), messages.counted(counts.sentences, "sentence")
        parts = [f"{tokens} in {sentences} and {messages.counted(counts.documents, 'document')}"]
        parts += [f"{counts.unknown:,} unknown"] if counts.unknown else []
        parts += [f"{messages.counted(counts.cut, 'sentence')} cut in pieces"] if counts.cut else []
        parts += [f"{counts.empty:,} without tokens left out"] if counts.empty else []
        return ", ".join(parts)

    def model(self) -> BertWithHeads | Electra:
        torch.manual_seed(self.seed)
        return self.start.model()

    def objective(self, model: BertWithHeads | Electra) -> Masked | Replaced:
        return Replaced(model) if isinstance(model, Electra) else Masked(model)

    def source(self, data: Spooled[Documents], model: BertWithHeads | Electra, backend: Backend) -> PretrainingBatches:
        size, share = Share.of(self.run.batch_size, self.run.global_batch, backend.rank, backend.world_size)
        one = self._phases(size, [(self.options.max_length, 1.0)])
        short = PretrainingBatches(data.train, self._layout(), one, seed=self.seed, share=share)
        if self.options.long_phase is None:
            return short
        length, part = long_phase(self.options.long_phase)
        batches = total_steps(short, self.run) * self.run.accumulate
        two = self._phases(size, [(self.options.max_length, 1 - part), (length, part)], batches)
        return PretrainingBatches(data.train, self._layout(), two, seed=self.seed, share=share)

    def _phases(self, size: int, shares: list[tuple[int, float]], batches: int = 0) -> tuple[Phase, ...]:
        """Phases of batches with `size` rows of the first length, or as many tokens."""
        return phases(shares, batches, size * self.options.max_length)

    def _layout(self) -> Layout:
        options = self.options
        unit = "span" if options.span else "word" if options.whole_word else "token"
        # ELECTRA uses no random tokens: Clark et al. mask 85% and keep the others
        shares = (0.85, 0.0) if options.objective == "electra" else (0.8, 0.1)
        return Layout(
            self.vocab,
            Masking(options.mask_rate, *shares, unit),
            next_sentence=options.objective == "bert",
        )

    def evaluate(self, data: Spooled[Documents], backend: Backend) -> Evaluate[BertWithHeads | Electra] | None:
        if data.valid is None:
            return None
        where = {"rank": backend.rank, "world_size": backend.world_size}
        (phase,) = self._phases(self.run.batch_size, [(self.options.max_length, 1.0)])
        batches = partial(in_order_batches, data.valid, self._layout(), phase, **where)
        return partial(measure, batches, backend)

    def save(
        self,
        directory: Path,
        model: BertWithHeads | Electra,
        weights: Mapping[str, Tensor],
        record: Mapping[str, object],
    ) -> None:
        metrics = record.get("metrics")
        if isinstance(metrics, Mapping) and metrics.get("valid_replaced_f1") == 0:
            messages.warn(
                "the discriminator classifies every token as not replaced: train it as a masked language model first"
                " (--objective mlm, then --init)"
            )
        models.save(directory, model, weights, self.tokenizer, record)

    def advice(self, name: str) -> str:
        return f"nlptools finetune -m {name} --task classify -o MODEL FILE    or: nlptools embed {name} FILE"
