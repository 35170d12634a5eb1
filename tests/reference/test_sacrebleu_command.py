"""`nlptools bleu --signature sacrebleu` writes what `sacrebleu` writes, whole outputs side by side."""

from __future__ import annotations

import json
import random
import subprocess
import sys

import pytest
from conftest import environment, this_month

from tests.real_data import published

pytest.importorskip("sacrebleu")
pytestmark = pytest.mark.reference

ONE, TWO, THREE = ["-i", "a"], ["-i", "a", "b"], ["-i", "a", "b", "c"]


def both(systems, theirs="", ours="", references="ref", stdin=None):
    """(arguments of sacrebleu, arguments of nlptools bleu, standard input)"""
    return (
        [*references.split(), *systems, *theirs.split()],
        [*references.split(), *systems, *ours.split()],
        stdin,
    )


STDIN: list[str] = []
MARKED = ["-i", "marked"]
METRICS = "-m bleu chrf ter", "-m bleu,chrf,ter"
COMMANDS = {
    "json": both(ONE, "", "-f json"),
    "text": both(ONE, "-f text"),
    "width": both(ONE, "-w 8", "-w 8 -f json"),
    "stdin": both(STDIN, "-f text -w 8", "-w 8", stdin="a"),
    "score only": both(ONE, "-b -w 12 -f text", "-b -w 12"),
    "score only json": both(ONE, "-b -w 12", "-b -w 12 -f json"),
    "short": both(ONE, "-f text -sh", "--short"),
    "short of all": both(ONE, f"-f text -sh {METRICS[0]}", f"--short {METRICS[1]}"),
    "all": both(ONE, f"-f text -w 8 {METRICS[0]}", f"-w 8 {METRICS[1]}"),
    "all json": both(ONE, f"-w 8 {METRICS[0]}", f"-w 8 -f json {METRICS[1]}"),
    "all in another order": both(ONE, "-f text -m ter bleu", "-m ter,bleu"),
    "all behind spaces": both(ONE, "-f text -m ter bleu", "-m ter bleu"),
    "references behind": both(["-i", "a", "b"], "-f text -- ref", "-f text -- ref", references=""),
    "systems between": both(
        ["-i", "a", "b"], "-m bleu chrf -f text -- ref ref2", "-m bleu chrf -f text -- ref ref2", references=""
    ),
    "all numbers": both(ONE, f"-b {METRICS[0]} -f text", f"-b {METRICS[1]}"),
    "two references": both(ONE, f"-f text -w 8 {METRICS[0]}", f"-w 8 {METRICS[1]}", "ref ref2"),
    "num-refs": both(ONE, f"-nr 2 -f text -w 8 {METRICS[0]}", f"--num-refs 2 -w 8 {METRICS[1]}", "tabs"),
    "lowercase": both(ONE, "-lc -w 8", "-l -w 8 -f json"),
    **{
        f"tokenizer {name}": both(ONE, f"-tok {name} -w 8 -lc", f"--tokenize {name} -w 8 -l -f json")
        for name in ("13a", "intl", "zh", "char", "none")
    },
    **{
        f"smoothing {name}": both(
            ONE, f"-w 8 -s {name} --confidence --confidence-n 60", f"-w 8 --smooth {name} --confidence 60 -f json"
        )
        for name in ("exp", "floor", "add-k", "none")
    },
    **{
        f"byte order mark {name}": both(
            MARKED, f"-tok {name} -w 8 {METRICS[0]}", f"--tokenize {name} -w 8 -f json {METRICS[1]}"
        )
        for name in ("13a", "intl", "zh", "char")
    },
    "byte order mark in the reference": both(ONE, "-tok zh -w 8", "--tokenize zh -w 8 -f json", "marked"),
    "byte order mark on stdin": both(STDIN, "-w 8", "-w 8 -f json", stdin="marked"),
    "smoothing value": both(
        ONE, "-w 8 -s floor -sv 0.37 -f text", "-w 8 --smooth floor --smooth-value 0.37", "ref2 ref"
    ),
    "chrf": both(
        ONE,
        "-m chrf -cw 2 -cc 4 --chrf-beta 3 --chrf-whitespace --chrf-lowercase --chrf-eps-smoothing -w 9",
        "-m chrf --chrf-word-order 2 --chrf-char-order 4 --chrf-beta 3 --chrf-whitespace --chrf-lowercase "
        "--chrf-eps-smoothing -w 9 -f json",
    ),
    "chrf short": both(ONE, "-m chrf -cw 2 -f text -sh", "-m chrf --chrf-word-order 2 --short"),
    "ter": both(
        ONE,
        "-m ter --ter-normalized --ter-no-punct --ter-case-sensitive --ter-asian-support -w 9",
        "-m ter --ter-normalized --ter-no-punct --ter-case-sensitive --ter-asian-support -w 9 -f json",
    ),
    "interval": both(ONE, f"-ci {METRICS[0]} -cin 120 -f text", f"--confidence 120 {METRICS[1]}"),
    "interval json": both(ONE, f"-ci {METRICS[0]} -cin 120 -w 9", f"--confidence 120 {METRICS[1]} -w 9 -f json"),
    "interval as it comes": both(ONE, "-ci -f text -w 4", "--confidence -w 4"),
    "interval short": both(ONE, "-ci -cin 99 -f text -sh", "--confidence 99 --short"),
    "interval number": both(ONE, "-ci -cin 99 -f text -b", "--confidence 99 -b"),
    "interval around nothing": both(["-i", "none"], "-ci -cin 50", "--confidence 50 -f json"),
    "sentences": both(STDIN, "-sl -f text", "--sentence", stdin="a"),
    "sentences wide": both(ONE, "-sl -w 9 -sh", "--sentence -w 9 --short", "ref ref2"),
    "sentence numbers": both(ONE, "-sl -w 9 -b -m chrf", "--sentence -w 9 -b -m chrf", "ref ref2"),
    "sentences of ter": both(ONE, "-sl -w 9 -m ter", "--sentence -w 9 -m ter"),
    "systems": both(THREE, f"-f text {METRICS[0]}", f"-f text {METRICS[1]}"),
    "systems short": both(THREE, "-f text -sh", "-f text --short"),
    "systems latex": both(THREE, f"-f latex {METRICS[0]}", f"-f latex {METRICS[1]}"),
    "systems json": both(THREE, f"-f json -w 3 {METRICS[0]}", f"-f json -w 3 {METRICS[1]}"),
    "bootstrap": both(THREE, f"-f text -w 3 -pbs -pbsn 200 {METRICS[0]}", f"-f text -w 3 --paired-bs 200 {METRICS[1]}"),
    "bootstrap latex": both(TWO, "-f latex -pbs -pbsn 99", "-f latex --paired-bs 99"),
    # sacrebleu itself fails at the JSON of means of chrF and TER
    "bootstrap json": both(THREE, "-f json -pbs -pbsn 200", "-f json --paired-bs 200"),
    "bootstrap as it comes": both(TWO, "-f json -pbs", "--paired-bs -f json"),
    "randomization": both(THREE, f"-f text -par -parn 150 {METRICS[0]}", f"-f text --paired-ar 150 {METRICS[1]}"),
    "randomization latex": both(TWO, "-f latex -par -parn 99", "-f latex --paired-ar 99"),
    "randomization json": both(THREE, f"-f json -par -parn 201 {METRICS[0]}", f"-f json --paired-ar 201 {METRICS[1]}"),
    "baseline twice": both(["-i", "a", "b", "a"], "-f json -par -parn 99", "-f json --paired-ar 99"),
}

