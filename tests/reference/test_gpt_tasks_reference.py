"""A GPT with heads of tasks gives the logits that transformers gives, opens there, and theirs answers here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nlptools import bundle
from nlptools.compute.backend import Backend
from nlptools.configs.finetuning import Predict
from nlptools.errors import BundleError
from nlptools.files import artifacts
from nlptools.inference.prediction import Predictor
from nlptools.tasks import outputs
from tests.tasks.answer.test_task import questions
from tests.tasks.choice.test_task import choices
from tests.tasks.classify.test_task import predicted
from tests.tasks.coreference.test_task import gap
from tests.tasks.tag.test_task import columns, sentences
from tests.tasks.tiny_tasks import FP32, gpt, table, texts, train

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.reference

HEADS = {"SequenceClassification": "sequence", "TokenClassification": "tokens", "QuestionAnswering": "spans"}
tasks = pytest.mark.parametrize("task", HEADS)


def theirs(directory: Path, task: str, labels: tuple[str, ...] = ("no", "yes", "maybe")) -> Any:
    """A directory as transformers saves it, with a byte-level BPE tokenizer trained on the spot."""
    from tokenizers import ByteLevelBPETokenizer

    directory.mkdir()
    made = ByteLevelBPETokenizer()
    made.train_from_iterator([text for text, _ in texts(200)], vocab_size=300, special_tokens=["<|endoftext|>"])
    made.save(str(directory / "raw.json"))
    tokenizer = transformers.GPT2TokenizerFast(tokenizer_file=str(directory / "raw.json"))
    (directory / "raw.json").unlink()
    tokenizer.save_pretrained(directory)
    sizes: dict[str, Any] = {
        "n_positions": 64,
        "n_embd": 32,
        "n_layer": 2,
        "n_head": 4,
        "n_inner": 48,
        "initializer_range": 0.3,
    }
    special = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
    if task != "QuestionAnswering":
        sizes["id2label"] = dict(enumerate(labels))
    config = transformers.GPT2Config(vocab_size=made.get_vocab_size(), **sizes, **special)
    torch.manual_seed(0)
    model = getattr(transformers, f"GPT2For{task}")(config).eval()
    model.save_pretrained(directory)
    return model


def their_logits(model: Any, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """(B, K), or (B, T, K)."""
    found = model(input_ids=ids, attention_mask=mask.long())
    return found.logits if hasattr(found, "logits") else torch.stack([found.start_logits, found.end_logits], -1)


@tasks
@torch.inference_mode()
def test_logits_are_theirs(tmp_path: Path, task: str) -> None:
    model = theirs(tmp_path / "theirs", task)
    found = bundle.load(tmp_path / "theirs")
    made: Any = found.model
    assert found.arch == "transformer-tasks" and made.heads == (HEADS[task],)
    assert made.num_labels == (3 if task != "QuestionAnswering" else 2)
    torch.manual_seed(4)
    mask = torch.arange(13) < torch.tensor([[13], [7], [4], [1]])
    ids = torch.randint(1, 99, (4, 13)) * mask  # padded with 0
    hidden = outputs.hidden_states(made, HEADS[task], outputs.LAST, ids, mask, None)
    ours, expected = made.task_logits(HEADS[task], hidden), their_logits(model, ids, mask)
    if task != "SequenceClassification":
        ours, expected = ours[mask], expected[mask]
    assert torch.allclose(ours, expected, atol=1e-5)


@tasks
def test_what_finetune_writes_opens_there(tmp_path: Path, task: str) -> None:
    gpt(tmp_path / "encoder")
    path = {
        "SequenceClassification": lambda: table(tmp_path / "a.tsv", texts(60)),
        "TokenClassification": lambda: columns(tmp_path / "a.txt", sentences(40)),
        "QuestionAnswering": lambda: questions(tmp_path / "a.json", 60, impossible=0.3),
    }[task]()
    name = {"SequenceClassification": "classify", "TokenClassification": "tag", "QuestionAnswering": "answer"}[task]
    train(tmp_path, path, task=name, epochs=1.0)
    model, told = getattr(transformers, f"AutoModelFor{task}").from_pretrained(
        tmp_path / "out", output_loading_info=True
    )
    assert type(model).__name__ == f"GPT2For{task}"
    assert not told["missing_keys"] and not told["unexpected_keys"] and not told["mismatched_keys"]
    ours = Predictor(bundle.load(tmp_path / "out"), Backend.detect(FP32), Predict())
    if name != "answer":
        assert list(model.config.id2label.values()) == list(ours.task.labels)  # type: ignore[attr-defined]
    assert model.config.pad_token_id == model.config.eos_token_id == 0
    examples = list(ours.task.read([str(path)], False, "strict"))
    made = ours.task.features(examples, ours.members[0].encoding, False)
    found = outputs.logits(ours.members[0].model, ours.task.head, made, ours.members[0].backend)
    assert found is not None
    batch = made.rows.batch(np.arange(len(made)), 0)  # padded, as they read it
    with torch.inference_mode():
        expected = their_logits(model.eval(), torch.from_numpy(batch.ids), torch.from_numpy(batch.mask)).numpy()
    for row, other, real in zip(found, expected, batch.mask, strict=True):
        assert np.allclose(row, other if name == "classify" else other[real], atol=1e-5)


@pytest.mark.parametrize("name", ["choice", "coreference", "crf", "yes_no"])
def test_what_they_have_no_class_for_is_left_out_there(tmp_path: Path, name: str) -> None:
    gpt(tmp_path / "encoder")
    path, how = {
        "choice": lambda: (choices(tmp_path / "a", 30), {"task": "choice"}),
        "coreference": lambda: (gap(tmp_path / "a", 30), {"task": "coreference"}),
        "crf": lambda: (columns(tmp_path / "a", sentences(30)), {"task": "tag", "crf": True}),
        "yes_no": lambda: (
            questions(tmp_path / "a", 30, yes=True),
            {"task": "answer"},
        ),
    }[name]()
    train(tmp_path, path, epochs=1.0, **how)
    found = bundle.load(tmp_path / "out")
    (said,) = found.config["architectures"]
    expected = {"crf": "GPT2ForTokenClassification", "yes_no": "GPT2ForQuestionAnswering"}.get(name, "GPT2Model")
    assert said == expected
    model, told = getattr(transformers, said).from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not told["missing_keys"] and told["unexpected_keys"]
    assert all(key.startswith(("nlptools.", "crf.")) for key in told["unexpected_keys"])
    ids = torch.randint(1, 20, (3, 9))
    with torch.inference_mode():
        theirs = model.eval().transformer if hasattr(model, "transformer") else model.eval()
        ours = found.model.states(ids).last  # type: ignore[attr-defined]
        assert torch.allclose(ours, theirs(ids).last_hidden_state, atol=1e-5)


@pytest.mark.parametrize("pair", [False, True])
def test_their_classifiers_answer_here(tmp_path: Path, pair: bool) -> None:
    model = theirs(tmp_path / "theirs", "SequenceClassification")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs", pad_token="<|endoftext|>")
    given = [(a, b) for (a, _), (b, _) in zip(texts(30), texts(30, 1), strict=True)]
    path = table(tmp_path / "a.tsv", [row if pair else row[:1] for row in given])
    lines = predicted(tmp_path / "theirs", path, text_column=("1", "2") if pair else ())
    columns = zip(*given, strict=True) if pair else ([a for a, _ in given],)
    batch = tokenizer(*map(list, columns), return_tensors="pt", padding=True, padding_side="right")
    with torch.inference_mode():
        expected = model(**batch).logits.log_softmax(-1).numpy()
    assert [line.split("\t")[0] for line in lines] == [["no", "yes", "maybe"][i] for i in expected.argmax(1)]
    assert np.allclose([float(line.split("\t")[1]) for line in lines], np.exp(expected.max(1)), atol=1e-4)


def test_their_taggers_and_readers_answer_here(tmp_path: Path) -> None:
    model = theirs(tmp_path / "tags", "TokenClassification", ("O", "X", "Y"))
    tokenizer = transformers.GPT2TokenizerFast.from_pretrained(tmp_path / "tags", add_prefix_space=True)
    words = [["w1", "good"], ["bad"], ["w3", "w14", "good", "w5"]]
    (tmp_path / "a.txt").write_text("".join(" ".join(row) + "\n" for row in words))
    lines = predicted(tmp_path / "tags", tmp_path / "a.txt", layout="lines")
    for line, row in zip(lines, words, strict=True):
        found = tokenizer(row, is_split_into_words=True, return_tensors="pt")
        with torch.inference_mode():
            best = model(**found).logits[0].argmax(-1).tolist()
        firsts = [found.word_ids().index(number) for number in range(len(row))]
        assert line.split() == [["O", "X", "Y"][best[i]] for i in firsts]
    theirs(tmp_path / "answers", "QuestionAnswering")
    lines = predicted(tmp_path / "answers", questions(tmp_path / "q.json", 12))
    assert len(lines) == 12 and all(lines)


def test_a_named_head_has_to_be_there(tmp_path: Path) -> None:
    theirs(tmp_path / "theirs", "SequenceClassification")
    file = tmp_path / "theirs" / "model.safetensors"
    tensors = artifacts.load_weights(tmp_path / "theirs")
    artifacts.save_tensors(file, {name: tensor for name, tensor in tensors.items() if name != "score.weight"})
    with pytest.raises(BundleError, match=r"no weight score\.weight"):
        bundle.load(tmp_path / "theirs")


def test_their_language_models_are_finetuned(tmp_path: Path) -> None:
    model = theirs(tmp_path / "classifier", "SequenceClassification")
    lm = transformers.GPT2LMHeadModel(model.config)
    lm.transformer.load_state_dict(model.transformer.state_dict())
    (tmp_path / "classifier").rename(tmp_path / "encoder")
    (tmp_path / "encoder" / "model.safetensors").unlink()
    lm.save_pretrained(tmp_path / "encoder")
    assert bundle.load(tmp_path / "encoder").arch == "transformer"
    path = table(tmp_path / "a.tsv", texts(60))
    train(tmp_path, path, epochs=1.0)
    ours = Predictor(bundle.load(tmp_path / "out"), Backend.detect(FP32), Predict())
    made = ours.task.features(list(ours.task.read([str(path)], False, "strict")), ours.members[0].encoding, False)
    assert (made.rows.ids[made.rows.bounds[:-1]] == 0).all()  # they begin with the end-of-text token


def test_what_they_make_of_our_language_model_answers_here(tmp_path: Path) -> None:
    gpt(tmp_path / "lm")
    torch.manual_seed(0)
    model = transformers.GPT2ForSequenceClassification.from_pretrained(tmp_path / "lm", pad_token_id=0).eval()
    model.save_pretrained(tmp_path / "theirs")
    for name in ("nlptools_tokenizer.json", "vocab.tsv"):
        (tmp_path / "theirs" / name).write_bytes((tmp_path / "lm" / name).read_bytes())
    assert "nlptools" in bundle.load(tmp_path / "theirs").config
    path = table(tmp_path / "a.tsv", [(text,) for text, _ in texts(10)])
    header, *lines = predicted(tmp_path / "theirs", path, probabilities=True)
    assert header == "0\t1"
    encode = bundle.load(tmp_path / "theirs").tokenizer.encode
    for line, (text, _) in zip(lines, texts(10), strict=True):
        with torch.inference_mode():
            expected = model(torch.tensor([encode(text)])).logits[0].softmax(-1)
        assert np.allclose([float(share) for share in line.split("\t")], expected.numpy(), atol=1e-4)
