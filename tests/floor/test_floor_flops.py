"""FLOPs against torch's own counter, on graphs that the reference worker captures."""

import pytest
import torch
from hand_graphs import captured, workload
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from kernelskill.floor.model import minimal, node_works
from kernelskill.floor.ops import Call, work
from kernelskill.floor.traffic import layouts
from kernelskill.records.operators import family

HEAVY = {"conv", "matmul", "attention", "recurrent"}


class Product(nn.Module):
    def forward(self, a, b):
        return a @ b


def flops_of(graph):
    simple = minimal(graph)
    works = node_works(simple, layouts(simple))
    return sum(works[node.name].flops for node in simple.nodes if family(node.op) in HEAVY)


def torch_flops(model, args):
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(*args)
    return counter.get_total_flops()


@pytest.mark.parametrize(
    ("model", "shapes"),
    [
        (nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 32)), [(16, 64)]),
        (nn.Conv2d(8, 16, 3, groups=2, stride=2), [(2, 8, 17, 17)]),
        (nn.Conv1d(4, 6, 5, dilation=3), [(2, 4, 50)]),
        (nn.Conv3d(2, 4, (1, 2, 3)), [(1, 2, 5, 6, 7)]),
        (nn.ConvTranspose2d(8, 16, 3, stride=2), [(2, 8, 9, 9)]),
        (nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)), [(2, 3, 16, 16)]),
        (nn.GRU(8, 16), [(3, 7, 8)]),
        (Product(), [(3, 4, 5), (3, 5, 6)]),
        (Product(), [(2, 3, 4, 5), (5, 6)]),
    ],
    ids=["mlp", "grouped", "dilated", "3d", "transposed", "batch-norm", "gru", "bmm", "broadcast"],
)
def test_flops_are_those_of_torch(model, shapes):
    args = [torch.randn(shape) for shape in shapes]
    assert flops_of(captured(model, *args)) == torch_flops(model, args)


@pytest.mark.parametrize(
    ("model", "shape", "pairs"),
    [
        # 3 taps over 5 positions with padding 1 meet 13 elements instead of 15
        (nn.Conv1d(2, 3, 3, padding=1), (1, 2, 5), 13),
        # 4 inputs, stride 2, 3 taps, one cropped at each end: 12 - 2
        (nn.ConvTranspose1d(2, 3, 3, stride=2, padding=1), (1, 2, 4), 10),
    ],
)
def test_taps_on_padding_are_not_counted(model, shape, pairs):
    x = torch.randn(shape)
    assert flops_of(captured(model, x)) == 2 * 2 * 3 * pairs < torch_flops(model, [x])


def test_attention_is_two_products_and_a_softmax():
    q = torch.randn(2, 4, 16, 8)
    model = type(
        "Attend",
        (nn.Module,),
        {"forward": lambda self, q, k, v: nn.functional.scaled_dot_product_attention(q, k, v)},
    )()
    graph = captured(model, q, q + 1, q + 2)
    simple = minimal(graph)
    works = node_works(simple, layouts(simple))
    assert flops_of(graph) == 2 * 2 * (2 * 4 * 16 * 16 * 8)
    assert sum(item.transcendentals for item in works.values()) == 2 * 4 * 16 * 16


def test_every_captured_operator_of_common_layers_is_in_a_family():
    layers = [nn.LayerNorm(16), nn.GroupNorm(2, 8), nn.Softmax(-1), nn.GELU(), nn.Mish(), nn.AvgPool2d(3),
              nn.InstanceNorm2d(8), nn.LSTM(8, 4), nn.Hardtanh(), nn.Softplus(),
              nn.Upsample(scale_factor=2)]  # fmt: skip
    shapes = {"LSTM": (3, 2, 8), "LayerNorm": (2, 8, 16, 16)}
    for layer in layers:
        graph = captured(layer, torch.randn(shapes.get(type(layer).__name__, (2, 8, 16, 16))))
        assert {node.op for node in graph.nodes if family(node.op) == "other"} == set(), layer


def test_work_is_never_negative_for_what_torch_captures():
    graph = captured(
        nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True), torch.randn(2, 6, 16)
    )
    specs = layouts(graph)
    for node in graph.nodes:
        done = work(Call(node, tuple(specs[ref] for ref in node.refs())))
        assert done.flops >= 0
        assert done.transcendentals >= 0
    assert workload(graph).graph is graph
