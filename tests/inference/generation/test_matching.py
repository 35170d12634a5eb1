"""Texts that match a regular expression: the automaton beside `re`, and what is generated."""

from __future__ import annotations

import itertools
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Run
from tiny_bundles import bytes_bundle, words_bundle

import nlptools
from nlptools.configs.generation import Generate
from nlptools.errors import UsageError
from nlptools.inference.generation.automaton import DEAD, TextAutomaton, TokenAutomaton, Trie
from nlptools.inference.generation.requests import CompletionRequest

PATTERNS = [
    *(r"a*b", r"(ab|ba){1,2}", r"[^a]+", r"é+|b", r".{2}", r"(?i:B)a?", r"a\nb|ab", r"[é-ü]*"),
    *(r"^(?:ab?|é)$", r"\Aa+\Z", r"^a|b$", r"(?=ab).+|(?!a)é.", r"(?i)[É-Ü]b|[^B\n]{2}", r"(?s:.){2}.", r"a??b+?"),
    *(
        r"[]b]a*",
        r"[\]\-é]",
        r"[b-]a",
        r"\x61[\u00e9\n]",
        r"a{,2}b",
        r"(?P<x>a|b)é?",
        r"a(?#no)b",
        r"\N{LATIN SMALL LETTER A}",
    ),
    *(r"(a*)*b", r"(?:a?){3}", r"[^é\n]|", r"(?:(?=.b)a|é)b?", r"\141\012?", r"(?!(?:ab|b)).*", r"a{2,}", r"(|a)(b|)"),
]
TEXTS = ["".join(parts) for n in range(4) for parts in itertools.product("abé\n", repeat=n)]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_texts_are_accepted_byte_by_byte_as_by_re(pattern: str) -> None:
    automaton = TextAutomaton(pattern)
    for text in TEXTS:
        state = np.array([automaton.start])
        for value in text.encode():
            state = automaton.steps(state, np.array([value]))
        assert automaton.accepts(int(state[0])) == bool(re.fullmatch(pattern, text)), text
        begins = any(re.fullmatch(pattern, text + more) for more in TEXTS)
        assert begins <= (int(state[0]) != DEAD), text
        if state[0] != DEAD:
            needs = [len(more.encode()) for more in TEXTS if re.fullmatch(pattern, text + more)]
            assert not needs or automaton.needs(state)[0] <= min(needs)


def test_texts_that_contain_some_and_not_others() -> None:
    automaton = TextAutomaton(None, ["ab", "b\n"], ["é", "aa"])
    for text in TEXTS:
        state = np.array([automaton.start])
        for value in text.encode():
            state = automaton.steps(state, np.array([value]))
        expected = "ab" in text and "b\n" in text and "é" not in text and "aa" not in text
        assert automaton.accepts(int(state[0])) == expected, text


def test_bytes_that_no_text_has_lead_nowhere() -> None:
    automaton = TextAutomaton(r"(?s:.)*a")
    interesting = [0x0A, 0x61, 0x80, 0xA0, 0xBF, 0xC1, 0xC3, 0xE0, 0xED, 0xF0, 0xF4, 0xF5]
    for data in map(bytes, itertools.product(interesting, repeat=3)):
        state = np.array([automaton.start])
        for value in data:
            state = automaton.steps(state, np.array([value]))
        ends = [
            data + more
            for more in (b"", b"\x80", b"\xa0", b"\x80\x80", b"\xa0\x80", b"\x90\x80", b"\x90\x80\x80", b"\x80\x80\x80")
        ]
        assert (state[0] != DEAD) == any(text.decode("utf-8", "ignore").encode() == text for text in ends), data


def test_tokens_are_the_bytes_they_consist_of() -> None:
    pieces = [b"a", b"ab", b"", b"\xc3", b"\xa9", b"b\xc3", b"\xa9b", "éb".encode(), b"\xff", b"ba"]
    tokens = TokenAutomaton(TextAutomaton("(ab|é)*b?"), Trie(pieces))
    state = tokens.text.start
    for path in itertools.product(range(len(pieces)), repeat=3):
        here = state
        for token in path:
            here = int(tokens.after(here)[token])
        data = b"".join(pieces[token] for token in path)
        if b"" in (pieces[token] for token in path):
            assert here == DEAD
        else:
            text = data.decode("utf-8", "replace")
            whole = "\ufffd" not in text
            assert tokens.text.accepts(here) == (whole and bool(re.fullmatch("(ab|é)*b?", text)))


