"""What hidden families change, and what they leave alone."""

import pytest
import torch

from kernelskill.evaluation import families, replies
from kernelskill.evaluation.process import WorkerFailure


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def test_masks_normalised_rows_and_integers_are_left_alone():
    leaves = [
        torch.randn(8, 16),
        torch.arange(5),
        torch.rand(8, 16) > 0.5,
        (torch.rand(8, 16) > 0.5).float(),
        torch.softmax(torch.randn(8, 16), 1),
        torch.nn.functional.normalize(torch.randn(8, 16)),
        torch.zeros(4, 4).masked_fill(torch.ones(4, 4).triu(1).bool(), -torch.inf),
        torch.empty(0, 3),
    ]
    assert families.changeable(leaves) == (0,)


@pytest.mark.parametrize("numel", [0, 1, 100, 101, 250, 1000])
def test_a_mask_is_one_to_its_last_element(monkeypatch, numel):
    monkeypatch.setattr(families, "LOOK", 100)
    mask = torch.randint(0, 2, (numel,), generator=rng()).float()
    assert families.is_mask(mask)
    for place in {0, 99, 100, 249, numel - 1} & set(range(numel)):
        spoilt = mask.clone()
        spoilt[place] = 0.5
        assert not families.is_mask(spoilt)


@pytest.mark.parametrize("name", families.FAMILIES)
def test_a_family_changes_values_and_nothing_else(name):
    leaf = torch.rand(64, 32)
    kept = leaf.clone()
    families.apply(name, [leaf], (0,), rng())
    assert not torch.equal(leaf, kept)
    assert leaf.shape == kept.shape
    assert leaf.isfinite().all()


def test_signs_come_out_about_even_and_scales_are_tenfold():
    leaf = torch.rand(64, 64)
    families.apply("signed", [leaf], (0,), rng())
    assert 0.4 < (leaf < 0).float().mean() < 0.6
    large, small = torch.ones(8), torch.ones(8)
    families.apply("scaled-up", [large], (0,), rng())
    families.apply("scaled-down", [small], (0,), rng())
    assert large[0] == 10
    assert small[0] == pytest.approx(0.1)


def test_expanded_inputs_stay_expanded():
    base = torch.rand(1, 16)
    families.apply("shifted", [base.expand(8, 16)], (0,), rng())
    assert base.min() >= 2


def test_perturbing_moves_weights_but_not_masks_or_integers():
    mask = torch.zeros(4, 4).masked_fill(torch.ones(4, 4).triu(1).bool(), -torch.inf)
    ones, zeros, variance = torch.ones(16), torch.zeros(16), torch.rand(16)
    state = [ones, zeros, variance, mask, torch.tensor(3), torch.eye(4), torch.empty(0)]
    moved = families.perturbed(state, rng())
    assert (moved[0] != 1).all()
    assert (moved[1] != 0).any()
    assert (moved[2] >= 0).all()
    assert all(torch.equal(a, b) for a, b in zip(moved[3:], state[3:], strict=True))
    assert all(a.dtype == b.dtype for a, b in zip(moved, state, strict=True))


def test_infinities_in_the_state_stay_where_they_are():
    weight = torch.randn(16)
    weight[3] = -torch.inf
    moved = families.perturbed([weight], rng())[0]
    assert moved[3] == -torch.inf
    assert moved.isfinite().sum() == 15


@pytest.mark.parametrize(
    "times", [None, "1", [1.0], [1.0, float("nan")], [1.0, -1.0], [1.0, True], [1.0, 10**400]]
)
def test_forged_times_are_refused(times):
    with pytest.raises(WorkerFailure):
        replies.times_ms({"times_us": times}, 2)


def test_honest_replies_pass():
    assert replies.times_ms({"times_us": [1000.0, 500]}, 2) == [1.0, 0.5]
    assert replies.flags({"flags": ["a"]}) == ("a",)


def test_texts_of_workers_can_be_written_to_any_file():
    assert replies.text("a\ud800b" * 10_000, 100).encode()
    assert replies.flags({"flags": ["\ud800"] * 1000})[0].encode()
    assert replies.flags({"flags": 3}) == ()
    assert replies.names({"missing": None}, "missing") == ()


def test_zeros_that_are_structure_stay_zeros():
    triangle = torch.rand(64, 64).tril() + torch.eye(64)
    for name in ("shifted", "integers", "scaled-up", "signed", "rare", "single"):
        leaf = triangle.clone()
        families.apply(name, [leaf], (0,), rng())
        assert torch.equal(leaf != 0, triangle != 0), name


