"""nlptools train-ppo: language models from rewards."""

from __future__ import annotations

from nlptools.cli.options import command as make_command
from nlptools.cli.options import inputs_argument, invocation
from nlptools.configs import Common, Compute
from nlptools.configs.ppo import PPOTraining, TrainPPO


@make_command(
    "train-ppo",
    TrainPPO,
    PPOTraining,
    Compute,
    opens_models=True,
    exit_codes=(0, 2, 3, 65, 66, 69, 73, 74, 75, 78),
)
@inputs_argument
def command(
    inputs: tuple[str, ...],
    trainppo: TrainPPO,
    ppotraining: PPOTraining,
    compute: Compute,
    common: Common,
) -> None:
    """Train a language model by rewards of what it generates.

    The model answers the prompts at temperature 1, a reward model or a command judges the answers, and those that are better
    than expected become more likely, by PPO, GRPO or RLOO. The divergence from the model at the beginning lowers the reward.
    After a stop by a signal, a time limit or a crash, the same command continues the run, which ends with the same weights as
    without the stop.
    """
    # report wrong options before torch is loaded
    trainppo.check()
    ppotraining.check()
    from nlptools.training.preferences.ppo import train_ppo

    errors = common.encoding_errors
    train_ppo(inputs, trainppo, ppotraining, compute, encoding_errors=errors, invocation=invocation())
