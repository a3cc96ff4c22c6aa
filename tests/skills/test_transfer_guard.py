"""The transfer guard through the real loop on this processor, with a user's skill that was made to hurt maps.

The skill gives maps three sines for nothing, verified and slower, and other kernels three accumulators. After at
most two verified losses it is refused on maps, and is still offered on reductions.
"""

import pytest

from kernelskill.config import load_config
from kernelskill.journal import load_run
from kernelskill.session import begin, carry_on
from kernelskill.skills import EvidenceStore
from kernelskill.tasks import load_task

CARD = """---
name: meant-well
description: Adds work to a kernel, which a test takes for a good idea until the evidence says otherwise.
id: meant-well
title: Meant well
kind: micro
applies: time_us > 0
subject: kernel
bottlenecks: [memory-bandwidth, compute, latency, thread-scaling, launch-overhead, unfused-steps]
structures: []
targets: [cpu]
tiers: [high, medium, low]
expected_gain:
  prior_log_speedup: 3.0
  reasoning: A prior that no evidence supports, so that it is tried before everything else.
hazards: [it is slower on maps]
conflicts: []
source: this test
---
## Mechanism
Text.

## Steps
Text.

## Check that it was really done
Text.

## Worked example
Text.

## When not to
Text.
"""
RECIPE = '''
from kernelskill.program.region import Op
from kernelskill.records import Edit

SKILL = "meant-well"
WORK = 3


def propose(program, facts):
    return [
        Edit(skill=SKILL, site=kernel.name, action="slow", parameters={"work": WORK}, summary=f"slow {kernel.name}")
        for kernel in program.kernels
        if SKILL not in kernel.skills
    ]


def apply(program, edit):
    """Maps: sines that are multiplied by zero. Others: a count of accumulators that no other skill offers."""
    kernel = program.kernel(edit.site)
    region = kernel.region
    if region.is_map:
        stage = region.stages[0]
        store = stage.stores[0]
        ops, value = list(stage.ops), store.value
        for step in range(edit.parameters["work"]):
            ops.append(Op(name=f"waste_{step}", fn="sin", args=(value,)))
            ops.append(Op(name=f"nought_{step}", fn="mul", args=(f"waste_{step}", 0.0)))
            ops.append(Op(name=f"kept_{step}", fn="add", args=(value, f"nought_{step}")))
            value = f"kept_{step}"
        stores = (store.model_copy(update={"value": value}), *stage.stores[1:])
        stage = stage.model_copy(update={"ops": tuple(ops), "stores": stores})
        kernel = kernel.model_copy(update={"body": region.model_copy(update={"stages": (stage,)})})
    else:
        schedule = kernel.schedule.model_copy(update={"accumulators": 3})
        kernel = kernel.model_copy(update={"schedule": schedule})
    return program.with_kernel(kernel.model_copy(update={"skills": (*kernel.skills, SKILL)}))
'''
MAP = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x * {scale} + 1.0) * 0.5 - {scale}


def get_inputs():
    return [torch.randn(256, 2048)]


def get_init_inputs():
    return []
"""
FOLD = MAP.replace(
    "return torch.relu(x * {scale} + 1.0) * 0.5 - {scale}", "return (x * {scale} + 1.0).abs().sum(1)"
)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.timing
def test_a_skill_that_hurts_maps_is_suspended_there_and_used_elsewhere(tmp_path):
    home = tmp_path / "mine" / "meant_well"
    home.mkdir(parents=True)
    (home / "SKILL.md").write_text(CARD)
    (home / "recipe.py").write_text(RECIPE)
    config = load_config(
        None, runs=tmp_path / "runs", cache=tmp_path / "cache", evidence=tmp_path / "evidence.sqlite",
        skills=[home.parent], threads=2, budget={"rounds": 4, "seeds": 1, "repairs": 0}, promotion_sets=2,
    )  # fmt: skip

    def decisions(text, name):
        """What the gate said about the skill in the first round of a run, and whether the run tried it."""
        path = tmp_path / f"{name}.py"
        path.write_text(text)
        folder = begin(config, lambda storage: load_task(str(path), storage=storage))
        run = carry_on(folder, SILENT)
        assert run.rounds, run.result
        said = [
            item for item in run.rounds[0].retrieval.decisions if item.skill == "meant-well" and item.subject
        ]
        return said, any(item.plan.skill == "meant-well" for item in load_run(folder).attempts)

    for number in range(3):
        said, tried = decisions(MAP.format(scale=1.5 + number), f"map{number}")
        if not any(item.admitted for item in said):
            break
        assert tried, "its prior puts it among the first"
    assert said
    assert all("suspended here by evidence" in item.reason for item in said)
    # A run may try the skill on two versions, so that one run alone may bring both losses.
    rows = [row for row in EvidenceStore(tmp_path / "evidence.sqlite").rows("meant-well") if row.verified]
    assert 1 <= len(rows) <= 2
    assert all(row.speedup.high < 1 for row in rows)
    said, tried = decisions(FOLD.format(scale=1.5), "fold")
    assert tried
    assert any(item.admitted for item in said)


class Silent:
    def stage(self, name, detail=""):
        pass

    def attempt(self, attempt, best_speedup):
        pass

    def done(self):
        pass


SILENT = Silent()
