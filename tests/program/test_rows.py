"""Normalisations, softmax and losses: whole rows in one kernel."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from small_programs import Case, Computes, check, compiled
from torch import nn
from torch.nn import functional as F

from kernelskill.program.cpp import kernel_function

draw = torch.randn


def normalisations() -> list[Case]:
    held = {
        "layer": (nn.LayerNorm(100), draw(9, 100) * 3 + 5), "layer_odd": (nn.LayerNorm(17), draw(9, 17)),
        "layer_long": (nn.LayerNorm(4097), draw(5, 4097)), "layer_few": (nn.LayerNorm((8, 64, 64)), draw(2, 8, 64, 64)),
        "layer_offset": (nn.LayerNorm((4, 64, 64)), draw(3, 4, 64, 64) + 100),
        "group": (nn.GroupNorm(4, 16), draw(2, 16, 9, 9)), "batch": (nn.BatchNorm2d(16), draw(4, 16, 9, 9) * 2 + 3),
        "batch_flat": (nn.BatchNorm1d(16), draw(64, 16)),
        "batch_plain": (nn.BatchNorm1d(16, affine=False), draw(8, 16, 30)),
        "batch_untracked": (nn.BatchNorm1d(16, track_running_stats=False), draw(8, 16, 30)),
        "instance": (nn.InstanceNorm2d(16), draw(4, 16, 9, 9)), "rms": (nn.RMSNorm(100), draw(40, 100)),
    }  # fmt: skip
    return [
        Case(f"norm_{name}", Computes(lambda m, x: F.relu(m(x)), module), [x])
        for name, (module, x) in held.items()
    ]


def rows() -> list[Case]:
    table = {
        "rms_channels": (lambda x: x / torch.sqrt(x.pow(2).mean(1, keepdim=True) + 1e-5), draw(4, 16, 9, 9)),
        "l1": (lambda x: x / x.abs().sum(1, keepdim=True), draw(40, 100)),
        "l2": (lambda x: x / x.norm(p=2, dim=1, keepdim=True), draw(40, 100)),
        "normalize": (lambda x: F.normalize(x, dim=-1), draw(40, 100)),
        "frobenius": (lambda x: x / torch.norm(x), draw(64, 2000)),
        "standardised": (lambda x: (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-6), draw(40, 100)),
        "softmax_first": (lambda x: F.softmax(x, 0), draw(50, 30)),
        "softmax_middle": (lambda x: F.softmax(x, 1), draw(4, 30, 45)),
        "softmax_odd": (lambda x: F.softmax(x * 2, -1), draw(20, 4097)),
        "softmax_long": (lambda x: F.softmax(x, -1), draw(20, 20001)),
        "softmax_few": (lambda x: F.softmax(x * 2, -1), draw(2, 40000)),
        "softmax_scaled": (lambda q, m: F.softmax(q * 0.125 + m, -1), draw(4, 8, 20, 20), draw(20, 20)),
        "log_softmax": (lambda x: F.log_softmax(x, -1), draw(20, 17)),
        "logsumexp": (lambda x: F.relu(torch.logsumexp(x, 1, keepdim=True)), draw(4, 20, 9, 9)),
        "shifted": (lambda x: F.gelu(x - x.max(1, keepdim=True).values), draw(40, 100)),
    }  # fmt: skip
    return [
        Case(f"row_{name}", Computes(function), list(inputs)) for name, (function, *inputs) in table.items()
    ]


def losses() -> list[Case]:
    target = torch.randint(0, 37, (100,))
    ignored = target.clone()
    ignored[::7] = -100
    share = torch.rand(100, 37).softmax(-1)
    table = {
        "mse": (F.mse_loss, draw(100, 1000), draw(100, 1000)), "l1": (F.l1_loss, draw(100, 100), draw(100, 100)),
        "cross_entropy": (F.cross_entropy, draw(100, 37), target),
        "cross_entropy_ignored": (F.cross_entropy, draw(100, 37), ignored),
        "cross_entropy_shares": (F.cross_entropy, draw(100, 37), share),
        "smooth_l1": (F.smooth_l1_loss, draw(64, 500), draw(64, 500)),
        "huber": (F.huber_loss, draw(64, 500), draw(64, 500)),
        "hinge": (lambda x, y: torch.mean(torch.clamp(1 - x * y, min=0)), draw(64, 500), draw(500).sign()),
        "divergence": (
            lambda x, y: F.kl_div(torch.log(x), y, reduction="batchmean"),
            torch.rand(64, 500) + 0.1, torch.rand(64, 500),
        ),
        "cosine": (lambda x, y: torch.mean(1 - F.cosine_similarity(x, y, dim=1)), draw(64, 500), draw(64, 500)),
        "triplet": (nn.TripletMarginLoss(), draw(64, 500), draw(64, 500), draw(64, 500)),
        "logits": (F.binary_cross_entropy_with_logits, draw(64, 50), torch.rand(64, 50)),
        "distillation": (
            lambda s, t: -(F.softmax(t / 2, -1) * F.log_softmax(s / 2, -1)).sum(-1).mean(), draw(64, 400), draw(64, 400)
        ),
    }  # fmt: skip
    return [
        Case(f"loss_{name}", Computes(function), list(inputs)) for name, (function, *inputs) in table.items()
    ]


def cases() -> list[Case]:
    torch.manual_seed(3)
    found = [*normalisations(), *rows(), *losses()]
    for threads in (1, 3):
        found.append(
            Case(
                f"threads_{threads}", Computes(lambda x: F.softmax(x, -1)), [draw(200, 300)], threads=threads
            )
        )
    layer = {
        "narrow": {"vector_bits": 256},
        "lone": {"accumulators": 1},
        "unrolled": {"unroll": 4, "accumulators": 8},
    }
    for name, schedule in layer.items():
        module = Computes(lambda m, x: m(x), nn.LayerNorm(333))
        found.append(Case(f"schedule_{name}", module, [draw(30, 333)], schedule=schedule))
    for dtype in (torch.bfloat16, torch.float16):
        name = str(dtype).removeprefix("torch.")
        found.append(Case(f"softmax_{name}", Computes(lambda x: F.softmax(x, -1)), [draw(64, 100).to(dtype)]))
        module = Computes(lambda m, x: m(x), nn.LayerNorm(100, dtype=dtype))
        found.append(Case(f"layer_{name}", module, [draw(64, 100).to(dtype)]))
    return found


CASES = cases()


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory):
    return compiled(CASES, tmp_path_factory.mktemp("rows"))


@pytest.mark.parametrize("name", [case.name for case in CASES])
def test_rows_are_one_kernel_and_as_accurate_as_eager(library, name: str) -> None:
    case, built = library[name]
    assert len(case.program.kernels) == 1
    assert set(case.left) <= {"aten.add.Tensor"}  # BatchNorm counts its batches in a whole number
    check(case, built, slack=3.0)


@pytest.mark.parametrize("length", [5000, 20000])
def test_rows_masked_out_block_by_block(tmp_path: Path, length: int) -> None:
    x = draw(20, length)
    x[:, : length - 1000] = -float("inf")
    x[3] = -float("inf")
    case = Case("masked", Computes(lambda x: F.softmax(x, -1)), [x])
    check(*compiled([case], tmp_path)["masked"])


@pytest.mark.parametrize(("length", "times"), [(4096, 1), (20000, 2)])
def test_exponentials_of_rows_that_fit_the_cache_are_computed_once(
    tmp_path: Path, length: int, times: int
) -> None:
    case = Case("once", Computes(lambda x: F.softmax(x * 2, -1)), [draw(32, length)])
    case.fuse()
    text = kernel_function(case.program.kernels[0]).body
    assert (f"_row[{length}];" in text) == (times == 1)
    stored = text[text.index("const float share") :]
    assert ("exp_(" in stored) == (times == 2)
