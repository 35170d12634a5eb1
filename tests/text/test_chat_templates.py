"""Chat templates: the known formats beside the published templates, and what a folder's template may do."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from nlptools.configs import chat as options
from nlptools.errors import BundleError, DataError, InputError, Unavailable, UsageError
from nlptools.text.chat_answers import continued
from nlptools.text.chat_templates import (
    FORMATS,
    chat_template,
    end_of_turn,
    for_training,
    keep,
    own_template,
)
from nlptools.text.template_sandbox import Bounds, Sandbox, _Process

TALK = [
    {"role": "user", "content": " Hello\nyou "},
    {"role": "assistant", "content": "Hi."},
    {"role": "user", "content": "Bye"},
]
SYSTEM = {"role": "system", "content": "Be brief."}

# As published in the tokenizer_config.json of each family, less tools and default system messages.
PUBLISHED = {
    "chatml": "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>'"
    " + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    "gemma": "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}"
    "{% endif %}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
    "{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}"
    "{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}",
    "llama-3": "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' +"
    " message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}"
    "{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}",
    "phi-3": "{% for message in messages %}{% if message['role'] == 'system' %}{{'<|system|>\n' + message['content'] +"
    " '<|end|>\n'}}{% elif message['role'] == 'user' %}{{'<|user|>\n' + message['content'] + '<|end|>\n'}}"
    "{% elif message['role'] == 'assistant' %}{{'<|assistant|>\n' + message['content'] + '<|end|>\n'}}{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}",
    "zephyr": "{% for message in messages %}\n{% if message['role'] == 'user' %}\n{{ '<|user|>\n' + message['content'] +"
    " eos_token }}\n{% elif message['role'] == 'system' %}\n{{ '<|system|>\n' + message['content'] + eos_token }}\n"
    "{% elif message['role'] == 'assistant' %}\n{{ '<|assistant|>\n'  + message['content'] + eos_token }}\n{% endif %}\n"
    "{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}",
}
TOKENS = {"gemma": {"bos_token": "<bos>"}, "llama-3": {"bos_token": {"content": "<|begin_of_text|>"}}}
TOKENS["zephyr"] = {"eos_token": "</s>"}


def folder(path: Path, template: object, **more: object) -> str:
    """A model directory with a chat template and nothing else."""
    path.mkdir(exist_ok=True)
    (path / "tokenizer_config.json").write_text(json.dumps({"chat_template": template, **more}), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("name", FORMATS)
def test_known_formats_write_what_the_published_templates_write(name, tmp_path):
    pytest.importorskip("jinja2")
    published = chat_template(folder(tmp_path / name, PUBLISHED[name], **TOKENS.get(name, {})))
    for messages in (TALK, TALK[:2], *([[SYSTEM, *TALK]] if FORMATS[name].system else [])):
        for generation in (True, False):
            if generation and messages == TALK[:2]:
                continue
            assert chat_template(name)(messages, generation) == published(messages, generation)


def test_a_format_without_system_messages_refuses_one(tmp_path):
    own = chat_template(folder(tmp_path / "m", PUBLISHED["gemma"], bos_token="<bos>"))
    for template in (own, chat_template("gemma")):
        with pytest.raises(DataError, match="chat template"):
            template([SYSTEM, *TALK], True)


def test_where_a_template_stands(tmp_path):
    several = [{"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"}]
    path = folder(tmp_path / "m", several)
    assert chat_template(path)(TALK, True) == "D"
    (tmp_path / "m" / "chat_template.jinja").write_text("{{ messages|length }}\n", encoding="utf-8")
    assert chat_template(path)(TALK, True) == "3"


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages[0]['content'].nothing.more }}",
        "{{ raise_exception('no') }}",
        "{{ 1 / 0 }}",
        "{% include '/etc/passwd' %}",
    ],
)
def test_a_template_that_fails_for_some_messages(tmp_path, source):
    template = chat_template(folder(tmp_path / "m", source))
    with pytest.raises(DataError, match=r"the chat template of .* fails"):
        template(list(TALK), True)


NESTED = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
UNFIT = {
    "memory": [
        "{{ 'x' * 10**10 }}",
        "{{ '%1000000000d' | format(1) }}",
        "{{ '{:>1000000000}'.format(1) }}",
        "{{ 'x'.center(10**9) | upper }}",
        "{{ (1,) * 10**9 }}",
        "{{ [messages] * 10**9 }}",
        "{% set n = namespace(x='ab') %}{% for i in range(99) %}{% set n.x = n.x + n.x %}{% endfor %}",
    ],
    "processor time": [NESTED, "{{ 9 ** (9 ** 9) }}", "{% macro f() %}" + NESTED + "{% endmacro %}{{ f() }}"],
    "without end": [
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% for i in [[]] recursive %}{{ loop([[]]) }}{% endfor %}",
        "{{" + "(" * 9999 + "1" + ")" * 9999 + "}}",
        "{{ " + "-" * 9999 + "1 }}",
    ],
    "characters": [
        "{% for i in range(99999) %}{{ 'x' * 100 }}{% endfor %}",
        "{{ 'x' * 5 * 10**6 }}",
        "{{ 'x' }}" * 200_000,
    ],
    "may not do": [
        "{% for i in range(10000000) %}{% endfor %}",
        "{{ messages.append(1) }}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ lipsum.__globals__.os }}",
        "{% set n = namespace() %}{% set n.__class__ = 1 %}",
    ],
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("bound", UNFIT)
def test_a_template_that_exceeds_a_bound_costs_its_process_alone(tmp_path, bound):
    pytest.importorskip("jinja2")
    bounds = Bounds(seconds=0.4 if bound == "processor time" else 5, memory=300 << 20)
    for source in UNFIT[bound]:
        with pytest.raises(BundleError, match=bound) as raised:
            Sandbox("m", source, {}, bounds)(TALK, True)
        assert str(raised.value).startswith("m: its chat template ") and "\n" not in str(raised.value)


def test_a_sandbox_goes_on_after_a_conversation_that_exceeds_a_bound(monkeypatch):
    pytest.importorskip("jinja2")
    heavy = "{% if messages | length > 2 %}{% for i in range(99999) %}{{ range(99999) | sum }}{% endfor %}{% endif %}é\ud800"
    sandbox = Sandbox("m", heavy, {}, Bounds(seconds=0.3))
    assert sandbox(TALK[:1], True) == "é\ud800"
    for _ in range(2):
        with pytest.raises(BundleError, match="processor time"):
            sandbox(TALK, True)
        assert sandbox(TALK[:1], True) == "é\ud800"
    first = sandbox._process
    monkeypatch.setattr(_Process, "_received", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sandbox(TALK[:1], True)
    monkeypatch.undo()
    assert sandbox(TALK[:2], False) == "é\ud800" and sandbox._process is not first, "no answer that nobody waited for"
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(DataError, match="nested too deeply"):
        sandbox([{"role": "user", "content": deep}], True)
    long = [{"role": "user", "content": "x" * 3_000_000}]
    assert Sandbox("m", "{{ messages[0].content }}", {})(long, True) == long[0]["content"], (
        "bounds grow with what is given"
    )


def interrupted(*_: object) -> bytes:
    raise KeyboardInterrupt


def test_refusals(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="no such directory"):
        chat_template(str(tmp_path / "none"))
    with pytest.raises(BundleError, match="has no chat template"):
        chat_template(folder(tmp_path / "m", None))
    path = folder(tmp_path / "m", "{% if %}")
    with pytest.raises(BundleError, match="not a valid chat template"):
        chat_template(path)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(Unavailable, match="jinja2") as raised:
        chat_template(path)
    assert ".[chat]" in str(raised.value.hint)
    assert chat_template("chatml")(TALK[:1], True).startswith("<|im_start|>user")


@pytest.mark.parametrize("name", FORMATS)
def test_the_source_of_a_known_format_writes_the_same(name, tmp_path, monkeypatch):
    pytest.importorskip("jinja2")
    form = FORMATS[name]
    theirs = chat_template(folder(tmp_path / "m", form.source + "{# not known by its text #}"))
    assert theirs is not form
    for messages in (TALK, TALK[:2], *([[SYSTEM, *TALK]] if form.system else [])):
        for generation in (True, False):
            assert theirs(messages, generation) == form(messages, generation)
    if not form.system:
        with pytest.raises(DataError, match="no system messages"):
            theirs([SYSTEM], True)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert chat_template(folder(tmp_path / "m", form.source)) is form, "by its text, without a package"


def test_the_option_names_the_formats():
    assert tuple(FORMATS) == options.FORMATS


def test_the_template_of_a_model_in_training(tmp_path):
    none, own = (
        folder(tmp_path / "none", None),
        folder(tmp_path / "own", "{{ bos_token }}{{ messages|length }}", bos_token="<s>"),
    )
    assert for_training(none, None) is None and own_template(none) is None
    assert for_training(none, "chatml") is FORMATS["chatml"]
    with pytest.raises(UsageError, match=r"--chat chatml: .* already has a chat template"):
        for_training(own, "chatml")
    again = folder(tmp_path / "again", FORMATS["chatml"].source)
    assert for_training(again, "chatml") is FORMATS["chatml"]
    broken = for_training(folder(tmp_path / "broken", "{% if %}"), None)
    assert broken is not None, "read at its first use"
    pytest.importorskip("jinja2")
    with pytest.raises(BundleError, match="not a valid chat template"):
        broken(TALK, True)


def test_a_saved_directory_keeps_the_template(tmp_path):
    pytest.importorskip("jinja2")
    source = "{{ bos_token }}{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}"
    own = folder(tmp_path / "own", source, bos_token="<s>", pad_token=None)
    (tmp_path / "own" / "special_tokens_map.json").write_text('{"eos_token": {"content": "</s>"}}')
    (tmp_path / "out").mkdir()
    assert keep(tmp_path / "out", own, None) == ["chat_template.jinja", "tokenizer_config.json"]
    assert chat_template(str(tmp_path / "out"))(TALK, False) == chat_template(own)(TALK, False)
    (tmp_path / "chatml").mkdir()
    assert keep(tmp_path / "chatml", folder(tmp_path / "none", None), "chatml") == ["chat_template.jinja"]
    assert chat_template(str(tmp_path / "chatml")) is FORMATS["chatml"]
    (tmp_path / "plain").mkdir()
    assert keep(tmp_path / "plain", str(tmp_path / "none"), None) == [] and not list((tmp_path / "plain").iterdir())


@pytest.mark.parametrize("name", FORMATS)
def test_an_answer_and_its_end(name):
    form = FORMATS[name]
    prompt, [answer] = continued(form, TALK[:1], ["Hi."])
    assert prompt == form(TALK[:1], True) and prompt + answer == form(TALK[:2], False)
    assert answer.rstrip() == "Hi." + end_of_turn(form)
    assert continued(form, TALK[:1], ["Hi.", "Ha."]) == (prompt, [answer, answer.replace("Hi", "Ha")])
    assert continued(lambda turns, generation: "x" if generation else "y", TALK[:1], ["Hi."]) == ("", ["y"])
