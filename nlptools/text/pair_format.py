"""The tokens around the sources and targets of an encoder-decoder, the tokens of languages among them.

mBART (Liu et al. 2020, arXiv:2001.08210), mBART-50, M2M-100 (Fan et al. 2021, arXiv:2010.11125) and NLLB tell the encoder the
language of the source, and the decoder the language of the target, by a token each; their places differ.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from nlptools.errors import BundleError, UsageError, display
from nlptools.json_types import Json, JsonObject
from nlptools.text import classic_files
from nlptools.text.huggingface import HuggingFace, read_config, read_object
from nlptools.text.tokenizer import Tokenizer
from nlptools.text.vocab import Vocab

_GENERATION = "generation_config.json"


@dataclass(frozen=True)
class PairMarks:
    """The tokens around a source, and before and after its target.

    Attributes:
        start: the decoder begins with it.
        eos: the end of a target.
        given: tokens after `start` with which every target begins: the decoder reads them, and does not predict them.
        before, after: of a source; `after` None: the end.
        ends_at_limit: whether `eos` is the last of the most tokens that a target may have, whatever the model predicts.
    """

    start: int
    eos: int
    given: tuple[int, ...] = ()
    before: tuple[int, ...] = ()
    after: tuple[int, ...] | None = None
    ends_at_limit: bool = False

    @property
    def ends(self) -> tuple[int, ...]:
        """The tokens after a source."""
        return (self.eos,) if self.after is None else self.after

    @property
    def of_source(self) -> int:
        """The number of tokens around a source."""
        return len(self.before) + len(self.ends)

    @property
    def read(self) -> tuple[int, ...]:
        """The tokens that the decoder reads before those that it predicts."""
        return self.start, *self.given

    def source(self, ids: list[int]) -> list[int]:
        """The tokens that the encoder reads."""
        return [*self.before, *ids, *self.ends]


class _Languages(NamedTuple):
    """How a family tells its languages."""

    token: re.Pattern[str]  # of a language; its group is the code
    after: bool  # whether the language of a source follows its end, instead of preceding the source
    starts: bool  # whether the decoder begins with the language of the target, instead of reading it after its start


_BART = re.compile(r"([a-z]{2,3}_[A-Z]{2})")
_M2M = _Languages(re.compile(r"__([a-z]{2,3})__"), False, False)
_NLLB = re.compile(r"([a-z]{3}_[A-Z][a-z]{3})")
_FAMILIES = {
    "mbart": _Languages(_BART, True, True),
    "mbart50": _Languages(_BART, False, False),
    "m2m100": _M2M,
    "m2m_100": _M2M,
    "nllb": _Languages(_NLLB, False, False),
}


@dataclass(frozen=True)
class PairFormat:
    """The marks of a model, by language where it knows any.

    Attributes:
        path: of the model, for messages.
        plain: without languages.
        tokens: the token of each language.
        after, starts: see `_Languages`.
        source, target: the languages that the model's files name; None: none.
    """

    path: str
    plain: PairMarks
    tokens: Mapping[str, int] = field(default_factory=dict)
    after: bool = False
    starts: bool = False
    source: str | None = None
    target: str | None = None

    def marks(self, source: str | None = None, target: str | None = None) -> PairMarks:
        """The marks for languages; None: the languages that the model's files name.

        Raises UsageError for a language that the model does not know, or that nothing names.
        """
        if not self.tokens:
            for option, code in (("--source-lang", source), ("--target-lang", target)):
                if code is not None:
                    raise UsageError(f"{option} {code}: {display(self.path)} has no tokens of languages")
            return self.plain
        marks = self.of_source(source)
        if target is None and (marks.given or (self.starts and marks.start in self.tokens.values())):
            return marks  # the model's files name the token itself
        token = self._token("--target-lang", target or self.target)
        return replace(marks, start=token, given=()) if self.starts else replace(marks, given=(token,))

    def of_source(self, source: str | None = None) -> PairMarks:
        """The marks around a source in a language, see `marks`. The target has none."""
        return self._around(self._token("--source-lang", source or self.source)) if self.tokens else self.plain

    def generation(self, source: str | None, target: str | None) -> JsonObject:
        """What generation_config.json and config.json say of the start of an output."""
        marks = self.marks(source, target)
        return {
            "decoder_start_token_id": marks.start,
            **({"forced_bos_token_id": marks.given[0]} if len(marks.given) == 1 else {}),
        }

    @property
    def is_plain(self) -> bool:
        """Whether there are no tokens around texts but for the end of a sentence."""
        marks = self.plain
        return not self.tokens and not marks.given and not marks.before and marks.ends == (marks.eos,)

    def settings(self, source: str | None, target: str | None) -> JsonObject:
        """What tokenizer_config.json says of the languages."""
        return {"src_lang": source or self.source, "tgt_lang": target or self.target} if self.tokens else {}

    def _around(self, token: int) -> PairMarks:
        end = self.plain.eos
        if self.after:
            return replace(self.plain, before=(), after=(end, token))
        return replace(self.plain, before=(token,), after=(end,))

    def _token(self, option: str, code: str | None) -> int:
        known = ", ".join(sorted(self.tokens))
        if code is None:
            raise UsageError(f"{display(self.path)} needs {option}: {known}")
        if code not in self.tokens:
            close = difflib.get_close_matches(code, self.tokens, n=1)
            guess = f"did you mean {close[0]}? " if close else ""
            raise UsageError(f"{option}: {display(self.path)} has no language {display(code)} ({guess}known: {known})")
        return self.tokens[code]


def plain(start: int, eos: int) -> PairFormat:
    """The format of a model that puts only the end token around texts."""
    return PairFormat("", PairMarks(start, eos, ends_at_limit=True))


def read(directory: Path, config: Mapping[str, Json], tokenizer: Tokenizer, start: int, eos: int) -> PairFormat:
    """The format in a model directory: as the template in tokenizer.json says, or the family's class of tokenizers.

    Args:
        config: its config.json.
        tokenizer: of the source.
        start, eos: the token that the decoder begins with, and the end token.

    Raises:
        BundleError: a damaged file, or a token that the model does not have.
    """
    settings = read_config(directory)
    before, after = tokenizer.around() if isinstance(tokenizer, HuggingFace) else ([], [])
    forced, last = (_forced(directory, config, name) for name in ("forced_bos_token_id", "forced_eos_token_id"))
    if last not in (None, eos):
        raise BundleError(f"{display(str(directory))}: forced_eos_token_id is {last}, expected the end token, {eos}")
    vocab = tokenizer.vocab
    family = _FAMILIES.get(classic_files.family(directory))
    tokens = {} if family is None or vocab is None else _tokens(family, vocab)
    if family is not None and vocab is not None and not tokens:
        family = _FAMILIES["nllb"]  # which has the model_type of an M2M-100
        tokens = _tokens(family, vocab)
    if family is None or not tokens:
        given = (forced,) if forced is not None and forced != eos else tuple(before)
        # a template without the end is not made for the model
        ends = tuple(after) if eos in after else (eos,)
        marks = PairMarks(start, eos, given, tuple(before), ends, ends_at_limit=last is not None)
        return PairFormat(str(directory), marks)
    legacy = family.token is _NLLB and bool(settings.get("legacy_behaviour"))
    given = (forced,) if forced is not None and not family.starts else ()
    named = {
        key: value if isinstance(value, str) and value in tokens else None
        for key, value in (("source", settings.get("src_lang")), ("target", settings.get("tgt_lang")))
    }
    marks = PairMarks(start, eos, given, ends_at_limit=last is not None)
    return PairFormat(str(directory), marks, tokens, family.after or legacy, family.starts, **named)


def _tokens(family: _Languages, vocab: Vocab) -> dict[str, int]:
    return {match[1]: id for token, id in vocab.ids.items() if (match := family.token.fullmatch(token))}


def _forced(directory: Path, config: Mapping[str, Json], name: str) -> int | None:
    """The token that every output begins or ends with, in generation_config.json, or without that file in config.json, as in
    `transformers`; None: none is named.
    """
    path = directory / _GENERATION
    named = (read_object(path) if path.is_file() else config).get(name)
    if isinstance(named, list) and len(named) == 1:
        (named,) = named
    sizes = [config.get(f"{side}vocab_size") for side in ("", "decoder_", "target_")]
    size = max((size for size in sizes if isinstance(size, int)), default=0)
    if named is not None and (type(named) is not int or not 0 <= named < size):
        raise BundleError(f"{display(str(directory))}: {name} is {named!r:.80}, expected a token of the model")
    return named
