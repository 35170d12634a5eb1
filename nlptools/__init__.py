"""The coreutils of neural NLP, as functions.

The public names are listed in `__all__` and resolve on first use, so that `import nlptools` costs nothing and a program
that only wants BLEU never loads PyTorch.

`load` opens model directories: a language model (`LanguageModel`), an encoder-decoder (`Translator`), a fine-tuned model
(`Predictor`), an encoder or a sentence-transformers directory (`TextEmbedder`):

    nlptools.load("all-MiniLM-L6-v2").embed(["a sentence", "another"])  # an array of shape (2, 384)
    for lines in nlptools.load("questions").lines(["test.txt"]):  # the output lines of the command `predict`
        ...
"""

from __future__ import annotations

from nlptools.version import __version__

TYPE_CHECKING = False  # as in `typing`; importing it would take longer than all of this file

if TYPE_CHECKING:
    from typing import Any

    from nlptools.converters.onnx_export import export as export_onnx
    from nlptools.inference.description import describe as describe
    from nlptools.inference.embedding.text_embedder import TextEmbedder as TextEmbedder
    from nlptools.inference.language_model import TextLanguageModel as LanguageModel
    from nlptools.inference.loading import load as load
    from nlptools.inference.prediction import Predictor as Predictor
    from nlptools.inference.translation import Translator as Translator
    from nlptools.metrics.evaluation import evaluate as evaluate
    from nlptools.metrics.translation.corpus import bleu as bleu
    from nlptools.metrics.translation.corpus import chrf as chrf
    from nlptools.metrics.translation.corpus import ter as ter
    from nlptools.sequences.in_memory import phrases as phrases
    from nlptools.sequences.in_memory import walks as walks
    from nlptools.text.extraction import extract as extract
    from nlptools.text.tokenization import tokenize as tokenize
    from nlptools.text.tokenizer import load as tokenizer
    from nlptools.text.vocabulary_building import build_vocab as build_vocab
    from nlptools.training.finetuning.finetune import finetune as finetune
    from nlptools.training.language_model import train_lm as train_lm
    from nlptools.training.ngrams.train import train_ngrams as train_ngrams
    from nlptools.training.translation import train_seq2seq as train_seq2seq
    from nlptools.training.word_vectors.train import train_vectors as train_vectors
    from nlptools.vectors.alignment import align as align_vectors
    from nlptools.vectors.evaluation import evaluate as evaluate_vectors
    from nlptools.vectors.files.formats import load as load_vectors
    from nlptools.vectors.maps.mapping import project as project

_WHERE = {
    "LanguageModel": "nlptools.inference.language_model:TextLanguageModel",
    "Predictor": "nlptools.inference.prediction:Predictor",
    "TextEmbedder": "nlptools.inference.embedding.text_embedder:TextEmbedder",
    "Translator": "nlptools.inference.translation:Translator",
    "align_vectors": "nlptools.vectors.alignment:align",
    "bleu": "nlptools.metrics.translation.corpus:bleu",
    "build_vocab": "nlptools.text.vocabulary_building:build_vocab",
    "chrf": "nlptools.metrics.translation.corpus:chrf",
    "describe": "nlptools.inference.description:describe",
    "evaluate": "nlptools.metrics.evaluation:evaluate",
    "evaluate_vectors": "nlptools.vectors.evaluation:evaluate",
    "export_onnx": "nlptools.converters.onnx_export:export",
    "extract": "nlptools.text.extraction:extract",
    "finetune": "nlptools.training.finetuning.finetune:finetune",
    "load": "nlptools.inference.loading:load",
    "load_vectors": "nlptools.vectors.files.formats:load",
    "phrases": "nlptools.sequences.in_memory:phrases",
    "project": "nlptools.vectors.maps.mapping:project",
    "ter": "nlptools.metrics.translation.corpus:ter",
    "tokenize": "nlptools.text.tokenization:tokenize",
    "tokenizer": "nlptools.text.tokenizer:load",
    "train_lm": "nlptools.training.language_model:train_lm",
    "train_ngrams": "nlptools.training.ngrams.train:train_ngrams",
    "train_seq2seq": "nlptools.training.translation:train_seq2seq",
    "train_vectors": "nlptools.training.word_vectors.train:train_vectors",
    "walks": "nlptools.sequences.in_memory:walks",
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
    "train_ngrams",
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
