"""Translation: speed compared with transformers and CTranslate2.

    NLPTOOLS_DATA=DIR python benchmarks/translation_decoding_speed.py MODEL [--rounds N] [--lines N]

MODEL is a MarianMT directory that translates: random weights would not do, as their sentences do not end. One of the
transformer-base shape comes from translation_quality.py and grow_translator.py in this folder, with the options that the README
has for them. Sources are Multi30k's test_2016_flickr when NLPTOOLS_DATA has it, otherwise invented sentences of the same
lengths.

All sides decode at most 128 tokens with a beam of 5, scores divided by length. transformers has batches of 32, sorted by
length, and its default search, whose end is ours, too. CTranslate2 (not among our requirements: pip install ctranslate2)
has one worker with all cores and the batch size that is fastest for it; it ends a search as soon as it has 5 hypotheses,
which is ours with --early-stopping, a side of its own.
Texts are tokenized beforehand for the others, and detokenized afterwards; ours is timed from text to text.
Tokens are those of the translated text, counted in one way for all.
"""

from __future__ import annotations

import importlib.util
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import side_by_side
import torch
import translation

BEAM, MOST, BATCH = 5, 128, 32
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
CT2_BATCHES = (512, 1024, 2048, 4096)  # tokens of its batches, of which the fastest is taken
Side = tuple[Callable[[], Any], Callable[[Any], str]]


def device() -> str:
    """Where the models run."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def sources(count: int) -> tuple[list[str], list[str]]:
    """The first lines to translate, and their translations."""
    english, german = translation.sentences("test_2016_flickr")
    return english[:count], german[:count]


# -- sides: each gives a job that returns pieces or text, and what turns it into text ----------------------------------


def transformers_side(model_dir: str, lines: list[str], dtype: torch.dtype) -> Side:
    """`MarianMTModel.generate` in batches of 32."""
    from transformers import MarianMTModel

    model: Any = MarianMTModel.from_pretrained(model_dir, dtype=dtype).eval().to(device())
    pieces = translation.Pieces(Path(model_dir))
    ids = pieces.encode(lines)
    order = sorted(range(len(ids)), key=lambda i: -len(ids[i]))
    settings = {"num_beams": BEAM, "length_penalty": 1.0, "early_stopping": False, "do_sample": False}

    def job() -> list[list[int]]:
        out: list[list[int]] = [[] for _ in ids]
        for begin in range(0, len(order), BATCH):
            chosen = order[begin : begin + BATCH]
            batch = torch.from_numpy(translation.padded([ids[i] for i in chosen], pieces.pad)).to(device())
            found = model.generate(
                batch, attention_mask=(batch != pieces.pad).long(), max_new_tokens=MOST, max_length=None, **settings
            )
            for i, row in zip(chosen, found.tolist(), strict=True):
                out[i] = row
        return out

    return job, pieces.decode


def ctranslate2_side(model_dir: str, scratch: str, lines: list[str], kind: str) -> Side:
    """`ctranslate2.Translator` in batches of whatever size it likes best."""
    import ctranslate2

    cores = side_by_side.CORES
    translator = ctranslate2.Translator(
        f"{scratch}/ctranslate2", device(), compute_type=kind, inter_threads=1, intra_threads=cores
    )
    pieces = translation.Pieces(Path(model_dir))
    tokens = pieces.tokens(lines)

    def job(size: int) -> list[list[str]]:
        found = translator.translate_batch(
            tokens,
            beam_size=BEAM,
            length_penalty=1.0,
            max_decoding_length=MOST,
            max_batch_size=size,
            batch_type="tokens",
        )
        return [row.hypotheses[0] for row in found]

    best = min(CT2_BATCHES, key=lambda size: side_by_side.seconds(lambda: job(size)))
    return (lambda: job(best)), pieces.text


def our_side(model_dir: str, lines: list[str], precision: str) -> Side:
    """A `Translator`, from text to text."""
    from nlptools.configs.generation import Generate
    from nlptools.inference.loading import load

    model: Any = load(model_dir, precision=precision.removesuffix("early"))
    early = precision.endswith("early")
    settings = Generate(beam=BEAM, length_penalty=1.0, max_new_tokens=MOST, early_stopping=early)
    return (lambda: list(model.translate(lines, settings))), lambda row: row[0].text


def worker(model_dir: str, scratch: str, side: str, lines: list[str]) -> None:
    """Serve one side; its last output is in `scratch` under its name."""
    torch.set_num_threads(side_by_side.CORES)
    name, kind = side.split("-")
    if name == "transformers":
        job, text = transformers_side(model_dir, lines, DTYPES[kind])
    elif name == "ctranslate2":
        job, text = ctranslate2_side(model_dir, scratch, lines, kind)
    else:
        job, text = our_side(model_dir, lines, kind)
    pieces = translation.Pieces(Path(model_dir))

    def measure() -> float:
        begin = time.perf_counter()
        found = job()
        took = time.perf_counter() - begin
        texts = [text(row) for row in found]
        _written(scratch, side).write_text("\n".join(texts), encoding="utf-8")
        return pieces.count(texts) / took

    side_by_side.serve(measure)


def _written(scratch: str, side: str) -> Path:
    return Path(scratch) / f"{side}.out"


# -- all of it --------------------------------------------------------------------------------------------------------


def convert(model: Path, folder: str) -> bool:
    """Make CTranslate2's form of the model; whether that package is there."""
    if importlib.util.find_spec("ctranslate2") is None:
        print("  without CTranslate2, which is not installed")
        return False
    import ctranslate2

    print(f"  CTranslate2 {ctranslate2.__version__}")
    ctranslate2.converters.TransformersConverter(str(model)).convert(f"{folder}/ctranslate2")
    return True


