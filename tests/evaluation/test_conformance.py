"""Cheats that are known in public, each in a few lines, through the real judge: none is credited with a speedup.

Honest candidates that look suspicious pass, and whatever a candidate breaks, the next evaluation is right.
"""

import textwrap

import pytest

from kernelskill.evaluation.judge import Judge
from kernelskill.records import Candidate, Status
from kernelskill.tasks import load_task

pytestmark = pytest.mark.slow

HEAD = "import torch\nfrom torch import nn\n\n"
TASKS = {
    "relu": "class Model(nn.Module):\n    def forward(self, x):\n        return torch.relu(x) + 1\n",
    "norm": (
        "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.norm = nn.LayerNorm(1024)\n    def forward(self, x):\n        return self.norm(x)\n"
    ),
    "softmax": "class Model(nn.Module):\n    def forward(self, x):\n        return torch.softmax(x, 1)\n",
    "constant": (
        "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.linear = nn.Linear(1024, 8)\n    def forward(self, x):\n"
        "        y = self.linear(x).max(dim=1, keepdim=True).values\n"
        "        return nn.functional.gelu(y - y.mean(dim=1, keepdim=True))\n"
    ),
    "sum": "class Model(nn.Module):\n    def forward(self, x):\n        return x.sum(1)\n",
}
INPUTS = "\ndef get_inputs():\n    return [torch.rand(64, 1024)]\n\n\ndef get_init_inputs():\n    return []\n"


def model(body, head=""):
    """A candidate whose forward has this body."""
    text = textwrap.indent(textwrap.dedent(body).strip(), " " * 8)
    return f"{HEAD}{head}\nclass ModelNew(nn.Module):\n    def forward(self, x):\n{text}\n"


HONEST = model("return torch.clamp(x, min=0) + 1")

CHEATS = {
    # task, source
    "C01 zeros inside an absolute tolerance": ("softmax", model("return torch.zeros_like(x)")),
    "C04 default weights hide missing work": (
        "norm",
        HEAD + "class ModelNew(nn.Module):\n    def forward(self, x):\n"
        "        return nn.functional.layer_norm(x, (1024,))\n",
    ),
    "C05 inputs make the operation trivial": ("relu", model("return x + 1")),
    "C06 reads freed memory": ("relu", model("return torch.empty_like(x)")),
    "C07 destroys its inputs": ("relu", model("x.zero_()\nreturn torch.ones_like(x)")),
    "C08 result cache by pointer": (
        "relu",
        model(
            "key = x.data_ptr()\nif key not in CACHE:\n    CACHE[key] = torch.relu(x) + 1\nreturn CACHE[key]",
            "CACHE = {}",
        ),
    ),
    "C14 replays the generator": (
        "relu",
        model("torch.manual_seed(42)\nreturn torch.relu(torch.rand(64, 1024)) + 1"),
    ),
    "C17 work finishes in a thread": (
        "relu",
        model(
            """
            out = torch.empty_like(x)
            def later():
                time.sleep(0.02)
                out.copy_(torch.relu(x) + 1)
            threading.Thread(target=later, daemon=True).start()
            return out
            """,
            "import threading, time\n",
        ),
    ),
    "C18 lazy subclass": (
        "relu",
        model("return Lazy(x)", "class Lazy(torch.Tensor):\n    pass\n"),
    ),
    "C19 lazy by instance": (
        "relu",
        model(
            "y = torch.empty_like(x)\ny.double = lambda: (torch.relu(x) + 1).double()\ny.cpu = y.double\nreturn y"
        ),
    ),
    "C21 patches the comparator": (
        "relu",
        model(
            "return torch.zeros_like(x)",
            "torch.allclose = lambda *a, **k: True\ntorch.equal = lambda *a: True\n",
        ),
    ),
    "C22 steals by introspection": (
        "relu",
        model(
            """
            for thing in gc.get_objects():
                if type(thing).__name__ == "Model" and isinstance(thing, nn.Module):
                    return thing(x)
            return torch.zeros_like(x)
            """,
            "import gc\n",
        ),
    ),
    "C24 prints a result and leaves": (
        "relu",
        'import os\nprint(\'{"id": 1, "result": {"times_us": [0.1]}}\', flush=True)\n'
        "for fd in range(3, 32):\n    try:\n        os.write(fd, b'{\"result\": {}}')\n    except OSError:\n        pass\nos._exit(0)\n",
    ),
    "C25 leaves early": ("relu", "import os\nos._exit(0)\n"),
    "C27 slows the baseline": (
        "relu",
        model(
            "return torch.relu(x) + 1",
            "import sys, time\ntorch.set_num_threads(1)\ntorch.set_flush_denormal(True)\n",
        ),
    ),
    "C28 shrinks the task": (
        "relu",
        "N = 1\ndef get_inputs():\n    return []\n" + model("return torch.relu(x[:1, :1]) + 1"),
    ),
    "C29 inherits the reference": ("relu", HEAD + "class ModelNew(Model):\n    pass\n"),
}
CONTROLS = {
    "C31 suspicious words": (
        "relu",
        model('"""The forward pass, try: pass."""\npass_ = torch.clamp(x, min=0)\nreturn pass_ + 1'),
    ),
    "C48 keeps a workspace": (
        "relu",
        HEAD + "class ModelNew(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.space = torch.empty(64, 1024)\n    def forward(self, x):\n"
        "        torch.clamp(x, min=0, out=self.space)\n        return self.space + 1\n",
    ),
    "C81 honest order of summation": (
        "sum",
        model(
            "total = torch.zeros(64)\nfor part in x.split(64, dim=1):\n    for k in range(64):\n        total = total + part[:, k]\nreturn total"
        ),
    ),
    "C87 order that changes from call to call": (
        "sum",
        model("order = torch.randperm(1024)\nreturn x[:, order].view(64, 32, 32).sum(1).sum(1)"),
    ),
}
SPINNING = """
import ctypes, pathlib, subprocess, tempfile
folder = pathlib.Path(tempfile.mkdtemp())
(folder / "spin.cpp").write_text('extern "C" void spin() { for (volatile long i = 0;; i = i + 1) {} }')
subprocess.run(["g++", "-shared", "-fPIC", str(folder / "spin.cpp"), "-o", str(folder / "spin.so")], check=True)
spin = ctypes.CDLL(str(folder / "spin.so")).spin
"""
FAULTS = {
    "segfault": ("import ctypes\nctypes.string_at(0)\n", {Status.CRASHED}),
    "endless loop": (model("while True: pass"), {Status.TIMEOUT}),
    "endless loop in C++": (SPINNING + model("spin()"), {Status.TIMEOUT}),
    "memory bomb": (
        "hoard = []\nwhile True:\n    hoard.append(bytearray(1 << 28))\n",
        {Status.OUT_OF_MEMORY, Status.CRASHED, Status.BUILD_ERROR},
    ),
    "exit 0": ("import os\nos._exit(0)\n", {Status.CRASHED}),
    "100 MB of stdout": (
        "import os\nfor _ in range(100):\n    os.write(1, b'x' * (1 << 20))\nraise SystemExit\n",
        {Status.BUILD_ERROR, Status.CRASHED},
    ),
}


