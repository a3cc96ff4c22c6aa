"""A small real program, and a library of scripted skills over it that stands in for the neighbours' one.

A program is a chain of nodes; skills that fuse make a kernel of one node, skills that schedule set a field of a
kernel's schedule.
"""

from __future__ import annotations

from kernelskill.errors import ProgramError
from kernelskill.program.program import Kernel, Program, program_hash
from kernelskill.program.region import Axis, Op, Operand, Region, Stage, Store
from kernelskill.program.schedule import Schedule
from kernelskill.records import (
    Attempt,
    Candidate,
    Comparison,
    Edit,
    Evaluation,
    Facts,
    GateDecision,
    Graph,
    GraphInput,
    Interval,
    Node,
    Outcome,
    Plan,
    Ref,
    Reference,
    Retrieval,
    Status,
    Task,
    TensorSpec,
    Workload,
)

SPEC = TensorSpec.contiguous((64,))
TASK = Task(
    name="toy",
    hash="0" * 64,
    reference=Reference(loader="source", kind="module", entry="Model"),
    origin="toy.py",
)


def graph(*ops, outputs=None):
    """A chain of nodes n0, n1, ...; each reads the one before."""
    nodes, last = [], "x"
    for place, op in enumerate(ops):
        nodes.append(Node(name=f"n{place}", op=op, args=(Ref(node=last),), outputs=(SPEC,)))
        last = f"n{place}"
    return Graph(
        inputs=(GraphInput(name="x", spec=SPEC, leaf=0),),
        state=(),
        nodes=tuple(nodes),
        outputs=tuple(Ref(node=name) for name in outputs or (last,)),
        outputs_tree={"tensor": 0},
    )


def workload(captured, error=""):
    return Workload(
        inputs=(SPEC,),
        inputs_tree={"list": [{"tensor": 0}]},
        outputs=(SPEC,),
        outputs_tree={"tensor": 0},
        state=(),
        eager_ms=1.0,
        graph=captured,
        capture_error=error,
    )


def region():
    operand = {"dtype": "float32", "strides": (1,)}
    return Region(
        axes=(Axis(size=64, role="parallel"),),
        inputs=(Operand(name="x", **operand),),
        outputs=(Operand(name="y", **operand),),
        stages=(
            Stage(
                kind="map",
                ops=(Op(name="v", fn="load", args=("x",)),),
                stores=(Store(operand="y", value="v"),),
            ),
        ),
    )


def as_json(program):
    return program.model_dump(mode="json")


def fused(*names, **schedule):
    """The chain n0, n1, ... in which each is a kernel of that name."""
    kernels = [
        Kernel(name=name, body=region(), schedule=Schedule(**schedule), outputs=(SPEC,)) for name in names
    ]
    return Program(graph=graph(*(f"kernel:{name}" for name in names)), kernels=tuple(kernels))


def candidate(name, program, parent="", skills=()):
    return Candidate(
        id=name,
        parent_id=parent,
        source=f"# {name}",
        program=as_json(program),
        program_hash=program_hash(program),
        skills=skills,
    )


def decision(skill, subject="", admitted=True, reason="", expected=1.2, **facts):
    return GateDecision(
        skill=skill,
        subject=subject,
        admitted=admitted,
        reason=reason or f"{skill} fits",
        facts=facts,
        expected_speedup=expected,
    )


def retrieval(*decisions):
    return Retrieval(headroom="high", bottlenecks=(), decisions=decisions)


def attempt(
    index,
    plan,
    made,
    status=Status.PASSED,
    outcome=None,
    over_base=None,
    over_eager=None,
    errors=(),
    detail="",
    hint="",
    diagnosis=None,
):
    """A judged attempt; what failed carries no speedup."""
    comparisons = tuple(
        Comparison(
            arm=arm,
            speedup=Interval(low=value * 0.99, value=value, high=value * 1.01),
            rounds=20,
            sets=8,
            significant=value > 1.03,
        )
        for arm, value in (("base", over_base), ("eager", over_eager))
        if value is not None and status is Status.PASSED
    )
    if outcome is None:
        outcome = Outcome.SEED if not plan.base_id else Outcome.NOT_FASTER
        outcome = outcome if status is Status.PASSED else Outcome.FAILED
    return Attempt(
        index=index,
        round=0 if not plan.base_id else index,
        plan=plan,
        candidate=made,
        evaluation=Evaluation(
            candidate_id=made.id,
            source_hash=made.source_hash,
            stage="screen",
            status=status,
            comparisons=comparisons,
            errors=errors,
            detail=detail,
            hint=hint,
            noise_band_ratio=0.02,
        ),
        outcome=outcome,
        diagnosis=diagnosis,
    )


