"""The tokenizer of M2M-100 directories: a SentencePiece model, a table of ids, and a token for each language after them.

Fan et al. 2021 (arXiv:2010.11125), in the layout of Hugging Face: `sentencepiece.bpe.model` and `vocab.json`. Departure from
Hugging Face's tokenizer: text does not become a special token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from nlptools.errors import BundleError, display
from nlptools.files import atomic
from nlptools.json_types import Json
from nlptools.text import huggingface, sentencepiece_file
from nlptools.text.boundaries import Boundaries
from nlptools.text.builtin import write_marker
from nlptools.text.marian import Marian
from nlptools.text.pieces import SentencePiece
from nlptools.text.vocab import Vocab

MODEL, VOCAB = "sentencepiece.bpe.model", "vocab.json"
_LANGUAGES = {  # by "language_codes" in tokenizer_config.json
    "m2m100": (
        "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr ht hu hy id ig"
        " ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps pt ro ru sd si sk sl"
        " so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu"
    ),
    "wmt21": "en ha is ja cs ru zh de",
}


class M2M100(Marian):
    """See the module's docstring; implements `tokenizer.Tokenizer`."""

    def __init__(self, pieces: SentencePiece, ids: Mapping[str, int], settings: Mapping[str, Json]) -> None:
        """Args:
            ids: the content of vocab.json.
            settings: of tokenizer_config.json.

        Raises:
            BundleError: see `Marian`; or the languages are not the languages of the family.
        """
        codes = settings.get("language_codes", "m2m100")
        if not isinstance(codes, str) or codes not in _LANGUAGES:
            raise BundleError(f"language_codes is {codes!r:.80}, expected {' or '.join(_LANGUAGES)}")
        self._ids = dict(ids)
        end = max(ids.values(), default=-1) + 1
        self._languages = {f"__{code}__": end + place for place, code in enumerate(_LANGUAGES[codes].split())}
        super().__init__(pieces, {**ids, **self._languages}, settings)
        roles = dict(self.vocab.roles)
        self.vocab = Vocab(self.vocab.tokens, special={**roles, "bos": ids.get("<s>")})

    def decode_tokens(self, tokens: Sequence[str]) -> str:
        """See `tokenizer.Tokenizer`; tokens of languages are no text."""
        return super().decode_tokens([token for token in tokens if token not in self._languages])

    def save(self, directory: Path, boundaries: Boundaries | None = None) -> list[str]:
        """See `tokenizer.Tokenizer`; `boundaries` are fixed by the class: one of them is a language token."""
        atomic.write_whole(directory / MODEL, self.sentencepiece.model)
        atomic.write_whole(directory / VOCAB, huggingface.json_bytes(self._ids))
        settings = {**self.settings, "tokenizer_class": "M2M100Tokenizer"}
        atomic.write_whole(directory / huggingface.CONFIG, huggingface.json_bytes(settings))
        marker = [write_marker(directory, self.sentencepiece.kind, True)] if self.lowercase else []
        return [MODEL, VOCAB, huggingface.CONFIG, *marker]


def load(path: Path, lowercase: bool = False) -> M2M100:
    """The tokenizer with the SentencePiece model in the file `path`. Raises BundleError."""
    model = huggingface.read_bytes(path, sentencepiece_file.MAX_FILE_BYTES)
    ids = huggingface.read_ids(path.with_name(VOCAB))
    try:
        return M2M100(SentencePiece(model, str(path), lowercase), ids, huggingface.read_config(path.parent))
    except BundleError as error:
        place = "" if str(error).startswith(display(str(path))) else f"{display(str(path.with_name(VOCAB)))}: "
        raise BundleError(place + str(error), hint=error.hint) from None
