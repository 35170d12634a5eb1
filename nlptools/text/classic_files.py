"""Tokenizers in classic files, without tokenizer.json: what their classes in transformers do besides the file.

`tokenizer_class` in tokenizer_config.json, or `model_type` in config.json, names the class. Others read the file alone.
"""

from __future__ import annotations

from pathlib import Path

from nlptools.errors import BundleError, display
from nlptools.json_types import JsonObject
from nlptools.text import classic_pieces, m2m_100, sentencepiece_file
from nlptools.text.huggingface import HuggingFace, read_bytes, read_config, read_object
from nlptools.text.marian import Marian
from nlptools.text.packages import FastTokenizer, tokenizers_package

_PAIRED = ("roberta", "bart", "mpnet")  # two tokens </s> between texts, and a mask that takes the space before it along
_CHANGED = ("albert", "camembert", "barthez", "nllb", "deberta-v2", "debertav2", "xlnet", "fnet", "bigbird", "reformer")
_M2M = ("m2m100", "m2m_100")
_CONVERT = (
    """python -c "from transformers import AutoTokenizer as A; A.from_pretrained('.').save_pretrained('.')" writes it,"""
    " in that directory"
)


def family(directory: Path) -> str:
    """The family of the tokenizer in a directory, such as roberta; "": unknown. Raises BundleError for damaged files."""
    named = str(read_config(directory).get("tokenizer_class") or "")
    if named and not named.startswith(("PreTrained", "TokenizersBackend")):
        return named.removesuffix("Fast").removesuffix("Tokenizer").lower().replace("xlmroberta", "xlm-roberta")
    path = directory / "config.json"
    config: JsonObject = read_object(path) if path.is_file() else {}
    return str(config.get("model_type", ""))


def completed(tokenizer: FastTokenizer, directory: Path) -> FastTokenizer:
    """A tokenizer from vocab.txt, or from vocab.json and merges.txt, with the special tokens of its family."""
    ids: dict[str, int] = tokenizer.get_vocab(with_added_tokens=True)
    if family(directory) not in _PAIRED or not {"<s>", "</s>"} <= ids.keys():
        return tokenizer
    package = tokenizers_package()
    special = [name for name in ("<s>", "<pad>", "</s>", "<unk>", "[UNK]") if name in ids]
    tokenizer.add_special_tokens([*special, package.AddedToken("<mask>", lstrip=True)] if "<mask>" in ids else special)
    tokenizer.post_processor = package.processors.RobertaProcessing(
        ("</s>", ids["</s>"]), ("<s>", ids["<s>"]), trim_offsets=True, add_prefix_space=False
    )
    return tokenizer


def of_sentencepiece(path: Path, lowercase: bool) -> HuggingFace | Marian | None:
    """The tokenizer of a family that changes the ids of a SentencePiece file, or the text; None: the file is all of it.

    Raises BundleError for a family that is not supported without tokenizer.json.
    """
    name = family(path.parent)
    if name in _CHANGED:
        raise BundleError(
            f"{display(str(path))}: the tokenizer of a {name} needs tokenizer.json, which is missing", hint=_CONVERT
        )
    if name in _M2M and not (path.parent / m2m_100.VOCAB).exists():
        raise BundleError(
            f"{display(str(path))}: the tokenizer of an M2M-100 needs {m2m_100.VOCAB}, the tokenizer of an NLLB needs"
            " tokenizer.json; both are missing",
            hint="for an NLLB, " + _CONVERT.replace("AutoTokenizer", "NllbTokenizer"),
        )
    if name in _M2M:
        return m2m_100.load(path, lowercase)
    if name not in classic_pieces.BUILT:
        return None
    model, config = read_bytes(path, sentencepiece_file.MAX_FILE_BYTES), read_config(path.parent)
    pieces, settings = sentencepiece_file.check(model, str(path)), sentencepiece_file.settings(model)
    return HuggingFace(classic_pieces.build(name, pieces, settings, config), str(path), config, lowercase)
