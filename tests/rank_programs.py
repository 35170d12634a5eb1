"""Programs of several processes, for tests: `rank_programs.py NAME` runs the function NAME in each of them."""

from __future__ import annotations

import contextlib
import hashlib
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from tiny_encoder_decoders import tiny as tiny_pair
from tiny_models import tiny

from nlptools import messages
from nlptools.batches.masking import MaskingVocabulary
from nlptools.batches.pairs import PairBatches
from nlptools.batches.pretraining import Layout, Phase, PretrainingBatches
from nlptools.batches.source import BatchSource, Share
from nlptools.batches.windows import ContiguousStreams, ShuffledWindows, TextBatch
from nlptools.compute.backend import Backend
from nlptools.configs import Compute, Devices, Training
from nlptools.configs.word_vectors import TrainW2V, VectorRun
from nlptools.corpora.documents import Documents
from nlptools.corpora.parallel import ParallelCorpus
from nlptools.corpora.token_file import Corpus, TextCounts
from nlptools.errors import Stopped
from nlptools.files import artifacts
from nlptools.models.encoders.bert import EncoderConfig
from nlptools.models.encoders.bert_with_heads import BertWithHeads
from nlptools.text.pair_format import PairMarks
from nlptools.training.engine import due
from nlptools.training.engine.checkpoint import Checkpoints
from nlptools.training.engine.loop import fit
from nlptools.training.engine.sharded import ShardedWeights
from nlptools.training.engine.weights import Weights
from nlptools.training.objective import Objective
from nlptools.training.objectives import CausalLM, Seq2Seq
from nlptools.training.pretraining.objectives import Masked
from nlptools.training.word_vectors.train import train_vectors


def backend() -> Backend:
    return Backend.detect(Compute(device="cpu", precision="fp32", threads=1))


def corpus(tokens: int = 400) -> Corpus:
    ids = np.random.default_rng(0).integers(2, 50, tokens).astype("uint16")
    return Corpus("", ids, TextCounts(tokens=tokens - 1), "")  # type: ignore[arg-type]


def sentence_pairs(count: int) -> ParallelCorpus:
    random = np.random.default_rng(1)
    lengths = {side: random.integers(1, 9, count).astype("uint32") for side in ("source", "target")}
    arrays = {f"{side}.lengths": array for side, array in lengths.items()}
    arrays |= {f"{side}.ids": random.integers(1, 29, array.sum()).astype("uint32") for side, array in lengths.items()}
    record = {"counts": {"pairs": count}, "sha256": "", "sampling": None, "limits": {}}
    return ParallelCorpus(Path("pairs"), record, arrays)


def many_documents(count: int) -> Documents:
    random = np.random.default_rng(1)
    sentences = random.integers(1, 7, 10 * count)
    arrays = {
        "ids": random.integers(10, 50, sentences.sum()).astype("uint32"),
        "sentences": np.concatenate([[0], np.cumsum(sentences)]),
        "documents": np.arange(0, 10 * count + 1, 10),
    }
    return Documents(Path("documents"), {"counts": {}, "sha256": ""}, arrays)


