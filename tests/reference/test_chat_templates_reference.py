"""Chat templates as `transformers` renders them."""

from __future__ import annotations

import json

import pytest

from nlptools.text.chat_templates import chat_template

pytest.importorskip("jinja2")
utilities = pytest.importorskip("transformers.utils.chat_template_utils")

TALK = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": " Hello\nyou é "},
    {"role": "assistant", "content": 'Hi "you".'},
]
SOURCES = {
    "blocks and white space": "{%- for message in messages %}\n    {%- if message.role == 'assistant' %}\n"
    "{% generation %}{{ message.content | tojson }}{% endgeneration %}\n    {%- continue %}\n    {%- endif %}\n"
    "[{{ message.content }}]\n  {% if loop.first %}\n  first\n  {% endif %}\n{% endfor %}{{ strftime_now('%Y') }}{{ nothing }}",
    "namespaces and special tokens": "{% set ns = namespace(n=0) %}{{ bos_token }}{% for m in messages %}"
    "{% set ns.n = ns.n + 1 %}{{ ns.n }}{{ m['content']|trim }}{{ eos_token }}\n{% endfor %}"
    "{% if add_generation_prompt %}A:{% endif %}",
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
@pytest.mark.parametrize("generation", [True, False])
def test_the_dialect_of_transformers(tmp_path, source, generation):
    special = {"bos_token": "<s>", "eos_token": "</s>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": source, **special}), encoding="utf-8")
    rendered, _ = utilities.render_jinja_template(
        conversations=[TALK], chat_template=source, add_generation_prompt=generation, **special
    )
    assert chat_template(str(tmp_path))(TALK, generation) == rendered[0]