# Loads sacrebleu once, then forks for each command line: {name: [arguments, standard input]} -> {name: output}.
DRIVER = """
import io, json, os, sys, tempfile, traceback
import sacrebleu.sacrebleu
found = {}
for name, (arguments, stdin) in json.load(open(sys.argv[1])).items():
    with tempfile.TemporaryFile() as out:
        child = os.fork()
        if not child:
            code = 1
            try:
                os.dup2(os.open(stdin or os.devnull, os.O_RDONLY), 0)
                os.dup2(out.fileno(), 1)
                sys.argv = ["sacrebleu", "-q", *arguments]
                sacrebleu.sacrebleu.main()
                code = 0
            except SystemExit as end:
                code = end.code or 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0, (name, arguments)
        out.seek(0)
        found[name] = out.read().decode()
json.dump(found, open(sys.argv[2], "w"))
"""


def expected(folder, commands):
    """What sacrebleu writes for each of `commands`."""
    (folder / "commands").write_text(json.dumps({name: [c[0], c[2]] for name, c in commands.items()}))
    kept = {**environment(), "NO_COLOR": "1", "PYTHONWARNINGS": "ignore"}
    for variable in ("SACREBLEU_FORMAT", "SACREBLEU_SEED"):
        kept.pop(variable, None)
    subprocess.run([sys.executable, "-c", DRIVER, "commands", "found"], cwd=folder, env=kept, check=True)
    return json.loads((folder / "found").read_text())


