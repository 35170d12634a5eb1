"""Settings of reinforcement learning from rewards."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from typing import ClassVar

from nlptools.configs import Training, duration, lora, option, redefined
from nlptools.configs.lora import LoRA
from nlptools.errors import UsageError


@dataclass(frozen=True)
class TrainPPO:
    """Task options"""

    policy: str = option(
        MISSING,
        "Directory of the language model to train, which is also the reference: a GPT-2, a LLaMA, or a model of train-lm or"
        " finetune --task instruct.",
        metavar="DIR",
    )
    reward: str = option(
        MISSING,
        "Directory of a reward model, or a shell command. The command reads JSON lines with prompt, completion and"
        " ended, and writes a number for each.",
        metavar="DIR|COMMAND",
    )
    algorithm: str = option(
        "ppo",
        "ppo estimates a value for each token (Schulman et al. 2017); grpo (Shao et al. 2024) and rloo (Ahmadian et al. 2024)"
        " compare the samples of a prompt.",
        choices=("ppo", "grpo", "rloo"),
    )
    samples: int = option(0, "Samples of each prompt; 0: 1 for ppo, else 4.", low=0, high=1024, metavar="K")
    rollouts: int = option(64, "Prompts that are sampled before the model is updated.", low=1, metavar="N")
    passes: int = option(4, "Passes over the samples before new ones are drawn.", low=1, high=100, metavar="N")
    max_new_tokens: int = option(53, "Maximum number of tokens of a sample.", low=1, metavar="N")
    normalize: bool = option(
        True,
        "Subtract from rewards the mean of the first rollout, and divide them by its standard deviation: --kl and --missing-end"
        " are in these units, whatever the units of the rewards (Ziegler et al. 2019).",
    )
    missing_end: float = option(
        0.0, "Subtract X from the reward of a sample without end-of-text token.", low=0, metavar="X"
    )
    kl: float | None = option(
        None,
        "Weight of the divergence from the reference. ppo, rloo: it is subtracted from the reward of each token; grpo: it is"
        " added to the loss. Default: 0.05; where --kl-target adapts it, it begins at 1.",
        low=0,
        metavar="X",
    )
    kl_target: float = option(
        0.0,
        "Adapt the weight of the divergence so that a sample diverges by X nats from the reference (Ziegler et al. 2019); it"
        " falls by up to 2% per rollout, and rises by up to 10%. 0: it is fixed.",
        low=0,
        metavar="X",
    )
    kl_limit: float = option(
        0.0, "End the training where samples diverge by more than X nats on average; 0: no limit.", low=0, metavar="X"
    )
    clip_ratio: float = option(0.2, "Clip changes of probabilities beyond this fraction.", low=0, high=10, metavar="X")
    clip_values: float = option(
        0.0,
        "ppo: clip changes of values in a rollout beyond X; 0: no clipping, which makes them lag behind rewards that rise"
        " (Andrychowicz et al. 2021).",
        low=0,
        metavar="X",
    )
    critic: str = option(
        "shared",
        "ppo: the values come from the layers of the policy, or from separate ones, which start as a copy.",
        choices=("shared", "separate"),
    )
    value_weight: float = option(0.1, "ppo: weight of the loss of the values.", low=0, metavar="X")
    value_rate: float = option(
        10.0,
        "ppo: learning rate of the values, as a multiple of --lr: of a separate critic, or of the last layer of a shared one.",
        low=0,
        metavar="X",
    )
    discount: float = option(1.0, "ppo: discount of the reward for each token before it.", low=0, high=1, metavar="X")
    trace: float = option(
        1.0,
        "ppo: decay of generalized advantage estimation (Schulman et al. 2016). Below 1 errors of the values favour or disfavour"
        " the end of a sample; 1 is best from a good policy (Ahmadian et al. 2024).",
        low=0,
        high=1,
        metavar="X",
    )
    mix: str | None = option(
        None,
        "Also train on the lines of this text, so that the model forgets less (PPO-ptx, Ouyang et al. 2022).",
        metavar="FILE",
    )
    mix_weight: float = option(1.0, "Weight of the loss on --mix.", low=0, metavar="X")
    lora: int = redefined(LoRA, "lora", 0)  # without dropout, which would change the ratios of probabilities
    lora_alpha: float = redefined(LoRA, "lora_alpha", 16.0)
    lora_targets: str = redefined(LoRA, "lora_targets", "all")

    @property
    def group(self) -> int:
        """Samples of each prompt."""
        return self.samples or (1 if self.algorithm == "ppo" else 4)

    @property
    def kl_weight(self) -> float:
        """The weight of the divergence at the beginning. High where it adapts: a policy that has diverged comes back slowly,
        because it no longer samples what the reference would.
        """
        if self.kl is not None:
            return self.kl
        return 1.0 if self.kl_target else 0.05

    def check(self) -> None:
        """Raises UsageError for options that do not go together."""
        if not self.policy or not self.reward:
            raise UsageError("--policy and --reward: expected a directory")
        lora.check(self)
        if self.algorithm != "ppo":
            if self.group < 2:
                raise UsageError(f"--algorithm {self.algorithm} compares samples: expected --samples 2 or more")
            for name in ("critic", "clip_values", "value_weight", "value_rate", "discount", "trace"):
                if getattr(self, name) != self.__dataclass_fields__[name].default:
                    raise UsageError(f"--{name.replace('_', '-')} goes with --algorithm ppo")


@dataclass(frozen=True)
class PPOTraining(Training):
    """Training options"""

    batch_size: int = option(32, "Samples per step.", low=1, metavar="N")
    reward_timeout: str | None = option(
        None,
        "End a reward command that takes longer than this for the samples of a rollout, and the run with a checkpoint"
        " (status 65).",
        metavar="TIME",
        check=duration,
    )
    epochs: float = option(
        1.0,
        "Passes over the prompts, unless --steps is given; 0: no step, which saves the policy as it is.",
        low=0,
        metavar="X",
    )
    lr: float = redefined(Training, "lr", 1e-5)
    warmup: float = redefined(Training, "warmup", 0.0)
    schedule: str = redefined(Training, "schedule", "constant")
    weight_decay: float = redefined(Training, "weight_decay", 0.0)
    # not options here: there is no validation, and nothing of fixed size to compile
    valid: ClassVar[None] = None  # type: ignore[misc]
    valid_every: ClassVar[str] = "never"  # type: ignore[misc]
    average: ClassVar[int] = 1  # type: ignore[misc]
    patience: ClassVar[int] = 0  # type: ignore[misc]
    compile: ClassVar[bool] = False  # type: ignore[misc]
