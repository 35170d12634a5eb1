"""The conditional random field against all paths of small lattices, one by one."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
import torch

from nlptools.layers.crf import Crf
from nlptools.tasks.tag.decoding import TagTransitions, best_tags, constraints

NAMES = ["O", "B-X", "I-X"]


def drawn(seed, constrained=False, C=3, B=4, T=5):
    generator = torch.Generator().manual_seed(seed)
    crf = Crf(C)
    if constrained:
        crf.restrict(*(torch.from_numpy(part) for part in constraints(NAMES, "iob2")))
    with torch.no_grad():
        for weight in crf.parameters():
            weight.normal_(generator=generator)
    scores = torch.randn(B, T, C, generator=generator)
    lengths = torch.tensor([T, 1, 3, 2])[:B]
    return crf, scores, torch.arange(T) < lengths[:, None]


def paths(crf, scores, length, edges=(True, True)):
    """Each path of one row and its score, in 64 bits; forbidden ones left out."""
    found = {}
    may_begin, may_end, may_follow = (
        np.ones(given.shape) if may is None else may.numpy()
        for may, given in (
            (crf.allowed_begins, crf.begins),
            (crf.allowed_ends, crf.ends),
            (crf.allowed_follows, crf.follows),
        )
    )
    scores, follows, begins, ends = (x.detach().double() for x in (scores, crf.follows, crf.begins, crf.ends))
    for path in product(range(scores.shape[1]), repeat=length):
        if (edges[0] and not may_begin[path[0]]) or (edges[1] and not may_end[path[-1]]):
            continue
        if not all(may_follow[a, b] for a, b in pairwise(path)):
            continue
        total = sum(scores[t, tag] for t, tag in enumerate(path)) + sum(follows[a, b] for a, b in pairwise(path))
        total = total + begins[path[0]] * edges[0] + ends[path[-1]] * edges[1]
        found[path] = float(total)
    return found


@pytest.mark.parametrize("constrained", [False, True])
def test_against_all_paths(constrained):
    crf, scores, mask = drawn(1, constrained)
    values, which = crf.decode(scores, mask)[1], crf.decode(scores, mask)[0]
    for row, length in enumerate(mask.sum(dim=1).tolist()):
        found = paths(crf, scores[row], length)
        total = np.logaddexp.reduce(list(found.values()))
        best = max(found, key=found.get)
        assert which[row].tolist() == [*best, *[0] * (5 - length)]
        assert float(values[row]) == pytest.approx(found[best], abs=1e-5)
        for path, score in list(found.items())[::7]:
            tags = torch.full((4, 5), 2)
            tags[row, :length] = torch.tensor(path)
            mine = crf.log_likelihood(scores, tags, mask)[row].detach()
            assert float(mine) == pytest.approx(score - total, abs=1e-4)


def test_edges_of_rows_inside_a_sentence():
    crf, scores, mask = drawn(2, constrained=True)
    edges = torch.tensor([False, True, False, True]), torch.tensor([True, False, False, True])
    tags = torch.tensor([[2, 2, 0, 1, 2], [1, 0, 0, 0, 0], [2, 0, 1, 0, 0], [1, 2, 0, 0, 0]])
    mine = crf.log_likelihood(scores, tags, mask, edges).detach()
    for row, length in enumerate(mask.sum(dim=1).tolist()):
        found = paths(crf, scores[row], length, (bool(edges[0][row]), bool(edges[1][row])))
        wanted = found[tuple(tags[row, :length].tolist())] - np.logaddexp.reduce(list(found.values()))
        assert float(mine[row]) == pytest.approx(wanted, abs=1e-4)


def test_likelihoods_add_up_to_one():
    crf, scores, mask = drawn(3)
    rows = torch.tensor(list(product(range(3), repeat=3)))
    tags = torch.zeros(len(rows), 5, dtype=torch.int64)
    tags[:, :3] = rows
    mine = crf.log_likelihood(scores[2:3].expand(len(rows), -1, -1), tags, mask[2:3].expand(len(rows), -1))
    assert float(mine.detach().exp().sum()) == pytest.approx(1, abs=1e-5)


def test_the_gradient_is_expected_minus_found():
    # The derivative by a tag's score is whether the path has it, minus the share of the paths that do.
    crf, scores, mask = drawn(4, constrained=True)
    scores.requires_grad_()
    tags = torch.tensor([[1, 2, 2, 0, 0]]).expand(4, -1)
    crf.log_likelihood(scores, tags, mask).sum().backward()
    row, length = 2, 3
    found = paths(crf, scores[row].detach(), length)
    total = np.logaddexp.reduce(list(found.values()))
    for t, tag in product(range(5), range(3)):
        share = sum(np.exp(score - total) for path, score in found.items() if t < length and path[t] == tag)
        wanted = float(t < length and tags[row, t] == tag) - share
        assert float(scores.grad[row, t, tag]) == pytest.approx(wanted, abs=1e-4)
    assert torch.isfinite(crf.follows.grad).all()
    assert float(crf.follows.grad[0, 2]) == 0  # I after O, which is forbidden


def test_padding_and_company_do_not_matter():
    crf, scores, mask = drawn(5, constrained=True)
    tags = torch.tensor([[0, 1, 2, 0, 1]]).expand(4, -1).clone()
    whole = crf.log_likelihood(scores, tags, mask)
    changed, other = scores.clone(), tags.clone()
    changed[~mask], other[~mask] = 99.0, -1
    assert torch.equal(crf.log_likelihood(changed, other, mask), whole)
    assert torch.equal(crf.decode(changed, mask)[0], crf.decode(scores, mask)[0])
    for row, length in enumerate(mask.sum(dim=1).tolist()):
        alone = scores[row : row + 1, :length], mask[row : row + 1, :length]
        torch.testing.assert_close(
            crf.log_likelihood(alone[0], tags[row : row + 1, :length], alone[1]), whole[row : row + 1]
        )
        assert torch.equal(crf.decode(*alone)[0][0], crf.decode(scores, mask)[0][row, :length])


def test_16_bits_are_summed_in_32():
    crf, scores, mask = drawn(6)
    tags = torch.zeros(4, 5, dtype=torch.int64)
    mine = crf.log_likelihood(scores.bfloat16(), tags, mask)
    assert mine.dtype == torch.float32
    assert torch.equal(mine, crf.log_likelihood(scores.bfloat16().float(), tags, mask))


def test_the_numpy_half_decodes_the_same():
    crf, scores, mask = drawn(7, constrained=True)
    weights = TagTransitions(*(weight.detach().numpy() for weight in crf.parameters()))
    lengths = mask.sum(dim=1).numpy()
    found = best_tags(scores[mask].numpy(), np.append(0, np.cumsum(lengths)), constraints(NAMES, "iob2"), weights)
    assert found.tolist() == crf.decode(scores, mask)[0][mask].tolist()


def test_restricting_a_trained_one() -> None:
    rules = [torch.from_numpy(part) for part in constraints(NAMES, "iob2")]
    first, scores, mask = drawn(5, constrained=True)
    later = Crf(3)
    later.load_state_dict(first.state_dict())
    tags = torch.zeros(mask.shape, dtype=torch.int64)
    assert not torch.equal(later.log_likelihood(scores, tags, mask), first.log_likelihood(scores, tags, mask))
    later.restrict(*rules)
    assert torch.equal(later.log_likelihood(scores, tags, mask), first.log_likelihood(scores, tags, mask))
    with pytest.raises(ValueError, match="follows is"):
        later.restrict(rules[0][:2], *rules[1:])
    with pytest.raises(ValueError, match="begins is"):
        later.restrict(rules[0], rules[1][:2], rules[2])
