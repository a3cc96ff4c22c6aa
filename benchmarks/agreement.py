"""The judge's clock against others: `python benchmarks/agreement.py FILE [NAME...]` (needs a GPU).

Ten honest kernels are timed by the judge, as candidates, and inside one process by Triton's `do_bench` and by replaying
a CUDA graph over inputs that do not fit the cache: means of times that nobody wanted to bend. Writes a results file.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from honest import TIMED, same, source

from kernelskill.config import Config, build_evaluator, load_config
from kernelskill.records import Candidate
from kernelskill.session import describe_machine
from kernelskill.tasks import load_task

ALONE = """
import json, sys, torch, triton
torch.set_default_device("cuda")
for path in sys.argv[1:]:
    space = {}
    exec(compile(open(path).read(), path, "exec"), space)
    model = space["ModelNew"](*space["get_init_inputs"]())
    inputs = space["get_inputs"]()
    size = sum(x.numel() * x.element_size() for x in inputs)
    copies = [inputs] + [[x.clone() for x in inputs] for _ in range(min(15, max(1, int(400e6 // size))))]
    with torch.no_grad():
        bench = triton.testing.do_bench(lambda: model(*inputs), warmup=100, rep=300, return_mode="median")
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for chosen in copies:
                model(*chosen)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            kept = [model(*chosen) for chosen in copies]
        times = []
        for _ in range(25):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record(); graph.replay(); end.record(); torch.cuda.synchronize()
            times.append(begin.elapsed_time(end) / len(copies))
    print(json.dumps({"do_bench_ms": bench, "graph_ms": sorted(times)[len(times) // 2], "copies": len(copies)}))
    del model, inputs, copies, graph, kept
    torch.cuda.empty_cache()
"""
"""Runs in a process of its own; the references' own code is what is timed."""


def outside(names: Sequence[str], folder: Path) -> dict[str, dict[str, float]]:
    """Each kernel by the other clocks."""
    script, offered = folder / "alone.py", [folder / f"{name}.py" for name in names]
    script.write_text(ALONE, encoding="utf-8")
    for name, path in zip(names, offered, strict=True):
        path.write_text(same(name), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script), *map(str, offered)], capture_output=True, text=True, check=True
    )
    return dict(zip(names, map(json.loads, done.stdout.splitlines()), strict=True))


def compared(config: Config, name: str, others: dict[str, float], folder: Path) -> dict[str, object]:
    """One kernel by all clocks, milliseconds a call."""
    path = folder / f"{name}_task.py"
    path.write_text(source(name), encoding="utf-8")
    judge = build_evaluator(config, load_task(str(path), precision=config.precision))
    judge.device.arms = ("eager",)  # only the candidate's own time is asked for
    try:
        workload = judge.describe()
        judge.adopt(workload, None)
        judge.adopt(workload, judge.baselines())
        verdict = judge.screen(Candidate(id="same", parent_id="", source=same(name)), None)
    finally:
        judge.close()
    seen = next(item for item in verdict.timings if item.arm == "candidate")
    nearest = min((others["do_bench_ms"], others["graph_ms"]), key=lambda ms: abs(ms - seen.median_ms))
    return {
        "name": name,
        "judge_ms": seen.median_ms,
        **others,
        "over_do_bench_ratio": seen.median_ms / others["do_bench_ms"],
        "over_graph_ratio": seen.median_ms / others["graph_ms"],
        "over_nearest_ratio": seen.median_ms / nearest,
    }


def main() -> None:
    """Measure and write."""
    config = load_config(target="cuda")
    rows: list[dict[str, object]] = []
    document = {"command": "benchmarks/agreement.py", "machine": describe_machine(config), "rows": rows}
    with tempfile.TemporaryDirectory() as folder:
        for name, others in outside(sys.argv[2:] or TIMED, Path(folder)).items():
            row = compared(config, name, others, Path(folder))
            rows.append(row)
            Path(sys.argv[1]).write_text(json.dumps(document, indent=1), encoding="utf-8")
            words = (f"{key} {value:.4f}" for key, value in row.items() if isinstance(value, float))
            print(f"{name:18}", *words, flush=True)
    for other in ("do_bench", "graph"):
        print(
            f"judge over {other}, median: {median(float(str(row[f'over_{other}_ratio'])) for row in rows):.3f}"
        )


if __name__ == "__main__":
    main()
