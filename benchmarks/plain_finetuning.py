"""The loop over transformers that one writes by hand to fine-tune an encoder, which ours is compared with."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from side_by_side import device

BATCH, BUCKET = 32, 50  # examples of a batch; batches that are sorted by length together
Example = tuple[list[str], Any]  # its texts and its label, or its words and their tags


def examples_of(path: Path, task: str, files: dict[str, str], model: str, count: int) -> tuple[Any, list[Any]]:
    """The task, which has learned the labels, and the first examples of a file, as `finetune` reads them."""
    from nlptools.configs.finetuning import Finetune
    from nlptools.configs.tasks.files import Files
    from nlptools.tasks import task as tasks

    made = tasks.for_training(Finetune(task=task, model=model), Files(**files))
    examples = list(itertools.islice(made.read([str(path)], True, "replace"), count))
    return made.learn(examples), examples


def plain_examples(path: Path, task: str, files: dict[str, str], model: str, count: int = 10**9) -> list[Example]:
    """The same without any of our classes."""
    _, examples = examples_of(path, task, files, model, count)
    return [([*e.words], [*e.tags]) if task == "tag" else ([*e.texts], e.label) for e in examples]


class PlainLoop:
    """AdamW, a linear schedule, gradients clipped.

    Args:
        fast: in bf16 and with batches of like length; else in fp32 with random batches.
    """

    def __init__(self, examples: list[Example], model: str, fast: bool, epochs: float = 1e3, lr: float = 5e-5) -> None:
        import torch
        import transformers

        self.fast, self.tags = fast, isinstance(examples[0][1], list)
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(model)
        self.labels = sorted({each for _, label in examples for each in (label if self.tags else [label])})
        self.rows = [self.encoded(*example) for example in examples]
        kind: Any = transformers.AutoModelForSequenceClassification
        kind = transformers.AutoModelForTokenClassification if self.tags else kind
        self.model = kind.from_pretrained(model, num_labels=len(self.labels)).to(device()).train()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=lr, weight_decay=0.01)
        steps = int(epochs * -(-len(examples) // BATCH))
        self.schedule = transformers.get_linear_schedule_with_warmup(self.optimizer, steps // 10, steps)

    def encoded(self, texts: list[str], label: Any) -> dict[str, Any]:
        """What the model takes of an example; of words the first piece has the label."""
        if not self.tags:
            return {**self.tokenizer(*texts, truncation=True), "labels": self.labels.index(label)}
        row = self.tokenizer(texts, is_split_into_words=True, truncation=True)
        words, wanted = row.word_ids(), [-100] * len(row.word_ids())
        for i, word in enumerate(words):
            if word is not None and word not in words[:i]:
                wanted[i] = self.labels.index(label[word]) if label[word] in self.labels else -100
        return {**row, "labels": wanted}

    def epoch(self) -> int:
        """Train once on all examples; returns how many there are."""
        import torch

        for batch in self.batches():
            given, longest = self.padded(batch), max(len(row["input_ids"]) for row in batch)
            wanted = [row["labels"] for row in batch]
            if self.tags:
                wanted = [row + [-100] * (longest - len(row)) for row in wanted]
            with torch.autocast(device(), torch.bfloat16, enabled=self.fast):
                loss = self.model(**given, labels=torch.tensor(wanted, device=device())).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.schedule.step()
            self.optimizer.zero_grad()
        return len(self.rows)

    def batches(self) -> Iterator[list[dict[str, Any]]]:
        """The rows in random order, cut into batches."""
        order = random.sample(range(len(self.rows)), len(self.rows))
        if self.fast:
            size = BATCH * BUCKET
            chunks = [order[start : start + size] for start in range(0, len(order), size)]
            order = [i for chunk in chunks for i in sorted(chunk, key=lambda i: len(self.rows[i]["input_ids"]))]
        cut = [order[start : start + BATCH] for start in range(0, len(order), BATCH)]
        random.shuffle(cut)
        return ([self.rows[i] for i in some] for some in cut)

    def padded(self, batch: list[dict[str, Any]]) -> Any:
        """The arrays of a batch."""
        rows = [{name: ids for name, ids in row.items() if name != "labels"} for row in batch]
        return self.tokenizer.pad(rows, return_tensors="pt").to(device())

    def predicted(self, examples: list[Example]) -> list[Any]:
        """The labels, or the tags of the words, of other examples; a word that was cut off has the first tag."""
        import torch

        self.model.eval()
        rows, out = [self.encoded(*example) for example in examples], []
        with torch.inference_mode():
            for start in range(0, len(rows), BATCH):
                best = self.model(**self.padded(rows[start : start + BATCH])).logits.argmax(-1).tolist()
                out += best
        if not self.tags:
            return [self.labels[i] for i in out]
        for i, (texts, _) in enumerate(examples):
            words = self.tokenizer(texts, is_split_into_words=True, truncation=True).word_ids()
            firsts = {word: place for place, word in reversed([*enumerate(words)]) if word is not None}
            out[i] = [self.labels[out[i][firsts[word]] if word in firsts else 0] for word in range(len(texts))]
        return out
