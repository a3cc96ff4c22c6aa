"""Rewrites of graphs: what goes, what stays, and that the values stay."""

from __future__ import annotations

import math

import pytest
import torch
from small_programs import Case, Computes, Several, export, part_of, run
from torch import nn
from torch.nn import functional as F

from kernelskill.program.program import Program
from kernelskill.program.rewrite import dead_nodes, remove_dead, simplify
from kernelskill.records import Graph, Node, Ref

draw = torch.randn
X, ONE = draw(3, 8, 6, 6), draw(4, 1, 5)


def operators(graph: Graph) -> list[str]:
    return [node.op.split(".")[1] for node in graph.nodes]


def values(model: nn.Module, graph: Graph, *inputs: torch.Tensor) -> list[torch.Tensor]:
    case = Case("rewritten", model, list(inputs))
    case.program = Program.from_graph(graph)
    return run(case, None)[0]


def simplified(function, *inputs, level="rounding", exact=True):
    return checked(function, export(Computes(function), list(inputs)), *inputs, level=level, exact=exact)


def checked(function, graph, *inputs, level="rounding", exact=True):
    model = Computes(function)
    after, changes = simplify(graph, level)
    assert bool(changes) == (after != graph)
    assert simplify(after, level)[0] == after, "once is enough"
    before, now = values(model, graph, *inputs), values(model, after, *inputs)
    for old, new in zip(before, now, strict=True):
        assert old.stride() == new.stride()
        torch.testing.assert_close(
            new, old, rtol=0 if exact else 1e-6, atol=0 if exact else 1e-6, equal_nan=True
        )
    return operators(after)


EXACT = [
    (lambda x: (x + 0).tanh(), ["tanh"]),
    (lambda x: (0 + x * 1 / 1 - 0).tanh(), ["tanh"]),
    (lambda x: (x**1).tanh(), ["tanh"]),
    (lambda x: F.dropout(x, 0.0, True).tanh(), ["tanh"]),
    (lambda x: F.dropout(x, 0.5, False).tanh(), ["tanh"]),
    (lambda x: x.transpose(1, 2).transpose(1, 2).tanh(), ["tanh"]),
    (lambda x: x.permute(1, 2, 3, 0).permute(3, 0, 1, 2).tanh(), ["tanh"]),
    (lambda x: x.view(3, 8, 6, 6).expand(3, 8, 6, 6)[:].tanh(), ["tanh"]),
    (lambda x: x.unsqueeze(0).squeeze(0).view(3, 48, 6).view(3, 8, 6, 6).tanh(), ["tanh"]),
    (lambda x: x.flip(1).flip(1).tanh(), ["tanh"]),
    (lambda x: x.float().to(torch.float32).tanh(), ["tanh"]),
    (lambda x: torch.cat([x], 1).tanh(), ["tanh"]),
    (lambda x: x.neg().neg().tanh(), ["tanh"]),
    (lambda x: F.pad(x, (0, 0)).tanh(), ["tanh"]),
    (lambda x: F.relu(F.relu(x)), ["relu"]),
    (lambda x: F.relu(x.exp()), ["exp"]),
    (lambda x: F.relu(x.sigmoid()).clamp(0, 1), ["sigmoid"]),
    (lambda x: F.relu(F.max_pool2d(F.relu(x), 2)), ["relu", "max_pool2d_with_indices"]),
    (lambda x: F.relu(x).abs(), ["relu"]),
    (lambda x: F.leaky_relu(F.relu(x), 0.1), ["relu"]),
    (lambda x: F.relu(x).clamp(0, 6), ["clamp"]),
    (lambda x: F.hardtanh(F.relu(x), -2, 3), ["clamp"]),
    (lambda x: x.clamp(min=-1).clamp(max=0.5), ["clamp"]),
    (lambda x: x.tanh().clamp(-2, 0.5), ["tanh", "clamp"]),
    (lambda x: x**2, ["mul"]),
    (lambda x: x / 4, ["mul"]),
    (lambda x: x + x, ["mul"]),
    (lambda x: x.exp() * x.exp(), ["exp", "mul"]),
]
ROUNDING = [
    (lambda x: (x * 3) * 0.7, ["mul"]),
    (lambda x: 0.7 * (x / 2) * 5, ["mul"]),
    (lambda x: (x + 3) - 0.5 + 1, ["add"]),
    (lambda x: x * 0.3 + x, ["mul"]),
    (lambda x: F.log_softmax(x, 1).exp(), ["_softmax"]),
]
KEPT = [
    lambda x: x * 0,
    lambda x: x - x,
    lambda x: x / x,
    lambda x: x / 3,
    lambda x: torch.log(torch.softmax(x, 1)),
    lambda x: (x + 1e8) - 1e8,
    lambda x: x * 0.5 - x,
    lambda x: x * -1 + x,
    lambda x: (x * 1e30) * 1e-30,
    lambda x: F.dropout(x, 0.5, True),
    lambda x: x.permute(1, 0, 2, 3).permute(2, 0, 1, 3),
    lambda x: x.tanh().clamp(0, 2),
    lambda x: x.exp() - 1,
    lambda x: x.flip(1).flip(2),
    lambda x: F.relu(torch.minimum(F.relu(x), x)),
    lambda x: F.relu(F.softplus(x, beta=-1)),
]


