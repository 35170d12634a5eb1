"""How texts become rows, of any model with heads of tasks."""

from __future__ import annotations

from nlptools.batches.features import Encoding
from nlptools.batches.images import ImageEncoding
from nlptools.batches.spelled_words import WordEncoding
from nlptools.batches.text_rows import TextEncoding
from nlptools.batches.weighted_tokens import NumberEncoding

RowEncoding = Encoding | TextEncoding | NumberEncoding | ImageEncoding | WordEncoding
