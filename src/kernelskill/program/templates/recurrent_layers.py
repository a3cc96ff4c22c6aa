"""Recurrent layers of the library (torch.nn.GRU, LSTM, RNN): a product for all inputs, then a kernel a layer.

Whatever direction and layer: the inputs' share of the gates does not depend on the state, so it is one product of the
library for all steps.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernelskill.errors import ProgramError
from kernelskill.program.program import Program
from kernelskill.program.templates.graph_parts import Parts
from kernelskill.program.templates.recurrent import (
    GRU,
    LSTM,
    RNN_RELU,
    RNN_TANH,
    SKILL,
    Cell,
    Given,
    Recurrence,
    last,
    sequence,
)
from kernelskill.records import Arg, Node, Ref, TensorSpec

CELLS = {
    "aten.gru.input": ("gru", GRU),
    "aten.lstm.input": ("lstm", LSTM),
    "aten.rnn_tanh.input": ("rnn", RNN_TANH),
    "aten.rnn_relu.input": ("rnn", RNN_RELU),
}
"""Operator -> what the kernel is called, and one step of it."""


@dataclass(frozen=True)
class _Layers:
    """The operator's arguments."""

    node: Node
    title: str
    cell: Cell
    x: Ref
    starts: tuple[Ref, ...]
    """First states of all layers (layer and direction, row, unit), and first cells."""
    weights: tuple[Ref, ...]
    has_biases: bool
    layers: int
    directions: int
    batch_first: bool

    @property
    def per_layer(self) -> int:
        """Parameters of one layer in one direction."""
        return 4 if self.has_biases else 2


def layers_of(node: Node) -> _Layers | None:
    """A recurrent operator as a kernel can do it; None for what is none.

    Dropout between layers, projected states (LSTM with `proj_size`), packed sequences and a single sequence without a
    batch axis are left to the library.
    """
    if node.op not in CELLS or len(node.args) < 9:
        return None
    x, start, weights, has_biases, layers, dropout, train, both_ways, batch_first = node.args[:9]
    starts = start if isinstance(start, tuple) else (start,)
    flags = all(isinstance(flag, bool) for flag in (has_biases, train, both_ways, batch_first))
    if not flags or not isinstance(layers, int) or not isinstance(x, Ref) or not isinstance(weights, tuple):
        return None
    if (train and dropout and layers > 1) or (node.outputs[0] and len(node.outputs[0].shape) != 3):
        return None
    title, cell = CELLS[node.op]
    found = _Layers(
        node=node, title=title, cell=cell, x=x, starts=_refs(starts), weights=_refs(weights),
        has_biases=has_biases is True, layers=layers, directions=2 if both_ways else 1,
        batch_first=batch_first is True,
    )  # fmt: skip
    whole = len(found.starts) == (2 if cell.cell else 1)
    return found if whole and len(found.weights) == layers * found.directions * found.per_layer else None


def _refs(values: tuple[Arg, ...]) -> tuple[Ref, ...]:
    return tuple(value for value in values if isinstance(value, Ref))


def fuse_layers(program: Program, name: str) -> Program:
    """The program with one recurrent operator as products and kernels.

    Raises:
        ProgramError: it is none, or not one that a kernel can do.
    """
    node = next((item for item in program.graph.nodes if item.name == name), None)
    found = layers_of(node) if node else None
    if node is None or found is None:
        raise ProgramError(f"{name} is no recurrent layer that a kernel can do")
    return _Fusing(program, found).program()


