"""What a caller may rely on beside the values of one call, seen through a real worker."""

import pytest
import torch
from real_workers import Bound, load, start

from kernelskill.evaluation.process import WorkerFailure

HEAD = "import torch\nclass ModelNew(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"


def model(body, init="pass"):
    return f"{HEAD}        {init}\n    def forward(self, x):\n        {body}\n"


def held(best, source, numel=8, count=3):
    with start(best) as worker:
        load(worker, source)
        bound = Bound(worker, numel, count)
        return bound, bound.run("held")


def test_results_that_are_memory_of_their_own_come_out_right(best):
    bound, reply = held(best, model("return x * 2"))
    assert torch.equal(bound.outputs, 2 * bound.inputs)
    assert reply == {"times_us": [0.0] * 3, "flags": []}


@pytest.mark.parametrize("ring", [1, 2, 5])
@pytest.mark.parametrize("count", [2, 3, 8])
def test_results_in_a_ring_of_buffers_overwrite_each_other(best, ring, count):
    source = model(
        f"self.turn += 1; return torch.mul(x, 2, out=self.kept[self.turn % {ring}])",
        f"self.turn, self.kept = 0, [torch.empty(8) for _ in range({ring})]",
    )
    bound, _ = held(best, source, count=count)
    right = [torch.equal(mine, 2 * given) for mine, given in zip(bound.outputs, bound.inputs, strict=True)]
    assert not all(right)


@pytest.mark.parametrize("view", ["x", "x[:]", "x.view(2, 4).view(8)"])
def test_results_in_memory_of_an_input_are_named(best, view):
    _, reply = held(best, model(f"return {view}"))
    assert reply["flags"] == ["output[0] lies in memory of an input"]


def test_fresh_memory_holds_another_pattern_every_other_time(best):
    with start(best) as worker:
        load(worker, model("return torch.empty(1 << 16)[:8] + 0"))
        bound = Bound(worker)
        patterns = []
        for _ in range(2):
            bound.run("held")
            patterns.append(bound.outputs[0, 4:].clone())
    first, second = patterns
    assert not first.isnan().any()
    assert not torch.equal(first, second)


def test_a_result_in_the_memory_that_copies_go_to_is_refused(best):
    body = (
        "import sys; frame = sys._getframe()\n"
        "        while frame.f_locals.get('item') is None:\n            frame = frame.f_back\n"
        "        return frame.f_locals['item'].outputs[0].copy_(x * 2)"
    )
    with start(best) as worker:
        load(worker, model(body))
        with pytest.raises(WorkerFailure, match="has lent for copies"):
            Bound(worker).run()
