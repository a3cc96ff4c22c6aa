"""Terminal text is plain where there is no terminal, and says what the page says."""

import io
import json

from rich.console import Console
from written_runs import all_failed, nothing_to_gain, win

from kernelskill.report import print_evaluation, print_run, print_runs, summary
from kernelskill.report.progress import LineProgress


def test_every_kind_of_run_prints_without_escape_codes(run, tmp_path, capsys):
    print_run(run, tmp_path)
    print_runs([run])
    printed = capsys.readouterr().out
    assert run.task.name in printed
    assert "\x1b" not in printed


def test_a_win_names_speedups_skills_and_facts(tmp_path, capsys):
    print_run(win(), tmp_path)
    printed = capsys.readouterr().out
    assert "2.40x over best stock (compile)" in printed
    assert "4.40x [4.20, 4.60]" in printed
    assert "widen-vectors" in printed
    assert "vector_bits_used=256" in printed


def test_nothing_to_gain_is_said(tmp_path, capsys):
    print_run(nothing_to_gain(), tmp_path)
    assert "Nothing to gain" in capsys.readouterr().out


def test_a_failed_verdict_shows_no_speedup(capsys):
    print_evaluation(all_failed().attempts[0].evaluation)
    printed = capsys.readouterr().out
    assert "crashed" in printed
    assert "speedup" not in printed


def test_summaries_are_strict_json(run):
    row = json.loads(json.dumps(summary(run), allow_nan=False))
    assert row["id"] == run.id


def test_progress_is_one_clean_line_an_event():
    text = io.StringIO()
    progress = LineProgress(Console(file=text, width=400))
    progress.stage("judge", "c001 [not markup]")
    for attempt in win().attempts:
        progress.attempt(attempt, 2.0)
    progress.done()
    lines = text.getvalue().splitlines()
    assert len(lines) == 1 + len(win().attempts)
    assert "[not markup]" in lines[0]
    assert "\x1b" not in text.getvalue()
