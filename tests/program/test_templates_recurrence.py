"""Recurrences in one kernel a layer: the library's layers, and loops over cells, against PyTorch."""

from __future__ import annotations

import pytest
import torch
from small_programs import Case, Computes, build, check
from torch import nn

from kernelskill.errors import ProgramError
from kernelskill.evaluation.worker.capture import capture
from kernelskill.program.program import Program
from kernelskill.program.rewrite import remove_dead, simplify
from kernelskill.program.templates.recurrent_layers import CELLS, fuse_layers
from kernelskill.program.templates.unrolled_sites import fuse_unrolled, recurrences
from kernelskill.records import Graph

draw = torch.randn


class Layers(Case):
    """Each recurrent operator becomes kernels, and nothing else."""

    def fuse(self, graph: Graph | None = None) -> None:
        graph = Graph.model_validate(capture(self.model, tuple(self.inputs), {}))
        program = Program.from_graph(graph)
        for node in graph.nodes:
            if node.op in CELLS:
                program = fuse_layers(program, node.name)
        for kernel in program.kernels:
            renamed = f"{self.name}_{kernel.name}"
            program = self.renamed(program, kernel.name, renamed)
        self.program = program

    def renamed(self, program: Program, before: str, after: str) -> Program:
        """All cases share a library, so each kernel needs a name of its own."""
        kernels = tuple(
            item.model_copy(
                update={"name": after, "schedule": item.schedule.model_copy(update=self.schedule)}
            )
            if item.name == before
            else item
            for item in program.kernels
        )
        nodes = tuple(
            node.model_copy(update={"op": f"kernel:{after}"}) if node.op == f"kernel:{before}" else node
            for node in program.graph.nodes
        )
        graph = program.graph.model_copy(update={"nodes": nodes})
        return program.model_copy(update={"kernels": kernels, "graph": graph})


def only_states(layer, *inputs):
    return layer(*inputs)[0]


def all_three(layer, x):
    states, (state, cell) = layer(x)
    return states, state, cell


LAYERS = {
    "gru": (nn.GRU(5, 16), draw(7, 3, 5)),
    "gru_one_row": (nn.GRU(6, 13), draw(9, 1, 6)),
    "gru_odd": (nn.GRU(5, 13, batch_first=True), draw(11, 4, 5)),
    "gru_one_step": (nn.GRU(5, 9), draw(1, 2, 5)),
    "gru_deep": (nn.GRU(4, 11, 3, batch_first=True), draw(5, 6, 4), draw(3, 5, 11)),
    "gru_no_bias": (nn.GRU(4, 10, bias=False), draw(6, 3, 4)),
    "gru_both_ways": (nn.GRU(4, 7, 2, bidirectional=True, batch_first=True), draw(3, 5, 4), draw(4, 3, 7)),
    "gru_started": (nn.GRU(3, 20), draw(4, 5, 3), draw(1, 5, 20)),
    "gru_states": (Computes(only_states, nn.GRU(3, 20, 2)), draw(4, 5, 3)),
    "gru_last": (Computes(lambda layer, x: layer(x)[1], nn.GRU(3, 17)), draw(4, 5, 3)),
    "gru_turned": (Computes(lambda layer, x: layer(x.transpose(0, 1)), nn.GRU(3, 8)), draw(4, 5, 3)),
    "gru_threads": (nn.GRU(16, 40), draw(40, 33, 16)),
    "gru_more_threads": (nn.GRU(16, 40), draw(40, 7, 16)),
    "gru_packed_together": (nn.GRU(8, 160), draw(3, 9, 8)),
    "lstm": (Computes(all_three, nn.LSTM(5, 16)), draw(7, 3, 5)),
    "lstm_odd": (Computes(all_three, nn.LSTM(5, 13)), draw(7, 1, 5)),
    "lstm_deep": (Computes(only_states, nn.LSTM(4, 9, 2, bias=False, batch_first=True)), draw(5, 6, 4)),
    "lstm_cells": (Computes(lambda layer, x: layer(x)[1][1], nn.LSTM(4, 12, 2)), draw(6, 5, 4)),
    "lstm_started": (
        Computes(lambda layer, x, h, c: layer(x, (h, c))[0], nn.LSTM(4, 12)), draw(6, 5, 4), draw(1, 5, 12), draw(1, 5, 12),
    ),
    "lstm_both_ways": (Computes(only_states, nn.LSTM(4, 6, bidirectional=True)), draw(6, 9, 4)),
    "tanh": (nn.RNN(5, 19), draw(7, 10, 5)),
    "relu": (nn.RNN(5, 8, 2, nonlinearity="relu"), draw(7, 2, 5)),
    "nan": (nn.GRU(3, 9), torch.where(draw(5, 4, 3) > 1.5, torch.nan, draw(5, 4, 3))),
}  # fmt: skip
WIDTHS = (128, 256, 512)


