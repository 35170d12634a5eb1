"""Tokenizers of encoders in classic files, without tokenizer.json: what their classes in transformers do besides the file.

`tokenizer_class` in tokenizer_config.json, or `model_type` in config.json, names the class. Others read the file alone.
"""

from __future__ import annotations

from pathlib import Path

from nlptools.errors import BundleError, display
from nlptools.json_types import JsonObject
from nlptools.text import sentencepiece_file
from nlptools.text.huggingface import HuggingFace, read_bytes, read_config, read_object
from nlptools.text.packages import FastTokenizer, tokenizers_package

_SPACE = "\u2581"  # stands for a space in pieces
_PAIRED = ("roberta", "mpnet")  # two tokens </s> between texts, and a mask that takes the space before it along
_CHANGED = ("albert", "camembert", "barthez", "mbart", "mbart50", "nllb", "deberta-v2", "debertav2", "xlnet", "fnet")
_CONVERT = (
    """python -c "from transformers import AutoTokenizer as A; A.from_pretrained('.').save_pretrained('.')" writes it,"""
    " in that directory"
)


def family(directory: Path) -> str:
    """The family whose tokenizer a directory has, such as roberta; "": not known. Raises BundleError for damaged files."""
    named = str(read_config(directory).get("tokenizer_class") or "")
    if named and not named.startswith("PreTrained"):
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


def of_sentencepiece(path: Path, lowercase: bool) -> HuggingFace | None:
    """The tokenizer of a family that changes the ids of a SentencePiece file, or the text; None: the file is all of it.

    Raises BundleError for a family that is not supported without tokenizer.json.
    """
    name = family(path.parent)
    if name in _CHANGED:
        raise BundleError(
            f"{display(str(path))}: the tokenizer of a {name} needs tokenizer.json, which is not there", hint=_CONVERT
        )
    if name != "xlm-roberta":
        return None
    model = read_bytes(path, sentencepiece_file.MAX_FILE_BYTES)
    pieces, settings = sentencepiece_file.check(model, str(path)), sentencepiece_file.settings(model)
    # fairseq put four tokens of its own before the pieces after the first three, and a mask at the end
    own = [(token, 0.0) for token in ("<s>", "<pad>", "</s>", "<unk>")]
    rows = [*own, *list(zip(pieces.texts, pieces.scores, strict=True))[3:], ("<mask>", 0.0)]
    package = tokenizers_package()
    out: FastTokenizer = package.Tokenizer(package.models.Unigram(rows, unk_id=3, byte_fallback=False))
    if settings.characters:
        out.normalizer = package.normalizers.Precompiled(settings.characters)
    marks = package.pre_tokenizers.Metaspace(replacement=_SPACE, prepend_scheme="always")
    out.pre_tokenizer = package.pre_tokenizers.Sequence([package.pre_tokenizers.WhitespaceSplit(), marks])
    out.decoder = package.decoders.Metaspace(replacement=_SPACE, prepend_scheme="always")
    out.add_special_tokens([*(token for token, _ in own), package.AddedToken("<mask>", lstrip=True)])
    out.post_processor = package.processors.TemplateProcessing(
        single=["<s>", "$A", "</s>"],
        pair=["<s>", "$A", "</s>", "</s>", "$B", "</s>"],
        special_tokens=[("<s>", 0), ("</s>", 2)],
    )
    return HuggingFace(out, str(path), read_config(path.parent), lowercase)
