"""The programs of nlptools: its commands, with the sizes of the other programs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from benchmarks.reliability.programs import QUESTION, RATE, WORDS, Result, digest, numbers


def command(*words: str) -> None:
    """`nlptools WORDS`; return if it succeeds, and end as it does if not."""
    from nlptools.cli import main

    sys.argv = ["nlptools", *words]
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise


def bleu_text(file: str) -> None:
    command("bleu", "reference.txt", "-i", file, "--score-only", "--width", "6")


# -- word vectors -----------------------------------------------------------------------------------------------------


def _w2v(file: str, out: str, *words: str, size: int = 8, seed: int = 1, workers: int = 1) -> None:
    sizes = ("--dim", str(size), "--min-count", "1", "--workers", str(workers), "--seed", str(seed))
    command("train-w2v", *sizes, *words, "-o", out, file)


def _vectors(folder: str) -> Result:
    import numpy

    array = numpy.load(f"{folder}/vectors.npy", allow_pickle=False)
    return {**numbers(array), "digest": digest(array, Path(folder, "vocab.tsv").read_bytes())}


def w2v_text(file: str) -> Result:
    _w2v(file, "new", "--epochs", "2")
    return _vectors("new")


def w2v_vectors(file: str) -> Result:
    import numpy

    command("convert", file, "converted.npy", "--force")
    return numbers(numpy.load("converted.npy", allow_pickle=False))


def w2v_model(file: str) -> Result:
    Path("question.txt").write_text(QUESTION.replace(" ", "\n") + "\n")
    command("neighbors", file, "-k", "3", "question.txt", "-o", "near.txt", "--force")
    return {"digest": digest(Path("near.txt").read_bytes())}


def w2v_make(file: str, seed: int = 1, size: int = 8) -> None:
    _w2v("text.txt", file, "--epochs", "2", size=size, seed=seed)


def w2v_save(file: str, seed: int = 1, size: int = 8) -> None:
    _w2v("text.txt", file, "--epochs", "2", "--force", size=size, seed=seed)


def w2v_train(seed: int = 1, size: int = 8, diverge: bool = False, workers: int = 1, again: bool = False) -> None:
    rate = ("--lr", str(RATE)) if diverge else ()
    _w2v("text.txt", "out", "--epochs", "12", "--save-every", "1e", *rate, size=size, seed=seed, workers=workers)


def w2v_verify() -> Result:
    command("describe", "out")
    return _vectors("out")


# -- language models --------------------------------------------------------------------------------------------------


def _lm(file: str, out: str, *words: str, size: int = 8, seed: int = 1) -> None:
    Path("words.tsv").write_text("".join(f"{word}\n" for word in WORDS))
    sizes = ("--layers", "1", "--hidden", str(size), "--heads", "2", "--context", "8", "--batch-size", "2")
    fixed = ("--device", "cpu", "--threads", "1", "--precision", "fp32", "--seed", str(seed))
    command("train-lm", "-t", "words.tsv", *sizes, *fixed, *words, "-o", out, file)


def _model(folder: str) -> Result:
    import numpy
    from safetensors.numpy import load_file

    tensors = load_file(f"{folder}/model.safetensors")
    return numbers(numpy.concatenate([tensors[name].ravel() for name in sorted(tensors)]))


def lm_text(file: str) -> Result:
    _lm(file, "new", "--steps", "2")
    return {"rows": json.loads(Path("new/training.json").read_text())["data"]["train"]["lines"], **_model("new")}


def lm_lines(file: str) -> Result:
    return lm_text(file)


def lm_model(file: str) -> Result:
    Path("question.txt").write_text(f"{QUESTION}\n")
    command(
        "score",
        file,
        "--per",
        "token",
        "--device",
        "cpu",
        "--threads",
        "1",
        "question.txt",
        "-o",
        "scores.txt",
        "--force",
    )
    return {"digest": digest(Path("scores.txt").read_bytes())}


def lm_make(file: str, seed: int = 1, size: int = 8) -> None:
    _lm("text.txt", file, "--steps", "2", size=size, seed=seed)


def lm_save(file: str, seed: int = 1, size: int = 8) -> None:
    _lm("text.txt", file, "--steps", "2", "--force", size=size, seed=seed)


def lm_train(seed: int = 1, size: int = 8, diverge: bool = False, workers: int = 0, again: bool = False) -> None:
    rate = ("--lr", str(RATE), "--clip", "0", "--warmup", "0") if diverge else ()
    _lm("text.txt", "out", "--steps", "40", "--save-every", "4", *rate, size=size, seed=seed)


def lm_verify() -> Result:
    command("describe", "out")
    return _model("out")


# -- sentence vectors -------------------------------------------------------------------------------------------------


def _embed(file: str, model: str, out: str) -> Result:
    command("embed", model, "--device", "cpu", "--threads", "1", "--to", "jsonl", file, "-o", out)
    rows = Path(out).read_bytes().split(b"\n")[:-1]
    vectors = [json.loads(row)["embedding"] for row in rows]
    return {"rows": len(rows), "digest": digest(json.dumps(vectors))}


def embed_text(file: str) -> Result:
    return _embed(file, "model", "rows.jsonl")


def embed_lines(file: str) -> Result:
    return embed_text(file)


def embed_model(file: str) -> Result:
    Path("question.txt").write_text(f"{QUESTION}\n")
    return _embed("question.txt", file, "rows.jsonl")


def embed_make(file: str, seed: int = 1, size: int = 8) -> None:
    lm_make(file, seed, size)


def embed_written(file: str) -> None:
    command("embed", "model", "--device", "cpu", "--threads", "1", "--to", "jsonl", file)