@pytest.fixture(scope="module")
def graphs():
    """Of all functions of a table by one export."""
    functions = [*(item[0] for item in EXACT), *(item[0] for item in ROUNDING), *KEPT]
    cases = [Case("graph", Computes(function), [X.clone()]) for function in functions]
    several = Several(cases)
    graph = export(several.train(), [tensor for case in cases for tensor in case.inputs])
    return {case.model.function: part_of(graph, several, number) for number, case in enumerate(cases)}


@pytest.mark.parametrize(("function", "left"), EXACT)
def test_exact_identities(graphs, function, left):
    assert checked(function, graphs[function], X, level="exact") == left


@pytest.mark.parametrize(("function", "left"), ROUNDING)
def test_algebra_that_rounds_differently(graphs, function, left):
    assert checked(function, graphs[function], X, exact=False) == left
    assert checked(function, graphs[function], X, level="exact") != left


@pytest.mark.parametrize("function", KEPT)
def test_what_does_not_hold_for_all_finite_inputs_stays(graphs, function):
    assert len(simplify(graphs[function])[0].nodes) == len(graphs[function].nodes)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.amax(1, keepdim=True).tanh(), lambda x: x.mean(1, True).tanh(), lambda x: x.sum(1, True).tanh(),
        lambda x: torch.max(x, 1, True)[0].tanh(), lambda x: torch.logsumexp(x, 1, True).tanh(), lambda x: x.cumsum(1).tanh(),
    ],
)  # fmt: skip
def test_folds_over_one_element(function):
    x = ONE.clone()
    x[0, 0, :4] = torch.tensor([math.inf, -math.inf, math.nan, 0.0])
    assert simplified(function, x) == ["tanh"]


def test_a_softmax_over_one_element_is_not_its_operand():
    assert "_softmax" in simplified(lambda x: torch.softmax(x, 1), ONE)


def test_global_pooling_is_a_fold():
    assert simplified(lambda x: F.adaptive_max_pool2d(x, 1), X) == ["amax"]
    assert simplified(lambda x: F.adaptive_avg_pool2d(x, 1), X, exact=False) == ["mean"]
    assert "adaptive_max_pool2d" in simplified(lambda x: F.adaptive_max_pool2d(x, 2), X)
    both = simplified(lambda x: F.adaptive_max_pool2d(x, 1, return_indices=True)[0] + 1, X)
    assert both == ["amax", "add"]


def test_results_stay_tensors_of_their_own():
    assert simplified(lambda x: x + 0, X) == ["add"]
    assert simplified(lambda x: (x * 1).view(3, 48, 6), X) == ["mul", "view"]
    assert simplified(lambda x: (x.tanh(), x.tanh()), X) == ["tanh", "tanh"]
    assert simplified(lambda x: (x.tanh(), x.tanh() + 0), X) in (
        ["tanh", "tanh"],
        ["tanh", "tanh", "add"],
        ["tanh", "add"],
    )


def test_a_value_with_two_users_is_not_merged_away():
    left = simplified(lambda x: ((x * 3) * 5, (x * 3) + 1), X, exact=False)
    assert left.count("mul") == 2


def test_whole_numbers_are_left_alone():
    graph = export(Computes(lambda x: (x * 3 * 5 + x + x).clamp(0, 50).clamp(2, 40) // 4), [torch.arange(20)])
    assert [node.op for node in simplify(graph)[0].nodes] == [node.op for node in graph.nodes]


def test_random_numbers_are_drawn_as_often_as_before():
    graph = export(Computes(lambda x: torch.rand_like(x) + torch.rand_like(x)), [X])
    assert simplify(graph)[0] == graph


def test_batch_normalisation_in_training_keeps_its_updates():
    model = nn.Sequential(nn.BatchNorm2d(8), nn.ReLU(), nn.ReLU())
    graph = export(model.train(), [X])
    after, _ = simplify(remove_dead(graph))
    assert set(after.updates) == {"0.running_mean", "0.running_var", "0.num_batches_tracked"}
    assert any("batch_norm" in node.op for node in after.nodes)
    assert sum(node.op == "aten.relu.default" for node in after.nodes) == 1


def dead_branch(graph: Graph, op: str, *names: str) -> Graph:
    """The graph with unused calls at its end."""
    (first, *_) = graph.inputs
    extra = tuple(
        Node(name=name, op=op, args=(Ref(node=first.name),), outputs=(first.spec,)) for name in names
    )
    return graph.model_copy(update={"nodes": (*extra, *graph.nodes)})


def test_dead_code_goes_with_what_only_it_used():
    plain = export(Computes(lambda x: x.tanh() + 1), [X])
    graph = dead_branch(plain, "aten.exp.default", "unused", "unused_too")
    assert dead_nodes(graph) == ("unused", "unused_too")
    assert remove_dead(graph) == plain


def test_dead_random_operators_stay_while_others_draw():
    alive = dead_branch(
        export(Computes(lambda x: torch.rand_like(x) + x), [X]), "aten.rand_like.default", "unused"
    )
    assert dead_nodes(alive) == ()
    alone = dead_branch(export(Computes(lambda x: x + 1), [X]), "aten.rand_like.default", "unused")
    assert dead_nodes(alone) == ("unused",)


def test_dead_checks_stay():
    graph = dead_branch(export(Computes(lambda x: x + 1), [X]), "aten._assert_async.default", "check")
    assert dead_nodes(graph) == ()


def test_an_update_is_a_result():
    graph = export(nn.BatchNorm2d(8).train(), [X])
    assert dead_nodes(graph.model_copy(update={"outputs": graph.outputs})) == ()
