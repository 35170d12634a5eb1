"""A toy run of every training command: a second each, with validations and checkpoints on the way."""

from __future__ import annotations

from pathlib import Path
from random import Random

from tests.tasks.reward.test_task import preferences
from tests.tasks.tiny_tasks import GPT_WORDS, WORDS, encoder, gpt, table, texts
from tests.training.preferences.toys import demonstrations, lines

_STEPS = "--steps 10 --valid-every 2 --save-every 2 --keep 2 --log-every 2 --threads 1 --device cpu"
_SIZES = "--layers 1 --hidden 8 --heads 1"
# The command of each run, without its output.
TRAINERS = {
    "train-lm": f"train-lm -t words.tsv {_SIZES} --context 8 --batch-size 2 --dropout .1 --valid valid {_STEPS} text",
    "train-lm lstm": "train-lm -t words.tsv --document file --arch lstm --layers 1 --hidden 8 --context 8 --batch-size 2"
    f" --dropout .1 --valid valid {_STEPS} text",
    "train-lm ngram": "train-lm --arch ngram -t whitespace --order 2 --threads 1 --valid valid text",
    "train-seq2seq": f"train-seq2seq -t words.tsv {_SIZES} --dropout .1 --valid pairs {_STEPS} pairs",
    "pretrain-bert": f"pretrain-bert -t encoder {_SIZES} --max-length 16 --batch-size 4 --valid valid {_STEPS} text",
    "finetune": f"finetune --task classify -m encoder --batch-size 4 --valid labels.valid {_STEPS} labels",
    "finetune bag": f"finetune --task classify --scratch bag --batch-size 4 --valid labels.valid {_STEPS} labels",
    "finetune instruct": f"finetune --task instruct -m gpt --batch-size 4 --valid shown.jsonl {_STEPS} shown.jsonl",
    "train-reward": f"train-reward -m gpt --batch-size 4 --valid ranked.jsonl {_STEPS} ranked.jsonl",
    "train-ppo": f"train-ppo --policy gpt --reward 'awk \"{{print length}}\"' --rollouts 4 --samples 2 --batch-size 4"
    f" --max-new-tokens 4 {_STEPS.replace('--valid-every 2', '')} prompts",
    "train-w2v": "train-w2v --dim 4 --min-count 1 --epochs 4 --save-every 1e --workers 1 --deterministic --valid valid text",
    "train-w2v glove": "train-w2v --model glove --dim 4 --min-count 1 --epochs 4 --save-every 1e --workers 1"
    " --deterministic --valid valid text",
    "distill-static": "distill-static encoder --dims 4 --threads 1 --device cpu",
}


def data(place: Path) -> None:
    """What the runs read."""
    random = Random(1)
    drawn = [" ".join(random.choices(GPT_WORDS[2:], k=random.randint(2, 9))) + "\n" for _ in range(80)]
    (place / "text").write_text("\n".join("".join(drawn[i : i + 4]) for i in range(0, 60, 4)))
    (place / "valid").write_text("\n".join("".join(drawn[i : i + 4]) for i in range(60, 80, 4)))
    (place / "prompts").write_text("".join(f"w{i} w{i + 1}\n" for i in range(8)))
    (place / "words.tsv").write_text("<unk>\n<s>\n</s>\n" + "".join(f"{word}\n" for word in WORDS[5:]))
    table(place / "labels", texts(30))
    table(place / "labels.valid", texts(10, 1))
    table(place / "pairs", [(text, " ".join(text.split()[::-1])) for text, _ in texts(20)])
    lines(place / "ranked.jsonl", preferences(16))
    lines(place / "shown.jsonl", demonstrations(16))
    encoder(place / "encoder", hidden_dropout=0.1)
    gpt(place / "gpt")
