"""Structures of captured models."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from kernelskill.evaluation.worker.capture import capture
from kernelskill.features.graph_facts import graph_facts, operators_left
from kernelskill.features.operator_facts import fusable_share
from kernelskill.floor.model import floor_of
from kernelskill.records import Ceilings, Graph, TensorSpec, Workload

MACHINE = Ceilings(
    device="round numbers", threads=1, bandwidth_gb_per_s={"1000": 1000.0}, fp32_gflops=1000.0, exp_gops=100.0,
    parallel_us=0.0, call_us=0.1, operator_us=0.1, measured_on="2026-01-01", cache_bytes=4_000_000,
)  # fmt: skip


class Call(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def read(model, *args):
    model = model if isinstance(model, nn.Module) else Call(model)
    return Graph.model_validate(capture(model, args, {}))


def row(x, fold):
    return fold(x, -1, keepdim=True)


STRUCTURES = {
    "softmax": (nn.Softmax(-1), {"softmax": 1}),
    "log-softmax": (nn.LogSoftmax(-1), {"softmax": 1}),
    "logsumexp": (lambda x: torch.logsumexp(x, 1), {"softmax": 1}),
    "softmax by hand": (lambda x: torch.exp(x) / row(torch.exp(x), torch.sum), {"softmax": 1}),
    "safe softmax by hand": (
        lambda x: (x - row(x, torch.amax)).exp() / row((x - row(x, torch.amax)).exp(), torch.sum),
        {"softmax": 1},
    ),
    "layer norm": (nn.LayerNorm(16), {"norm": 1}),
    "group norm": (nn.GroupNorm(2, 8), {"norm": 1}),
    "instance norm": (nn.InstanceNorm2d(8), {"norm": 1}),
    "rms norm": (lambda x: x / torch.sqrt(row(x**2, torch.mean) + 1e-5), {"norm": 1}),
    "l1 norm": (lambda x: x / row(x.abs(), torch.mean), {"norm": 1}),
    "l2 norm": (lambda x: functional.normalize(x), {"norm": 1}),
    "frobenius norm": (lambda x: x / torch.norm(x), {"norm": 1}),
    "layer norm by hand": (
        lambda x: (x - row(x, torch.mean)) / torch.sqrt(row(x, torch.var) + 1e-5),
        {"norm": 1},
    ),
    "mean": (lambda x: x.mean(-1), {"reduction": 1}),
    "loss": (lambda x: ((x - 1) ** 2).mean() * 3, {"reduction": 1}),
    "maximum": (lambda x: torch.max(x, 1)[0], {"reduction": 1}),
    "larger of two": (lambda x: torch.max(x, -x), {"elementwise": 2}),
    "scan": (lambda x: torch.cumsum(x, 1), {"scan": 1}),
    "pool": (nn.AvgPool2d(2), {"pool": 1}),
    "conv": (nn.Conv2d(8, 4, 3), {"conv": 1}),
    "transposed conv": (nn.ConvTranspose2d(8, 4, 3), {"conv": 1}),
    "matmul": (lambda x: x @ x.transpose(-1, -2), {"matmul": 1}),
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_structures_are_recognised(name):
    model, expected = STRUCTURES[name]
    facts = graph_facts(read(model, torch.rand(2, 8, 16, 16)))
    found = {
        key.removeprefix("count_"): value
        for key, value in facts.items()
        if key.startswith("count_") and value
    }
    for structure in ("softmax", "norm", "reduction", "scan", "pool", "conv", "matmul"):
        assert found.get(structure, 0) == expected.get(structure, 0), found
    assert found.get("elementwise", 0) >= expected.get("elementwise", 0)


def test_attention_has_one_softmax_and_no_norm():
    q = torch.rand(2, 4, 16, 8)
    facts = graph_facts(read(functional.scaled_dot_product_attention, q, q + 1, q + 2))
    assert (facts["count_softmax"], facts["count_norm"], facts["count_matmul"]) == (1, 0, 2)


def test_two_rows_are_two_norms():
    x = torch.rand(8, 100)
    facts = graph_facts(read(lambda a, b: functional.normalize(a) + functional.normalize(b), x, x + 1))
    assert facts["count_norm"] == 2


def test_training_and_state():
    model = nn.Sequential(nn.Conv2d(8, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
    facts = graph_facts(read(model.train(), torch.rand(2, 8, 16, 16)))
    assert facts["is_training"] is True
    assert facts["has_state_updates"] is True
    assert (facts["count_conv"], facts["count_norm"]) == (1, 1)
    assert graph_facts(read(model.eval(), torch.rand(2, 8, 16, 16)))["has_state_updates"] is False


def test_dead_and_idle_nodes_are_counted_apart():
    def forward(x):
        torch.exp(x)
        return torch.relu(x * 1.0 + 0.0)

    facts = graph_facts(read(forward, torch.rand(8, 100)))
    assert facts["count_noop"] == 2
    assert facts["count_elementwise"] == 3
    assert facts["count_dead"] <= 1, "export may drop it already"


def test_views_and_constants_are_no_operators_left():
    graph = read(lambda x: torch.relu(x.permute(1, 0).reshape(4, -1)), torch.rand(8, 100))
    assert "aten.relu.default" in {node.op for node in operators_left(graph)}
    assert not {"aten.permute.default", "aten.view.default"} & {node.op for node in operators_left(graph)}


@pytest.mark.parametrize(
    ("model", "low", "high"),
    [
        (lambda x: torch.relu(x @ x), 0.0, 0.1),
        (lambda x: x @ x, 0.0, 0.0),
        (lambda x: torch.relu(x).exp(), 1.0, 1.0),
    ],
    ids=["product first", "product", "chain"],
)
def test_what_fusing_can_save_is_what_is_no_product(model, low, high):
    graph = read(model, torch.randn(1024, 1024))
    x = TensorSpec.contiguous((1024, 1024))
    workload = Workload(
        inputs=(x,), inputs_tree=None, outputs=(x,), outputs_tree=None, state=(), eager_ms=0.0, graph=graph
    )
    share = fusable_share(operators_left(graph), floor_of(workload, MACHINE))
    assert low <= share <= high
