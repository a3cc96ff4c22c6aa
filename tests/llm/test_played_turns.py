"""Expert and model in turn, through the real loop: whatever becomes of the expert's versions, the model gets its turn."""

import json
from dataclasses import replace

import pytest

pytest.importorskip("pydantic_ai", reason="the extra llm is not installed")

from played import TASK, ScriptedJudge, play
from replies import Player, failing, role_of
from scripted_server import ScriptedServer, Turn
from test_played_runs import settings

from kernelskill.agents import (
    ExpertDiagnoser,
    ExpertGenerator,
    ExpertOptimizer,
    ExpertPlanner,
    ExpertRepairer,
)
from kernelskill.agents.turns import DiagnoserByAuthor, GeneratorsInTurn, OptimizerByAuthor, RepairerByAuthor
from kernelskill.program import CpuPrinter
from kernelskill.records import Evaluation, Outcome, Status, StopReason
from kernelskill.search import Tuner


class NoCompiler(ScriptedJudge):
    """Nothing that the expert prints can be built here."""

    def _verdict(self, candidate, stage, base):
        if "MS = " in candidate.source:
            return super()._verdict(candidate, stage, base)
        return Evaluation(
            candidate_id=candidate.id, source_hash=candidate.source_hash, stage=stage, status=Status.BUILD_ERROR,
            detail="no compiler",
        )  # fmt: skip


def expert_first(parts, workload):
    """As `--agents expert,llm` wires them."""
    library = parts.library
    return replace(
        parts,
        generator=GeneratorsInTurn(ExpertGenerator(library), parts.generator),
        planner=ExpertPlanner(library, Tuner()), successors=(parts.planner,),
        optimizer=OptimizerByAuthor(ExpertOptimizer(library, CpuPrinter(), TASK, workload), parts.optimizer),
        diagnoser=DiagnoserByAuthor(ExpertDiagnoser(), parts.diagnoser),
        repairer=RepairerByAuthor(ExpertRepairer(library, parts.memory, workload), parts.repairer),
    )  # fmt: skip


def test_the_model_writes_first_versions_where_all_of_the_experts_fail(tmp_path):
    player = Player()
    with ScriptedServer(player) as server:
        run, judge = play(tmp_path / "run", settings(server), NoCompiler(), expert_first, rounds=1, repairs=0)
        again, _ = play(tmp_path / "run", settings(server), NoCompiler(), expert_first, rounds=1, repairs=0)
    failed = [item for item in run.attempts if item.outcome is Outcome.FAILED]
    assert failed
    assert all(item.plan.intent is None for item in failed), "the expert's"
    written = [item for item in run.attempts if item.plan.intent is not None]
    assert [item.outcome for item in written] == [Outcome.SEED, Outcome.NEW_BASE]
    assert run.result.winner_id == written[-1].candidate.id
    assert again.result == run.result
    assert player.asked.count("generator") == 1
    assert len(judge.judged) == len(run.attempts)


def test_where_the_models_fail_too_that_is_the_end(tmp_path):
    player = Player(*[failing("build-error", str(count)) for count in range(9)])
    with ScriptedServer(player) as server:
        run, _ = play(tmp_path / "run", settings(server), NoCompiler(), expert_first, repairs=0)
    authors = [item.plan.intent is not None for item in run.attempts]
    assert authors == sorted(authors)
    assert set(authors) == {False, True}
    assert run.result.stop is StopReason.NO_SEED
    assert run.result.stop_detail == f"none of {len(authors)} first versions was verified"


def test_a_model_that_has_no_further_proposal_is_quoted(tmp_path):
    player = Player()

    def script(number, request):
        if role_of(request["prompt"]) == "planner":
            return Turn(json.dumps({"stop": "bell runs at 97 % of the bandwidth"}))
        return player(number, request)

    with ScriptedServer(script) as server:
        run, _ = play(tmp_path / "run", settings(server))
    assert run.result.stop is StopReason.NO_SKILL_LEFT
    assert run.result.stop_detail.startswith("c000: ")
    assert run.result.stop_detail.endswith("proposes nothing further: bell runs at 97 % of the bandwidth")


def test_a_model_that_is_not_worth_its_price_says_so(tmp_path):
    prices = tmp_path / "prices.toml"
    with ScriptedServer(Player()) as server:
        prices.write_text(f'["{server.openai}"]\ninput_usd = 5\noutput_usd = 25\nas_of = "2026-11-30"\n')
        run, _ = play(tmp_path / "run", settings(server, prices=prices, percent_usd=1e-9))
    assert run.result.stop is StopReason.MODEL
    assert "would cost about $" in run.result.stop_detail
