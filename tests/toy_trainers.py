"""A toy run of every training command: a second each, with validations and checkpoints on the way."""

from __future__ import annotations

from pathlib import Path
from random import Random

from tiny_encoder_decoders import tiny

from nlptools import bundle
from nlptools.text.builtin import NamedTokenizer
from nlptools.text.vocab import Vocab
from tests.tasks.answer.test_task import questions
from tests.tasks.choice.test_task import choices
from tests.tasks.coreference.test_chains import documents
from tests.tasks.coreference.test_task import gap
from tests.tasks.rank.test_task import pairs
from tests.tasks.reward.test_task import preferences
from tests.tasks.tag.test_task import propositions
from tests.tasks.tiny_tags import columns, sentences
from tests.tasks.tiny_tasks import GPT_WORDS, WORDS, encoder, gpt, table, texts
from tests.tasks.tiny_trees import file as trees
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
    "distill-static": "distill-static encoder --dims 4 --threads 1 --device cpu --force",
}


def _task(arguments: str, file: str) -> str:
    return f"finetune --task {arguments} --batch-size 4 --valid {file} {_STEPS} {file}"


# The other tasks of finetune, and its other networks.
TASKS = {
    "finetune pair": _task("pair -m encoder", "pairs.labels"),
    "finetune regress": _task("regress -m encoder", "numbers"),
    "finetune rank": _task("rank -m encoder", "ranks"),
    "finetune similarity": _task("similarity -m encoder", "pairs"),
    "finetune tag": _task("tag -m encoder", "tags"),
    "finetune tag lstm": _task("tag --scratch lstm --dim 4 --hidden-size 4 --char-dim 4", "tags"),
    "finetune parse": _task("parse -m encoder", "trees.conllu"),
    "finetune roles": _task("roles -m encoder", "roles.conllu"),
    "finetune answer": _task("answer -m encoder", "questions.json"),
    "finetune choice": _task("choice -m encoder", "choices.jsonl"),
    "finetune coreference": _task("coreference -m encoder", "gap.tsv"),
    "finetune chains": _task("chains -m encoder", "chains.conll"),
    "finetune seq2seq": _task("seq2seq -m translator", "pairs"),
    "finetune preference": _task("preference -m gpt", "ranked.jsonl"),
    "finetune lora": _task("classify -m encoder --lora 2", "labels"),
    "finetune lstm": _task("classify --scratch lstm --dim 4 --hidden-size 4", "labels"),
    "finetune logistic": _task(
        "classify --scratch logistic --values numbers --text-column 1,2 --label-column 3", "points"
    ),
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
    table(place / "pairs.labels", [(text, text[::-1], label) for text, label in texts(20)])
    table(place / "numbers", [(text, str(len(text))) for text, _ in texts(20)])
    table(place / "points", [(str(i % 5), str(i % 3), "good" if i % 2 else "bad") for i in range(20)])
    table(place / "ranks", [tuple(line.split("\t")) for line in pairs(10, 0)])
    columns(place / "tags", sentences(20))
    trees(place / "trees.conllu", 20)
    propositions(place / "roles.conllu", 12)
    questions(place / "questions.json", 20)
    choices(place / "choices.jsonl", 20)
    gap(place / "gap.tsv", 20)
    documents(place / "chains.conll", 6, sentences=3)
    encoder(place / "encoder", hidden_dropout=0.1)
    gpt(place / "gpt")
    translator = tiny("transformer-pre", share_embeddings=False)
    tokenizer = NamedTokenizer("whitespace", Vocab(["</s>", "<unk>", *(f"w{i}" for i in range(27))]))
    (place / "translator").mkdir()
    bundle.save_pair(
        place / "translator", "seq2seq-transformer", translator, translator.state_dict(), tokenizer, None, training={}
    )
