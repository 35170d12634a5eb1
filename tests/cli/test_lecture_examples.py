"""The examples of manual pages that courses begin with run as they are printed, on generated files."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np
import pytest
from conftest import Run
from tiny_pictures import drawn

from nlptools.cli.manual.command_pages import markdown
from tests.tasks.coreference.test_chains import documents
from tests.tasks.coreference.test_task import gap

SENTENCES = (
    *("The capital of France is big .", "The cat sat on the mat .", "The keys to the cabinet are on the table ."),
    *("He works as a nurse .", "She works as a nurse .", "I like pickles .", "The NASDAQ fell ."),
    *("The chef ate the meal that he had cooked .", "The king is a rich man .", "The queen is no poor woman ."),
    " ".join(("good", *(f"w{number}" for number in range(20)))),  # of `documents`
)
# a page, and words by which its examples are found
EXAMPLES = (
    ("fill", "nlptools fill bert/"),
    ("predict", "--ask (next|replaced)|questions/ bag/"),
    ("train-w2v", "--show-pairs"),
    ("neighbors", "--metric"),
    ("bleu", "--no-clip"),
    ("project", "--axes|--spherize"),
    ("finetune", "--lm-weight|--both-orders|--scratch (logistic|vit)|--pooling max|--task coreference"),
    ("train-seq2seq", "--attention none"),
    ("evaluate", "--length-limits"),
)
SMALL = {f"NLPTOOLS_FINETUNE_{name}": value for name, value in {"STEPS": "2", "HIDDEN_SIZE": "8", "DEPTH": "1"}.items()}
SMALL |= {f"NLPTOOLS_TRAIN_SEQ2SEQ_{name}": "16" for name in ("HIDDEN", "EMBEDDING", "MAX_OUTPUT")}
SMALL |= {"NLPTOOLS_TRAIN_SEQ2SEQ_STEPS": "2", "NLPTOOLS_GENERATE_MAX_NEW_TOKENS": "5"}
MODELS = """
nlptools build-vocab --kind wordpiece --size 300 --lowercase -o pieces text.txt
for name in bert electra; do
    nlptools pretrain-bert --objective $name -t pieces --layers 1 --hidden 16 --heads 2 --steps 1 --batch-size 2 -o $name text.txt
done
ln -s bert bert-base
nlptools build-vocab --kind unigram --size 60 -o pieces.model text.txt
nlptools train-lm -t pieces.model --layers 1 --hidden 16 --heads 2 --context 32 --steps 1 -o gpt text.txt
tr A-Z a-z < text.txt | nlptools train-w2v --dim 8 --min-count 1 --epochs 1 --workers 1 -o vectors.bin
nlptools convert vectors.bin vectors.txt
nlptools finetune --task classify -m bert -o questions labelled.tsv
nlptools finetune --task classify --scratch bag -o bag labelled.tsv
"""


def write_inputs(folder: Path) -> None:
    """Texts, pairs, labels, numbers and documents."""
    text = ("\n".join(SENTENCES) + "\n\n") * 8  # documents
    for name in ("text.txt", "train.en", "train.de", "test.en", "test.de", "out.de"):
        (folder / name).write_text(text)
    (folder / "ref.txt").write_text("the cat\n")
    (folder / "words.txt").write_text("king\nqueen\n")
    rows = [f"{sentence}\t{number % 2}" for number, sentence in enumerate(SENTENCES * 2)]
    (folder / "labelled.tsv").write_text("\n".join(rows) + "\n")
    flowers = [f"{n},{n % 5},{n % 3},{'ab'[n % 2]}" for n in range(20)]
    for name in ("flowers.csv", "dev.csv"):
        (folder / name).write_text("length,width,height,kind\n" + "\n".join(flowers) + "\n")
    pictures = [drawn(folder / f"scans/{n}.png", np.full((8, 8), 9 * n, np.uint8)) for n in range(12)]
    for name in ("digits.tsv", "test.tsv"):
        (folder / name).write_text("".join(f"{path}\t{n % 2}\n" for n, path in enumerate(pictures)))
    for name in ("gap-development.tsv", "gap-validation.tsv"):
        gap(folder / name, 20)
    for name in ("train.conll", "dev.conll"):
        documents(folder / name, 2)


def write_task(folder: Path, line: str) -> None:
    """train.tsv and dev.tsv for the task of an example."""
    labelled = (folder / "labelled.tsv").read_text().splitlines()
    pairs = [f"{number % 2}\t1\t2\t{a}\t{b}" for number, (a, b) in enumerate(itertools.pairwise(SENTENCES))]
    for name in ("train.tsv", "dev.tsv"):
        rows = labelled
        if "glue/sst-2" in line:
            rows = ["sentence\tlabel", *rows]
        elif "glue/mrpc" in line:
            rows = ["Quality\t#1 ID\t#2 ID\t#1 String\t#2 String", *pairs]
        (folder / name).write_text("\n".join(rows) + "\n")


def shown() -> list[str]:
    """The examples, each once; a block with one of them whole."""
    found = []
    for page, words in EXAMPLES:
        blocks = re.findall(r"^```sh\n(.*?)^```$", markdown(page), re.MULTILINE | re.DOTALL)
        chosen = [block.replace("\\\n", "") for block in blocks if re.search(words, block.replace("\\\n", ""))]
        assert chosen, page
        found += chosen
    return list(dict.fromkeys(found))


@pytest.mark.sampled(law="examples run")
def test_they_run(fork_shell: Run, tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    write_inputs(tmp_path)
    done = fork_shell(f"set -e\n{MODELS}", env=SMALL)
    assert done.code == 0, done.err
    assert len(shown()) >= 20
    for block in shown():
        write_task(tmp_path, block)
        done = fork_shell(f"set -e\n{block}", env=SMALL)
        assert done.code == 0, f"{block}\n{done.err}"
