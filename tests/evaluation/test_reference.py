"""What one look at a reference tells, and what is refused in one line."""

import pytest
import torch
from references import HEAD, codes, describe, reference, session

from kernelskill.evaluation.worker.inputs import draw
from kernelskill.evaluation.worker.protocol import Failure
from kernelskill.evaluation.worker.state import state_of

FORWARD = """
class Model(nn.Module):
    def forward(self, {signature}):
        return {result}

def get_inputs():
    return {inputs}
"""


def simple(signature, result, inputs, **changes):
    return reference(FORWARD.format(signature=signature, result=result, inputs=inputs), **changes)


@pytest.mark.parametrize(
    ("signature", "result", "inputs", "tree"),
    [
        ("x", "x * 2", "torch.rand(3)", {"list": [{"tensor": 0}]}),
        ("x, s", "x * s", "[torch.rand(3), 3.14]", {"list": [{"tensor": 0}, {"value": 3.14}]}),
        ("x, s, y", "x * s + y", "(torch.rand(3), 2, torch.rand(3))",
         {"list": [{"tensor": 0}, {"value": 2}, {"tensor": 1}]}),
        ("x, flag=True, *, y", "x + y", "{'y': torch.rand(3), 'x': torch.rand(3)}",
         {"dict": {"y": {"tensor": 0}, "x": {"tensor": 1}}}),
        ("x, y, s=1", "x * s + y", "[[torch.rand(3)], {'s': 2, 'y': torch.rand(3)}]",
         {"dict": {"x": {"tensor": 0}, "s": {"value": 2}, "y": {"tensor": 1}}}),
        ("x", "x * 2", "[[torch.rand(3)], {}]", {"list": [{"tensor": 0}]}),
        ("pair, options", "pair[0] + options['y']", "[[torch.rand(3)], {'y': torch.rand(3)}]",
         {"list": [{"list": [{"tensor": 0}]}, {"dict": {"y": {"tensor": 1}}}]}),
    ],
)  # fmt: skip
def test_every_form_of_inputs_is_taken(tmp_path, signature, result, inputs, tree):
    found = describe(tmp_path, simple(signature, result, inputs))
    assert found.inputs_tree == tree
    assert found.findings == ()
    assert found.graph is not None
    assert found.graph.outputs_tree == found.outputs_tree


def test_an_unknown_form_of_inputs_is_refused_in_one_line(tmp_path):
    with pytest.raises(Failure, match="give a list of arguments or a dict"):
        describe(tmp_path, simple("x", "x", "3"))


@pytest.mark.parametrize(
    ("given", "tree"),
    [
        ("", {"list": []}),
        ("def get_init_inputs():\n    return None\n", {"list": []}),
        ("def get_init_inputs():\n    return []\n", {"list": []}),
        ("def get_init_inputs():\n    return [4, (1, 2)]\n", {"list": [{"value": 4}, {"tuple": [{"value": 1}, {"value": 2}]}]}),
        ("def get_init_inputs():\n    return {'n': 4}\n", {"dict": {"n": {"value": 4}}}),
        ("def get_init_inputs():\n    return [[4], {'shape': (2, 2)}]\n",
         {"dict": {"n": {"value": 4}, "shape": {"tuple": [{"value": 2}, {"value": 2}]}}}),
    ],
)  # fmt: skip
def test_every_form_of_constructor_arguments_is_taken(tmp_path, given, tree):
    body = """
    class Model(nn.Module):
        def __init__(self, n=4, shape=(2, 3)):
            super().__init__()
            self.fc = nn.Linear(n, shape[1])
        def forward(self, x):
            return self.fc(x)
    def get_inputs():
        return [torch.rand(3, 4)]
    """
    spec = reference(body)
    spec = reference("pass", source=spec.source + given, init_entry="get_init_inputs" if given else "")
    found = describe(tmp_path, spec)
    assert found.init_args == tree
    assert found.findings == ()


RESULTS = """
import dataclasses, typing
@dataclasses.dataclass
class Out:
    loss: torch.Tensor
    extra: object = None
class Pair(typing.NamedTuple):
    a: torch.Tensor
    b: torch.Tensor
"""


