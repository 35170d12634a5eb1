"""finetune --scratch vit: pictures from files, equal to a plain computation, learned, predicted, refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import Run
from tiny_pictures import drawn
from torch.nn import functional as F

from nlptools import bundle
from nlptools.batches.images import ImageEncoding
from nlptools.files.images import PatchGrid
from nlptools.models.encoders.patches import PatchEncoder, PatchSizes
from nlptools.models.tasks.vision import VisionConfig, VisionTransformer
from nlptools.text.builtin import NamedTokenizer
from nlptools.text.vocab import Vocab

Image = pytest.importorskip("PIL.Image")


def digits(folder: Path, count: int) -> list[tuple[str, int]]:
    """Pictures of scikit-learn's digits, 8 x 8 pixels, and their labels."""
    datasets = pytest.importorskip("sklearn.datasets")
    found = datasets.load_digits()
    values = (found.images * 15.9).astype(np.uint8)
    names = [drawn(folder / f"{number}.png", values[number]) for number in range(count)]
    return [(f"{folder.name}/{path.name}", int(label)) for path, label in zip(names, found.target, strict=False)]


def listed(path: Path, rows: list[tuple[str, int]]) -> Path:
    path.write_text("".join(f"{name}\t{label}\n" for name, label in rows))
    return path


def test_patches_are_the_pixels_of_squares(tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(0, 256, (4, 6, 3), np.uint8)
    path = drawn(tmp_path / "a.png", values)
    tokenizer = NamedTokenizer("words", Vocab([str(number) for number in range(6)], [0] * 6, {}))
    rows = ImageEncoding(tokenizer, PatchGrid(4, 6, 3, 2)).rows([(str(path),)])
    patches = rows.tables["pixels"].reshape(6, 2, 2, 3)
    for number in range(6):
        y, x = number // 3 * 2, number % 3 * 2
        assert np.array_equal(patches[number], values[y : y + 2, x : x + 2])
    gray = ImageEncoding(tokenizer, PatchGrid(4, 6, 1, 2)).rows([(str(path),)]).tables["pixels"]
    assert abs(float(gray.mean()) - float((values @ [0.299, 0.587, 0.114]).mean())) < 1
    scaled = ImageEncoding(tokenizer, PatchGrid(8, 12, 3, 4)).rows([(str(path),)])
    assert scaled.lengths.tolist() == [6] and len(scaled.tables["pixels"]) == 8 * 12 * 3


def test_logits_equal_a_plain_computation() -> None:
    torch.manual_seed(0)
    model = VisionTransformer(VisionConfig(6, 3, 4, 6, 3, 2, 16, 2, 4)).eval()
    model.initialize()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
    model.standardize(torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0.5, 0.25, 0.0]))
    reader = model.encoder
    assert reader.class_token is not None and reader.positions is not None
    pixels = torch.rand(5, 3, 4, 6)  # as torch has pictures: (B, C, H, W)
    patches = pixels.view(5, 3, 2, 2, 3, 2).permute(0, 2, 4, 3, 5, 1).reshape(5, 6, 12)
    standard = (pixels - torch.tensor([0.1, 0.2, 0.3])[:, None, None]) / torch.tensor([0.5, 0.25, 1.0])[:, None, None]
    # a convolution with the stride of the patches, as the paper's code has it
    kernel = reader.patches.weight.view(16, 2, 2, 3).permute(0, 3, 1, 2)
    embedded = F.conv2d(standard, kernel, reader.patches.bias, stride=2).flatten(2).transpose(1, 2)
    x = torch.cat([reader.class_token.expand(5, 1, 16), embedded], 1) + reader.positions.weight
    for block in reader.blocks:
        normed = F.layer_norm(x, (16,), block.attention_norm.weight, block.attention_norm.bias)
        query, key, value = block.attention.query_key_value(normed).view(5, 7, 3, 4, 4).permute(2, 0, 3, 1, 4)
        mixed = (query @ key.transpose(2, 3) / 2).softmax(-1) @ value
        x = x + block.attention.output(mixed.transpose(1, 2).reshape(5, 7, 16))
        normed = F.layer_norm(x, (16,), block.feed_forward_norm.weight, block.feed_forward_norm.bias)
        x = x + block.feed_forward.down(F.gelu(block.feed_forward.up(normed)))
    expected = model.output(F.layer_norm(x[:, 0], (16,), reader.norm.weight, reader.norm.bias))
    with torch.inference_mode():
        assert torch.allclose(model(patches), expected, atol=1e-5)


