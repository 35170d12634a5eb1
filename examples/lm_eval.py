#!/usr/bin/env python3
"""Evaluate models with lm-evaluation-harness (pip install lm-eval), whose options it takes:

    examples/lm_eval.py run --model nlptools --model_args path=gpt2,precision=fp32 --tasks hellaswag,wikitext

Model arguments are `path` (what `nlptools generate` takes), `precision`, `threads` and `batch_tokens`. Values are those of the
backend `hf` for the same directory, and do not depend on the batch. Models of train-lm, whose texts begin with a start token, get
one. Also a module: importing it registers the model.
"""
# ruff: noqa: E402

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# this file has the name of the package
sys.path[:] = [place for place in sys.path if Path(place or ".").resolve() != Path(__file__).resolve().parent]

from lm_eval.api.model import LM
from lm_eval.api.registry import register_model

import nlptools
from nlptools.configs.generation import Generate
from nlptools.configs.scoring import Score
from nlptools.text.chat_templates import chat_template

LONGEST = 256  # tokens of an answer, where the task sets no limit
LIMITS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")
SAMPLING = {"top_k", "top_p", "min_p", "repetition_penalty"}


@register_model("nlptools")
class Nlptools(LM):
    """A model directory as lm-evaluation-harness sees it: strings in, log-probabilities in nats and strings out."""

    def __init__(
        self,
        path: str,
        precision: str = "auto",
        threads: int = 0,
        batch_tokens: int = 4096,
        device: str | None = None,
        **_: Any,
    ) -> None:
        super().__init__()
        self.path, self.batch_tokens = path, int(batch_tokens)
        device = "auto" if device in (None, "cuda", "cuda:0") else device  # its default, even without a GPU
        where = {"device": device, "precision": precision, "threads": int(threads)}
        self.model = nlptools.load(path, settings=Generate(), **where)

    def loglikelihood(self, requests: Sequence[Any], **_: Any) -> list[tuple[float, bool]]:
        """The log-probability of each continuation given its context, and whether greedy decoding writes it."""
        scores = self.model.likelihoods([request.args for request in requests], batch_tokens=self.batch_tokens)
        return [(score.log_probability, score.greedy) for score in scores]

    def loglikelihood_rolling(self, requests: Sequence[Any], **_: Any) -> list[float]:
        """The log-probability of each text, in windows that each begin with the last token of the one before."""
        settings = Score(eos=False, batch_tokens=self.batch_tokens)
        return [score.logprob for score in self.model.score((request.args[0] for request in requests), settings)]

    def generate_until(self, requests: Sequence[Any], **_: Any) -> list[str]:
        """The continuation of each context, up to one of the texts that end it."""
        groups: dict[Generate, list[int]] = {}
        for number, request in enumerate(requests):
            groups.setdefault(generation(request.args[1]), []).append(number)
        answers = [""] * len(requests)
        for settings, numbers in groups.items():
            prompts = [requests[number].args[0] for number in numbers]
            for number, rows in zip(numbers, self.model.generate(prompts, settings), strict=True):
                answers[number] = rows[0].text
        return answers

    @property
    def tokenizer_name(self) -> str:
        """Part of the names of cached answers."""
        return self.path.replace("/", "__")

    def chat_template(self, chat_template: bool | str = False) -> str:
        """The name of the chat template, for its records."""
        return self.path if chat_template else ""

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """The text of a conversation, by the chat template of the directory."""
        return chat_template(self.path)(chat_history, add_generation_prompt)


def generation(arguments: Mapping[str, Any]) -> Generate:
    """The settings for the generation arguments of a task. Raises ValueError for arguments that are not known."""
    given = dict(arguments)
    until = given.pop("until", None) or ()
    stop = tuple(text for text in ([until] if isinstance(until, str) else until) if text)
    limits = [given.pop(name) for name in LIMITS if name in given]
    temperature = given.pop("temperature", None)
    if not given.pop("do_sample", temperature):
        temperature = 0.0
    if unknown := given.keys() - SAMPLING:
        raise ValueError(f"unknown generation arguments: {', '.join(sorted(unknown))}")
    return Generate(
        max_new_tokens=int(next(iter(limits), LONGEST)),
        stop=stop,
        temperature=1.0 if temperature is None else float(temperature),
        **given,
    )


if __name__ == "__main__":
    from lm_eval.__main__ import cli_evaluate

    cli_evaluate()
