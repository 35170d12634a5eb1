"""T5 and BART: speed of generation compared with transformers.

    [NLPTOOLS_DATA=DIR] python benchmarks/encoder_decoder_speed.py [--shapes t5-small,bart-base] [--lines 64] [--new 64]
        [--beams 1,4] [--rounds N]

The models have random weights in the shapes of these two, and a SentencePiece vocabulary of Multi30k's sentences, or of
invented ones. Every output has exactly `--new` tokens, the same on both sides: neither may end a text before. A beam of 1 is
greedy search.
transformers has batches of 32 sources, sorted by length. Texts are tokenized beforehand for it; ours is timed from text to text.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import translation
from side_by_side import Job, Speed, bench, by_precision, device

BATCH = 32
PAD, EOS = 0, 1
SPREAD = 0.05  # of random weights


def _t5(layers: int, hidden: int, vocabulary: int) -> dict[str, Any]:
    return {"vocab_size": vocabulary, "d_model": hidden, "d_ff": 4 * hidden, "d_kv": 64, "num_heads": hidden // 64,
            "num_layers": layers, "decoder_start_token_id": PAD}  # fmt: skip


def _bart(layers: int, hidden: int, vocabulary: int) -> dict[str, Any]:
    sides = {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in (
        ("layers", layers), ("attention_heads", hidden // 64), ("ffn_dim", 4 * hidden))}  # fmt: skip
    marks = {"pad_token_id": PAD, "eos_token_id": EOS, "decoder_start_token_id": EOS, "forced_eos_token_id": None}
    return {"vocab_size": vocabulary, "d_model": hidden, "init_std": SPREAD, **sides, **marks}


SHAPES = {  # family, and its sizes
    "t5-small": ("T5", _t5(6, 512, 32128)),
    "bart-base": ("Bart", _bart(6, 768, 50265)),
    "toy-t5": ("T5", _t5(1, 64, 9000)),
    "toy-bart": ("Bart", _bart(1, 64, 9000)),
}
USUAL = ("t5-small", "bart-base")


def main() -> None:
    with bench(__doc__, shapes=SHAPES, lines=64, new=64, beams="1,4") as run:
        chosen = run.options
        lines = translation.sentences("test_2016_flickr")[0][: chosen.lines]
        for shape in USUAL if chosen.shapes == [*SHAPES] else chosen.shapes:
            model = random_model(run.folder / shape, shape)
            for beam in map(int, chosen.beams.split(",")):
                sides = by_precision({"transformers": theirs, "nlptools": ours}, model, lines, chosen.new, beam)
                how = f"beam {beam}" if beam > 1 else "greedy"
                title = f"{shape} shape, {how}, {len(lines)} lines, {chosen.new} new tokens"
                run.compare(title, "target tokens/s", sides, check=translation.same)


def random_model(folder: Path, shape: str) -> Path:
    """A directory with random weights of a shape, and a tokenizer. Tokens that the tokenizer lacks are unlikely."""
    import sentencepiece
    import torch
    import transformers

    folder.mkdir(parents=True)
    lines = [line for side in translation.sentences("train") for line in side]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_prefix=str(folder / "spiece"), model_type="unigram", pad_id=PAD, eos_id=EOS,
        unk_id=2, bos_id=-1, vocab_size=translation.PIECES, hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    (folder / "spiece.vocab").unlink()
    settings = {"tokenizer_class": "T5Tokenizer", "extra_ids": 0}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    (folder / "config.json").write_text(json.dumps({"model_type": "t5"}), encoding="utf-8")
    known = len(transformers.AutoTokenizer.from_pretrained(folder))
    family, sizes = SHAPES[shape]
    torch.manual_seed(0)
    config = getattr(transformers, f"{family}Config")(**sizes)
    model = getattr(transformers, f"{family}ForConditionalGeneration")(config)
    with torch.no_grad():
        model.get_input_embeddings().weight[known:] = 0
    model.save_pretrained(folder)
    return folder


def theirs(model: Path, lines: list[str], new: int, beam: int, precision: str) -> Job:
    """`generate` of transformers in batches of 32."""
    import torch
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[precision]
    loaded: Any = AutoModelForSeq2SeqLM.from_pretrained(model, dtype=dtype).eval().to(device())
    tokenizer: Any = AutoTokenizer.from_pretrained(model)
    ids = tokenizer(lines).input_ids
    order = sorted(range(len(ids)), key=lambda i: -len(ids[i]))
    never = [PAD, 2]  # as ours
    settings = {"num_beams": beam, "do_sample": False, "suppress_tokens": never, "forced_eos_token_id": None}

    def job() -> tuple[Speed, list[str]]:
        out = [""] * len(ids)
        begun = time.perf_counter()
        for begin in range(0, len(order), BATCH):
            chosen = order[begin : begin + BATCH]
            batch = torch.from_numpy(translation.padded([ids[i] for i in chosen], PAD)).to(device())
            mask = (batch != PAD).long()
            found = loaded.generate(batch, attention_mask=mask, max_new_tokens=new, min_new_tokens=new, **settings)
            for i, row in zip(chosen, found.tolist(), strict=True):
                out[i] = tokenizer.decode(row, skip_special_tokens=True)
        return Speed(len(ids) * new / (time.perf_counter() - begun)), out

    return job


def ours(model: Path, lines: list[str], new: int, beam: int, precision: str) -> Job:
    """A `Translator`, from text to text."""
    from nlptools.configs.generation import Generate
    from nlptools.inference.loading import load

    loaded: Any = load(str(model), precision=precision)
    search: dict[str, Any] = {"beam": beam} if beam > 1 else {"beam": 0, "temperature": 0.0}
    settings = Generate(max_new_tokens=new, min_new_tokens=new, **search)

    def job() -> tuple[Speed, list[str]]:
        begun = time.perf_counter()
        texts = [row[0].text for row in loaded.translate(lines, settings)]
        return Speed(len(lines) * new / (time.perf_counter() - begun)), texts

    return job


if __name__ == "__main__":
    main()