def sides(with_ctranslate2: bool) -> dict[str, str]:
    """Names for the table, and for the worker; ours last, the precision that it picks last of all."""

    precisions = side_by_side.precisions()
    out = {f"transformers, {p}": f"transformers-{p}" for p in precisions}
    if with_ctranslate2:
        out |= {"CTranslate2, fp32": "ctranslate2-float32", "CTranslate2, int8": "ctranslate2-int8"}
        out["nlptools, fp32, early stopping"] = "nlptools-fp32early"
    return out | {f"nlptools, {p}": f"nlptools-{p}" for p in precisions}


def report(scratch: str, running: dict[str, str], references: list[str]) -> None:
    """How alike the translations are, and how long."""
    from nlptools import bleu

    texts = {side: _written(scratch, side).read_text(encoding="utf-8").split("\n") for side in running.values()}
    theirs = texts["transformers-fp32"]
    for name, side in running.items():
        equal = sum(a == b for a, b in zip(texts[side], theirs, strict=True)) / len(theirs)
        score = bleu(texts[side], [references]).score
        words = sum(len(line.split()) for line in texts[side]) / len(theirs)
        print(f"  {name:<44} BLEU {score:.2f}, {words:.1f} words a line, {equal:.1%} as transformers in fp32")


def main() -> None:
    arguments = side_by_side.options(__doc__, "/model?", lines=1000, rounds=3, against="")
    lines, references = sources(arguments.lines)
    if arguments.worker:
        worker(*arguments.worker, lines)
        return
    if arguments.model is None:
        raise SystemExit("which model?")

    print(side_by_side.machine())
    with tempfile.TemporaryDirectory() as folder:
        running = sides(convert(arguments.model, folder))
        kept = (arguments.against.lower(), "nlptools")
        running = {name: side for name, side in running.items() if any(part in name.lower() for part in kept)}
        model, count = str(arguments.model), str(arguments.lines)
        workers = {n: side_by_side.Worker(__file__, model, folder, s, "--lines", count) for n, s in running.items()}
        title = f"translation, beam {BEAM}, {len(lines)} lines, model {arguments.model.name}"
        side_by_side.compare(title, "target tokens/s", workers, arguments.rounds)
        if "transformers-fp32" in running.values():
            report(folder, running, references)


if __name__ == "__main__":
    main()
