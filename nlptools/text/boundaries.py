"""The tokens at the beginning and the end of a model's texts, and their form in tokenizer files for other programs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nlptools.json_types import Json, JsonObject
from nlptools.text.packages import FastTokenizer
from nlptools.text.vocab import Vocab


@dataclass(frozen=True)
class Boundaries:
    """Ids of the tokens around texts; None: no token.

    Attributes:
        first: before a text, or before two that make one row.
        between: between two texts: in a RoBERTa there are two tokens.
        last: at the end.
        second: the type of the tokens of the second of two texts.
    """

    first: int | None = None
    between: tuple[int, ...] = ()
    last: int | None = None
    second: int = 0

    @classmethod
    def of_encoder(cls, vocab: Vocab | None) -> Boundaries:
        """The tokens around the texts of a BERT: [CLS] and [SEP], or the tokens for beginning and end of text."""
        if vocab is None:
            return cls()
        end = vocab.eos if vocab.sep is None else vocab.sep
        first = vocab.bos if vocab.cls is None else vocab.cls
        return cls(first, () if end is None else (end,), end, second=1)

    @property
    def ids(self) -> list[int]:
        """The tokens."""
        return [id for id in (self.first, *self.between, self.last) if id is not None]

    def around(self, text: list[int], pair: list[int] | None = None) -> list[int]:
        """The ids of a row of one text or of two."""
        row = [self.first, *text, *([] if pair is None else [*self.between, *pair]), self.last]
        return [id for id in row if id is not None]

    def template(self, vocab: Vocab) -> JsonObject:
        """The post-processor of a tokenizer.json that adds these tokens."""

        def token(id: int | None, type: int) -> list[Json]:
            return [] if id is None else tokens([id], type)

        def tokens(ids: Sequence[int], type: int) -> list[Json]:
            return [{"SpecialToken": {"id": vocab.token(id), "type_id": type}} for id in ids]

        def text(name: str, type: int) -> list[Json]:
            return [{"Sequence": {"id": name, "type_id": type}}]

        names = {id: vocab.token(id) for id in self.ids}
        begin = token(self.first, 0) + text("A", 0)
        return {
            "type": "TemplateProcessing",
            "single": begin + token(self.last, 0),
            "pair": begin + tokens(self.between, 0) + text("B", self.second) + token(self.last, self.second),
            "special_tokens": {name: {"id": name, "ids": [id], "tokens": [name]} for id, name in names.items()},
        }


def with_template(post_processor: Mapping[str, Json] | None, template: Mapping[str, Json]) -> JsonObject:
    """A post-processor that adds tokens by `template`, and keeps the treatment of offsets in `post_processor`."""
    own = dict(post_processor or {})
    parts = own.get("processors", [own])
    listed = parts if isinstance(parts, list) else []
    kept = [part for part in listed if isinstance(part, dict) and part.get("type") == "ByteLevel"]
    return {"type": "Sequence", "processors": [*kept, dict(template)]} if kept else dict(template)


def described(
    tokenizer: FastTokenizer, source: str, config: Mapping[str, Json], vocab: Vocab, boundaries: Boundaries
) -> tuple[str, JsonObject]:
    """tokenizer.json and tokenizer_config.json that add `boundaries` to texts in other programs; unchanged if they do already.

    Args:
        tokenizer: the `tokenizers.Tokenizer` of the tokenizer.json `source`.
        config: the tokenizer_config.json.
    """
    if any(id >= len(vocab) for id in boundaries.ids):
        return source, dict(config)  # the tokenizer has no name for a token of the model
    text = tokenizer.encode("a", add_special_tokens=False).ids
    found = [tokenizer.encode("a", pair, add_special_tokens=True).ids for pair in (None, "a")]
    says = config.get("add_bos_token")
    if found == [boundaries.around(text), boundaries.around(text, text)] and says in (
        None,
        boundaries.first is not None,
    ):
        return source, dict(config)
    content = json.loads(source)
    content["post_processor"] = with_template(content.get("post_processor"), boundaries.template(vocab))
    # tokenizer classes of families ignore this template, and so does transformers if the file has one of the two keys
    kept = {key: value for key, value in config.items() if key not in ("add_bos_token", "add_eos_token")}
    kept["tokenizer_class"] = "PreTrainedTokenizerFast"
    if boundaries.first is not None and boundaries == Boundaries(vocab.bos, (boundaries.first,)):
        kept["add_bos_token"] = True  # has the same effect
    return json.dumps(content, indent=2, ensure_ascii=False), kept


def default_config(vocab: Vocab) -> JsonObject:
    """A tokenizer_config.json for transformers: a fast tokenizer and the names of its special tokens."""
    config: JsonObject = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    return config | {f"{role}_token": vocab.token(id) for role, id in vocab.roles.items()}