@pytest.mark.parametrize(
    ("result", "dtypes", "word"),
    [
        ("x.sum()", ["float32"], "tensor"),
        ("x.argmax(1)", ["int64"], "tensor"),
        ("x > 0", ["bool"], "tensor"),
        ("torch.fft.fft(x)", ["complex64"], "tensor"),
        ("(x * 2, None, [x.sum()])", ["float32", "float32"], "tuple"),
        ("{'a': x.double(), 'b': 7}", ["float64", "int64"], "dict"),
        ("Out(x.sum(), (x,))", ["float32", "float32"], "object"),
        ("Pair(x, x.half())", ["float32", "float16"], "tuple"),
        ("x.t()", ["float32"], "tensor"),
    ],
)
def test_every_kind_of_result_is_described(tmp_path, result, dtypes, word):
    spec = simple("x", result, "[torch.randn(40, 30)]")
    found = describe(tmp_path, spec.model_copy(update={"source": spec.source + RESULTS}))
    assert [item.dtype for item in found.outputs] == dtypes
    assert word in found.outputs_tree
    assert all(item.is_contiguous for item in found.outputs)
    assert not any(codes(found).values())


def test_strides_are_the_tasks_own(tmp_path):
    inputs = "[torch.rand(4, 6).t(), torch.rand(1, 4).expand(6, 4), torch.rand(1, 3, 4, 4).to(memory_format=torch.channels_last)]"
    found = describe(tmp_path, simple("x, y, z", "(x + y, z.relu())", inputs))
    assert [item.stride for item in found.inputs] == [(1, 6), (4, 1), (48, 1, 12, 3)] or found.inputs[
        1
    ].stride == (0, 1)
    assert found.inputs[1].stride == (0, 1)
    assert found.inputs[1].nbytes == 16
    assert found.findings == ()


STATE = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = torch.randn(3)
        self.a = nn.Linear(4, 4)
        self.lazy = nn.LazyLinear(4)
        self.b = nn.Linear(4, 4)
        self.b.weight = self.a.weight
        self.register_buffer("scale", torch.ones(4), persistent=False)
        self.norm = nn.BatchNorm1d(4)
        self.g = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))
    def forward(self, x):
        return self.g(self.norm(self.b(self.lazy(self.a(x) * self.scale))))
def get_inputs():
    return [torch.randn(8, 4)]
"""


def test_state_is_listed_by_name_tied_lazy_and_not_persistent(tmp_path):
    found = describe(tmp_path, reference(STATE))
    state = {item.path: item for item in found.state}
    assert list(state) == [
        "scale", "a.weight", "a.bias", "lazy.weight", "lazy.bias", "b.weight", "b.bias", "norm.weight", "norm.bias",
        "norm.running_mean", "norm.running_var", "norm.num_batches_tracked", "g.bias",
        "g.parametrizations.weight.original0", "g.parametrizations.weight.original1",
    ]  # fmt: skip
    assert state["b.weight"].tied_to == "a.weight"
    assert not state["scale"].persistent
    assert state["norm.running_mean"].persistent
    assert state["lazy.weight"].spec.shape == (4, 4)
    assert set(found.updated_state) == {"norm.running_mean", "norm.running_var", "norm.num_batches_tracked"}
    assert set(found.graph.updates) == set(found.updated_state)
    assert codes(found) == {"plain-tensors": False}
    assert "hidden" in found.findings[0].message


def test_describe_leaves_the_reference_as_it_was(tmp_path):
    from kernelskill.evaluation.worker.examine import handle_describe

    made = session(tmp_path, reference(STATE))
    before = {name: tensor.clone() for name, tensor in state_of(made.model).items()}
    handle_describe(made, {"seed": 3})
    assert all(torch.equal(tensor, before[name]) for name, tensor in state_of(made.model).items())
    assert made.model.training


def test_lazy_modules_have_shapes_before_state_is_written_in_every_arm(tmp_path):
    for arm in ("eager", "compile"):
        made = session(tmp_path, reference(STATE), arm)
        assert state_of(made.model)["lazy.weight"].shape == (4, 4)


def model(forward, init="pass", inputs="[torch.rand(8, 6)]"):
    return reference(
        f"""
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {init}
    def forward(self, x):
        {forward}