def built(kind, table, folder):
    """All cases of a table with one library of their kernels; the widths of registers take turns."""
    made = {
        name: kind(name, model, list(inputs), schedule={"vector_bits": WIDTHS[turn % 3]})
        for turn, (name, (model, *inputs)) in enumerate(table.items())
    }
    for case in made.values():
        case.fuse()
    library = build([kernel for case in made.values() for kernel in case.program.kernels], folder)
    return {name: (case, library) for name, case in made.items()}


@pytest.fixture(scope="module")
def layers(tmp_path_factory):
    return built(Layers, LAYERS, tmp_path_factory.mktemp("recurrences"))


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_is_as_accurate_as_the_librarys(layers, name):
    case, library = layers[name]
    case.threads = 6 if name.endswith("more_threads") else 2
    assert case.program.kernels
    assert not {*CELLS} & set(case.left)
    check(case, library)


class Loops(Layers):
    """Each recurrence that is spelled out becomes a kernel."""

    def fuse(self, graph: Graph | None = None) -> None:
        graph = Graph.model_validate(capture(self.model, tuple(self.inputs), {}))
        self.program = Program.from_graph(simplify(remove_dead(graph))[0])
        while found := recurrences(self.program):
            self.program = fuse_unrolled(self.program, found[0].steps[0].product.name)
        for kernel in self.program.kernels:
            self.program = self.renamed(self.program, kernel.name, f"{self.name}_{kernel.name}")


def over_time(x, along=0):
    return (x.select(along, index) for index in range(x.shape[along]))


def cells(cell, x, h):
    for part in over_time(x):
        h = cell(part, h)
    return h


def all_states(cell, x, h, dim=1):
    states = []
    for part in over_time(x, 1):
        h = cell(part, h)
        states.append(h)
    return torch.stack(states, dim), h


def some_states(cell, x, h):
    states = [h := cell(part, h) for part in over_time(x)]
    return states[1] * 2, states[-1]


def long_short(cell, x, h, c):
    states = []
    for part in over_time(x):
        h, c = cell(part, (h, c))
        states.append(h)
    return torch.stack(states), c


def by_hand(inputs, state, x):
    """Gates in another order, a product without a bias, and a state that decays."""
    h = x.new_zeros(x.shape[1], state.in_features)
    for part in over_time(x):
        update, new = (inputs(part) + state(h)).chunk(2, 1)
        h = 0.5 * (h + new.tanh()) - torch.sigmoid(update) * h * 0.1
    return h


def minimal_gated(inputs, state, x):
    h = x.new_zeros(x.shape[0], state.in_features)
    for part in over_time(x, 1):
        gate = torch.sigmoid(inputs(part)[:, : h.shape[1]] + state(h))
        h = gate * h + (1 - gate) * inputs(part)[:, h.shape[1] :]
    return h


def scaled_units(state, scale, shift, x, spread, rows):
    """Numbers of each unit, of each unit as a row, and of each row and unit, the same in all steps; and no product of x."""
    h = torch.zeros_like(rows)
    for part in over_time(x):
        h = torch.tanh(part + state(h) * scale.weight[0] + spread) * rows + shift.weight[0]
    return h


def two_deep(first, second, x, h, g):
    for part in over_time(x):
        h = first(part, h)
        g = second(h, g)
    return g


