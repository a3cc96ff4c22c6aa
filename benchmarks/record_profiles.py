"""What counters, timeline and compiler say about kernels of many kinds: `python benchmarks/record_profiles.py FOLDER`.

Needs a GPU, ncu and the right to read counters; takes two minutes and a half at most. Writes FOLDER/profiles.tar.gz
with one folder for each kernel (`ncu.csv` as ncu printed it, `kernel.json` with work, timeline and resources,
`kernel.ptx`), and `recording.json` with device, versions and ceilings. Stages that fail are noted there, not raised.
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
from profiled_case import Case
from profiled_kernels import cases, mark
from profiled_worker import whole_profile
from triton.runtime.jit import JITFunction

from kernelskill.evaluation.cuda import ncu
from kernelskill.profiling.counting import Counting
from kernelskill.records import Candidate

LIMIT_S = 145.0
WHOLE_S = 30.0
"""What the profile of a whole candidate may take."""
BEGAN = time.monotonic()
REPEATS = 7
MARK = "mark"
BESIDE = (
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "l1tex__throughput.avg.pct_of_peak_sustained_elapsed",
    "sm__cycles_active.avg",
    "sm__cycles_elapsed.avg",
    "smsp__inst_executed.sum",
)
"""Metrics that are recorded beside those of the project, to judge what it makes of its own."""
SOURCE = Path(__file__).resolve().parents[1] / "src"


def under_ncu() -> None:
    """Call each case once between ncu's marks, after a kernel whose grid tells the case's number."""
    everything = cases()
    buffer = torch.empty(len(everything) + 1, device="cuda")
    mark[(1,)](buffer)
    for number, case in enumerate(everything, 1):
        try:
            case.call()
            torch.cuda.synchronize()
            with torch.cuda.profiler.profile():
                mark[(number,)](buffer)
                case.call()
                torch.cuda.synchronize()
        except Exception:  # noqa: BLE001  the other kernels are worth having without this one
            sys.stderr.write(f"{case.name}: {traceback.format_exc()[-600:]}")


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
    with tempfile.TemporaryDirectory() as place:
        trace = Path(place) / "trace.json"
        watch.export_chrome_trace(str(trace))
        seen = launches(trace)
    last = seen[-(len(seen) // REPEATS) :] if seen else []
    return {"calls_us": calls, "call_us": statistics.median(calls), "kernels": kernels, "launches": last}


def work(case: Case) -> dict[str, Any]:
    """Name of a case, and the work that its mathematics needs."""
    return {
        "name": case.name, "read_bytes": case.read_bytes, "written_bytes": case.written_bytes,
        "flops": case.flops, "transcendentals": case.transcendentals, "is_map": case.is_map,
    }  # fmt: skip


def compiled(case: Case) -> list[dict[str, Any]]:
    """Resources of what a call launches, and its PTX where Triton compiled it; a library's functions are left out."""
    if case.function is not None:
        told = case.function.attributes
        return [
            {
                "registers": told["num_regs"],
                "spills": told["local_size_bytes"] // 4,
                "shared_bytes": told["shared_size_bytes"],
                "warps": 32,
                "ptx": "",
            }
        ]
    launched: dict[str, Any] = {}
    launch = JITFunction.run

    def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
        launched[self.__name__] = found = launch(self, *args, **kwargs)
        return found

    JITFunction.run = watched
    try:
        case.call()
    finally:
        JITFunction.run = launch
    return [
        {
            "registers": function.n_regs,
            "spills": function.n_spills,
            "shared_bytes": function.metadata.shared,
            "warps": function.metadata.num_warps,
            "ptx": function.asm["ptx"],
        }
        for function in launched.values()
    ]


GEOMETRY = {
    "grid": "grid",
    "block": "block",
    "registers per thread": "registers",
    "shared memory": "shared_bytes",
}
"""What torch.profiler notes of a launch -> name here."""


def launches(trace: Path) -> list[dict[str, Any]]:
    """Name, microseconds and geometry of every launch in an exported trace."""
    events = json.loads(trace.read_text())["traceEvents"]
    kernels = sorted((one for one in events if one.get("cat") == "kernel"), key=lambda one: float(one["ts"]))
    return [
        {
            "name": event["name"],
            "time_us": event["dur"],
            **{name: event["args"].get(key) for key, name in GEOMETRY.items()},
        }
        for event in kernels
    ]


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
        """One run; one more without the metrics beside, should ncu know one of them not."""
        reply = self._run((*metrics, *BESIDE))
        return reply if '"ID"' in reply["log"] else self._run(metrics)

    def _run(self, metrics: Sequence[str]) -> dict[str, str]:
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

    def pack(self, folder: Path) -> None:
        """The archive of what there is so far."""
        self.write("recording.json", json.dumps(self.notes, indent=1))
        folder.mkdir(parents=True, exist_ok=True)
        archived = folder / "profiles.tar.gz"
        with tarfile.open(archived, "w:gz") as archive:
            archive.add(self.folder, "profiles")
        sys.stdout.write(f"{archived}: {archived.stat().st_size} bytes\n")

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
        names = [case.name for case in cases()]

        def times() -> list[str]:
            seen: list[str] = []
            failed: dict[str, str] = {}
            for case in cases():
                try:
                    about = {**work(case), "timeline": timeline(case), "resources": {}}
                    functions = compiled(case)
                except Exception:  # noqa: BLE001  the other kernels are worth having without this one
                    failed[case.name] = traceback.format_exc()[-2000:]
                    continue
                if functions:
                    (function,) = functions
                    if function["ptx"]:
                        recording.write(f"{case.name}/kernel.ptx", function["ptx"])
                    about["resources"] = {name: value for name, value in function.items() if name != "ptx"}
                recording.write(f"{case.name}/kernel.json", json.dumps(about, indent=1))
                seen.append(case.name)
            recording.notes["failed"] = failed
            return seen

        recording.stage("timelines", times)
        torch.cuda.empty_cache()

        def counted() -> dict[str, Any]:
            program = [sys.executable, str(Path(__file__).resolve()), "--under-ncu"]
            watcher = Watcher(program, log, 100.0)
            launches, note = Counting(watcher).of(Candidate(id="all", source=""))
            told = [{**run, "log": run["log"][:3000]} for run in watcher.runs]
            recording.write("ncu-whole.csv", watcher.runs[-1]["log"])
            for name, table in split(watcher.runs[-1]["log"], names).items():
                recording.write(f"{name}/ncu.csv", table)
            return {"launches": len(launches), "note": note, "runs": told}

        recording.stage("counters", counted)
        recording.pack(folder)

        def ceilings() -> Any:
            script = SOURCE / "kernelskill" / "floor" / "measure_gpu.py"
            done = subprocess.run(
                [sys.executable, "-I", str(script), "0"],
                capture_output=True, text=True, timeout=min(40.0, left()), check=True,
            )  # fmt: skip
            return json.loads(done.stdout)

        recording.stage("ceilings", ceilings)
        if left() > WHOLE_S:
            recording.stage("whole_profile", whole_profile)
        recording.pack(folder)


if __name__ == "__main__":
    os.environ.setdefault("TRITON_CACHE_DIR", str(Path(tempfile.gettempdir()) / "record_profiles_triton"))
    if sys.argv[1:] == ["--under-ncu"]:
        under_ncu()
    elif len(sys.argv) == 2:
        record(Path(sys.argv[1]))
    else:
        sys.exit("usage: python benchmarks/record_profiles.py FOLDER")
