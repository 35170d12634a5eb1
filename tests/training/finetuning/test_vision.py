"""finetune --scratch vit: pictures from files, equal to a plain computation, learned, predicted, refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import Run
from torch.nn import functional as F

from nlptools import bundle
from nlptools.batches.images import ImageEncoding
from nlptools.models.tasks.vision import VisionConfig, VisionTransformer
from nlptools.text.builtin import NamedTokenizer
from nlptools.text.vocab import Vocab

Image = pytest.importorskip("PIL.Image")


def picture(path: Path, values: np.ndarray) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(values).save(path)
    return path


def digits(folder: Path, count: int) -> list[tuple[str, int]]:
    """Pictures of scikit-learn's digits, 8 x 8 pixels, and their labels."""
    datasets = pytest.importorskip("sklearn.datasets")
    found = datasets.load_digits()
    values = (found.images * 15.9).astype(np.uint8)
    names = [picture(folder / f"{number}.png", values[number]) for number in range(count)]
    return [(f"{folder.name}/{path.name}", int(label)) for path, label in zip(names, found.target, strict=False)]


def listed(path: Path, rows: list[tuple[str, int]]) -> Path:
    path.write_text("".join(f"{name}\t{label}\n" for name, label in rows))
    return path


def test_patches_are_the_pixels_of_squares(tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(0, 256, (4, 6, 3), np.uint8)
    path = picture(tmp_path / "a.png", values)
    tokenizer = NamedTokenizer("words", Vocab([str(number) for number in range(6)], [0] * 6, {}))
    rows = ImageEncoding(tokenizer, 4, 6, 3, 2).rows([(str(path),)])
    patches = rows.tables["pixels"].reshape(6, 2, 2, 3)
    for number in range(6):
        y, x = number // 3 * 2, number % 3 * 2
        assert np.array_equal(patches[number], values[y : y + 2, x : x + 2])
    gray = ImageEncoding(tokenizer, 4, 6, 1, 2).rows([(str(path),)]).tables["pixels"]
    assert abs(float(gray.mean()) - float((values @ [0.299, 0.587, 0.114]).mean())) < 1
    scaled = ImageEncoding(tokenizer, 8, 12, 3, 4).rows([(str(path),)])
    assert scaled.lengths.tolist() == [6] and len(scaled.tables["pixels"]) == 8 * 12 * 3


def test_logits_equal_a_plain_computation() -> None:
    torch.manual_seed(0)
    model = VisionTransformer(VisionConfig(6, 3, 4, 6, 3, 2, 16, 2, 4)).eval()
    model.initialize()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
    model.standardize(torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0.5, 0.25, 0.0]))
    pixels = torch.rand(5, 3, 4, 6)  # as torch has pictures: (B, C, H, W)
    patches = pixels.view(5, 3, 2, 2, 3, 2).permute(0, 2, 4, 3, 5, 1).reshape(5, 6, 12)
    standard = (pixels - torch.tensor([0.1, 0.2, 0.3])[:, None, None]) / torch.tensor([0.5, 0.25, 1.0])[:, None, None]
    # a convolution with the stride of the patches, as the paper's code has it
    kernel = model.patches.weight.view(16, 2, 2, 3).permute(0, 3, 1, 2)
    embedded = F.conv2d(standard, kernel, model.patches.bias, stride=2).flatten(2).transpose(1, 2)
    x = torch.cat([model.class_token.expand(5, 1, 16), embedded], 1) + model.positions.weight
    for block in model.blocks:
        normed = F.layer_norm(x, (16,), block.attention_norm.weight, block.attention_norm.bias)
        query, key, value = block.attention.query_key_value(normed).view(5, 7, 3, 4, 4).permute(2, 0, 3, 1, 4)
        mixed = (query @ key.transpose(2, 3) / 2).softmax(-1) @ value
        x = x + block.attention.output(mixed.transpose(1, 2).reshape(5, 7, 16))
        normed = F.layer_norm(x, (16,), block.feed_forward_norm.weight, block.feed_forward_norm.bias)
        x = x + block.feed_forward.down(F.gelu(block.feed_forward.up(normed)))
    expected = model.output(F.layer_norm(x[:, 0], (16,), model.norm.weight, model.norm.bias))
    with torch.inference_mode():
        assert torch.allclose(model(patches), expected, atol=1e-5)


