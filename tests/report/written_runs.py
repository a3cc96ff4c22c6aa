"""Runs written by hand: a win over three rounds, nothing to gain, untestable, all failed, unfinished."""

from kernelskill.records import (
    Attempt,
    Baselines,
    Budget,
    Candidate,
    Comparison,
    Diagnosis,
    Edit,
    Evaluation,
    Fact,
    Facts,
    FamilyError,
    Finding,
    Floor,
    GateDecision,
    Interval,
    Labels,
    Outcome,
    Plan,
    Profile,
    Reference,
    Result,
    Retrieval,
    Round,
    Run,
    Status,
    StepProfile,
    StopReason,
    Task,
    TensorSpec,
    Timing,
    Workload,
)  # fmt: skip

SOURCE = '"""<script>alert(1)</script> & friends."""\n\nclass ModelNew:\n    pass\n'


def timing(arm, ms):
    return Timing(arm=arm, median_ms=ms, p10_ms=ms * 0.98, p90_ms=ms * 1.05, samples_ms=((ms, ms * 1.01),))


def compared(arm, low, value, high, significant=True):
    return Comparison(
        arm=arm, speedup=Interval(low=low, value=value, high=high), rounds=40, sets=4, significant=significant
    )


def judged(name, *comparisons, stage="screen", status=Status.PASSED, detail=""):
    if status is not Status.PASSED:
        return Evaluation(candidate_id=name, source_hash="f" * 64, stage=stage, status=status, detail=detail)
    return Evaluation(
        candidate_id=name, source_hash="f" * 64, stage=stage, status=status, tier="match", comparisons=comparisons,
        timings=(timing("candidate", 0.21), timing("eager", 0.95), timing("compile", 0.52)),
        errors=(FamilyError(family="task", output="output[0]", rms=8e-8, rms_eager=7e-8, limit=2e-7, worst_abs=1e-6, passed=True),),
        labels=Labels(kinds=("custom",), own_share_ratio=0.98, flags=("settings <changed>",)), noise_band_ratio=0.02,
        sandbox="full: bubblewrap", seed="ab" * 16, seed_commitment="cd" * 32, machine_s=3.2,
    )  # fmt: skip


def attempt(index, round_, outcome, evaluation, parent="", skill="fuse-elementwise", facts=None, **more):
    name = f"c{index:03d}"
    edit = Edit(
        skill=skill, site="gate", action="set", parameters={"unroll": 4}, summary=f"{skill} on <gate>"
    )
    plan = Plan(
        base_id=parent, edits=(edit,), skill=skill, reason="first by rank", evidence_facts=facts or {}
    )
    candidate = Candidate(id=name, parent_id=parent, source=SOURCE, skills=("fuse-elementwise", skill))
    return Attempt(
        index=index,
        round=round_,
        plan=plan,
        candidate=candidate,
        evaluation=evaluation,
        outcome=outcome,
        **more,
    )


def unfinished():
    task = Task(
        name="gate", hash="ab" * 32, origin="tasks/gate<b>.py",
        reference=Reference(loader="source", kind="module", entry="Model", source="class Model: pass"),
    )  # fmt: skip
    return Run(
        id="20260101-gate", created="2026-01-01T00:00:00+00:00", task=task, target="cpu", budget=Budget(), config={},
        machine={"device": "a processor", "threads": 2, "torch_version": None},
    )  # fmt: skip


def described():
    spec = TensorSpec.contiguous((64, 64))
    finding = Finding(code="overhead-bound", message="the call is short", fatal=False)
    workload = Workload(
        inputs=(spec,), inputs_tree={"list": [{"tensor": 0}]}, outputs=(spec,), outputs_tree={"tensor": 0},
        state=(), eager_ms=0.9, findings=(finding,),
    )  # fmt: skip
    floor = Floor(
        bytes_min=2_097_152, flops=1e7, transcendentals=1e6, launches=9, memory_ms=0.05, compute_ms=0.15,
        overhead_ms=0.004, floor_ms=0.154, bound="compute",
    )  # fmt: skip
    baselines = Baselines(
        timings=(timing("eager", 0.95), timing("compile", 0.52)), best_arm="compile", noise_band_ratio=0.02,
        unavailable={"graph": "cpu target"}, null_ms=0.1,
    )  # fmt: skip
    return unfinished().model_copy(
        update={
            "workload": workload, "floor": floor, "baselines": baselines,
            "machine_s": {"describe": 2.0, "floor": 1.0, "baselines": 9.0, "screen/000": 3.0, "attempt/000": 3.5},
        }
    )  # fmt: skip


