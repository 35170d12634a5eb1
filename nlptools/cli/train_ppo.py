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
    formats="""Input is a prompt per line; or with the suffix .jsonl or .parquet objects with a `prompt`, which is text or a list
of messages for the chat template of the policy. Prompts that leave no room for --max-new-tokens lose their beginning, and are
counted.

A published reward model is a sequence classifier with one label: an encoder reads prompt and answer as a pair of texts, a
decoder as one text, with what its chat template writes after the answer. A model of finetune --task regress judges samples, too.

A reward command runs once for the samples of each rollout. It reads a JSON object per sample and writes a number for each:

\b
{"prompt": "Name a color.", "completion": " Blue.", "ended": true}

If it fails, writes too few lines, or something that is not a finite number, or takes longer than --reward-timeout, the run ends
with status 65 and a checkpoint. A signal or --max-time ends the command, too, with all processes that it has started (its process
group): SIGTERM, and SIGKILL after a second.

The output is a model directory like that of --policy, with training.json (the training record) and log.jsonl: reward (as it is
given, also with --normalize), kl (the divergence of a sample from the reference, in nats), kl_weight, length and, for ppo,
explained_variance of the values are means over the last rollout; entropy and clip_fraction are means over the steps since the
last report. Standard output stays empty.

With --lora R, low-rank adapters of the policy learn, and of separate values; the output is a directory of the policy's adapters,
see finetune.""",
    examples=(
        (
            "The three steps of Ouyang et al. 2022: demonstrations, rewards, reinforcement learning:",
            "nlptools finetune --task instruct -m gpt2/ -o assistant/ demonstrations.jsonl\n"
            "nlptools train-reward -m assistant/ --valid dev.jsonl -o reward/ pairs.jsonl\n"
            "nlptools train-ppo --policy assistant/ --reward reward/ --kl-target 6 -o aligned/ prompts.jsonl",
        ),
        (
            "A reward that is a command: the number of vowels of the line:",
            'nlptools train-ppo --policy assistant/ --reward "awk \'{print gsub(/[aeiou]/, \\"\\")}\'" -o vowels/ prompts.txt',
        ),
        (
            "Without values, comparing eight samples of each prompt:",
            "nlptools train-ppo --algorithm grpo --samples 8 --policy assistant/ --reward reward/ -o aligned/ prompts.txt",
        ),
    ),
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
