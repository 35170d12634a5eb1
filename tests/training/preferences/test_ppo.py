"""Training by rewards: rewards rise, the first ratio is 1, a stopped run goes on exactly, bad rewards leave a checkpoint."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import environment, this_month

from nlptools import bundle
from nlptools.compute.kernels import cross_entropy
from nlptools.configs.plot import METRICS
from nlptools.configs.ppo import PPOTraining, TrainPPO
from nlptools.errors import DataError, Stopped, UsageError
from nlptools.models.language.gpt import GPT, GPTConfig
from nlptools.plots import curves
from nlptools.training.engine import stop
from nlptools.training.engine.job import Trained
from nlptools.training.preferences import rewards
from nlptools.training.preferences.actor_critic import ActorCritic
from nlptools.training.preferences.clipped_surrogate import ClippedSurrogate
from nlptools.training.preferences.ppo import train_ppo
from nlptools.training.preferences.rewards import RewardCommand, Sample
from tests.running import Fork, rows
from tests.tasks.reward.test_task import preferences
from tests.tasks.tiny_tasks import FP32, GPT_WORDS, gpt, stopped_at
from tests.tasks.tiny_tasks import train as finetune
from tests.training.preferences.toys import lines

COUNT_W3 = "awk '{print gsub(/w3/, \"\")}'"  # how often a line says w3


def train(tmp_path: Path, **changes: Any) -> Trained:
    """`train-ppo` of the tiny model in `tmp_path`/base, made if need be, into `tmp_path`/out; each line of prompts is one."""
    if not (tmp_path / "base").is_dir():
        gpt(tmp_path / "base")
        (tmp_path / "prompts.txt").write_text("".join(f"w{i} w{i + 1}\n" for i in range(4, 16)))
    names = {name for name in changes if name in PPOTraining.__dataclass_fields__}
    how: dict[str, Any] = {
        "lr": 3e-3,
        "steps": 16,
        "output": str(tmp_path / "out"),
        "save_every": "never",
        "log_every": "1",
    }
    run = PPOTraining(**{**how, "batch_size": 16, **{name: changes.pop(name) for name in names}})
    task = {"policy": str(tmp_path / "base"), "reward": COUNT_W3, "rollouts": 12, "max_new_tokens": 6, "samples": 4}
    compute = changes.pop("compute", FP32)
    return train_ppo([str(tmp_path / "prompts.txt")], TrainPPO(**{**task, **changes}), run, compute)


@pytest.mark.sampled(law="preferences are learned")
@pytest.mark.usefixtures("bf16_everywhere")
@pytest.mark.parametrize(
    ("algorithm", "precision", "near"),
    [
        ("ppo", "fp32", 1e-4),
        *this_month([("grpo", "fp32", 1e-4), ("rloo", "fp32", 1e-4), ("ppo", "bf16", 0.02)], 1),
    ],
)
def test_rewards_rise(tmp_path: Path, algorithm: str, precision: str, near: float) -> None:
    train(tmp_path, algorithm=algorithm, steps=108, kl=0.01, compute=replace(FP32, precision=precision))
    log = rows(tmp_path / "out", "train")
    assert log[0]["kl"] == pytest.approx(0, abs=near) and log[0]["clip_fraction"] == 0  # old and new are the same model
    assert log[-1]["reward"] > 4 * log[0]["reward"] and log[-1]["kl"] > 0.5
    assert log[-1]["entropy"] < log[0]["entropy"] and 1 <= log[-1]["length"] <= 6
    assert ("explained_variance" in log[0]) == (algorithm == "ppo")
    assert algorithm != "ppo" or log[-1]["explained_variance"] > 0.05  # after nine rollouts
    assert bundle.load(tmp_path / "out").arch == "transformer"


def test_reward_model_separate_critic_and_mix(tmp_path: Path) -> None:
    gpt(tmp_path / "encoder")
    finetune(
        tmp_path, lines(tmp_path / "pairs.jsonl", preferences(100)), task="reward", output=str(tmp_path / "reward")
    )
    (tmp_path / "text.txt").write_text("w1 w2 w3\n" * 20)
    train(
        tmp_path,
        reward=str(tmp_path / "reward"),
        critic="separate",
        mix=str(tmp_path / "text.txt"),
        kl_target=3.0,
        steps=48,
    )
    log = rows(tmp_path / "out", "train")
    assert log[-1]["reward"] > log[0]["reward"] and log[-1]["kl_weight"] != log[0]["kl_weight"]


@pytest.mark.parametrize("algorithm", this_month(["ppo", "grpo", "rloo"], 1))
def test_units_of_rewards_do_not_matter(tmp_path: Path, algorithm: str) -> None:
    how: dict[str, Any] = {"algorithm": algorithm, "missing_end": 0.5, "kl": 0.1}
    train(tmp_path, **how)
    train(tmp_path, **how, reward="awk '{print 512 * gsub(/w3/, \"\") - 64}'", output=str(tmp_path / "other"))
    one, other = (rows(tmp_path / name, "train") for name in ("out", "other"))
    assert [row["loss"] for row in other] == pytest.approx([row["loss"] for row in one], rel=1e-4, abs=1e-6)
    assert other[0]["reward"] == pytest.approx(512 * one[0]["reward"] - 64)  # the log has them as they are
    train(tmp_path, **how, normalize=False, output=str(tmp_path / "raw"))
    assert rows(tmp_path / "raw", "train")[0]["reward"] == one[0]["reward"]


@pytest.mark.sampled(law="a stopped run goes on")
@pytest.mark.usefixtures("bf16_everywhere")
@pytest.mark.parametrize(("call", "precision"), [(3, "fp32"), (17, "fp32"), (3, "bf16")])
def test_stop_and_go_on(tmp_path: Path, call: int, precision: str) -> None:
    """Within a rollout, and before a new one."""
    (tmp_path / "text.txt").write_text("w1 w2\nw3\nw4\n")
    how: dict[str, Any] = {"steps": 20, "passes": 4, "kl_target": 3.0, "mix": str(tmp_path / "text.txt")}
    how["compute"] = replace(FP32, precision=precision)
    whole = train(tmp_path, output=str(tmp_path / "whole"), **how)
    with stopped_at(call):
        train(tmp_path, **how)
    assert train(tmp_path, **how).steps == whole.steps == 20
    one, other = (dict(bundle.load(tmp_path / name).weights()) for name in ("whole", "out"))
    assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())


def test_stops_at_the_limit(tmp_path: Path) -> None:
    done = train(tmp_path, steps=200, kl_limit=0.3, kl=0.0)
    log = rows(tmp_path / "out", "train")
    assert done.steps < 200 and log[-1]["kl"] > 0.3 and all(row["kl"] <= 0.3 for row in log[:-1])


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("echo oh no >&2; exit 3", "ended with status 3: 'oh no'"),
        ("head -n 5 | sed 's/.*/1/'", "wrote 5 lines for 48 samples"),
        ("sed 's/.*/nan/'", "line 1 is 'nan', expected a finite number"),
    ],
)
def test_bad_rewards_stop_with_a_checkpoint(tmp_path: Path, command: str, message: str) -> None:
    flag = tmp_path / "flag"
    once = f"if [ -e {flag} ]; then {command}; else touch {flag}; {COUNT_W3}; fi"
    with pytest.raises(DataError) as error:
        train(tmp_path, reward=once)
    assert message in str(error.value) and "\n" not in str(error.value)
    assert (tmp_path / "out" / "checkpoints" / "step-000012").is_dir()  # all of the first rollout
    flag.unlink()
    train(tmp_path, reward=once, steps=14)


def test_each_end_of_text_ends_a_sample_and_is_kept(tmp_path: Path) -> None:
    train(tmp_path)
    other = GPT_WORDS.index("w3")
    path = tmp_path / "base" / "generation_config.json"
    path.write_text(json.dumps({"eos_token_id": [0, other]}))
    (tmp_path / "base" / "manifest.json").unlink()
    seen = tmp_path / "seen"
    train(tmp_path, output=str(tmp_path / "two"), reward=f"tee -a {seen} | sed 's/.*/1/'", missing_end=1.0, steps=36)
    assert "w3" not in seen.read_text(), "the end is no part of the text"
    one, two = (rows(tmp_path / name, "train") for name in ("out", "two"))
    assert two[0]["kl"] == pytest.approx(0, abs=1e-4) and two[0]["length"] < one[0]["length"]
    assert two[-1]["length"] < two[0]["length"], "what is not ended has a lower reward"
    assert bundle.load(tmp_path / "two").ends == (other,)


def test_samples_have_no_token_that_generate_does_not_write(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    train(tmp_path, reward=f"tee -a {seen} | awk '{{print gsub(/<unk>/, \"\")}}'", steps=36, lr=1e-4)
    words = seen.read_text().split()
    assert len(words) > 150, "enough for each of the 24 words, which are about equally likely"
    assert "w3" in words and "<unk>" not in seen.read_text()


def test_what_is_never_written_has_no_probability() -> None:
    """Else a policy could move probability there, which lowers that of what it writes: as if it diverged less."""
    torch.manual_seed(0)
    model = ActorCritic(GPT(GPTConfig(24, 32, 2, 2, 24)), True, forbidden=[1, 5])
    ids = torch.randint(24, (2, 8))
    for target in (1, 3):
        targets = torch.full((2, 8), target)
        logs, entropy, _ = model.read(ids, targets, torch.arange(2)[:, None].expand(2, 8))
        hidden = model.policy.packed(ids, torch.arange(2)[:, None].expand(2, 8))
        logits = model.policy.output.logits(hidden).flatten(0, 1)
        logits[:, [1, 5]] = -torch.inf
        wanted = logits.log_softmax(1)
        assert torch.allclose(logs, wanted[:, target], atol=1e-5)
    kept = [i for i in range(24) if i not in (1, 5)]
    assert torch.allclose(entropy, torch.distributions.Categorical(logits=wanted[:, kept]).entropy(), atol=1e-5)


def test_surrogate_by_its_formula() -> None:
    settings = TrainPPO(policy="-", reward="-", value_weight=0.5, clip_values=0.2)

    class Fixed(torch.nn.Module):
        def read(self, *_: Any) -> tuple[torch.Tensor, ...]:
            return torch.tensor([-1.0, -2.0, -0.5]), torch.ones(3), torch.tensor([0.9, 0.0, 0.1])

    objective = ClippedSurrogate(Fixed(), settings)  # type: ignore[arg-type]
    targets = torch.tensor([[5, -1, 6, 7]])
    old, value, advantage, returned = (
        torch.tensor([row]) for row in ([-1.0, 9, -3, -0.4], [0.5, 9, 0, 0], [1.0, 9, 2, -1], [1.0, 9, 1, 1])
    )
    arrays = (targets, targets, targets, old, value, old, advantage, returned, torch.tensor(0.0))
    sums = objective(*arrays)
    policy = -(1.0 * 1 + 1.2 * 2 + np.exp(-0.1) * -1)  # the second ratio, e, is clipped
    squares = 0.5 * np.array([max(0.1**2, 0.3**2), 1.0, max(0.9**2, 0.9**2)])
    assert sums["loss"].item() == pytest.approx(policy + 0.5 * squares.sum(), rel=1e-5)
    assert sums["clip_fraction"] == 1 and sums["entropy"] == 3
    objective.settings = replace(settings, clip_values=0.0)
    loss = objective(*arrays)["loss"].item()
    assert loss == pytest.approx(policy + 0.5 * 0.5 * (0.1**2 + 1 + 0.9**2), rel=1e-5)


@pytest.mark.parametrize("critic", [None, "separate"])
def test_values_learn_at_their_own_rate(critic: str | None) -> None:
    policy, copy = (GPT(GPTConfig(8, 8, 1, 1, 8)) for _ in range(2))
    model = ActorCritic(policy, True, copy if critic else None)
    objective = ClippedSurrogate(model, TrainPPO(policy="-", reward="-", value_rate=7.0))
    rates = objective.rates(0.0)
    assert all(rates.get(f"model.policy.{name}", 1) == 1 for name, _ in policy.named_parameters())
    others = {name for name, _ in objective.named_parameters() if not name.startswith("model.policy.")}
    assert (
        set(rates) == others
        and set(rates.values()) == {7.0}
        and len(others) == (2 if critic is None else 2 + len(list(copy.parameters())))
    )


def test_weight_of_the_divergence_begins_high_where_it_adapts() -> None:
    how = {"policy": "-", "reward": "-"}
    weights = [TrainPPO(**how), TrainPPO(**how, kl_target=6.0), TrainPPO(**how, kl_target=6.0, kl=0.3)]
    assert [settings.kl_weight for settings in weights] == [0.05, 1.0, 0.3]


def test_no_logits_of_a_rollout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Logits exist for a chunk of tokens at a time, in rollouts and in training."""
    monkeypatch.setattr(cross_entropy, "CHUNK_BYTES", 0)  # 64 rows
    sizes = []
    wanted = cross_entropy._exponentiate

    def watched(logits: torch.Tensor, *more: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        sizes.append(len(logits))
        return wanted(logits, *more)

    monkeypatch.setattr(cross_entropy, "_exponentiate", watched)
    train(tmp_path, steps=2, rollouts=24, batch_size=24, max_new_tokens=12)
    assert sizes.count(64) >= 4 and max(sizes) == 64


def test_errors(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="compares samples"):
        train(tmp_path, algorithm="rloo", samples=1)
    with pytest.raises(UsageError, match="--critic-lr-factor applies to --algorithm ppo"):
        train(tmp_path, algorithm="rloo", value_rate=3.0)
    with pytest.raises(UsageError, match="--critic applies to --algorithm ppo"):
        train(tmp_path, algorithm="grpo", critic="separate")
    with pytest.raises(UsageError, match="which predict cannot take"):
        train(tmp_path, reward=str(tmp_path / "base"))
    with pytest.raises(UsageError, match="the context of the model has 24"):
        train(tmp_path, max_new_tokens=24)
    (tmp_path / "prompts.txt").write_text("")
    with pytest.raises(DataError, match="no prompts"):
        train(tmp_path)
    assert RewardCommand("cat > /dev/null; echo 2.5")([Sample("a", "b", True)]) == [2.5]


@pytest.mark.parametrize("endless", ["yes 1", "cat /dev/zero", "yes | tr -d '\\n'"])
def test_a_reward_command_that_never_ends_its_output_is_stopped(endless: str) -> None:
    with pytest.raises(DataError, match=r"more lines than there are samples \(1\)"):
        RewardCommand(endless)([Sample("a", "b", True)])


class Hanging:
    """A `train-ppo` process whose reward command has begun and never ends, although it ignores SIGTERM."""

    def __init__(self, place: Path, server: list[str], *more: str) -> None:
        if not (place / "base").is_dir():
            gpt(place / "base")
            (place / "prompts.txt").write_text("w4 w5\nw6 w7\n")
        script = "trap '' TERM; sleep 600 & echo $$ $! > started.part; mv started.part started; wait; wait; sleep 600"
        common = ("--policy", "base", "--reward", script, "--max-new-tokens", "4", "--steps", "2", "-o", "out", *more)
        words = [*server, "train-ppo", *common, "prompts.txt"]
        self.process = Fork(words, cwd=place, env=environment(), stderr=subprocess.PIPE)
        while not (place / "started").exists():
            assert self.process.poll() is None, self.process.communicate()
            time.sleep(0.02)
        self.commands = list(map(int, (place / "started").read_text().split()))
        (place / "started").unlink()

    def ends(self, *numbers: int) -> tuple[int, str]:
        """The status and what it says after these signals, when nothing of the command is left."""
        for number in numbers:
            self.process.send_signal(number)
            time.sleep(0.05)
        _, said = self.process.communicate(timeout=60)
        until = time.monotonic() + 30
        while any(map(_runs, self.commands)):
            assert time.monotonic() < until, "the command, or what it has started, is still there"
            time.sleep(0.02)
        return self.process.returncode, said.decode()


def _runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_reward_command_that_hangs_ends_with_the_run(tmp_path: Path, fork_server: list[str]) -> None:
    """By a signal, or a time limit; in each case the same command goes on."""
    code, said = Hanging(tmp_path, fork_server).ends(signal.SIGTERM)
    assert code == 75 and "stopped by SIGTERM after step 0, everything is saved in out" in said, said
    with pytest.raises(Stopped, match="stopped by time limit after step 0"):
        train(tmp_path, reward="sleep 600", max_time="0.5s", output=str(tmp_path / "limited"))
    with pytest.raises(DataError, match=r"the reward command took longer than --reward-timeout 0\.2s") as raised:
        train(tmp_path, reward="sleep 600", reward_timeout="0.2s", output=str(tmp_path / "limited"), force=True)
    assert raised.value.hint == "a checkpoint is saved: the same command continues"


def test_a_stop_while_it_samples_waits_for_no_batch(tmp_path: Path) -> None:
    """Of a step of several batches as well, some of which it has already."""
    how: dict[str, Any] = {"steps": 6, "passes": 2, "accumulate": 3}
    whole = train(tmp_path, output=str(tmp_path / "whole"), **how)
    steps = []
    for looks in (5, 400, 400, 10**6):  # there are some 250 in a rollout
        left = iter(range(looks))

        def check(left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                raise stop.Interrupted

        with pytest.MonkeyPatch.context() as patch, contextlib.suppress(Stopped):
            patch.setattr(stop, "check", check)
            train(tmp_path, **how)
        steps.append(json.loads((tmp_path / "out/training.json").read_text())["metrics"]["steps"])
    assert steps[0] == 0 < steps[1] < steps[2] < steps[3] == whole.steps == 6
    one, other = (dict(bundle.load(tmp_path / name).weights()) for name in ("whole", "out"))
    assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())


def test_a_reward_command_may_leave_a_process_that_holds_its_output() -> None:
    began = RewardCommand("sleep 5 & echo 1.5", 60.0)
    assert began([Sample("a", "b", True)]) == [1.5]
    assert RewardCommand("exec 2>&-; echo 2; exec >&-; sleep 0.3")([Sample("a", "b", True)]) == [2.0]
    with pytest.raises(DataError, match="ended with status 3"):
        RewardCommand("echo 2; exec >&-; sleep 0.2; exit 3")([Sample("a", "b", True)])
    with pytest.raises(UsageError, match="--reward-timeout is for a reward command"):
        rewards.reward(".", FP32, "3s")


def test_much_on_standard_error_does_not_stop_a_reward_command() -> None:
    samples = [Sample("a", "b", True)] * 2
    assert RewardCommand("dd if=/dev/zero bs=1M count=1 >&2; seq 2")(samples) == [1.0, 2.0]


def test_no_room_for_what_a_reward_command_reads_stops_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("nlptools.training.preferences.rewards.tempfile.TemporaryFile", full)
    with pytest.raises(DataError, match="the reward command cannot run: no space left on device"):
        RewardCommand("echo 1")([Sample("a", "b", True)])


def test_reports_show_reward_divergence_and_length(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(tmp_path, steps=1)
    said = capsys.readouterr().err
    row = rows(tmp_path / "out", "train")[0]
    numbers = "".join(f"{name} {row[name]:.4f}  " for name in ("loss", "reward", "kl", "length"))
    assert f"step 1/1  {numbers}0:00:00 left\n" in said
    drawn = [panel.title for panel in curves.panels(curves.read_runs([str(tmp_path / "out")]), METRICS, required=False)]
    assert drawn == ["loss", "reward", "kl", "length", "learning rate", "tokens per second"]
