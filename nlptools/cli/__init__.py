"""The command line: `main`, the group that imports commands lazily, and the mapping of errors to exit codes.

The file of command `train-lm` is `cli/train_lm.py` and its object is `command`. A command file imports only click, the
standard library, `cli.options` and `configs` at its top; the work is imported inside the callback.
"""

from __future__ import annotations

import gc
import io
import os
import signal
import sys
import traceback
from importlib import import_module

import click

from nlptools import messages
from nlptools.cli import usage
from nlptools.errors import NlptoolsError, NotInstalled, reason, visible
from nlptools.files import atomic, standard
from nlptools.version import __version__

# Name -> (section, one-line help). A test checks that the line equals the first line of the command's help.
COMMANDS = {
    "tokenize": ("Text", "Split text into tokens or ids, or join them again."),
    "split": ("Text", "Split text into sentences, one per line."),
    "build-vocab": ("Text", "Learn a vocabulary from text: words, or SentencePiece, WordPiece, byte-level BPE pieces."),
    "phrases": ("Text", "Join words that belong together into one token, such as new_york."),
    "extract": ("Text", "Summarize each line by its most important sentences."),
    "walks": ("Text", "Draw random walks over a graph, as node2vec and DeepWalk do."),
    "train-w2v": ("Training", "Train word vectors on sequences of tokens."),
    "train-lm": ("Training", "Train a language model on text."),
    "train-seq2seq": ("Training", "Train a translation or summarization model on pairs of texts."),
    "pretrain-bert": ("Training", "Train a BERT or an ELECTRA on text."),
    "finetune": (
        "Training",
        "Train a model for a task: labels, tags, trees, answers, choices, instructions, rewards, preferences.",
    ),
    "train-reward": ("Training", "Train a reward model on ranked responses."),
    "train-ppo": ("Training", "Train a language model with rewards for its own samples."),
    "predict": ("Using models", "Run a fine-tuned model on new examples."),
    "rerank": ("Using models", "Sort the texts of each query by how well they answer it."),
    "prompt": ("Using models", "Write prompts for language models from labelled data."),
    "generate": ("Using models", "Continue prompts with a language model, or translate."),
    "chat": ("Using models", "Talk to a language model."),
    "serve": ("Using models", "Answer requests over HTTP like OpenAI's API."),
    "score": (
        "Using models",
        "Write log-probabilities of lines and tokens, surprisals of words, or the perplexity of a text.",
    ),
    "fill": ("Using models", "Fill the masks of a text with the most probable words."),
    "attend": (
        "Using models",
        "Show what the words of a text attend to: as numbers, as pictures or as a page.",
    ),
    "distill-static": ("Training", "Make static token vectors from an encoder, for fast sentence vectors."),
    "cluster": ("Using models", "Group lines by the similarity of their vectors."),
    "dedupe": ("Text", "Leave out lines that nearly repeat an earlier line."),
    "embed": ("Using models", "Turn lines, words or tokens into vectors."),
    "neighbors": (
        "Using models",
        "Find the nearest words of words and expressions, or the nearest lines of a text.",
    ),
    "convert": ("Using models", "Convert word vectors from one format to another."),
    "align-vectors": ("Using models", "Rotate the word vectors of one language onto another's."),
    "project": ("Using models", "Draw a map of word vectors: a table, a picture, a page or a projector bundle."),
    "export": ("Using models", "Write an encoder or a fine-tuned model as an ONNX file."),
    "describe": ("Using models", "Show the contents of models, word vectors and tokenizers."),
    "bleu": ("Evaluation", "Score translations with BLEU, chrF and TER."),
    "evaluate": (
        "Evaluation",
        "Score predictions: labels, numbers, tags, answers, chains, texts, log-probabilities, rankings.",
    ),
    "eval-vectors": ("Evaluation", "Score word vectors on analogies and on word similarity."),
    "plot": ("Evaluation", "Draw the training curves of runs."),
    "help": ("Help", "Show the manual page of a command or a topic."),
}