def test_symmetry_stays():
    half = torch.randn(32, 32)
    for name in ("shifted", "signed", "heavy-tail", "rare", "single"):
        leaf = half + half.T
        families.apply(name, [leaf], (0,), rng())
        assert torch.equal(leaf, leaf.T), name
        assert not torch.equal(leaf, half + half.T)


def test_rare_changes_few_elements_and_at_least_one():
    leaf = torch.rand(64, 1024)
    kept = leaf.clone()
    families.apply("rare", [leaf], (0,), rng())
    assert 1 <= (leaf != kept).sum() < 64
    small = torch.rand(4)
    families.apply("rare", [small], (0,), rng())
    assert (small < 0).any()


def test_single_changes_one_element_that_no_sample_holds():
    guard, seen = slice(None, None, 511), 0
    for seed in range(64):
        leaf = torch.rand(1024, 1024)
        kept = leaf.clone()
        families.apply("single", [leaf], (0,), torch.Generator().manual_seed(seed))
        changed = (leaf != kept).nonzero()
        assert len(changed) == 1
        assert leaf[tuple(changed[0])] < -1, "neither a zero nor a small one"
        seen += int((leaf.reshape(-1)[guard] < 0).any())
    assert seen <= 2


def test_single_finds_what_is_no_zero_in_a_sparse_input():
    leaf = torch.zeros(64, 64)
    leaf[:4] = torch.rand(4, 64) + 0.1
    families.apply("single", [leaf], (0,), rng())
    assert (leaf < 0).sum() == 1
    for seed in range(8):
        symmetric = torch.ones(32, 32)
        families.apply("single", [symmetric], (0,), rng(seed))
        assert symmetric.lt(0).sum() in (1, 2), "on either side of the diagonal"


def test_integers_need_twelve_bits_and_their_sums_are_exact():
    a, b = torch.randn(64, 512), torch.randn(512, 64)
    families.apply("integers", [a, b], (0, 1), rng())
    assert torch.equal(a, a.round())
    assert set(b.unique().tolist()) == {-1.0, 0.0, 1.0}
    assert torch.equal((a @ b).double(), a.double() @ b.double())
    assert not torch.equal((a.bfloat16().float() @ b).double(), a.double() @ b.double())
    assert not torch.equal(a.half().float(), a)


def test_only_leaves_that_never_change_are_permuted():
    mask, indices = torch.ones(8, 8).tril().bool(), torch.arange(12)
    first = [torch.rand(4), mask.clone(), indices.clone(), torch.ones(5)]
    second = [torch.rand(4), mask, indices, torch.ones(5)]
    places = families.fixed(first, second)
    assert places == (1, 2)
    families.apply("permuted", first, places, rng())
    assert first[1].sum() == mask.sum()
    assert sorted(first[2].tolist()) == list(range(12))
    assert not torch.equal(first[1], mask)


def test_touched_parameters_are_few_so_that_no_sample_of_them_tells():
    state = [torch.randn(64, 64), torch.randn(3), torch.arange(4)]
    moved = families.touched(state, rng())
    assert (moved[0] != state[0]).sum() == 64 * 64 // families.TOUCHED_OF
    assert (moved[1] != state[1]).sum() == 1
    assert torch.equal(moved[2], state[2])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_overflowing_inputs_take_exponentials_past_both_ends(dtype):
    leaf = torch.rand(64, 32, dtype=dtype)
    families.apply("overflowing", [leaf], (0,), rng())
    wide = leaf if dtype is torch.float64 else leaf.float()
    assert wide.isfinite().all()
    assert set(wide.exp().unique().tolist()) == {0.0, torch.inf}
    assert 0.4 < (wide > 0).float().mean() < 0.6


def test_overflowing_keeps_zeros_that_are_structure():
    leaf = torch.rand(64, 64).tril() + torch.eye(64)
    kept = leaf.clone()
    families.apply("overflowing", [leaf], (0,), rng())
    assert torch.equal(leaf != 0, kept != 0)


def test_overflowing_changes_one_input_a_call_and_each_in_turn():
    assert [families.in_call("overflowing", (2, 5), number) for number in range(3)] == [(2,), (5,), (2,)]
    assert families.in_call("overflowing", (), 3) == ()
    assert families.in_call("signed", (2, 5), 1) == (2, 5)
