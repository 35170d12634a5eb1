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
    """Train a language model with rewards for its own samples.

    The policy samples answers to the prompts at temperature 1, a reward model or a command scores them, and PPO, GRPO
    or RLOO makes good answers more likely. A KL penalty keeps the policy close to the initial model. After a stop
    (signal, time limit, crash), the same command continues the run and ends with the same weights.
    """
    # report wrong options before torch is loaded
    trainppo.check()
    ppotraining.check()
    from nlptools.training.preferences.ppo import train_ppo

    errors = common.encoding_errors
    train_ppo(inputs, trainppo, ppotraining, compute, encoding_errors=errors, invocation=invocation())