def test_expressions_at_random() -> None:
    rng = random.Random(4)

    def made(depth: int) -> str:
        kind = rng.randrange(7 if depth else 2)
        if kind < 2:
            return rng.choice(["a", "b", "é", ".", "[ab]", "[^a]", "\\n", "[^\\nb]"])
        if kind == 2:
            return f"(?:{made(depth - 1)}|{made(depth - 1)})"
        if kind == 3:
            return f"(?:{made(depth - 1)}){rng.choice(['*', '+', '?', '{2}', '{0,2}', '{1,}', '*?'])}"
        return made(depth - 1) + made(depth - 1)

    for _ in range(150):
        pattern = made(3)
        if re.compile(pattern) and any(re.fullmatch(pattern, text) for text in TEXTS):
            test_texts_are_accepted_byte_by_byte_as_by_re(pattern)


REFUSED = {
    "(": "a group is not closed",
    "a(?=b)c(?!d)\\1": "the back reference \\1 is not supported",
    "[^\\s\\S]": "no text fulfils",
    "[[:alpha:]]+": "the POSIX class [:alpha:] is not supported",
    "[a[:^digit:]]": "the POSIX class [:^digit:] is not supported",
    "[[=e=]]": "the POSIX class [=e=] is not supported",
    "[:alpha:]": "the POSIX class [:alpha:] is not supported",
    "[a-z--b]": "the set operator -- is not supported",
    "[a--b]": "the set operator -- is not supported",
    "[a&&b]": "the set operator && is not supported",
    "[a~~b]": "the set operator ~~ is not supported",
    "[a||b]": "the set operator || is not supported",
    "a^b": "the anchor ^ is not supported inside",
    "(a$)+b": "the anchor $ is not supported inside",
    "a\\Ab": "the anchor \\A is not supported inside",
    "\\ba": "\\b is not supported",
    "\\p{L}": "\\p is not supported",
    "(?<=a)b": "a lookbehind is not supported",
    "(?>a)b": "an atomic group is not supported",
    "a*+": "a possessive repetition is not supported",
    "(?P<n>a)(?P=n)": "a back reference is not supported",
    "(a)?(?(1)b)": "a condition is not supported",
    "(?x) a": "the flag x is not supported",
    "(?:(?!b).)*": "a lookahead inside a repetition without a limit is not supported",
    "a**": "nothing to repeat",
    "+a": "nothing to repeat",
    "a{3,2}": "the fewest repetitions",
    "[b-a]": "a range of characters",
    "[ab": "a set of characters is not closed",
    "a)": "a bracket closes no group",
    "a\\": "a backslash is the last character",
    "(" * 5000 + ")" * 5000: "groups are inside each other",
    "(" * 5000: "groups are inside each other",
    "[" * 5000: "a set of characters is not closed",
    "(a{1000}){1000}": "more than 20,000 states",
    "(a|b)*a(a|b){20}": "more than 20,000 states",
    "a{999999999}": "more than 20,000 states",
    "(){999999999}": "more than 20,000 states",
    "((a?){100}){100}": "more than 20,000 states",
    "(?i)" + "[^a]" * 300_000: "more than 20,000 states",
}


@pytest.mark.filterwarnings("error")
def test_what_cannot_be_followed_is_refused_by_name() -> None:
    for pattern, message in REFUSED.items():
        with pytest.raises(UsageError, match=re.escape(message)):
            TextAutomaton(pattern)


def test_texts_without_end_are_refused_and_many_short_ones_are_not() -> None:
    for words in ([f"word {n}." for n in range(10_000)], [chr(0x4E00 + n) * 9 for n in range(40)], ["\ud800"]):
        with pytest.raises(UsageError):
            TextAutomaton(None, words)
    banned = TextAutomaton("[a-z ]{,40}", ["xyz"], [f"{a}{b}" for a in "abcdefghij" for b in "klmnopqrstu"])
    assert banned.start != DEAD


def test_a_search_ends_when_nobody_waits_for_it(models: list[Any]) -> None:
    text = TextAutomaton("(ab|é)*b?")
    tokens = TokenAutomaton(text, Trie([b"a", b"b"]), lambda: True)
    with pytest.raises(TimeoutError):
        tokens.needs(np.array([text.start]))
    asked = [CompletionRequest("w1", Generate(match="( ?w[12])+"), {})]
    with pytest.raises(TimeoutError):
        models[1].answer(asked, ended=lambda _: True)
    assert models[1].answer(asked, ended=lambda _: False)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    folder = tmp_path_factory.mktemp("models")
    letters = bytes_bundle(folder / "letters", max_position_embeddings=64)
    return [nlptools.load(str(path)) for path in (letters, _whitespace(folder / "words"))]


