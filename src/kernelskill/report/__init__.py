"""Terminal, JSON and one self-contained HTML page, all from the records of a run."""

from kernelskill.report.page import render_page
from kernelskill.report.progress import SilentProgress, live
from kernelskill.report.story import summary
from kernelskill.report.terminal import print_checks, print_evaluation, print_floor, print_run, print_runs

__all__ = [
    "SilentProgress",
    "live",
    "print_checks",
    "print_evaluation",
    "print_floor",
    "print_run",
    "print_runs",
    "render_page",
    "summary",
]
