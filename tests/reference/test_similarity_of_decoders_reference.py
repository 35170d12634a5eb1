"""finetune --task similarity of decoders: what it writes has with transformers the vectors that `embed` gives, and the vectors of
the training are those.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("transformers")
import transformers
from conftest import Run
from llama_folders import TEXTS

import nlptools
from nlptools import bundle
from nlptools.configs import Compute
from nlptools.configs.embed import Embed
from nlptools.configs.lora import LoRA
from nlptools.inference.opening import open_model
from nlptools.text.text_boundaries import around_text
from nlptools.training.similarity import bases
from tests.reference.sentence_folders import expected, folder

pytestmark = [pytest.mark.reference, pytest.mark.filterwarnings("ignore")]
FP32 = Compute(device="cpu", precision="fp32", threads=1)
KINDS = ["sliding_attention", "full_attention", "sliding_attention"]
FOLDERS: dict[str, dict[str, Any]] = {
    "qwen3": {"pooling": "lasttoken", "template": ("$A", "</s>"), "dense": (), "head_dim": 12},
    "gemma3_text": {
        "pooling": "mean_tokens",
        "template": ("<s>", "$A", "</s>"),
        "dense": (48, 32),
        "layer_types": KINDS,
        "sliding_window": 6,
        "use_bidirectional_attention": True,
    },
}
PAIRS = "".join(f"{a}\t{b}\n" for a in TEXTS for b in TEXTS if a and b and a != b and not {"\t", "\n"} & {*a, *b})


@pytest.mark.parametrize("name", FOLDERS)
def test_what_is_written_opens_there_with_the_same_vectors(call: Run, tmp_path: Path, name: str) -> None:
    made = FOLDERS[name]
    folder(tmp_path / "model", name, **made)
    (tmp_path / "train.tsv").write_text(PAIRS)
    for lora in (0, 2):
        done = call("finetune", "--task", "similarity", "-m", "model", "--lr", 3e-3, "--steps", 3, "--batch-size", 8, "--lora",
                    lora, "--threads", 1, "--precision", "fp32", "--valid", "train.tsv", "-o", f"out{lora}",
                    "train.tsv")  # fmt: skip
        assert done.code == 0 and "validation mrr 0." in done.err, done.err
    trained = transformers.AutoModel.from_pretrained(tmp_path / "out0").eval()
    before, after = (nlptools.load(tmp_path / each, compute=FP32, settings=Embed()) for each in ("model", "out0"))
    with torch.inference_mode():
        theirs = expected(tmp_path / "out0", trained, TEXTS, made["pooling"], len(made["dense"]))
    np.testing.assert_allclose(after.embed(TEXTS), theirs, atol=1e-5)
    assert np.abs(after.embed(TEXTS) - before.embed(TEXTS)).max() > 1e-3
    assert bundle.load(tmp_path / "out0").arch == bundle.load(tmp_path / "model").arch
    # adapters are small, and change the vectors of their base
    assert "adapter_config.json" in json.loads((tmp_path / "out2/manifest.json").read_text())["files"]
    assert not (tmp_path / "out2/model.safetensors").exists()
    adapted = nlptools.load(tmp_path / "out2", compute=FP32, settings=Embed()).embed(TEXTS)
    assert np.abs(adapted - before.embed(TEXTS)).max() > 1e-4


@pytest.mark.parametrize("name", FOLDERS)
def test_rows_are_read_as_embed_reads_them(tmp_path: Path, name: str) -> None:
    folder(tmp_path, name, **FOLDERS[name])
    opened = open_model(tmp_path)
    base = bases.of(opened, LoRA(), "model")
    texts = [*TEXTS, ""]
    rows = base.encoding(24, 1).rows([[text] for text in texts]).rows
    first, last = around_text(opened.bundle.tokenizer, opened.path)
    for row, text in enumerate(texts):
        ids = opened.bundle.tokenizer.encode(text)[: 24 - len(first) - len(last)]
        assert rows.ids[rows.bounds[row] : rows.bounds[row + 1]].tolist() == [*first, *ids, *last]
    batch = rows.batch(np.arange(len(texts)), base.pad)
    model = base.model(1).eval()
    ids, mask = torch.from_numpy(batch.ids), torch.from_numpy(batch.mask)
    with torch.inference_mode():
        together = model.states(ids, mask).last
        for row, length in enumerate(mask.sum(1).tolist()):
            alone = opened.bundle.model.states(ids[row : row + 1, :length]).last[0]
            torch.testing.assert_close(together[row, :length], alone, atol=1e-5, rtol=1e-5)
