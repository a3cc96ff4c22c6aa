"""Broadcasts, layouts and views as index maps."""

from __future__ import annotations

import pytest
import torch
from small_programs import Case, Computes, build, check, compiled
from torch.nn import functional as F


def cases() -> list[Case]:
    torch.manual_seed(1)
    draw = torch.randn
    last = torch.channels_last
    table = {
        "column": (lambda x, b: F.relu(x + b) * 2, draw(8, 5, 7), draw(5, 1)),
        "outer": (lambda x, b: x[:, :, None] * b[None, None], draw(8, 5), draw(9)),
        "pairs": (lambda x, y: x[:, None] - y[None], draw(40, 30), draw(50, 30)),
        "permuted": (lambda x: F.relu(x.permute(0, 2, 1) + 1), draw(8, 5, 7)),
        "permuted_and_plain": (lambda x, y: F.relu(x.permute(0, 2, 1) + y), draw(8, 5, 7), draw(8, 7, 5)),
        "transposed_input": (F.gelu, draw(30, 20).t()),
        "expanded_input": (lambda x: F.gelu(x) + 1, draw(30, 1).expand(30, 20)),
        "every_other": (lambda x: F.gelu(x[:, ::2] + 1), draw(30, 20)),
        "halves": (lambda x: F.silu(x[:, :10]) * x[:, 10:], draw(30, 20)),
        "from_the_end": (lambda x: F.silu(x[-7:, -5:]) * 2, draw(30, 20)),
        "selected": (lambda x: F.gelu(x[:, 3]) * 2, draw(30, 20)),
        "chunks": (lambda x: torch.mul(*x.chunk(2, 1)), draw(4, 6, 5, 5)),
        "gated_linear": (lambda x: F.glu(x, 1), draw(4, 6, 5)),
        "channels_last": (lambda x, b: F.gelu(x + b), draw(2, 8, 5, 5).to(memory_format=last), draw(8, 1, 1)),
        "one_element": (lambda x, s: x * s, draw(30, 20), draw(1)),
        "number": (lambda x, s: x * s, draw(30, 20), draw(())),
        "scalar": (lambda x: x * 2 + 1, draw(())),
        "masked": (lambda x, k: x.masked_fill(k, -1.0), draw(30, 20), draw(30, 20) > 0),
        "whole_numbers": (lambda x, y: x.float() * 0.5 + y, torch.randint(0, 9, (30, 20)), draw(20)),
        "whole_numbers_32": (lambda x: x.float() * 0.5, torch.randint(-9, 9, (30, 20), dtype=torch.int32)),
    }  # fmt: skip
    return [Case(name, Computes(function), list(inputs)) for name, (function, *inputs) in table.items()]


CASES = cases()


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory):
    return compiled(CASES, tmp_path_factory.mktemp("views"))


@pytest.mark.parametrize("name", [case.name for case in CASES])
def test_views_vanish_into_one_kernel(library, name: str) -> None:
    case, built = library[name]
    assert len(case.program.kernels) == 1
    assert not case.left
    check(case, built)


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        (lambda x: F.gelu(x) * 2, [torch.randn(0, 20)]),
        (lambda x: x.sum(-1), [torch.randn(20, 0)]),
        (lambda x: x.exp() * 2, [torch.randn(30, 20, dtype=torch.float64)]),
        (lambda x, y: x == y, [torch.randint(0, 3, (30, 20)), torch.randint(0, 3, (30, 20))]),
    ],
    ids=["empty", "empty-rows", "float64", "integers-compared"],
)
def test_what_kernels_do_not_compute_stays_with_torch(function, inputs) -> None:
    case = Case("left", Computes(function), inputs)
    case.fuse()
    assert not case.program.kernels


def test_a_view_that_the_library_reads_keeps_what_it_is_a_view_of(tmp_path) -> None:
    """Keys of an attention are turned for a product: the turned view stays, and with it the views below it."""

    def mixed(x: torch.Tensor) -> torch.Tensor:
        first, second = x.reshape(6, 20, 2, 5).permute(2, 0, 1, 3)
        return F.gelu(first) @ second.transpose(1, 2).contiguous()

    case = Case("turned", Computes(mixed), [torch.randn(6, 20, 10)])
    case.fuse()
    known = {value.name for value in (*case.program.graph.inputs, *case.program.graph.state)}
    for node in case.program.graph.nodes:
        assert {ref.node for ref in node.refs()} <= known, node.name
        known.add(node.name)
    check(case, build(list(case.program.kernels), tmp_path))
