"""Tokenizers of families whose ids are not the ids of their SentencePiece file, as their classes in transformers build them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from nlptools.errors import BundleError
from nlptools.json_types import JsonObject
from nlptools.text.packages import FastTokenizer, tokenizers_package
from nlptools.text.sentencepiece_file import SentencePieceVocabulary, TextNormalization

_SPACE = "\u2581"  # stands for a space in pieces
_FAIRSEQ = ("<s>", "<pad>", "</s>", "<unk>")  # which fairseq put before the pieces after the first three
_MOST_TOKENS = 1000  # that a family adds
_LANGUAGES = (
    "ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT lv_LV my_MM ne_NP nl_XX ro_RO"
    " ru_RU si_LK tr_TR vi_VN zh_CN"
)  # of mBART
_MORE_LANGUAGES = (
    " af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN pl_PL ps_AF pt_XX sv_SE sw_KE ta_IN te_IN"
    " th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI"
)  # which mBART-50 has besides


@dataclass(frozen=True)
class _Layout:
    """The tokens of a tokenizer.

    Attributes:
        first: tokens that replace the first `skipped` pieces.
        last: after the pieces.
        unknown: the id of the unknown token.
        special: tokens of `first` and `last` that are never pieces of a text.
        splits: whether white space separates words; else a space is a character of a piece, and several count as one.
        mask: a token that takes the space before it along.
        template: around a text, and around two.
    """

    first: Sequence[str]
    skipped: int
    last: Sequence[str]
    unknown: int
    special: Sequence[str]
    splits: bool
    mask: str = ""
    template: tuple[str, str] | None = None
    scores: dict[str, float] = field(default_factory=dict)


def _t5(pieces: SentencePieceVocabulary, config: JsonObject) -> _Layout:
    """T5: the blanks of its pretraining come last, the first one at the end."""
    blanks = [f"<extra_id_{i}>" for i in reversed(range(_number(config, "extra_ids", 100)))]
    special = [token for token in ("<pad>", "</s>", "<unk>") if token in pieces.texts]
    return _Layout((), 0, blanks, 2, [*special, *blanks], True, template=("$A </s>", "$A </s> $B </s>"))


def _pegasus(pieces: SentencePieceVocabulary, config: JsonObject) -> _Layout:
    """Pegasus: two masks, and tokens that are not used, before the pieces after the first two."""
    offset = _number(config, "offset", 103)
    unused = [f"<unk_{i}>" for i in range(2, offset)]
    first = ["<pad>", "</s>", *(["<mask_1>", "<mask_2>"] if offset else []), *unused]
    special = [*first, "<unk>"]
    scores = dict.fromkeys(unused, -100.0)
    return _Layout(first, 2, (), len(first), special, False, template=("$A </s>", "$A $B </s>"), scores=scores)


def _xlm_roberta(pieces: SentencePieceVocabulary, config: JsonObject) -> _Layout:
    around = ("<s> $A </s>", "<s> $A </s> </s> $B </s>")
    return _Layout(_FAIRSEQ, 3, ["<mask>"], 3, _FAIRSEQ, True, mask="<mask>", template=around)


def _mbart(languages: str, splits: bool) -> _Layout:
    """mBART: language tokens after the pieces. Departure: texts of an mBART are normalized as its SentencePiece file says, which
    transformers 5 leaves out.
    """
    codes = languages.split()
    return _Layout(_FAIRSEQ, 3, [*codes, "<mask>"], 3, [*_FAIRSEQ, *codes], splits, mask="<mask>")


BUILT: dict[str, Callable[[SentencePieceVocabulary, JsonObject], _Layout]] = {
    "t5": _t5,
    "mt5": _t5,
    "pegasus": _pegasus,
    "xlm-roberta": _xlm_roberta,
    "mbart": lambda pieces, config: _mbart(_LANGUAGES, True),
    "mbart50": lambda pieces, config: _mbart(_LANGUAGES + _MORE_LANGUAGES, False),
}


def build(
    family: str, pieces: SentencePieceVocabulary, normalization: TextNormalization, config: JsonObject
) -> FastTokenizer:
    """The tokenizer of a family in `BUILT`.

    Args:
        pieces, normalization: of the SentencePiece file.
        config: the content of tokenizer_config.json.

    Raises:
        BundleError: an absurd number in it.
    """
    layout = BUILT[family](pieces, config)
    own = list(zip(pieces.texts, pieces.scores, strict=True))[layout.skipped :]
    rows = [(token, layout.scores.get(token, 0.0)) for token in layout.first] + own
    rows += [(token, 0.0) for token in layout.last]
    package = tokenizers_package()
    out: FastTokenizer = package.Tokenizer(package.models.Unigram(rows, unk_id=layout.unknown, byte_fallback=False))
    marks = package.pre_tokenizers.Metaspace(replacement=_SPACE, prepend_scheme="always")
    steps = [package.normalizers.Precompiled(normalization.characters)] if normalization.characters else []
    if layout.splits:
        out.pre_tokenizer = package.pre_tokenizers.Sequence([package.pre_tokenizers.WhitespaceSplit(), marks])
    else:
        steps.append(package.normalizers.Replace(package.Regex(r" {2,}"), " "))
        out.pre_tokenizer = marks
    if steps:
        out.normalizer = steps[0] if len(steps) == 1 else package.normalizers.Sequence(steps)
    out.decoder = package.decoders.Metaspace(replacement=_SPACE, prepend_scheme="always")
    ids = out.get_vocab()
    mask = [package.AddedToken(layout.mask, lstrip=True)] if layout.mask else []
    out.add_special_tokens([*(token for token in layout.special if token in ids), *mask])
    if layout.template is not None:
        single, pair = layout.template
        named = [(token, ids[token]) for token in ("<s>", "</s>") if token in ids]
        out.post_processor = package.processors.TemplateProcessing(single=single, pair=pair, special_tokens=named)
    return out


def _number(config: JsonObject, name: str, default: int) -> int:
    value = config.get(name, default)
    if type(value) is not int or not 0 <= value <= _MOST_TOKENS:
        raise BundleError(f"tokenizer_config.json: {name} is {value!r:.80}, expected a number up to {_MOST_TOKENS}")
    return value
