"""Who may ask a server: addresses of this machine, and keys of other clients."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from collections.abc import Sequence

from nlptools.errors import DataError, UsageError
from nlptools.files import streams

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "::1")
SHORTEST = 16  # characters of a key; a shorter one can be guessed
_LONGEST = 1024


def is_loopback(host: str) -> bool:
    """Whether only programs on this machine can connect to the address `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name, which may mean any address
        return host == "localhost"


def check_access(host: str, key_file: str | None) -> None:
    """Raise UsageError for an address that other machines reach, without keys."""
    if not is_loopback(host) and key_file is None:
        raise UsageError(
            f"--host {host} lets other machines connect, and there are no keys",
            hint="--api-key-file FILE, with a key on each line; openssl rand -hex 32 makes one",
        )


class ApiKeys:
    """The keys of clients; only their SHA-256 sums are kept."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._sums = [_sum(key.encode()) for key in keys]

    @classmethod
    def read(cls, path: str) -> ApiKeys:
        """The keys in a file, one on each line.

        Raises:
            InputError: there is no such file.
            DataError: a line is no key, or there is none.
        """
        keys = []
        for number, line in enumerate(streams.lines(path), 1):
            if not SHORTEST <= len(line) <= _LONGEST or not line.isascii() or not line.isprintable() or " " in line:
                message = f"not a key, expected {SHORTEST} to {_LONGEST} printable ASCII characters without spaces"
                raise DataError(message, path=path, line=number)
            keys.append(line)
        if not keys:
            raise DataError("no keys, expected one on each line", path=path)
        return cls(keys)

    def admits(self, authorization: bytes | None) -> bool:
        """Whether the value of a header `Authorization` is `Bearer KEY` with a known key.

        The time does not depend on the keys: sums are compared in constant time, and all of them.
        """
        kind, _, key = (authorization or b"").partition(b" ")
        given = _sum(key.strip())
        equal = [hmac.compare_digest(given, known) for known in self._sums]
        return kind.lower() == b"bearer" and any(equal)


def _sum(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