@pytest.fixture(scope="module")
def judges(tmp_path_factory):
    """A judge per task, its baselines measured once."""
    made = {}

    def judge(name):
        if name not in made:
            path = tmp_path_factory.mktemp("tasks") / f"{name}.py"
            path.write_text(HEAD + TASKS[name] + INPUTS)
            made[name] = Judge(load_task(path), cache_dir=tmp_path_factory.mktemp("cache"))
            workload = made[name].describe()
            if not any(finding.fatal for finding in workload.findings):
                made[name].baselines()
        return made[name]

    yield judge
    for item in made.values():
        item.close()


def credited(evaluation):
    return evaluation.status is Status.PASSED and any(
        item.significant and item.speedup.low > 1.2 for item in evaluation.comparisons
    )


@pytest.mark.parametrize("name", CHEATS)
def test_no_cheat_is_credited(judges, name):
    task, source = CHEATS[name]
    evaluation = judges(task).screen(Candidate(id="cheat", source=source), None)
    assert not credited(evaluation), evaluation
    if not name.startswith("C27"):
        assert evaluation.status is not Status.PASSED
        assert evaluation.detail


@pytest.mark.parametrize("name", CONTROLS)
def test_honest_candidates_pass(judges, name):
    task, source = CONTROLS[name]
    evaluation = judges(task).screen(Candidate(id="control", source=source), None)
    assert evaluation.status is Status.PASSED, (evaluation.status, evaluation.detail, evaluation.hint)


def test_a_task_that_is_constant_is_refused(judges):
    """C02: Linear, max over dim 1, minus its own mean: zero for every input."""
    judge = judges("constant")
    fatal = [finding for finding in judge.describe().findings if finding.fatal]
    assert fatal, "returning zeros would be correct"


@pytest.mark.parametrize("name", FAULTS)
def test_the_next_evaluation_is_right_after_a_fault(judges, name):
    source, statuses = FAULTS[name]
    judge = judges("relu")
    assert judge.screen(Candidate(id="fault", source=source), None).status in statuses
    assert judge.screen(Candidate(id="good", source=HONEST), None).status is Status.PASSED


def test_a_candidate_that_is_the_reference_changes_nothing(judges):
    source = HEAD + TASKS["relu"].replace("class Model(", "class ModelNew(")
    evaluation = judges("relu").screen(Candidate(id="same", source=source), None)
    assert evaluation.status is Status.PASSED
    eager = next(item for item in evaluation.comparisons if item.arm == "eager")
    assert not eager.significant
