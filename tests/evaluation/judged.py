"""Real judges for the tests of this room, one per task, kept for the session."""

from pathlib import Path

from kernelskill.evaluation.judge import CpuJudge
from kernelskill.records import Candidate, Reference, Task

HERE = Path(__file__).parent
PATIENCE_S = 12.0


def task_of(name, **changes):
    source = (HERE / "tasks" / f"{name}.py").read_text()
    reference = Reference(
        loader="source",
        kind="module",
        entry="Model",
        source=source,
        init_entry="get_init_inputs",
        inputs_entry="get_inputs",
    )
    return Task(name=name, hash=name, reference=reference, origin=f"{name}.py", **changes)


def candidate_of(name):
    return Candidate(id=name, source=(HERE / "candidates" / f"{name}.py").read_text())


def is_credited(evaluation):
    """Whether anybody would believe that it is faster."""
    return any(item.significant for item in evaluation.comparisons)


class Judges:
    """Judge and workload by task name; baselines only where they are asked for."""

    def __init__(self, cache):
        self.cache = cache
        self.known = {}

    def described(self, name, **settings):
        if name not in self.known:
            judge = CpuJudge(task_of(name), cache_dir=self.cache, patience_s=PATIENCE_S, **settings)
            self.known[name] = judge, judge.describe()
        return self.known[name]

    def timed(self, name):
        judge, _ = self.described(name)
        if judge._baselines is None:
            judge.baselines()
        return judge

    def close(self):
        for judge, _ in self.known.values():
            judge.close()
