"""N-gram models on the command line: train-lm --arch ngram, score, generate, ARPA files."""

from __future__ import annotations

import contextlib
import gzip
import json
import math
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import environment, within
from faults import Fault, Killed

TEXT = "".join(
    f"the {a} {b} the {c}\n" for a in ("small", "big", "old") for b in ("dog saw", "cat ate") for c in ("cat", "mouse")
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("ngram")
    (place / "train.txt").write_text(TEXT * 2)
    (place / "valid.txt").write_text("the small dog ate the mouse\nthe red cat\n")
    done = within(
        place,
        *("train-lm", "--arch", "ngram", "-t", "whitespace", "--order", "3", "--valid", "valid.txt", "-o", "lm"),
        *("--arpa", "lm.arpa", "train.txt"),
    )
    assert done.code == 0, done.err
    assert "3-grams" in done.err and "validation perplexity" in done.err
    return place


def total(place: Path, model: str, *more: str) -> dict[str, Any]:
    done = within(place, "score", model, "--per", "total", "valid.txt", *more)
    assert done.code == 0, done.err
    return json.loads(done.text)


def test_lines_tokens_and_the_whole_text_agree(trained):
    whole = total(trained, "lm")
    assert (whole["tokens"], whole["unknown"], whole["protocol"]["context"]) == (11, 1, 2)
    lines = within(trained, "score", "lm", "valid.txt").text.split("\n")[:-1]
    assert sum(float(line.split("\t")[0]) for line in lines) == pytest.approx(whole["log_probability"], abs=1e-3)
    tokens = within(trained, "score", "lm", "--per", "token", "valid.txt").text.split("\n")
    assert [row.split("\t")[0] for row in tokens[:7]] == ["the", "small", "dog", "ate", "the", "mouse", "</s>"]
    record = json.loads((trained / "lm" / "training.json").read_text())["metrics"]
    assert math.exp(record["valid_loss"]) == pytest.approx(whole["perplexity"])
    shorter = within(trained, "score", "lm", "--no-eos", "valid.txt").text.split("\n")
    assert [line.split("\t")[1] for line in shorter[:2]] == ["6", "3"]


def test_the_arpa_file_is_the_same_model(trained):
    ours, theirs = total(trained, "lm"), total(trained, "lm.arpa")
    assert theirs["log_probability"] == pytest.approx(ours["log_probability"], abs=1e-4)


def test_convert_goes_from_arpa_to_a_directory_and_back(trained):
    done = within(trained, "convert", "lm", "again.arpa")
    assert done.code == 0 and "3-grams" in done.err
    assert (trained / "again.arpa").read_bytes() == (trained / "lm.arpa").read_bytes(), "as train-lm writes it"
    assert within(trained, "convert", "lm", "-").out == (trained / "lm.arpa").read_bytes()
    (trained / "packed.arpa.gz").write_bytes(gzip.compress((trained / "lm.arpa").read_bytes()))
    assert within(trained, "convert", "packed.arpa.gz", "opened").code == 0
    assert total(trained, "opened") == total(trained, "lm.arpa")
    within(trained, "convert", "opened", "third.arpa")
    assert sorted((trained / "third.arpa").read_text().split()) == sorted((trained / "lm.arpa").read_text().split())
    for arguments, status, message in (
        (("lm.arpa", "opened"), 73, "opened: exists"),
        (("lm", "third.arpa"), 73, "third.arpa: exists"),
        (("lm", "other"), 2, "the target is an ARPA file, such as other.arpa"),
        (("lm.arpa", "lm.bin"), 2, ".bin files hold word vectors"),
        (("lm.arpa", "other", "--restrict", "5"), 2, "only --force applies to"),
        (("none.arpa", "other"), 66, "none.arpa"),
    ):
        refused = within(trained, "convert", *arguments)
        assert refused.code == status and message in refused.err, arguments
    assert not (trained / "other").exists() and not (trained / "lm.bin").exists()
    assert within(trained, "convert", "lm.arpa", "opened", "--force").code == 0
    # of pieces, the file is about the pieces
    assert within(trained, "train-lm", "--arch", "ngram", "-t", "char", "-o", "letters", "train.txt").code == 0
    assert "nlptools tokenize -t letters" in within(trained, "convert", "letters", "letters.arpa").err


def test_words_with_wide_spaces_are_words_of_the_file(trained):
    """As KenLM reads them: white space of ASCII ends a word, no other does."""
    wide = ["\u00a0", "\u3000", "\u202f", "\u2003", "\u0085", "\x1f"]
    rows = "".join(f"-{n}\tten{space}km\n" for n, space in enumerate(wide, 2))
    text = f"\\data\\\nngram 1={3 + len(wide)}\n\n\\1-grams:\n-1\t<unk>\n-99\t<s>\n-0.5\t</s>\n{rows}\\end\\\n"
    (trained / "wide.arpa").write_text(text, encoding="utf-8")
    given = "".join(f"ten{space}km\n" for space in wide) + "ten\u00a0m\nten km\n"
    expected = [*((n + 0.5, 2) for n in range(2, 2 + len(wide))), (1.5, 2), (2.5, 3)]
    assert within(trained, "convert", "wide.arpa", "wide").code == 0
    for model in ("wide.arpa", "wide"):
        rows = within(trained, "score", model, stdin=given).lines
        for row, (logarithm, tokens) in zip(rows, expected, strict=True):
            assert float(row.split("\t")[0]) == pytest.approx(-logarithm * math.log(10), abs=1e-3), (model, row)
            assert int(row.split("\t")[1]) == tokens
        words = within(trained, "score", model, "--per", "word", stdin="ten\u3000km ten\n").lines
        assert [row.split("\t")[0] for row in words if row] == ["ten\u3000km", "ten"]
    again = within(trained, "convert", "wide", "-").out.decode()
    assert all(f"ten{space}km" in again for space in wide)


def test_an_arpa_file_in_latin_1_does_not_pass_silently(trained):
    text = "\\data\\\nngram 1=4\n\n\\1-grams:\n-1\t<unk>\n-99\t<s>\n-0.5\t</s>\n-0.7\tété\n\\end\\\n"
    (trained / "latin.arpa").write_bytes(text.encode("latin-1"))
    for command in (("score", "latin.arpa"), ("generate", "latin.arpa"), ("convert", "latin.arpa", "latin")):
        refused = within(trained, *command, stdin="été\n")
        assert refused.code == 65 and "latin.arpa:8: the word" in refused.err and "iconv" in refused.err, command
    done = within(trained, "score", "latin.arpa", "--encoding-errors", "replace", stdin="été\n")
    assert done.code == 0 and "1 word with invalid UTF-8" in done.err
    assert float(done.text.split("\t")[0]) == pytest.approx(-1.5 * math.log(10), abs=1e-3), "unknown in any text"
    assert within(trained, "convert", "latin.arpa", "latin", "--encoding-errors", "replace").code == 0
    assert within(trained, "score", "latin", stdin="\\xe9t\\xe9\n").text.startswith("-2.7631")


@pytest.mark.parametrize("model", ["lm", "lm.arpa"])
def test_generated_text_follows_the_text(model, trained):
    done = within(trained, "generate", model, "--temperature", "0", stdin="the small\n")
    assert done.code == 0, done.err
    words = done.text.split()
    assert words[:1] in (["dog"], ["cat"]) and words[-1:] in (["cat"], ["mouse"])


def test_pytorch_is_not_loaded_for_training_and_scoring(trained):
    code = (
        "import sys; from nlptools.cli import main\n"
        "for arguments in (['train-lm', '--arch', 'ngram', '-t', 'words', '-o', 'other', 'train.txt'],"
        " ['score', 'lm', 'valid.txt'], ['score', 'lm.arpa', 'valid.txt']):\n"
        "    sys.argv = ['nlptools', *arguments]\n"
        "    try: main()\n"
        "    except SystemExit as end: assert not end.code, end.code\n"
        "    assert 'torch' not in sys.modules, arguments\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=trained, env=environment(), check=True, capture_output=True)


def test_sentences_stand_apart(trained):
    done = within(trained, "score", "lm.arpa", "--carry", "valid.txt")
    assert (done.code, done.text) == (2, "")
    assert "--carry: lm.arpa sees nothing before the sentence of a token" in done.err


@pytest.mark.parametrize("method", ["absolute", "witten-bell", "add-k", "jelinek-mercer"])
def test_other_methods(method, trained):
    name = f"lm-{method}"
    more = ("--arch", "ngram", "-t", "words", "--order", "2", "--smoothing", method, "--valid", "valid.txt")
    done = within(trained, "train-lm", *more, "-o", name, "train.txt")
    assert done.code == 0, done.err
    assert ("weights: " in done.err) == (method == "jelinek-mercer")
    assert 1 < total(trained, name)["perplexity"] < 20


def test_fitted_weights_are_better_than_others(trained):
    more = ("--arch", "ngram", "-t", "words", "--order", "2", "--smoothing", "jelinek-mercer", "--valid", "valid.txt")
    within(trained, "train-lm", *more, "-o", "fitted", "train.txt")
    best = total(trained, "fitted")["perplexity"]
    for number, weights in enumerate((".2,.7", ".5,.3", ".05,.8")):
        done = within(trained, "train-lm", *more, "--interpolation", weights, "-o", f"set{number}", "train.txt")
        assert done.code == 0, done.err
        assert total(trained, f"set{number}")["perplexity"] > best - 1e-6


def test_characters_of_a_file_need_no_vocabulary(trained):
    more = ("--arch", "ngram", "-t", "char", "--document", "file", "--order", "6")
    assert within(trained, "train-lm", *more, "-o", "chars", "train.txt").code == 0
    done = within(trained, "generate", "chars", "--temperature", "0", "--max-new-tokens", "20", stdin="the big\n")
    assert done.text.startswith(" ") and "the" in done.text


def test_characters_of_a_file_with_a_vocabulary_include_line_ends(trained):
    assert within(trained, "build-vocab", "-t", "char", "-o", "chars.tsv", "train.txt").code == 0
    chars = (trained / "chars.tsv").read_text().split("\n")
    (trained / "chars.tsv").write_text("\n".join(line for line in chars if not line.startswith("\\n\t")))
    more = ("--arch", "ngram", "-t", "char", "--vocab", "chars.tsv", "--document", "file", "--order", "6")
    assert within(trained, "train-lm", *more, "-o", "given-chars", "train.txt").code == 0
    assert "\\n\t0" in (trained / "given-chars" / "vocab.tsv").read_text().split("\n")
    scored = within(trained, "score", "given-chars", "--per", "total", "train.txt")
    assert json.loads(scored.text)["unknown"] == 0


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("--layers", "3"), 2, "--layers applies to every --arch but ngram"),
        (("--lr", "1"), 2, "--lr applies to every --arch but ngram"),
        (("--order", "8"), 2, "--order"),
        (("--prune", "0,2,1"), 2, "never smaller than the one before"),
        (("--prune", "1"), 2, "0 for single words"),
        (("--interpolation", ".5,.5"), 2, "--interpolation applies to --smoothing jelinek-mercer only"),
        (("--smoothing", "jelinek-mercer", "--interpolation", ".5,.5"), 2, "--order 5 needs 5"),
        (("--smoothing", "jelinek-mercer"), 2, "requires --interpolation, or --valid"),
        (("--add", "2"), 2, "--add applies to --smoothing add-k only"),
    ],
)
def test_options_that_do_not_fit(arguments, status, message, trained):
    done = within(trained, "train-lm", "--arch", "ngram", "-t", "words", "-o", "wrong", *arguments, "train.txt")
    assert (done.code, done.text) == (status, "") and message in done.err
    assert not (trained / "wrong").exists()


