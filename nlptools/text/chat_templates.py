"""Chat templates, which turn conversations into the text that a model was trained on.

The template of a model directory is a program in Jinja. It runs in a sandbox (`template_sandbox`) with the same environment as
in transformers. Some published formats are known by name and need no package, not even for directories with a template that
`ChatFormat.source` wrote.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from nlptools.errors import BundleError, DataError, InputError, UsageError, display, reading
from nlptools.files import atomic, gguf_file
from nlptools.files.artifacts import read_json
from nlptools.files.gguf_file import is_gguf
from nlptools.files.hub_cache import DOWNLOAD, locate
from nlptools.json_types import Json, JsonObject
from nlptools.text import gguf_tokenizer
from nlptools.text.huggingface import MAX_JSON_BYTES, read_bytes
from nlptools.text.template_sandbox import Sandbox
from nlptools.text.tokenizer import Tokenizer

Message = Mapping[str, Json]  # "role" (system, user, assistant) and "content"
# (messages, whether the beginning of the assistant's next turn follows) -> text
Conversation = Callable[[Sequence[Message], bool], str]

_TEMPLATE, _CONFIG = FILES = ("chat_template.jinja", "tokenizer_config.json")  # which `keep` may write
MARK = "\u241f"  # stands for an answer, to see what a template writes after it
_NO_SYSTEM = "this chat template has no system messages"


@dataclass(frozen=True)
class ChatFormat:
    """A published format with the same form for all turns.

    Attributes:
        begin: text before the first turn.
        before, after: text around the content of a turn; `{role}` is its role.
        roles: other names of roles.
        strip: remove white space around the content.
        system: whether there are system messages.
    """

    before: str
    after: str
    begin: str = ""
    roles: Mapping[str, str] | None = None
    strip: bool = False
    system: bool = True

    def __call__(self, messages: Sequence[Message], generation: bool) -> str:
        """See `Conversation`. Raises DataError."""
        parts = [self.begin]
        for message in messages:
            if message["role"] == "system" and not self.system:
                raise DataError(_NO_SYSTEM)
            role, content = str(message["role"]), str(message["content"])
            parts += [self._before(role), content.strip() if self.strip else content, self.after]
        return "".join([*parts, self._before("assistant") if generation else ""])

    def _before(self, role: str) -> str:
        return self.before.replace("{role}", (self.roles or {}).get(role, role))

    @property
    def source(self) -> str:
        """The same in the language of Jinja, which other programs read."""
        first, after_role = self.before.split("{role}")
        begin, one, two, after, assistant, refusal = map(
            json.dumps, (self.begin, first, after_role, self.after, self._before("assistant"), _NO_SYSTEM)
        )
        refuse = (
            ""
            if self.system
            else f"{{% if message['role'] == 'system' %}}{{{{ raise_exception({refusal}) }}}}{{% endif %}}"
        )
        role = (
            f"{json.dumps(dict(self.roles))}.get(message['role'], message['role'])" if self.roles else "message['role']"
        )
        content = "message['content'] | trim" if self.strip else "message['content']"
        return (
            f"{{{{ {begin} }}}}{{% for message in messages %}}{refuse}"
            f"{{{{ {one} + {role} + {two} + {content} + {after} }}}}{{% endfor %}}"
            f"{{% if add_generation_prompt %}}{{{{ {assistant} }}}}{{% endif %}}"
        )


FORMATS = {
    "chatml": ChatFormat("<|im_start|>{role}\n", "<|im_end|>\n"),
    "gemma": ChatFormat(
        "<start_of_turn>{role}\n", "<end_of_turn>\n", "<bos>", {"assistant": "model"}, strip=True, system=False
    ),
    "llama-3": ChatFormat(
        "<|start_header_id|>{role}<|end_header_id|>\n\n", "<|eot_id|>", "<|begin_of_text|>", strip=True
    ),
    "phi-3": ChatFormat("<|{role}|>\n", "<|end|>\n"),
    "zephyr": ChatFormat("<|{role}|>\n", "</s>\n"),
}


def chat_template(name: str) -> Conversation:
    """The chat template of a model directory, or the known one of this name.

    Raises:
        BundleError: the directory has no chat template, or one that is not valid.
        InputError: no such directory.
        Unavailable: Jinja is not installed.
    """
    if name in FORMATS:
        return FORMATS[name]
    path = locate(name)
    if not path.is_dir() and not is_gguf(path):
        raise InputError(
            f"{display(name)}: no such directory",
            hint=f"expected a model ({DOWNLOAD} fetches one), or one of the known formats: {', '.join(FORMATS)}",
        )
    tokenizer = _config(path / _CONFIG)
    source = _source(path, tokenizer)
    if source is None:
        raise BundleError(
            f"{display(name)}: has no chat template",
            hint=f"--chat also takes the name of a format: {', '.join(FORMATS)}",
        )
    known = next((form for form in FORMATS.values() if form.source == source), None)
    return known or Sandbox(name, source, _special_tokens(path, tokenizer))


def has_chat_template(name: str) -> bool:
    """Whether the model directory has a chat template."""
    return source_of(locate(name)) is not None


def source_of(path: Path) -> str | None:
    """The Jinja source of the chat template of a model; None: it has none."""
    return _source(path, _config(path / _CONFIG)) if path.is_dir() or is_gguf(path) else None


def own_template(name: str) -> Conversation | None:
    """The chat template of a model directory, which is read at its first use; None for a directory without one. Raises as
    `chat_template`, at its first use.
    """
    if not has_chat_template(name):
        return None
    loaded = cache(lambda: chat_template(name))
    return lambda messages, generation: loaded()(messages, generation)


def for_training(directory: str, chat: str | None) -> Conversation | None:
    """The chat template of a model in training: its own, else the known one `chat`; None: neither. Raises UsageError for both."""
    if chat is None:
        return own_template(directory)
    path = locate(directory)
    if _source(path, _config(path / _CONFIG)) not in (None, FORMATS[chat].source):
        raise UsageError(f"--chat {chat}: {display(directory)} already has a chat template")
    return FORMATS[chat]


def keep(directory: Path, base: str, chat: str | None) -> list[str]:
    """Write the chat template of `for_training`, if there is one, into the model directory `directory`. Returns the names of the
    files; some tokenizers write the same files later, with more in them.

    Raises:
        StreamError: disk full or another write error.
    """
    path = locate(base)
    tokenizer = _config(path / _CONFIG)
    source = _source(path, tokenizer) if chat is None else FORMATS[chat].source
    if source is None:
        return []
    special = _special_tokens(path, tokenizer)
    texts = {_TEMPLATE: source, **({_CONFIG: json.dumps(special, indent=2) + "\n"} if special else {})}
    for name, text in texts.items():
        atomic.write_whole(directory / name, text)
    return list(texts)


def end_of_turn(chat: Conversation) -> str:
    """The text after an answer, without white space around it."""
    return after_answer(chat).strip()


def after_answer(chat: Conversation) -> str:
    """The text after the last answer of a conversation."""
    turns = [{"role": "user", "content": "?"}, {"role": "assistant", "content": MARK}]
    return chat(turns, False).rpartition(MARK)[2]


@dataclass(frozen=True)
class Renderer:
    """Makes the prompt of a conversation, up to the beginning of the assistant's turn.

    Attributes:
        end: the text after an answer; "" if it is a token, which ends an answer by itself.
    """

    conversation: Conversation
    end: str

    def __call__(self, messages: Sequence[Message]) -> str:
        """The prompt of a conversation. Raises DataError."""
        return self.conversation(messages, True)


def renderer(name: str, tokenizer: Tokenizer) -> Renderer | None:
    """The renderer for the chat template of a model directory, or for a known format; None for a directory without template.
    Raises as `chat_template`.
    """
    if name not in FORMATS and not has_chat_template(name):
        return None
    conversation = chat_template(name)
    end = end_of_turn(conversation)
    return Renderer(conversation, end if end and len(tokenizer.encode(end)) > 1 else "")


def _config(path: Path) -> JsonObject:
    return read_json(path) if path.is_file() else {}


def _special_tokens(path: Path, tokenizer: Mapping[str, Json]) -> dict[str, str]:
    """The special tokens that a template may name, such as bos_token. `tokenizer`: the content of tokenizer_config.json."""
    if is_gguf(path):
        return gguf_tokenizer.special_names(gguf_file.read(path))
    tokens = dict(tokenizer)
    if "added_tokens_decoder" not in tokenizer:  # a folder of older versions, where this file says more
        tokens.update(_config(path / "special_tokens_map.json"))
    named = {key: value for key, value in tokens.items() if key.endswith("_token")}
    for group in ("model_specific_special_tokens", "extra_special_tokens"):
        more = tokens.get(group)
        named.update(more if isinstance(more, dict) else {})
    texts = {key: _token(value) for key, value in named.items()}
    return {key: text for key, text in texts.items() if text is not None}


def _token(value: Json) -> str | None:
    value = value.get("content") if isinstance(value, dict) else value
    return value if isinstance(value, str) else None


def _source(path: Path, tokenizer: Mapping[str, Json]) -> str | None:
    """The Jinja source: in a separate file, or in tokenizer_config.json, which may have several by name."""
    if is_gguf(path):
        return gguf_file.read(path).text("tokenizer.chat_template") or None
    if (path / _TEMPLATE).is_file():
        with reading(path / _TEMPLATE):
            return read_bytes(path / _TEMPLATE, MAX_JSON_BYTES).decode("utf-8")
    template = _config(path / "chat_template.json").get("chat_template", tokenizer.get("chat_template"))
    if isinstance(template, list):
        named = {each.get("name"): each.get("template") for each in template if isinstance(each, dict)}
        template = named.get("default")
    return template if isinstance(template, str) else None
