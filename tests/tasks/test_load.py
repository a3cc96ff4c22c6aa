"""Reading tasks from text: every form, and one clear line for what cannot be read. Nothing is executed."""

import json
import os

import pytest

from kernelskill.errors import TaskError
from kernelskill.records import Precision, Task
from kernelskill.tasks import load_task

MODEL = """
import torch
from torch import nn
class Model(nn.Module):
    def forward(self, x):
        return x
def get_inputs():
    return [torch.rand(3)]
"""


@pytest.fixture
def write(tmp_path):
    def save(text, name="task.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return save


def test_a_kernelbench_file(write):
    path = write(MODEL + "def get_init_inputs():\n    return [3]\n", "19_ReLU.py")
    task = load_task(path)
    assert (task.name, task.origin, task.precision) == ("19_ReLU", str(path), Precision.MATCH)
    reference = task.reference
    assert (reference.loader, reference.kind, reference.entry) == ("source", "module", "Model")
    assert (reference.inputs_entry, reference.init_entry) == ("get_inputs", "get_init_inputs")
    assert reference.search_path == (str(path.parent),)
    assert load_task(str(path)).hash == task.hash
    assert Task.model_validate_json(json.dumps(json.loads(task.model_dump_json()), allow_nan=False)) == task


def test_a_task_is_another_one_if_anything_of_it_changes(write):
    path = write(MODEL)
    first = load_task(path)
    others = [
        load_task(path, precision=Precision.FP32),
        load_task(path, inputs="[torch.rand(4)]"),
        load_task(path, init="[1]"),
        load_task(write(MODEL + "# changed\n")),
    ]
    assert len({first.hash, *(other.hash for other in others)}) == 5
    assert load_task(write(MODEL, "moved/task.py")).hash == first.hash


@pytest.mark.parametrize("entry", ["Net", "work", "Alias"])
def test_a_named_class_or_function(write, entry):
    path = write(MODEL + "class Net(Model): pass\ndef work(x):\n    return x\nAlias = Net\n", "dir.d/file.py")
    task = load_task(f"{path}:{entry}")
    assert task.reference.entry == entry
    assert task.reference.kind == ("function" if entry == "work" else "module")
    assert task.name == f"file-{entry}"


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        ("class Net(torch.nn.Module): ...", "Net"),
        ("class Base(nn.Module): ...\nModel = Base", "Model"),
        ("if True:\n    class Model(nn.Module): ...\nelse:\n    pass", "Model"),
        (
            "try:\n    import nothing_here\nexcept ImportError:\n    nothing_here = None\nclass Model: ...",
            "Model",
        ),
        ("def work(x): return x", "work"),
        ("from typing import Any as Model", "Model"),
    ],
)
def test_the_only_candidate_is_found(write, text, entry):
    path = write(f"import torch\nfrom torch import nn\n{text}\nget_inputs = lambda: [torch.rand(3)]\n")
    assert load_task(path).reference.entry == entry


def test_inputs_and_init_as_expressions(write):
    path = write("import torch\ndef work(x):\n    return x\n")
    reference = load_task(f"{path}:work", inputs=" [torch.rand(3)] ", init="[3]").reference
    assert (reference.inputs_entry, reference.inputs_expression, reference.init_expression) == (
        "",
        "[torch.rand(3)]",
        "[3]",
    )


