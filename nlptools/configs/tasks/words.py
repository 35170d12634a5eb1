"""Options of models without pretraining (--scratch), and of networks over the features of an ELMo (--features)."""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.configs import option, redefined
from nlptools.configs.text_classifiers import HEADS, LOGISTIC_VALUES
from nlptools.configs.word_taggers import CHARACTERS
from nlptools.configs.word_vectors import lengths
from nlptools.errors import UsageError


@dataclass(frozen=True)
class WordOptions:
    """Options without pretraining"""

    vectors: str | None = option(
        None,
        "Start from these word vectors, in any format that convert reads.",
        metavar="FILE",
        needs=("scratch or features",),
    )
    lowercase: bool = option(True, "Lower-case the texts.")
    min_count: int = option(
        1, "Minimum frequency of a word in the training texts; rarer words are unknown.", low=1, metavar="N"
    )
    dim: int = option(100, "Dimensions of word vectors, without --vectors.", low=1, high=1 << 16, metavar="N")
    hidden_size: int = option(
        128, "Size of a layer: of the MLP, the filters of each width, the states of each direction.", low=1, metavar="N"
    )
    depth: int = option(1, "Number of layers; 0: none (mean).", low=0, high=64, metavar="N")
    dropout: float = option(0.5, "Dropout before the last layer, and between layers.", low=0, high=0.99, metavar="X")


@dataclass(frozen=True)
class TextScratch(WordOptions):
    """Options without pretraining"""

    tokenizer: str = option("words", "Tokenizer of texts: a name or a path, as in tokenize.", metavar="NAME")
    word_ngrams: int = option(2, "Maximum length of word n-grams (bag).", low=1, high=16, metavar="N")
    char_ngrams: str | None = option(
        None,
        "Add n-grams of A to B characters of each word, such as 3-6.",
        metavar="A-B",
        check=lengths,
        only={"scratch": ("bag",)},
    )

    pooling: str = option(
        "mean",
        "Mean of the word vectors, or the maximum of each dimension (mean).",
        choices=("mean", "max"),
        only={"scratch": ("mean",)},
    )


@dataclass(frozen=True)
class ClassifyScratch(TextScratch):
    """Options without pretraining"""

    values: str = option(
        "counts",
        "Values of logistic: how often each word occurs, or numbers separated by spaces; --text-column a,b,c reads them from"
        " the columns of a table.",
        choices=LOGISTIC_VALUES,
        only={"scratch": ("logistic",)},
    )

    image_size: int = option(
        0,
        "Scale pictures to N x N pixels; 0: to the size of the first one.",
        low=0,
        high=1 << 12,
        metavar="N",
        only={"scratch": ("vit",)},
    )
    patch_size: int = option(4, "Side of a patch in pixels.", low=1, high=256, metavar="N", only={"scratch": ("vit",)})
    window: int = option(
        0,
        "Attention within windows of N x N patches, shifted by half a window in every second layer (Swin, Liu et al. 2021); 0:"
        " attention to all patches.",
        low=0,
        high=1 << 8,
        metavar="N",
        only={"scratch": ("vit",)},
    )


@dataclass(frozen=True)
class TagScratch(WordOptions):
    """Options without pretraining"""

    lowercase: bool = redefined(
        WordOptions, "lowercase", True, "Lower-case words for the lookup, but not their characters."
    )
    characters: str | None = option(
        None,
        "Vector for the spelling of a word, in addition to its word vector: cnn (Ma & Hovy 2016), lstm in both directions"
        " (Lample et al. 2016), or none. Default: cnn.",
        choices=CHARACTERS,
    )
    char_dim: int = option(30, "Dimensions of this vector.", low=1, high=1 << 12, metavar="N")
    max_vectors: int = option(
        200_000,
        "Words of --vectors, from the top of the file, that the model knows in addition to the training words; 0: all.",
        low=0,
        metavar="N",
    )


@dataclass(frozen=True)
class FeatureWords(TagScratch):
    """Options without pretraining"""

    tokenizer: str = redefined(TextScratch, "tokenizer", "words")


@dataclass(frozen=True)
class Scratch(ClassifyScratch, TagScratch):
    """Options without pretraining"""

    def check(self, arch: str) -> None:
        """Raises UsageError for values that do not suit the architecture."""
        if arch in ("transformer", "vit") and self.hidden_size % (2 * HEADS):
            raise UsageError(f"--hidden-size {self.hidden_size}: expected a multiple of {2 * HEADS} for a {arch}")
        if self.depth == 0 and arch != "mean":
            raise UsageError("--depth 0 applies to --scratch mean only")
        if self.characters == "lstm" and self.char_dim % 2:
            raise UsageError(f"--char-dim {self.char_dim}: expected an even number for --characters lstm")
