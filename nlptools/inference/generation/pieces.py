"""The tokens of prompts and continuations as pieces of the text, with log-probabilities."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from nlptools.bundle import Bundle
from nlptools.compute.backend import Backend
from nlptools.configs.generation import Generate
from nlptools.inference import scoring
from nlptools.inference.generation.continuation import Continuation
from nlptools.inference.generation.stop_texts import Growth, OnGrowth
from nlptools.inference.generation.token_pieces import Piece, Spelled
from nlptools.inference.line_score import token_name
from nlptools.layers.output import OutputHead
from nlptools.models.contract import LanguageModel
from nlptools.text.token_bytes import keeps_first_space, token_bytes

_CHUNK = 1 << 22  # logits that are computed at a time

# (number of a prompt, number of its continuation, more of its text, the tokens of that with `Generate.logprobs`)
OnText = Callable[[int, int, str, Sequence[Piece]], None]


class PieceSpeller:
    """Makes the pieces of the texts of one model."""

    def __init__(self, loaded: Bundle, model: LanguageModel, backend: Backend) -> None:
        tokenizer, vocab = loaded.tokenizer, loaded.tokenizer.vocab
        assert vocab is not None
        self.tokenizer, self.vocab, self.eos = tokenizer, vocab, loaded.eos
        self.model, self.backend = model, backend

    @cached_property
    def spellings(self) -> list[bytes] | None:
        """See `token_bytes`; a large vocabulary takes some tenths of a second."""
        return token_bytes(self.tokenizer)

    def of_prompts(
        self,
        prompts: Sequence[str | Sequence[int]],
        ids: Sequence[list[int]],
        started: Callable[[list[int]], list[int]],
        settings: Generate,
    ) -> list[list[Piece]]:
        """The pieces of each prompt if the settings echo prompts with log-probabilities; else none.

        Args:
            prompts: texts, or tokens that are given as such.
            ids: the tokens of each.
            started: the tokens that the model reads, never none: perhaps with a start token before them.
        """
        if not (settings.echo and settings.logprobs):
            return [[] for _ in prompts]
        rows = [started(row) for row in ids]
        scores: list[list[list[float]]] = [[] for _ in rows]
        for start in dict.fromkeys(row[0] for row in rows):
            members = [n for n, row in enumerate(rows) if row[0] == start]
            documents, measure = [rows[n][1:] for n in members], _Best(settings.top_logprobs)
            found = scoring.document_scores(self.model, documents, self.backend, start=start, measure=measure)
            for n, values in zip(members, found or (), strict=True):
                scores[n] = values.tolist()
        texts = [
            self._covered(prompt, row) if isinstance(prompt, str) else self._added(row)
            for prompt, row in zip(prompts, ids, strict=True)
        ]
        return [list(self._scored(*each)) for each in zip(ids, texts, scores, strict=True)]

    def _scored(self, ids: Sequence[int], texts: Sequence[str], values: list[list[float]]) -> Iterator[Piece]:
        """The pieces of one prompt; `values` has no row for a first token without context."""
        if len(values) < len(ids):
            yield Piece(texts[0], self._spelled(ids[0]), None)
            ids, texts = ids[1:], texts[1:]
        for id, text, (logprob, *best) in zip(ids, texts, values, strict=True):
            half = len(best) // 2
            top = [(self._spelled(int(other)), value) for value, other in zip(best[:half], best[half:], strict=True)]
            yield Piece(text, self._spelled(id), logprob, top)

    def of_continuation(self, new: Continuation, begin: int, texts: Sequence[str], *, whole: bool) -> list[Piece]:
        """The pieces of a continuation from token number `begin` on, which add `texts` to the text.

        Args:
            whole: whether the continuation goes no further: the end of the text, if it has one, is the last piece.
        """
        rows = list(zip(new.ids[begin : begin + len(texts)], texts, strict=True))
        if whole and new.finish == "eos":
            rows.append((self.eos, ""))
        return [
            Piece(
                text,
                self._spelled(id),
                new.logprobs[n] if n < len(new.logprobs) else None,
                [(self._spelled(other), value) for other, value in new.top[n]] if n < len(new.top) else (),
                n == len(new.ids),
            )
            for n, (id, text) in enumerate(rows, begin)
        ]

    def passing(self, on_text: OnText, settings: Generate, prompts: Sequence[Sequence[Piece]]) -> OnGrowth:
        """What passes texts on as they grow. The pieces of prompts are passed on at once, for each continuation."""
        for number, pieces in enumerate(prompts):
            for sample in range(settings.drawn if pieces else 0):
                on_text(number, sample, "".join(piece.text for piece in pieces), pieces)

        def passed(row: int, new: Continuation, growth: Growth) -> None:
            number, sample = divmod(row, settings.drawn)
            whole, wanted = growth.whole, settings.logprobs
            pieces = self.of_continuation(new, growth.tokens, growth.parts, whole=whole) if wanted else []
            on_text(number, sample, growth.text, pieces)

        return passed

    # -- how tokens are written -----------------------------------------------------------------------------------

    def _spelled(self, id: int) -> Spelled:
        data = self._data(id)
        if not data:  # no text: a special token, or one that only the model has
            name = token_name(self.vocab, id)
            return Spelled(id, name, name.encode("utf-8", "replace"))
        try:
            return Spelled(id, data.decode(), data)
        except UnicodeDecodeError:
            return Spelled(id, Spelled(id, "", data).escaped, data)

    def _data(self, id: int) -> bytes:
        """The bytes that a token adds to a text."""
        if self.spellings is not None:
            return self.spellings[id] if id < len(self.spellings) else b""
        return self.tokenizer.decode([id]).encode("utf-8", "replace") if id < len(self.vocab) else b""

    def _covered(self, text: str, ids: Sequence[int]) -> list[str]:
        """The part of a text that each of its tokens covers; together they are the text."""
        spans = self.tokenizer.offsets(text)
        if len(spans) != len(ids) or not ids:
            return self._added(ids)
        # a space belongs to the token after it, and a character in several tokens to the last of them
        ends = accumulate((min(end, begin) for (_, end), (begin, _) in pairwise(spans)), max)
        return [text[a:b] for a, b in pairwise([0, *ends, len(text)])]

    def _added(self, ids: Sequence[int]) -> list[str]:
        """What each of the tokens that begin a text adds to it."""
        data = [self._data(id) for id in ids]
        first = next((n for n, each in enumerate(data) if each), None)
        if first is not None and not keeps_first_space(self.tokenizer):
            data[first] = data[first].removeprefix(b" ")
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        out = [decoder.decode(each) for each in data]
        return [*out[:-1], out[-1] + decoder.decode(b"", True)] if out else out


class _Best:
    """A `Measure`: the log-probability of the target, the log-probabilities of the `count` likeliest tokens, and these tokens."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __call__(self, head: OutputHead, hidden_ND: Tensor, targets_N: Tensor) -> Tensor:
        count, size = min(self.count, head.vocab_size), max(1, _CHUNK // head.vocab_size)
        parts = []
        for rows, targets in zip(torch.split(hidden_ND, size), torch.split(targets_N, size), strict=True):
            scores = torch.log_softmax(head.logits(rows).float(), -1)
            values, ids = scores.topk(count)
            parts.append(torch.cat([scores.gather(1, targets[:, None]), values, ids.float()], 1))
        return torch.cat(parts)
