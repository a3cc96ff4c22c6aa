"""The judge as a reward function: how much faster a proposed kernel is, if it is right; else nothing.

    python examples/reward.py

A reward must not be gamed: candidates run confined, on inputs that are drawn after they have loaded, and only a win
over the fastest stock recipe that is beyond noise counts. Baselines are measured once per task.
"""

import math
from pathlib import Path

from kernelskill.config import build_evaluator, load_config
from kernelskill.records import Candidate, Status
from kernelskill.tasks import load_task


class Reward:
    """Rewards for one task; close it when training is over."""

    def __init__(self, task: str, **settings: object) -> None:
        config = load_config(None, **settings)
        self.judge = build_evaluator(config, load_task(task, precision=config.precision))
        self.judge.adopt(self.judge.describe(), None)
        self.best = self.judge.baselines().best_arm

    def __call__(self, source: str) -> float:
        """-1 for what does not run, 0 for a wrong or slower result, else the logarithm of the sure speedup."""
        verdict = self.judge.screen(Candidate(id="proposal", source=source), None)
        if verdict.status is not Status.PASSED:
            return 0.0 if verdict.status.startswith("wrong") else -1.0
        won = [item for item in verdict.comparisons if item.arm == self.best and item.significant]
        return math.log(won[0].speedup.low) if won else 0.0


if __name__ == "__main__":
    task = Path(__file__).parent / "tasks" / "gated_activation.py"
    reward = Reward(str(task))
    same = task.read_text(encoding="utf-8").replace("class Model(", "class ModelNew(")
    print("the reference itself:", reward(same), "- a program that is none:", reward("class ModelNew("))
    reward.judge.close()
