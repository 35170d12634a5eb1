"""The memory of a rollout: no tensor of samples x length x vocabulary is ever allocated, while sampling, judging and training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tests.tasks.tiny_tasks import gpt
from tests.training.preferences.test_ppo import train

VOCABULARY, SAMPLES, NEW = 1024, 48, 6


class Largest(TorchDispatchMode):
    """Sees every tensor that an operator returns, backward passes included."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes, self.rows = 0, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, torch.Tensor):
                self.bytes = max(self.bytes, tensor.untyped_storage().nbytes())
                if tensor.dim() == 2 and tensor.shape[1] >= VOCABULARY:
                    self.rows = max(self.rows, len(tensor))
        return out


@pytest.mark.parametrize("algorithm", ["ppo", "grpo"])
def test_no_tensor_of_all_logits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, algorithm: str) -> None:
    # chunks as small beside these samples as the real ones are beside real samples
    monkeypatch.setattr("nlptools.layers.output.CHUNK", 64 * VOCABULARY)
    monkeypatch.setattr("nlptools.compute.kernels.cross_entropy.CHUNK_BYTES", 1)  # at least 64 rows
    gpt(tmp_path / "base", vocab_size=VOCABULARY)
    (tmp_path / "prompts.txt").write_text("".join(f"w{i} w{i + 1}\n" for i in range(4, 16)))
    with Largest() as seen:
        train(tmp_path, algorithm=algorithm, steps=4, passes=1, kl=0.1)
    assert SAMPLES <= seen.rows <= 64, "one step of all samples, or a chunk of tokens"
    assert 4 * SAMPLES * VOCABULARY <= seen.bytes < 4 * SAMPLES * NEW * VOCABULARY / 2
