"""The page of 250 tasks holds for every kind of run, believes nobody's text, loads nothing, and sorts and filters."""

import csv
import io
import json
import re
import shutil
import subprocess

import pytest
from written_suites import answer, line, manifest, many, session, task

from kernelskill.records import TaskOutcome
from kernelskill.report.suite_page import render_suite
from kernelskill.report.suite_story import duration, headline, suite_command
from kernelskill.report.suite_table import COLUMNS, csv_text
from kernelskill.suites.score import score
from well_formed import parsed


def page_of(tasks, lines, **fields):
    made = manifest(tasks, **fields)
    return render_suite(made, lines, score(made, lines, [session()], {}), [session()])


@pytest.mark.parametrize("kind", ["run", "candidates", "baselines", "audit"])
def test_every_kind_of_run_has_a_page(kind):
    tasks, lines = many(30)
    text = parsed(page_of(tasks, lines, kind=kind, id="night-run"))
    assert "night-run" in text
    assert all(item.name in text for item in lines)
    assert ("Geometric mean" in text) == (kind in ("run", "candidates"))


def test_the_page_loads_nothing():
    page = page_of(*many(30))
    assert not re.search(r"src\s*=|url\(|@import|https?://|<link|fetch\(|import\(", page)
    assert set(re.findall(r'href="(.)', page)) == {"#"}


def test_text_from_outside_is_escaped():
    item = task(1, 1, "Gate<b>")
    failed = line(item, TaskOutcome.FAILED, reason='</script><script>alert("1")</script>')
    page = page_of([item], [failed])
    assert "<script>alert" not in page
    assert "Gate<b>" not in page
    assert "&lt;/script&gt;" in page


def test_the_preset_shows_our_own_verdict_beside():
    tasks, lines = many(10)
    assert "our verdict" in page_of(tasks, lines, preset="paper")
    assert "our verdict" not in page_of(tasks, lines)


def test_the_table_of_values_has_a_row_a_task_and_no_line_breaks_in_cells():
    tasks, lines = many(60)
    lines[3] = line(tasks[3], TaskOutcome.FAILED, reason="first\nsecond, with a comma")
    rows = list(csv.DictReader(io.StringIO(csv_text(lines, {tasks[0].key: "too small"}))))
    arms = [f"{arm}_match{end}" for arm in ("eager", "compile") for end in ("_ms", "_p10_ms", "_p90_ms")]
    assert tuple(rows[0]) == (*COLUMNS, *arms)
    assert float(rows[0]["compile_match_p10_ms"]) < float(rows[0]["compile_match_ms"])
    assert [row["task"] for row in rows] == [item.key for item in tasks]
    assert rows[3]["reason"] == "first second, with a comma"
    assert (rows[0]["set_aside"], rows[1]["set_aside"]) == ("yes", "no")
    faster = next(row for row, item in zip(rows, lines, strict=True) if item.outcome is TaskOutcome.FASTER)
    assert (
        float(faster["over_best_stock_low"])
        < float(faster["over_best_stock"])
        < float(faster["over_best_stock_high"])
    )
    stock = next(row for row, item in zip(rows, lines, strict=True) if item.outcome is TaskOutcome.STOCK)
    assert stock["over_eager"] == stock["time_ms"] == ""


def test_the_score_is_strict_json():
    tasks, lines = many(40)
    made = manifest(tasks)

    def refuse(name):
        raise AssertionError(f"{name} is not JSON")

    text = score(made, lines, [session()], {}).model_dump_json()
    assert json.loads(text, parse_constant=refuse)["finished"] == 40


def test_the_headline_of_an_unfinished_run_says_so():
    tasks, lines = many(40)
    made = manifest(tasks)
    assert "(7 of 40 tasks finished)" in headline(score(made, lines[:7], [], {}))
    audited = manifest(tasks, kind="audit")
    assert headline(score(audited, lines, [], {})).startswith("40 tasks audited")


def test_the_command_asks_for_the_same_again():
    tasks = [task(1, 1), task(3, 1)]
    assert suite_command(manifest(tasks, preset="paper", settings={"budget": {}})) == (
        "kernelskill suite run toy --level 1,3 --target cuda --preset paper"
    )
    chosen = {
        "budget": {"rounds": 0, "seconds": 60.0},
        "threads": 2,
        "allow": ["custom"],
        "agents": ["expert", "llm"],
    }
    assert suite_command(manifest(tasks[:1], settings=chosen)) == (
        "kernelskill suite run toy --level 1 --target cuda --precision match --tolerance relative "
        "--rounds 0 --seconds 60 --agents expert,llm --allow custom --threads 2"
    )


