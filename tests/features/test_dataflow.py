"""What is found by following values: on graphs that torch captured, so that decompositions are the real ones."""

import pytest
import torch
from torch import nn

from kernelskill.evaluation.worker.capture import capture
from kernelskill.features.dataflow import Dataflow
from kernelskill.features.graph_facts import graph_facts, traffic_bytes
from kernelskill.features.operator_facts import expected_shares, layouts, operator_facts
from kernelskill.records import Floor, Graph

X = torch.zeros(4, 16)
IMAGE = torch.zeros(2, 8, 12, 12)


class Computes(nn.Module):
    def __init__(self, function, **modules):
        super().__init__()
        self.function = function
        for name, module in modules.items():
            setattr(self, name, module)

    def forward(self, x):
        return self.function(self, x)


def graph(function, x=X, **modules):
    return Graph.model_validate(capture(Computes(function, **modules), (x,), {}))


def facts(function, x=X, **modules):
    return graph_facts(graph(function, x, **modules))


LINEAR = {"linear": nn.Linear(16, 32)}
CONV = {"conv": nn.Conv2d(8, 4, 3)}


@pytest.mark.parametrize(
    ("function", "x", "modules", "count"),
    [
        (lambda m, x: m.linear(x).sum(1), X, LINEAR, 1),
        (lambda m, x: (m.linear(x) / 2 + 1).mean(1, keepdim=True) * 3, X, LINEAR, 1),
        (lambda m, x: nn.functional.avg_pool2d(m.conv(x), 2), IMAGE, CONV, 1),
        (lambda m, x: m.conv(x).mean((2, 3)), IMAGE, CONV, 1),
        (lambda m, x: m.linear(x).relu().sum(1), X, LINEAR, 0),
        (lambda m, x: (m.linear(x) * m.linear(x)).sum(1), X, LINEAR, 0),
        (lambda m, x: m.linear(x).amax(1), X, LINEAR, 0),
        (lambda m, x: m.linear(x), X, LINEAR, 0),
        (lambda m, x: (m.linear(x).sum(1), m.linear(x)[0]), X, LINEAR, 1),
    ],
    ids=[
        "sum",
        "mean of scaled",
        "pooled",
        "global mean",
        "relu between",
        "square",
        "maximum",
        "stored",
        "one of two",
    ],
)
def test_folds_that_commute_with_a_product(function, x, modules, count):
    assert facts(function, x, **modules)["count_linear_fold"] == count


def test_a_product_with_another_use_is_stored_anyway():
    def both(m, x):
        y = m.linear(x)
        return y, y.sum(1)

    assert facts(both, **LINEAR)["count_linear_fold"] == 0


def attention(m, x):
    return torch.softmax(x @ x.transpose(1, 2) / 4, -1) @ x


def relu_attention(m, x):
    return torch.relu((x @ x.transpose(1, 2)).tril()) @ x


@pytest.mark.parametrize(
    ("function", "count"),
    [
        (attention, 1),
        (relu_attention, 1),
        (lambda m, x: nn.functional.scaled_dot_product_attention(x, x, x), 1),
        (lambda m, x: torch.softmax(x @ x.transpose(1, 2), -1), 0),
        (lambda m, x: x @ x.transpose(1, 2), 0),
    ],
    ids=["softmax", "relu", "library", "weights alone", "product alone"],
)
def test_attention_is_scores_that_weigh_a_second_product(function, count):
    assert facts(function, torch.zeros(2, 6, 8))["count_attention"] == count


def test_recurrences_are_layers_or_one_weight_in_a_chain_of_products():
    def steps(m, x):
        state = x
        for _ in range(9):
            state = torch.tanh(m.linear(state))
        return state

    square = nn.Linear(16, 16)
    assert facts(steps, linear=square)["count_recurrent"] == 1
    assert facts(lambda m, x: m.linear(m.linear(x)), linear=square)["count_recurrent"] == 0
    assert facts(lambda m, x: m.rnn(x)[0], torch.zeros(2, 5, 16), rnn=nn.LSTM(16, 8))["count_recurrent"] == 1


