"""Settings of reinforcement learning from rewards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nlptools.configs import REQUIRED, Training, option, redefined
from nlptools.configs.combinations import check_combinations
from nlptools.configs.lora import LoRA
from nlptools.configs.optimizers import AVERAGING, OPTIMIZERS, optimizers_help
from nlptools.configs.units import duration
from nlptools.errors import UsageError


@dataclass(frozen=True)
class TrainPPO:
    """Task options"""

    policy: str = option(
        REQUIRED,
        "Language model to train, and reference of the KL penalty: a GPT-2, a LLaMA, or a model of train-lm or"
        " finetune --task instruct.",
        metavar="DIR",
    )
    reward: str = option(
        REQUIRED,
        "Directory of a reward model, or a shell command that reads JSON lines with prompt, completion and ended, and"
        " writes a number for each.",
        metavar="DIR|COMMAND",
    )
    algorithm: str = option(
        "ppo",
        "ppo learns a critic (Schulman et al. 2017); grpo (Shao et al. 2024) and rloo (Ahmadian et al. 2024) compare"
        " the samples of a prompt.",
        choices=("ppo", "grpo", "rloo"),
    )
    samples: int = option(0, "Samples per prompt; 0: 1 for ppo, otherwise 4.", low=0, high=1024, metavar="K")
    rollouts: int = option(64, "Prompts per rollout.", low=1, metavar="N")
    passes: int = option(4, "Passes over the samples of a rollout.", low=1, high=100, metavar="N")
    max_new_tokens: int = option(53, "Maximum length of a sample in tokens.", low=1, metavar="N")
    normalize: bool = option(
        True,
        "Normalize rewards by the mean and standard deviation of the first rollout (Ziegler et al. 2019), so that --kl and"
        " --missing-end do not depend on their scale.",
        flag="normalize-rewards",
        was={"--normalize": "--normalize-rewards", "--no-normalize": "--no-normalize-rewards"},
    )
    missing_end: float = option(
        0.0, "Penalty for samples that reach --max-new-tokens without an end-of-text token.", low=0, metavar="X"
    )
    kl: float | None = option(
        None,
        "KL coefficient. ppo and rloo subtract the penalty from the reward of each token, grpo adds it to the loss."
        " Default: 0.05; with --kl-target it starts at 1.",
        low=0,
        metavar="X",
    )
    kl_target: float = option(
        0.0,
        "Adapt the KL coefficient towards a divergence of X nats per sample (Ziegler et al. 2019), by -2% to +10% per"
        " rollout. 0: fixed coefficient.",
        low=0,
        metavar="X",
    )
    kl_limit: float = option(
        0.0,
        "Stop when samples diverge from the reference by more than X nats on average; 0: no limit.",
        low=0,
        metavar="X",
    )
    clip_ratio: float = option(
        0.2,
        "Clip range of the probability ratio.",
        flag="clip-range",
        was={"--clip-ratio": "--clip-range"},
        low=0,
        high=10,
        metavar="X",
    )
    clip_values: float = option(
        0.0,
        "Clip range of the values within a rollout; 0: no clipping, so that values follow rising rewards faster"
        " (Andrychowicz et al. 2021).",
        flag="clip-range-value",
        was={"--clip-values": "--clip-range-value"},
        low=0,
        metavar="X",
        only={"algorithm": ("ppo",)},
    )
    critic: str = option(
        "shared",
        "Critic: a layer on the policy, or a separate network that starts as a copy of the policy.",
        choices=("shared", "separate"),
        only={"algorithm": ("ppo",)},
    )
    value_weight: float = option(
        0.1,
        "Coefficient of the value loss.",
        low=0,
        metavar="X",
        only={"algorithm": ("ppo",)},
    )
    value_rate: float = option(
        10.0,
        "Critic learning rate, relative to --lr. With a shared critic, it applies to the last layer of the critic.",
        flag="critic-lr-factor",
        was={"--value-rate": "--critic-lr-factor"},
        low=0,
        metavar="X",
        only={"algorithm": ("ppo",)},
    )
    discount: float = option(
        1.0,
        "Discount factor per token.",
        low=0,
        high=1,
        metavar="X",
        only={"algorithm": ("ppo",)},
    )
    trace: float = option(
        1.0,
        "GAE lambda (Schulman et al. 2016). Below 1, errors of the critic bias the length of samples; 1 is best from"
        " a good policy (Ahmadian et al. 2024).",
        flag="gae-lambda",
        was={"--trace": "--gae-lambda"},
        low=0,
        high=1,
        metavar="X",
        only={"algorithm": ("ppo",)},
    )
    mix: str | None = option(
        None,
        "Also train on the lines of this text, to prevent forgetting (PPO-ptx, Ouyang et al. 2022).",
        metavar="FILE",
    )
    mix_weight: float = option(1.0, "Coefficient of the loss on --mix.", low=0, metavar="X")
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
        """Raises UsageError for options that cannot be combined."""
        if not self.policy or not self.reward:
            raise UsageError("--policy and --reward: expected a directory")
        check_combinations(self)
        if self.algorithm != "ppo" and self.group < 2:
            raise UsageError(f"--algorithm {self.algorithm} compares samples: expected --samples 2 or more")


_OPTIMIZERS = tuple(name for name in OPTIMIZERS if name not in AVERAGING)  # which need a validation


@dataclass(frozen=True)
class PPOTraining(Training):
    """Training options"""

    batch_size: int = option(32, "Samples per step, in all processes together.", low=1, metavar="N")
    global_batch: ClassVar[int] = 0  # type: ignore[misc]  # --batch-size counts the samples of all processes
    reward_timeout: str | None = option(
        None,
        "Time limit of a reward command per rollout. A slower command ends the run with a checkpoint and status 65.",
        metavar="TIME",
        check=duration,
        free=True,
    )
    epochs: float = redefined(
        Training,
        "epochs",
        1.0,
        "Passes over the prompts, unless --steps is given; 0: save the policy unchanged.",
    )
    lr: float = redefined(Training, "lr", 1e-5)
    warmup: float = redefined(Training, "warmup", 0.0)
    schedule: str = redefined(
        Training,
        "schedule",
        "constant",
        "Learning rate after the warm-up. trapezoid: constant, with a decay over the last fifth; inverse-sqrt: decay with the"
        " square root of the step; epoch-decay: divide by --decay in each epoch after the first --decay-after epochs.",
        choices=("cosine", "trapezoid", "linear", "constant", "inverse-sqrt", "epoch-decay"),
        needs=(),
    )
    optimizer: str = redefined(
        Training,
        "optimizer",
        "adamw",
        optimizers_help(_OPTIMIZERS),
        choices=_OPTIMIZERS,
        needs=(),
    )
    decay: float = redefined(Training, "decay", 4.0, "Divisor of the learning rate for epoch-decay.")
    weight_decay: float = redefined(Training, "weight_decay", 0.0)
    # not options here: there is no validation, nothing of fixed size to compile, and processes sample texts of any length
    asgd_patience: ClassVar[int] = 5  # type: ignore[misc]
    valid: ClassVar[None] = None  # type: ignore[misc]
    valid_every: ClassVar[str] = "never"  # type: ignore[misc]
    average: ClassVar[int] = 1  # type: ignore[misc]
    patience: ClassVar[int] = 0  # type: ignore[misc]
    compile: ClassVar[bool] = False  # type: ignore[misc]
    shard_model: ClassVar[bool] = False  # type: ignore[misc]
