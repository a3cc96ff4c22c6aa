"""The reference as a graph of ATen calls in plain JSON.

`capture(model, args, kwargs)` exports with static shapes, in the model's own mode, to functional core ATen, and writes
`records.Graph`. Operators in `KEPT` are not taken apart, because kernels are made of them as wholes.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch.export.graph_signature import InputKind, OutputKind

from .tree import encode

KEPT = ("nll_loss", "log_sigmoid", "huber_loss_", "hardswish", "hardsigmoid", "silu", "softplus", "mish", "logsumexp",
        "max_pool", "avg_pool", "leaky_relu", "elu")  # fmt: skip
"""Decompositions of operators with these words in their name are left out."""
LARGEST_CONSTANT = 4096
"""Elements of the largest constant that is written into the graph."""


def capture(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Graph JSON of one forward pass.

    Raises:
        Exception: whatever torch.export raises for what it cannot trace.
    """
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exported = torch.export.export(model, args, kwargs, strict=False)
        table = torch.export.default_decompositions()
        for operator in list(table):
            if any(word in str(operator) for word in KEPT):
                del table[operator]
        exported = exported.run_decompositions(table)
    return _Writer(exported, model).graph(model.training)


def tensor_spec(tensor: Any) -> dict[str, Any]:
    """TensorSpec JSON of a real or fake tensor."""
    return {
        "shape": [int(size) for size in tensor.shape],
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "stride": [int(step) for step in tensor.stride()],
    }


class _Writer:
    def __init__(self, exported: Any, model: torch.nn.Module) -> None:
        self.exported = exported
        self.model = model
        self.alias: dict[str, tuple[str, int]] = {}

    def graph(self, training: bool) -> dict[str, Any]:
        inputs: list[dict[str, Any]] = []
        state: list[dict[str, Any]] = []
        nodes: list[dict[str, Any]] = []
        results: tuple[Any, ...] = ()
        places = {
            spec.arg.name: spec for spec in self.exported.graph_signature.input_specs if hasattr(spec.arg, "name")
        }
        leaf = 0
        for node in self.exported.graph.nodes:
            if node.op == "placeholder":
                place = places[node.name]
                value = node.meta.get("val")
                if place.kind == InputKind.USER_INPUT:
                    if isinstance(value, torch.Tensor):
                        inputs.append({"name": node.name, "spec": tensor_spec(value), "leaf": leaf})
                        leaf += 1
                else:
                    state.append(self._state(node.name, place, value))
            elif node.op == "call_function":
                if getattr(node.target, "__name__", "") == "getitem":
                    self.alias[node.name] = (node.args[0].name, int(node.args[1]))
                else:
                    nodes.append(self._node(node))
            elif node.op == "output":
                results = tuple(node.args[0])
        outputs, updates = [], {}
        for value, place in zip(results, self.exported.graph_signature.output_specs, strict=True):
            if place.kind == OutputKind.USER_OUTPUT:
                outputs.append(self._arg(value))
            elif place.kind == OutputKind.BUFFER_MUTATION:
                updates[place.target] = self._arg(value)
            else:
                raise RuntimeError(f"forward writes to {place.target}")
        return {
            "inputs": inputs,
            "state": state,
            "nodes": nodes,
            "outputs": outputs,
            "outputs_tree": None,
            "updates": updates,
            "training": training,
        }

    def _state(self, name: str, place: Any, value: Any) -> dict[str, Any]:
        entry = {"name": name, "path": place.target or name, "spec": tensor_spec(value)}
        if place.kind == InputKind.PARAMETER:
            return {**entry, "kind": "parameter"}
        if place.kind == InputKind.BUFFER:
            return {**entry, "kind": "buffer"}
        constant = self.exported.constants.get(place.target)
        if not isinstance(constant, torch.Tensor) or constant.numel() > LARGEST_CONSTANT:
            raise RuntimeError(f"constant {place.target} is too large to be written into the graph")
        return {**entry, "kind": "constant", "value": constant.tolist()}

    def _node(self, node: Any) -> dict[str, Any]:
        value = node.meta.get("val")
        values = list(value) if isinstance(value, list | tuple) else [value]
        stack = node.meta.get("nn_module_stack") or {}
        origin = list(stack.values())[-1][0] if stack else ""
        return {
            "name": node.name,
            "op": str(node.target),
            "args": [self._arg(item) for item in node.args],
            "kwargs": {key: self._arg(item) for key, item in node.kwargs.items()},
            "outputs": [tensor_spec(item) if isinstance(item, torch.Tensor) else None for item in values],
            "origin": origin.removeprefix("L['self'].").removeprefix("L['self']"),
        }

    def _arg(self, value: Any) -> Any:
        if isinstance(value, torch.fx.Node):
            node, output = self.alias.get(value.name, (value.name, 0))
            return {"node": node, "output": output}
        if isinstance(value, list | tuple):
            return [self._arg(item) for item in value]
        if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
            return {"number": str(value)}
        if isinstance(value, bool | int | float | str) or value is None:
            return value
        return str(value).removeprefix("torch.")


def graph_of(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, str]:
    """The graph with the nesting of its results, or None and one line that says why not."""
    kept = {name: buffer.clone() for name, buffer in model.named_buffers()}
    try:
        graph = capture(model, args, kwargs)
        with torch.no_grad():
            result = model(*args, **kwargs)
        leaves: list[Any] = []
        graph["outputs_tree"] = encode(result, leaves, numbers=True)
        if len(leaves) != len(graph["outputs"]) or not all(isinstance(leaf, torch.Tensor) for leaf in leaves):
            return None, "results are not all tensors"
        return graph, ""
    except Exception as error:  # noqa: BLE001  torch.export may raise anything; the run goes on without a graph
        lines = str(error).strip().splitlines()
        return None, f"{type(error).__name__}: {lines[0][:300] if lines else ''}"
    finally:
        with torch.no_grad():
            for name, buffer in model.named_buffers():
                if name in kept:
                    buffer.copy_(kept[name])