class LazyGroup(click.Group):
    """Imports the file of a command only when that command runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"nlptools.cli.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches

            close = get_close_matches(args[0], COMMANDS, n=1)
            ctx.fail(f"no such command: {args[0]}{usage.nearest(close)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, (section, summary) in COMMANDS.items():
            sections.setdefault(section, []).append((name, summary))
        for section, rows in sections.items():
            with formatter.section(section):
                formatter.write_dl(rows)


@click.command(
    cls=LazyGroup,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
        "auto_envvar_prefix": "NLPTOOLS",
    },
    epilog="'nlptools help COMMAND' shows a manual page; 'nlptools help pipelines' shows commands that work together.",
)
@click.version_option(__version__, "--version", message="nlptools %(version)s")
def group() -> None:
    """The coreutils of neural NLP: subcommands that read and write text over stdin and stdout."""


def main() -> None:
    """Run the command line and exit with the status of the outcome (see `nlptools.errors`)."""
    standard.plug_closed()
    _default_signals()
    if sys.stdout is None:
        sys.stdout = standard.ClosedOutput()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", newline="\n", errors="backslashreplace")
    code = run(sys.argv[1:])
    messages.finish()
    _leave(code)


def run(arguments: list[str]) -> int:
    """Run one command, report errors on standard error, and return the exit status."""
    messages.settings.command = next((a for a in arguments if not a.startswith("-")), "")
    code = 0
    try:
        code = int(group.main(arguments, prog_name="nlptools", standalone_mode=False) or 0)
        if sys.stdout is not None:
            sys.stdout.flush()
    except click.exceptions.Exit as error:
        code = error.exit_code
    except click.Abort:
        code = _die(signal.SIGINT)
    except click.exceptions.NoArgsIsHelpError as error:
        sys.stderr.write(error.format_message() + "\n")
        code = 2
    except click.UsageError as error:
        code = _report(usage.message(error), usage.hint(error), error.exit_code)
    except NlptoolsError as error:
        code = _report(str(error), error.hint, error.exit_code)
    except KeyboardInterrupt:
        code = _die(signal.SIGINT)
    except BrokenPipeError:
        code = _die(signal.SIGPIPE)
    except OSError as error:
        code = _report(_os_error(error), None, 74)
    except ModuleNotFoundError as error:
        missing = NotInstalled(error)
        code = _report(str(missing), missing.hint, missing.exit_code)
    except Exception as error:
        code = _internal(error)
    return code


def _default_signals() -> None:
    """Let Ctrl-C, SIGTERM and a closed pipe end the process at once and silently, as with `cat`, and remove temporary files.

    Training commands install their own handlers (training/engine/stop.py).
    """
    for number in (signal.SIGINT, signal.SIGPIPE):
        if signal.getsignal(number) is not signal.SIG_IGN or number == signal.SIGPIPE:
            signal.signal(number, signal.SIG_DFL)
    atomic.remove_on_signals(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGPIPE)


def _die(number: signal.Signals) -> int:
    """Terminate by the signal itself, so that shells see the real status."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return 128 + number


def _os_error(error: OSError) -> str:
    place = f"{error.filename}: " if error.filename else ""
    return f"{place}{reason(error)}"


def _report(message: str, hint: str | None, code: int) -> int:
    if debugging():
        sys.stderr.write("\n".join(map(visible, traceback.format_exc().split("\n"))))
    if message:
        messages.error(message, hint)
    return code


def _internal(error: Exception) -> int:
    if isinstance(error, MemoryError):
        return _report("out of memory", "use a smaller model, batch or --threads", 70)
    name = _crash_log(f"nlptools {__version__}\n{sys.argv}\n\n{traceback.format_exc()}")
    text = " ".join(str(error).split()) or type(error).__name__
    return _report(
        f"internal error: {type(error).__name__}: {text[:300]}",
        f"please report it with the traceback in {name}; --debug prints it"
        if name
        else "please report it with the traceback, which --debug prints: there is no place for a crash log",
        70,
    )


def _crash_log(text: str) -> str | None:
    """Write a file among the temporary files and return its name; None if that is impossible, as on a full disk."""
    import tempfile

    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="nlptools-crash-", suffix=".log", delete=False, encoding="utf-8", errors="backslashreplace"
        ) as log:
            log.write(text)
    except OSError:
        return None
    return log.name


def debugging() -> bool:
    """Whether tracebacks are requested."""
    return "--debug" in sys.argv or os.environ.get("NLPTOOLS_DEBUG", "") not in ("", "0")


def _leave(code: int) -> None:
    """Exit, without a traceback if standard output can no longer be flushed."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        if code == 0:
            code = 141 if isinstance(error, BrokenPipeError) else _report(f"<stdout>: {_os_error(error)}", None, 74)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    gc.freeze()  # else the interpreter, as it ends, would look for cycles among all objects of PyTorch for 0.4 seconds
    sys.exit(code)
