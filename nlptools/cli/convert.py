"""nlptools convert: word vectors from one format to another."""

from __future__ import annotations

import click

from nlptools.cli.options import command as make_command
from nlptools.configs import Common
from nlptools.configs.vectors import Convert


@make_command(
    "convert",
    Convert,
    formats="""Formats follow from names unless --from and --to say otherwise; what a file holds decides nothing but for .bin,
and for standard input and pipes, which are JSON lines, npy or else word2vec by their first byte.

word2vec (.txt, .w2v, -): a line with the numbers of words and dimensions, then a word and its numbers per line, separated by
spaces; numbers have six significant digits where these give the same float32 again, else nine. word2vec-binary (.bin): the
same with float32 numbers; words must not hold spaces. glove (glove.NAME.txt, .glove): as word2vec without the first line.
vec (.vec): as word2vec with five significant digits and a space at the end of lines, as fastText writes it. fasttext
(.bin that begins with fastText's number; .bin made of such a file): fastText's model, with n-grams where the source has
them; fastText and gensim load it. npy (.npy): float32 array, the words (and counts, after a tab) in NAME.vocab.tsv. jsonl
(.jsonl): a word and its vector per line, {"text": ..., "embedding": [...]}, as nlptools-embed(1) writes lines. bundle
(directory, or a name without suffix): vectors.npy, vocab.tsv, config.json, manifest.json.

In text the last numbers of a line are the vector and all before them is the word. Of repeated words the first is kept. From
text to binary and back, and from each format to itself, bytes stay the same if the numbers have the form that is written
here. The vectors of vec are rounded; all others stay as they are.

--quantize int8 writes rows of int8 with a scale each to vectors.npy and scales.npy. --quantize pq (product quantization:
Jegou et al. 2011) cuts the numbers of a vector, at length 1, into as many parts as --subvectors says and writes for each
part the byte that names the nearest of 256 centroids; the first parts are one longer where they cannot be equal. Codes are
in vectors.npy, centroids in centroids.npy, a part in its columns, lengths in scales.npy. Both tell on standard error the
mean relative error, the mean cosine to the float32 vectors and how many of the ten nearest words stay. Of 100 dimensions
trained on 200,000 sentences int8 keeps 98% of the nearest words in 104 bytes per word, pq 88% in 54 (a byte for two
numbers, the default) and 64% in 29 (--subvectors 25). Every command reads such directories. N-grams are left out.""",
    examples=(
        ("Text for other tools:", "nlptools convert GoogleNews-vectors-negative300.bin.gz google.txt"),
        ("A file that opens at once:", "nlptools convert glove.840B.300d.txt glove840/"),
        ("The 50,000 most frequent words in a quarter of the space:",
         "nlptools convert wiki.en.bin small/ --restrict 50000 --quantize int8"),
        ("In an eighth of the space:", "nlptools convert glove.6B.300d.txt small/ --quantize pq"),
        ("The words and vectors of a fastText model:", "nlptools convert model.bin model.vec"),
        ("Through a pipe:", "nlptools convert model.bin - | head -3"),
    ),
    exit_codes=(0, 2, 66, 69, 73, 74, 78, 130, 141, 143),
)  # fmt: skip
@click.argument("source", type=click.Path())
@click.argument("target", type=click.Path())
def command(source: str, target: str, convert: Convert, common: Common) -> None:
    """Convert word vectors from one format to another.

    Reads the file or directory SOURCE and writes TARGET; - is standard input or output.
    """
    from nlptools.vectors.files import formats

    formats.convert(source, target, convert, common.encoding_errors)
