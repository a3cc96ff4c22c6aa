"""Scans: every form that a graph spells them in, along contiguous and other axes."""

from __future__ import annotations

import pytest
import torch
from small_programs import check, compiled, rms, run
from template_cases import TemplateCase, cases

draw = torch.randn
SHORT, PLANES = draw(5, 7, 37), draw(3, 19, 70)
MASK = torch.rand(5, 7, 37) > 0.4
COLUMN = draw(7, 1)


def exclusive_after(x, dim):
    zeros = torch.zeros_like(x.select(dim, 0).unsqueeze(dim))
    return torch.cat((zeros, torch.cumsum(x.narrow(dim, 0, x.size(dim) - 1), dim)), dim)


def exclusive_before(x, dim):
    return torch.cumsum(torch.cat((torch.zeros_like(x.select(dim, 0).unsqueeze(dim)), x), dim)[:-1], dim)


SCANS = {
    "last": (lambda x: x.cumsum(-1), SHORT), "middle": (lambda x: x.cumsum(1), PLANES),
    "first": (lambda x: x.cumsum(0), PLANES), "whole_registers": (lambda x: x.cumsum(1), draw(4, 64)),
    "few": (lambda x: x.cumsum(1), draw(4, 3)), "narrow_inside": (lambda x: x.cumsum(0), draw(50, 3)),
    "two_blocks": (lambda x: x.cumsum(0), draw(9, 301)), "vector": (lambda x: x.cumsum(0), draw(1001)),
    "product": (lambda x: x.cumprod(-1), SHORT + 1), "product_middle": (lambda x: x.cumprod(1), PLANES),
    "reverse": (lambda x: x.flip(2).cumsum(2).flip(2), SHORT),
    "reverse_middle": (lambda x: torch.flip(torch.cumsum(torch.flip(x, [1]), 1), [1]), PLANES),
    "reverse_product": (lambda x: x.flip(-1).cumprod(-1).flip(-1), SHORT),
    "reverse_whole": (lambda x: x.flip(1).cumsum(1).flip(1), draw(4, 64)),
    "masked": (lambda x, m: torch.cumsum(x * m, 2), SHORT, MASK),
    "masked_middle": (lambda x, m: torch.cumsum(x * m, 1), SHORT, MASK),
    "exclusive": (lambda x: exclusive_after(x, 2), SHORT), "exclusive_middle": (lambda x: exclusive_after(x, 1), PLANES),
    "exclusive_cut": (lambda x: exclusive_before(x, 2), SHORT),
    "exclusive_cut_middle": (lambda x: exclusive_before(x, 1), PLANES),
    "exclusive_product": (lambda x: torch.cat((torch.ones_like(x[:, :1]), x[:, :-1].cumprod(1)), 1), SHORT),
    "between": (lambda x, w: ((x * 2 + w).exp().cumsum(2) * 0.5 + w).relu(), SHORT, COLUMN),
    "between_reverse": (lambda x: (torch.sigmoid(x).flip(2).cumsum(2).flip(2) * x).tanh(), SHORT),
    "transposed": (lambda x: x.transpose(1, 2).cumsum(2), SHORT),
    "infinite": (lambda x: x.cumsum(1), torch.where(draw(20, 40) > 2, torch.inf, draw(20, 40))),
    "nan": (lambda x: x.cumprod(1), torch.where(draw(20, 40) > 2, torch.nan, draw(20, 40))),
}  # fmt: skip
LONG = draw(600_001)
HUGE = draw(64, 40) * 1e30
HUGE[torch.arange(64), torch.arange(64) % 9] = 0.0
"""Each row meets its zero before a product of doubles overflows: from there on inf * 0 depends on the order."""


@pytest.fixture(scope="module")
def scans(tmp_path_factory):
    shared = {
        "shared": (lambda x: x.cumsum(0), LONG), "shared_reverse": (lambda x: x.flip(0).cumsum(0).flip(0), LONG),
        "shared_exclusive": (lambda x: exclusive_after(x, 0), LONG), "huge": (lambda x: x.cumprod(1), HUGE),
    }  # fmt: skip
    return compiled(cases("scan", {**SCANS, **shared}), tmp_path_factory.mktemp("scans"))


@pytest.mark.parametrize("name", SCANS)
def test_a_scan_is_as_accurate_as_eager(scans, name):
    case, library = scans[f"scan_{name}"]
    check(case, library)


def test_a_product_stays_zero_whatever_follows(scans):
    case, library = scans["scan_huge"]
    torch.testing.assert_close(run(case, library)[0][0], case.model(HUGE), rtol=1e-6, atol=0)


@pytest.mark.parametrize("name", ["shared", "shared_reverse", "shared_exclusive"])
@pytest.mark.parametrize("threads", [1, 3])
def test_a_long_row_is_shared_among_threads(scans, name, threads):
    case, library = scans[f"scan_{name}"]
    case.threads = threads
    check(case, library)
    assert rms(run(case, library)[0][0]) > 1


def test_flips_shifts_and_neighbours_leave_nothing_beside_the_kernel(scans):
    for name in ("reverse", "masked", "between", "between_reverse", "exclusive_cut_middle"):
        assert set(scans[f"scan_{name}"][0].left) <= {"aten.slice.Tensor"}, name


@pytest.mark.parametrize(
    ("function", "kept"),
    [
        (lambda x: x.flip(1).cumsum(0), "aten.flip.default"),
        (lambda x: x.cumsum(1).flip(0), "aten.flip.default"),
        (lambda x: torch.cat((torch.ones_like(x[:, :1]), x.cumsum(1)), 1), "aten.cat.default"),
    ],
)
def test_what_only_looks_like_a_scan_from_the_other_end_stays(function, kept):
    case = TemplateCase("scan_alike", cases("x", {"y": (function, SHORT[0])})[0].model, [SHORT[0]])
    case.fuse()
    assert kept in case.left
    assert not case.program.kernels[0].body.parameters["reverse"]
    assert not case.program.kernels[0].body.parameters["exclusive"]
