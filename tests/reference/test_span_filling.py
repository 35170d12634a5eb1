"""fill with T5 and mT5 against the beam search and the probabilities of transformers."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import transformers

from nlptools.configs.fill import Fill
from nlptools.errors import BundleError, DataError, UsageError
from nlptools.files.streams import LineBlock
from nlptools.inference import loading, uses
from nlptools.inference.span_filling import MOST_TOKENS
from tests.reference import t5_folders
from tests.reference.t5_folders import SENTINELS, WORDS

pytestmark = [pytest.mark.reference, pytest.mark.filterwarnings("ignore")]

LINES = [
    f"{WORDS[0]} [MASK] {WORDS[1]} {WORDS[2]}",
    f"{WORDS[3]} {WORDS[4]} [MASK] {WORDS[5]} [MASK]",
    f"[MASK] {WORDS[6]}[MASK] {WORDS[7]} [MASK].",
]


class _Ends(transformers.LogitsProcessor):  # type: ignore[misc]
    """The end of a span: the next sentinel or the end of the output, after one token at least and at most `MOST_TOKENS`."""

    def __init__(self, begins: int, end: int, never: list[int]) -> None:
        self.begins, self.end, self.never = begins, end, never

    def __call__(self, ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        scores = scores.clone()
        together = scores[:, [self.end, 1]].logsumexp(1)
        scores[:, [*self.never, 1]] = -torch.inf
        length = ids.shape[1] - self.begins
        if length == MOST_TOKENS:
            scores[:] = -torch.inf
        scores[:, self.end] = -torch.inf if length == 0 else together
        return scores


@pytest.mark.sampled(1)
@pytest.mark.parametrize("family", ["T5", "MT5"])
def test_fillers_are_those_of_their_beam_search(family: str, tmp_path: Path) -> None:
    theirs = t5_folders.saved(tmp_path / "m", f"{family}ForConditionalGeneration")
    filler = loading.load(tmp_path / "m", precision="fp32", threads=1, use=uses.FILL, settings=Fill(top=4))
    ours = filler.fill(LineBlock("lines", 1, [*LINES, ""]))
    assert [len(masks) for masks in ours] == [1, 2, 3, 0]
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "m")
    vocabulary = tokenizer.get_vocab()
    mark = "▁<extra_id_{}>" if family == "MT5" else "<extra_id_{}>"
    sentinels = [vocabulary[mark.format(number)] for number in range(SENTINELS)]
    longest = 0
    for line, masks in zip(LINES, ours[: len(LINES)], strict=True):
        first, *rest = line.split("[MASK]")
        source = tokenizer(first, add_special_tokens=False).input_ids
        for number, part in enumerate(rest):
            source += [sentinels[number], *tokenizer(part.strip(), add_special_tokens=False).input_ids]
        begun = [0]
        for number, fillers in enumerate(masks):
            begun.append(sentinels[number])
            end = sentinels[number + 1]
            never = [0, 2, *(each for each in sentinels if each != end), *range(len(tokenizer), 110)]
            with torch.inference_mode():
                found = theirs.generate(
                    torch.tensor([[*source, 1]]), decoder_input_ids=torch.tensor([begun]), num_beams=8,
                    num_return_sequences=8, length_penalty=0.0, do_sample=False, max_new_tokens=MOST_TOKENS + 1,
                    eos_token_id=end, logits_processor=[_Ends(len(begun), end, never)], renormalize_logits=False,
                    output_scores=True, return_dict_in_generate=True,
                )  # fmt: skip
            spans = [[id for id in row[len(begun) :].tolist() if id not in (0, end)] for row in found.sequences]
            expected = list(zip(spans, found.sequences_scores.exp().tolist(), strict=True))[: len(fillers)]
            assert [each.probability for each in fillers] == pytest.approx([p for _, p in expected], rel=1e-3)
            plain = [tokenizer.decode(ids).strip() for ids, _ in expected]
            assert [each.text.removeprefix("##") for each in fillers] == plain
            begun += spans[0]
            longest = max(longest, len(spans[0]))
    assert longest > 1


def test_choices_have_the_probabilities_of_their_logits(tmp_path: Path) -> None:
    theirs = t5_folders.saved(tmp_path / "m", "T5ForConditionalGeneration")
    choices = (WORDS[8], f"{WORDS[9]} {WORDS[10]}", WORDS[11])
    settings = Fill(choices=choices, mask="___")
    filler = loading.load(tmp_path / "m", precision="fp32", threads=1, use=uses.FILL, settings=settings)
    line = f"{WORDS[0]} ___ {WORDS[1]} ___"
    (masks,) = filler.fill(LineBlock("lines", 1, [line]))
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "m")
    source = tokenizer(line.replace("___", "<extra_id_0>", 1).replace("___", "<extra_id_1>"), return_tensors="pt")
    begun = [0]
    for number, fillers in enumerate(masks):
        begun.append(tokenizer.convert_tokens_to_ids(f"<extra_id_{number}>"))
        end = tokenizer.convert_tokens_to_ids(f"<extra_id_{number + 1}>")
        expected = {}
        for choice in choices:
            ids = tokenizer(choice, add_special_tokens=False).input_ids
            with torch.inference_mode():
                logits = theirs(**source, decoder_input_ids=torch.tensor([[*begun, *ids]])).logits[0]
            p = logits[len(begun) - 1 :].softmax(-1)
            expected[choice] = float(p[range(len(ids)), ids].prod() * (p[-1, end] + p[-1, 1]))
        ranked = sorted(choices, key=lambda choice: -expected[choice])
        assert [each.text for each in fillers] == ranked
        assert [each.probability for each in fillers] == pytest.approx([expected[each] for each in ranked], rel=1e-3)
        begun += tokenizer(ranked[0], add_special_tokens=False).input_ids


def test_what_is_refused_is_named(tmp_path: Path) -> None:
    t5_folders.saved(tmp_path / "plain", "T5ForConditionalGeneration", sentinels=False)
    with pytest.raises(BundleError, match=r"plain: the tokenizer has no sentinel tokens <extra_id_0>"):
        loading.load(tmp_path / "plain", use=uses.FILL, settings=Fill())
    t5_folders.saved(tmp_path / "m", "T5ForConditionalGeneration")
    filler = loading.load(tmp_path / "m", use=uses.FILL, settings=Fill())
    with pytest.raises(DataError, match=rf"x:8: {SENTINELS} gaps, and the model tells {SENTINELS - 1} apart"):
        filler.fill(LineBlock("x", 7, ["", "[MASK] " * SENTINELS]))
    with pytest.raises(DataError, match=r"x:1: no \[MASK\] in the line"):
        filler.fill(LineBlock("x", 1, ["a b"]))
    with pytest.raises(DataError, match=r"x:1: \d+ tokens, and at most 1024 are read"):
        filler.fill(LineBlock("x", 1, ["[MASK]" + " a b" * 900]))
    with pytest.raises(UsageError, match="has no token"):
        loading.load(tmp_path / "m", use=uses.FILL, settings=Fill(choices=("a", " ")))
