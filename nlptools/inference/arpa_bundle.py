"""An ARPA file, opened as a model directory is, and the conversion of one to the other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from nlptools import bundle, messages
from nlptools.configs.vectors import SUFFIXES
from nlptools.environment import available_threads
from nlptools.errors import UsageError, display
from nlptools.files import compression, whole_directory
from nlptools.json_types import JsonObject
from nlptools.text.builtin import AT_WHITE_SPACE

if TYPE_CHECKING:
    from nlptools.models.language.ngram import NGrams


def is_arpa(path: str | Path) -> bool:
    """Whether a path has the name of an ARPA file, compressed or not."""
    return Path(compression.without_suffix(str(path))).suffix == ".arpa"


def load(path: str | Path, errors: str = "strict") -> bundle.Bundle[NGrams]:
    """The model of an ARPA file as a bundle; its tokens are words between white space of ASCII. Raises as `arpa.read`."""
    from nlptools.models.language import arpa
    from nlptools.text.builtin import NamedTokenizer
    from nlptools.text.vocab import Vocab

    model, words = arpa.read(str(path), errors)
    vocab = Vocab(words)
    config: JsonObject = {"vocab_size": len(words), "eos_token_id": vocab.eos, "nlptools": {"document": "line"}}
    tokenizer = NamedTokenizer("ascii-whitespace", vocab)
    return bundle.Bundle(Path(path), "ngram", model, tokenizer, config, {})


def save(directory: Path, loaded: bundle.Bundle[object]) -> None:
    """Write the bundle of an n-gram model as a model directory; the manifest last."""
    model = _ngrams(loaded)
    bundle.save(
        directory,
        "ngram",
        model,
        model.arrays(),
        loaded.tokenizer,
        eos=loaded.eos,
        document=loaded.document,
        training=loaded.training,
    )


def convert(source: str, target: str, *, force: bool = False, errors: str = "strict") -> None:
    """Write an ARPA file, or the directory of an n-gram model, as the other of the two.

    Args:
        target: an ARPA file, compressed or not; `-`: standard output, in ARPA; for other names of an ARPA file, a directory.
        errors: what to do with invalid UTF-8 in an ARPA file: strict, replace, ignore.

    Raises:
        InputError, DataError, BundleError: see `arpa.read`, `bundle.load`.
        UsageError: both are directories, or the target has the suffix of another format.
        OutputError: the target exists, and is no model directory or not to be replaced.
        StreamError: the disk is full.
    """
    if is_arpa(target) or target == "-":
        _write(source, target, force, errors)
        return
    if not is_arpa(source):
        raise UsageError(f"{display(source)} is an n-gram model: the target is an ARPA file, such as {target}.arpa")
    if (suffix := Path(compression.without_suffix(target)).suffix) in SUFFIXES:
        raise UsageError(f"{suffix} files hold word vectors; an n-gram model becomes a directory, or an .arpa file")
    whole_directory.check_target(target, "a model", lambda path: (path / "config.json").is_file(), force=force)
    loaded = load(source, errors)
    with whole_directory.replacing(target) as directory:
        save(directory, loaded)
    messages.note(f"{display(target)}: {_sizes(loaded)}")


def _write(source: str, target: str, force: bool, errors: str) -> None:
    from nlptools.files.streams import LineWriter
    from nlptools.models.language import arpa

    with LineWriter(target, force=force) as out:
        loaded: bundle.Bundle[object] = load(source, errors) if is_arpa(source) else bundle.load(source)
        model, vocab = _ngrams(loaded), loaded.tokenizer.vocab
        assert vocab is not None
        arpa.write(model, arpa.names(vocab, model.config, loaded.eos), out, available_threads())
    messages.note(f"{display(target)}: {_sizes(loaded)}")
    if loaded.tokenizer.kind not in AT_WHITE_SPACE:
        messages.note(f"its words are the tokens that nlptools tokenize -t {display(source)} makes of a text")


def _ngrams(loaded: bundle.Bundle[object]) -> NGrams:
    return cast("NGrams", loaded.model)


def _sizes(loaded: bundle.Bundle[object]) -> str:
    return ", ".join(f"{len(level):,} {n}-grams" for n, level in enumerate(_ngrams(loaded).levels, 1))
