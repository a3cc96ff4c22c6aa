"""Candidate files that cheat, fail, or are honest, before the real judge.

No cheat may be credited with a speedup; no honest candidate may be turned away; no fault may harm the next judgement.
"""

import hashlib

import pytest
from judged import Judges, candidate_of, is_credited

from kernelskill.records import Status

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def judges(tmp_path_factory):
    found = Judges(tmp_path_factory.mktemp("cache"))
    yield found
    found.close()


def screened(judges, task, name):
    """Judged without timing where that is not reached."""
    judge, _ = judges.described(task)
    evaluation = judge.screen(candidate_of(name), None)
    assert not is_credited(evaluation)
    return evaluation


@pytest.mark.parametrize(
    ("task", "name"),
    [
        ("softmax_rows", "c01_zeros"),
        ("layer_norm", "c04_norm_without_affine"),
        ("batch_norm_eval", "c04_norm_is_input"),
        ("relu", "c05_relu_is_input"),
        ("mean", "c05_mean_is_zero"),
        ("similarity", "c05_similarity_is_identity"),
        ("identity", "c14_known_seed"),
        ("row_sums", "c81_wrong_constant"),
        ("gate", "c06_stale_memory"),
        ("gate", "c08_pointer_cache"),
        ("gate", "c17_late_thread"),
        ("gate", "c17_late_slot_writer"),
        ("gate", "c21_patched_comparison"),
        ("gate", "c22_steals_the_answer"),
        ("gate", "half_precision"),
    ],
)
def test_wrong_values_are_refused(judges, task, name):
    evaluation = screened(judges, task, name)
    assert evaluation.status is Status.WRONG_VALUES, evaluation.detail
    assert evaluation.detail


@pytest.mark.parametrize(
    ("name", "statuses"),
    [
        ("c07_destroys_inputs", {Status.CRASHED}),
        ("c18_lazy_subclass", {Status.INTEGRITY}),
        ("c19_instance_override", {Status.INTEGRITY}),
        # The forged bytes or the hang-up, whichever is seen first.
        ("c24_forged_result", {Status.INTEGRITY, Status.CRASHED}),
        ("c24_forged_numbers", {Status.INTEGRITY}),
        ("c25_leaves_at_import", {Status.CRASHED}),
        ("c29_inherits_the_reference", {Status.BUILD_ERROR}),
    ],
)
def test_tampering_is_refused(judges, name, statuses):
    assert screened(judges, "gate", name).status in statuses


@pytest.mark.parametrize("task", ["always_zero", "clamped_away", "never_above_zero"])
def test_a_task_whose_answer_never_changes_proves_nothing(judges, task):
    _, workload = judges.described(task)
    codes = {item.code for item in workload.findings if item.fatal}
    assert codes & {"constant-output", "input-independent", "powerless"}


@pytest.mark.parametrize(
    "name", ["c08_cache_after_many_calls", "c27_slows_the_baseline", "c28_own_constants"]
)
def test_cheats_that_compute_honestly_at_first_gain_nothing(judges, name):
    evaluation = judges.timed("gate").screen(candidate_of(name), None)
    assert not is_credited(evaluation)
    if name.startswith("c08"):
        assert evaluation.status is Status.WRONG_VALUES
        assert "timed" in evaluation.detail
    if name.startswith("c28"):
        assert evaluation.status is Status.PASSED


@pytest.mark.parametrize(
    ("task", "name"),
    [
        ("gate", "control_c31_innocent_words"),
        ("gate", "control_c48_workspace"),
        ("row_sums", "control_c81_blocked_sum"),
        ("row_sums", "control_c87_threaded_sum"),
    ],
)
def test_honest_candidates_pass(judges, task, name):
    evaluation = judges.timed(task).screen(candidate_of(name), None)
    assert evaluation.status is Status.PASSED, evaluation.detail
    assert evaluation.tier == "match"
    assert {item.arm for item in evaluation.comparisons} >= {"eager"}


def test_the_seed_was_fixed_before_and_is_told_afterwards(judges):
    evaluation = screened(judges, "gate", "c06_stale_memory")
    assert hashlib.sha256(bytes.fromhex(evaluation.seed)).hexdigest() == evaluation.seed_commitment
    assert evaluation.seed != screened(judges, "gate", "c06_stale_memory").seed


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("fault_segfault", Status.CRASHED),
        ("fault_endless_python", Status.TIMEOUT),
        ("fault_endless_cpp", Status.TIMEOUT),
        ("fault_memory_bomb", Status.OUT_OF_MEMORY),
        ("fault_floods_stdout", Status.PASSED),
    ],
)
def test_after_a_fault_the_next_judgement_is_right(judges, name, status):
    judge = judges.timed("gate")
    assert judge.screen(candidate_of(name), None).status is status
    after = judge.screen(candidate_of("control_c31_innocent_words"), None)
    assert after.status is Status.PASSED
    assert not is_credited(after)


def test_buffers_that_the_reference_updates_are_compared(judges):
    assert screened(judges, "batch_norm_train", "norm_updates_nothing").status is Status.WRONG_STATE


def test_what_depends_on_earlier_calls_is_not_measured_against_itself(judges):
    assert screened(judges, "counter", "counter_ignored").status is Status.WRONG_VALUES


def test_a_reduced_computation_is_named(judges):
    assert "tier reduced" in screened(judges, "gate", "half_precision").detail


def test_missing_parameters_are_named(judges):
    evaluation = screened(judges, "gate", "wrong_names")
    assert evaluation.status is Status.WRONG_VALUES
    assert "weight" in evaluation.hint


def test_a_lost_reference_worker_is_ours_and_is_replaced(judges):
    judge = judges.timed("gate")
    judge._need.side.worker.close()
    judge._need.seats["eager"].worker.close()
    assert judge.screen(candidate_of("control_c31_innocent_words"), None).status is Status.PASSED


def test_promotion_retimes_the_reference_itself_as_no_change(judges):
    judge = judges.timed("gate")
    evaluation = judge.promote(candidate_of("control_c31_innocent_words"))
    assert evaluation.status is Status.PASSED, evaluation.detail
    assert evaluation.stage == "promotion"
    assert {item.sets for item in evaluation.comparisons} == {judge.promotion_sets}
    assert not is_credited(evaluation)
