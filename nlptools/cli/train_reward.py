"""nlptools train-reward: reward models, from ranked responses. Another door to `finetune --task reward`."""

from __future__ import annotations

from nlptools.cli.options import command as make_command
from nlptools.cli.options import inputs_argument, invocation
from nlptools.configs import Common, Compute
from nlptools.configs.finetuning import FinetuneTraining
from nlptools.configs.rewards import TrainReward


@make_command(
    "train-reward",
    TrainReward,
    FinetuneTraining,
    Compute,
    opens_models=True,
    formats="""Input is JSON lines or Parquet: `prompt`, `chosen` and `rejected`, perhaps with a `margin`; or `prompt`,
`responses` and their `ranking`, where 1 is the best. Texts may be lists of messages. Without `prompt` it is what both responses
begin with in common. Messages are read by the chat template of the model, or the known one that --chat names.

\b
{"prompt": "Name a color.", "chosen": " Blue.", "rejected": " Ann."}
{"prompt": "Name a color.", "responses": [" Ann.", " Blue.", " Blue or red."], "ranking": [3, 1, 2]}

The output is the directory of finetune --task reward: predict, train-ppo and Hugging Face (BertForSequenceClassification,
GPT2ForSequenceClassification, LlamaForSequenceClassification and their like, with one label) open it. training.json is the
training record, log.jsonl has one JSON object per report. With --valid they have the accuracy over pairs beside that of always
preferring the longer response (accuracy_longer), the correlation of rewards with lengths, and the error of calibration; and
rewards are shifted so that the best responses of that file have 0 on average. Standard output stays empty.""",
    examples=(
        (
            "A reward model, and the rewards of two responses:",
            "nlptools train-reward -m assistant/ --valid dev.jsonl -o reward/ pairs.jsonl\n"
            'echo \'{"prompt": "Name a color.", "responses": [" Blue.", " Ann."]}\' | nlptools predict reward/',
        ),
        (
            "The same on top of an encoder, with five seeds; keep the best:",
            "nlptools train-reward -m bert-base/ --seeds 5 --valid dev.jsonl -o reward/ pairs.jsonl",
        ),
        (
            "Then the language model learns from the rewards of its own answers:",
            "nlptools train-reward -m assistant/ -o reward/ pairs.jsonl\n"
            "nlptools train-ppo --policy assistant/ --reward reward/ -o aligned/ prompts.jsonl",
        ),
    ),
    exit_codes=(0, 2, 3, 65, 66, 69, 73, 74, 75, 78),
)
@inputs_argument
def command(
    inputs: tuple[str, ...],
    trainreward: TrainReward,
    finetunetraining: FinetuneTraining,
    compute: Compute,
    common: Common,
) -> None:
    """Train a reward model on responses that people ranked.

    A language model or an encoder gets a head whose number is the reward of a response to a prompt; better responses get
    higher rewards (Bradley & Terry 1952; Ouyang et al. 2022). The same as finetune --task reward. After a stop by a signal, a
    time limit or a crash, the same command continues the run, which ends with the same weights as without the stop.
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
        trainreward.files(),
        encoding_errors=errors,
        invocation=invocation(),
    )
