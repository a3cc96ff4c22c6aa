"""What a screen costs beside the calls that it times: `python benchmarks/overhead.py FILE` (needs a GPU).

A candidate of about a millisecond a call is screened by a warm judge, and looked at inside one process by a plain
harness with as many timed calls of as many arms, and as many compared results: no workers, no copies, no labels. Then
small candidates that compile a kernel each are screened as fast as they go. Writes a results file; `--steps` prints
what the judge's own process spends its time on.
"""

from __future__ import annotations

import cProfile
import json
import pstats
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer
from honest import BODY, HEAD

from kernelskill.config import Config, build_evaluator, load_config
from kernelskill.evaluation.arms import calls_for
from kernelskill.evaluation.judge import Judge
from kernelskill.evaluation.rounds import WARM_UP
from kernelskill.records import Candidate, Evaluation, Workload
from kernelskill.session import describe_machine
from kernelskill.tasks import load_task

LARGE = {
    "init": "        pass", "names": "a, b", "result": "a @ b",
    "inputs": "torch.randn(2048, 4096), torch.randn(4096, 3072)",
}  # fmt: skip
SMALL = {
    "init": "        pass",
    "names": "x",
    "result": "torch.relu(x) * 2 + 1",
    "inputs": "torch.randn(1024, 1024)",
}
SCREENS, SMALL_SCREENS = 4, 10
KERNEL = """import torch, triton
import triton.language as tl

@triton.jit
def scaled(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.maximum(tl.load(x + at, mask=at < n), 0.0) * 2.0 + {one}, mask=at < n)

class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        scaled[(triton.cdiv(x.numel(), {block}),)](x, y, x.numel(), BLOCK={block})
        return y
"""
PLAIN = """
import json, sys, time, torch
source, arms, timed, compared = open(sys.argv[1]).read(), *map(int, sys.argv[2:])
torch.set_default_device("cuda")
torch.empty(1); torch.cuda.synchronize()
began = time.monotonic()
spaces = []
for name in ["candidate"] + ["stock"] * (arms - 1):
    spaces.append({})
    exec(compile(source, name, "exec"), spaces[-1])
models = [space["ModelNew"](*space["get_init_inputs"]()) for space in spaces]
flush = torch.empty(100 << 20, dtype=torch.uint8)
with torch.no_grad():
    for _ in range(compared):
        inputs = spaces[0]["get_inputs"]()
        assert torch.allclose(models[0](*inputs), models[-1](*inputs), atol=1e-4, rtol=1e-4)
    times = []
    for model in models:
        inputs = spaces[0]["get_inputs"]()
        for _ in range(timed):
            flush.zero_()
            torch.cuda.synchronize()
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record(); model(*inputs); end.record()
            torch.cuda.synchronize()
            times.append(begin.elapsed_time(end))
print(json.dumps({"seconds": time.monotonic() - began, "call_ms": sorted(times)[len(times) // 2]}))
"""
"""The harness; what it takes before its clock starts (importing torch, a context) is not counted."""


def source(parts: dict[str, str], entry: str = "Model") -> str:
    """A task in KernelBench's form, or the same as a candidate."""
    return (HEAD + BODY.format(**parts)).replace("class Model(", f"class {entry}(")


def warm_judge(config: Config, parts: dict[str, str], folder: Path) -> tuple[Judge, Workload]:
    """A judge whose baselines are known and whose arms are up."""
    path = folder / "task.py"
    path.write_text(source(parts), encoding="utf-8")
    judge = build_evaluator(config, load_task(str(path), precision=config.precision))
    assert isinstance(judge, Judge)
    workload = judge.describe()
    judge.adopt(workload, judge.baselines())
    return judge, workload


def counts(found: Evaluation, calls: int) -> tuple[int, int, int]:
    """Arms, timed calls of each, and compared results of a screen."""
    rounds = len(found.timings[0].samples_ms[0]) + WARM_UP
    return len(found.timings), rounds * calls, 2 * len(found.errors)


def against_plain(config: Config, folder: Path, steps: bool) -> dict[str, Any]:
    """Seconds of a screen and of the harness at the same counts."""
    judge, workload = warm_judge(config, LARGE, folder)
    candidate = Candidate(id="same", source=source(LARGE, "ModelNew"))
    try:
        screens = [judge.screen(candidate, None) for _ in range(SCREENS + 1)][1:]
        calls = calls_for(workload, judge.device.free_bytes(), judge.device)
        if steps:
            watch = cProfile.Profile()
            watch.runcall(judge.screen, candidate, None)
            pstats.Stats(watch).sort_stats("cumulative").print_stats(60)
    finally:
        judge.close()
    if not screens[-1].timings:
        raise RuntimeError(f"the screen ended with {screens[-1].status}: {screens[-1].detail}")
    arms, timed, compared = counts(screens[-1], calls)
    plain, offered = folder / "plain.py", folder / "offered.py"
    plain.write_text(PLAIN, encoding="utf-8")
    offered.write_text(candidate.source, encoding="utf-8")
    order = [sys.executable, str(plain), str(offered), *map(str, (arms, timed, compared))]
    alone = [
        json.loads(subprocess.run(order, capture_output=True, text=True, check=True).stdout.splitlines()[-1])
        for _ in range(2)
    ]
    screen_s, plain_s = median(item.machine_s for item in screens), min(item["seconds"] for item in alone)
    return {
        "call_ms": alone[-1]["call_ms"], "arms": arms, "timed_calls_of_each": timed, "compared": compared,
        "statuses": [item.status.value for item in screens], "screen_s": screen_s, "harness_s": plain_s,
        "ratio": screen_s / plain_s,
    }  # fmt: skip


def a_minute(config: Config, folder: Path) -> dict[str, Any]:
    """Small candidates a minute, each of which compiles a kernel that was never compiled before."""
    judge, _ = warm_judge(config, SMALL, folder)
    sources = [
        KERNEL.format(one=f"1.0 + {number}.0 * 0", block=256 << number % 4)
        for number in range(SMALL_SCREENS + 1)
    ]
    try:
        found = []
        for number, text in enumerate(sources):
            if number == 1:  # the first one brings the pool up
                began = time.monotonic()
            found.append(judge.screen(Candidate(id=f"small{number}", source=text), None))
        seconds = time.monotonic() - began
    finally:
        judge.close()
    return {
        "statuses": [item.status.value for item in found[1:]],
        "seconds": [item.machine_s for item in found[1:]],
        "a_minute": 60 * SMALL_SCREENS / seconds,
    }


def main(
    file: Annotated[Path, typer.Argument(help="Results file.")],
    steps: Annotated[bool, typer.Option("--steps", help="Print what the judge's process does.")] = False,
) -> None:
    """Measure and write."""
    config = load_config(target="cuda")
    with tempfile.TemporaryDirectory() as folder:
        large = against_plain(config, Path(folder), steps)
        small = a_minute(config, Path(folder))
    document = {
        "command": "benchmarks/overhead.py",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": describe_machine(config),
        "screen": large,
        "small": small,
    }
    file.write_text(json.dumps(document, indent=1), encoding="utf-8")
    print(f"a screen {large['screen_s']:.2f} s, a plain harness {large['harness_s']:.2f} s at the same counts: "
          f"{large['ratio']:.2f}x; {small['a_minute']:.1f} small candidates a minute")  # fmt: skip


if __name__ == "__main__":
    typer.run(main)
