"""Labels of examples: as config.json has them, and as messages list them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TypeVar

from nlptools.errors import BundleError, display, shorten, shown
from nlptools.json_types import JsonObject

T = TypeVar("T")
_SOME = 20  # labels named in a message
_LONGEST = 40  # characters of a label in a message


def id2label(labels: Sequence[str]) -> JsonObject:
    """Labels as config.json has them."""
    return {
        "id2label": {str(i): label for i, label in enumerate(labels)},
        "label2id": {label: i for i, label in enumerate(labels)},
    }


def labels_of(config: JsonObject, count: int) -> tuple[str, ...]:
    """The labels in config.json, or numbers if it has none. Raises BundleError if they are not `count` different ones."""
    named = config.get("id2label")
    if named is None:
        return tuple(map(str, range(count)))
    if not isinstance(named, dict):
        raise BundleError(f"config.json: id2label is {named!r:.80}, expected an object of number: label")
    labels = tuple(str(named[str(i)]) for i in range(count) if str(i) in named)
    if len(labels) != len(named) or len(set(labels)) != count:
        raise BundleError(f"config.json: id2label names {len(named)} labels, the model has {count}")
    return labels


def listed(labels: Sequence[str]) -> str:
    """The first labels, for a message."""
    more = f" and {len(labels) - _SOME:,} more" if len(labels) > _SOME else ""
    return ", ".join(shown(label, _LONGEST) for label in labels[:_SOME]) + more


def listed_counts(counts: Counter[str]) -> str:
    """The most frequent labels and how often they occur, by name: `negative 3,310, positive 3,610`."""
    rows = sorted(counts.most_common(_SOME))
    more = f" and {len(counts) - _SOME:,} more" if len(counts) > _SOME else ""
    return ", ".join(f"{shorten(display(label), _LONGEST)} {count:,}" for label, count in rows) + more


def gold(label: T | None) -> T:
    """The label of an example that was read as labelled."""
    assert label is not None
    return label
