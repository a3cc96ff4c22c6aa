"""The reference as a graph of ATen calls in plain JSON.

Stand-alone use: `Graph.model_validate(capture(model, (x, y), {"scale": z}))`. The model is a module (wrap a function
with `reference.wrapped`), in the mode that it is in. `graph_of` is the same for `describe`: it never raises, adds the
nesting of the results, and leaves no trace in the model.

The model is exported with static shapes and taken apart to functional core ATen. Operators in `KEPT` stay whole.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import torch
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils import _pytree as pytree

from .snapshot import Snapshot
from .tree import encode

_KEPT = """silu mish elu selu celu relu6 leaky_relu prelu _prelu_kernel rrelu softplus hardswish hardsigmoid
    log_sigmoid log_sigmoid_forward logsumexp special_logsumexp nll_loss nll_loss_nd nll_loss2d nll_loss_forward
    nll_loss2d_forward max_pool1d max_pool2d max_pool3d max_pool1d_with_indices avg_pool1d avg_pool2d avg_pool3d
    adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d lstm gru rnn_tanh rnn_relu"""
KEPT = frozenset(_KEPT.split())
"""Operators (without overload) that torch would take apart and that stay whole, because a kernel, a template or a
library call replaces each as a whole: activations that are one expression, log-sum-exp, class-index losses, pooling,
and recurrent layers (which would be unrolled over time). Core ATen keeps these by itself: softmax and log_softmax,
layer, group and batch norm, gelu, hardtanh, relu, sigmoid, cumsum, convolution, max_pool*d_with_indices, reductions,
index and scatter. Everything else is taken apart: cross_entropy -> _log_softmax + nll_loss, mse/l1/smooth_l1/huber ->
arithmetic + mean, linear -> addmm, matmul and einsum -> bmm, rms_norm -> arithmetic."""
LARGEST_CONSTANT = 4096
"""Elements of the largest constant that is written into the graph."""
CHECKS = frozenset({"_assert_tensor_metadata", "_assert_async", "_assert_scalar", "_functional_assert_async"})
"""Operators that compute nothing."""


def capture(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Graph JSON of one forward pass; `outputs_tree` is left None.

    Raises:
        Exception: whatever torch.export raises for what it cannot trace; RuntimeError for what has no form here.
    """
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exported = torch.export.export(model, tuple(args), kwargs, strict=False)
        table = torch.export.default_decompositions()
        for operator in list(table):
            if str(operator).startswith("aten.") and _name(operator) in KEPT:
                del table[operator]
        exported = exported.run_decompositions(table)
    return _Writer(exported, (list(args), kwargs)).graph(model.training)


def graph_of(model: torch.nn.Module, args: Any, kwargs: dict[str, Any], result: Any) -> tuple[Any, str]:
    """The graph with the nesting of its results, or None and one line that says why not.

    Args:
        model: exported in its current mode.
        args: positional arguments.
        kwargs: keyword arguments.
        result: what forward gives on them.
    """
    before = Snapshot.of(model)
    try:
        graph = capture(model, tuple(args), kwargs)
        leaves: list[Any] = []
        graph["outputs_tree"] = encode(result, leaves, numbers=True)
        if not all(isinstance(leaf, torch.Tensor) for leaf in leaves):
            return None, "the result holds Python numbers, which a graph cannot compute"
        if len(leaves) != len(graph["outputs"]):
            return None, f"export gives {len(graph['outputs'])} results, forward gives {len(leaves)}"
        return graph, ""
    except Exception as error:  # noqa: BLE001  torch.export may raise anything; the run goes on without a graph
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return None, f"{type(error).__name__}: {lines[0][:300] if lines else ''}"
    finally:
        before.restore(model)


def tensor_spec(tensor: Any) -> dict[str, Any]:
    """TensorSpec JSON of a real or fake tensor."""
    return {
        "shape": [int(size) for size in tensor.shape],
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "stride": [int(step) for step in tensor.stride()],
    }


