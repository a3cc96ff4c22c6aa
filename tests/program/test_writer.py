"""Written files: they import, keep the reference's constructor and names, and answer as the reference does."""

from __future__ import annotations

import copy
import importlib.util
import itertools
import textwrap
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from small_programs import ORDER, export, layout
from torch.autograd import forward_ad

from kernelskill.program import Program, fusion, guard, write
from kernelskill.records import Json, Reference, StateSpec, Task, TensorSpec, Workload

NUMBERS = itertools.count()


def loaded(source: str, folder: Path) -> Any:
    """The text as a module of its own."""
    path = folder / f"written_{next(NUMBERS)}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Written:
    """A reference given as text, and the candidate written for it."""

    def __init__(
        self,
        text: str,
        inputs: list[torch.Tensor],
        folder: Path,
        tree: Json = None,
        init: tuple[Any, ...] = (),
    ) -> None:
        self.text = textwrap.dedent(text)
        self.original = loaded(self.text, folder)
        is_module = hasattr(self.original, "Model")
        torch.manual_seed(0)
        self.reference = self.original.Model(*init) if is_module else self.original.function
        held = self.reference if is_module else Calls(self.reference)
        graph = export(held, inputs)
        program = Program.from_graph(graph)
        for kind in ORDER:
            for site in fusion.sites(program, kind):
                program = fusion.fuse(program, site, skill=f"fuse-{kind}").with_skill(f"fuse-{kind}")
        state = () if not is_module else tuple(
            StateSpec(path=item.path, spec=item.spec, kind=item.kind) for item in graph.state if item.kind != "constant"
        )  # fmt: skip
        specs = [layout(item) for item in inputs]
        workload = Workload(
            inputs=tuple(item for item in specs if item is not None),
            inputs_tree=tree or {"list": [{"tensor": index} for index in range(len(inputs))]},
            outputs=(), outputs_tree=graph.outputs_tree, state=state, eager_ms=1.0, graph=graph,
        )  # fmt: skip
        kind = "module" if is_module else "function"
        entry = "Model" if is_module else "function"
        reference = Reference(loader="source", kind=kind, entry=entry, source=self.text)
        self.task = Task(name="example", hash="0" * 64, reference=reference, origin="example.py")
        self.program, self.workload = program, workload
        self.source = write(program, self.task, workload)
        self.module = loaded(self.source, folder)
        torch.manual_seed(0)
        self.candidate = self.module.ModelNew(*init)


class Calls(torch.nn.Module):
    """A function as a module, for export."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


MODEL = """
    import torch
    import torch.nn as nn
    import torch.nn.functional as F

    SCALE = 0.5

    def squash(x):
        return torch.tanh(x) * SCALE

    class Model(nn.Module):
        def __init__(self, width):
            super(Model, self).__init__()
            self.linear = nn.Linear(width, width)
            self.norm = nn.BatchNorm1d(width)
            self.blocks = nn.ModuleList([nn.LayerNorm(width)])

        def forward(self, x, mask=None):
            x = self.norm(self.linear(x))
            x = self.blocks[0](squash(F.gelu(x)))
            return x if mask is None else x * mask
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    folder = tmp_path_factory.mktemp("written")
    return Written(MODEL, [torch.randn(32, 24)], folder, init=(24,))


def test_state_and_random_draws_are_the_references(written: Written) -> None:
    ours, theirs = written.candidate.state_dict(), written.reference.state_dict()
    assert list(ours) == list(theirs)
    assert torch.equal(ours["linear.weight"], theirs["linear.weight"])


def test_answers_and_running_statistics_are_the_references(written: Written) -> None:
    x = torch.randn(32, 24)
    with torch.no_grad():
        assert torch.allclose(written.candidate(x), written.reference(x), atol=1e-6)
    for name, buffer in written.reference.named_buffers():
        assert torch.allclose(dict(written.candidate.named_buffers())[name], buffer, atol=1e-6), name


def test_the_file_reads_well(written: Written) -> None:
    assert "class ModelNew(nn.Module):" in written.source
    assert "def forward(self, x, mask=None):" in written.source
    assert "super(Model" not in written.source
    assert "self.norm.num_batches_tracked += 1" in written.source
    assert "erf_(" in written.source
    assert "log_(" not in written.source  # functions that are not used are not printed
    assert max(map(len, written.source.splitlines())) <= 130


@pytest.mark.parametrize("change", ["grad", "shape", "dtype", "argument", "evaluation", "layout"])
def test_outside_what_was_proven_the_original_answers(written: Written, change: str) -> None:
    x, mask = torch.randn(32, 24), None
    ours, theirs = written.candidate, written.reference
    theirs.load_state_dict(ours.state_dict())
    calls: list[str] = []
    original = type(ours)._reference_forward
    try:
        type(ours)._reference_forward = lambda self, *a, **k: (
            calls.append("original") or original(self, *a, **k)
        )
        if change == "grad":
            x.requires_grad_()
        elif change == "shape":
            x = torch.randn(16, 24)
        elif change == "dtype":
            ours.double(), theirs.double()
            x = x.double()
        elif change == "argument":
            mask = torch.ones(24)
        elif change == "evaluation":
            ours.eval(), theirs.eval()
        elif change == "layout":
            x = torch.randn(24, 32).t()
        with torch.set_grad_enabled(change == "grad"):
            assert torch.allclose(ours(x, mask), theirs(x, mask), atol=1e-6)
        assert calls == ["original"]
        if change == "grad":
            ours(x).sum().backward()
            assert x.grad is not None
    finally:
        type(ours)._reference_forward = original
        ours.float().train(), theirs.float().train()