LOOPS = {
    "gru": (Computes(cells, nn.GRUCell(5, 13)), draw(6, 4, 5), draw(4, 13)),
    "gru_one_row": (Computes(cells, nn.GRUCell(5, 16, bias=False)), draw(6, 1, 5), draw(1, 16)),
    "gru_states": (Computes(all_states, nn.GRUCell(5, 9)), draw(4, 6, 5), draw(4, 9)),
    "gru_stacked_first": (Computes(lambda *a: all_states(*a, dim=0), nn.GRUCell(5, 9)), draw(4, 6, 5), draw(4, 9)),
    "gru_some": (Computes(some_states, nn.GRUCell(5, 8)), draw(5, 3, 5), draw(3, 8)),
    "gru_spread": (Computes(lambda cell, x, h: cells(cell, x, h.expand(7, 10)), nn.GRUCell(3, 10)), draw(5, 7, 3), draw(1, 10)),
    "lstm": (Computes(long_short, nn.LSTMCell(5, 11)), draw(6, 4, 5), draw(4, 11), draw(4, 11)),
    "rnn": (Computes(cells, nn.RNNCell(5, 12, nonlinearity="relu")), draw(6, 2, 5), draw(2, 12)),
    "two_deep": (Computes(two_deep, nn.GRUCell(3, 9), nn.GRUCell(9, 7)), draw(5, 6, 3), draw(6, 9), draw(6, 7)),
    "by_hand": (Computes(by_hand, nn.Linear(4, 18), nn.Linear(9, 18, bias=False)), draw(6, 5, 4)),
    "scaled": (
        Computes(scaled_units, nn.Linear(9, 9, bias=False), nn.Linear(9, 1), nn.Linear(9, 1)),
        draw(5, 4, 9), draw(1, 9), draw(4, 9),
    ),
    "minimal": (Computes(minimal_gated, nn.Linear(4, 20), nn.Linear(10, 10)), draw(6, 5, 4)),
}  # fmt: skip


@pytest.fixture(scope="module")
def loops(tmp_path_factory):
    return built(Loops, LOOPS, tmp_path_factory.mktemp("loops"))


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_over_cells_is_one_kernel(loops, name):
    case, library = loops[name]
    assert len(case.program.kernels) == 1 + (name == "two_deep")
    products = [op for op in case.left if op in {"aten.addmm.default", "aten.mm.default"}]
    others = {"scaled": -1, "by_hand": 2}.get(name, 0)
    assert len(products) == len(case.program.kernels) + others, "one product of all inputs a layer"
    sigmoids = case.left.count("aten.sigmoid.default")
    assert sigmoids == (name == "by_hand"), "its first step starts from zeros, and is another"
    check(case, library)


def two_steps(cell, x, h):
    return cell(x[1], cell(x[0], h))


def feeds_back(cell, head, x, h):
    """What goes in depends on the state."""
    for part in over_time(x):
        h = cell(part + head(h), h)
    return h


def changing(cell, x, h):
    for index, part in enumerate(over_time(x)):
        h = cell(part, h) * (1.0 + index)
    return h


def mixes_units(cell, x, h):
    for part in over_time(x):
        h = cell(part, h).softmax(1)
    return h


def shows_gates(cell, x, h):
    shown = []
    for part in over_time(x):
        before, h = h, cell(part, h)
        shown.append(torch.sigmoid(h @ cell.weight_hh.t()).sum())
    return h, torch.stack(shown), before


@pytest.mark.parametrize(
    ("function", "modules"),
    [
        (two_steps, [nn.GRUCell(5, 6)]),
        (feeds_back, [nn.GRUCell(5, 6), nn.Linear(6, 5)]),
        (changing, [nn.GRUCell(5, 6)]),
        (mixes_units, [nn.GRUCell(5, 6)]),
        (shows_gates, [nn.GRUCell(5, 6)]),
    ],
)
def test_other_loops_are_left_alone(function, modules):
    model = Computes(function, *modules)
    graph = Graph.model_validate(capture(model, (draw(4, 3, 5), draw(3, 6)), {}))
    program = Program.from_graph(simplify(remove_dead(graph))[0])
    assert recurrences(program) == []
    with pytest.raises(ProgramError, match="no recurrence"):
        fuse_unrolled(program, "addmm")


@pytest.mark.parametrize(
    "layer",
    [
        nn.LSTM(5, 8, proj_size=4),
        nn.GRU(5, 8, 2, dropout=0.5),
        nn.GRU(5, 8).double(),
    ],
)
def test_other_layers_stay_with_the_library(layer):
    x = draw(4, 3, 5, dtype=next(layer.parameters()).dtype)
    graph = Graph.model_validate(capture(Computes(only_states, layer), (x,), {}))
    program = Program.from_graph(graph)
    (node,) = (node for node in graph.nodes if node.op in CELLS)
    with pytest.raises(ProgramError):
        fuse_layers(program, node.name)
