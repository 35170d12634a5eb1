"""The rules of the house: who imports whom, where names may stand, sizes, what a command loads, fresh man pages."""

from __future__ import annotations

import ast
import functools
import glob
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from configparser import ConfigParser
from pathlib import Path

import pytest
from conftest import ROOT, environment
from tiny_bundles import words_bundle
from tiny_encoders import encoder_bundle

from nlptools.cli import COMMANDS

PACKAGE = ROOT / "nlptools"
FILES = sorted(PACKAGE.rglob("*.py"))
SOURCES = {path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8") for path in FILES}
MODULE_FILES = {  # dotted name -> file
    ".".join(("nlptools", *name.removesuffix(".py").removesuffix("__init__").rstrip("/").split("/"))).rstrip("."): name
    for name in SOURCES
}

# Rooms: the packages and modules at the top. A module imports from rooms of lower levels, and from its own room.
LEVELS = (
    ("__init__", "version", "json_types", "errors", "arrays"),
    ("messages",),
    ("configs", "environment", "files"),
    ("text", "formats", "sequences", "plots"),
    ("compute", "corpora", "metrics"),
    ("layers",),
    ("models", "vectors"),
    ("batches", "bundle"),
    ("tasks",),
    ("inference",),
    ("training", "serving", "converters"),
    ("cli", "ray"),
    ("__main__",),
)
TORCH_ROOMS = {"compute", "layers", "models", "bundle", "tasks", "inference", "training", "converters"}

# What may stand only in these files ("" is nowhere). A folder ends with a slash.
NAMES = {
    "print": ("cli/",),
    "sys.stdout": ("cli/", "files/standard.py"),
    "torch.cuda": ("compute/backend.py",),
    "torch.distributed": ("compute/backend.py", "compute/cluster.py", "compute/sharding.py"),
    "torch.autocast": ("compute/backend.py",),
    "torch.compile": ("compute/backend.py",),
    "torch.ops": ("compute/kernels/",),
    "torch.autograd.Function": ("compute/kernels/",),
    "torch._softmax_backward_data": ("compute/kernels/",),
    "torch.load": (),
    "eval": (),
    "exec": (),
}
ATTRIBUTES = {name.rpartition(".")[2] for name in NAMES}
MODULES = {
    "click": ("cli/",),
    "sentencepiece": ("text/packages.py",),
    "tokenizers": ("text/packages.py",),
    "rich": (),
    "matplotlib": ("plots/", "vectors/maps/picture.py"),
    "mpl_toolkits": ("vectors/maps/picture.py",),
    "sklearn": ("vectors/maps/reduction.py",),
    "pyarrow": ("formats/records.py",),
    "PIL": ("files/images.py",),
    "jinja2": ("text/template_worker.py",),
    "hnswlib": ("vectors/graph_index.py",),
    "ray": ("ray.py",),
    "umap": ("vectors/maps/reduction.py",),
    "gguf": ("converters/gguf_export.py", "inference/gguf_bundle.py"),
    **dict.fromkeys(("onnx", "onnxscript", "onnxruntime"), ("converters/onnx_export.py",)),
    **dict.fromkeys(("pickle", "cPickle", "joblib", "dill", "shelve", "marshal", "cloudpickle"), ()),
}
WORDS = {"allow_pickle": (), ".splitlines(": ()}

MOST_LINES, MOST_LINES_OF_FUNCTION = 400, 60
LONGER: dict[str, int] = {}  # files that hold one idea and need the room
HEAVY = ("torch", "numpy", "rich", "sentencepiece", "tokenizers", "matplotlib", "safetensors")


@functools.cache
def tree(name: str) -> ast.Module:
    """Of a file; parsed when a test first asks for one, not when tests are collected."""
    return ast.parse(SOURCES[name])


def allowed(name: str, places: tuple[str, ...]) -> bool:
    return any(name.startswith(place) if place.endswith("/") else name == place for place in places)


@functools.cache
def nodes(name: str) -> list[ast.AST]:
    """The parts of a file that tests look at, wherever they stand."""
    kinds = (ast.Import, ast.ImportFrom, ast.Attribute, ast.Call, ast.FunctionDef, ast.AsyncFunctionDef)
    return [node for node in ast.walk(tree(name)) if isinstance(node, kinds)]


def imports(found: Iterable[ast.AST]) -> Iterator[tuple[str, int]]:
    """(module, line) of every import among these."""
    for node in found:
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: imports are absolute"
            yield str(node.module), node.lineno
            if str(node.module).startswith("nlptools"):
                full = ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)
                yield from (pair for pair in full if pair[0] in MODULE_FILES)