def test_durations_read_well():
    assert [duration(value) for value in (3.21, 119.4, 125, 7500)] == [
        "3.2 s",
        "119.4 s",
        "2 min",
        "2 h 05 min",
    ]


# -- in a browser ------------------------------------------------------------------------------------

needs_chromium = pytest.mark.skipif(
    shutil.which("chromium") is None, reason="chromium is missing: apt-get install chromium"
)

PLAY = """
<script>
const table = document.getElementById("tasks"), told = {};
const column = (name) => Array.from(table.tHead.rows[0].cells).findIndex((cell) => cell.textContent.trim() === name);
const shown = () => Array.from(table.tBodies[0].rows).filter((row) => !row.hidden);
const values = (name) => shown().map((row) => row.cells[column(name)].dataset.value ?? row.cells[column(name)].textContent.trim());
const press = (name) => table.tHead.rows[0].cells[column(name)].querySelector("button").click();
const set = (name, value) => { const field = document.querySelector(`#filters [name=${name}]`);
  if (field.type === "checkbox") field.checked = value; else field.value = value;
  field.dispatchEvent(new Event("input", {bubbles: true})); };
told.all = shown().length;
press("over best stock"); told.descending = values("over best stock");
press("over best stock"); told.ascending = values("over best stock");
told.sorted = table.tHead.rows[0].cells[column("over best stock")].getAttribute("aria-sort");
press("task"); told.names = values("task");
set("level", "2"); told.level = [...new Set(values("level"))];
set("outcome", "faster"); told.outcome = [...new Set(values("outcome"))];
set("text", "conv2d"); told.text = values("task"); told.count = document.getElementById("shown").textContent;
document.querySelector("svg a[href]").dispatchEvent(new MouseEvent("click", {bubbles: true, cancelable: true}));
told.after_link = shown().length;
set("kept", true); told.kept = shown().filter((row) => row.dataset.aside).length;
told.wide = document.documentElement.scrollWidth > document.documentElement.clientWidth;
document.body.replaceChildren(Object.assign(document.createElement("pre"), {textContent: JSON.stringify(told)}));
</script>
</body>"""


def played(page, folder, width):
    path = folder / "suite.html"
    path.write_text(page.replace("</body>", PLAY))
    done = subprocess.run(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}",
         f"--window-size={width},900", "--virtual-time-budget=5000", "--dump-dom", f"file://{path}"],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    found = re.search(r"<body><pre>(.*?)</pre>", done.stdout, re.DOTALL)
    assert found, done.stderr[-2000:]
    return json.loads(found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))


@needs_chromium
@pytest.mark.parametrize("width", [1280, 500])
def test_250_rows_sort_and_filter_in_a_browser(tmp_path, width):
    tasks, lines = many(250)
    told = played(page_of(tasks, lines), tmp_path, width)
    assert told["all"] == 250
    ascending = [float(value) for value in told["ascending"] if value]
    descending = [float(value) for value in told["descending"] if value]
    assert ascending == sorted(ascending)
    assert descending == sorted(descending, reverse=True)
    for name in ("ascending", "descending"):
        missing = [value == "" for value in told[name]]
        assert missing == sorted(missing), "what has no value stays last"
    assert told["sorted"] == "ascending"
    assert sorted(told["names"]) == sorted(item.name for item in lines)
    assert (told["names"][0][0], told["names"][-1][0]) == ("1", "9"), "sorted as text"
    assert told["level"] == ["2"]
    assert told["outcome"] == ["faster"]
    expected = [
        item.name
        for item in lines
        if item.level == 2 and item.outcome is TaskOutcome.FASTER and "conv2d" in item.name.lower()
    ]
    assert sorted(told["text"]) == sorted(expected)
    assert told["count"] == f"{len(expected)} of 250 tasks"
    assert told["after_link"] == 250, "a link to a hidden row takes the filters away"
    assert told["kept"] == 0
    assert not told["wide"], "the page itself never scrolls sideways"


@needs_chromium
def test_a_page_of_one_task_works(tmp_path):
    won = line(task(2, 1, "conv2d"), TaskOutcome.FASTER, answer(2.0, 1.5))
    other = line(task(1, 1), TaskOutcome.UNTESTABLE, reason="stochastic")
    told = played(page_of([task(2, 1, "conv2d"), task(1, 1)], [won, other]), tmp_path, 900)
    assert told["text"] == ["1_conv2d"]