def test_digits(call: Run, tmp_path: Path) -> None:
    """Four of the ten digits: a few seconds are enough."""
    rows = [row for row in digits(tmp_path / "digits", 600) if row[1] < 4]
    listed(tmp_path / "train.tsv", rows[:200])
    listed(tmp_path / "valid.tsv", rows[200:])
    done = call(
        *("finetune", "--task", "classify", "--scratch", "vit", "--patch-size", 2, "--hidden-size", 32, "--depth", 2),
        *("--epochs", 15, "--batch-size", 16, "--lr", "3e-3", "--valid", "valid.tsv", "-o", "vit", "train.tsv"),
    )
    assert done.code == 0, done.err
    found = bundle.load(tmp_path / "vit").model
    assert isinstance(found, VisionTransformer) and found.config.vocab_size == 16 and found.config.channels == 1
    names = "".join(f"{name}\n" for name, _ in rows[200:])
    predicted = call("predict", "vit", stdin=names)
    assert predicted.code == 0, predicted.err
    right = sum(line.split("\t")[0] == str(label) for line, (_, label) in zip(predicted.lines, rows[200:], strict=True))
    assert right / len(rows[200:]) > 0.9
    assert call("predict", "vit", "--batch-tokens", 20, stdin=names).lines == predicted.lines
    # JPEG, in color, of another size: scaled and made gray as in training
    large = np.repeat(np.repeat(np.asarray(Image.open(tmp_path / rows[200][0])), 8, 0), 8, 1)
    Image.fromarray(large).convert("RGB").save(tmp_path / "large.jpg")
    again = call("predict", "vit", stdin="large.jpg\n")
    assert again.lines[0].split("\t")[0] == predicted.lines[0].split("\t")[0]


def test_refusals(call: Run, tmp_path: Path) -> None:
    rows = digits(tmp_path / "digits", 20)
    listed(tmp_path / "a.tsv", rows)
    (tmp_path / "digits/text.png").write_text("not a picture")
    listed(tmp_path / "text.tsv", [*rows, ("digits/text.png", 1)])
    listed(tmp_path / "missing.tsv", [*rows, ("digits/none.png", 1)])
    (tmp_path / "digits/cut.png").write_bytes((tmp_path / "digits/0.png").read_bytes()[:60])
    listed(tmp_path / "cut.tsv", [("digits/cut.png", 1), *rows])
    (tmp_path / "pair.tsv").write_text("digits/0.png\tdigits/1.png\t1\n")
    for args, code, message in (
        (("text.tsv",), 65, "text.tsv:21: digits/text.png: not a picture in PNG or JPEG format"),
        (("missing.tsv",), 65, "missing.tsv:21: digits/none.png: no such file or directory"),
        (("cut.tsv",), 65, "cut.tsv:1: digits/cut.png: not a picture in PNG or JPEG format"),
        (("--patch-size", 3, "a.tsv"), 2, "pictures of 8 x 8 pixels cannot be cut into patches of 3 x 3"),
        (("--hidden-size", 30, "a.tsv"), 2, "--hidden-size 30: expected a multiple of 8 for a vit"),
        (("--vectors", "v.bin", "a.tsv"), 66, "v.bin"),
        (("--pooling", "max", "a.tsv"), 2, "--pooling applies to --scratch mean only"),
    ):
        done = call("finetune", "--task", "classify", "--scratch", "vit", *args, "-o", "x")
        assert (done.code, message in done.err) == (code, True), done.err
    done = call("finetune", "--task", "pair", "--scratch", "vit", "pair.tsv", "-o", "x")
    assert done.code == 2
    done = call("finetune", "--task", "classify", "--scratch", "bag", "--patch-size", 2, "a.tsv", "-o", "x")
    assert done.code == 2 and "--patch-size applies to --scratch vit only" in done.err
