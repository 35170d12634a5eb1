"""Random sentences in CoNLL-U whose annotation follows from the words: a tiny model learns it in seconds."""

from __future__ import annotations

import random
from pathlib import Path

KINDS = {"w": ("NOUN", "Number=Sing"), "good": ("ADJ", "Degree=Pos"), "bad": ("VERB", "_")}


def sentence(rng: random.Random, extras: bool = False) -> list[str]:
    """The lines of a sentence: `bad` is the root, a noun depends on it, and `good` on the noun after it."""
    words: list[str] = []
    for _ in range(rng.randrange(1, 4)):
        words += ["good"] * rng.randrange(2) + [f"w{rng.randrange(20)}"]
    words.insert(0 if rng.random() < 0.5 else len(words), "bad")
    root = words.index("bad") + 1
    lines = [f"# text = {' '.join(words)}", "#", "# spaces  and\ttabs "] if extras else []
    for number, word in enumerate(words, 1):
        upos, feats = KINDS[word if word in KINDS else "w"]
        head = 0 if number == root else number + 1 if word == "good" else root
        relation = "root" if not head else "amod" if word == "good" else "nsubj" if number < root else "obj:late"
        if extras and rng.random() < 0.3:
            last = min(len(words), number + 1)
            lines.append(f"{number}-{last}\tun it\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No")
        lines.append(f"{number}\t{word}\t{word}\t{upos}\tX{upos}\t{feats}\t{head}\t{relation}\t{head}:{relation}\tM=1")
        if extras and rng.random() < 0.2:
            lines.append(f"{number}.1\tempty\t_\t_\t_\t_\t_\t_\t0:root\t_")
    return [*lines, ""]


def file(path: Path, count: int, seed: int = 0, extras: bool = False) -> Path:
    """A file of random sentences; `extras`: with comments, multiword tokens and empty nodes."""
    rng = random.Random(seed)
    path.write_text("".join(f"{line}\n" for _ in range(count) for line in sentence(rng, extras)), encoding="utf-8")
    return path