def plan(base_id, *edits):
    return Plan(base_id=base_id, edits=edits, skill=edits[-1].skill if edits else "", reason="")


def schedule(kernel, field, value, *others, skill="tune"):
    return Edit(
        skill=skill,
        site=kernel,
        action=f"schedule.{field}",
        parameters={field: value},
        space={field: (value, *others)} if others else {},
        summary=f"{kernel}: {field} -> {value}",
    )


class ToyLibrary:
    """Implements `protocols.SkillLibrary` by scripts.

    `fusing`: skill -> operator whose nodes it turns into kernels. `fields`: skill -> (field, values) that it sets on
    every kernel. `library-compile` wraps; an edit with the action `nothing` changes nothing.
    """

    def __init__(self, decisions=(), fusing=None, fields=None):
        self.decisions = decisions
        self.fusing = fusing or {}
        self.fields = fields or {}
        self.applied = []

    def retrieve(self, facts: Facts):
        return retrieval(*self.decisions)

    def propose(self, skill, program, facts):
        parsed = Program.model_validate(program)
        if skill == "library-compile":
            return (
                [] if parsed.wrapper or parsed.kernels else [Edit(skill=skill, site="forward", action="wrap")]
            )
        if skill in self.fields:
            field, values = self.fields[skill]
            edits = []
            for kernel in parsed.kernels:
                other = [value for value in values if value != getattr(kernel.schedule, field)]
                if other:
                    edits.append(schedule(kernel.name, field, *other, skill=skill))
            return edits
        wanted = self.fusing.get(skill)
        nodes = [node for node in parsed.graph.nodes if node.op == wanted]
        return [Edit(skill=skill, site=node.name, action="fuse") for node in nodes]

    def unlearned(self):
        return self

    def apply(self, program, edit):
        self.applied.append(edit.key)
        parsed = Program.model_validate(program)
        if edit.action == "wrap":
            return as_json(parsed.model_copy(update={"wrapper": "compile"}).with_skill(edit.skill))
        if edit.action == "nothing":
            return as_json(parsed.with_skill(edit.skill))
        if edit.action.startswith("schedule."):
            return self._scheduled(parsed, edit)
        return self._fused(parsed, edit)

    def _scheduled(self, parsed, edit):
        try:
            kernel = parsed.kernel(edit.site)
        except KeyError:
            raise ProgramError(f"there is no kernel {edit.site}") from None
        changed = Schedule.model_validate({**kernel.schedule.model_dump(), **edit.parameters})
        return as_json(
            parsed.with_kernel(kernel.model_copy(update={"schedule": changed})).with_skill(edit.skill)
        )

    def _fused(self, parsed, edit):
        node = next((item for item in parsed.graph.nodes if item.name == edit.site), None)
        if node is None or node.op != self.fusing.get(edit.skill):
            raise ProgramError(f"{edit.site} is not there to fuse")
        name = f"k_{edit.site}"
        nodes = tuple(
            item.model_copy(update={"op": f"kernel:{name}"}) if item is node else item
            for item in parsed.graph.nodes
        )
        kernel = Kernel(name=name, body=region(), outputs=(SPEC,), skills=(edit.skill,))
        return as_json(
            parsed.model_copy(
                update={
                    "graph": parsed.graph.model_copy(update={"nodes": nodes}),
                    "kernels": (*parsed.kernels, kernel),
                    "skills": (*parsed.skills, edit.skill),
                }
            )
        )

    def remember(self, attempt, facts, context):
        """Nothing is learnt."""