def compared(text):
    """`text` without the explanation below a table, which each says in its own words."""
    table, rest, _ = text.partition("\n\n")
    signatures = [line for line in text.split("\n") if "version:" in line and " = " not in line]
    return text if not rest or text.lstrip()[0] in "[{" else "\n".join([table, *signatures])


def write(folder):
    rng = random.Random(11)
    words = ["the", "The", "cat", "sat", "on", "a", "mat.", "3.5", "1,000", "x-ray,", "don't", "(see)", "„Hut“", "日本"]
    lines = {name: [rng.choices(words, k=rng.choice([1, 3, 6, 11])) for _ in range(40)] for name in ("ref", "ref2")}

    def worse(share):
        return [[word if rng.random() > share else rng.choice(words) for word in line] for line in lines["ref"]]

    lines |= {"a": worse(0.3), "b": worse(0.33), "c": worse(0.6), "none": [["nothing"]] * 40}
    lines["a"][5] = []
    lines["tabs"] = [[" ".join(one) + "\t" + " ".join(two)] for one, two in zip(lines["ref"], lines["ref2"])]
    lines["marked"] = [["\ufeff" + lines["a"][0][0], *lines["a"][0][1:]], *lines["a"][1:]]
    for name, rows in lines.items():
        (folder / name).write_text("".join(" ".join(row) + "\n" for row in rows), encoding="utf-8")


CHOSEN = this_month(COMMANDS, 15)


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("theirs")
    write(folder)
    return expected(folder, {name: COMMANDS[name] for name in CHOSEN})


@pytest.mark.parametrize("name", CHOSEN)
def test_output(name, theirs, tmp_path, call):
    write(tmp_path)
    _, arguments, stdin = COMMANDS[name]
    done = call("bleu", "--signature", "sacrebleu", *arguments, stdin=(tmp_path / stdin).read_bytes() if stdin else b"")
    assert done.code == 0, done.err
    assert compared(theirs[name]).strip()
    assert compared(done.text) == compared(theirs[name])


WMT17 = {name: f"newstest2017.{name}.de" for name in ("LIUM-NMT.4900", "online-B.0", "C-3MA.4959")}


def test_wmt17(tmp_path, call):
    folder = published("wmt17_en_de_systems")
    for path in folder.glob("*.de"):
        lines = path.read_text(encoding="utf-8").split("\n")[:900]  # sacrebleu takes its time
        (tmp_path / path.name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    one, *others = WMT17.values()
    lone, several = ["-i", one], ["-i", one, *others]
    commands = {
        "interval": both(lone, "-ci -cin 100 -f text -w 8 -m bleu chrf", "--confidence 100 -w 8 -m bleu,chrf"),
        "systems": both(several, "-f latex -w 6", "-f latex -w 6"),
        "bootstrap": both(several, "-f json -pbs -pbsn 100", "-f json --paired-bs 100"),
        "randomization": both(several, "-f json -par -parn 100", "-f json --paired-ar 100"),
        "sentences": both(lone, "-sl -w 9", "--sentence -w 9"),
        "lowercase": both(lone, "-lc -tok intl -w 9", "-l --tokenize intl -w 9 -f json"),
    }
    reference = "newstest2017-ref.de"
    commands = {
        name: ([reference, *theirs[1:]], [reference, *ours[1:]], stdin)
        for name, (theirs, ours, stdin) in commands.items()
    }
    found = expected(tmp_path, commands)
    for name, (_, arguments, _) in commands.items():
        done = call("bleu", "--signature", "sacrebleu", *arguments)
        assert (done.code, compared(done.text)) == (0, compared(found[name])), name
