"""Translation: speed compared with transformers and CTranslate2.

    [NLPTOOLS_DATA=DIR] python benchmarks/translation_decoding_speed.py [MODEL] [--lines 1000] [--rounds N] [--against SIDE]

MODEL is a MarianMT directory; by default random weights of transformer-base's shape, whose sentences end because their
probability of an end is raised. Sources are Multi30k's test_2016_flickr when NLPTOOLS_DATA has it, otherwise invented sentences
of the same lengths.

All sides decode at most 128 tokens with a beam of 5, scores divided by length. transformers has batches of 32, sorted by
length, and its default search, whose end is ours, too. CTranslate2 (pip install ctranslate2) has one worker with all cores and
the batch size that is fastest for it; it ends a search as soon as it has 5 hypotheses, which is ours with --early-stopping, a
side of its own. Texts are tokenized beforehand for the others, and detokenized afterwards; ours is timed from text to text.
Tokens are those of the translated text, counted in one way for all.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import translation
from side_by_side import CORES, Job, Speed, bench, by_precision, device, separate

BEAM, MOST, BATCH = 5, 128, 32
CT2_BATCHES = (512, 1024, 2048, 4096)  # tokens of its batches, of which the fastest is taken


def main() -> None:
    with bench(__doc__, "/model?", lines=1000, layers=6, hidden=512, against="") as run:
        chosen = run.options
        model = chosen.model or translation.random_model(run.folder / "base", chosen.layers, chosen.hidden)
        lines = translation.sentences("test_2016_flickr")[0][: chosen.lines]
        sides = by_precision({"transformers": theirs}, model, lines)
        if importlib.util.find_spec("ctranslate2"):
            from ctranslate2.converters import TransformersConverter

            TransformersConverter(str(model)).convert(str(run.folder / "ctranslate2"))
            for name, kind in (("fp32", "float32"), ("int8", "int8")):
                sides[f"CTranslate2, {name}"] = separate(by_ctranslate2, model, run.folder / "ctranslate2", lines, kind)
            sides["nlptools, fp32, early stopping"] = separate(ours, model, lines, True, "fp32")
        sides |= by_precision({"nlptools": ours}, model, lines, False)
        kept = {name: side for name, side in sides.items() if chosen.against in name or name.startswith("nlptools")}
        title = f"translation, beam {BEAM}, {len(lines)} lines, model {model.name}"
        run.compare(title, "target tokens/s", kept, check=translation.same if "transformers, fp32" in kept else None)


def timed(model: Path, job: Callable[[], Sequence[Any]], text: Callable[[Any], str]) -> Job:
    """Tokens per second of `job`, counted on its texts."""
    pieces = translation.Pieces(model)

    def measure() -> tuple[Speed, list[str]]:
        begin = time.perf_counter()
        found = job()
        took = time.perf_counter() - begin
        texts = [text(row) for row in found]
        return Speed(pieces.count(texts) / took), texts

    return measure


def theirs(model: Path, lines: list[str], precision: str) -> Job:
    """`MarianMTModel.generate` in batches of 32."""
    import torch
    from transformers import MarianMTModel

    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[precision]
    loaded: Any = MarianMTModel.from_pretrained(model, dtype=dtype).eval().to(device())
    pieces = translation.Pieces(model)
    ids = pieces.encode(lines)
    order = sorted(range(len(ids)), key=lambda i: -len(ids[i]))
    settings = {"num_beams": BEAM, "length_penalty": 1.0, "early_stopping": False, "do_sample": False}

    def job() -> list[list[int]]:
        out: list[list[int]] = [[] for _ in ids]
        for begin in range(0, len(order), BATCH):
            chosen = order[begin : begin + BATCH]
            batch = torch.from_numpy(translation.padded([ids[i] for i in chosen], pieces.pad)).to(device())
            mask = (batch != pieces.pad).long()
            found = loaded.generate(batch, attention_mask=mask, max_new_tokens=MOST, max_length=None, **settings)
            for i, row in zip(chosen, found.tolist(), strict=True):
                out[i] = row
        return out

    return timed(model, job, pieces.decode)


def by_ctranslate2(model: Path, converted: Path, lines: list[str], kind: str) -> Job:
    """`ctranslate2.Translator` in batches of the size that is fastest."""
    import ctranslate2

    how = {"compute_type": kind, "inter_threads": 1, "intra_threads": CORES}
    translator, pieces = ctranslate2.Translator(str(converted), device(), **how), translation.Pieces(model)
    tokens = pieces.tokens(lines)
    settings = {"beam_size": BEAM, "length_penalty": 1.0, "max_decoding_length": MOST, "batch_type": "tokens"}

    def job(size: int) -> list[list[str]]:
        found = translator.translate_batch(tokens, max_batch_size=size, **settings)
        return [row.hypotheses[0] for row in found]

    def seconds(size: int) -> float:
        begin = time.perf_counter()
        job(size)
        return time.perf_counter() - begin

    best = min(CT2_BATCHES, key=seconds)
    return timed(model, lambda: job(best), pieces.text)


def ours(model: Path, lines: list[str], early: bool, precision: str) -> Job:
    """A `Translator`, from text to text."""
    from nlptools.configs.generation import Generate
    from nlptools.inference.loading import load

    loaded: Any = load(str(model), precision=precision)
    settings = Generate(beam=BEAM, length_penalty=1.0, max_new_tokens=MOST, early_stopping=early)
    return timed(model, lambda: list(loaded.translate(lines, settings)), lambda row: row[0].text)


if __name__ == "__main__":
    main()
