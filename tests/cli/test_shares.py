"""--shard and --skip-done of every command that reads lines: the parts together are the whole, and a stopped job goes on."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from random import Random

import pytest
from conftest import Run, within
from tiny_bundles import WORDS, words_bundle
from tiny_encoders import encoder_bundle

from nlptools.cli import COMMANDS
from nlptools.configs import LineOutput
from nlptools.configs.shares import Shares, shard
from nlptools.errors import UsageError
from tests.tasks.tiny_tasks import encoder, table, texts

ALONE = {
    "walks": "a graph is read whole",
    "chat": "a conversation has an order",
    "rerank": "the lines of a query are sorted together",
    "cluster": "lines are grouped with all others",
    "dedupe": "a line is compared with all lines before it",
}
# Arguments of each command that has Shares, before its inputs; and whether an output that breaks off goes on line by line.
JOBS = [
    ("tokenize -t char", True),
    ("tokenize --decode", True),
    ("tokenize -t pieces.model --to ids --sample .5", True),
    ("split", False),
    ("extract", True),
    ("phrases --model phrases.tsv", True),
    ("embed lm --to tsv", True),
    ("embed lm --to jsonl", True),
    ("embed lm --unit word --to jsonl", False),
    ("score lm --per line", True),
    ("score lm --per token", False),
    ("score lm --per word", False),
    ("generate lm --max-new-tokens 3", True),
    ("generate lm --max-new-tokens 3 --to jsonl", True),
    ("predict labels", False),
    ("fill bert", True),
    ("fill bert --to tsv", False),
    ("fill bert --to jsonl", True),
    ("attend bert --to jsonl", True),
    ("neighbors vectors.tsv -k 2", True),
    ("neighbors vectors.tsv -k 2 --to tsv", False),
    ("prompt -t TL;DR:{input}", True),
]
COUNTING = {"build-vocab", "bleu"}  # tests of their own below
SEED = 5


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models, and a text of two files with empty lines, a mark in the middle and no end."""
    place, random = tmp_path_factory.mktemp("shares"), Random(SEED)
    words_bundle(place / "lm")
    encoder_bundle(place / "bert", heads=("masked",))
    encoder(place / "encoder")
    table(place / "train.tsv", texts(20))
    made = within(
        place,
        *[
            "finetune",
            "--task",
            "classify",
            "-m",
            "encoder",
            "--epochs",
            "0",
            "--threads",
            "1",
            "-o",
            "labels",
            "train.tsv",
        ],
    )
    assert made.code == 0, made.err
    lines = [" ".join(random.choices(WORDS[6:20], k=random.randint(0, 6))) for _ in range(40)]
    lines[7] = "\ufeff" + lines[7]
    (place / "one").write_text("".join(f"{line}\n" for line in lines[:23]))
    (place / "two").write_text("\n".join([*lines[23:], "w1 w2"]))
    masked = ["the [MASK] sat", "", "the [MASK] [MASK]", "on a [MASK]", "[MASK] it"]
    (place / "masked").write_text("".join(f"{random.choice(masked)}\n" for _ in range(20)))
    (place / "vectors.tsv").write_text("".join(f"w{i}\t{i}\t{i * i}\n" for i in range(20)))
    (place / "words").write_text("".join(f"w{random.randrange(25)}\n" for _ in range(30)))
    (place / "phrases.text").write_text("w1 w2 w3\nw1 w2 w4\n" * 20)
    for line in (
        "build-vocab --kind unigram --size 40 -o pieces one two",
        "phrases --threshold 0.0001 --min-count 1 --save phrases.tsv -o joined phrases.text",
    ):
        done = within(place, *line.split())
        assert done.code == 0, done.err
    return place


