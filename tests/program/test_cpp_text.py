"""The C++ of printed kernels holds nothing in vain: no function that is not called, no loop of one pass."""

from __future__ import annotations

import re

import pytest
import torch
import torch.nn.functional as F
from small_programs import Case, Computes, Several, export, part_of
from template_cases import cases
from test_templates_pool import POOLS
from test_templates_scan import SCANS
from torch import nn

from kernelskill.program.cpp import source

draw = torch.randn
FULL, RAGGED, TINY = draw(8, 64), draw(8, 37), draw(8, 3)
MASK = RAGGED > 0
HALF = RAGGED.half()
OTHERS = [
    Case(f"{name}_{label}", model if isinstance(model, nn.Module) else Computes(model), [x.clone()])
    for label, x in (("full", FULL), ("ragged", RAGGED), ("tiny", TINY))
    for name, model in (
        ("map", F.gelu),
        ("softmax", lambda x: x.softmax(-1)),
        ("norm", nn.LayerNorm(x.shape[-1])),
        ("place", lambda x: x.argmax(-1)),
        ("total", lambda x: x.abs().mean()),
        ("apart", lambda x: x.softmax(0)),
        ("largest", lambda x: x.amax(0)),
    )
] + [
    Case("masked", Computes(lambda x, m: x.masked_fill(m, 0.0).sum(-1)), [RAGGED, MASK]),
    Case("mask", Computes(lambda x: x > 0.5), [RAGGED.clone()]),
    Case("half", Computes(lambda x: x.exp()), [HALF]),
    Case("widened", Computes(lambda x: x.float() * 2), [HALF.clone()]),
    Case("narrowed", Computes(lambda x: (x * 2).half()), [RAGGED.clone()]),
    Case("streamed", Computes(lambda x: x * 2), [FULL.clone()], schedule={"nontemporal": True}),
    Case("log_row", Computes(lambda x: x.logsumexp(-1)), [RAGGED.clone()]),
]
CASES = [*OTHERS, *cases("scan", SCANS), *cases("pool", POOLS)]
DEFINED = re.compile(r"^(?:template <[^>]*> )?(?:inline|typedef) .*?(\w+)(?:\(| __attribute__)", re.MULTILINE)
OVERLOAD = re.compile(r"inline \w+ (\w+)\((?:[^()]*), int n\)")


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    several = Several(CASES)
    graph = export(several.train(), [tensor for case in CASES for tensor in case.inputs])
    for number, case in enumerate(CASES):
        case.fuse(part_of(graph, several, number))
    return {case.name: source(case.program.kernels) for case in CASES if case.program.kernels}


def test_stores_past_the_cache_bring_the_header_of_their_addresses(texts: dict[str, str]) -> None:
    assert "uintptr_t" in texts["streamed"]
    assert "#include <cstdint>" in texts["streamed"]


@pytest.mark.parametrize("name", [case.name for case in CASES])
def test_nothing_is_printed_that_is_not_used(texts: dict[str, str], name: str) -> None:
    text = texts[name]
    for function in {*DEFINED.findall(text)}:
        definitions = len(re.findall(rf"\b(?:inline|typedef) [^;{{]*?\b{function}\b", text))
        assert len(re.findall(rf"\b{function}\b", text)) > definitions, function
    kernels = text[text.index('extern "C"') :]
    for function in {*OVERLOAD.findall(text)} - {"stream"}:
        given = rf"\b{function}(?:<F>)?\([^;]*, (?:n\.\.\.|n|\d+|end - j|\(.*\) % \d+|[\d]+ - j)\)"
        assert re.search(given, kernels), f"{function} with a length"


@pytest.mark.parametrize("name", [case.name for case in CASES])
def test_no_loop_has_one_pass_and_no_term_is_nothing(texts: dict[str, str], name: str) -> None:
    kernels = texts[name][texts[name].index('extern "C"') :]
    loops = re.findall(r"for \(\w+ (\w+) = 0; \1 < (\d+); (?:\+\+\1|\1 \+= (\d+))\)", kernels)
    assert [loop for loop in loops if int(loop[1]) <= 1] == []
    assert re.findall(r"[-+*] 0[L;,)]|\* 1[;,)L]|F\{\} \+ 0\.0f|\bcopy", kernels) == []
    copies = [
        line
        for line in kernels.splitlines()
        if re.fullmatch(r"\s*(?:const )?\w+ (\w+) = (?!row)[a-z_]+;", line)
    ]
    assert copies == []


@pytest.mark.parametrize(("bits", "used", "other"), [(256, "_mm256", "_mm512"), (512, "_mm512", "_mm256")])
def test_functions_hold_no_instructions_for_registers_that_no_kernel_uses(
    bits: int, used: str, other: str
) -> None:
    case = Case(f"wide_{bits}", Computes(torch.sigmoid), [draw(64, 64)], schedule={"vector_bits": bits})
    case.fuse(export(case.model, case.inputs))
    text = source(case.program.kernels)
    assert f"{used}_scalef_ps" in text
    assert other not in text
    assert "#include <immintrin.h>" in text


@pytest.mark.parametrize(
    ("padding", "ceil", "first", "last"),
    [(1, False, True, False), (0, True, False, True), (1, True, True, True)],
)
def test_windows_are_cut_only_where_they_can_leave_the_input(
    padding: int, ceil: bool, first: bool, last: bool
) -> None:
    name = f"cut_{padding}_{ceil}"
    (case,) = cases(
        "pool", {name: (lambda x: F.max_pool2d(x, 3, 2, padding, ceil_mode=ceil), draw(2, 20, 32))}
    )
    case.fuse(export(case.model, case.inputs))
    text = source(case.program.kernels)
    assert ("long h0" in text, "long h1" in text) == (first, last)
