"""Whole runs against scripted models over HTTP: each ends right, in budget, with the best verified version."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("pydantic_ai", reason="the extra llm is not installed")

from played import play
from replies import Player, failing, file, plan, role_of
from scripted_server import ScriptedServer, Turn

from kernelskill.journal import load_run
from kernelskill.llm import read_calls
from kernelskill.records import Outcome, StopReason
from kernelskill.records.model import Limits, ModelSettings


def settings(server, **changed):
    return ModelSettings(**{"model": server.openai, "timeout_s": 30, **changed})


def winner_of(run):
    return next((item.candidate for item in run.attempts if item.candidate.id == run.result.winner_id), None)


def test_a_capable_model_plays_all_roles(tmp_path):
    player = Player()
    with ScriptedServer(player) as server:
        run, _ = play(tmp_path / "run", settings(server))
    assert run.result.stop is StopReason.ROUNDS
    assert "MS = 0.6" in winner_of(run).source
    assert [item.outcome for item in run.attempts] == [Outcome.SEED, Outcome.NEW_BASE, Outcome.NEW_BASE]
    assert set(player.asked) == {"generator", "feature-reader", "planner", "optimizer"}
    judged = [fact for fact in run.rounds[0].facts.facts if fact.origin == "judged"]
    assert {"kernel_kind", "bandwidth_share_ratio", "kernel_bound"} <= {fact.name for fact in judged}
    assert all(item.plan.skill in run.rounds[0].retrieval.admitted for item in run.attempts[1:2])


def test_weak_three_broken_replies_then_good(tmp_path):
    broken = [
        "I would use CUDA here.",
        "```python\nclass ModelNew(:\n```",
        "```python\nclass Model:\n    pass\n```",
    ]
    player = Player(*broken, file(0.7))
    with ScriptedServer(player) as server:
        run, _ = play(tmp_path / "run", settings(server, tries=4), rounds=0)
    assert "MS = 0.7" in winner_of(run).source
    assert player.asked == ["generator"] * 4
    prompts = [request["prompt"] for request in server.requests]
    assert "no ```python block" in prompts[1]
    assert "not Python: line 1" in prompts[2]
    assert "no class ModelNew" in prompts[3]


def test_weak_three_versions_that_fail_before_the_judge_then_good(tmp_path):
    player = Player(failing("build-error"), failing("wrong-values"), failing("crashed"), file(0.7))
    with ScriptedServer(player) as server:
        run, judge = play(tmp_path / "run", settings(server), rounds=0, repairs=3)
    assert "MS = 0.7" in winner_of(run).source
    assert [item.repair for item in run.attempts] == [0, 1, 2, 3]
    assert player.asked == ["generator"] + ["diagnoser", "repairer"] * 3
    assert len(judge.judged) == 4


def test_stubborn_the_same_failing_idea_is_judged_once(tmp_path):
    def script(number, request):
        prompt = request["prompt"]
        role = role_of(prompt)
        if role == "planner":
            return Turn(plan(prompt, "the same idea"))
        if role == "optimizer":
            return Turn(failing("wrong-values"))
        if role == "repairer":
            return Turn(failing("wrong-values", note="") + "\n")
        return Turn(Player().answer(prompt))

    with ScriptedServer(script) as server:
        run, judge = play(tmp_path / "run", settings(server), rounds=9)
    assert run.result.stop is StopReason.MODEL
    assert "tried on c000 as c001: failed (wrong-values" in run.result.stop_detail
    assert judge.judged == ["c000", "c001"]
    assert winner_of(run).id == "c000"
    assert len(server.requests) < 15


def test_stubborn_new_words_for_the_same_file_are_not_judged_again(tmp_path):
    player = Player(file(0.8), *[file(0.9)] * 20)
    with ScriptedServer(player) as server:
        run, judge = play(tmp_path / "run", settings(server), rounds=9, patience=3)
    assert run.result.stop is StopReason.PATIENCE
    assert judge.judged == ["c000", "c001"]
    assert [item.outcome for item in run.attempts[2:]] == [Outcome.DUPLICATE] * 2


def test_a_cheat_is_neither_repaired_nor_believed(tmp_path):
    player = Player(failing("integrity"))
    with ScriptedServer(player) as server:
        run, _ = play(tmp_path / "run", settings(server))
    assert run.result.stop is StopReason.NO_SEED
    assert (run.result.winner_id, run.result.winner_arm) == ("", "eager")
    assert player.asked == ["generator"]


def test_truncating_halves_are_never_judged(tmp_path):
    with ScriptedServer(lambda number, request: Turn(file(0.1)[:40], finish="length")) as server:
        run, judge = play(tmp_path / "run", settings(server, max_output_tokens=1000))
    assert run.result.stop is StopReason.MODEL
    assert "cut off" in run.result.stop_detail
    assert judge.judged == []
    assert [request["body"]["max_tokens"] for request in server.requests] == [1000, 2000, 4000]


def test_a_reply_that_was_cut_once_is_whole_with_more_room(tmp_path):
    player = Player()

    def script(number, request):
        return Turn("```python\nhalf", finish="length") if number == 0 else player(number, request)

    with ScriptedServer(script) as server:
        run, _ = play(tmp_path / "run", settings(server), rounds=0)
    assert run.result.winner_id == "c000"


def test_rate_limited_broken_and_silent_servers_are_waited_for(tmp_path):
    player = Player()
    bad = [
        Turn(status=429, headers={"retry-after": "1"}), Turn(status=500), Turn(status=503, headers={"retry-after": "0"}),
    ]  # fmt: skip

    def script(number, request):
        return bad[number] if number < len(bad) else player(number, request)

    began = time.monotonic()
    with ScriptedServer(script) as server:
        run, _ = play(tmp_path / "run", settings(server), rounds=1)
    assert run.result.winner_id == "c001"
    assert time.monotonic() - began >= 1
    (seed,) = [call for call in read_calls(tmp_path / "run" / "llm") if call.role == "generator"]
    assert len(seed.reply.notes) == 3
    assert "429" in seed.reply.notes[0]


def test_a_server_that_falls_silent_ends_the_run_with_the_best_so_far(tmp_path):
    player = Player()

    def script(number, request):
        return Turn(hang=True) if role_of(request["prompt"]) == "planner" else player(number, request)

    with ScriptedServer(script) as server:
        run, _ = play(tmp_path / "run", settings(server, timeout_s=5))
    assert run.result.stop is StopReason.MODEL
    assert "no answer in 5 s" in run.result.stop_detail
    assert run.result.winner_id == "c000"


def test_a_silent_first_try_is_paid_and_asked_once_more(tmp_path):
    player = Player()

    def script(number, request):
        return Turn(hang=True) if number == 0 else player(number, request)

    with ScriptedServer(script) as server:
        run, _ = play(tmp_path / "run", settings(server, timeout_s=5), rounds=0)
    assert run.result.winner_id == "c000"
    (call,) = read_calls(tmp_path / "run" / "llm")
    assert call.lost.calls == 1


def test_invalid_json_twenty_times_ends_with_the_best_so_far(tmp_path):
    player = Player()

    def script(number, request):
        return Turn('{"skill": ') if role_of(request["prompt"]) == "planner" else player(number, request)

    with ScriptedServer(script) as server:
        run, _ = play(tmp_path / "run", settings(server, tries=10), rounds=20)
    assert run.result.stop is StopReason.MODEL
    assert "no JSON object" in run.result.stop_detail
    assert run.result.winner_id == "c000"
    assert sum(role_of(request["prompt"]) == "planner" for request in server.requests) == 10


@pytest.mark.parametrize("cents", [0.1, 1, 3])
def test_a_budget_in_dollars_is_never_passed(tmp_path, cents):
    prices = tmp_path / "prices.toml"
    player = Player(*[file(round(0.9 - 0.05 * number, 3)) for number in range(9)])

    def script(number, request):
        tokens = len(request["prompt"]) // 4
        return Turn(player.answer(request["prompt"]), input_tokens=tokens, output_tokens=900)

    with ScriptedServer(script) as server:
        prices.write_text(f'["{server.openai}"]\ninput_usd = 0.25\noutput_usd = 1\nas_of = "2026-11-30"\n')
        limited = settings(server, prices=prices, limits=Limits(usd=cents / 100), max_output_tokens=2000)
        run, _ = play(tmp_path / "run", limited, rounds=9, seeds=3)
    calls = read_calls(tmp_path / "run" / "llm")
    true_usd = sum((len(request["prompt"]) // 4 * 0.25 + 900) / 1e6 for request in server.requests)
    assert sum(call.spent.usd for call in calls) == pytest.approx(true_usd)
    assert true_usd <= cents / 100
    if cents < 3:
        assert run.result.stop is StopReason.MODEL
        assert "dollars" in run.result.stop_detail
    if cents >= 1:
        assert run.result.winner_id


def test_versions_are_asked_for_side_by_side(tmp_path):
    player = Player()

    def script(number, request):
        time.sleep(0.4)
        return player(number, request)

    with ScriptedServer(script) as server:
        play(tmp_path / "run", settings(server), seeds=3, rounds=0)
    assert server.most_at_once == 3


def test_a_replay_needs_no_server_and_comes_to_the_same_end(tmp_path):
    with ScriptedServer(Player()) as server:
        first, _ = play(tmp_path / "first", settings(server))
    again, _ = play(tmp_path / "again", ModelSettings(replay=tmp_path / "first"))
    assert [item.candidate.source for item in again.attempts] == [
        item.candidate.source for item in first.attempts
    ]
    assert again.result == first.result
    assert all(call.replayed for call in read_calls(tmp_path / "again" / "llm"))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_killed_and_resumed_no_call_is_paid_twice(tmp_path):
    """kill -9 whenever an answer was written down; each question reaches the server once, but for one on its way."""
    run = tmp_path / "run"
    with ScriptedServer(Player()) as server:
        command = [sys.executable, str(Path(__file__).with_name("played.py")), str(run), server.openai, "0.5"]
        for _ in range(3):
            process = subprocess.Popen(command)
            seen = len(server.requests)
            while process.poll() is None and not _answered_since(run, server, seen):
                time.sleep(0.02)
            os.kill(process.pid, signal.SIGKILL)
            assert process.wait() == -signal.SIGKILL, "it ended before it could be killed"
        assert subprocess.run(command).returncode == 0
    calls = read_calls(run / "llm")
    prompts = [request["prompt"] for request in server.requests]
    assert all(call.reply for call in calls)
    assert len(set(prompts)) == len(calls)
    assert len(prompts) - len(calls) <= sum(call.lost.calls for call in calls) <= 3
    assert load_run(run).result.winner_id == "c003"


def _answered_since(run, server, seen):
    """Whether a new question was asked and every answer is on disk."""
    calls = read_calls(run / "llm")
    return len(server.requests) > seen and all(call.reply for call in calls)
