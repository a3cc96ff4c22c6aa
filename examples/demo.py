"""The main job on the example tasks, and a table of what came of it."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from kernelskill import optimize
from kernelskill.config import load_config
from kernelskill.report import live, print_runs

TASKS = Path(__file__).parent / "tasks"
ORDER = ("gated_activation", "returns_to_go", "distillation_loss", "big_matmul")
SECONDS_EACH = 70.0
"""Wall seconds after which a task starts no further round."""


def main() -> int:
    """Run every example; 0 if each of them ended with an answer."""
    began = time.monotonic()
    config = load_config()
    results = []
    for name in ORDER:
        print(f"\n{name}", flush=True)
        result = optimize(TASKS / f"{name}.py", config=config, budget=SECONDS_EACH, progress=live())
        print(f"{result!r}\nreport: {result.report.resolve()}", flush=True)
        results.append(result)
    print(f"\n{len(results)} tasks in {time.monotonic() - began:.0f} s\n")
    print_runs([result.run for result in results])
    return 0 if all(result.run.result is not None for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
