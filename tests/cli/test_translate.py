"""generate with encoder-decoders: an output for each line, whatever the batches, parts and stops; what is asked, no more."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from random import Random
from typing import Any

import pytest
from conftest import Finished, Run

from nlptools import messages
from nlptools.configs import Compute
from nlptools.configs.seq2seq import PairTraining, TrainSeq2Seq
from nlptools.training.translation import train_seq2seq

SYMBOLS = "abcdefghij"
SOURCES = ["a b c", "", "d", "e f g h i", "a b c", "j i", "h h g", "c d e f"]
STDIN = "".join(f"{line}\n" for line in SOURCES)
HOT = ("--temperature", 3, "--max-new-tokens", 6)


def _made(place: Path, name: str, arch: str, steps: int, symbols: str = SYMBOLS, copy: bool = False) -> Path:
    """A model that says a sequence from the end, or as it is, if it was trained long enough."""
    random = Random(0)
    drawn = [random.choices(symbols, k=random.randint(1, 5)) for _ in range(1500)]
    rows = [f"{' '.join(row)}\t{' '.join(row if copy else reversed(row))}\n" for row in drawn]
    (place / f"{name}.tsv").write_text("".join(rows))
    (place / f"{name}.vocab").write_text("<unk>\t0\n</s>\t0\n" + "".join(f"{symbol}\t1\n" for symbol in symbols))
    settings = TrainSeq2Seq(
        "words", vocab=str(place / f"{name}.vocab"), arch=arch, layers=1, hidden=32, dropout=0, label_smoothing=0
    )
    run = PairTraining(
        str(place / name), batch_tokens=0, batch_size=64, steps=steps, lr=2e-2, warmup=20, schedule="linear"
    )
    before, messages.settings = messages.settings, messages.MessageSettings(quiet=True)
    try:
        train_seq2seq([str(place / f"{name}.tsv")], settings, run, Compute(threads=1, precision="fp32"))
    finally:
        messages.settings = before
    return place / name


@pytest.fixture(scope="module")
def turns(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Says sequences from the end."""
    return _made(tmp_path_factory.mktemp("turns"), "rnn", "rnn", 150)


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Says sequences as they are."""
    return _made(tmp_path_factory.mktemp("copies"), "rnn", "rnn", 100, copy=True)


@pytest.fixture(scope="module")
def learner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Has not learnt much."""
    return _made(tmp_path_factory.mktemp("learner"), "transformer", "transformer", 30)


def generate(call: Run, model: Path, *args: Any, stdin: str | bytes = STDIN) -> Finished:
    done = call("generate", model, *args, stdin=stdin)
    assert (done.code, done.err) == (0, ""), done.err
    return done


def records(done: Finished) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.lines]


# -- lines ------------------------------------------------------------------------------------------------------------


def test_one_output_for_each_line_in_order(call: Run, turns: Path) -> None:
    expected = [" ".join(reversed(line.split())) for line in SOURCES]
    assert generate(call, turns).lines == expected
    for extra in (("--temperature", 0), ("--window", 3), ("--line-buffered",), ("--beam", 1), ("--batch-size", 2)):
        assert generate(call, turns, *extra).lines == expected, extra
    assert generate(call, turns, stdin=b"").out == b""
    assert generate(call, turns, stdin=b"\n").out == b"\n"
    assert generate(call, turns, stdin=b"a b").out == b"b a\n"
    assert generate(call, turns, "--echo", stdin="a b\n\n").lines == ["a b\tb a", "\t"]


def test_only_line_feeds_end_lines(call: Run, turns: Path) -> None:
    odd = "\ufeffa b\r\nc\u2028d\ne\u0085f\ng\rh\n \n\ti\n".encode()
    assert generate(call, turns, stdin=odd).lines == ["b a", "d c", "f e", "h g", "", "i"]
    sources = [row["source"] for row in records(generate(call, turns, "--to", "jsonl", stdin=odd))]
    assert sources == ["a b", "c\u2028d", "e\u0085f", "g\rh", " ", "\ti"]


