"""Golden prompts, strict variables, bounded size. Rewrite the files with KERNELSKILL_REWRITE=1."""

import os
import re
import subprocess
import sys
from pathlib import Path

import jinja2
import pytest
from scripted_model import CEILINGS, TASK, WORKLOAD, scene

from kernelskill.agents.llm import sections
from kernelskill.agents.llm.feature_reader import JUDGED
from kernelskill.agents.llm.prompts import Section, assemble, render
from kernelskill.errors import ModelError
from kernelskill.features.catalog import CATALOG

GOLDEN = Path(__file__).parent / "golden"
WRITING = {"entry": "ModelNew", "hints": (), "taught": True}
VARIABLES = {
    "generator": {**WRITING, "approaches": 2, "number": 2},
    "planner": {"skills": ("split-rows", "tune-threads"), "taught": True, "remembers": True},
    "optimizer": {
        **WRITING,
        "hints": ("use two accumulators",),
        "base_is_written": False,
        "base_builds": True,
    },
    "diagnoser": {},
    "repairer": {**WRITING, "cause": "build-timeout", "remembers": True},
    "feature_reader": {"kernels": ["scale_rows"], "facts": [CATALOG[name] for name in JUDGED]},
    "task_writer": {},
}


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize("name", VARIABLES)
def test_instructions_are_as_they_were_read(name, target):
    text = render(name, target=target, **VARIABLES[name]) + "\n"
    file = GOLDEN / f"{name}.{target}.txt"
    if os.environ.get("KERNELSKILL_REWRITE"):
        GOLDEN.mkdir(exist_ok=True)
        file.write_text(text)
    assert text == file.read_text()


@pytest.mark.parametrize("part", ["taught", "remembers"])
def test_without_a_memory_the_planner_is_told_nothing_of_it(part):
    text = render("planner", target="cpu", **{**VARIABLES["planner"], part: False}) + "\n"
    file = GOLDEN / f"planner.cpu.not_{part}.txt"
    if os.environ.get("KERNELSKILL_REWRITE"):
        file.write_text(text)
    assert text == file.read_text()


def test_the_setting_is_as_it_was_read():
    parts = scene(hints="- one pass\n- no threads\n").setting()
    text = assemble("", parts, 60_000)[1] + "\n"
    file = GOLDEN / "setting.txt"
    if os.environ.get("KERNELSKILL_REWRITE"):
        file.write_text(text)
    assert text == file.read_text()


def test_a_gpu_is_told_by_its_products_and_not_by_parallel_regions():
    """What its library reaches may be tensor cores' work, which is no rate of the plain units."""
    of_gpu = CEILINGS.model_copy(
        update={"compute_capability": 90, "fp32_gflops": 136e3, "tf32_gflops": 408e3, "call_us": 0.8}
    )
    text = sections.machine_section(of_gpu, {}).text
    assert (
        "float32 accuracy, by the library or as three of TF32: 1.36e+05 GFLOP/s, of TF32 ones 4.08e+05"
        in text
    )
    assert "takes the device 0.8 us" in text
    assert "multiply-add" not in text
    assert "parallel region" not in text
    assert "multiply-add: 300 GFLOP/s" in sections.machine_section(CEILINGS, {}).text


@pytest.mark.parametrize("name", VARIABLES)
def test_a_missing_variable_is_an_error_not_a_blank(name):
    with pytest.raises(jinja2.UndefinedError):
        render(name)


def test_what_matters_least_is_left_out_first_and_named():
    parts = [Section("task", "t" * 500), Section("facts", "f" * 500, 2), Section("history", "h" * 5000, 4)]
    instructions, question = assemble("rules", parts, 1600)
    assert len(instructions) + len(question) <= 1600
    assert "t" * 500 in question
    assert "f" * 500 in question
    assert "Left out for length: history" in question


def test_a_long_section_keeps_its_first_lines():
    parts = [Section("task", "t"), Section("history", "line\n" * 1000, 4)]
    question = assemble("", parts, 3000)[1]
    assert len(question) <= 3000
    assert question.count("line") > 300
    assert "cut here for length" in question


def test_what_must_be_in_is_never_left_out():
    with pytest.raises(ModelError, match="prompt_chars"):
        assemble("", [Section("task", "t" * 5000)], 4000)


def test_the_task_is_told_with_its_hash():
    """Whoever reads a record sees which task it was about."""
    text = sections.task_section(TASK, WORKLOAD).text
    assert TASK.hash[:16] in text
    assert "(64, 1024) float32, contiguous" in text


@pytest.mark.parametrize(
    ("text", "hints"),
    [
        ("", ()),
        ("one idea\nover two lines\n\nanother", ("one idea over two lines", "another")),
        ("Try this:\n- first\n  more\n- second\n", ("Try this:", "first more", "second")),
    ],
)
def test_hints_are_told_apart(text, hints):
    assert sections.hints_of(text) == hints


RUN_IT = """
import torch
from torch import nn

torch.manual_seed(0)
for rows, width in ((1, 1), (3, 33), (5, 4129), (2, 10000)):
    x = torch.randn(rows, width) * 3 + 1
    model = ModelNew(width)
    model.weight = nn.Parameter(torch.randn(width))
    wanted = x.double() * torch.rsqrt(x.double().pow(2).mean(-1, keepdim=True) + 1e-6) * model.weight
    with torch.no_grad():
        for found in (model(x), scale_rows(x, model.weight)):
            error = (found - wanted).pow(2).mean().sqrt() / wanted.pow(2).mean().sqrt()
            assert error < 2e-7, (rows, width, float(error))
"""


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_the_worked_file_is_right(target, tmp_path):
    """As a model reads it; the GPU's in Triton's interpreter."""
    text = render("generator", target=target, **VARIABLES["generator"])
    assert "{%" not in text
    code, *_ = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    if target == "cuda":
        pytest.importorskip("triton")
    file = tmp_path / "worked.py"
    file.write_text(code + RUN_IT)
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "2", "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr


def test_the_launcher_compiles_what_it_shows():
    """Launching needs a GPU; the text that a model copies is run up to there."""
    launcher = pytest.importorskip("kernelskill.program.cuda.launcher")
    if launcher._nvrtc() is None:
        pytest.skip("NVRTC is not here (pip install nvidia-cuda-nvrtc)")
    text = render("optimizer", target="cuda", **{**VARIABLES["optimizer"], "base_builds": False})
    _, code = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    names = {}
    exec(code, names)
    image = names["_compiled"](names["KERNELS"], "sm_90")
    assert image.startswith(b"\x7fELF")
    assert b"scale" in image
    with pytest.raises(RuntimeError, match="do not compile"):
        names["_compiled"]("not C++", "sm_90")
