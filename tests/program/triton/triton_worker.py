"""Runs or compiles printed kernels in a process of its own: Triton's interpreter is chosen before Triton is loaded.

python triton_worker.py interpret JOBS RESULTS
python triton_worker.py compile JOBS RESULTS
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import torch
from graph_arguments import argument


def loaded(source: str, folder: Path, name: str) -> Any:
    path = folder / f"{name}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def poison(module: Any) -> None:
    """Fresh memory holds sevens, so that what is not written shows."""

    class Torch:
        def __getattr__(self, name: str) -> Any:
            return getattr(torch, name)

        def empty(self, *args: Any, **kwargs: Any) -> torch.Tensor:
            return torch.empty(*args, **kwargs).fill_(77)

        def empty_strided(self, *args: Any, **kwargs: Any) -> torch.Tensor:
            return torch.empty_strided(*args, **kwargs).fill_(77)

    module.torch = Torch()


def round_once() -> None:
    """The interpreter rounds between the product and the sum of an fma; devices don't."""
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

    def fma(self: Any, x: Any, y: Any, z: Any) -> Any:
        exact = x.data.astype("float64") * y.data + z.data
        return TensorHandle(exact.astype(x.data.dtype), z.dtype.scalar)

    InterpreterBuilder.create_fma = fma


def run(job: dict[str, Any], module: Any) -> tuple[list[torch.Tensor], dict[str, torch.Tensor]]:
    """Outputs, and new values of buffers."""
    graph, values = job["graph"], dict(job["values"])

    given = partial(argument, values=values)
    for node in graph.nodes:
        arguments = [given(arg) for arg in node.args]
        if node.op.startswith("kernel:"):
            result = getattr(module, node.op.removeprefix("kernel:"))(*arguments)
        else:
            _, name, overload = node.op.split(".")
            operator = getattr(getattr(torch.ops.aten, name), overload)
            with torch.no_grad():
                result = operator(*arguments, **{key: given(value) for key, value in node.kwargs.items()})
        values[node.name] = list(result) if isinstance(result, (tuple, list)) else [result]
    return [given(ref) for ref in graph.outputs], {path: given(ref) for path, ref in graph.updates.items()}


class FakeDriver:
    """Stands in for a GPU while launches are compiled, not made."""

    def __init__(self, capability: int) -> None:
        from triton.backends.compiler import GPUTarget

        self.target = GPUTarget("cuda", capability, 32)

    def get_current_target(self) -> Any:
        return self.target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")


def usage(cubin: bytes, folder: Path) -> dict[str, int]:
    """Registers and bytes of local memory of a compiled kernel."""
    import triton

    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    path = folder / "kernel.cubin"
    path.write_bytes(cubin)
    done = subprocess.run([tool, "-res-usage", path], capture_output=True, text=True, check=True)
    words = dict(
        word.split(":", 1) for word in done.stdout.split() if word.count(":") == 1 and word[-1] != ":"
    )
    return {key: int(words[key]) for key in ("REG", "STACK", "LOCAL")}


def compile_all(jobs: list[dict[str, Any]], folder: Path) -> dict[str, Any]:
    """(capability, kernel) -> usage, and copies to shared memory ahead of their use, of every launch."""
    import triton
    from triton.runtime.jit import JITFunction

    found: dict[str, Any] = {}
    launch = JITFunction.run
    for capability in (80, 90, 100):
        triton.runtime.driver.set_active(FakeDriver(capability))

        def record(self: Any, *args: Any, warmup: bool = False, **kwargs: Any) -> Any:
            kernel = launch(self, *args, warmup=True, **kwargs)
            used = {**usage(kernel.asm["cubin"], folder), "AHEAD": kernel.asm["ptx"].count("cp.async.c")}
            found[f"{capability} {self.__name__}"] = used  # noqa: B023
            return kernel

        JITFunction.run = record
        for number, job in enumerate(jobs):
            if capability in job["capabilities"]:
                run(job, loaded(job["source"], folder, f"job_{capability}_{number}"))
    return found


def main() -> None:
    kind, jobs_path, results_path = sys.argv[1:]
    jobs = torch.load(jobs_path, weights_only=False)
    with tempfile.TemporaryDirectory() as name:
        folder, results = Path(name), {}
        if kind == "compile":
            results = compile_all(jobs, folder)
        else:
            round_once()
            for number, job in enumerate(jobs):
                module = loaded(job["source"], folder, f"job_{number}")
                poison(module)
                try:
                    results[job["name"]] = run(job, module)
                except Exception as error:  # noqa: BLE001 - reported by the test of this job alone
                    results[job["name"]] = f"{type(error).__name__}: {error}"
    torch.save(results, results_path)


if __name__ == "__main__":
    main()