@pytest.mark.sampled(law="a seed decides whatever the batches")
def test_a_seed_gives_the_same_whatever_the_batches(call: Run, turns: Path) -> None:
    for more in (HOT, (*HOT, "--num-samples", 3)):
        first = generate(call, turns, *more, "--seed", 7)
        for extra in (("--batch-size", 1), ("--batch-size", 3), ("--window", 1), ("--window", 3), ("--line-buffered",)):
            assert generate(call, turns, *more, "--seed", 7, *extra).out == first.out, extra
        assert generate(call, turns, *more, "--seed", 8).out != first.out
        assert first.lines[0] != first.lines[4], "each line has random numbers of its own"


def test_several_outputs(call: Run, learner: Path) -> None:
    best = generate(call, learner, "--nbest", 3)
    rows = [line.split("\t") for line in best.lines]
    assert [len(row) for row in rows] == [3] * len(SOURCES) and rows[1] == ["", "", ""]
    assert [row[0] for row in rows] == generate(call, learner).lines
    for row in records(generate(call, learner, "--nbest", 3, "--to", "jsonl")):
        scores = [found["score"] for found in row["translations"]]
        assert scores == sorted(scores, reverse=True) and len(scores) == 3
        assert len({found["text"] for found in row["translations"]}) == (3 if row["source"] else 1)
    samples = generate(call, learner, "--num-samples", 3, *HOT)
    assert all(line.count("\t") == 2 for line in samples.lines)
    assert [line.split("\t")[0] for line in samples.lines] == generate(call, learner, *HOT).lines


# -- what an output is -------------------------------------------------------------------------------------------------


def test_lengths_and_repetition(call: Run, turns: Path) -> None:
    def words(*extra: Any, stdin: str = "a b c d\n") -> list[str]:
        return generate(call, turns, *extra, stdin=stdin).text.split()

    assert words("--max-new-tokens", 3, "--temperature", 0) == ["d", "c"]  # the end token is one of three
    assert len(words("--min-new-tokens", 8)) >= 8 and len(words("--min-new-tokens", 70, "--temperature", 0)) >= 70
    assert words(stdin="b b a a\n") == ["a", "a", "b", "b"]
    said = words("--no-repeat-ngram", 1, stdin="b b a a\n")
    assert len(set(said)) == len(said)
    assert words("--stop", " b") == ["d", "c"]
    assert words("--max-source-length", 4) == ["d", "c", "b", "a"]
    cut = call(
        "generate", turns, "--max-source-length", 2, stdin="a b c\nd e\nf g h\ni j a b\na b c d\n" + "a b c\n" * 3
    )
    assert cut.lines[:3] == ["b a", "e d", "g f"]
    assert "a source of 3 tokens is cut to 2" in cut.err and "source cut: 4 more" in cut.err


def test_a_long_source_is_cut_split_or_refused(call: Run, turns: Path) -> None:
    """`turns` writes the letters of its source in the opposite order."""
    source, limit = "a b c d e f g h i j a b c d", ("--max-source-length", 4)
    done = call("generate", turns, *limit, "--long", "split", stdin=f"a b\n{source}\nd c\n")
    parts = generate(call, turns, stdin="a b c\nd e f g\nh i j\na b c d\n").lines
    assert done.lines == ["b a", " ".join(parts), "c d"]
    assert done.err == "nlptools generate: warning: a source of 14 tokens is split into 4\n"
    [row] = records(
        call("generate", turns, *limit, "--long", "split", "--to", "jsonl", "--alignments", stdin=source + "\n")
    )
    links = row["translations"][0]["alignment"]
    assert [target for _, target in links] == list(range(14)) and max(place for place, _ in links) > 9
    done = call("generate", turns, *limit, "--strict", stdin=f"a b\n{source}\n")
    assert done.code == 65 and done.lines == ["b a"]
    assert done.err == "nlptools generate: <stdin>:2: the source has 14 tokens, and at most 4 are read\n"
    done = call("generate", turns, "--max-new-tokens", 1, "--beam", 1, stdin="a " * 100_000 + "\n")
    assert done.code == 0 and "a source of 100000 tokens is cut to 1024" in done.err


