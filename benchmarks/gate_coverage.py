"""Hold the gate against the table of `gate_classes.py` on KernelBench, by graph facts alone.

    python benchmarks/gate_coverage.py KERNELBENCH/KernelBench --graphs FOLDER > results/gate-coverage.json

Nothing is timed and no reference is run: models and inputs are fake tensors, and the ceilings are those of one H200, so
any machine gives the same answer. A capture takes seconds to a minute; `--graphs` keeps them for the next time.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from gate_classes import SKILLS, primary

from kernelskill.features import ExpertFeatureReader
from kernelskill.floor.model import floor_of
from kernelskill.records import Ceilings, Graph, TensorSpec, Workload
from kernelskill.skills import ExpertLibrary
from kernelskill.tasks import load_task

H200 = Ceilings(
    device="NVIDIA H200", threads=1, bandwidth_gb_per_s={"1": 4200.0}, read_gb_per_s={"1": 4500.0},
    write_gb_per_s={"1": 4300.0}, fp32_gflops=122e3, tf32_gflops=365e3, exp_gops=4100.0, parallel_us=0.0, call_us=1.5,
    operator_us=5.0, cache_bytes=50 << 20, measured_on="2026-11-30",
)  # fmt: skip
"""As `kernelskill floor --target cuda` measures them there, at the footprints of these tasks."""
TOP = 3
LEVELS = (1, 2, 3)
_LIMIT_S = 600.0


def capture(path: Path) -> dict[str, Any]:
    """The graph of one task, and what goes in and comes out; in this process, with fake tensors where possible."""
    from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

    fake = FakeTensorMode(allow_non_fake_inputs=True)
    try:
        return _captured(path, fake)
    except (
        DataDependentOutputException,
        AssertionError,
    ):  # forward or __init__ asks for values: make real ones
        return _captured(path, contextlib.nullcontext())


def _captured(path: Path, mode: contextlib.AbstractContextManager[Any]) -> dict[str, Any]:
    from kernelskill.evaluation.worker import capture as exporter
    from kernelskill.evaluation.worker import inputs, reference, tree
    from kernelskill.evaluation.worker.session import Session

    described = load_task(str(path)).reference.model_dump(mode="json")
    session = Session(role="reference", scratch=Path.cwd(), threads=1)
    session.extra["reference"] = described
    names: dict[str, Any] = {"__name__": "reference_source"}
    exec(compile(described["source"], str(path), "exec"), names)
    session.extra["names"] = names
    with mode:
        built = names[described["entry"]]
        args, kwargs = reference.constructor_arguments(reference.init_arguments(described, names))
        session.model = built(*args, **kwargs)
        leaves, nesting = inputs.draw(session, 0)
        arguments = tree.arguments(nesting, leaves)
        graph = exporter.capture(reference.wrapped(session), *arguments)
    return {"inputs": [exporter.tensor_spec(leaf) for leaf in leaves], "graph": graph}


def graph_of(path: Path, kept: Path | None) -> dict[str, Any]:
    """The captured task, from the folder that keeps them or from a process of its own."""
    place = kept / f"{task_id(path)}.json" if kept else None
    if place is not None and place.exists():
        return dict(json.loads(place.read_text()))
    done = subprocess.run(
        [sys.executable, __file__, "--capture", str(path)], capture_output=True, text=True, timeout=_LIMIT_S
    )
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["no message"])[-1][:200]}
    if place is not None:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(done.stdout)
    return dict(json.loads(done.stdout))


def task_id(path: Path) -> str:
    """Level and number, such as 1-19 for level1/19_ReLU.py."""
    return f"{path.parent.name.removeprefix('level')}-{path.stem.partition('_')[0]}"


def workload_of(captured: dict[str, Any]) -> Workload:
    """What the floor and the feature reader ask for; nothing in it was timed."""
    graph = Graph.model_validate(captured["graph"])
    return Workload(
        inputs=tuple(TensorSpec.model_validate(spec) for spec in captured["inputs"]), inputs_tree=None,
        outputs=(), outputs_tree=None, state=(), eager_ms=0.0, graph=graph,
    )  # fmt: skip


def admitted(captured: dict[str, Any], library: ExpertLibrary) -> tuple[str, ...]:
    """Skills that the gate admits on the graph alone, best first."""
    workload = workload_of(captured)
    reader = ExpertFeatureReader(H200, "cuda")
    return library.retrieve(reader.read_graph(workload, floor_of(workload, H200))).admitted


def row(path: Path, kept: Path | None, library: ExpertLibrary, wanted: str) -> dict[str, Any]:
    """One task: its class, what was admitted, and at which rank the first skill of its class stands."""
    found: dict[str, Any] = {"task": task_id(path), "class": wanted, "rank": None}
    captured = graph_of(path, kept)
    if "error" in captured:
        return {**found, "error": captured["error"], "admitted": []}
    skills = admitted(captured, library)
    ranks = [skills.index(skill) + 1 for skill in SKILLS[wanted] if skill in skills]
    return {**found, "rank": min(ranks, default=None), "admitted": list(skills)}


def document(rows: list[dict[str, Any]], library: ExpertLibrary) -> dict[str, Any]:
    """All rows with what they come to."""
    hits = [item for item in rows if item["rank"] and item["rank"] <= TOP]
    per_class = Counter(item["class"] for item in rows)
    return {
        "what": f"primary class of each task among the first {TOP} admitted skills, on graph facts alone",
        "ceilings": H200.model_dump(mode="json"),
        "skills": len(library.cards()),
        "tasks": len(rows),
        "hit_ratio": len(hits) / len(rows),
        "median_admitted": statistics.median(len(item["admitted"]) for item in rows),
        "hits_per_class": {
            name: [sum(item["class"] == name for item in hits), count]
            for name, count in sorted(per_class.items())
        },
        "rows": rows,
    }


def main() -> None:
    """Print the document, or capture one task."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "folder", type=Path, help="folder with level1, level2 and level3; a task with --capture"
    )
    parser.add_argument("--graphs", type=Path, help="keep captured graphs here")
    parser.add_argument("--capture", action="store_true", help="print the captured graph of one task")
    chosen = parser.parse_args()
    if chosen.capture:
        json.dump(capture(chosen.folder), sys.stdout)
        return
    library = ExpertLibrary(None, device=H200.device)
    classes = primary()
    paths = [path for level in LEVELS for path in sorted((chosen.folder / f"level{level}").glob("*.py"))]
    paths = sorted(
        (path for path in paths if task_id(path) in classes),
        key=lambda path: tuple(map(int, task_id(path).split("-"))),
    )
    rows = [row(path, chosen.graphs, library, classes[task_id(path)]) for path in paths]
    json.dump(document(rows, library), sys.stdout, indent=1)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
