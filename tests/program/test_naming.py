"""Names and words: a kernel is called after what it computes, its operands as the reference calls them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from small_programs import Computes, export
from torch import nn

from kernelskill.program import fusion
from kernelskill.program.docstring import docstring, reads_of
from kernelskill.program.naming import ON_DEVICE, kernel_name, summary
from kernelskill.program.program import Program
from kernelskill.program.templates.pool_sites import fuse_pool, pool_sites
from kernelskill.program.templates.scan_sites import fuse_scan, scan_sites
from kernelskill.program.triton.device_functions import PIECES

X, Y = torch.randn(4, 12), torch.randn(4, 12)
NAMES: dict[str, tuple[Callable[..., Any], ...]] = {
    "gelu": (lambda x: 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x**3))),),
    "silu": (lambda x: x * torch.sigmoid(x),),
    "tanh_kernel": (lambda x: torch.tanh(x) * 2,),
    "sigmoid_kernel": (lambda x: torch.sigmoid(x) + 2,),
    "sqrt_kernel": (lambda x: torch.sqrt(x),),
    "softmax": (lambda x: x.softmax(-1) * 2,),
    "rms_norm": (lambda x: x / torch.sqrt((x**2).mean(1, keepdim=True) + 1e-5),),
    "l1_normalize": (lambda x: x / x.abs().mean(1, keepdim=True),),
    "sum_kernel": (lambda x: x.sum(1),),
    "sigmoid_sum": (lambda x: torch.sigmoid(x + 1).sum(1),),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_kernel_is_called_after_what_it_computes(name: str) -> None:
    graph = export(Computes(*NAMES[name]), [X])
    assert kernel_name(graph, {node.name for node in graph.nodes}) == name


def test_no_kernel_has_the_name_of_a_function_on_the_device() -> None:
    assert {name.removeprefix("_") for name in PIECES} <= ON_DEVICE


def test_a_product_with_another_gate_is_no_silu() -> None:
    graph = export(Computes(lambda x, y: y * torch.sigmoid(x)), [X, Y])
    assert kernel_name(graph, {node.name for node in graph.nodes}) == "sigmoid_kernel"


def test_two_kernels_of_one_kind_have_two_names() -> None:
    graph = export(Computes(lambda x: x.softmax(-1).softmax(0)), [X])
    program = Program.from_graph(graph)
    for site in fusion.sites(program, "softmax"):
        program = fusion.fuse(program, site)
    assert [kernel.name for kernel in program.kernels] == ["softmax", "softmax_2"]


def test_operands_are_called_as_the_reference_calls_them() -> None:
    graph = export(nn.Sequential(nn.BatchNorm1d(12)).train(), [X])
    program = Program.from_graph(graph)
    (site,) = fusion.sites(program, "rows")
    (kernel,) = fusion.fuse(program, site).kernels
    assert kernel.region is not None
    read, written = ({item.name for item in side} for side in (kernel.region.inputs, kernel.region.outputs))
    assert read >= {"v0_weight", "v0_bias", "v0_running_mean", "v0_running_var"}
    assert written == {"out", "new_0_running_mean", "new_0_running_var"}


def test_a_wrapper_says_what_it_computes_of_which_shapes_and_by_which_skills() -> None:
    graph = export(Computes(lambda x, y: F.mse_loss(x, y)), [X, Y])
    program = Program.from_graph(graph)
    (site,) = fusion.sites(program, "reduction")
    program = fusion.fuse(program, site, skill="fuse-reduction")
    (kernel,) = program.kernels
    text = " ".join(docstring(kernel, ["x", "y"], ["out"], reads_of(program)[kernel.name]))
    assert "of x float32 (4, 12), y float32 (4, 12); gives out float32 ()." in text
    assert "Skills: fuse-reduction." in text
    assert summary(graph, set(site)) in text.replace(
        text[text.index('"""') + 3], summary(graph, set(site))[0], 1
    )


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: x.flip(1).cumsum(1).flip(1), "reversed cumulative sum along dimension 1"),
        (lambda x: (x * 2).cumprod(0), "cumulative product along dimension 0, with mul"),
        (lambda x: F.max_pool2d(x[None], 3, 2, 1), "maximum over windows of 3 x 3, stride 2, padding 1"),
        (lambda x: F.avg_pool2d(x[None, None], (2, 3)), "average over windows of 2 x 3, stride 2 x 3"),
    ],
)
def test_templates_say_what_they_compute(function: Callable[..., Any], words: str) -> None:
    program = Program.from_graph(export(Computes(function), [X]))
    for scan in scan_sites(program):
        program = fuse_scan(program, scan)
    for pool in pool_sites(program):
        program = fuse_pool(program, pool)
    assert [kernel.computes for kernel in program.kernels] == [words]