def test_parts_of_a_source_have_random_numbers_of_their_own(call: Run, learner: Path) -> None:
    how = ("--temperature", 2, "--seed", 3, "--long", "split", "--max-source-length", 4)
    long, next_line = "a b c d a b c d a b c d", "a b c d"
    found = [
        call("generate", learner, *how, *more, stdin=f"{first}\n{next_line}\n").lines
        for first, more in ((long, ()), (long, ("--batch-size", 1)), ("a", ()))
    ]
    assert found[0] == found[1] and found[0][1] == found[2][1]


def test_a_given_beginning(call: Run, turns: Path) -> None:
    assert generate(call, turns, "--prefix", "c b", stdin="a b c\n").lines == ["c b a"]
    forced = generate(call, turns, "--prefix", "a", stdin="a b c\nd\n\n").lines
    assert [line[:1] for line in forced] == ["a", "a", ""]
    rows = '{"source": "a b c", "prefix": "b", "id": [1]}\n{"source": "d e", "text": "x"}\n'
    found = records(generate(call, turns, "--layout", "jsonl", "--to", "jsonl", "--prefix", "e", stdin=rows))
    assert [list(row) for row in found] == [
        ["source", "prefix", "id", "translations"],
        ["source", "text", "translations"],
    ]
    assert found[0]["id"] == [1] and found[1]["text"] == "x"
    assert [row["translations"][0]["text"][0] for row in found] == ["b", "e"]
    assert generate(call, turns, "--layout", "jsonl", stdin='{"source": "a b"}\n').lines == ["b a"]


def test_json_tells_all(call: Run, learner: Path) -> None:
    asked = ("--to", "jsonl", "--logprobs", "--alignments", "--nbest", 2, "--max-new-tokens", 4, "--length-penalty", 0)
    for row in records(generate(call, learner, *asked)):
        length = len(row["source"].split())
        for found in row["translations"]:
            assert set(found) == {"text", "finish", "score", "tokens", "logprobs", "alignment"}
            assert found["text"] == " ".join(found["tokens"]) and [t for _, t in found["alignment"]] == list(
                range(len(found["tokens"]))
            )
            assert all(0 <= source <= length for source, _ in found["alignment"])
            assert found["finish"] == "empty" if not length else found["finish"] in ("eos", "length")
            assert len(found["logprobs"]) == len(found["tokens"]) + (found["finish"] == "eos")
            assert found["score"] == pytest.approx(sum(found["logprobs"]), abs=1e-4)


def test_targets_have_the_probability_with_which_they_are_said(call: Run, learner: Path) -> None:
    shown = records(
        generate(call, learner, *HOT, "--to", "jsonl", "--logprobs", "--num-samples", 4, "--min-new-tokens", 1)
    )
    pairs = [
        (row["source"], found)
        for row in shown
        for found in row["translations"]
        if found["finish"] == "eos"
    ]  # fmt: skip
    assert len(pairs) > 5
    stdin = "".join(f"{source}\t{found['text']}\n" for source, found in pairs)
    # temperature divides the logits of what is sampled; the log-probabilities told are those of the model
    scored = records(generate(call, learner, "--score-target", "--to", "jsonl", "--logprobs", stdin=stdin))
    for (_, found), row in zip(pairs, scored, strict=True):
        assert row["tokens"] == [*found["tokens"], "</s>"]
        assert row["logprobs"] == pytest.approx(found["logprobs"], abs=1e-4)
    plain = generate(call, learner, "--score-target", stdin=stdin).lines
    for line, row in zip(plain, scored, strict=True):
        assert line == f"{row['logprob']:.4f}\t{len(row['tokens'])}"
        assert row["logprob"] == pytest.approx(sum(row["logprobs"]), abs=1e-5)
    given = [json.dumps({"source": row["source"], "target": row["target"], "n": 1}) + "\n" for row in scored]
    again = generate(call, learner, "--score-target", "--layout", "jsonl", stdin="".join(given))
    assert again.lines == plain
    whole, cut = ("a b c\tc\n", "--max-source-length"), "a\tc\n"
    done = call("generate", learner, "--score-target", whole[1], 1, stdin=whole[0])
    assert done.out == generate(call, learner, "--score-target", stdin=cut).out and "cut to 1" in done.err


