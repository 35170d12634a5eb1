"""Conversations in training beside transformers: the tokens of its chat template, and its mask of what the assistant says."""

from __future__ import annotations

from pathlib import Path

import pytest
from llama_folders import tokenizer, written

import nlptools
from nlptools.batches.completions import NEXT
from nlptools.batches.conversations import demonstration, prompt_text
from nlptools.batches.windows import NO_TARGET
from nlptools.configs.finetuning import Finetune
from nlptools.configs.generation import Generate
from nlptools.formats.examples import Demonstration, Place, Turn
from nlptools.text.chat_templates import FORMATS
from nlptools.training.preferences.policy import Policy
from tests.training.preferences.toys import align, lines

pytest.importorskip("jinja2")
pytestmark = [pytest.mark.reference, pytest.mark.filterwarnings("ignore")]

TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}[{{ m.role }}]"
    "{% if m.role == 'assistant' %}{% generation %}{{ m.content }}<|end|>{% endgeneration %}"
    "{% else %}{{ m.content }}<|end|>{% endif %}{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"
)
ROLES = ("system", "user", "assistant", "user", "assistant")
TALK = [
    {"role": role, "content": text} for role, text in zip(ROLES, ("the", "a cat", "a dog sat", "and", "on the log"))
]
TURNS = tuple(Turn(message["role"], message["content"]) for message in TALK)


def folder(path: Path, bos: bool) -> Path:
    """A LLaMA with this template."""
    written(path, "llama", bos, max_position_embeddings=128)
    tokenizer(bos, TEMPLATE).save_pretrained(path)
    return path


@pytest.mark.sampled(1)
@pytest.mark.parametrize("bos", [True, False])
def test_tokens_and_their_spans_are_those_of_transformers(tmp_path: Path, bos: bool) -> None:
    from transformers import AutoTokenizer

    folder(tmp_path / "base", bos)
    theirs = AutoTokenizer.from_pretrained(tmp_path / "base")
    encoded = theirs.apply_chat_template(TALK, return_dict=True, return_assistant_tokens_mask=True)
    path = lines(tmp_path / "a.jsonl", [{"messages": TALK}] * 2)
    align(tmp_path, "instruct", path, epochs=1.0)
    for directory in (tmp_path / "base", tmp_path / "out"):
        policy = Policy.open(str(directory), Finetune(task="instruct"))
        features = policy.encoding(0, 1).sequences(
            [demonstration(Demonstration(TURNS, 0, Place("-", 1)), policy.template)]
        )
        targets = features.targets[NEXT].tolist()
        assert [*features.rows.ids.tolist(), targets[-1]] == [*encoded["input_ids"], 1]
        assert [target != NO_TARGET for target in targets] == [bool(m) for m in encoded["assistant_masks"][1:]] + [True]

        prompt = theirs.apply_chat_template(TALK[:4], add_generation_prompt=True, return_dict=True)["input_ids"]
        loaded = nlptools.load(directory, settings=Generate())
        text = prompt_text(TURNS[:4], policy.template, Place("-", 1))
        assert loaded.prompts.read(text, Generate(max_new_tokens=2)) == prompt, "no second start token"  # type: ignore[union-attr]
    again = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert again.apply_chat_template(TALK, tokenize=False) == theirs.apply_chat_template(TALK, tokenize=False)


def test_a_known_template_opens_in_transformers(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    written(tmp_path / "base", "llama", True, max_position_embeddings=512)
    align(tmp_path, "instruct", lines(tmp_path / "a.jsonl", [{"messages": TALK}] * 2), epochs=1.0, chat="zephyr")
    text = AutoTokenizer.from_pretrained(tmp_path / "out").apply_chat_template(TALK, tokenize=False)
    assert text == FORMATS["zephyr"](TALK, False)
