"""The coreutils of neural NLP, as functions.

The public names are listed in `__all__` and resolve on first use, so that `import nlptools` costs nothing and a program
that only wants BLEU never loads PyTorch.

`load` opens model directories: a language model (`LanguageModel`), an encoder-decoder (`Translator`), what `finetune` made
(`Predictor`), an encoder or a sentence-transformers directory (`TextEmbedder`):

    nlptools.load("all-MiniLM-L6-v2").embed(["a sentence", "another"])  # an array of shape (2, 384)
    for lines in nlptools.load("questions").lines(["test.txt"]):  # as the command `predict` writes them
        ...
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from nlptools.description import describe as describe
    from nlptools.embedders.text_embedder import TextEmbedder as TextEmbedder
    from nlptools.embeddings.training import train_vectors as train_vectors
    from nlptools.finetuning.job import finetune as finetune
    from nlptools.language_model import LanguageModel as LanguageModel
    from nlptools.loading import load as load
    from nlptools.metrics.corpus import bleu as bleu
    from nlptools.metrics.corpus import chrf as chrf
    from nlptools.metrics.corpus import ter as ter
    from nlptools.metrics.evaluation import evaluate as evaluate
    from nlptools.onnx_export import export as export_onnx
    from nlptools.prediction import Predictor as Predictor
    from nlptools.projection.mapping import project as project
    from nlptools.seq2seq_training import train_seq2seq as train_seq2seq
    from nlptools.sequences.corpus import phrases as phrases
    from nlptools.sequences.corpus import walks as walks
    from nlptools.text.extraction import extract as extract
    from nlptools.text.tokenizer import load as tokenizer
    from nlptools.tokenization import build_vocab as build_vocab
    from nlptools.tokenization import tokenize as tokenize
    from nlptools.training import train_lm as train_lm
    from nlptools.translation import Translator as Translator
    from nlptools.vectors.alignment import align as align_vectors
    from nlptools.vectors.evaluation import evaluate as evaluate_vectors
    from nlptools.vectors.formats import load as load_vectors

_WHERE = {
    "LanguageModel": "nlptools.language_model:LanguageModel",
    "Predictor": "nlptools.prediction:Predictor",
    "TextEmbedder": "nlptools.embedders.text_embedder:TextEmbedder",
    "Translator": "nlptools.translation:Translator",
    "align_vectors": "nlptools.vectors.alignment:align",
    "bleu": "nlptools.metrics.corpus:bleu",
    "build_vocab": "nlptools.tokenization:build_vocab",
    "chrf": "nlptools.metrics.corpus:chrf",
    "describe": "nlptools.description:describe",
    "evaluate": "nlptools.metrics.evaluation:evaluate",
    "evaluate_vectors": "nlptools.vectors.evaluation:evaluate",
    "export_onnx": "nlptools.onnx_export:export",
    "extract": "nlptools.text.extraction:extract",
    "finetune": "nlptools.finetuning.job:finetune",
    "load": "nlptools.loading:load",
    "load_vectors": "nlptools.vectors.formats:load",
    "phrases": "nlptools.sequences.corpus:phrases",
    "project": "nlptools.projection.mapping:project",
    "ter": "nlptools.metrics.corpus:ter",
    "tokenize": "nlptools.tokenization:tokenize",
    "tokenizer": "nlptools.text.tokenizer:load",
    "train_lm": "nlptools.training:train_lm",
    "train_seq2seq": "nlptools.seq2seq_training:train_seq2seq",
    "train_vectors": "nlptools.embeddings.training:train_vectors",
    "walks": "nlptools.sequences.corpus:walks",
}

__all__ = [
    "LanguageModel",
    "Predictor",
    "TextEmbedder",
    "Translator",
    "__version__",
    "align_vectors",
    "bleu",
    "build_vocab",
    "chrf",
    "describe",
    "evaluate",
    "evaluate_vectors",
    "export_onnx",
    "extract",
    "finetune",
    "load",
    "load_vectors",
    "phrases",
    "project",
    "ter",
    "tokenize",
    "tokenizer",
    "train_lm",
    "train_seq2seq",
    "train_vectors",
    "walks",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'nlptools' has no attribute {name!r}")
    from importlib import import_module

    module, attribute = _WHERE[name].split(":")
    return getattr(import_module(module), attribute)