def test_options_of_n_grams_need_n_grams(trained):
    done = within(trained, "train-lm", "-t", "words", "--order", "3", "-o", "wrong", "train.txt")
    assert done.code == 2 and "--order applies to --arch feedforward, ngram only" in done.err


def test_other_commands_name_the_ones_that_take_n_grams(trained):
    for command in (("embed", "lm"), ("predict", "lm")):
        done = within(trained, *command, "valid.txt")
        assert done.code == 2 and "score and generate can use it" in done.err


def test_a_finished_model_is_kept_without_force(trained):
    again = ("train-lm", "--arch", "ngram", "-t", "whitespace", "--order", "2", "-o", "lm-again")
    assert within(trained, *again, "train.txt").code == 0
    before = {path.name: path.stat().st_mtime_ns for path in (trained / "lm-again").iterdir()}
    finished = within(trained, *again, "--arpa", "again.arpa", "train.txt")
    assert finished.code == 0 and "lm-again: the run is finished already; --force repeats it\n" in finished.err
    assert before == {path.name: path.stat().st_mtime_ns for path in (trained / "lm-again").iterdir()}
    assert total(trained, "again.arpa")["tokens"] == 11, "it is written where it is not there yet"
    for options, message in (
        (("--smoothing", "witten-bell", "train.txt"), "lm-again: holds a run with other settings (smoothing)"),
        (("valid.txt",), "lm-again: holds a run on other text"),
    ):
        refused = within(trained, *again, *options)
        assert refused.code == 73 and message in refused.err and "hint: --force replaces it" in refused.err
    assert within(trained, *again, "--force", "train.txt").code == 0