def edges(name: str) -> Iterator[tuple[str, int]]:
    """(file, line) of every import of the package's own modules. The root `__init__` re-exports, so it is left out."""
    for module, line in imports(nodes(name)) if name != "__init__.py" else ():
        there = MODULE_FILES.get(module)
        if there is not None and there != name and not there.endswith("__init__.py"):
            yield there, line


def room(name: str) -> str:
    """The package or the module at the top that a file belongs to."""
    return name.split("/")[0].removesuffix(".py")


def level(name: str) -> int:
    levels = [i for i, rooms in enumerate(LEVELS) if room(name) in rooms]
    assert levels, f"{name} has no level: add its room to the table at the top of this test"
    return levels[0]


def test_imports_go_down():
    wrong = [
        f"{name}:{line} imports {there}"
        for name in SOURCES
        for there, line in edges(name)
        if room(there) != room(name) and level(there) >= level(name)
    ]
    assert not wrong, "only from lower levels"


def test_no_circles():
    """Not even for types: a circle under TYPE_CHECKING, too, says that something lives in the wrong room."""
    below = {name: {there for there, _ in edges(name)} for name in SOURCES}
    while free := [name for name, those in below.items() if not those & below.keys()]:
        for name in free:
            del below[name]
    assert not below, f"these import each other, or what does: {sorted(below)}"


def test_torch_begins_where_it_should():
    wrong = [
        f"{name}:{line}"
        for name in SOURCES
        if room(name) not in TORCH_ROOMS
        for module, line in imports(nodes(name))
        if module.split(".")[0] == "torch"
    ]
    assert not wrong, "these rooms have no torch"


LIGHT = {"nlptools", "nlptools.version", "nlptools.errors", "nlptools.messages", "nlptools.files"}
LIGHT |= {f"nlptools.files.{name}" for name in ("atomic", "hub_cache", "input_parts", "layout_names")}
LIGHT |= {f"nlptools.files.{name}" for name in ("progress", "run_paths", "standard", "streams")}


def test_top_of_a_command_file_is_light():
    wrong = []
    for name in SOURCES:
        if not name.startswith("cli/"):
            continue
        for module, line in imports(tree(name).body):
            light = module.split(".")[0] in sys.stdlib_module_names or module in LIGHT
            light |= module.startswith(("click", "nlptools.configs", "nlptools.cli"))
            wrong += [] if light else [f"{name}:{line} imports {module}"]
    assert not wrong, "import it where the work is done"


def test_names_stand_where_they_may():
    wrong = []
    for name in SOURCES:
        for node in nodes(name):
            said = None
            if isinstance(node, ast.Attribute) and node.attr in ATTRIBUTES:
                said = ast.unparse(node)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                said = node.func.id
            if said in NAMES and not allowed(name, NAMES[said]):
                wrong.append(f"{name}:{node.lineno}: {said}")
        for module, line in imports(nodes(name)):
            first = module.split(".")[0]
            fine = first not in MODULES or allowed(name, MODULES[first])
            fine &= not module.startswith("torch.distributed") or allowed(name, NAMES["torch.distributed"])
            wrong += [] if fine else [f"{name}:{line} imports {module}"]
        wrong += [
            f"{name}: {word}" for word, places in WORDS.items() if word in SOURCES[name] and not allowed(name, places)
        ]
    assert not wrong


def test_sizes():
    wrong = []
    for name in SOURCES:
        lines = SOURCES[name].count("\n")
        if lines > LONGER.get(name, MOST_LINES):
            wrong.append(f"{name} has {lines} lines: which idea is hiding in it?")
        for node in nodes(name):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                length = (node.end_lineno or 0) - node.lineno + 1
                if length > MOST_LINES_OF_FUNCTION:
                    wrong.append(f"{name}:{node.lineno}: {node.name} has {length} lines")
    assert not wrong


