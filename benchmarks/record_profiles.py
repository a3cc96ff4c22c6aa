"""What counters, timeline and compiler say about kernels of many kinds: `python benchmarks/record_profiles.py FOLDER`.

Needs a GPU, ncu and the right to read counters; takes about two minutes. Writes FOLDER/profiles.tar.gz with one folder
for each kernel (`ncu.csv` as ncu printed it, `kernel.json` with work, timeline and resources, `kernel.ptx`), and
`recording.json` with device, versions, ceilings and what else was tried. Stages that fail are noted there, not raised.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
import triton
from profiled_kernels import Case, cases, mark

from kernelskill.evaluation.cuda import ncu
from kernelskill.profiling.counting import Counting
from kernelskill.records import Candidate

LIMIT_S = 145.0
BEGAN = time.monotonic()
REPEATS = 7
MARK = "mark"
SOURCE = Path(__file__).resolve().parents[1] / "src"


def under_ncu() -> None:
    """Call each case once between ncu's marks, after a kernel whose grid tells the case's number."""
    everything = cases()
    buffer = torch.empty(len(everything) + 1, device="cuda")
    for case in everything:
        case.call()
    mark[(1,)](buffer)
    torch.cuda.synchronize()
    for number, case in enumerate(everything, 1):
        with torch.cuda.profiler.profile():
            mark[(number,)](buffer)
            case.call()
            torch.cuda.synchronize()


def timeline(case: Case) -> dict[str, Any]:
    """Device times of a call's kernels, microseconds, and the time of a call on the host's clock."""
    for _ in range(3):
        case.call()
    torch.cuda.synchronize()
    calls = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        case.call()
        torch.cuda.synchronize()
        calls.append(1e6 * (time.perf_counter() - began))
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as watch:
        for _ in range(REPEATS):
            case.call()
        torch.cuda.synchronize()
    kernels = [
        {"name": entry.key, "time_us": entry.self_device_time_total / REPEATS, "count": entry.count / REPEATS}
        for entry in watch.key_averages()
        if str(getattr(entry, "device_type", "")).endswith("CUDA") and entry.self_device_time_total
    ]
    return {"calls_us": calls, "call_us": statistics.median(calls), "kernels": kernels}


def compiled(case: Case) -> tuple[dict[str, Any], str]:
    """Resources of a Triton kernel, and its PTX."""
    if case.kernel is None:
        return {}, ""
    function = next(one for entry in case.kernel.device_caches.values() for one in entry[0].values())
    told = {
        "registers": function.n_regs,
        "spills": function.n_spills,
        "shared_bytes": function.metadata.shared,
        "warps": function.metadata.num_warps,
    }
    return told, function.asm["ptx"]


def split(log: str, names: list[str]) -> dict[str, str]:
    """The log by case: the table's two head rows with the rows that follow the case's mark."""
    rows = [row for row in csv.reader(line for line in log.splitlines() if line.startswith('"'))]
    head, units, body = rows[0], rows[1], rows[2:]
    kernel, grid = head.index("Kernel Name"), head.index("Grid Size")
    found: dict[str, list[list[str]]] = {}
    current = ""
    for row in body:
        if row[kernel].split("(")[0] == MARK:
            current = names[int(re.findall(r"\d+", row[grid])[0]) - 1]
        elif current:
            found.setdefault(current, [head, units]).append(row)
    return {name: as_csv(table) for name, table in found.items()}


def as_csv(rows: list[list[str]]) -> str:
    """As ncu writes it: every cell quoted."""
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    return out.getvalue()


class Watcher:
    """Runs one program under ncu as often as it is asked to; offers what `Counting` asks of an evaluator.

    Args:
        program: command line.
        log: file for what ncu prints.
        seconds: longest time of one run.
    """

    def __init__(self, program: list[str], log: Path, seconds: float) -> None:
        self._program, self._log, self._seconds = program, log, seconds
        self.runs: list[dict[str, Any]] = []
        """Of each run: exit code, seconds, end of the program's own output, what ncu printed."""

    def count(self, _: Any, metrics: Sequence[str]) -> dict[str, str]:
        """One run."""
        tool = ncu.find_ncu()
        if tool is None:
            return {"log": "", "error": "no ncu"}
        words = ncu.command(tool, metrics, self._log)
        words[words.index("--launch-count") + 1] = "1000"
        self._log.unlink(missing_ok=True)
        began = time.monotonic()
        process = subprocess.Popen(
            [*words, *self._program],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        try:
            said = process.communicate(timeout=max(5.0, min(self._seconds, left())))[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            said = f"killed after {time.monotonic() - began:.0f} s: {process.communicate()[0]}"
        text = self._log.read_text(errors="replace") if self._log.exists() else ""
        seconds = time.monotonic() - began
        self.runs.append({"code": process.returncode, "seconds": seconds, "said": said[-3000:], "log": text})
        return {"log": text, "error": ""}


class Overheard:
    """An evaluator whose counts are kept as they come, with the seconds they took."""

    def __init__(self, evaluator: Any) -> None:
        self._evaluator = evaluator
        self.counts: list[dict[str, Any]] = []

    def profile(self, candidate: Any, kernels: Any) -> Any:
        """What the evaluator says."""
        return self._evaluator.profile(candidate, kernels)

    def count(self, candidate: Any, metrics: Any) -> Any:
        """What the evaluator says, which is kept."""
        began = time.monotonic()
        reply = self._evaluator.count(candidate, metrics)
        self.counts.append({"seconds": time.monotonic() - began, "reply": reply})
        return reply


def whole_profile() -> dict[str, Any]:
    """What the profiler of the project itself says about a candidate, through a judge and its confined workers."""
    from kernelskill.evaluation.cuda.judge import cuda_judge
    from kernelskill.profiling import GpuProfiler
    from kernelskill.records import Reference, Task

    judge = cuda_judge(
        Task(
            name="double",
            hash="double",
            origin="double.py",
            reference=Reference(
                loader="source", kind="module", entry="Model", source=DOUBLE,
                init_entry="get_init_inputs", inputs_entry="get_inputs",
            ),
        )
    )  # fmt: skip
    try:
        judge.describe()
        candidate = Candidate(id="c001", source=DOUBLED)
        heard = Overheard(judge)
        profile = GpuProfiler(heard).profile(candidate)
        sandbox = [judge.sandbox.level, *judge.sandbox.layers]
    finally:
        judge.close()
    return {
        "sandbox": sandbox,
        "counts": heard.counts,
        "profile": profile.model_dump(mode="json"),
    }


DOUBLE = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2.0
def get_init_inputs():
    return []
def get_inputs():
    return [torch.randn(4096, 8192)]
"""
DOUBLED = """
import torch, triton
import triton.language as tl

@triton.jit
def _double(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, 2.0 * tl.load(x + at, at < n), at < n)

def double(x):
    y = torch.empty_like(x)
    _double[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
    return y

class ModelNew(torch.nn.Module):
    def forward(self, x):
        return double(x)
"""


class Recording:
    """The folder that is filled, and what is noted beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.notes: dict[str, Any] = {}

    def stage(self, name: str, work: Callable[[], Any]) -> Any:
        """Do one part; its result, or its traceback, is noted under its name."""
        began = time.monotonic()
        try:
            if left() < 10:
                raise TimeoutError("no time was left")
            result = work()
        except Exception:  # noqa: BLE001  the other parts are worth having without this one
            result = {"error": traceback.format_exc()[-3000:]}
        self.notes[name] = result
        sys.stdout.write(f"{name}: {time.monotonic() - began:.1f} s\n")
        sys.stdout.flush()
        return result

    def write(self, path: str, text: str) -> None:
        """One file of the archive."""
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


def left() -> float:
    """Seconds until the limit."""
    return LIMIT_S - (time.monotonic() - BEGAN)


def device() -> dict[str, Any]:
    """What this was recorded on."""
    properties = torch.cuda.get_device_properties(0)
    smi = subprocess.run(
        ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    tool = ncu.find_ncu()
    version = (
        subprocess.run([str(tool), "--version"], capture_output=True, text=True, check=False)
        if tool
        else None
    )
    parameters = Path("/proc/driver/nvidia/params")
    return {
        "name": properties.name,
        "compute_capability": f"{properties.major}.{properties.minor}",
        "multiprocessors": properties.multi_processor_count,
        "l2_bytes": properties.L2_cache_size,
        "driver": smi.stdout.strip(),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "python": sys.version.split()[0],
        "ncu": str(tool),
        "ncu_version": version.stdout.strip().splitlines()[-1:] if version else [],
        "driver_parameters": parameters.read_text() if parameters.exists() else "",
        "kernel": os.uname().release,
        "date": datetime.now(UTC).date().isoformat(),
    }


def record(folder: Path) -> None:
    """Everything, in order of worth."""
    with tempfile.TemporaryDirectory() as place:
        recording = Recording(Path(place) / "profiles")
        log = Path(place) / "ncu.csv"
        recording.stage("device", device)

        def times() -> list[str]:
            everything = cases()
            for case in everything:
                seen = timeline(case)
                told, ptx = compiled(case)
                work = {
                    "name": case.name, "read_bytes": case.read_bytes, "written_bytes": case.written_bytes,
                    "flops": case.flops, "transcendentals": case.transcendentals, "is_map": case.is_map,
                }  # fmt: skip
                about = {**work, "timeline": seen, "resources": told}
                recording.write(f"{case.name}/kernel.json", json.dumps(about, indent=1))
                if ptx:
                    recording.write(f"{case.name}/kernel.ptx", ptx)
            return [case.name for case in everything]

        names = recording.stage("timelines", times)
        torch.cuda.empty_cache()

        def counted() -> dict[str, Any]:
            program = [sys.executable, str(Path(__file__).resolve()), "--under-ncu"]
            watcher = Watcher(program, log, 85.0)
            launches, note = Counting(watcher).of(Candidate(id="all", source=""))
            told = [{**run, "log": run["log"][:3000]} for run in watcher.runs]
            recording.write("ncu-whole.csv", watcher.runs[-1]["log"])
            for name, table in split(watcher.runs[-1]["log"], names).items():
                recording.write(f"{name}/ncu.csv", table)
            return {"launches": len(launches), "note": note, "runs": told}

        recording.stage("counters", counted)
        recording.stage("whole_profile", whole_profile)

        def wrong_name() -> list[dict[str, Any]]:
            program = [sys.executable, "-c", "import cupy; cupy.cuda.profiler.start(); cupy.arange(8).sum()"]
            watcher = Watcher(program, log, 25.0)
            watcher.count(None, ("sm__nosuch_thing.avg", "gpu__time_duration.sum", "nosuch__metric.sum"))
            return watcher.runs

        recording.stage("wrong_name", wrong_name)

        def ceilings() -> Any:
            script = SOURCE / "kernelskill" / "floor" / "measure_gpu.py"
            done = subprocess.run(
                [sys.executable, "-I", str(script), "0"],
                capture_output=True, text=True, timeout=min(40.0, left()), check=True,
            )  # fmt: skip
            return json.loads(done.stdout)

        recording.stage("ceilings", ceilings)

        def known() -> list[str]:
            tool = ncu.find_ncu()
            done = subprocess.run(
                [str(tool), "--query-metrics", "--csv"],
                capture_output=True,
                text=True,
                timeout=left(),
                check=False,
            )
            return re.findall(r"\b(?:smsp|sm|l1tex|lts|dram|gpu|launch)__\w+", done.stdout + done.stderr)

        recording.stage("known_metrics", known)
        recording.write("recording.json", json.dumps(recording.notes, indent=1))
        folder.mkdir(parents=True, exist_ok=True)
        with tarfile.open(folder / "profiles.tar.gz", "w:gz") as archive:
            archive.add(recording.folder, "profiles")
    archived = folder / "profiles.tar.gz"
    sys.stdout.write(f"{archived}: {archived.stat().st_size} bytes\n")


if __name__ == "__main__":
    os.environ.setdefault("TRITON_CACHE_DIR", str(Path(tempfile.gettempdir()) / "record_profiles_triton"))
    if sys.argv[1:] == ["--under-ncu"]:
        under_ncu()
    elif len(sys.argv) == 2:
        record(Path(sys.argv[1]))
    else:
        sys.exit("usage: python benchmarks/record_profiles.py FOLDER")
