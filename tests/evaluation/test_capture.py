"""Graphs are right if they compute what the model computes: each is run node by node and compared with eager."""

import json

import pytest
import torch
from interpreter import interpret
from models_to_capture import MODELS, Of, r

from kernelskill.evaluation.worker.capture import capture, graph_of
from kernelskill.evaluation.worker.snapshot import Snapshot
from kernelskill.evaluation.worker.state import state_of
from kernelskill.evaluation.worker.tree import encode
from kernelskill.records import Graph


def leaves_of(value):
    found = []
    encode(value, found)
    return found


@pytest.mark.parametrize("name", MODELS)
def test_a_graph_computes_what_the_model_computes(name):
    model, args, kwargs = MODELS[name]
    inputs = leaves_of([args, kwargs])
    before = Snapshot.of(model)
    state = {path: tensor.detach().clone() for path, tensor in state_of(model).items()}
    with torch.no_grad():
        result = model(*args, **kwargs)
    after = {path: tensor.detach().clone() for path, tensor in state_of(model).items()}
    before.restore(model)

    found, reason = graph_of(model, args, kwargs, result)
    assert reason == ""
    assert before.changed(model) == ([], [])
    graph = Graph.model_validate_json(json.dumps(found, allow_nan=False))
    with torch.no_grad():
        outputs, updates = interpret(graph, inputs, state)

    due = leaves_of(result)
    assert len(outputs) == len(due)
    for got, want in zip(outputs, due, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6, equal_nan=True)
    changed = [path for path in after if not torch.equal(after[path], state[path])]
    assert sorted(updates) == sorted(changed)
    for path in changed:
        torch.testing.assert_close(updates[path], after[path])
    for item in graph.inputs:
        assert tuple(inputs[item.leaf].shape) == item.spec.shape
        assert tuple(inputs[item.leaf].stride()) == item.spec.stride


def operators(name):
    model, args, kwargs = MODELS[name]
    before = Snapshot.of(model)
    graph = Graph.model_validate(capture(model, tuple(args), kwargs))
    before.restore(model)
    return graph, {node.op.split(".")[1] for node in graph.nodes}


@pytest.mark.parametrize(
    ("name", "whole"),
    [
        ("mlp", {"gelu", "_softmax", "addmm"}),
        ("conv-bn-pool", {"convolution", "_native_batch_norm_legit_functional", "avg_pool2d"}),
        ("norms", {"native_layer_norm", "native_group_norm"}),
        ("activations", {"silu", "mish", "elu", "leaky_relu", "softplus", "hardswish", "hardsigmoid", "hardtanh"}),
        ("losses", {"_log_softmax"}),
        ("scan", {"cumsum", "cumprod"}),
        ("reductions", {"logsumexp", "topk"}),
        ("lstm", {"lstm"}),
        ("gru", {"gru"}),
    ],
)  # fmt: skip
def test_operators_that_matter_as_wholes_stay_whole(name, whole):
    graph, found = operators(name)
    assert whole <= found, found
    assert not any(name.startswith("_assert") for name in found)
    assert len(graph.nodes) < 60


def test_state_has_the_models_own_names_and_nodes_tell_where_they_come_from():
    graph, _ = operators("mlp")
    assert {item.path for item in graph.state} == {"0.weight", "0.bias", "2.weight", "2.bias"}
    assert {"0", "1", "2", "3"} >= {node.origin for node in graph.nodes} > set()
    assert graph.training
    assert not operators("eval-mode")[0].training


def test_state_is_named_by_path_and_updates_name_the_buffer():
    graph, _ = operators("tied-buffers")
    kinds = {item.path: item.kind for item in graph.state}
    assert kinds == {
        "embed.weight": "parameter",
        "head.weight": "parameter",
        "scale": "buffer",
        "steps": "buffer",
    }
    assert set(graph.updates) == {"steps"}


def test_keyword_arguments_are_counted_as_the_task_gives_them():
    graph, _ = operators("keywords")
    shapes = {item.leaf: item.spec.shape for item in graph.inputs}
    assert shapes == {0: (3, 4), 1: (3, 4), 2: (4,)}


def branch(_, x):
    return x if x.sum() > 0 else -x


class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = torch.zeros(3)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        self.hidden = self.hidden + x
        return self.hidden * 2


@pytest.mark.parametrize(
    ("model", "args", "word"),
    [
        (Of(branch), [r(3)], "data-dependent"),
        (Of(lambda _, x: x.nonzero()), [r(3)], ""),
        (Of(lambda _, x: float(x.sum())), [r(3)], ""),
        (Of(lambda _, x: (x + 1, 2.5)), [r(3)], "Python numbers"),
        (Of(lambda _, x: x.add_(1)), [r(3)], "writes to"),
        (Of(lambda _, x: x + torch.from_numpy(x.numpy())), [r(3)], ""),
    ],
    ids=["branch", "nonzero", "item", "number", "writes-to-input", "numpy"],
)  # fmt: skip
def test_what_cannot_be_captured_is_told_in_one_line(model, args, word):
    copies = [arg.clone() for arg in args]
    result = model(*[arg.clone() for arg in args])
    graph, reason = graph_of(model, args, {}, result)
    assert graph is None
    assert word.lower() in reason.lower()
    assert reason
    assert "\n" not in reason
    assert all(torch.equal(a, b) for a, b in zip(args, copies, strict=True))


def test_a_module_that_rebinds_its_attributes_is_left_as_it_was():
    model = Counting()
    x = r(3)
    before = Snapshot.of(model)
    with torch.no_grad():
        result = model(x)
    before.restore(model)
    graph_of(model, [x], {}, result)
    assert type(model.hidden) is torch.Tensor
    assert model.calls == 0
    assert torch.equal(model.hidden, torch.zeros(3))
    assert torch.equal(model(x), result)