@pytest.fixture
def there(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """As `place`, without the outputs of other tests."""
    monkeypatch.chdir(place)
    yield place
    for output in place.glob("out*"):
        output.unlink()


def names_of(job: str) -> list[str]:
    if job.startswith("neighbors"):
        return ["words"]
    return ["masked"] if "bert" in job else ["one", "two"]


def settings_of(name: str) -> tuple[type, ...]:
    groups: tuple[type, ...] = import_module(f"nlptools.cli.{name.replace('-', '_')}").command.groups
    return groups


def test_every_command_of_lines_has_them() -> None:
    having = {name for name in COMMANDS if Shares in settings_of(name)}
    assert having == {job.split()[0] for job, _ in JOBS} | COUNTING, "give the new command a row in JOBS"
    writing = {name for name in COMMANDS if LineOutput in settings_of(name)}
    assert writing - having == set(ALONE), "give the new command --shard, or its reason here"


@pytest.fixture(scope="module")
def outputs(place: Path) -> dict[str, list[bytes]]:
    """What each job writes for its two or more shards; together, it is what one process writes."""
    found = {}
    for job, _ in JOBS:
        args, names = job.split(), names_of(job)
        whole = within(place, *args, *names)
        assert whole.code == 0 and whole.out, (job, whole.err)
        count = 7 if job == JOBS[0][0] else 2
        parts = [within(place, *args, *names, "--shard", f"{k}/{count}") for k in range(1, count + 1)]
        assert [part.code for part in parts] == [0] * count, (job, [part.err for part in parts])
        found[job] = [part.out for part in parts]
        assert b"".join(found[job]) == whole.out, job
    return found


def test_a_stopped_job_goes_on(there: Path, outputs: dict[str, list[bytes]]) -> None:
    for job, by_line in JOBS:
        parts, output = outputs[job], there / "out"
        args, expected = [*job.split(), *names_of(job), "--shard", f"{len(parts)}/{len(parts)}"], parts[-1]
        refused = within(there, *args, "--skip-done")
        assert refused.code == 2 and "--skip-done needs an output file" in refused.err, (job, refused.err)
        output.write_bytes(expected[: len(expected) // 2 if by_line else len(expected)])
        done = within(there, *args, "--skip-done", "-o", "out")
        assert (done.code, done.out, output.read_bytes()) == (0, b"", expected), (job, done.err)
        assert ("continuing after" if by_line else "nothing to do") in done.err, job
        output.unlink()


def test_an_output_that_does_not_exist_or_is_complete(there: Path) -> None:
    expected = within(there, "tokenize", "one", "two").out
    for _ in range(2):
        done = within(there, "tokenize", "one", "two", "--skip-done", "-o", "out")
        assert done.code == 0 and (there / "out").read_bytes() == expected


def test_merged_vocabularies_are_the_vocabulary_of_the_whole(there: Path) -> None:
    for options in ([], ["--size", "12"], ["--min-count", "4", "--special", "<unk>,w3"]):
        whole = within(there, "build-vocab", *options, "one", "two")
        for k in (1, 2, 3):
            assert (
                within(there, "build-vocab", "one", "two", "--shard", f"{k}/3", "-o", f"out.{k}", "--skip-done").code
                == 0
            )
        merged = within(there, "build-vocab", "--merge", *options, "out.1", "out.2", "out.3")
        assert merged.code == 0 and merged.out == whole.out, (options, merged.err)
    again = within(there, "build-vocab", "one", "two", "--shard", "1/3", "-o", "out.1", "--skip-done")
    assert again.code == 0 and "out.1 exists: nothing to do" in again.err
    wrong = within(there, "build-vocab", "--kind", "bpe", "one", "--shard", "1/3", "-o", "out")
    assert wrong.code == 2 and "--shard applies to --kind words only" in wrong.err
    (there / "out.bad").write_text("w1\tmany\n")
    bad = within(there, "build-vocab", "--merge", "out.bad")
    assert bad.code == 78 and "out.bad:1: expected token TAB count" in bad.err


def test_merged_statistics_are_the_score_of_the_whole(there: Path, tmp_path: Path) -> None:
    random = Random(SEED)
    for name in ("hyp", "ref"):
        (there / f"out.{name}").write_text("".join(f"{' '.join(random.choices(WORDS[6:9], k=9))}\n" for _ in range(20)))
    how = ("bleu", "out.ref", "-i", "out.hyp")
    whole = within(there, *how)
    for k in (1, 2, 3):
        part = (*how, "--statistics", f"out.{k}", "--shard", f"{k}/3", "--skip-done")
        first = within(there, *part)
        assert first.code == 0 and within(there, *part).out == first.out, first.err
    assert within(there, "bleu", "--merge", "out.1", "out.2", "out.3").out == whole.out
    assert within(there, *how, "--shard", "1/2").code == 2
    (there / "out.ref").write_text("a\n")
    unequal = within(there, *how, "--statistics", "out.4", "--shard", "1/2")
    assert unequal.code == 65 and "out.ref has 1" in unequal.err


def test_merged_counts_are_the_model_of_the_whole(there: Path, tmp_path: Path) -> None:
    within(there, "build-vocab", "one", "two", "-o", "out.tsv")
    how = ("train-lm", "--arch", "ngram", "--order", "2", "--smoothing", "witten-bell", "-t", "out.tsv")
    assert within(there, *how, "-o", tmp_path / "whole", "one", "two").code == 0
    for k in (1, 2):
        done = within(there, *how, "--keep-counts", "--shard", f"{k}/2", "-o", tmp_path / f"{k}", "one", "two")
        assert done.code == 0, done.err
    done = within(there, *how, "-o", tmp_path / "both", "--merge", tmp_path / "1", tmp_path / "2")
    assert done.code == 0, done.err
    models = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "both")]
    assert models[0] == models[1]


def test_a_task_of_a_job_array(there: Path) -> None:
    whole = within(there, "tokenize", "one").out
    array = {"SLURM_ARRAY_TASK_MIN": "10", "SLURM_ARRAY_TASK_STEP": "5", "SLURM_ARRAY_TASK_COUNT": "3"}
    tasks = [{**array, "SLURM_ARRAY_TASK_ID": str(number)} for number in (10, 15, 20)]
    parts = [within(there, "tokenize", "one", "--shard", "array", env=task) for task in tasks]
    assert b"".join(part.out for part in parts) == whole
    for env, message in (
        (None, "needs a SLURM job array"),
        ({**array, "SLURM_ARRAY_TASK_ID": "25"}, "task 25 is none"),
    ):
        done = within(there, "tokenize", "one", "--shard", "array", env=env)
        assert done.code == 2 and message in done.err


@pytest.mark.parametrize(
    ("job", "message"),
    [
        ("tokenize data.csv", "data.csv: --shard and --skip-done count lines"),
        ("tokenize --text-column 1 one", "one: --shard and --skip-done count lines"),
        ("embed lm data.parquet --to tsv", "count lines"),
        ("split --wrapped one", "a paragraph has several"),
        ("phrases one", "need --model"),
        ("score lm --per total one", "a perplexity is of the whole text"),
        ("score lm --per line --carry one", "depend on the lines before"),
        ("predict labels -", "--shard needs files"),
        ("tokenize -", "--shard needs files"),
    ],
)
def test_what_has_no_parts(there: Path, job: str, message: str) -> None:
    for name in ("data.csv", "data.parquet"):
        (there / name).write_text("text\na\n")
    done = within(there, *job.split(), "--shard", "1/2")
    assert done.code == 2 and message in done.err, done.err


def test_names_of_shards() -> None:
    assert shard("3/7") == (3, 7)
    for text in ("0/3", "4/3", "1/0", "a/b", "1", "1/2/3", "-1/2", "١/٢"):
        with pytest.raises(UsageError, match="not a shard"):
            shard(text)


def test_a_shard_does_not_lose_its_place_in_messages(there: Path, call: Run) -> None:
    (there / "out.text").write_bytes(b"w1\n" * 30 + b"\xff\n" + b"w1\n" * 9)
    for job in ("tokenize", "score lm --per line", "embed lm --to tsv"):
        done = within(there, *job.split(), "out.text", "--shard", "4/4")
        assert done.code == 65 and "out.text:31: invalid UTF-8" in done.err, done.err