def test_alignments(call: Run, turns: Path, copies: Path) -> None:
    for model, place in ((copies, lambda i, n: i), (turns, lambda i, n: n - 1 - i)):
        done = generate(call, model, "--alignments")
        right = count = 0
        for source, line in zip(SOURCES, done.lines, strict=True):
            text, links = line.split("\t")
            n = len(source.split())
            assert len(text.split()) == len(links.split()) == n
            right += sum(link == f"{place(i, n)}-{i}" for i, link in enumerate(links.split()))
            count += n
        assert right >= 0.8 * count, done.text


def test_models_together(call: Run, turns: Path, learner: Path, tmp_path: Path) -> None:
    pair = "a b c\tc b a\n"
    alone = [float(generate(call, m, "--score-target", stdin=pair).text.split()[0]) for m in (turns, learner)]
    both = float(call("generate", turns, learner, "--score-target", stdin=pair).text.split()[0])
    assert min(alone) < both < max(alone)
    done = call("generate", turns, turns, "--to", "jsonl", stdin=STDIN)
    assert done.code == 0 and [row["translations"][0]["text"] for row in records(done)] == generate(call, turns).lines
    (tmp_path / "sources").write_text(STDIN)
    file = call("generate", turns, learner, "sources", "--beam", 2)
    assert file.code == 0 and len(file.lines) == len(SOURCES)
    other = _made(tmp_path, "other", "rnn", 1, symbols="abc")
    refused = call("generate", turns, other, stdin="a\n")
    assert refused.code == 78 and "other tokens than" in refused.err and refused.out == b""


def test_minimum_risk_is_one_of_the_samples(call: Run, turns: Path) -> None:
    samples = [line.split("\t") for line in generate(call, turns, *HOT, "--num-samples", 8).lines]
    for metric in ("bleu", "chrf"):
        chosen = generate(call, turns, *HOT, "--num-samples", 8, "--mbr", metric).lines
        assert all(line in row for line, row in zip(chosen, samples, strict=True))
        assert generate(call, turns, "--num-samples", 5, "--mbr", metric, stdin="a b c\n").lines == ["c b a"]


def test_coverage_changes_scores(call: Run, turns: Path) -> None:
    plain = records(generate(call, turns, "--to", "jsonl", stdin="a b c\n"))[0]["translations"][0]
    more = records(generate(call, turns, "--to", "jsonl", "--coverage-penalty", 0.5, stdin="a b c\n"))[0][
        "translations"
    ][0]
    assert plain["text"] == more["text"] == "c b a" and more["score"] < plain["score"]


# -- parts, stops, pipes ----------------------------------------------------------------------------------------------


