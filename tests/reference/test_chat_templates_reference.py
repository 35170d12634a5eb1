"""Chat templates as `transformers` renders them: the values, filters, globals, tests and extensions that they see."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from llama_folders import tokenizer

from nlptools.errors import BundleError, DataError
from nlptools.text.chat_templates import chat_template

jinja2 = pytest.importorskip("jinja2")
pytest.importorskip("transformers")

TALK: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief.", "name": None},
    {"role": "user", "content": " Hello\nyou é "},
    {"role": "assistant", "content": 'Hi "you" <b>&.', "thinking": "Well.", "tool_calls": None},
    {"role": "tool", "content": "{}", "data": {"b": [1, 2.5, None, True], "a": "ü"}},
    {"role": "assistant", "content": "<think>so</think>Bye", "reasoning": "So.", "reasoning_content": None},
    {"role": "user", "content": "1"},
]
SHAPES = {
    "blocks and white space": "{%- for m in messages %}\n    {%- if m.role == 'assistant' %}\n"
    "{% generation %}{{ m.content | tojson }}{% endgeneration %}\n    {%- continue %}\n    {%- endif %}\n"
    "[{{ m.content }}]\n  {% if loop.first %}\n  first\n  {% endif %}\n{% endfor %}{{ strftime_now('%Y') }}{{ nothing }}",
    "namespaces and special tokens": "{% set ns = namespace(n=0) %}{{ bos_token }}{% for m in messages %}"
    "{% set ns.n = ns.n + 1 %}{{ ns.n }}{{ m['content']|trim }}{{ eos_token }}\n{% endfor %}"
    "{% if add_generation_prompt %}A:{% endif %}",
    "special tokens that there are not": "{{ unk_token is defined }}{{ pad_token }}{{ cls_token|default('none') }}",
    "no tools": "{% if tools is not none %}T{% endif %}{{ tools is defined }}{{ tools }}",
    "no tools by filter": "{{ tools | default([], true) | length }}{{ tools | default('x') }}{{ (tools or []) | list }}",
    "no documents": "{{ documents }}{% if not documents %}-{% endif %}{{ documents is none }}{{ documents is undefined }}",
    "other variables": "{{ enable_thinking is defined }}{{ custom_tools is undefined }}{{ date_string | default('d') }}",
    "json": "{{ messages[3].data | tojson }}|{{ messages | tojson }}",
    "json with indent": "{{ messages[3].data | tojson(indent=2) }}|{{ messages[3].data | tojson(false, 4) }}",
    "json with separators": "{{ messages[3].data | tojson(separators=(',', ':')) }}",
    "json sorted, in ASCII": "{{ messages[3].data | tojson(ensure_ascii=True, sort_keys=True) }}",
    "json of what it cannot write": "{{ missing | tojson }}",
    "keys without a value": "{% for m in messages %}{{ m.name is defined }}{{ 'tool_calls' in m }}"
    "{{ m.get('name', 0) }}{% endfor %}",
    "reasoning": "{% for m in messages %}[{{ m.thinking }}/{{ m.reasoning }}/{{ m.reasoning_content }}]{% endfor %}",
    "keys of a message": "{% for m in messages %}{{ m.keys() | sort | join(',') }};"
    "{{ m | items | list | length }};{% endfor %}",
    "methods of texts": "{% for m in messages %}{{ m.content.split('</think>')[-1].lstrip('\\n') }}{{ m.content.strip() }}"
    "{{ m.role.startswith('a') }}{{ m.content.upper()[::-1][:3] }}{% endfor %}",
    "filters": "{{ messages | map(attribute='role') | unique | join(' ') }}"
    "{{ messages | selectattr('role', 'equalto', 'user')"
    " | list | length }}{{ messages | rejectattr('role', 'in', ['user', 'tool']) | map(attribute='content') | list }}",
    "more filters": "{{ messages[1].content | indent(2, true) }}{{ 'a b' | title | replace('A', 'x') }}"
    "{{ '%s-%d' | format('a', 3) }}"
    "{{ [3, 1, 2] | sort(reverse=true) | first }}{{ {'b': 1, 'a': 2} | dictsort }}{{ '<' | escape }}{{ 3.14159 | round(2) }}",
    "groups and batches": "{% for role, those in messages | groupby('role') %}{{ role }}{{ those | length }}{% endfor %}"
    "{{ range(7) | batch(3, 0) | list }}{{ messages | map('length') | sum }}",
    "tests": "{{ 1 is number }}{{ 'a' is string }}{{ {} is mapping }}{{ [] is iterable }}{{ none is none }}"
    "{{ 3 is divisibleby 3 }}"
    "{{ messages[0] is sameas messages[0] }}{{ true is boolean }}{{ 2 is in [1, 2] }}{{ 'x' is filter }}",
    "globals": "{{ dict(a=1) }}{{ dict.fromkeys('ab') }}{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}"
    "{% set j = joiner('; ') %}{{ j() }}{{ j() }}{{ range(2, 9, 3) | list }}",
    "macros": "{%- macro turn(role, text='') -%}<{{ role }}>{{ text }}{{ caller() if caller else '' }}{%- endmacro -%}"
    "{{ turn('a') }}{% call turn('b', 'c') %}d{% endcall %}{% for m in messages %}{{ turn(m.role, m.content) }}{% endfor %}",
    "loop controls": "{% for m in messages %}{% if loop.index0 == 1 %}{% continue %}{% endif %}{% if loop.index == 4 %}"
    "{% break %}{% endif %}{{ loop.index }}{{ loop.previtem.role if loop.previtem else '' }}{{ loop.last }}"
    "{% else %}-{% endfor %}",
    "loops with a filter": "{% for m in messages if m.role == 'user' %}{{ loop.length }}{{ m.content }}{% endfor %}"
    "{% for m in messages[::-1] %}{{ loop.revindex0 }}{{ loop.cycle('x', 'y') }}{% endfor %}"
    "{% for a, b in {'x': 1}.items() %}{{ a }}{{ b }}{% endfor %}",
    "scope": "{% set x = 0 %}{% for m in messages %}{% set x = x + 1 %}{% endfor %}{{ x }}{% generation %}"
    "{% set x = 5 %}{{ x }}"
    "{% endgeneration %}{{ x }}{% with y = 3 %}{{ y }}{% endwith %}{{ y }}",
    "generation in a loop": "{% for m in messages %}{%- generation -%} {{ loop.index }}{{ m.role }} "
    "{%- endgeneration %}\n{% endfor %}",
    "blocks of text": "{% set head %}a{{ bos_token }}\n{% endset %}{{ head }}{% filter upper %}b"
    "{{ messages[0].content }}{% endfilter %}"
    "{% raw %}{{ x }}{% endraw %}{# no #}\n{{- 'c' }}\n\n",
    "arithmetic": "{{ 7 // 2 }}{{ 7 % 2 == 1 }}{{ 2 ** 5 }}{{ 'a' ~ 1 ~ none }}"
    "{{ -messages | length if false else +3 }}{{ 1 if false }}",
    "what a template sets for itself": "{% if not date is defined %}{% set date = 'D' %}{% endif %}{{ date }}"
    "{% set messages = messages[1:] %}{{ messages | length }}{% if messages[0]['role'] == 'system' %}S{% endif %}",
    "prompt": "{{ '' if add_generation_prompt is not defined else add_generation_prompt }}",
    "line ends": "a\r\nb{{ 'c\\r\\nd' }}\r\n{% if true %}\r\n  e\r\n{% endif %}\r\n",
}
FAULTS = {
    "refusal": ("{{ raise_exception('only ' + messages[0].role) }}", DataError, "only system"),
    "undefined": ("{{ messages[0].nothing.more }}", DataError, "no attribute 'nothing'"),
    "range": ("{{ range(100001) | list }}", BundleError, "Range too big"),
    "list": ("{{ messages.append(1) }}", BundleError, "unsafe"),
    "namespace": ("{% set ns = namespace(_x=1) %}", BundleError, "_x"),
    "syntax": ("{% if %}", BundleError, "not a valid chat template"),
}


@pytest.fixture(scope="module")
def theirs() -> Any:
    """A tokenizer of transformers with the special tokens of `folder`."""
    loaded = tokenizer(True)
    loaded.bos_token, loaded.eos_token = "<s>", "</s>"
    for name in ("unk_token", "pad_token"):
        setattr(loaded, name, None)
    return loaded


def folder(path: Path, source: str) -> str:
    config = {"chat_template": source, "bos_token": "<s>", "eos_token": {"content": "</s>"}, "pad_token": None}
    (path / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return str(path)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("source", SHAPES.values(), ids=SHAPES)
def test_a_template_writes_what_it_writes_in_transformers(tmp_path: Path, theirs: Any, source: str) -> None:
    ours = chat_template(folder(tmp_path, source))
    for generation in (True, False):
        try:
            right = theirs.apply_chat_template(
                TALK, tokenize=False, chat_template=source, add_generation_prompt=generation
            )
        except TypeError:  # json.dumps of an undefined value
            with pytest.raises(DataError, match="not JSON serializable"):
                ours(TALK, generation)
            continue
        assert ours(TALK, generation) == right


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_what_transformers_refuses_is_refused(tmp_path: Path, theirs: Any, fault: tuple[str, Any, str]) -> None:
    source, error, message = fault
    with pytest.raises((jinja2.TemplateError, OverflowError)):
        theirs.apply_chat_template(TALK, tokenize=False, chat_template=source)
    with pytest.raises(error, match=message):
        chat_template(folder(tmp_path, source))(TALK, False)


def test_special_tokens_by_all_the_names_that_transformers_has(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    source = "{% for t in [bos_token, eos_token, sep_token, image_token, foo_token, unk_token] %}{{ t }};{% endfor %}"
    loaded = tokenizer(True)
    for number, (config, older) in enumerate(
        [
            ({"eos_token": None, "image_token": "<i>"}, {"eos_token": "<|end|>", "sep_token": "the"}),
            ({"eos_token": "the"}, {"eos_token": {"content": "<|end|>"}}),
            ({"extra_special_tokens": {"foo_token": "the", "image_token": "a"}}, None),
            ({"model_specific_special_tokens": {"foo_token": "the"}, "bos_token": None}, None),
        ]
    ):
        path = tmp_path / str(number)
        loaded.save_pretrained(path)
        kept = {"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": source, **config}
        (path / "tokenizer_config.json").write_text(json.dumps(kept))
        for name in ("chat_template.jinja", "special_tokens_map.json"):
            (path / name).unlink(missing_ok=True)
        if older is not None:
            (path / "special_tokens_map.json").write_text(json.dumps(older))
        right = AutoTokenizer.from_pretrained(path).apply_chat_template(TALK, tokenize=False)
        assert chat_template(str(path))(TALK, False) == right, config