def win():
    facts = {"kernel_bound": "compute", "vector_bits_used": 256}
    attempts = (
        attempt(0, 0, Outcome.SEED, judged("c000", compared("compile", 1.5, 1.6, 1.7))),
        attempt(
            1, 0, Outcome.FAILED, judged("c001", status=Status.BUILD_ERROR, detail="line 1\nerror: '<x>' wrong"),
            skill="library-compile",
            diagnosis=Diagnosis(cause="build", evidence="g++", remedy="leave <it>", repairable=False),
        ),
        attempt(
            2, 1, Outcome.NEW_BASE,
            judged("c002", compared("compile", 2.0, 2.1, 2.2), compared("base", 1.2, 1.3, 1.35)),
            parent="c000", skill="widen-vectors", facts=facts,
        ),
        attempt(
            3, 2, Outcome.NOT_FASTER, judged("c003", compared("base", 0.98, 1.0, 1.02, significant=False)),
            parent="c002", skill="tune-threads", facts={"parallel_efficiency_ratio": 0.55},
        ),
        attempt(4, 3, Outcome.DUPLICATE, None, parent="c002", duplicate_of="c003"),
        attempt(
            5, 3, Outcome.NEW_BASE,
            judged("c005", compared("compile", 2.3, 2.4, 2.5), compared("base", 1.1, 1.15, 1.2)),
            parent="c002", skill="unroll-accumulate", facts={"kernel_bound": "latency"},
        ),
    )  # fmt: skip
    retrieval = Retrieval(
        headroom="high", bottlenecks=("compute", "latency"),
        decisions=(
            GateDecision(skill="widen-vectors", subject="gate", admitted=True, reason="vector_bits_used (256) < 512", measured=True),
            GateDecision(skill="stream-stores", subject="gate", admitted=False, reason="in_cache is True"),
        ),
    )  # fmt: skip
    profile = Profile(
        kind="timeline", total_us=300.0, note="no counters on this machine",
        steps=(StepProfile(name="gate", kind="kernel", time_us=280.0, calls=1, one_thread_us=520.0),),
    )  # fmt: skip
    rounds = (
        Round(
            index=1, base_id="c000", profile=profile, retrieval=retrieval,
            facts=Facts(facts=(Fact(name="vector_bits_used", value=256, origin="parsed", unit="bit", subject="gate"),)),
        ),
    )  # fmt: skip
    promotion = judged(
        "c005", compared("eager", 4.2, 4.4, 4.6), compared("compile", 2.3, 2.4, 2.5), stage="promotion"
    )
    result = Result(
        stop=StopReason.PATIENCE, stop_detail="4 rounds", winner_id="c005", winner_arm="candidate",
        promotion=promotion, floor_share_ratio=0.73,
    )  # fmt: skip
    return described().model_copy(update={"attempts": attempts, "rounds": rounds, "result": result})


def nothing_to_gain():
    result = Result(
        stop=StopReason.NOTHING_TO_GAIN, stop_detail="best stock (eager) takes 9.6 ms and the floor is 9.4 ms",
        winner_id="", winner_arm="eager", floor_share_ratio=0.98,
    )  # fmt: skip
    return described().model_copy(update={"result": result})


def untestable():
    result = Result(
        stop=StopReason.UNTESTABLE,
        stop_detail="output constant over 3 inputs",
        winner_id="",
        winner_arm="eager",
    )
    return unfinished().model_copy(update={"result": result})


def all_failed():
    result = Result(stop=StopReason.NO_SEED, stop_detail="none of 1", winner_id="", winner_arm="compile")
    failed = attempt(0, 0, Outcome.FAILED, judged("c000", status=Status.CRASHED, detail=""))
    return described().model_copy(update={"attempts": (failed,), "result": result})


RUNS = {
    "win": win, "nothing-to-gain": nothing_to_gain, "untestable": untestable, "all-failed": all_failed,
    "unfinished": unfinished, "described": described,
}  # fmt: skip
