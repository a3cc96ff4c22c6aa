"""A recorded kernel as the whole of a program, put before the real gate with all that was recorded of it."""

from recorded import CEILINGS
from right_answers import ANSWERS, KINDS, Row

from kernelskill.features.bounds import FULL_WARPS
from kernelskill.features.catalog import CATALOG, facts_of
from kernelskill.features.kernel_facts import occupancy_ratio
from kernelskill.records import Facts
from kernelskill.records.operators import family, function
from kernelskill.skills import ExpertLibrary

LIBRARY = ExpertLibrary(None, device="NVIDIA H200")
COUNTED = ("elementwise", "reduction", "softmax", "norm", "scan", "pool", "conv", "matmul", "attention")


def floor(recorded):
    """Milliseconds below which no program can do this work, and what sets them."""
    load, calls = recorded.load, recorded.calls
    parts = {
        "memory": CEILINGS.traffic_us(calls * load.read_bytes, calls * load.written_bytes),
        "compute": calls
        * max(load.flops / CEILINGS.fp32_gflops, load.transcendentals / CEILINGS.exp_gops)
        / 1e3,
        "overhead": CEILINGS.call_us,
    }
    bound = max(parts, key=parts.get)
    return parts[bound] / 1e3, bound


def facts(recorded):
    """What a feature reader would say of a program that consists of this kernel or operator."""
    seen = ANSWERS[recorded.name].seen_as
    ours = isinstance(seen, Row)
    floor_ms, bound = floor(recorded)
    timed = recorded.timeline_facts()
    left = 0 if ours else recorded.calls if recorded.name == "tiny_chain" else 1
    dispatch_ms = (left + ours) * CEILINGS.operator_us / 1e3
    # A call takes as long as its kernels, or as the host needs to launch them.
    base_ms = max(timed["time_us"] / 1e3, dispatch_ms)
    program = {
        "target": "cuda", "compute_capability": 90, "threads": 1, "wrapper": "", "kernels": int(ours),
        "operators_left": left, "floor_ms": floor_ms, "floor_bound": bound, "base_ms": base_ms,
        "floor_share_ratio": floor_ms / base_ms, "traffic_ratio": 1.0,
        "dispatch_ms": dispatch_ms,
        "footprint_bytes": recorded.load.moved_bytes, "in_cache": recorded.load.moved_bytes <= CEILINGS.cache_bytes,
        **{f"count_{name}": 0 for name in COUNTED},
    }  # fmt: skip
    measured = {**timed, "share_ratio": 1.0}
    if not ours:
        kind = family(seen.op)
        counted = f"count_{kind}"
        program |= {counted: left} if counted in program else {}
        program |= {"count_matmul": 1} if kind == "attention" else {}
        # A copy that is asked for by name is of another layout: the same one would be no copy.
        program |= {"count_layout_copy": int(kind == "copy" and function(seen.op) == "clone")}
        operator = {
            "op": seen.op, "op_family": kind, "time_us": timed["time_us"], "share_ratio": 1.0, **seen.facts,
        }  # fmt: skip
        return Facts(facts=(*facts_of(program), *facts_of(operator, "node")))
    told = {**recorded.counter_facts(), **{k: v for k, v in recorded.about["code"].items() if k in CATALOG}}
    launch = recorded.launch
    fits = occupancy_ratio(launch["registers"], launch["shared_bytes"], -(-launch["threads"] // 32))
    kernel = {
        "kernel_kind": seen.kind, "rows": seen.rows, "row_length": seen.length, "passes": seen.passes,
        "inner_length": 32 if seen.kind == "strided" else max(seen.rows if seen.kind == "map" else 1, seen.length),
        "bytes": recorded.load.moved_bytes, "transcendentals": recorded.load.transcendentals,
        "flops": recorded.load.flops, "occupancy_ratio": fits,
        "fill_ratio": None if seen.kind == "map" else recorded.warps / FULL_WARPS,
        "expected_bound": recorded.expected(), **told, **measured,
    }  # fmt: skip
    return Facts(facts=(*facts_of(program), *facts_of(kernel, "k")))


def admitted(recorded):
    """Skills that the gate admits, best first."""
    return LIBRARY.retrieve(facts(recorded)).admitted


def kinds(skills):
    """Kinds that some skills are of."""
    return {kind for kind, members in KINDS.items() if set(members) & set(skills)}


def judged(recorded):
    """What is wrong with what the gate admits, in words; "" where it is right."""
    answer, found = ANSWERS[recorded.name], kinds(admitted(recorded))
    wrong = sorted(found & set(answer.unwanted))
    if wrong:
        return f"admits {', '.join(wrong)}"
    return "" if found & set(answer.wanted) else f"admits none of {', '.join(answer.wanted)}"