def test_windows_equal_those_of_swin() -> None:
    """Blocks of shifted windows, a picture of several windows and one that is a window, with random weights."""
    transformers = pytest.importorskip("transformers")
    swin = pytest.importorskip("transformers.models.swin.modeling_swin")
    torch.manual_seed(0)
    for sides, window in (((8, 4), 2), ((6, 9), 3), ((4, 8), 4), ((3, 3), 3)):
        grid = PatchGrid(sides[0] * 2, sides[1] * 2, 1, 2)
        ours = PatchEncoder(PatchSizes(grid, 16, 3, 4, 32, window=window), class_token=False).eval()
        config = transformers.SwinConfig(window_size=window, hidden_act="gelu", mlp_ratio=2, drop_path_rate=0.0)
        theirs = [swin.SwinLayer(config, 16, sides, 4, shift_size=i % 2 * (window // 2)).eval() for i in range(3)]
        with torch.no_grad():
            for parameter in ours.parameters():
                parameter.normal_(std=0.5)
            for block, windows, layer in zip(ours.blocks, ours.windows, theirs, strict=True):
                heads, own = layer.attention, block.attention
                for part, name in enumerate(("q_proj", "k_proj", "v_proj")):
                    rows = slice(16 * part, 16 * part + 16)
                    getattr(heads, name).weight.copy_(own.query_key_value.weight[rows])
                    getattr(heads, name).bias.copy_(own.query_key_value.bias[rows])
                heads.relative_position_bias.relative_position_bias_table.copy_(windows.offset_scores.weight)
                for there, here in (
                    (heads.o_proj, own.output),
                    (layer.layernorm_before, block.attention_norm),
                    (layer.layernorm_after, block.feed_forward_norm),
                    (layer.mlp.fc1, block.feed_forward.up),
                    (layer.mlp.fc2, block.feed_forward.down),
                ):
                    there.weight.copy_(here.weight)
                    there.bias.copy_(here.bias)
            pixels = torch.rand(5, grid.count, grid.numbers)
            x = ours.patches(pixels)
            for layer in theirs:
                x = layer(x, sides)
                x = x[0] if isinstance(x, tuple) else x
            assert torch.allclose(ours(pixels), ours.norm(x), atol=1e-4), (sides, window)


@pytest.mark.sampled(law="an encoder learns a task")
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
    # windows, for an epoch: the directory has them
    windows = ("--scratch", "vit", "--patch-size", 1, "--window", 4, "--hidden-size", 16, "--depth", 2, "--epochs", 1)
    done = call("finetune", "--task", "classify", *windows, "-o", "swin", "train.tsv")
    assert done.code == 0, done.err
    found = bundle.load(tmp_path / "swin").model
    assert isinstance(found, VisionTransformer) and found.config.window == 4 and found.encoder.positions is None
    few = "".join(f"{name}\n" for name, _ in rows[200:210])
    done = call("predict", "swin", stdin=few)
    assert done.code == 0 and call("predict", "swin", "--batch-tokens", 70, stdin=few).lines == done.lines
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
        (("--patch-size", 2, "--window", 3, "a.tsv"), 2, "4 x 4 patches cannot be divided into windows of 3 x 3"),
        (("--pooling", "max", "a.tsv"), 2, "--pooling applies to --scratch mean only"),
    ):
        done = call("finetune", "--task", "classify", "--scratch", "vit", *args, "-o", "x")
        assert (done.code, message in done.err) == (code, True), done.err
    done = call("finetune", "--task", "pair", "--scratch", "vit", "pair.tsv", "-o", "x")
    assert done.code == 2
    done = call("finetune", "--task", "classify", "--scratch", "bag", "--patch-size", 2, "a.tsv", "-o", "x")
    assert done.code == 2 and "--patch-size applies to --scratch vit only" in done.err