def test_what_a_killed_run_leaves_goes_with_the_next(trained):
    again = ("train-lm", "--arch", "ngram", "-t", "whitespace", "--order", "2", "-o", "lm-left", "train.txt")
    for name in (".lm-left.12ab34cd", ".lm-left.deadbeef"):
        (trained / name / "data").mkdir(parents=True)
        (trained / name).chmod(0o700)  # as those of a process that fills them
        assert within(trained, *again).code == 0
        assert not (trained / name).exists(), "also by a run that is finished already"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kill", [True, False], ids=["killed", "EIO"])
def test_a_run_that_fails_at_any_moment_begins_again_by_the_same_command(trained, tmp_path, monkeypatch, kill):
    options = ("train-lm", "--arch", "ngram", "-t", "whitespace", "--order", "3", "--memory", "1K", "--keep-counts")
    text = str(trained / "train.txt")
    assert within(tmp_path, *options, "-o", "whole", text).code == 0
    whole = {path.name for path in (tmp_path / "whole").iterdir()}
    for at in range(1, 1000):
        run = (*options, "-o", f"lm{at}", text)
        with monkeypatch.context() as patch:
            fault = Fault(patch, at, kill=kill, names=("replace", "mkdir"))
            with contextlib.suppress(Killed):
                assert within(tmp_path, *run).code in (0, 73, 74), fault.where
        if not fault.happened:
            assert at > 8, "directories of the output and of the counts, files of the model, its name"
            break
        done = within(tmp_path, *run)
        assert done.code == 0, (fault.where, done.err)
        assert same_tables(tmp_path, "whole", f"lm{at}"), fault.where
        assert {path.name for path in (tmp_path / f"lm{at}").iterdir()} == whole, fault.where
        assert not list(tmp_path.glob(".*")), fault.where