@pytest.mark.parametrize("change", ["no bias", "strided weight"])
def test_parameters_that_were_replaced_are_read_by_the_original(written: Written, change: str) -> None:
    models = written.candidate, written.reference
    models[1].load_state_dict(models[0].state_dict())
    kept = [dict(model.blocks[0].named_parameters()) for model in models]
    weight = torch.nn.Parameter(torch.randn(48)[::2])
    try:
        for model in models:
            if change == "no bias":
                model.blocks[0].bias = None
            else:
                model.blocks[0].weight = weight
        x = torch.randn(32, 24)
        with torch.no_grad():
            assert torch.allclose(models[0](x), models[1](x), atol=1e-6)
    finally:
        for model, parameters in zip(models, kept, strict=True):
            model.blocks[0].weight, model.blocks[0].bias = parameters["weight"], parameters["bias"]


def test_tangents_and_traces_go_through_the_original(written: Written) -> None:
    ours, theirs = written.candidate, written.reference
    theirs.load_state_dict(ours.state_dict())
    x, direction = torch.randn(32, 24), torch.randn(32, 24)
    with torch.no_grad(), forward_ad.dual_level():
        found, due = (model(forward_ad.make_dual(x, direction)) for model in (ours, theirs))
        tangents = [forward_ad.unpack_dual(item).tangent for item in (found, due)]
        assert tangents[0] is not None
        assert torch.allclose(*tangents, atol=1e-5)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # batch norm compares sizes, which a trace warns of
        traced = torch.jit.trace(ours, (x,), check_trace=False)
        theirs.load_state_dict(ours.state_dict())
        assert torch.allclose(traced(direction), theirs(direction), atol=1e-6)


def test_a_function_keeps_its_signature(tmp_path: Path) -> None:
    text = """
        import torch

        def function(x, y, scale: float = 2.0):
            return torch.softmax(x * scale, -1) + y
    """
    written = Written(text, [torch.randn(20, 30), torch.randn(30)], tmp_path)
    x, y = torch.randn(20, 30), torch.randn(30)
    assert torch.allclose(written.candidate(x, y), written.reference(x, y), atol=1e-6)
    assert torch.allclose(written.candidate(x, y, scale=3.0), written.reference(x, y, 3.0), atol=1e-6)
    assert torch.allclose(written.candidate(x=x, y=y), written.reference(x, y), atol=1e-6)


def test_arguments_by_name_may_come_in_any_order(tmp_path: Path) -> None:
    text = """
        import torch
        from torch import nn

        class Model(nn.Module):
            def forward(self, x, y, *, power=2):
                return (torch.relu(x) - y) ** power
    """
    tree = {"dict": {"y": {"tensor": 1}, "x": {"tensor": 0}}}
    written = Written(text, [torch.randn(20, 30), torch.randn(30)], tmp_path, tree)
    x, y = torch.randn(20, 30), torch.randn(30)
    assert torch.allclose(written.candidate(y=y, x=x), written.reference(x, y), atol=1e-6)
    assert torch.allclose(written.candidate(x, y, power=3), written.reference(x, y, power=3), atol=1e-6)


def test_without_text_the_state_is_declared_by_name(written: Written, tmp_path: Path) -> None:
    hidden = written.task.model_copy(
        update={"reference": Reference(loader="pickle", kind="module", path="model.pkl")}
    )
    model = loaded(write(written.program, hidden, written.workload), tmp_path).ModelNew()
    with torch.no_grad():
        for name, value in (*written.candidate.named_parameters(), *written.candidate.named_buffers()):
            held = dict(model.named_parameters()) | dict(model.named_buffers())
            held[name].copy_(value)
        x = torch.randn(32, 24)
        assert torch.allclose(model(x), written.candidate(x), atol=1e-6)


def test_a_compile_error_is_told_with_the_compilers_words(written: Written) -> None:
    with pytest.raises(RuntimeError, match=r"do not compile(.|\n)*error"):
        written.module._build("int broken( {")


def test_torch_compile_as_the_candidate(written: Written) -> None:
    source = write(written.program.model_copy(update={"wrapper": "compile"}), written.task, written.workload)
    assert "self.compile()" in source
    compile(source, "candidate.py", "exec")


def test_other_constructor_arguments_than_the_proven_ones_are_noted():
    source = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, kernel_size, stride):
        super().__init__()
        self.pool = nn.MaxPool1d(kernel_size, stride)

    def forward(self, x):
        return self.pool(x)
"""
    text = guard.constructed(workload_with({"list": [{"value": 4}, {"value": 1}]}))
    names = {}
    exec(source + "\n\nclass ModelNew(Model):" + text, names)
    assert names["ModelNew"](4, 1)._as_proven is True
    assert names["ModelNew"](2, 1)._as_proven is False
    assert names["ModelNew"](kernel_size=4, stride=1)._as_proven is False
    assert copy.deepcopy(names["ModelNew"](4, 1))._as_proven is True


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        (None, ""), ({"list": []}, ""), ({"list": [{"dtype": "float32"}]}, ""),
        ({"dict": {"n": {"value": 3}}}, "((), {'n': 3})"),
        ({"list": [{"tuple": [{"value": 8}, {"value": 4}]}]}, "(tuple([(8, 4,)]), {})"),
    ],
)  # fmt: skip
def test_constructor_arguments_are_spelled_where_they_are_plain(tree, text):
    found = guard.constructed(workload_with(tree))
    assert text in found
    assert bool(text) == bool(found)


def workload_with(init_args):
    spec = TensorSpec.contiguous((4,), "float32")
    return Workload(
        inputs=(spec,), inputs_tree={"list": [{"tensor": 0}]}, outputs=(spec,), outputs_tree={"tensor": 0}, state=(),
        graph=None, eager_ms=0.1, findings=(), init_args=init_args,
    )  # fmt: skip