class _Fusing:
    def __init__(self, program: Program, found: _Layers) -> None:
        self.found = found
        self.parts = Parts(program, {found.node.name})
        graph = program.graph
        used = {ref for node in graph.nodes for ref in node.refs()} | set(graph.updates.values())
        used |= {ref for ref in graph.outputs if isinstance(ref, Ref)}
        self.used = [
            Ref(node=found.node.name, output=index) in used for index in range(len(found.node.outputs))
        ]
        self.lasts: dict[str, list[Ref]] = {"state": [], "cell": []}

    def program(self) -> Program:
        found, parts = self.found, self.parts
        value, batch_first = found.x, found.batch_first
        for layer in range(found.layers):
            is_top = layer == found.layers - 1
            ways = [
                self._direction(value, batch_first, layer, way, wanted=not is_top or self.used[0])
                for way in range(found.directions)
            ]
            states = [ref for ref in ways if ref is not None]
            if len(states) == 2:
                steps, batch, hidden = parts.spec(states[0]).shape
                spec = TensorSpec.contiguous((steps, batch, 2 * hidden))
                value = parts.add("both_ways", "aten.cat.default", tuple(states), 2, spec=spec)
            elif states:
                value = states[0]
            batch_first = False
        return parts.placed(self._moved(value), SKILL)

    def _moved(self, value: Ref) -> dict[Ref, Ref]:
        """Results of the operator -> what takes their place."""
        found, parts, moved = self.found, self.parts, {}
        if self.used[0]:
            if found.batch_first:
                spec = parts.spec(value)
                order = (1, 0, 2)
                turned = spec.model_copy(
                    update={
                        "shape": tuple(spec.shape[axis] for axis in order),
                        "stride": tuple(spec.stride[axis] for axis in order),
                    }
                )
                value = parts.add("batch_first", "aten.permute.default", value, order, spec=turned)
            moved[Ref(node=found.node.name)] = value
        for index, what in enumerate(("state", "cell"), 1):
            if index < len(self.used) and self.used[index]:
                ends = self.lasts[what]
                _, batch, hidden = parts.spec(ends[0]).shape
                spec = TensorSpec.contiguous((len(ends), batch, hidden))
                whole = parts.add(f"last_{what}s", "aten.cat.default", tuple(ends), 0, spec=spec)
                moved[Ref(node=found.node.name, output=index)] = ends[0] if len(ends) == 1 else whole
                if len(ends) == 1:
                    parts.nodes.pop()
        return moved

    def _direction(self, x: Ref, batch_first: bool, layer: int, way: int, *, wanted: bool) -> Ref | None:
        """States of all steps of a layer in one direction, (time, row, unit); None where nobody wants them."""
        found, parts = self.found, self.parts
        place = layer * found.directions + way
        weights = found.weights[place * found.per_layer : (place + 1) * found.per_layer]
        shape = parts.spec(x).shape
        batch, steps = shape[:2] if batch_first else shape[1::-1]
        columns, hidden = parts.spec(weights[1]).shape
        self._require_plain(x, *weights, *found.starts)
        if columns != found.cell.gates * hidden or parts.spec(weights[0]).shape != (columns, shape[2]):
            raise ProgramError(f"{found.node.name} projects its state")
        gates = parts.product(
            "from_inputs", parts.rows(x), weights[0], weights[2] if found.has_biases else None
        )
        starts = [parts.select("first", start, place) for start in found.starts]
        stored = [sequence(steps, batch, hidden)] if wanted else []
        kinds = [what for what, used in zip(("state", "cell"), self.used[1:], strict=False) if used]
        stored += [last("cell" if what == "cell" else "state", (1, batch, hidden)) for what in kinds]
        if not stored:
            return None
        one, many = columns, columns * (steps if batch_first else batch)
        recurrence = Recurrence(
            cell=found.cell, steps=steps, batch=batch, hidden=hidden,
            given=(Given("from_inputs", time=one if batch_first else many, row=many if batch_first else one),),
            starts=tuple(parts.spec(start).stride[0] for start in starts), stored=tuple(stored),
            bias=found.has_biases, reverse=way == 1,
        )  # fmt: skip
        words = f"{steps} steps of {found.title.upper()} layer {layer + 1}{' backwards' if way else ''}"
        kernel = recurrence.kernel(parts.name(f"{found.title}_steps"), words)
        results = parts.call(kernel, gates, *starts, weights[1], *weights[3:])
        for what, ref in zip(kinds, results[1:] if wanted else results, strict=True):
            self.lasts[what].append(ref)
        return results[0] if wanted else None

    def _require_plain(self, *refs: Ref) -> None:
        for ref in refs:
            spec = self.parts.spec(ref)
            if spec.dtype != "float32" or not spec.shape or spec.stride[-1] != 1:
                raise ProgramError(f"{ref.node} is not a plain float32 tensor")
        for weight in self.found.weights:
            if not self.parts.spec(weight).is_contiguous:
                raise ProgramError(f"{weight.node} is not contiguous")