def test_an_arpa_file_that_exists_is_refused_before_the_text_is_counted(trained):
    before = (trained / "lm.arpa").read_bytes()
    again = ("train-lm", "--arch", "ngram", "-t", "words", "--arpa", "lm.arpa", "-o", "never", "train.txt")
    done = within(trained, *again)
    assert done.code == 73 and "lm.arpa: exists" in done.err and "text:" not in done.err
    assert not (trained / "never").exists() and (trained / "lm.arpa").read_bytes() == before


@pytest.mark.parametrize(
    "change", [{"order": 4}, {"order": True}, {"bos": 999}, {"vocab_size": -1}, {"order": None}, {"vocab_size": 7}]
)
def test_a_damaged_configuration_is_refused(change, trained, tmp_path):
    shutil.copytree(trained / "lm", tmp_path / "lm")
    (tmp_path / "lm" / "manifest.json").unlink()
    config = json.loads((tmp_path / "lm" / "config.json").read_text())
    (tmp_path / "lm" / "config.json").write_text(json.dumps(config | change))
    done = within(trained, "score", str(tmp_path / "lm"), "valid.txt")
    assert (done.code, done.text) == (78, "") and done.err.count("\n") <= 2


def test_lines_score_the_same_together_and_apart(trained):
    lines = [
        "the small dog",
        "",
        "  the  cat ",
        "a </s> b",
        "the\u2028cat",
        "</s>",
        "the old cat ate the mouse <s> x",
        "the",
    ]
    together = within(trained, "score", "lm", stdin="\n".join(lines) + "\n").text.split("\n")[:-1]
    apart = [within(trained, "score", "lm", stdin=line + "\n").text.strip() for line in lines]
    assert together == apart and len(together) == len(lines)
    tokens = within(trained, "score", "lm", "--per", "token", stdin="\n".join(lines) + "\n").text.split("\n\n")[:-1]
    sums = [sum(float(row.split("\t")[1]) for row in line.split("\n")) for line in tokens]
    assert [float(line.split("\t")[0]) for line in together] == pytest.approx(sums, abs=1e-3)