class _Writer:
    def __init__(self, exported: Any, arguments: tuple[list[Any], dict[str, Any]]) -> None:
        self.exported = exported
        self.leaf_of = _leaves(exported, arguments)
        self.places = {
            spec.arg.name: spec for spec in exported.graph_signature.input_specs if hasattr(spec.arg, "name")
        }
        self.alias: dict[str, tuple[str, int]] = {}
        self.inputs: list[dict[str, Any]] = []
        self.state: list[dict[str, Any]] = []
        self.nodes: list[dict[str, Any]] = []

    def graph(self, training: bool) -> dict[str, Any]:
        results: tuple[Any, ...] = ()
        users = 0
        for node in self.exported.graph.nodes:
            if node.op == "placeholder":
                place, value = self.places[node.name], node.meta.get("val")
                if place.kind != InputKind.USER_INPUT:
                    self.state.append(self._state(node.name, place, value))
                    continue
                if isinstance(value, torch.Tensor):
                    leaf = self.leaf_of[users]
                    self.inputs.append({"name": node.name, "spec": tensor_spec(value), "leaf": leaf})
                users += 1
            elif node.op == "call_function":
                self._call(node)
            elif node.op == "output":
                results = tuple(node.args[0])
        outputs, updates = self._results(results)
        return {
            "inputs": sorted(self.inputs, key=lambda item: item["leaf"]),
            "state": self.state,
            "nodes": self.nodes,
            "outputs": outputs,
            "outputs_tree": None,
            "updates": updates,
            "training": training,
        }

    def _results(self, results: tuple[Any, ...]) -> tuple[list[Any], dict[str, Any]]:
        outputs, updates = [], {}
        for value, place in zip(results, self.exported.graph_signature.output_specs, strict=True):
            if place.kind == OutputKind.BUFFER_MUTATION:
                updates[place.target] = _arg(value, self.alias)
            elif place.kind != OutputKind.USER_OUTPUT:
                raise RuntimeError(f"forward writes to {place.target}")
            elif isinstance(value, torch.fx.Node):
                outputs.append(_arg(value, self.alias))
        return outputs, updates

    def _state(self, name: str, place: Any, value: Any) -> dict[str, Any]:
        if not isinstance(value, torch.Tensor):
            raise RuntimeError(f"{place.target} is not a tensor")
        entry = {"name": name, "path": place.target or name, "spec": tensor_spec(value)}
        if place.kind in (InputKind.PARAMETER, InputKind.BUFFER):
            return {**entry, "kind": "parameter" if place.kind == InputKind.PARAMETER else "buffer"}
        constant = self.exported.constants.get(place.target)
        if not isinstance(constant, torch.Tensor) or constant.numel() > LARGEST_CONSTANT:
            raise RuntimeError(f"constant {place.target} is too large to be written into the graph")
        return {**entry, "kind": "constant", "value": _constant(constant.tolist())}

    def _call(self, node: Any) -> None:
        if getattr(node.target, "__name__", "") == "getitem":
            self.alias[node.name] = (node.args[0].name, int(node.args[1]))
            return
        if not isinstance(node.target, torch._ops.OpOverload):
            raise RuntimeError(f"{node.target} is not a plain operator")
        if _name(node.target) in CHECKS:
            return
        value = node.meta.get("val")
        values = list(value) if isinstance(value, list | tuple) else [value]
        stack = list((node.meta.get("nn_module_stack") or {}).values())
        path = str(stack[-1][0]) if stack else ""
        self.nodes.append(
            {
                "name": node.name,
                "op": str(node.target),
                "args": [_arg(item, self.alias) for item in node.args],
                "kwargs": {key: _arg(item, self.alias) for key, item in node.kwargs.items()},
                "outputs": [tensor_spec(item) if isinstance(item, torch.Tensor) else None for item in values],
                "origin": path.removeprefix("L['self']").removeprefix("."),
            }
        )


def _leaves(exported: Any, arguments: tuple[list[Any], dict[str, Any]]) -> list[int]:
    """Per placeholder of the user: which tensor leaf of the arguments it is (-1 for what is no tensor).

    torch.export may order keyword arguments as forward declares them; leaves are counted as the task gives them.
    """
    spec = exported.call_spec.in_spec
    args, kwargs = pytree.tree_unflatten(list(range(spec.num_leaves)), spec)
    order: list[int] = []
    given: list[Any] = []
    for positions, values in (
        (list(args), arguments[0]),
        *((kwargs[key], arguments[1][key]) for key in arguments[1]),
    ):
        order += pytree.tree_leaves(positions)
        given += pytree.tree_leaves(values)
    leaf_of, count = [-1] * len(order), 0
    for position, value in zip(order, given, strict=True):
        if isinstance(value, torch.Tensor):
            leaf_of[position] = count
            count += 1
    return leaf_of


def _arg(value: Any, alias: dict[str, tuple[str, int]]) -> Any:
    if isinstance(value, torch.fx.Node):
        node, output = alias.get(value.name, (value.name, 0))
        return {"node": node, "output": output}
    if isinstance(value, list | tuple):
        return [_arg(item, alias) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"number": str(value)}
    if isinstance(value, bool | int | float | str) or value is None:
        return value
    if isinstance(value, torch.dtype | torch.device | torch.layout | torch.memory_format):
        return str(value).removeprefix("torch.")
    raise RuntimeError(f"an argument of type {type(value).__name__} cannot be written into the graph")


def _constant(value: Any) -> Any:
    """Elements as JSON."""
    if isinstance(value, list):
        return [_constant(item) for item in value]
    if isinstance(value, complex) or value != value or value in (math.inf, -math.inf):
        raise RuntimeError(f"a constant holds {value}, which cannot be written into the graph")
    return value


def _name(operator: Any) -> str:
    """The operator without namespace and overload (mul for aten.mul.Tensor)."""
    return str(operator).split(".")[1]