def clocks() -> None:
    """Train with a validation every minute, and print after which steps this process validates.

    By the clock of rank 0 a minute passes every 3 steps, by the clock of rank 1 in every step.
    """
    here, steps = backend(), [0]
    run = Training(output="", steps=8, valid_every="1m", save_every="1m", log_every="1m", warmup=0)

    class Windows(ShuffledWindows):
        def _batch(self, plan: np.ndarray, position: int, mine: slice) -> TextBatch:
            steps.append(steps[-1] + 1)
            return super()._batch(plan, position, mine)

    def clock() -> float:
        return 61.0 * (steps[-1] if here.rank else steps[-1] // 3)

    due.time = SimpleNamespace(monotonic=clock)  # type: ignore[assignment]
    source = Windows(corpus(), 8, 4, seed=1, share=Share(here.rank, here.world_size))
    validated = []

    def evaluate(model: object, stop: object) -> dict[str, float]:
        validated.append(steps[-1])
        return {"loss": here.sum([1.0])[0]}  # waits for the other process

    fit(CausalLM(tiny("modern")), source, here, run, evaluate=evaluate)
    here.close()
    print(*validated)


def cases(here: Backend, rows: int) -> dict[str, tuple[Objective, BatchSource]]:
    """Tiny models of several kinds and what they train on, with so many rows per step and at most 2 at a time."""
    size, share = Share.of(2, rows, here.rank, here.world_size)
    text, pairs, documents = corpus(), sentence_pairs(60), many_documents(7)
    masks = MaskingVocabulary(
        0, 2, 3, 4, np.isin(np.arange(50), [0, 2, 3, 4]), np.arange(10, 50), np.arange(50) % 3 > 0
    )
    encoder = EncoderConfig(50, 16, 2, 2, 24, max_position_embeddings=32, hidden_dropout=0.0, attention_dropout=0.0)
    torch.manual_seed(3)
    bert = BertWithHeads(encoder, ("pooler", "masked", "next_sentence"))
    bert.initialize()
    return {
        "modern": (CausalLM(tiny("modern")), ShuffledWindows(text, 8, size, seed=1, share=share)),
        "lstm": (CausalLM(tiny("lstm")), ContiguousStreams(text, 8, size, seed=1, share=share)),
        "xl": (CausalLM(tiny("transformer-xl")), ContiguousStreams(text, 8, size, seed=1, share=share, varied=True)),
        "pairs": (
            Seq2Seq(tiny_pair("transformer")),
            PairBatches(pairs, batch_tokens=70, seed=1, pad=29, marks=PairMarks(29, 0), share=share),
        ),
        "bert": (Masked(bert), PretrainingBatches(documents, Layout(masks), [Phase(16, size)], seed=1, share=share)),
    }


def joint(directory: str, steps: str) -> None:
    """Train in float64 up to a step, or go on."""
    here = backend()
    run = Training(output="", steps=int(steps), optimizer="sgd", lr=0.1, warmup=0, schedule="constant")
    for name, (objective, source) in cases(here, 7).items():  # so that parts are of different sizes
        objective.double()
        place = Path(directory, name)
        progress = fit(objective, source, here, run, checkpoints=Checkpoints(place, 2)).progress
        if here.is_main:
            weights = {**objective.model.state_dict(), "targets": torch.tensor(progress.tokens)}
            artifacts.save_tensors(place / "last.safetensors", weights)
    here.close()


def sharded(directory: str, steps: str) -> None:
    """Train up to a step, or go on, with weights that are divided where there are several processes."""
    here = backend()
    run = Training(output="", steps=int(steps), lr=1e-2, warmup=0, schedule="constant", valid_every="2", average=2)

    def evaluate(model: torch.nn.Module, stop: object) -> dict[str, float]:
        return {"loss": float(sum(p.square().sum() for p in model.parameters()))}

    for name, (objective, source) in cases(here, 6).items():
        weights, place = ShardedWeights if here.world_size > 1 else Weights, Path(directory, name)
        checkpoints = Checkpoints(place, 2)
        result = fit(objective, source, here, run, evaluate=evaluate, checkpoints=checkpoints, weights=weights)
        if here.is_main:
            progress = result.progress
            assert result.average is not None
            numbers = {"valid": torch.tensor(progress.last_valid["loss"]), "targets": torch.tensor(progress.tokens)}
            mean = {f"mean.{name}": tensor for name, tensor in result.average.weights.items()}
            artifacts.save_tensors(place / "last.safetensors", {**objective.model.state_dict(), **mean, **numbers})
    here.close()


WORD_VECTORS = {
    "skip-gram": TrainW2V(),
    "tree": TrainW2V(loss="hs"),
    "softmax": TrainW2V(loss="softmax"),
    "n-grams": TrainW2V(subwords="2-3", buckets=50),
    "bag": TrainW2V(model="cbow"),
    "bag and tree": TrainW2V(model="cbow", loss="hs", cbow_gradient="legacy"),
    "bag and softmax": TrainW2V(model="cbow", loss="softmax"),
    "positions": TrainW2V(model="cbow", position_weights=True, subwords="2-3", buckets=50),
}


def word_vectors(text: str) -> None:
    """Train word vectors of each kind, stop after a round and go on; print a digest of the vectors of this process."""
    messages.settings = messages.MessageSettings(quiet=True)
    here, leave = backend(), Backend.close
    Backend.close = lambda self: None  # type: ignore[method-assign]  # one group of processes for all runs
    for name, settings in WORD_VECTORS.items():
        settings = replace(settings, dim=8, min_count=1, epochs=2, sample=0)
        run = VectorRun(output=f"{name}.txt", workers=1, max_time="0s")
        with contextlib.suppress(Stopped):
            train_vectors([text], settings, run, Devices(device="cpu"))
            print(name, "was not stopped")
        vectors = train_vectors([text], settings, replace(run, max_time=None), Devices(device="cpu"))
        print(name, hashlib.sha256(np.ascontiguousarray(vectors.rows.take(range(len(vectors))))).hexdigest())
    leave(here)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
