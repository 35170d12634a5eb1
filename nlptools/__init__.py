"""The coreutils of neural NLP, as functions.

The public names are listed in `__all__` and resolve on first use, so that `import nlptools` costs nothing and a program
that only wants BLEU never loads PyTorch.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from nlptools.tokenization import tokenizer as tokenizer