# -- memory, parts ------------------------------------------------------------------------------------------------------

NGRAMS = ("train-lm", "--arch", "ngram", "--order", "4")


@pytest.fixture(scope="module")
def parts(trained: Path) -> Path:
    """A text of two parts, a vocabulary, and models of the whole and of each part."""
    lines = [
        f"{a} {b} {c} {b} x{i % 7}\n" for i, (a, b, c) in enumerate(zip("abcab" * 400, "xyz" * 667, "pqpqrst" * 286))
    ]
    (trained / "a.txt").write_text("".join(lines[:700]))
    (trained / "b.txt").write_text("".join(lines[700:]))
    assert within(trained, "build-vocab", "-t", "whitespace", "-o", "words.tsv", "a.txt", "b.txt").code == 0
    for name, texts in {"whole": ("a.txt", "b.txt"), "a": ("a.txt",), "b": ("b.txt",)}.items():
        done = within(
            trained, *NGRAMS, "-t", "whitespace", "--vocab", "words.tsv", "--keep-counts", "-o", f"part-{name}", *texts
        )
        assert done.code == 0, done.err
    return trained


def same_tables(place: Path, one: str, other: str) -> bool:
    first, second = ((place / name / "model.safetensors").read_bytes() for name in (one, other))
    return first == second


@pytest.mark.parametrize(
    "method", [(), ("--prune", "0,0,1"), ("--smoothing", "jelinek-mercer", "--valid", "a.txt"), ("--valid", "a.txt")]
)
def test_little_memory_makes_no_difference(method, parts):
    records = []
    for name, memory in (("much", "1G"), ("little", "200K")):
        more = ("--memory", memory, "--arpa", f"{name}.arpa", "--force", "-o", name)
        done = within(parts, *NGRAMS, "-t", "words", *method, *more, "a.txt", "b.txt")
        assert done.code == 0, done.err
        assert ("counted in 3 parts" in done.err) == (name == "little")
        records.append(json.loads((parts / name / "training.json").read_text())["metrics"])
        del records[-1]["seconds"]
    assert same_tables(parts, "much", "little") and records[0] == records[1]
    assert (parts / "much.arpa").read_bytes() == (parts / "little.arpa").read_bytes()
    assert not [path for path in parts.iterdir() if path.name.startswith(".")]


def test_merged_counts_are_those_of_the_whole_text(parts):
    merge = ("--merge", "part-a", "part-b", "-t", "part-a", "--keep-counts", "-o", "merged")
    done = within(parts, *NGRAMS, *merge)
    assert done.code == 0, done.err
    for name in ("model.safetensors", "counts.safetensors", "vocab.tsv", "config.json"):
        assert (parts / "merged" / name).read_bytes() == (parts / "part-whole" / name).read_bytes(), name
    whole, merged = (json.loads((parts / name / "training.json").read_text()) for name in ("part-whole", "merged"))
    assert merged["data"]["train"]["merged"] == ["part-a", "part-b"]
    assert all(merged["data"]["train"][key] == whole["data"]["train"][key] for key in ("tokens", "words", "lines"))
    less = ("train-lm", "--arch", "ngram", "--order", "2", "-t", "words", "--vocab", "words.tsv", "-o")
    assert within(parts, *less, "two", "a.txt", "b.txt").code == 0
    again = ("--force", "-t", "merged", "--merge", "part-a", "--merge", "part-b")  # of a lower order
    assert within(parts, *less[:5], *again, "-o", "two-merged").code == 0
    assert same_tables(parts, "two", "two-merged")


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("--merge", "part-a", "-t", "part-a", "--order", "5"), 2, "counts of up to 4 words, --order 5 needs more"),
        (("--merge", "lm", "-t", "lm"), 2, "hint: train-lm --arch ngram --keep-counts"),
        (("--merge", "part-a", "-t", "lm"), 2, "its vocabulary differs from the vocabulary of --tokenizer"),
        (("--merge", "part-a", "-t", "words"), 2, "has no vocabulary"),
        (("--merge", "a.txt", "-t", "part-a"), 78, "is a file, expected a model directory"),
        (("--merge", "nothing", "-t", "part-a"), 66, "no such model directory"),
        (("a.txt", "--merge", "part-a", "-t", "part-a"), 2, "--merge replaces text"),
        (("--memory", "much", "-t", "words", "a.txt"), 2, "not a size"),
    ],
)
def test_counts_that_cannot_be_merged(arguments, status, message, parts):
    done = within(parts, "train-lm", "--arch", "ngram", *arguments, "-o", "wrong")
    assert (done.code, done.text) == (status, "") and message in done.err
    assert done.err.count("\n") <= 2 and not (parts / "wrong").exists()


