"""nlptools convert: word vectors from one format to another, n-gram models, published ELMo weights, adapters, GGUF files."""

from __future__ import annotations

from functools import partial

import click

from nlptools.cli.options import command as make_command
from nlptools.configs import Common
from nlptools.configs.vectors import Convert


@make_command(
    "convert",
    Convert,
    exit_codes=(0, 2, 65, 66, 69, 73, 74, 78, 130, 141, 143),
)
@click.argument("source", type=click.Path())
@click.argument("target", type=click.Path())
def command(source: str, target: str, convert: Convert, common: Common) -> None:
    """Convert word vectors from one format to another.

    Reads SOURCE and writes TARGET; - is standard input or output. The input embeddings of a language model are also
    word vectors. Other conversions: an ELMo of AllenNLP, or low-rank adapters with their base, to a model directory; an
    n-gram model from ARPA to a directory, or back; a language model or an encoder to a .gguf file for llama.cpp.
    """
    import glob
    import os
    from pathlib import Path

    from nlptools import bundle
    from nlptools.files import run_paths
    from nlptools.inference import arpa_bundle

    convert.check_gguf(target)
    run_paths.restore(source)
    if target.endswith(".gguf"):
        from nlptools.converters import gguf_export

        gguf_export.convert(source, target, quantize=convert.quantize, force=convert.force)
        return
    is_bundle = os.path.isfile(os.path.join(source, "config.json"))
    if os.path.isdir(source) and not is_bundle and glob.glob(os.path.join(glob.escape(source), "*.hdf5")):
        from nlptools.converters import allennlp

        convert.check_model()
        allennlp.convert(source, target, force=convert.force)
        return
    if os.path.isfile(os.path.join(source, "adapter_config.json")):
        from nlptools.inference import merging

        convert.check_model()
        merging.convert(source, target, force=convert.force)
        return
    if arpa_bundle.is_arpa(source) or (is_bundle and bundle.is_ngram(Path(source))):
        convert.check_model()
        arpa_bundle.convert(source, target, force=convert.force, errors=common.encoding_errors)
        return
    from nlptools.vectors.files import formats

    given = None
    if is_bundle and not os.path.isfile(os.path.join(source, "vectors.npy")):
        from nlptools.inference import loading, uses

        given = partial(loading.load, source, use=uses.CONVERT)
    formats.convert(source, target, convert, common.encoding_errors, given=given)
