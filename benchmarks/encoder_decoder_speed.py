"""Encoder-decoders: speed compared with transformers and CTranslate2.

    [NLPTOOLS_DATA=DIR] python benchmarks/encoder_decoder_speed.py [--shapes marian-base,t5-small,bart-base] [--lines 200]
        [--new 64] [--beams 1,4] [--rounds N]

Random weights. Sources are Multi30k's test_2016_flickr when NLPTOOLS_DATA has it, otherwise invented sentences of the same
lengths. transformers has batches of 32, sorted by length. Texts are tokenized beforehand for the others, and detokenized
afterwards; ours is timed from text to text.

    marian-base          the probability of an end is raised, so that sentences end, and at most 128 tokens; a beam of 5, scores
                         divided by length. transformers has its default search, whose end is ours, too. CTranslate2 (pip install
                         ctranslate2) has one worker with all threads and the batch size that is fastest for it; it ends a search
                         as soon as it has 5 hypotheses, which is ours with --early-stopping, a side of its own. Tokens are those
                         of the translated text, counted in one way for all
    t5-small, bart-base  a third of the lines; every output has exactly --new tokens; a beam of 1 is greedy search

Limit in fp32: products of matrices, which both sides compute alike, take 80% of our time in greedy search of the BART shape and
73% with a beam of 4, at 130 billion operations a second on two cores of an AMD EPYC without AVX-512, as fast as alone. If all
else took no time, ours would be 1.9 and 2.0 times as fast as transformers; it is 1.5 times. With a beam of 4, the T5 shape spends
62% there, 10% in products of attention, 8% on the choice of tokens, and is 1.6 times as fast, of 2.6 at most.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import translation
from side_by_side import Bench, Job, Speed, bench, by_precision, device, separate

BATCH = 32
PAD, EOS, UNK = 0, 1, 2
SPREAD = 0.05  # of random weights
CT2_BATCHES = (512, 1024, 2048, 4096)  # tokens of its batches, of which the fastest is taken


class Search(NamedTuple):
    """The size of the beam, the most tokens, whether each output has as many, and whether ours ends as CTranslate2 does."""

    beam: int
    most: int
    fixed: bool
    early: bool = False


def _t5(layers: int, hidden: int, vocabulary: int) -> dict[str, Any]:
    return {"vocab_size": vocabulary, "d_model": hidden, "d_ff": 4 * hidden, "d_kv": 64, "num_heads": hidden // 64,
            "num_layers": layers, "decoder_start_token_id": PAD}  # fmt: skip


def _bart(layers: int, hidden: int, vocabulary: int) -> dict[str, Any]:
    sides = {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in (
        ("layers", layers), ("attention_heads", hidden // 64), ("ffn_dim", 4 * hidden))}  # fmt: skip
    marks = {"pad_token_id": PAD, "eos_token_id": EOS, "decoder_start_token_id": EOS, "forced_eos_token_id": None}
    return {"vocab_size": vocabulary, "d_model": hidden, "init_std": SPREAD, **sides, **marks}


def random_model(folder: Path, family: str, sizes: dict[str, Any]) -> Path:
    """A directory with random weights of a shape, and a tokenizer. Tokens that the tokenizer lacks are unlikely."""
    import sentencepiece
    import torch
    import transformers

    folder.mkdir(parents=True)
    lines = [line for side in translation.sentences("train") for line in side]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_prefix=str(folder / "spiece"), model_type="unigram", pad_id=PAD, eos_id=EOS,
        unk_id=UNK, bos_id=-1, vocab_size=translation.PIECES, hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    (folder / "spiece.vocab").unlink()
    settings = {"tokenizer_class": "T5Tokenizer", "extra_ids": 0}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    (folder / "config.json").write_text(json.dumps({"model_type": "t5"}), encoding="utf-8")
    known = len(transformers.AutoTokenizer.from_pretrained(folder))
    torch.manual_seed(0)
    config = getattr(transformers, f"{family}Config")(**sizes)
    model = getattr(transformers, f"{family}ForConditionalGeneration")(config)
    with torch.no_grad():
        model.get_input_embeddings().weight[known:] = 0
    model.save_pretrained(folder)
    return folder


_made = functools.partial
SHAPES: dict[str, Callable[[Path], Path]] = {
    "marian-base": _made(translation.random_model, layers=6, hidden=512),
    "t5-small": _made(random_model, family="T5", sizes=_t5(6, 512, 32128)),
    "bart-base": _made(random_model, family="Bart", sizes=_bart(6, 768, 50265)),
    "toy-marian": _made(translation.random_model, layers=1, hidden=64),
    "toy-t5": _made(random_model, family="T5", sizes=_t5(1, 64, 9000)),
    "toy-bart": _made(random_model, family="Bart", sizes=_bart(1, 64, 9000)),
}


def main() -> None:
    with bench(__doc__, shapes=SHAPES, lines=200, new=64, beams="1,4") as run:
        chosen = run.options
        lines = translation.sentences("test_2016_flickr")[0][: chosen.lines]
        for shape in [*SHAPES][:3] if chosen.shapes == [*SHAPES] else chosen.shapes:
            model = SHAPES[shape](run.folder / shape)
            if "marian" in shape:
                compare(run, shape, model, lines, Search(5, 128, fixed=False))
            else:
                for beam in map(int, chosen.beams.split(",")):
                    compare(run, shape, model, lines[: -(-len(lines) // 3)], Search(beam, chosen.new, fixed=True))


def compare(run: Bench, shape: str, model: Path, lines: list[str], search: Search) -> None:
    """All sides of a search."""
    sides = by_precision({"transformers": theirs, "nlptools": ours}, model, lines, search)
    if not search.fixed and importlib.util.find_spec("ctranslate2"):
        from ctranslate2.converters import TransformersConverter

        converted = run.folder / "ctranslate2"
        TransformersConverter(str(model)).convert(str(converted))
        for name, kind in (("fp32", "float32"), ("int8", "int8")):
            how = (model, converted, lines, search, kind, run.options.threads)
            sides[f"CTranslate2, {name}"] = separate(by_ctranslate2, *how)
        sides["nlptools, fp32, early stopping"] = separate(ours, model, lines, search._replace(early=True), "fp32")
    how = f"beam {search.beam}" if search.beam > 1 else "greedy"
    size = f"{search.most} new tokens" if search.fixed else f"at most {search.most} new tokens"
    run.compare(f"{shape} shape, {how}, {len(lines)} lines, {size}", "target tokens/s", sides, check=translation.same)


def timed(model: Path, search: Search, job: Callable[[], Sequence[Any]], text: Callable[[Any], str]) -> Job:
    """Tokens per second of `job`; if texts end by themselves, counted on the texts."""
    count = None if search.fixed else translation.Pieces(model).count

    def measure() -> tuple[Speed, list[str]]:
        begin = time.perf_counter()
        found = job()
        took = time.perf_counter() - begin
        texts = [text(row) for row in found]
        return Speed((count(texts) if count else len(texts) * search.most) / took), texts

    return measure


def theirs(model: Path, lines: list[str], search: Search, precision: str) -> Job:
    """`generate` of transformers in batches of 32."""
    import torch
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[precision]
    loaded: Any = AutoModelForSeq2SeqLM.from_pretrained(model, dtype=dtype).eval().to(device())
    settings: dict[str, Any] = {"num_beams": search.beam, "do_sample": False, "max_new_tokens": search.most}
    if search.fixed:
        tokenizer: Any = AutoTokenizer.from_pretrained(model)
        pad, ids, text = PAD, tokenizer(lines).input_ids, functools.partial(tokenizer.decode, skip_special_tokens=True)
        never = [PAD, UNK]  # as ours
        settings |= {"min_new_tokens": search.most, "suppress_tokens": never, "forced_eos_token_id": None}
    else:
        pieces = translation.Pieces(model)
        pad, ids, text = pieces.pad, pieces.encode(lines), pieces.decode
        settings |= {"length_penalty": 1.0, "early_stopping": False, "max_length": None}
    order = sorted(range(len(ids)), key=lambda i: -len(ids[i]))

    def job() -> list[list[int]]:
        out: list[list[int]] = [[] for _ in ids]
        for begin in range(0, len(order), BATCH):
            chosen = order[begin : begin + BATCH]
            batch = torch.from_numpy(translation.padded([ids[i] for i in chosen], pad)).to(device())
            found = loaded.generate(batch, attention_mask=(batch != pad).long(), **settings)
            for i, row in zip(chosen, found.tolist(), strict=True):
                out[i] = row
        return out

    return timed(model, search, job, text)


def by_ctranslate2(model: Path, converted: Path, lines: list[str], search: Search, kind: str, threads: int) -> Job:
    """`ctranslate2.Translator` in batches of the size that is fastest."""
    import ctranslate2

    how = {"compute_type": kind, "inter_threads": 1, "intra_threads": threads}
    translator, pieces = ctranslate2.Translator(str(converted), device(), **how), translation.Pieces(model)
    tokens = pieces.tokens(lines)
    settings = {"beam_size": search.beam, "length_penalty": 1.0, "max_decoding_length": search.most}

    def job(size: int) -> list[list[str]]:
        found = translator.translate_batch(tokens, max_batch_size=size, batch_type="tokens", **settings)
        return [row.hypotheses[0] for row in found]

    def seconds(size: int) -> float:
        begin = time.perf_counter()
        job(size)
        return time.perf_counter() - begin

    best = min(CT2_BATCHES, key=seconds)
    return timed(model, search, lambda: job(best), pieces.text)


def ours(model: Path, lines: list[str], search: Search, precision: str) -> Job:
    """A `Translator`, from text to text."""
    from nlptools.configs.generation import Generate
    from nlptools.inference.loading import load

    loaded: Any = load(str(model), precision=precision)
    how: dict[str, Any] = {"beam": search.beam} if search.beam > 1 else {"beam": 0, "temperature": 0.0}
    if search.fixed:
        how["min_new_tokens"] = search.most
    else:
        how |= {"length_penalty": 1.0, "early_stopping": search.early}
    settings = Generate(max_new_tokens=search.most, **how)
    return timed(model, search, lambda: list(loaded.translate(lines, settings)), lambda row: row[0].text)


if __name__ == "__main__":
    main()
