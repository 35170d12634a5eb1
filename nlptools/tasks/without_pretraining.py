"""The modules of the models that `finetune --scratch` and --features train, by family: their rows, and the logits of those."""

from __future__ import annotations

from typing import Any

from nlptools.models import registry
from nlptools.tasks import classifiers, linear, pictures, readers, taggers

FAMILIES: dict[str | None, Any] = {
    registry.TEXT_CLASSIFIER: classifiers,
    registry.LOGISTIC: linear,
    registry.IMAGE_CLASSIFIER: pictures,
    registry.WORD_TAGGER: taggers,
    registry.WORD_READER: readers,
}
