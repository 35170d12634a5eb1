"""Commands in processes of their own that do not import PyTorch again: forks of a server that has imported it.

The server also imports the modules of the package that most commands load: those that open models, and those that train.
Streams, working directory, environment, and exit status or signal are those of `python -m nlptools`, which they replace
in tests of what commands do. Tests of start-up, imports, locales, closed streams and signals start interpreters.

    python forks.py ADDRESS serve           a server on this socket of the file system, until it is killed
    python forks.py ADDRESS run [ARG...]    `nlptools ARG...`, by the server; or a Python program, if the first ARG is its file
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

HEAD = 8  # bytes of the length of a request
LOADED = (
    *("numpy.random", "tokenizers", "torch.utils._device"),
    *(f"nlptools.cli.{name}" for name in ("finetune", "generate", "options", "predict", "score", "task_variants")),
    *("nlptools.inference.language_model", "nlptools.inference.score_rows", "nlptools.metrics.glue"),
    *("nlptools.models.encoders.t5", "nlptools.models.translation.transformer_config"),
    *("nlptools.serving.completion_answers", "nlptools.serving.completions", "nlptools.text.tokenizer_pairs"),
    *("nlptools.tasks.classify.task", "nlptools.training.finetuning.finetune", "nlptools.training.language_model"),
    *("nlptools.training.preferences.ppo", "nlptools.training.word_vectors.train"),
)


@contextmanager
def server(address: str, env: dict[str, str]) -> Iterator[list[str]]:
    """The words that stand for `nlptools` while a server listens at `address`, the name of a file to be created."""
    import signal
    import subprocess

    command = [sys.executable, __file__, address, "serve"]
    with subprocess.Popen(
        command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == b"ready\n"
            # -I and -S: a client needs the standard library alone
            yield [sys.executable, "-I", "-S", __file__, address, "run"]
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # and what a failed test may have left


def serve(address: str) -> None:
    import gc
    import importlib
    import pkgutil
    import signal
    import socket

    import torch  # noqa: F401

    from nlptools.models import huggingface
    from nlptools.text import words

    for name in LOADED:
        importlib.import_module(name)
    for module in pkgutil.iter_modules(huggingface.__path__, f"{huggingface.__name__}."):
        importlib.import_module(module.name)
    words.split_words("a")  # compiles expressions
    gc.freeze()  # a search for cycles in a fork would copy the pages of all objects

    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen()
        os.write(1, b"ready\n")
        signal.signal(signal.SIGCHLD, reap)
        while True:
            connection, _ = listening.accept()
            if os.fork() == 0:
                break
            connection.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    head, descriptors, _, _ = socket.recv_fds(connection, HEAD, 3)
    with connection.makefile("rb") as file:
        request = file.read(int.from_bytes(head, "big"))
    client = int.from_bytes(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[:4], sys.byteorder)
    if child := os.fork():
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        connection.sendall(str(status).encode())
        os._exit(0)
    connection.close()
    with open(f"{address}.{client}", "w") as file:
        file.write(str(os.getpid()))
    become(request, descriptors)


def reap(*_: object) -> None:
    """Take leave of forks that have ended."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def become(request: bytes, descriptors: list[int]) -> None:
    """Turn this process into a command, with these three streams."""
    import atexit
    import runpy

    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    # those of the server remember which kinds of files they were opened for
    sys.stdin = sys.__stdin__ = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    folder, count, *words = request.split(b"\0")
    os.chdir(folder)
    os.environ.clear()
    os.environb.update(setting.split(b"=", 1) for setting in words[int(count) :])
    args = [*map(os.fsdecode, words[: int(count)])]
    program = args[:1] if args[:1] and args[0].endswith(".py") else []
    sys.argv = args if program else ["nlptools", *args]
    try:
        if program:
            runpy.run_path(program[0], run_name="__main__")
            sys.stdout.flush()
            raise SystemExit(0)
        runpy.run_module("nlptools", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        atexit._run_exitfuncs()
        sys.stderr.flush()
        os._exit(end.code)  # an interpreter that ends visits every object of PyTorch, for half a second


def ask(address: str, args: list[str]) -> None:
    """Have the server run a command with the streams of this process, and end as it does."""
    import socket

    settings = [name + b"=" + value for name, value in os.environb.items()]
    words = [os.getcwdb(), str(len(args)).encode(), *map(os.fsencode, args), *settings]
    request = b"\0".join(words)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        socket.send_fds(connection, [len(request).to_bytes(HEAD, "big")], [0, 1, 2])
        connection.sendall(request)
        status = int(connection.recv(HEAD))
    if status < 0:
        import signal

        if -status != signal.SIGKILL:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


if __name__ == "__main__":
    _, address, role, *args = sys.argv
    if role == "serve":
        serve(address)
    else:
        ask(address, args)
