"""What is told of a candidate, from an observation that may be forged and from what the judge took away."""

import sys
from pathlib import Path

import pytest
import torch
from real_workers import Bound, load, start

from kernelskill.evaluation.conformance.case import BUILD
from kernelskill.evaluation.labels import Knocked, is_allowed, labels_of, own_share, watched_slower
from kernelskill.evaluation.process import WorkerFailure
from kernelskill.evaluation.worker.native import own_code
from kernelskill.records import Labels

SCALE = 'extern "C" void twice(const float* x, float* y, long n) { for (long i = 0; i < n; i++) y[i] = 2 * x[i]; }'
OWN = f"""
import torch
{BUILD.format(code=SCALE)}
class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.zeros_like(x)
        native.twice(ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(y.data_ptr()), ctypes.c_long(x.numel()))
        return y
"""
DECOY = OWN.replace("return y", "return x * 2")
CAUGHT = """
import torch
class ModelNew(torch.nn.Module):
    def forward(self, x):
        try:
            raise RuntimeError("no kernel")
        except RuntimeError:
            return x * 2
"""


@pytest.mark.parametrize(("source", "same"), [(OWN, False), (DECOY, True)])
def test_silencing_a_kernel_tells_whether_the_result_needs_it(best, source, same):
    with start(best) as worker:
        load(worker, source)
        bound = Bound(worker, numel=4096)
        bound.run()
        assert torch.equal(bound.outputs, 2 * bound.inputs)
        assert worker.call("operators", timeout_s=60)["own_code"] is True
        bound.outputs.fill_(7.0)
        assert bound.run("knocked", [0])["flags"] == ["silenced"]
        assert torch.equal(bound.outputs[0], 2 * bound.inputs[0]) is same


def test_a_fallback_that_ran_is_seen(best):
    with start(best) as worker:
        load(worker, CAUGHT)
        bound = Bound(worker)
        bound.run()
        seen = worker.call("operators", timeout_s=60)
        assert seen["fallbacks"] == ["RuntimeError at line 6"]
        assert seen["own_code"] is False
        assert bound.run("knocked", [0])["flags"] == []


def test_one_row_less_tells_what_is_for_one_shape_alone(best):
    fixed = "import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        assert len(x) == 8\n        return x\n"
    with start(best) as worker:
        load(worker, fixed.replace("assert len(x) == 8", "x = x * 2"))
        bound = Bound(worker, numel=8)
        assert bound.run("smaller", [0])["flags"] == ["7"]
        assert torch.equal(bound.outputs[0, :7], 2 * bound.inputs[0, :7])
    with start(best) as worker:
        load(worker, fixed)
        with pytest.raises(WorkerFailure, match="AssertionError"):
            Bound(worker, numel=8).run("smaller", [0])


def test_this_process_has_no_code_of_a_candidate(tmp_path):
    assert own_code(tmp_path) == []


def test_packages_are_no_candidates_code_even_below_its_folder():
    assert own_code(Path(sys.prefix)) == []


SEEN = {"operators": [{"op": "aten::mul"}], "operators_us": 10.0, "call_us": 100.0}


def test_the_share_of_own_kernels_is_what_a_call_is_shorter_without_them():
    assert own_share(SEEN, None) == 0.0
    assert own_share(SEEN, Knocked(same=True, call_us=20.0)) == 0.0
    assert own_share(SEEN, Knocked(same=False, call_us=20.0)) == pytest.approx(80 / 90)
    assert own_share(SEEN, Knocked(same=False, call_us=None)) == pytest.approx(90 / 100)
    assert own_share({"own_share_ratio": 0.7}, Knocked(same=False, call_us=None)) == 0.7
    assert own_share({"own_share_ratio": 9.0}, Knocked(same=False, call_us=None)) == 1.0
    assert own_share({"own_share_ratio": 9.0}, None) == 0.0
    assert own_share({"call_us": "much", "operators_us": 1.0}, Knocked(same=False, call_us=1.0)) == 0.0


def test_kinds_follow_from_what_ran():
    own, decoy = Knocked(same=False, call_us=5.0), Knocked(same=True, call_us=5.0)
    assert labels_of(SEEN, (), (), own).kinds == ("custom",)
    assert labels_of(SEEN, (), (), decoy).kinds == ("library",)
    assert "decide nothing" in labels_of(SEEN, (), (), decoy).flags[0]
    assert labels_of(SEEN, (), (), None).kinds == ("library",)
    assert labels_of({**SEEN, "linked": ["cblas_sgemm"]}, (), (), own).kinds == ("library",)
    assert labels_of({**SEEN, "compiled": True}, (), (), own).kinds == ("compile",)
    assert labels_of(SEEN, (), (), own, specialised=True).kinds == ("custom", "specialised")


def test_a_policy_lets_only_what_it_names_win():
    assert is_allowed(Labels(kinds=("library",)), frozenset())
    assert is_allowed(Labels(kinds=("custom", "specialised")), frozenset({"custom"}))
    assert not is_allowed(Labels(kinds=("library",)), frozenset({"custom"}))
    assert not is_allowed(Labels(), frozenset({"custom"}))


def test_work_that_takes_longer_once_it_is_not_timed_is_other_work():
    assert watched_slower({"call_us": 900.0}, 0.2)
    assert not watched_slower({"call_us": 250.0}, 0.2)
    assert not watched_slower({"call_us": 60.0}, 0.01)
    assert not watched_slower({"call_us": 900.0, "device_us": 250.0}, 0.2)
    assert not watched_slower({"call_us": 900.0}, None)
