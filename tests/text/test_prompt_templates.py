"""Templates: where a prompt ends, what is left out, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlptools.configs.prompting import TEMPLATES
from nlptools.errors import DataError, InputError
from nlptools.text.prompt_templates import MissingField, parse, read_template

FIELDS = {"instruction": "Sum up.", "input": "Ann sleeps.", "output": "Sleep"}


@pytest.mark.parametrize("name", TEMPLATES)
def test_known_templates_end_before_the_answer(name):
    template = read_template(name, "output")
    assert template.prompt and template.completion(FIELDS) == "Sleep"
    assert template.text(FIELDS) + "Sleep" == TEMPLATES[name].format(**FIELDS)


@given(st.text(), st.text(), st.text())
def test_prompt_and_completion_are_the_whole_text(before, value, answer):
    text = before.replace("{", "{{").replace("}", "}}") + "{value} => {output}."
    template = parse(text, "t", "output")
    assert (template.fields, template.multiline) == (("value", "output"), "\n" in text)
    fields = {"value": value, "output": answer}
    if "\n\n" not in before or value:
        assert template.text(fields) + template.completion(fields) == f"{before}{value} => {answer}."


def test_a_paragraph_of_empty_fields_is_left_out():
    template = read_template("instruction", "output")
    assert template.text({**FIELDS, "input": ""}) == "### Instruction:\nSum up.\n\n### Response:\n"
    after = parse("{a}{output}\n\nNote: {b}\n\nEnd", "t", "output")
    assert [after.completion({"output": "x", "b": b}) for b in ("", "y")] == ["x\n\nEnd", "x\n\nNote: y\n\nEnd"]
    assert after.text({"a": ""}) == ""  # the paragraph of the answer stays


def test_a_missing_field_is_not_an_empty_one():
    with pytest.raises(MissingField, match="input"):
        read_template("instruction", "output").text({"instruction": "Sum up."})


def test_a_file_has_a_description_above_its_rule(tmp_path: Path):
    path = tmp_path / "t.txt"
    path.write_text("Judge.\nBriefly.\n---\nText: {text}\nLabel: {label}\n", encoding="utf-8")
    template = read_template(str(path), "label")
    assert template.description == "Judge.\nBriefly."
    assert (template.text({"text": "x"}), template.answer != ()) == ("Text: x\nLabel: ", True)
    assert read_template(str(path), "text").text({}) == "Text: "


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a {b", 3, "'}'"),
        ("a }", 3, "'}'"),
        ("ok\n\n{}", 5, "expected a name between braces, found ''"),
        ("{a!r}", 3, "found 'a!r'"),
        ("{a:>8}", 3, "found 'a:>8'"),
    ],
)
def test_what_is_not_a_template_is_refused_with_its_line(tmp_path: Path, text: str, line: int, words: str):
    (tmp_path / "t").write_text(f"Do.\n---\n{text}\n", encoding="utf-8")
    with pytest.raises(DataError) as raised:
        read_template(str(tmp_path / "t"), "output")
    assert f"t:{line}: not a template: " in str(raised.value) and words in str(raised.value)


def test_attributes_of_fields_cannot_be_reached():
    with pytest.raises(MissingField, match=r"a\.__class__"):
        parse("{a.__class__}", "t", "output").text({"a": "x"})


def test_no_such_template():
    with pytest.raises(InputError, match=r"^tl;dr: no such template") as raised:
        read_template("tl;dr", "output")
    assert "tldr, equals" in str(raised.value.hint)