def test_a_triangle_that_is_set_to_zero_is_seen_through_its_decomposition():
    square = torch.zeros(16, 16)
    assert facts(lambda m, x: (x @ x).tril(), square)["count_masked_product"] == 1
    assert facts(lambda m, x: torch.where(x > 0, x @ x, 0.0), square)["count_masked_product"] == 0


def test_batch_norm_counts_in_training_only():
    model = Computes(lambda m, x: m.norm(x), norm=nn.BatchNorm2d(8))
    assert len(Dataflow(Graph.model_validate(capture(model, (IMAGE,), {}))).batch_norms()) == 1
    assert Dataflow(Graph.model_validate(capture(model.eval(), (IMAGE,), {}))).batch_norms() == ()


def test_a_copy_into_another_layout_counts_where_neighbours_lie_along_another_axis():
    def turned(m, x):
        return x.contiguous(memory_format=torch.channels_last)

    assert facts(turned, IMAGE)["count_layout_copy"] == 1
    assert facts(turned, IMAGE[:, :1])["count_layout_copy"] == 0, "one channel: both layouts are the same"
    assert facts(lambda m, x: x.transpose(0, 1).contiguous())["count_layout_copy"] == 1
    assert facts(lambda m, x: x.transpose(0, 1).contiguous(), IMAGE)["count_layout_copy"] == 0, (
        "whole planes move"
    )


def test_a_slice_counts_where_the_rest_is_used_by_nobody():
    assert facts(lambda m, x: x.exp()[:, 0])["count_slice"] == 1
    assert facts(lambda m, x: (lambda y: (y[:, 0], y))(x.exp()))["count_slice"] == 0
    assert facts(lambda m, x: x[:, 0].exp())["count_slice"] == 0, "of an input nothing is computed in vain"


def test_what_a_convolution_and_a_product_look_like():
    captured = graph(lambda m, x: m.conv(x), IMAGE, conv=nn.ConvTranspose2d(8, 6, (3, 5), stride=2, groups=2))
    (node,) = [item for item in captured.nodes if "convolution" in item.op]
    found = operator_facts(node, layouts(captured))
    assert found == {
        "op": node.op, "op_family": "conv", "conv_transposed": True, "conv_groups": 2, "conv_channels": 4,
        "conv_taps": 15, "conv_stride": 2,
    }  # fmt: skip
    captured = graph(lambda m, x: m.linear(x), **LINEAR)
    (node,) = [item for item in captured.nodes if "addmm" in item.op]
    found = operator_facts(node, layouts(captured))
    assert (found["product_rows"], found["product_columns"], found["product_depth"]) == (4, 32, 16)


def test_expected_shares_are_those_of_the_bounds_of_each_alone():
    captured = graph(lambda m, x: m.linear(x).relu(), **LINEAR)
    nodes = tuple(node for node in captured.nodes if "permute" not in node.op)
    floor = Floor(bytes_min=1, flops=1, transcendentals=0, launches=2, memory_ms=1, compute_ms=1, overhead_ms=0,
                  floor_ms=1, bound="memory", per_node={nodes[0].name: 3.0, nodes[1].name: 1.0})  # fmt: skip
    assert list(expected_shares(nodes, floor).values()) == [0.75, 0.25]
    assert expected_shares(nodes, floor.model_copy(update={"per_node": {}})) == {}


def test_traffic_counts_what_operators_move_one_by_one():
    nbytes = 4 * X.numel()
    assert traffic_bytes(graph(lambda m, x: x.exp() * 2)) == 4 * nbytes
    assert traffic_bytes(graph(lambda m, x: torch.softmax(x, -1))) == 3 * nbytes, "a row is read twice"