def get_inputs():
    return {inputs}
"""
    )


@pytest.mark.parametrize(
    ("spec", "code", "fatal"),
    [
        (model("return F.dropout(x, 0.5)"), "stochastic", True),
        (model("return self.d(x)", "self.d = nn.Dropout(0.2)"), "stochastic", True),
        (model("return x + 1e-8 * torch.randn(8, 6)"), "stochastic", True),
        (model("return x.add_(1)"), "mutates-inputs", True),
        (model("x[0] = 1; return x * 2"), "mutates-inputs", True),
        (model("y = self.l(x).max(1, keepdim=True).values; return F.gelu(y - y.mean(1, keepdim=True))",
               "self.l = nn.Linear(6, 6)"), "constant-output", True),
        (model("return torch.zeros(3)"), "constant-output", True),
        (model("return x.shape[0] * torch.ones(2)"), "constant-output", True),
        (model("return self.w * 2", "self.w = nn.Parameter(torch.ones(3))"), "constant-output", True),
        (model("return F.relu(self.l(x) - 2)", "self.l = nn.Linear(4096, 4)", "[torch.rand(4, 4096)]"),
         "input-independent", True),
        (model("return self.n(self.c(x)).mean((1, 2, 3, 4))",
               "self.c = nn.Conv3d(3, 8, 3); self.n = nn.GroupNorm(4, 8)", "[torch.rand(2, 3, 6, 8, 8)]"),
         "input-independent", True),
        (model("return x / 0 - x / 0"), "non-finite", True),
        (model("return (x - 0.5).log()"), "non-finite", False),
        (model("return x[:0]"), "empty-output", True),
        (model("self.h = self.h + x.mean(); return x * self.h", "self.h = torch.zeros(1)"), "hidden-state", True),
        (model("self.n += 1; return x if self.n < 2 else -x", "self.n = 0"), "hidden-state", True),
        (model("return x * self.h", "self.h = torch.ones(6)"), "plain-tensors", False),
        (model("return x + 1", inputs="[torch.ones(3)]"), "fixed-inputs", True),
        (model("return x + 1", inputs="[torch.rand(3, generator=torch.Generator().manual_seed(1))]"),
         "fixed-inputs", True),
        (model("return x + 1", inputs="[torch.rand(int(torch.randint(2, 90, ())))]"), "varying-shapes", True),
    ],
)  # fmt: skip
def test_what_a_task_cannot_prove_is_found(tmp_path, spec, code, fatal):
    found = describe(tmp_path, spec)
    assert codes(found)[code] is fatal
    assert {name for name, decides in codes(found).items() if decides} == ({code} if fatal else set())
    assert "\n" not in found.findings[0].message


@pytest.mark.parametrize(
    "spec",
    [
        model("return x.softmax(1)"),
        model("return self.n(x)", "self.n = nn.BatchNorm1d(6)"),
        model("return x.argmax(1)", inputs="[torch.rand(64, 50)]"),
        model("return self.d(x)", "self.d = nn.Dropout(0.0)"),
        model("y = x.clone(); y[0] = 0; return y"),
        model("return x.exp() * 1e30"),
        model("return x.mean()", inputs="[torch.randn(100000)]"),
        model("return x.bfloat16() @ x.bfloat16().t()"),
        model("torch.manual_seed(1); return x * 2"),
    ],
)
def test_honest_tasks_have_no_findings(tmp_path, spec):
    assert describe(tmp_path, spec).findings == ()


CUDA = "the task needs cuda; this is the cpu target"


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        (model("return x", inputs="[torch.rand(3, device='cuda')]"), CUDA),
        (model("return x", inputs="[torch.rand(3).cuda()]"), CUDA),
        (model("return x.cuda()"), CUDA),
        (model("return x", "self.w = nn.Parameter(torch.ones(3).cuda())"), CUDA),
        (model("assert x.is_cuda; return x"), CUDA),
        (reference("assert torch.cuda.is_available()"), CUDA),
        (model("import einopsy; return x"), "missing dependency einopsy (pip install einopsy)"),
        (model("return x @ x"), "the reference does not run on its own inputs: RuntimeError: mat1 and mat2"),
        (model("return x", inputs="[undefined]"), "drawing the inputs: NameError: name 'undefined'"),
        (model("return x", "1 / 0"), "loading the reference: ZeroDivisionError"),
        (model("return x", inputs="[torch.rand(4).to_sparse()]"), "input 0 is sparse_coo"),
        (model("return x", inputs="[torch.rand(1 << 22, 1 << 22)]"), "too big: judging needs at least"),
        (model("return x[:, None] + x[None]", inputs="[torch.rand(1 << 22)]"), "too big: judging needs at least"),
        (reference("class Model(nn.Module):\n    pass\ndef get_inputs():\n    return []"), "Model defines no forward"),
        (reference("Model = 3\ndef get_inputs():\n    return []"), "Model is a int: it cannot be called"),
        (reference("import abc\nclass Model(abc.ABC):\n    @abc.abstractmethod\n    def run(self): ..."),
         "Model is abstract: it lacks run"),
    ],
)  # fmt: skip
def test_what_cannot_run_here_is_refused_by_its_first_line(tmp_path, spec, line):
    with pytest.raises(Failure) as caught:
        describe(tmp_path, spec)
    assert caught.value.detail.splitlines()[0].startswith(line)


def test_guarded_blocks_do_not_run_and_helpers_are_found(tmp_path):
    found = describe(
        tmp_path,
        reference(
            """
            SCALE = 3
            def helper(x):
                return x * SCALE
            class Model(nn.Module):
                def forward(self, x):
                    return helper(x)
            def get_inputs():
                return [torch.rand(3)]
            if __name__ == "__main__":
                raise SystemExit("ran")
            """
        ),
    )
    assert found.findings == ()


def test_functions_are_references_too(tmp_path):
    spec = reference("def work(x, k=2):\n    return x * k\n", kind="function", entry="work", inputs_entry="",
                     inputs_expression="[torch.rand(3)]")  # fmt: skip
    found = describe(tmp_path, spec)
    assert found.state == ()
    assert found.graph is not None
    assert len(found.graph.nodes) == 1


def test_the_file_can_show_its_source(tmp_path):
    body = "import inspect\nN = len(inspect.getsource(inspect.getmodule(inspect.currentframe())))\n"
    body += FORWARD.format(signature="x", result="x + N", inputs="[torch.rand(3)]")
    assert describe(tmp_path, reference(body)).findings == ()
    assert HEAD in (tmp_path / "reference_source.py").read_text()


def test_inputs_follow_from_the_judges_seed_alone(tmp_path):
    spec = reference(
        """
        import random, numpy
        from torch import manual_seed
        class Model(nn.Module):
            def forward(self, a, b, c):
                return a + b + c
        def get_inputs():
            torch.manual_seed(0); random.seed(0); numpy.random.seed(0); manual_seed
            return [torch.rand(4), torch.tensor(random.random()), torch.from_numpy(numpy.random.rand(4))]
        """
    )
    made = session(tmp_path, spec)
    one, same, other = (draw(made, seed)[0] for seed in (1 << 61, 1 << 61, 2))
    assert all(torch.equal(a, b) for a, b in zip(one, same, strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_the_unchanged_task_of_an_imported_module(tmp_path):
    (tmp_path / "neighbour_scale.py").write_text("SCALE = 2.0\n")
    (tmp_path / "imported_task.py").write_text(
        HEAD
        + "from neighbour_scale import SCALE\n"
        + FORWARD.format(signature="x", result="x * SCALE", inputs="[torch.rand(3)]")
    )
    spec = reference("", loader="import", module="imported_task", search_path=(str(tmp_path),), source="")
    found = describe(tmp_path, spec)
    assert found.findings == ()
    assert "class Model" in found.class_source
