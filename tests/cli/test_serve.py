"""serve: the official client talks to it, and it ends as other commands do."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Run, environment


@pytest.fixture
def server(words: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The address of a server, and its process."""
    command = [sys.executable, "-m", "nlptools", "serve", str(words), "--port", "0", "--threads", "1", "--name", "tiny"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment()) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        match = re.search(r"tiny: (http://127\.0\.0\.1:\d+/v1)", line)
        assert match, line + process.stderr.read()
        yield match[1], process
        process.kill()


def test_the_official_client_talks_to_it(server: tuple[str, subprocess.Popen[str]]) -> None:
    openai = pytest.importorskip("openai")
    address, process = server
    client = openai.OpenAI(base_url=address, api_key="none", max_retries=0, timeout=60)
    assert [model.id for model in client.models.list()] == ["tiny"]
    whole = client.completions.create(model="tiny", prompt="w1 w2", max_tokens=5, temperature=0, logprobs=1)
    assert whole.choices[0].logprobs.token_logprobs and whole.usage.completion_tokens <= 5
    pieces = client.completions.create(model="tiny", prompt="w1 w2", max_tokens=5, temperature=0, stream=True)
    assert "".join(piece.choices[0].text for piece in pieces) == whole.choices[0].text
    assert len(client.embeddings.create(model="tiny", input=["w1", "w2"]).data) == 2
    with pytest.raises(openai.BadRequestError, match="chat template"):
        client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "w1"}])
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (-signal.SIGTERM, "")


def test_what_cannot_be_served_is_one_line(call: Run, words: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = call("serve", words, "--port", taken.getsockname()[1])
    assert done.code == 69 and "address already in use" in done.err and done.err.count("\n") == 1
    done = call("serve", tmp_path / "nothing", "--port", 0)
    assert done.code == 66 and done.err.count("\n") == 1