@pytest.mark.sampled(1)
@pytest.mark.parametrize("how", [("--temperature", 0), (*HOT, "--seed", 3)])
def test_the_outputs_of_all_parts_are_the_whole(call: Run, turns: Path, tmp_path: Path, how: tuple[Any, ...]) -> None:
    random = Random(1)
    lines = [" ".join(random.choices(SYMBOLS, k=random.randint(0, 5))) for _ in range(20)]
    (tmp_path / "one").write_text("".join(f"{line}\n" for line in lines[:13]))
    (tmp_path / "two").write_text("\n".join(lines[13:]))
    whole = generate(call, turns, "one", "two", *how, "--window", 7)
    parts = [generate(call, turns, "one", "two", *how, "--shard", f"{i}/3").out for i in (1, 2, 3)]
    assert b"".join(parts) == whole.out and whole.out.count(b"\n") == 20
    assert (
        b"".join(generate(call, turns, "two", *how, "--shard", f"{i}/11").out for i in range(1, 12)).count(b"\n") == 7
    )
    for at in (0, 1, len(whole.out) // 2, whole.out.index(b"\n") + 1, len(whole.out) - 1, len(whole.out)):
        (tmp_path / "out").write_bytes(whole.out[:at])
        assert generate(call, turns, "one", "two", *how, "--skip-done", "-q", "-o", "out").out == b""
        assert (tmp_path / "out").read_bytes() == whole.out, at
    third = b"".join(parts[1:2])
    (tmp_path / "part").write_bytes(third[: len(third) // 2])
    generate(call, turns, "one", "two", *how, "--shard", "2/3", "--skip-done", "-q", "-o", "part")
    assert (tmp_path / "part").read_bytes() == third


@pytest.mark.sampled(law="an output that fails ends the command")
def test_a_closed_pipe_ends_it_silently(fork_shell: Run, turns: Path) -> None:
    line = f'yes "a b c" | nlptools generate {turns} --threads 1 --window 4 --temperature 0'
    done = fork_shell(f'{line} | head -n 1; echo "${{PIPESTATUS[*]}}"')
    assert done.lines == ["c b a", "141 141 0"] and done.err == ""


@pytest.mark.parametrize(
    ("args", "stdin", "code", "said"),
    [
        (("--shard", "1/3"), "a\n", 2, "--shard needs files"),
        (("--shard", "4/3"), "a\n", 2, "not a shard: '4/3'"),
        (("--skip-done",), "a\n", 2, "--skip-done needs an output file"),
        (("--skip-done", "-o", "out.gz"), "a\n", 2, "--skip-done needs an output file, not compressed"),
        (("--mbr", "bleu"), "a\n", 2, "--mbr requires --num-samples"),
        (("--mbr", "bleu", "--num-samples", 4, "--beam", 4), "a\n", 2, "cannot be combined with --beam"),
        (("--coverage-penalty", 1, "--beam", 0), "a\n", 2, "--coverage-penalty cannot be combined with --beam 0"),
        (("--nbest", 3, "--temperature", 0), "a\n", 2, "--nbest is for beam search"),
        (("--nbest", 3, "--num-samples", 2), "a\n", 2, "--nbest is for beam search"),
        (("--nbest", 9, "--beam", 4), "a\n", 2, "--nbest 9 is more than --beam 4"),
        (("--alignments", "--nbest", 2), "a\n", 2, "need --to jsonl"),
        (("--score-target", "--nbest", 2), "a\n", 2, "--score-target cannot be combined with"),
        (("--stream",), "a\n", 2, "--stream is for language models"),
        (("--prefix", "q"), "a\n", 65, "no tokens for the prefix 'q'"),
        (
            (
                "--layout",
                "jsonl",
            ),
            '{"source": "a"}\n{"source": "a", "prefix": "q"}\n',
            65,
            "input 2: the model has no tokens",
        ),
        (
            (
                "--layout",
                "jsonl",
            ),
            '{"source": "a", "prefix": 7}\n',
            65,
            '<stdin>:1: expected a text under "prefix"',
        ),
        (
            (
                "--layout",
                "jsonl",
            ),
            '{"prompt": "a"}\n',
            65,
            '<stdin>:1: expected a text under "source"',
        ),
        (("--score-target",), "a\tb\na\n", 65, "<stdin>:2: expected source TAB target, found 1 field"),
        (("--score-target", "--layout", "jsonl"), '{"source": "a"}\n', 65, 'expected a text under "target"'),
        ((), b"a\n\xff\n", 65, "<stdin>:2: invalid UTF-8 at byte 1"),
        (("missing",), "", 66, "missing: no such file"),
        (("-o", "taken"), "a\n", 73, "taken: exists"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    call: Run, turns: Path, tmp_path: Path, args: tuple[Any, ...], stdin: str | bytes, code: int, said: str
) -> None:
    (tmp_path / "taken").write_text("x")
    done = call("generate", turns, *args, stdin=stdin)
    assert done.code == code and said in done.err and "Traceback" not in done.err, done.err
    assert done.err.startswith("nlptools generate: ") and (tmp_path / "taken").read_text() == "x"


def test_a_source_of_unknown_pieces_is_told(call: Run, turns: Path) -> None:
    done = call("generate", turns, stdin="привет мир\na b\n")
    assert done.code == 0 and len(done.lines) == 2
    assert "50% of the tokens of the sources are unknown to the tokenizer" in done.err


@pytest.mark.parametrize("args", [("--contrastive", 0.6, "--top-k", 4), ("--lookup", 4), ("--ban-words", "a")])
def test_options_of_language_models_are_refused_to_encoder_decoders(
    call: Run, copies: Path, args: tuple[Any, ...]
) -> None:
    done = call("generate", copies, *args, stdin="1 2\n")
    assert done.code == 2 and args[0] in done.err and "language model" in done.err, done.err


def test_options_of_encoder_decoders_are_refused_to_language_models(call: Run, tmp_path: Path) -> None:
    from tiny_bundles import words_bundle

    model = words_bundle(tmp_path / "lm")
    for args in (("--alignments",), ("--prefix", "w1"), ("--window", 3), ("--score-target",), ("--mbr", "bleu",
                 "--num-samples", 3), ("--max-source-length", 5)):  # fmt: skip
        done = call("generate", model, *args, stdin="w1\n")
        assert done.code == 2 and f"{args[0]} is for encoder-decoders" in done.err, done.err
    kept = call(
        "generate",
        model,
        "--layout",
        "jsonl",
        "--to",
        "jsonl",
        "--max-new-tokens",
        2,
        stdin='{"prompt": "w1", "prefix": 7}\n',
    )
    assert kept.code == 0 and json.loads(kept.text)["prefix"] == 7, kept.err


# -- models of others -------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Recommended")
def test_a_marian_of_transformers_is_opened(call: Run, english: list[str], tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    sentencepiece = pytest.importorskip("sentencepiece")
    import torch

    lines = [line.replace("\t", " ")[:50] for line in english[:200]]
    (tmp_path / "text").write_text("\n".join(english[:800]))
    sentencepiece.SentencePieceTrainer.train(
        input=str(tmp_path / "text"), model_prefix=str(tmp_path / "sp"), vocab_size=300, minloglevel=2, num_threads=1,
        hard_vocab_limit=False,
    )  # fmt: skip
    (tmp_path / "pairs").write_text("".join(f"{line}\t{line}\n" for line in lines))
    done = call("train-seq2seq", "-t", "sp.model", "--layers", 1, "--hidden", 32, "--heads", 2, "--steps", 50, "--lr",
                "1e-2", "--warmup", 0, "--batch-tokens", 500, "-q", "-o", "ours", "pairs")  # fmt: skip
    assert done.code == 0, done.err
    model = transformers.MarianMTModel.from_pretrained(tmp_path / "ours")
    model.save_pretrained(tmp_path / "theirs")
    for name in ("source.spm", "target.spm", "vocab.json", "tokenizer_config.json"):
        shutil.copy(tmp_path / "ours" / name, tmp_path / "theirs" / name)
    stdin = "".join(f"{line}\n" for line in lines[:5])
    asked = ("--temperature", 0, "--max-new-tokens", 12, "--min-new-tokens", 6)
    found = generate(call, tmp_path / "theirs", *asked, stdin=stdin)
    assert found.out == generate(call, tmp_path / "ours", *asked, stdin=stdin).out and found.text.strip()
    tokenizer = transformers.MarianTokenizer.from_pretrained(tmp_path / "ours")
    with torch.no_grad():
        for line, ours in zip(lines, found.lines, strict=False):
            ids = model.generate(
                **tokenizer([line], return_tensors="pt"), num_beams=1, do_sample=False, max_new_tokens=12, min_new_tokens=6,
            )  # fmt: skip
            assert tokenizer.decode(ids[0], skip_special_tokens=True).strip() == ours.strip()