def _whitespace(directory: Path) -> Path:
    """A model of words between spaces."""
    words_bundle(directory)
    (directory / "manifest.json").unlink()
    marker = directory / "nlptools_tokenizer.json"
    marker.write_text(marker.read_text().replace('"words"', '"whitespace"'))
    return directory


WAYS: list[dict[str, Any]] = [{"temperature": 0.0}, {"num_samples": 3}, {"beam": 3}, {"batch_size": 1, "top_k": 5}]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("way", WAYS)
def test_what_is_generated_matches(models: list[Any], way: dict[str, Any]) -> None:
    for model, pattern in zip(models, (r"( ?(ja|nein|né)[.!]){2}", r" ?w1(\d w\d){2,3}"), strict=True):
        settings = Generate(max_new_tokens=24, match=pattern, logprobs=True, **way)
        for row in model.generate(["w1 w2", "", "w3"], settings):
            for output in row:
                assert re.fullmatch(pattern, output.text), output.text


@pytest.mark.sampled(2)
@pytest.mark.parametrize("way", WAYS)
def test_words_are_contained_or_not(models: list[Any], way: dict[str, Any], capfd: Any) -> None:
    for model, words, banned in zip(models, (("né", "xyz"), ("w7 w8", "w9")), (("e", "a"), ("w1", "w2")), strict=True):
        free = Generate(max_new_tokens=14, **way)
        bound = Generate(max_new_tokens=14, force_words=words[1:], ban_words=banned, **way)
        both = Generate(max_new_tokens=14, force_words=words, **way)
        prompts = ["w1 w2", "", "w3"]
        assert not all(words[0] in output.text for row in model.generate(prompts, free) for output in row)
        for row in model.generate(prompts, both):
            assert all(word in output.text for output in row for word in words)
        for row in model.generate(prompts, bound):
            assert all(words[1] in output.text for output in row)
            assert not any(text in output.text for output in row for text in banned)
    assert capfd.readouterr().err == ""


def test_a_limit_that_is_too_low_is_reported(models: list[Any], capfd: Any) -> None:
    ((output,),) = models[0].generate(["x"], Generate(max_new_tokens=3, match="abcdef"))
    assert output.text == "abc" and "a text ends before it fulfils --match" in capfd.readouterr().err


def test_a_text_that_no_tokens_spell_is_refused(models: list[Any]) -> None:
    for impossible in Generate(match="q|w1 [{]"), Generate(force_words=("{}",)):
        with pytest.raises(UsageError, match="no tokens of the model spell"):
            next(iter(models[1].generate(["w1"], impossible)))
    assert next(iter(models[1].generate(["w1"], Generate(match="([{]q)?"))))[0].text == ""


def test_on_the_command_line(call: Run, tmp_path: Path) -> None:
    model = bytes_bundle(tmp_path / "lm", max_position_embeddings=64)
    done = call("generate", model, "--match", "(yes|no)", stdin="a\nb\n")
    assert done.code == 0 and {*done.lines} <= {"yes", "no"} and len(done.lines) == 2
    line = '{"prompt": "a", "match": "x{3}"}\n{"prompt": "a", "match": "y", "ban_words": "z"}\n'
    assert call("generate", model, "--layout", "jsonl", stdin=line).lines == ["xxx", "y"]
    done = call("generate", words_bundle(tmp_path / "words"), "--match", "w1", stdin="a\n")
    assert done.code == 2 and "need tokens that are pieces of the text" in done.err
    for pattern, message in list(REFUSED.items())[3:]:
        if len(pattern) < 20_000:
            done = call("generate", tmp_path / "missing", "--match", pattern, stdin="a\n")
            assert done.code == 2 and message in done.err and done.err.count("\n") <= 2, done.err
    line = '{"prompt": "a", "match": "x"}\n{"prompt": "a", "match": "[[:alpha:]]"}\n'
    done = call("generate", model, "--layout", "jsonl", stdin=line)
    assert done.code == 65 and done.lines == ["x"] and "<stdin>:2: --match: the POSIX class" in done.err
    done = call("generate", model, "--match", "x", "--ban-words", "x", stdin="a\n")
    assert done.code == 2 and "no text fulfils" in done.err
