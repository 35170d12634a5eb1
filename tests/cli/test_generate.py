"""generate: a continuation for each prompt, the same whatever the prompt's company, and nothing that was not asked for."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from conftest import Finished, Run
from tiny_bundles import WORDS, bytes_bundle, words_bundle

PROMPTS = ["w1 w2", "", "w3, w4.", "w5 w6 w7 w8", "nowhere", 'w9 "', "w10", "w1 w2"]
STDIN = "\n".join(PROMPTS) + "\n"
SHORT = ("--max-new-tokens", 8)


@pytest.fixture(scope="module")
def letters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Bytes of a few characters, some of them halves of one, some of them to be escaped; any order is as likely."""
    return bytes_bundle(tmp_path_factory.mktemp("bytes") / "lm", "ab\n\t\\é")


@pytest.fixture(scope="module")
def monotone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Says `a` for ever."""
    return bytes_bundle(tmp_path_factory.mktemp("monotone") / "lm", "a")


def generate(call: Run, model: Path, *args: Any, stdin: str | bytes = STDIN) -> Finished:
    done = call("generate", model, *args, stdin=stdin)
    assert (done.code, done.err) == (0, ""), done.err
    return done


def records(done: Finished) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.lines]


# -- lines ------------------------------------------------------------------------------------------------------------


def test_one_continuation_for_each_line(call: Run, words: Path) -> None:
    odd = b"\xef\xbb\xbfw1 w2\r\n\n\r\nw3\x00\xe2\x80\xa8w4\n  \nlast"
    done = generate(call, words, *SHORT, stdin=odd)
    assert done.out.count(b"\n") == 6 and done.out.endswith(b"\n")
    shown = records(generate(call, words, *SHORT, "--to", "jsonl", stdin=odd))
    assert [row["prompt"] for row in shown] == ["w1 w2", "", "", "w3\0\u2028w4", "  ", "last"]
    assert generate(call, words, *SHORT, stdin=b"").out == b""
    assert generate(call, words, *SHORT, stdin=b"\n").out.count(b"\n") == 1


def test_greedy_is_the_same_each_time(call: Run, words: Path) -> None:
    first = generate(call, words, *SHORT, "--temperature", 0)
    given = [part for line in STDIN.rstrip("\n").split("\n") for part in ("--text", line)]
    assert generate(call, words, *SHORT, "--temperature", 0, *given).out == first.out
    for extra in ((), ("--seed", 9), ("--top-p", 0.5), ("--batch-size", 1)):
        assert generate(call, words, *SHORT, "--temperature", 0, *extra).out == first.out
    for extra in (("--top-k", 1), ("--min-p", 1), ("--beam", 1), ("--temperature", 1e-6)):
        assert generate(call, words, *SHORT, *extra, "--seed", 5).out == first.out, extra
    assert first.lines[0] == first.lines[-1]


@pytest.mark.sampled(law="a seed decides whatever the batches")
@pytest.mark.parametrize("more", [(), ("--num-samples", 3), ("--top-p", 0.9, "--temperature", 2)])
def test_a_seed_gives_the_same_whatever_the_batches(call: Run, words: Path, more: tuple[Any, ...]) -> None:
    first = generate(call, words, *SHORT, "--seed", 7, *more)
    for extra in ((), *(("--batch-size", n) for n in (1, 3, 32)), ("--line-buffered",), ("--threads", 2)):
        assert generate(call, words, *SHORT, "--seed", 7, *more, *extra).out == first.out, extra
    assert generate(call, words, *SHORT, "--seed", 8, *more).out != first.out
    assert first.lines[0] != first.lines[-1], "each line has random numbers of its own"
    beginning = generate(call, words, *SHORT, "--seed", 7, *more, stdin="\n".join(PROMPTS[:3]))
    assert beginning.lines == first.lines[:3], "what comes later does not matter"


def test_several_samples(call: Run, words: Path) -> None:
    done = generate(call, words, *SHORT, "--num-samples", 3)
    rows = [line.split("\t") for line in done.lines]
    assert [len(row) for row in rows] == [3] * len(PROMPTS) and len(set(rows[0])) > 1
    assert [row[0] for row in rows] == generate(call, words, *SHORT).lines
    shown = records(generate(call, words, *SHORT, "--num-samples", 3, "--to", "jsonl"))
    assert [[c["text"] for c in row["continuations"]] for row in shown] == rows
    beam = generate(call, words, *SHORT, "--beam", 4, "--num-samples", 4)
    assert all(len(set(line.split("\t"))) == 4 for line in beam.lines)


def test_the_best_of_many_samples(call: Run, words: Path) -> None:
    asked = (*SHORT, "--to", "jsonl", "--logprobs", "--seed", 3)
    every = records(generate(call, words, *asked, "--num-samples", 6))
    few = records(generate(call, words, *asked, "--num-samples", 2, "--best-of", 6))
    for a, b in zip(every, few, strict=True):
        means = sorted((sum(c["logprobs"]) / len(c["logprobs"]) for c in a["continuations"]), reverse=True)
        found = [sum(c["logprobs"]) / len(c["logprobs"]) for c in b["continuations"]]
        assert found == pytest.approx(means[:2], abs=1e-4)
    (row, *_) = records(generate(call, words, *SHORT, "--to", "jsonl", "--best-of", 6, "--seed", 3))
    assert row["continuations"] == [{k: few[0]["continuations"][0][k] for k in ("text", "finish")}]


def test_a_beam_is_at_least_as_likely_as_greedy(call: Run, words: Path) -> None:
    asked = (*SHORT, "--to", "jsonl", "--logprobs", "--length-penalty", 0, "--min-new-tokens", 8)
    greedy = records(generate(call, words, *asked, "--temperature", 0))
    beam = records(generate(call, words, *asked, "--beam", 8))
    for a, b in zip(greedy, beam, strict=True):
        assert sum(b["continuations"][0]["logprobs"]) > sum(a["continuations"][0]["logprobs"]) - 1e-4


# -- which tokens -----------------------------------------------------------------------------------------------------


def test_nothing_but_the_likeliest_is_left_of_no_probability(call: Run, words: Path) -> None:
    greedy = generate(call, words, *SHORT, "--temperature", 0)
    assert generate(call, words, *SHORT, "--top-p", 0).out == greedy.out


def generated_words(done: Finished) -> set[str]:
    return set(re.sub('[",.]', " ", done.text).split())


def test_special_tokens_are_never_generated(call: Run, words: Path, tmp_path: Path) -> None:
    for extra in (("--temperature", 50, "--num-samples", 20), ("--beam", 50, "--num-samples", 50)):
        done = generate(call, words, *SHORT, *extra)
        assert "<unk>" not in done.text and "<pad>" not in done.text and "</s>" not in done.text
        assert generated_words(done) <= set(WORDS)
    wide = words_bundle(tmp_path / "wide")  # more rows than the tokenizer has tokens, as padded models of others have
    (wide / "manifest.json").unlink()
    (wide / "vocab.tsv").write_text("".join(f"{word}\t0\n" for word in WORDS[:10]))
    done = generate(call, wide, *SHORT, "--temperature", 50, "--num-samples", 20)
    assert generated_words(done) <= {"w0", "w1", "w2", "w3"}


def test_bounds_on_length(call: Run, words: Path) -> None:
    hot = ("--temperature", 20, "--num-samples", 20, "--to", "jsonl", "--logprobs")
    free = [c for row in records(generate(call, words, *SHORT, *hot)) for c in row["continuations"]]
    assert {c["finish"] for c in free} == {"eos", "length"}
    assert all(len(c["tokens"]) == 8 for c in free if c["finish"] == "length")
    assert all(
        len(c["tokens"]) < 8 and len(c["logprobs"]) == len(c["tokens"]) + 1 for c in free if c["finish"] == "eos"
    )
    held = records(generate(call, words, *SHORT, *hot, "--min-new-tokens", 5))
    assert min(len(c["tokens"]) for row in held for c in row["continuations"]) == 5
    assert len(generate(call, words, "--max-new-tokens", 1).lines) == len(PROMPTS)


def test_repetition_is_penalized(call: Run, words: Path) -> None:
    def different(*extra: Any) -> int:
        rows = records(
            generate(call, words, "--max-new-tokens", 16, "--temperature", 0, "--to", "jsonl", "--logprobs", *extra)
        )
        return sum(len(set(row["continuations"][0]["tokens"])) for row in rows)

    assert different("--repetition-penalty", 50, "--min-new-tokens", 16) == 16 * len(PROMPTS)
    assert different("--min-new-tokens", 16) < 16 * len(PROMPTS)


def test_log_probabilities_are_those_of_score(call: Run, words: Path) -> None:
    rows = records(generate(call, words, *SHORT, "--to", "jsonl", "--logprobs", "--top-k", 5, stdin="w1 w2\nw3\n\n"))
    for row in rows:
        (found,) = row["continuations"]
        scored = call("score", words, "--per", "token", stdin=f"{row['prompt']} {found['text']}\n").lines[:-1]
        pairs = [line.split("\t") for line in scored]
        begin = len(row["prompt"].split())
        assert [token for token, _ in pairs[begin:-1]] == found["tokens"]
        end = len(pairs) if found["finish"] == "eos" else -1
        expected = [float(value) for _, value in pairs[begin:end]]
        assert found["logprobs"] == pytest.approx(expected, abs=1e-3)


def test_a_prompt_too_long_is_cut_aloud(call: Run, words: Path, letters: Path) -> None:
    long = " ".join(f"w{i % 44}" for i in range(50))
    done = call("generate", words, *SHORT, "--temperature", 0, "--to", "jsonl", stdin=f"{long}\nw1\n")
    assert done.code == 0 and done.err == (
        "nlptools generate: warning: prompt cut by 27 tokens on the left to fit the context of 24\n"
    )
    whole, _ = records(done)
    assert whole["prompt"] == long and len(whole["continuations"][0]["text"].split()) <= 8
    done = call("generate", words, *SHORT, stdin=f"{long}\n" * 10)
    assert done.err.count("warning: prompt cut by") == 3 and "prompt cut: 7 more" in done.err
    done = call("generate", letters, *SHORT, stdin="é" * 1_000_000 + "\n")
    assert done.code == 0 and "prompt cut by" in done.err and done.out.count(b"\n") == 1


@pytest.mark.sampled(1)
@pytest.mark.parametrize("more", [("--temperature", 0), ("--beam", 2), ("--contrastive", 0.5, "--top-k", 3)])
def test_a_prompt_that_fits_is_read_whole_whatever_may_follow(call: Run, words: Path, more: tuple[object, ...]) -> None:
    prompt = " ".join(f"w{i}" for i in range(20))
    texts = []
    for limit in (2, 8, 24, 60):
        lengths = ("--max-new-tokens", limit, "--min-new-tokens", limit)
        done = call("generate", words, *lengths, *more, "--to", "jsonl", "--logprobs", stdin=prompt + "\n")
        assert (done.code, done.err) == (0, "")
        texts.append(records(done)[0]["continuations"][0]["tokens"])
    if more[0] != "--beam":
        assert all(texts[-1][: len(text)] == text for text in texts), "a limit is no promise"
    assert [len(text) for text in texts] == [2, 8, 24, 60]


def test_strict_refuses_what_would_be_cut(call: Run, words: Path) -> None:
    """The context has 24 tokens, the start token among them."""
    fits, long = " ".join(["w1"] * 20), " ".join(["w1"] * 24)
    options = ("--strict", "--max-new-tokens", 50, "--min-new-tokens", 50, "--temperature", 0)
    done = call("generate", words, *options, stdin=f"{fits}\n\n{long}\n")
    assert done.code == 65 and [len(line.split()) for line in done.lines] == [3, 23]
    message = "the prompt has 25 tokens, and the context of the model has room for 24"
    assert done.err == f"nlptools generate: <stdin>:3: {message}\n"
    done = call("generate", words, *options, "--beam", 2, "--stream", stdin=f"{fits}\n")
    assert done.code == 2
    done = call("generate", words, *options, "--beam", 2, stdin=f"{fits}\n")
    assert len(done.lines[0].split()) == 3
    requests = f'{{"prompt": "{fits}", "contrastive": 0.5, "top_k": 2}}\n{{"prompt": "{long}"}}\n'
    done = call("generate", words, *options, "--layout", "jsonl", stdin=requests)
    assert done.code == 65 and len(done.lines[0].split()) == 2 and f"<stdin>:2: {message}" in done.err


@pytest.mark.parametrize("more", [(), ("--stream",), ("--to", "jsonl", "--logprobs"), ("--stop", "w3")], ids=" ".join)
def test_drafts_do_not_change_the_output(call: Run, words: Path, more: tuple[str, ...]) -> None:
    prompts = "w1 w2 w3 w1 w2\n\nw5 w5 w5 w5\n"
    for temperature in (0, 1):
        options = ("--temperature", temperature, "--max-new-tokens", 40, *more)
        done = [call("generate", words, *options, *lookup, stdin=prompts) for lookup in ((), ("--lookup", 5))]
        assert [each.code for each in done] == [0, 0] and done[0].out == done[1].out and len(done[0].lines) == 3


def test_drafts_are_for_one_sample_of_a_transformer(call: Run, words: Path, tmp_path: Path) -> None:
    for more in (("--beam", 2), ("--num-samples", 2), ("--batch-size", 4), ("--contrastive", 0.5, "--top-k", 2)):
        done = call("generate", words, "--lookup", 3, *more, stdin="w1\n")
        assert done.code == 2 and "--lookup" in done.err and more[0] in done.err, done.err
    sizes = ("--layers", 1, "--hidden", 8, "--steps", 1)
    done = call("train-lm", "--arch", "lstm", "-t", "bytes", *sizes, "-o", tmp_path / "lstm", stdin="a b c\n" * 20)
    assert done.code == 0, done.err
    done = call("generate", tmp_path / "lstm", "--lookup", 3, stdin="a\n")
    assert done.code == 2 and "--lookup needs a Transformer" in done.err, done.err


# -- stop texts, streams, escapes -------------------------------------------------------------------------------------


@pytest.mark.sampled(2)
@pytest.mark.parametrize("stop", ["aa", "aaa", "a", "aaaa,aa"])
def test_a_stop_text_may_straddle_tokens(call: Run, monotone: Path, stop: str) -> None:
    for how in (("--temperature", 0), ("--beam", 2)):
        (row,) = records(generate(call, monotone, *SHORT, *how, "--stop", stop, "--to", "jsonl", stdin="aaa\n"))
        assert row["continuations"][0] == {"text": "", "finish": "stop"}
    for extra in ((), ("--stream",)):
        assert generate(call, monotone, *SHORT, "--stop", stop, *extra, stdin="x\n").out == b"\n"
        assert generate(call, monotone, *SHORT, "--stop", "b", *extra, stdin="x\n").out == b"aaaaaaaa\n"


def test_text_ends_before_the_first_stop_text(call: Run, letters: Path) -> None:
    asked = ("--max-new-tokens", 60, "--seed", 3, "--to", "jsonl")
    stdin = "\n" * 30
    free = records(generate(call, letters, *asked, stdin=stdin))
    stopped = records(generate(call, letters, *asked, "--stop", "ab,é", stdin=stdin))
    for a, b in zip(free, stopped, strict=True):
        whole, cut = a["continuations"][0]["text"], b["continuations"][0]
        places = [place for stop in ("ab", "é") if (place := whole.find(stop)) >= 0]
        assert cut["text"] == whole[: min(places, default=len(whole))]
        assert cut["finish"] == ("stop" if places else "length")
    assert {row["continuations"][0]["finish"] for row in stopped} >= {"stop"}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("extra", [(), ("--stop", "ab,é\\n"), ("--echo",), ("--temperature", 0)])
def test_a_stream_is_what_comes_out_otherwise(call: Run, words: Path, letters: Path, extra: tuple[Any, ...]) -> None:
    for model, stdin in ((words, STDIN), (letters, "é\n\n\\ \tx\n" * 3)):
        whole = generate(call, model, "--max-new-tokens", 12, *extra, stdin=stdin)
        assert generate(call, model, "--max-new-tokens", 12, "--stream", *extra, stdin=stdin).out == whole.out


def test_newlines_are_escaped(call: Run, letters: Path) -> None:
    done = generate(call, letters, "--max-new-tokens", 100, "--num-samples", 2, stdin="x\ny\n")
    assert done.out.count(b"\n") == 2 and done.out.count(b"\t") == 2
    for escaped in ("\\n", "\\t", "\\\\", "é", "\ufffd"):
        assert escaped in done.text
    shown = records(
        generate(call, letters, "--max-new-tokens", 100, "--num-samples", 2, "--to", "jsonl", stdin="x\ny\n")
    )
    from nlptools.files.line_records import unescape

    texts = [[c["text"] for c in row["continuations"]] for row in shown]
    assert [[unescape(text) for text in line.split("\t")] for line in done.lines] == texts
    assert "\n" in texts[0][0]


def test_the_prompt_comes_back(call: Run, words: Path, letters: Path) -> None:
    for model in (words, letters):
        alone = generate(call, model, *SHORT, stdin="w1 \\\tx\nw2\n").lines
        assert generate(call, model, *SHORT, "--echo", stdin="w1 \\\tx\nw2\n").lines == [
            "w1 \\\\\\tx" + alone[0],
            "w2" + alone[1],
        ]
    assert alone == generate(call, letters, *SHORT, "--no-echo", stdin="w1 \\\tx\nw2\n").lines


# -- JSON -------------------------------------------------------------------------------------------------------------


def test_json_in_and_out(call: Run, words: Path) -> None:
    given = [
        {"id": 7, "prompt": "w1 w2", "note": {"ü": [None, 1.5]}},
        {"prompt": ""},
        {"prompt": "a\nb\t", "x": "\ud800"},
    ]
    stdin = "".join(json.dumps(row) + "\n" for row in given)
    done = generate(call, words, *SHORT, "--to", "jsonl", "--layout", "jsonl", stdin=stdin)
    rows = records(done)
    assert [{k: v for k, v in row.items() if k != "continuations"} for row in rows] == given
    assert '"ü"' in done.text and [list(row)[-1] for row in rows] == ["continuations"] * 3
    texts = [row["continuations"][0]["text"] for row in rows]
    assert generate(call, words, *SHORT, "--layout", "jsonl", stdin=stdin).lines == texts
    assert generate(call, words, *SHORT, stdin="w1 w2\n").lines[0] == texts[0]
    again = generate(call, words, *SHORT, "--to", "jsonl", "--layout", "jsonl", stdin=done.out)
    assert again.out == done.out, "output is input"
    (words.parent / "prompts.jsonl").write_text(stdin)
    assert generate(call, words, *SHORT, words.parent / "prompts.jsonl").lines == texts


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "<stdin>:2: not valid JSON"),
        ("w1", "<stdin>:2: not valid JSON"),
        ("[1]", "<stdin>:2: expected a JSON object, found list"),
        ("{}", '<stdin>:2: expected a text under "prompt"'),
        ('{"prompt": 1}', '<stdin>:2: expected a text under "prompt"'),
        ('{"prompt": "\\ud800"}', "<stdin>:2: the prompt holds half a surrogate pair"),
        ("[" * 100_000, "<stdin>:2: not valid JSON"),
    ],
)
def test_json_that_is_not_a_prompt(call: Run, words: Path, line: str, said: str) -> None:
    done = call("generate", words, "--layout", "jsonl", stdin=f'{{"prompt": "w1"}}\n{line}\n')
    assert done.code == 65 and said in done.err and done.err.count("\n") == 1


def test_options_of_a_line_are_those_of_the_command(call: Run, words: Path, letters: Path) -> None:
    own: list[tuple[dict[str, Any], tuple[Any, ...]]] = [
        ({"temperature": 0}, ("--temperature", 0)),
        ({"max_tokens": 3, "top_p": 0.5}, ("--max-new-tokens", 3, "--top-p", 0.5)),
        ({"n": 2, "best_of": 4, "seed": 9}, ("--num-samples", 2, "--best-of", 4, "--seed", 9)),
        ({"stop": ["a", "é"]}, ("--stop", "a,é")),
    ]
    stdin = "".join(json.dumps({"prompt": "w1 ab", "seed": 7, **keys}) + "\n" for keys, _ in own)
    for model in (words, letters):
        found = generate(call, model, *SHORT, "--layout", "jsonl", stdin=stdin).lines
        for line, (_, flags) in zip(found, own, strict=True):
            assert [line] == generate(call, model, *SHORT, "--seed", 7, *flags, stdin="w1 ab\n").lines
        again = generate(call, model, *SHORT, "--layout", "jsonl", "--seed", 3, "--batch-size", 1, stdin=stdin)
        assert again.lines == found, "a seed in a line holds wherever the line stands"
        backwards = "".join(reversed(stdin.splitlines(keepends=True)))
        assert generate(call, model, *SHORT, "--layout", "jsonl", stdin=backwards).lines == found[::-1]


def test_requests_of_a_batch_api(call: Run, words: Path, letters: Path) -> None:
    body = {"model": "m", "prompt": "w1 w2", "max_tokens": 5, "logprobs": 3, "temperature": 0}
    given = [
        {"custom_id": "b", "method": "POST", "url": "/v1/completions", "body": body},
        {"custom_id": "a", **body, "echo": True},
    ]
    stdin = "".join(json.dumps(row) + "\n" for row in given)
    for model in (words, letters):
        rows = records(generate(call, model, "--to", "jsonl", "--layout", "jsonl", stdin=stdin))
        plain = records(
            generate(call, model, "--to", "jsonl", "--layout", "jsonl", "--logprobs", stdin=json.dumps(body) + "\n")
        )
        (expected,) = plain[0]["continuations"]
        assert [row["custom_id"] for row in rows] == ["b", "a"]
        first, second = (row["response"]["body"]["choices"][0] for row in rows)
        assert (first["text"], second["text"]) == (expected["text"], "w1 w2" + expected["text"])
        scores = first["logprobs"]
        assert "".join(scores["tokens"]) == first["text"]
        assert scores["token_logprobs"] == expected["logprobs"][: len(scores["tokens"])]
        assert [first["text"][a:] for a in scores["text_offset"]][:1] == [first["text"]]
        assert all(len(each) == 3 for each in scores["top_logprobs"])
        assert [max(each.values()) for each in scores["top_logprobs"]] == pytest.approx(scores["token_logprobs"])
        usage = rows[0]["response"]["body"]["usage"]
        assert usage["completion_tokens"] == len(expected["logprobs"])


def test_a_wrong_option_of_a_line_names_line_and_key(call: Run, words: Path) -> None:
    done = call(
        "generate", words, "--layout", "jsonl", *SHORT, stdin='{"prompt": "w1"}\n{"prompt": "w1", "top_p": 3}\n'
    )
    assert (done.code, len(done.lines)) == (65, 1)
    assert done.err == 'nlptools generate: <stdin>:2: expected a number from 0 to 1 under "top_p"\n'


# -- what is wrong ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "stdin", "code", "said"),
    [
        (("MODEL",), b"w1\n\xff\n", 65, "<stdin>:2: invalid UTF-8 at byte 1"),
        (("nowhere",), b"", 66, "nowhere: no such model directory"),
        (("MODEL", "nowhere"), b"", 66, "nowhere: no such file"),
        (("MODEL", "."), b"", 66, ".: is a directory"),
        (("old.txt",), b"", 78, "old.txt: is a file, expected a model directory"),
        ((".",), b"", 78, ".: no config.json: not a model directory"),
        (("MODEL", "--beam", "2", "--num-samples", "3"), b"", 2, "--num-samples 3 is more than --beam 2"),
        (("MODEL", "--logprobs"), b"", 2, "--to text cannot be combined with --logprobs"),
        (("MODEL", "--stream", "--to", "jsonl"), b"", 2, "--stream cannot be combined with"),
        (("MODEL", "--stream", "--beam", "2"), b"", 2, "--stream cannot be combined with"),
        (("MODEL", "--stream", "--num-samples", "2"), b"", 2, "--stream cannot be combined with"),
        (("MODEL", "--best-of", "2", "--num-samples", "3"), b"", 2, "--best-of 2 is less than --num-samples 3"),
        (("MODEL", "--best-of", "2", "--beam", "3"), b"", 2, "--best-of cannot be combined with --beam"),
        (("MODEL", "--stream", "--best-of", "2"), b"", 2, "--stream cannot be combined with"),
        (("MODEL", "--min-new-tokens", "9", "--max-new-tokens", "8"), b"", 2, "--min-new-tokens 9 is more than"),
        (("MODEL", "--temperature", "-1"), b"", 2, "--temperature"),
        (("MODEL", "--temperature", "nan"), b"", 2, "--temperature"),
        (("MODEL", "--temperature", "inf"), b"", 2, "--temperature"),
        (("MODEL", "--top-p", "1.5"), b"", 2, "--top-p"),
        (("MODEL", "--max-new-tokens", "0"), b"", 2, "--max-new-tokens"),
        (("MODEL", "--num-samples", "0"), b"", 2, "--num-samples"),
        (("MODEL", "--repetition-penalty", "0"), b"", 2, "--repetition-penalty"),
        (("MODEL", "-o", "old.txt"), b"w1\n", 73, "old.txt: exists"),
        (("MODEL", *SHORT, "-o", "/dev/full"), b"w1\n", 74, "/dev/full: write failed: no space left on device"),
        (
            ("MODEL", *SHORT, "--stream", "-o", "/dev/full"),
            b"w1\n",
            74,
            "/dev/full: write failed: no space left on device",
        ),
        ((), b"", 2, "missing argument"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    call: Run, words: Path, tmp_path: Path, args: tuple[str, ...], stdin: bytes, code: int, said: str
) -> None:
    (tmp_path / "old.txt").write_bytes(b"old\n")
    done = call("generate", *(str(words) if arg == "MODEL" else arg for arg in args), stdin=stdin)
    message = done.err.split("\n")
    assert done.code == code and said in message[0], done.err
    assert message[0].startswith("nlptools generate: ") and (len(message) == 2 or message[1].startswith("  hint: "))
    assert (tmp_path / "old.txt").read_bytes() == b"old\n"


def test_into_a_file(call: Run, words: Path, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("old\n")
    done = call("generate", words, *SHORT, "-o", "out", stdin=STDIN)
    assert done.code == 73 and "--force replaces it" in done.err
    assert generate(call, words, *SHORT, "-o", "out", "--force").out == b""
    assert (tmp_path / "out").read_bytes() == generate(call, words, *SHORT).out


# -- as a process -----------------------------------------------------------------------------------------------------


@pytest.mark.sampled(law="an output that fails ends the command")
def test_in_a_locale_without_letters_before_a_pipe_that_closes(shell: Run, call: Run, letters: Path) -> None:
    text = "ünï 🎉\n\n" * 40
    line = f"nlptools generate {letters} --threads 1 --max-new-tokens 4 --batch-size 1 --echo"
    done = shell(f"{line} | tee all | head -1", stdin=text.encode(), env={"LC_ALL": "C", "PYTHONUTF8": "0"})
    assert done.err == "" and len(done.lines) == 1 and done.code in (0, 141)
    assert done.lines[0] == call("generate", letters, "--max-new-tokens", 4, "--echo", stdin=text).lines[0]


def test_what_stands_before_a_bad_line_is_answered(call: Run, words: Path) -> None:
    good = '{"prompt": "w1 w2"}\n{"prompt": "w3"}\n'
    expected = generate(call, words, *SHORT, "--layout", "jsonl", stdin=good).out
    done = call(
        "generate", words, *SHORT, "--layout", "jsonl", "--batch-size", 8, stdin=good + '{"prompt": 7}\n' + good
    )
    assert (done.code, done.out) == (65, expected)
    assert '<stdin>:3: expected a text under "prompt"' in done.err