@pytest.mark.parametrize(
    ("text", "target", "line"),
    [
        ("import torch\nx = = 3\n", "{}", "line 2: invalid syntax"),
        ("class A(nn.Module): ...\nclass B(A): ...\nget_inputs = 1", "{}", "several modules; say which: {}:A, {}:B"),
        ("def a(): ...\ndef b(): ...\nget_inputs = 1", "{}", "several functions; say which: {}:a, {}:b"),
        ("x = 3", "{}", "defines no class Model; name a class or function"),
        ("class Model: ...", "{}", "gives no inputs: add a function get_inputs(), or pass --inputs"),
        ("class Other: ...\ndef f(): ...", "{}:Model", "defines no Model; it defines Other, f"),
        ("async def f(): ...\ndef get_inputs(): ...", "{}:f", "async function"),
        ("import einopsy.layers\n" + MODEL, "{}", "missing dependency einopsy (pip install einopsy)"),
        ("from einopsy import rearrange\n" + MODEL, "{}", "missing dependency einopsy (pip install einopsy)"),
        (MODEL, "{}:not a name", "'not a name' is not the name of a class or function"),
        (MODEL + "\0", "{}", "null bytes"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_told_in_one_line(write, text, target, line):
    path = write(text)
    with pytest.raises(TaskError) as caught:
        load_task(target.replace("{}", str(path)))
    message = str(caught.value)
    assert line.replace("{}", str(path)) in message
    assert "\n" not in message
    assert str(path) in message


@pytest.mark.parametrize(
    ("target", "line"),
    [
        ("nowhere.py", "file nowhere.py does not exist"),
        ("nowhere.py:Model", "file nowhere.py does not exist"),
        ("n" * 5000, "is neither a file nor PACKAGE.MODULE:NAME"),
        ("no_such_package.module:Net", "module no_such_package.module cannot be found"),
        ("json.nothing:Net", "module json.nothing cannot be found"),
        ("math:sin", "not a Python file"),
        (".", "is a folder"),
    ],
)
def test_what_is_not_there_is_told_in_one_line(target, line):
    with pytest.raises(TaskError) as caught:
        load_task(target)
    assert line in str(caught.value)


def test_a_binary_file_is_refused(tmp_path):
    path = tmp_path / "model.py"
    path.write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(TaskError, match="is not a text file"):
        load_task(path)


@pytest.mark.parametrize("option", ["inputs", "init"])
def test_a_bad_expression_names_its_option(write, option):
    with pytest.raises(TaskError, match=rf"--{option} is not a Python expression"):
        load_task(write(MODEL), **{option: "[torch.rand(3)"})


def test_neighbours_and_optional_imports_are_not_missing(write):
    write("", "neighbour.py")
    write("", "package/__init__.py")
    text = "import neighbour, package.part\ndef f():\n    import einopsy\ntry:\n    import einopsy\nexcept ImportError:\n    pass\n"
    assert load_task(write(text + MODEL)).reference.entry == "Model"


@pytest.mark.parametrize("length", [200, 300, 3000])
def test_very_long_names_become_short_ids(write, length):
    name = "Net" * (length // 3)
    path = write(MODEL.replace("Model", name), f"{'file' * 60}.py")
    task = load_task(f"{path}:{name}")
    assert len(task.id) <= 69
    assert os.path.basename(task.id) == task.id
    assert task.reference.entry == name


@pytest.mark.parametrize(
    ("name", "slug"), [("a b/ü c", "a-b-c"), ("...", "task"), ("-x-", "x"), ("1_ok.v2", "1_ok.v2")]
)
def test_slugs_are_safe(name, slug):
    from kernelskill.tasks.load import slug as made

    assert made(name) == slug


def test_modules_are_found_without_importing_any_package(write, tmp_path, monkeypatch):
    write("raise RuntimeError('imported')", "pack/__init__.py")
    write("from .deep.inner import Net, work as renamed\nfrom .deep import *\n", "pack/api.py")
    write("from .inner import Star\n", "pack/deep/__init__.py")
    write(MODEL.replace("Model", "Net") + "class Star(Net): ...\ndef work(x): ...\n", "pack/deep/inner.py")
    monkeypatch.chdir(tmp_path)
    for entry in ("Net", "Star"):
        reference = load_task(f"pack.api:{entry}").reference
        assert (reference.loader, reference.module, reference.entry) == ("import", "pack.deep.inner", entry)
        assert reference.search_path == (str(tmp_path),)
        assert "class Net" in reference.source
    package = load_task("pack.deep.inner:work").reference
    assert (package.module, package.kind) == ("pack.deep.inner", "function")


def test_a_class_of_an_installed_package():
    reference = load_task("torch.nn:SiLU", inputs="[torch.randn(4)]").reference
    assert reference.module == "torch.nn.modules.activation"
    assert "class SiLU" in reference.source
    assert reference.search_path == ()
