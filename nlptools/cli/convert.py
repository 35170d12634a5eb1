"""nlptools convert: word vectors from one format to another, n-gram models, published ELMo weights, adapters with their base."""

from __future__ import annotations

from functools import partial

import click

from nlptools.cli.options import command as make_command
from nlptools.configs import Common
from nlptools.configs.vectors import CONTENTS, Convert


@make_command(
    "convert",
    Convert,
    formats=f"""Formats follow from the names of files, unless --from and --to name them. The content decides only for .bin, and
for standard input and pipes, which are jsonl or npy if their first byte is, else word2vec. Standard output is word2vec. A
suffix of compression (.gz, .bz2, .xz, .zst) is ignored.

{CONTENTS}

In text, the last numbers of a line are the vector, and all before them is the word. Of repeated words the first is kept.
From text to binary and back, and from each format to itself, bytes stay the same if numbers have the form that is written
here. Only vec rounds vectors.

--quantize int8 writes int8 rows to vectors.npy and a scale for each to scales.npy. --quantize pq (product quantization:
Jegou et al. 2011) scales each vector to length 1, splits it into --subvectors parts and writes for each part the byte that
names the nearest of 256 centroids; the first parts are one longer if they cannot be equal. vectors.npy has the codes,
centroids.npy the centroids, each part in its columns, scales.npy the lengths. Standard error gets the mean relative error,
the mean cosine to the float32 vectors and the share of the ten nearest words that stay. With 100 dimensions trained on
200,000 sentences, int8 keeps 98% of the nearest words in 104 bytes per word, pq 88% in 54 (a byte for two numbers, the
default) and 64% in 29 (--subvectors 25). Every command reads such directories. N-grams are left out.

An ELMo as AllenNLP published it is a folder with options.json and weights.hdf5, whose names may have a prefix (needs the extra
hdf5). TARGET becomes a model directory with features only, for embed and finetune.

A directory of low-rank adapters (finetune --lora, or PEFT's) becomes a model directory with the sum of base and adapters, in
float32, which transformers opens without PEFT.

An ARPA file (.arpa, .arpa.gz) becomes the directory of an n-gram model, which opens at once; the directory of an n-gram model
becomes an ARPA file, as train-lm --arpa writes it, for KenLM and others.""",
    examples=(
        ("Text for other tools:", "nlptools convert GoogleNews-vectors-negative300.bin.gz google.txt"),
        ("A copy that opens at once:", "nlptools convert glove.840B.300d.txt glove840/"),
        ("The 50,000 most frequent words in a quarter of the space:",
         "nlptools convert wiki.en.bin small/ --restrict 50000 --quantize int8"),
        ("In an eighth of the space:", "nlptools convert glove.6B.300d.txt small/ --quantize pq"),
        ("The words and vectors of a fastText model:", "nlptools convert model.bin model.vec"),
        ("The embeddings of a language model:", "nlptools convert lm/ embeddings.txt"),
        ("An ELMo of AllenNLP, for embed:", "nlptools convert elmo_2x1024_128_2048cnn_1xhighway/ elmo/"),
        ("Low-rank adapters and their base as one model:", "nlptools convert adapters/ model/"),
        ("An ARPA file as a directory, and back:", "nlptools convert lm.arpa.gz lm/; nlptools convert lm/ again.arpa"),
        ("Through a pipe:", "nlptools convert model.bin - | head -3"),
    ),
    exit_codes=(0, 2, 65, 66, 69, 73, 74, 78, 130, 141, 143),
)  # fmt: skip
@click.argument("source", type=click.Path())
@click.argument("target", type=click.Path())
def command(source: str, target: str, convert: Convert, common: Common) -> None:
    """Convert word vectors from one format to another.

    Reads the file or directory SOURCE and writes TARGET; - is standard input or output. SOURCE may also be the directory of a
    language model: its tokens and their input embeddings; or a folder with the options and weights of an ELMo of AllenNLP, or
    with low-rank adapters, which becomes a model directory; or an n-gram model, from ARPA to a directory or back.
    """
    import glob
    import os
    from pathlib import Path

    from nlptools import bundle
    from nlptools.inference import arpa_bundle

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
        from nlptools.inference.embedding import token_table

        given = partial(token_table.load, source)
    formats.convert(source, target, convert, common.encoding_errors, given=given)