def test_no_public_class_name_twice():
    places: dict[str, list[str]] = {}
    for name in SOURCES:
        for node in tree(name).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(name)
    assert not {name: where for name, where in places.items() if len(where) > 1}


def test_every_module_says_what_it_is():
    assert not [name for name in SOURCES if not ast.get_docstring(tree(name))]


def test_packages_hold_only_a_docstring():
    for name in SOURCES:
        if name.endswith("/__init__.py") and name not in ("configs/__init__.py", "cli/__init__.py"):
            assert len(tree(name).body) == 1, f"{name}: nothing but a docstring"


def tracked() -> list[Path]:
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True)
    if done.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in done.stdout.decode().split("\0") if name and (ROOT / name).is_file()]


def test_no_file_speaks_of_where_it_was_written():
    parts = ("/wo" + "rk/", r"\.\./sha" + "red", "issue" + r" #\d")
    forbidden = re.compile("|".join(parts))
    for path in tracked():
        found = forbidden.search(path.read_text(encoding="utf-8", errors="replace"))
        assert not found, f"{path}: {found and found.group()}"


# -- commands ---------------------------------------------------------------------------------------------------------


LOADED = """
import json, os, sys
for name in sys.argv[1:]: __import__(name)
from nlptools.cli import main
for line in sys.stdin:
    args = json.loads(line)
    sys.argv = ["nlptools", *args]
    sys.stdout.flush()
    if not (child := os.fork()):
        os.dup2(os.open("input", os.O_RDONLY), 0)
        sys.stdin = open(0, closefd=False)
        answer = os.dup(1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        try: __import__(args[1]) if args[0] == "import" else main()
        except SystemExit as end: assert not end.code, end.code
        os.write(answer, (" ".join(sys.modules) + "\\n").encode())
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, line
"""


def loaded(commands: list[list[str]], cwd: Path, stdin: bytes = b"", first: tuple[str, ...] = ()) -> list[set[str]]:
    """The modules that each command has imported when it has succeeded, in a process that has imported `first`.

    `import MODULE` is a command as well.
    """
    (cwd / "input").write_bytes(stdin)
    lines = "".join(json.dumps(args) + "\n" for args in commands)
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *first], input=lines, capture_output=True, cwd=cwd, env=environment(), text=True
    )
    assert done.returncode == 0, done.stderr
    found = [set(line.split()) for line in done.stdout.split("\n")[:-1]]
    assert len(found) == len(commands)
    return found


@pytest.mark.sampled(law="a command imports what it needs")
def test_help_loads_nothing_heavy(tmp_path):
    commands = [["--help"], ["--version"], *([name, "--help"] for name in COMMANDS)]
    for args, modules in zip(commands, loaded(commands, tmp_path), strict=True):
        assert not modules & set(HEAVY), args


# commands that run without these, besides torch and rich
WITHOUT = {
    "bleu text": "sentencepiece tokenizers matplotlib",
    "evaluate -m accuracy -r text": "sentencepiece tokenizers matplotlib",
    "plot log.jsonl": "numpy matplotlib",
    "neighbors v.txt": "sentencepiece tokenizers matplotlib",
    "eval-vectors v.txt --analogies q": "sentencepiece tokenizers matplotlib",
    "align-vectors v.txt v.txt -d d": "sentencepiece tokenizers matplotlib",
    "convert v.txt v.vec": "sentencepiece tokenizers matplotlib",
    "project v.txt": "sentencepiece tokenizers matplotlib sklearn umap",
    "tokenize": "numpy sentencepiece tokenizers",
    "tokenize -t 13a": "sentencepiece tokenizers",
    "build-vocab": "sentencepiece tokenizers",
    "split": "numpy sentencepiece tokenizers",
    "extract": "sentencepiece tokenizers matplotlib",
    "dedupe": "sentencepiece tokenizers matplotlib",
    "prompt -t equals": "numpy sentencepiece tokenizers jinja2",
    "phrases": "sentencepiece tokenizers matplotlib",
    "walks edges": "sentencepiece tokenizers matplotlib",
}


