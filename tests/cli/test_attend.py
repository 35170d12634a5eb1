"""attend: weights of words and tokens against the plain models, choices of layers and heads, pictures, pages, bad input."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_bundles import WORDS as LM_WORDS
from tiny_bundles import words_bundle
from tiny_encoder_decoders import tiny as tiny_translator

from nlptools import bundle
from nlptools.cli.manual.command_pages import command_page
from nlptools.text.builtin import NamedTokenizer
from nlptools.text.vocab import Vocab

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "##s", "sat", "on", "mat", "##ting", ".", "do"]
PAIR = "the cats sat .\tmatting do the matting"
TARGET = ["w1", "w3", "w5"]


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small encoder of word pieces, as transformers writes it."""
    from transformers import BertConfig, BertModel

    path = tmp_path_factory.mktemp("attend") / "bert"
    torch.manual_seed(0)
    sizes = {"vocab_size": len(PIECES), "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3}
    model = BertModel(BertConfig(**sizes, intermediate_size=40, max_position_embeddings=20))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    model.save_pretrained(path)
    (path / "vocab.txt").write_text("\n".join(PIECES) + "\n")
    return path


@pytest.fixture(scope="module")
def translators(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A Transformer and an RNN of words with an end token and a padding."""
    place, made = tmp_path_factory.mktemp("translators"), {}
    tokenizer = NamedTokenizer("words", Vocab(["<unk>", "</s>", *(f"w{i}" for i in range(27)), "<pad>"]))
    for form in ("transformer", "rnn", "rnn-fixed-vector"):
        model: Any = tiny_translator(form, eos=1)
        arch = "seq2seq-transformer" if form == "transformer" else "seq2seq-rnn"
        (place / form).mkdir()
        bundle.save_pair(place / form, arch, model, model.state_dict(), tokenizer, training={})
        made[form] = place / form
    return made


def records(done: Any) -> list[dict[str, Any]]:
    assert (done.code, done.err) == (0, "")
    return [json.loads(line) for line in done.lines]


@torch.inference_mode()
def plain(path: Path, *inputs: Any) -> np.ndarray:
    """(L, H, T, S) from the model itself."""
    model = bundle.load(path).model
    model = getattr(model, "encoder", model) if path.name == "bert" else model
    return torch.cat(list(model.eval().attention_weights(*inputs))).numpy()


@pytest.mark.reference
@pytest.mark.filterwarnings("ignore")
def test_weights_of_words_are_sums_of_transformers(bert, call):
    from transformers import BertModel, BertTokenizer

    a, b = PAIR.split("\t")
    tokenizer = BertTokenizer(vocab=str(bert / "vocab.txt"))
    model = BertModel.from_pretrained(bert, attn_implementation="eager").eval()
    with torch.inference_mode():
        found = model(**tokenizer(a, b, return_tensors="pt"), output_attentions=True).attentions
    expected = torch.cat(list(found)).numpy()
    # [CLS] the cat ##s sat . [SEP] mat ##ting do the mat ##ting [SEP]
    starts = [0, 1, 2, 4, 5, 6, 7, 9, 10, 11, 13]
    summed = np.add.reduceat(expected, starts, axis=3)
    ends = [*starts[1:], 14]
    summed = np.stack([summed[:, :, a:b].mean(2) for a, b in zip(starts, ends, strict=True)], 2)
    words, tokens = (records(call("attend", bert, "--per", per, stdin=PAIR))[0] for per in ("word", "token"))
    assert words["queries"] == words["keys"] == ["[CLS]", *a.split(), "[SEP]", *b.split(), "[SEP]"]
    assert np.abs(np.array(words["attention"]) - summed).max() < 1e-5
    pieces = "the cat ##s sat . [SEP] mat ##ting do the mat ##ting"
    assert tokens["keys"] == ["[CLS]", *pieces.split(), "[SEP]"]
    assert np.abs(np.array(tokens["attention"]) - expected).max() < 1e-5
    assert (words["layers"], words["heads"]) == ([1, 2], [1, 2, 3])


def test_choices_of_layers_heads_and_words(tmp_path, call):
    lm = words_bundle(tmp_path / "lm")
    line = "w1 w5 w1 w2"
    ids = torch.tensor([[1, *map(LM_WORDS.index, line.split())]])
    expected = plain(lm, ids)
    both = records(call("attend", lm, "--layer", "-1,1", "--head", 3, stdin=f"{line}\n\n"))
    assert both[0]["layers"] == [2, 1] and both[0]["heads"] == [3] and both[0]["queries"] == ["</s>", *line.split()]
    assert np.abs(np.array(both[0]["attention"]) - expected[[1, 0]][:, [2]]).max() < 1e-5
    assert (both[1]["text"], both[1]["queries"], both[1]["keys"]) == ("", [], [])
    [mean] = records(call("attend", lm, "--mean", "--query", "w1", "--no-special", "--text", line))
    assert (mean["queries"], mean["keys"]) == (["w1", "w1"], line.split())
    assert np.abs(np.array(mean["attention"]) - expected.mean((0, 1))[[1, 3], 1:]).max() < 1e-5


def test_translators_have_three_kinds(translators, call):
    source, target = "w4 w2 w9", " ".join(TARGET)
    names = ["<unk>", "</s>", *(f"w{i}" for i in range(27)), "<pad>"]
    ids = torch.tensor([[*map(names.index, source.split()), 1]])
    read = torch.tensor([[29, *map(names.index, TARGET)]])
    sides = {"cross": ([*TARGET, "</s>"], [*source.split(), "</s>"]), "encoder": ([*source.split(), "</s>"],) * 2}
    sides["decoder"] = (["<pad>", *TARGET],) * 2
    for form, parts in {"transformer": sides, "rnn": {"cross": sides["cross"]}}.items():
        for part, (queries, keys) in parts.items():
            [found] = records(call("attend", translators[form], "--part", part, stdin=f"{source}\t{target}\n"))
            assert (found["part"], found["queries"], found["keys"]) == (part, queries, keys)
            expected = plain(translators[form], part, ids, read)
            assert np.abs(np.array(found["attention"]) - expected).max() < 1e-5
    [alone] = records(call("attend", translators["transformer"], "--part", "encoder", stdin=source))
    assert alone["keys"] == sides["encoder"][1]
    done = call("attend", translators["rnn"], "--part", "decoder", stdin=f"{source}\t{target}\n")
    assert (done.code, "no such attention, only: cross" in done.err) == (2, True)
    done = call("attend", translators["rnn-fixed-vector"], stdin=f"{source}\t{target}\n")
    assert (done.code, "is an encoder-decoder without attention" in done.err) == (2, True)
    done = call("attend", translators["transformer"], stdin=f"{source}\n")
    assert done.code == 65 and "<stdin>:1: expected a source and its translation" in done.err and "--part" in done.err


@pytest.mark.sampled(law="pictures are drawn")
def test_pictures(bert, call, tmp_path):
    pytest.importorskip("matplotlib")
    text = "the cats sat on the mat\nthe $ <b>cats</b> " + "matting " * 3 + "\n"
    for view in ("heat", "lines", "heads"):
        done = call("attend", bert, "--view", view, "-o", f"{view}.svg", stdin=text)
        assert (done.code, done.out) == (0, b"")
        drawn = (tmp_path / f"{view}.svg").read_text("utf-8")
        assert "the cats sat on the mat</text>" in drawn
        assert ("matting</text>" in drawn and "&lt;b&gt;cats&lt;/b&gt;</text>" in drawn) == (view != "heads")
        assert ("layer 2" in drawn) == (view == "heads")
    whole = (tmp_path / "heat.svg").read_bytes()
    call("attend", bert, "--view", "heat", "-o", "heat.svg", "--force", stdin=text)
    assert (tmp_path / "heat.svg").read_bytes() == whole  # no date in it
    done = call("attend", bert, "--to", "png", "--layer", 1, "--head", 2, stdin=text)
    assert done.code == 0 and done.out.startswith(b"\x89PNG")
    done = call("attend", bert, "--to", "png", stdin="the cat\n" * 21)
    assert done.code == 65 and "at most 20 lines" in done.err
    done = call("attend", bert, "--to", "svg", stdin="\n")
    assert done.code == 65 and "no text to draw" in done.err


def test_a_page_holds_all_weights_and_no_markup_of_its_words(bert, call, tmp_path):
    line = "the cats sat on the mat </script>"
    done = call("attend", bert, "-o", "a.html", stdin=f"{line}\n\nthe mat\n")
    assert done.code == 0
    text = (tmp_path / "a.html").read_text("utf-8")
    assert text.count("</script>") == 2 and "https:" not in text and text.count("http:") == 1  # the name of SVG
    first, second = json.loads(text.partition('id="data">')[2].partition("</script>")[0])
    done = call("attend", bert, stdin=f"{line}\n\nthe mat\n")  # it warns of unknown tokens
    record, _, other = map(json.loads, done.lines)
    for found, expected in ((first, record), (second, other)):
        assert {name: found[name] for name in ("text", "queries", "keys", "layers", "heads")} == {
            name: expected[name] for name in ("text", "queries", "keys", "layers", "heads")
        }
        weights = np.frombuffer(base64.b64decode(found["weights"]), "<u2") / 65535
        assert np.abs(weights - np.array(expected["attention"]).ravel()).max() < 2e-5


@pytest.mark.sampled(law="examples run")
def test_examples_of_the_manual_page_for_it(bert, fork_shell, tmp_path):
    """The animal that was too tired, and the street that was too wide: a picture and a page."""
    (tmp_path / "bert").symlink_to(bert)
    lines = [line for _, line in command_page("attend").examples if "animal" in line]
    assert len(lines) == 2
    for line in lines:
        done = fork_shell(line)
        assert done.code == 0, done.err
    assert (tmp_path / "it.png").read_bytes().startswith(b"\x89PNG")
    assert "too tired." in (tmp_path / "it.html").read_text()


def test_a_process_of_its_own(bert, fork):
    done = fork("attend", bert, "--layer", "1", "--mean", "--text", "the cat sat", "--text", "the mat")
    assert done.code == 0 and [json.loads(line)["text"] for line in done.lines] == ["the cat sat", "the mat"]


def test_faults_name_the_line_and_the_cure(bert, call, tmp_path):
    def fault(*args: object, stdin: str = "the cat\n", code: int = 2) -> str:
        done = call("attend", *args, stdin=stdin)
        assert (done.code, done.out) == (code, b"")
        return done.err

    assert "--layer 3: the model has 2 layers" in fault(bert, "--layer", "1,3")
    assert "--head -4: the model has 3 heads" in fault(bert, "--head", "-4")
    assert "expected 1, 2, ..." in fault(bert, "--layer", "0")
    assert "--part is for translation models" in fault(bert, "--part", "cross")
    assert "--view is for pictures" in fault(bert, "--view", "heat")
    assert "the output is svg, but the name ends with .png" in fault(bert, "--to", "svg", "-o", "a.png")
    assert "the name ends with .csv" in fault(bert, "-o", "a.csv")
    (tmp_path / "long.txt").write_text("the cat\n" + "the " * 19 + "\n")
    message = fault(bert, "long.txt", "-o", "o.jsonl", code=65)
    assert "long.txt:2: the line has 21 tokens" in message and "at most 20" in message and "shorter lines" in message
    assert "two with a tab between them, found 3" in fault(bert, stdin="the\tcat\tsat\n", code=65)
    assert "<stdin>:1: none of the words of --query (dog)" in fault(bert, "--query", "dog", code=65)
    lm = words_bundle(tmp_path / "lm")
    assert "<stdin>:1: expected a text, found 2" in fault(lm, stdin="w1\tw2\n", code=65)
    for arch in ("lstm", "feedforward"):
        refused = fault(words_bundle(tmp_path / arch, arch))
        assert f"{arch} is a language model without attention, which attend cannot take" in refused


def test_mixtures_still_take_models_without_attention(call, tmp_path):
    for arch in ("transformer", "lstm"):
        words_bundle(tmp_path / arch, arch)
    done = call("score", tmp_path / "transformer", "--with", tmp_path / "lstm", "--text", "w1 w2")
    assert done.code == 0
