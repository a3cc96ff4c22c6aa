"""What each dear function of a printed kernel costs, in exponentials: on this CPU, and on a GPU of capability 9.0.

    python benchmarks/function_costs.py > results/function-costs.json

On the CPU, printed maps that add up the function of two and of six values an element run on one thread over floats that
stay in its caches; the difference is what four of them take, and the best of many visits counts. For the GPU nothing is
run: the printed Triton kernel is compiled, and the machine code of one element is counted. A scheduler issues one
instruction for a warp in a cycle, but needs eight cycles for one on the special-function pipe and two for one in double
precision (CUDA C++ programming guide, arithmetic throughput of compute capability 9.0). What takes longest is the cost.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch

from kernelskill.program.program import Kernel, Program
from kernelskill.program.triton.source import IMPORTS, sections
from kernelskill.program.writer import BUILD, STANDARD_IMPORTS
from kernelskill.skills.example import calls, cpp, fused

COUNT = 32768
"""Floats: input and output together fit a second-level cache of half a megabyte."""
FEW, MANY = 2, 6
VISITS, CALLS = 60, 8
CAPABILITY = 90
SPECIAL_CYCLES, DOUBLE_CYCLES = 8, 2
PLAIN = "neg"
"""Hidden behind loading and storing: what it costs is the loop."""
CALLED = {
    **{name: f"{name}.default" for name in (
        PLAIN, "exp", "expm1", "log", "log1p", "tanh", "sigmoid", "erf", "sin", "cos", "sqrt", "rsqrt",
    )},
    "pow": "pow.Tensor_Tensor", "div": "div.Tensor",
}  # fmt: skip
"""Operation of a kernel -> the ATen overload that becomes it."""
_INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:(@!?U?P\d)\s+)?([A-Z][\w.]*)\s*([^;]*);")
_LABEL = re.compile(r"^(\.L_x_\d+):")
_TARGET = re.compile(r"\.L_x_\d+")
_SPECIAL = re.compile(r"^(MUFU|F2I|F2F|FRND|I2F)\b")
_DOUBLE = re.compile(r"^D(ADD|MUL|FMA|SETP)\b")


class Instruction(NamedTuple):
    """One line of machine code."""

    guard: str
    name: str
    operands: str


def applied(function: str, times: int) -> Program:
    """One kernel that adds up the function of so many values of each element."""
    arguments = 2 if function in {"pow", "div"} else 1
    nodes: list[tuple[Any, ...]] = []
    total = ""
    for place in range(times):
        nodes.append((f"value_{place}", "add.Tensor", ("x", float(place))))
        nodes.append((f"result_{place}", CALLED[function], (f"value_{place}",) * arguments))
        if total:
            nodes.append((f"total_{place}", "add.Tensor", (total, f"result_{place}")))
        total = nodes[-1][0]
    return fused(calls(*nodes, shape=(COUNT,)))


def processor_ns(build: Callable[[str], Any], function: str) -> float:
    """Nanoseconds that one more value takes on one thread."""
    least = {}
    values, results = torch.rand(COUNT) * 2.9 + 0.1, torch.empty(COUNT)
    places = ctypes.c_void_p(values.data_ptr()), ctypes.c_void_p(results.data_ptr())
    for times in (FEW, MANY):
        program = applied(function, times)
        run = getattr(build(cpp(program)), program.kernels[0].name)
        visits = []
        for _ in range(VISITS):
            began = time.perf_counter()
            for _ in range(CALLS):
                run(*places, ctypes.c_int(1))
            visits.append((time.perf_counter() - began) / CALLS)
        least[times] = min(visits)
    return 1e9 * (least[MANY] - least[FEW]) / (MANY - FEW) / COUNT


def builder() -> Callable[[str], Any]:
    """What a candidate's file builds its kernels with."""
    names: dict[str, Any] = {}
    exec(f"{STANDARD_IMPORTS}\n{BUILD}", names)
    build: Callable[[str], Any] = names["_build"]
    return build


def gpu_cycles(function: str, folder: Path) -> int:
    """Cycles of a scheduler for one warp's values; those of loading, storing and addressing are taken off."""
    done, idle = (taken(instructions(machine_code(name, folder))) for name in (function, PLAIN))
    special = sum(bool(_SPECIAL.match(item.name)) for item in done)
    double = sum(bool(_DOUBLE.match(item.name)) for item in done)
    return max(len(done) - len(idle), SPECIAL_CYCLES * special, DOUBLE_CYCLES * double)