@pytest.mark.sampled(law="a command imports what it needs")
def test_half_of_the_house_runs_without_torch(tmp_path):
    (tmp_path / "text").write_text("one two three four\n")
    (tmp_path / "v.txt").write_text("2 2\none 1 2\ntwo 2 1\n")
    (tmp_path / "q").write_text("one two one two\n")
    (tmp_path / "edges").write_text("one two\n")
    (tmp_path / "d").write_text("one two\n")
    (tmp_path / "log.jsonl").write_text('{"kind": "train", "step": 1, "loss": 2}\n')
    commands = [line.split() for line in WITHOUT]
    every = loaded(commands, tmp_path, b"one two three four\n")
    for (line, without), modules in zip(WITHOUT.items(), every, strict=True):
        found = modules & {"torch", "rich", *without.split()}
        assert not found, f"{line}: {found}"


@pytest.mark.sampled(law="a command imports what it needs")
def test_commands_with_torch_load_only_their_own_part(tmp_path):
    """A model of one kind does not load the modules of the others, which would cost tenths of a second."""
    words_bundle(tmp_path / "lm")
    encoder_bundle(tmp_path / "bert")
    cases = (
        (["score", "lm"], ("inference.translation", "inference.embedding", "tasks")),
        (["generate", "lm"], ("inference.translation", "inference.embedding", "metrics", "tasks", "models.encoders")),
        (
            ["embed", "bert", "--to", "tsv"],
            ("inference.translation", "inference.prediction", "metrics", "tasks", "formats"),
        ),
        (["import", "nlptools.inference.prediction"], ("inference.translation",)),
    )
    every = loaded([args for args, _ in cases], tmp_path, b"w1 w2\n", first=("torch",))
    for (args, without), modules in zip(cases, every, strict=True):
        wrong = [m for m in modules for name in without if f"{m}.".startswith(f"nlptools.{name}.")]
        assert not wrong, f"{args[0]}: {wrong}"


def test_a_command_and_its_line_in_the_list_agree():
    from nlptools.cli.manual import pages

    for name in COMMANDS:
        command = pages.load(name)
        assert (command.help or "").split("\n")[0] == COMMANDS[name][1]
        assert COMMANDS[name][1].endswith("."), name
        assert command.page.examples or name == "help"
        assert set(command.exit_codes) <= set(pages.EXIT_STATUS), name


def test_every_switch_has_its_no_form():
    import click

    from nlptools.cli.manual import pages

    actions = {"dump_config", "short_help"}  # does something instead; there is nothing to switch off
    for name in COMMANDS:
        for option in pages.load(name).params:
            if isinstance(option, click.Option) and option.is_flag and option.name not in actions:
                assert any(flag.startswith("--no-") for flag in option.secondary_opts), f"{name} {option.opts}"


def test_manual_pages_and_completions_are_fresh(tmp_path):
    """`python -m nlptools.cli.manual.pages man/` writes them."""
    from nlptools.cli.manual import pages

    pages.write(tmp_path / "man", tmp_path / "completions")
    for folder in ("man", "completions"):
        made = {path.name: path.read_bytes() for path in (tmp_path / folder).iterdir()}
        kept = {path.name: path.read_bytes() for path in (ROOT / folder).iterdir()}
        assert made.keys() == kept.keys()
        stale = [name for name in made if made[name] != kept[name]]
        assert not stale, f"stale: {stale}; run python -m nlptools.cli.manual.pages man/"


def test_manual_pages_keep_tables_headings_and_names_of_values():
    from nlptools.cli.manual import pages

    written = pages.pages()
    assert ".EX\ntldr  " in written["nlptools-prompt.1"]
    assert "\n\\fB\\-\\-words\\fR \\fILABEL=WORD,\\fR...\n" in written["nlptools-prompt.1"]
    assert "\n.SS Words\n" in written["nlptools-language-models.7"]
    for name, page in written.items():
        for line in page.split("\n"):
            assert not line.startswith(("\\eb", "###", "```")), f"{name}: {line}"


def test_the_wheel_will_hold_manual_pages_and_completions():
    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    patterns = [line for value in config["options.data_files"].values() for line in value.split()]
    assert patterns
    for pattern in patterns:
        assert glob.glob(str(ROOT / pattern)), f"setup.cfg: no file matches {pattern}"
    installed = {Path(path).name for pattern in patterns for path in glob.glob(str(ROOT / pattern))}
    assert {f"nlptools-{name}.1" for name in COMMANDS} <= installed
