"""Sentences, vocabularies and models of the translation benchmarks.

With NLPTOOLS_DATA set, the sentences are from Multi30k, English and German; else they are made of invented words, with
as many pieces per sentence, and "translated" word by word.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from side_by_side import found, read

from nlptools.batches.pairs import PairBatch, PairBatches
from nlptools.corpora.segmentations import Sentences, offsets_of
from nlptools.text.pair_format import PairMarks

PIECES = 8000  # of the vocabulary, with </s> and <unk>; the padding comes on top
EOS, PAD = 0, PIECES
SPREAD, END_BIAS = 0.05, 2.0  # of random weights; of the logit of the end of a text, in deviations of the logits
PAIRS, TEST = 29000, 1000  # sentences made up when there are no others


def sentences(part: str) -> tuple[list[str], list[str]]:
    """English and German lines of a part of Multi30k ("train", "val", "test_2016_flickr"), or made-up ones."""
    folder = found("multi30k")
    if folder is None:
        return _invented(PAIRS if part == "train" else TEST, seed=len(part))
    return read(folder / f"{part}.en"), read(folder / f"{part}.de")


def _invented(count: int, seed: int) -> tuple[list[str], list[str]]:
    """Lines of invented words, as frequent as Zipf has it, and the same words written backwards."""
    syllables = [a + b for a in "bdfgklmnprst" for b in "aeiou"]
    rng = np.random.default_rng(0)
    words = sorted({"".join(rng.choice(syllables, size)) for size in rng.integers(1, 5, 9000)}, key=len)
    share = 1 / np.arange(3, len(words) + 3)
    rng = np.random.default_rng(seed)
    lines = []
    for size in np.clip(np.rint(rng.normal(12, 4, count)), 3, 40).astype(int):
        lines.append([words[i] for i in rng.choice(len(words), size, p=share / share.sum())])
    return [" ".join(line) for line in lines], [" ".join(word[::-1] for word in line) for line in lines]


def write_tokenizer(folder: Path) -> None:
    """source.spm, target.spm (the same), vocab.json and tokenizer_config.json as a MarianMT directory has them."""
    import sentencepiece

    lines = [line for side in sentences("train") for line in side]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_prefix=str(folder / "pieces"), model_type="unigram", bos_id=-1,
        vocab_size=PIECES, eos_id=EOS, unk_id=1, character_coverage=1.0, hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    model = (folder / "pieces.model").read_bytes()
    for side in ("source", "target"):
        (folder / f"{side}.spm").write_bytes(model)
    for name in ("pieces.model", "pieces.vocab"):
        (folder / name).unlink()
    made = sentencepiece.SentencePieceProcessor(model_proto=model)
    pieces = [made.id_to_piece(i) for i in range(made.get_piece_size())]
    pieces += [f"<unused{i}>" for i in range(PIECES - len(pieces))]  # fewer words were invented than there is room for
    vocabulary = {piece: i for i, piece in enumerate([*pieces, "<pad>"])}
    (folder / "vocab.json").write_text(json.dumps(vocabulary, ensure_ascii=False), encoding="utf-8")
    settings = {"tokenizer_class": "MarianTokenizer", "source_lang": "en", "target_lang": "de", "model_max_length": 512}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")


def random_model(folder: Path, layers: int, hidden: int) -> Path:
    """A MarianMT directory with random weights; the end of a text is likelier than other pieces, so that texts end."""
    import torch
    from transformers import MarianConfig, MarianMTModel

    folder.mkdir(parents=True)
    write_tokenizer(folder)
    torch.manual_seed(0)
    sides: dict[str, Any] = {}
    for side in ("encoder", "decoder"):
        sides |= {f"{side}_layers": layers, f"{side}_attention_heads": hidden // 64, f"{side}_ffn_dim": 4 * hidden}
    marks = {"pad_token_id": PAD, "eos_token_id": EOS, "decoder_start_token_id": PAD, "forced_eos_token_id": EOS}
    model = MarianMTModel(MarianConfig(vocab_size=PIECES + 1, d_model=hidden, init_std=SPREAD, **sides, **marks))
    bias: Any = model.final_logits_bias
    bias[0, EOS] = END_BIAS * SPREAD * hidden**0.5
    model.save_pretrained(folder)
    return folder


class Pieces:
    """Text as ids and back, with the files of a MarianMT directory."""

    def __init__(self, folder: Path) -> None:
        import sentencepiece

        load = sentencepiece.SentencePieceProcessor
        self.source, self.target = (load(model_file=str(folder / f"{side}.spm")) for side in ("source", "target"))
        self.ids = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
        self.pieces = {i: piece for piece, i in self.ids.items()}
        self.eos, self.pad = self.ids["</s>"], self.ids["<pad>"]

    def encode(self, lines: list[str], target: bool = False) -> list[list[int]]:
        """Ids of each line, the end included."""
        model, unknown = self.target if target else self.source, self.ids["<unk>"]
        return [[self.ids.get(p, unknown) for p in row] + [self.eos] for row in model.encode(lines, out_type=str)]

    def tokens(self, lines: list[str]) -> list[list[str]]:
        """Pieces of each line of the source, the end included."""
        return [[*row, "</s>"] for row in self.source.encode(lines, out_type=str)]

    def text(self, pieces: list[str]) -> str:
        """The text that pieces of the target spell."""
        return str(self.target.decode_pieces([p for p in pieces if p not in ("</s>", "<pad>")]))

    def decode(self, ids: list[int]) -> str:
        """The text that ids of the target spell."""
        return self.text([self.pieces[i] for i in ids])

    def count(self, lines: list[str]) -> int:
        """Tokens of translations, ends not included: counted on the text, so the same way for whoever wrote it."""
        return sum(map(len, self.target.encode(lines, out_type=str)))


def padded(rows: list[list[int]], pad: int) -> np.ndarray:
    """Rows of ids as one array (B, T), padded on the right."""
    out = np.full((len(rows), max(map(len, rows))), pad, dtype=np.int64)
    for i, row in enumerate(rows):
        out[i, : len(row)] = row
    return out


class _Corpus:
    """Pairs of sentences in memory, as `PairBatches` reads them."""

    def __init__(self, sources: list[list[int]], targets: list[list[int]]) -> None:
        self.sides = tuple(
            Sentences(
                np.concatenate([np.array(row[:-1]) for row in rows]),
                offsets_of(np.array([len(row) - 1 for row in rows])),
            )
            for rows in (sources, targets)
        )

    def draw(self, seed: int, epoch: int) -> tuple[Sentences, ...]:
        """All sentences, the same ones each time."""
        return self.sides


def training_batches(folder: Path, most_tokens: int) -> Iterator[PairBatch]:
    """Batches without end of at most `most_tokens` tokens a side, padding included, as `train-seq2seq` makes them."""
    pieces = Pieces(folder)
    english, german = sentences("train")
    corpus: Any = _Corpus(pieces.encode(english), pieces.encode(german, target=True))
    marks = PairMarks(pieces.pad, pieces.eos)
    return iter(PairBatches(corpus, batch_tokens=most_tokens, seed=0, pad=pieces.pad, marks=marks))


def same(results: Mapping[str, Sequence[str]]) -> str:
    """How many texts are equal."""
    theirs = results["transformers, fp32"]
    equal = {n: sum(a == b for a, b in zip(texts, theirs, strict=True)) / len(theirs) for n, texts in results.items()}
    del equal["transformers, fp32"]
    return "the same text as transformers in fp32: " + ", ".join(f"{name} {share:.1%}" for name, share in equal.items())
