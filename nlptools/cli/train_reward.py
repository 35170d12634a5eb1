"""nlptools train-reward: reward models, from ranked responses. Another door to `finetune --task reward`."""

from __future__ import annotations

from nlptools.cli.options import command as make_command
from nlptools.cli.options import inputs_argument, invocation
from nlptools.configs import Common, Compute
from nlptools.configs.finetuning import FinetuneTraining
from nlptools.configs.rewards import TrainReward
from nlptools.configs.tasks.files import ExampleFiles, Files


@make_command(
    "train-reward",
    TrainReward,
    ExampleFiles,
    FinetuneTraining,
    Compute,
    opens_models=True,
    exit_codes=(0, 2, 3, 65, 66, 69, 73, 74, 75, 78),
)
@inputs_argument
def command(
    inputs: tuple[str, ...],
    trainreward: TrainReward,
    files: ExampleFiles,
    finetunetraining: FinetuneTraining,
    compute: Compute,
    common: Common,
) -> None:
    """Train a reward model on ranked responses.

    Adds a scalar head to a language model or an encoder, and trains it to give higher rewards to better responses
    (Bradley & Terry 1952; Ouyang et al. 2022). The same as finetune --task reward. After a stop (signal, time limit,
    crash), the same command continues the run and ends with the same weights.
    """
    # report wrong options before torch is loaded
    settings = trainreward.finetune()
    finetunetraining.check()
    from nlptools.training.finetuning.finetune import finetune

    errors = common.encoding_errors
    finetune(
        inputs,
        settings,
        finetunetraining,
        compute,
        Files(layout=files.layout),
        encoding_errors=errors,
        invocation=invocation(),
    )
