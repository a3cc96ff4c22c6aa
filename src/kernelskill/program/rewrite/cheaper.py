"""Cheaper arithmetic of equal accuracy, on the operations of a kernel.

Each rule gives the region with less work per element, or the same region where it finds nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from kernelskill.program.region import Op, Region, Stage

Rule = Callable[[Region], Region]


def reciprocal(region: Region) -> Region:
    """Division of every element by a number of its row, or by a constant: multiply by the reciprocal.

    Rounds twice instead of once, so a result may differ by one unit in the last place. Denormal divisors, whose
    reciprocal overflows, are the row's own quotient of 1 / s: infinite, as x / s would be for all but tiny x.
    """
    stages: list[Stage] = []
    known: set[str] = set()
    taken = _names(region)
    made: dict[str, str] = {}
    for stage in region.stages:
        if stage.kind == "scalar":
            known |= {op.name for op in stage.ops}
        else:
            added: list[Op] = []
            ops = tuple(_multiplied(op, known, made, added, taken) for op in stage.ops)
            if added:
                stages.append(Stage(kind="scalar", ops=tuple(added)))
            stage = stage.model_copy(update={"ops": ops})
            known |= {item.name for item in stage.reductions}
        stages.append(stage)
    return region.model_copy(update={"stages": tuple(stages)})


def _multiplied(op: Op, known: set[str], made: dict[str, str], added: list[Op], taken: set[str]) -> Op:
    if op.fn != "div":
        return op
    top, bottom = op.args
    if isinstance(bottom, str) and bottom in known:
        if bottom not in made:
            made[bottom] = _fresh(f"{bottom}_reciprocal", taken)
            added.append(Op(name=made[bottom], fn="div", args=(1.0, bottom)))
        return op.model_copy(update={"fn": "mul", "args": (top, made[bottom])})
    if isinstance(bottom, float) and math.isfinite(bottom) and 2.0**-100 < abs(bottom) < 2.0**100:
        return op.model_copy(update={"fn": "mul", "args": (top, 1.0 / bottom)})
    return op


def shared(region: Region) -> Region:
    """The same operation on the same arguments in one walk: computed once."""
    stages = []
    for stage in region.stages:
        first: dict[tuple[str, tuple[str | float, ...]], str] = {}
        renamed: dict[str, str] = {}
        ops: list[Op] = []
        for op in stage.ops:
            args = tuple(renamed.get(arg, arg) if isinstance(arg, str) else arg for arg in op.args)
            if op.fn == "copy" and isinstance(args[0], str) and args[0] in {item.name for item in ops}:
                renamed[op.name] = args[0]
            elif (op.fn, args) in first:
                renamed[op.name] = first[op.fn, args]
            else:
                first[op.fn, args] = op.name
                ops.append(op.model_copy(update={"args": args}))
        stages.append(_with_ops(stage, ops, renamed))
    return region.model_copy(update={"stages": tuple(stages)})


def one_exponential(region: Region) -> Region:
    """tanh(u) + 1 as 2 sigmoid(2u), which does not cancel for negative u; tanh(softplus(x)) by one exponential."""
    taken = _names(region)
    stages = []
    for stage in region.stages:
        by_name = {op.name: op for op in stage.ops}
        ops: list[Op] = []
        for op in stage.ops:
            ops += _sigmoid_for_tanh(op, by_name, taken) or _mish_gate(op, by_name, taken) or [op]
        stages.append(_with_ops(stage, ops, {}))
    return region.model_copy(update={"stages": tuple(stages)})


def _sigmoid_for_tanh(op: Op, by_name: dict[str, Op], taken: set[str]) -> list[Op]:
    if op.fn != "add" or 1.0 not in op.args:
        return []
    other = op.args[0] if op.args[1] == 1.0 else op.args[1]
    inner = by_name.get(other) if isinstance(other, str) else None
    if inner is None or inner.fn != "tanh":
        return []
    twice, gate = _fresh("twice", taken), _fresh("gate", taken)
    return [
        Op(name=twice, fn="mul", args=(inner.args[0], 2.0)),
        Op(name=gate, fn="sigmoid", args=(twice,)),
        Op(name=op.name, fn="mul", args=(gate, 2.0)),
    ]


LINEAR_FROM = 20.0
"""Where softplus is the identity, and its tanh is 1 in float32."""


def _mish_gate(op: Op, by_name: dict[str, Op], taken: set[str]) -> list[Op]:
    """tanh(log(1 + e)) = n / (n + 2) with n = e (e + 2), for e = exp(x); x is cut where the result is 1."""
    soft = by_name.get(str(op.args[0])) if op.fn == "tanh" else None
    if soft is None or soft.fn != "where":
        return []
    test, x, log = by_name.get(str(soft.args[0])), soft.args[1], by_name.get(str(soft.args[2]))
    exp = by_name.get(str(log.args[0])) if log is not None and log.fn == "log1p" else None
    if test is None or test.fn != "gt" or test.args != (x, LINEAR_FROM) or exp is None:
        return []
    if exp.fn != "exp" or exp.args != (x,):
        return []
    cut, e, two, n, below = (_fresh(name, taken) for name in ("cut", "grown", "grown_two", "whole", "below"))
    return [
        Op(name=cut, fn="min", args=(x, LINEAR_FROM)),
        Op(name=e, fn="exp", args=(cut,)),
        Op(name=two, fn="add", args=(e, 2.0)),
        Op(name=n, fn="mul", args=(e, two)),
        Op(name=below, fn="add", args=(n, 2.0)),
        Op(name=op.name, fn="div", args=(n, below)),
    ]


def _with_ops(stage: Stage, ops: list[Op], renamed: dict[str, str]) -> Stage:
    """A stage with other operations; those that nothing in it reads any more are left out."""
    reductions = tuple(
        item.model_copy(update={"value": renamed.get(item.value, item.value)}) for item in stage.reductions
    )
    stores = tuple(
        item.model_copy(update={"value": renamed.get(item.value, item.value)}) for item in stage.stores
    )
    if stage.kind == "scalar":
        # Later stages read the values of the row by name.
        return stage.model_copy(update={"ops": tuple(ops) if not renamed else stage.ops})
    live = {item.value for item in reductions} | {item.value for item in stores}
    for op in reversed(ops):
        if op.name in live:
            live |= {arg for arg in op.args if isinstance(arg, str)}
    kept = tuple(op for op in ops if op.name in live)
    return stage.model_copy(update={"ops": kept, "reductions": reductions, "stores": stores})


def _names(region: Region) -> set[str]:
    stages = (*region.stages, *([region.total_stage] if region.total_stage else []))
    names = {op.name for stage in stages for op in stage.ops}
    names |= {item.name for stage in stages for item in stage.reductions}
    names |= {f"{item.name}_max" for stage in stages for item in stage.reductions}
    names |= {item.name for item in (*region.inputs, *region.outputs)} | {item.name for item in region.total}
    return names


def _fresh(name: str, taken: set[str]) -> str:
    number, found = 1, name
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    taken.add(found)
    return found


RULES: dict[str, tuple[Rule, str]] = {
    "reciprocal": (reciprocal, "multiply by a reciprocal instead of dividing"),
    "shared": (shared, "compute equal operations once"),
    "one-exponential": (one_exponential, "one exponential for tanh and softplus"),
}
"""Action of an edit -> the rule, and what it does."""