@pytest.mark.parametrize("damage", ["zeros", "short", "header"])
def test_damaged_counts_are_refused(damage, parts, tmp_path):
    shutil.copytree(parts / "part-a", tmp_path / "a")
    file, manifest = tmp_path / "a" / "counts.safetensors", tmp_path / "a" / "manifest.json"
    data = file.read_bytes()
    file.write_bytes(
        {"zeros": data[:-800] + b"\xff" * 800, "short": data[:-8], "header": b"\xff" * 8 + data[8:]}[damage]
    )
    merge = (*NGRAMS, "-t", "part-b", "--merge", str(tmp_path / "a"), "part-b", "-o", "wrong")
    for _ in range(2):
        done = within(parts, *merge)
        assert (done.code, done.text) == (78, "") and "damaged" in done.err
        assert done.err.count("\n") == 1
        manifest.unlink(missing_ok=True)  # without sums, the content is looked at


# -- bad input ----------------------------------------------------------------------------------------------------------


def test_a_text_too_small_for_the_order_is_refused(trained):
    train = ("train-lm", "--arch", "ngram", "-t", "words", "-o", "small", "--order")
    done = within(trained, *train, "5", stdin="a\nb c\n")
    assert (done.code, done.text) == (65, "")
    assert "too small for --order 5: with <s> and </s>, its longest document has 4 tokens" in done.err
    assert "hint: --order 4" in done.err and not (trained / "small").exists()
    done = within(trained, *train, "4", stdin="a\nb c\n")
    assert done.code == 0 and "warning: 4-grams: 1 occur once" in done.err.lower()
    assert 0 > float(within(trained, "score", "small", stdin="a\n").text.split("\t")[0]) > -10


@pytest.mark.parametrize("text", ["", "\n\n", "  \n"])
def test_a_text_without_words_is_refused(text, trained):
    done = within(trained, "train-lm", "--arch", "ngram", "-t", "words", "-o", "none", stdin=text)
    assert (done.code, done.text) == (65, "") and "no training data" in done.err


@pytest.mark.parametrize(
    ("words", "more", "status", "message"),
    [
        ("<unk> <s> </s> the small", (), 65, "of the tokens of the training data are unknown to the tokenizer"),
        (
            "<unk> <s> </s> the small",
            ("--force",),
            0,
            "of the tokens of the training data are unknown to the tokenizer",
        ),
        ("<unk> </s> the small big old dog saw cat ate", (), 0, "are unknown to the tokenizer"),  # one of seven
        ("<s> </s> the small", (), 65, "is not in the vocabulary, which has no <unk>"),
        ("<unk> the small", (), 78, "no end-of-text token"),
    ],
)
def test_vocabularies_that_miss_words(words, more, status, message, trained):
    (trained / "few.tsv").write_text(words.replace(" ", "\n") + "\n")
    train = ("train-lm", "--arch", "ngram", "-t", "words", "--vocab", "few.tsv", "--order", "2", "-o", "few", *more)
    done = within(trained, *train, "train.txt")
    assert (done.code, done.text) == (status, "") and message in done.err
    assert (trained / "few").exists() == (status == 0)
    if status == 0:
        shutil.rmtree(trained / "few")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("ngram 2=", "ngram 2=9"), "2-grams, the head announces 9"),
        (("-0.", "0."), "expected at most 0"),
        (("\\2-grams:", ""), "expected \\2-grams:"),
        (("\\end\\", ""), "expected \\end\\"),
        (("\\data\\", ""), "expected \\data\\"),
    ],
)
def test_damaged_arpa_files_are_refused(change, message, trained):
    text = (trained / "lm.arpa").read_text()
    assert change[0] in text
    (trained / "bad.arpa").write_text(text.replace(*change, 1))
    for command in (("score",), ("generate",)):
        done = within(trained, *command, "bad.arpa", stdin="the\n")
        assert (done.code, done.text) == (65, "") and message in done.err
        assert "bad.arpa:" in done.err