def machine_code(function: str, folder: Path) -> str:
    """The printed kernel of one element a thread, compiled and taken apart."""
    import triton
    from triton.runtime.jit import JITFunction

    name = CALLED[function]
    arguments = ("x", "x") if function in {"pow", "div"} else ("x",)
    kernel = fused(calls(("a", name, arguments), shape=(COUNT,))).kernels[0]
    path = folder / f"{function}.py"
    path.write_text("\n\n\n".join([IMPORTS, *sections((one_element(kernel),))]))
    spec = importlib.util.spec_from_file_location(function, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    compiled: list[Any] = []
    launch = JITFunction.run

    def warm(self: Any, *args: Any, warmup: bool = False, **kwargs: Any) -> Any:
        compiled.append(launch(self, *args, warmup=True, **kwargs))
        return compiled[-1]

    JITFunction.run = warm
    try:
        getattr(module, kernel.name)(torch.rand(COUNT))
    finally:
        JITFunction.run = launch
    binary = folder / f"{function}.cubin"
    binary.write_bytes(compiled[0].asm["cubin"])
    tool = Path(triton.__file__).parent / "backends/nvidia/bin/nvdisasm"
    return subprocess.run([tool, "-c", binary], capture_output=True, text=True, check=True).stdout


def one_element(kernel: Kernel) -> Kernel:
    """The kernel with as many elements a program as threads."""
    gpu = kernel.schedule.gpu.model_copy(update={"block": 128, "num_warps": 4})
    return kernel.model_copy(update={"schedule": kernel.schedule.model_copy(update={"gpu": gpu})})


class Pretended:
    """Stands in for a GPU, so that launches are compiled and not made."""

    def get_current_target(self) -> Any:
        """The GPU that is compiled for."""
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", CAPABILITY, 32)

    def get_current_device(self) -> int:
        """The only one."""
        return 0

    def get_current_stream(self, device: int) -> int:
        """None is needed."""
        return device

    def get_active_torch_device(self) -> torch.device:
        """Where arguments may lie."""
        return torch.device("cpu")


def instructions(text: str) -> tuple[list[Instruction], dict[str, int]]:
    """Lines of machine code in order, and the place that each label names."""
    body: list[Instruction] = []
    labels: dict[str, int] = {}
    for line in text.splitlines():
        if label := _LABEL.match(line):
            labels[label[1]] = len(body)
        elif found := _INSTRUCTION.match(line):
            body.append(Instruction(found[1] or "", found[2], found[3]))
    return body, labels


def taken(code: tuple[list[Instruction], dict[str, int]]) -> list[Instruction]:
    """The instructions that ordinary numbers run through.

    A branch forward tells numbers of a kind (huge ones, denormals, NaN) from others, and skips what is done for them.
    Where there are two ways that meet again, the one without a jump is the ordinary.
    """
    body, labels = code
    found: list[Instruction] = []
    place = 0
    while True:
        here = body[place]
        found.append(here)
        if here.name == "EXIT" and not here.guard:
            return found
        target = _TARGET.search(here.operands) if here.name == "BRA" else None
        there = labels[target[0]] if target else 0
        before = body[there - 1]
        has_other_way = bool(here.guard) and before.name == "BRA" and not before.guard
        place = there if there > place and not has_other_way else place + 1


def main() -> None:
    """Print the document."""
    import triton

    build = builder()
    nanoseconds = {name: processor_ns(build, name) for name in CALLED}
    triton.runtime.driver.set_active(Pretended())
    with tempfile.TemporaryDirectory() as name:
        cycles = {function: gpu_cycles(function, Path(name)) for function in CALLED}
    rest = nanoseconds.pop(PLAIN)
    del cycles[PLAIN]
    alone = {function: taken_ns - rest for function, taken_ns in nanoseconds.items()}
    document = {
        "what": "cost of each function of a printed kernel, in exponentials",
        "cpu": {name: round(value / alone["exp"], 2) for name, value in alone.items()},
        "cuda": {name: round(value / cycles["exp"], 2) for name, value in cycles.items()},
        "cpu_ns": {name: round(value, 3) for name, value in alone.items()},
        "gpu_cycles_a_warp": cycles,
        "processor": platform.processor() or platform.machine(),
        "compute_capability": CAPABILITY,
        "triton": triton.__version__,
    }
    json.dump(document, sys.stdout, indent=1)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
