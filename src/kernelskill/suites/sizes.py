"""How large tasks are, as far as an audit or an earlier run has seen them: what memory is shared out by."""

from __future__ import annotations

from kernelskill.config import Config
from kernelskill.errors import RunError
from kernelskill.records import Suite
from kernelskill.suites import audit
from kernelskill.suites.folder import SuiteFolder, list_folders

Sizes = dict[str, tuple[int, int]]
"""Task -> bytes of a call's inputs and outputs, and bytes of state."""


def sizes_of(config: Config, suite: Suite, rows: dict[str, audit.AuditRow]) -> Sizes:
    """Sizes of a suite's tasks, by the texts that they have now.

    Args:
        config: says where earlier suite runs lie; on whatever machine, sizes are the same.
        suite: whose tasks.
        rows: an audit of it, which comes first.
    """
    seen: dict[str, tuple[int, int]] = {}
    for path in list_folders(config):
        try:
            lines = SuiteFolder(path).results()
        except RunError:  # of another version
            continue
        seen |= {
            line.hash: (line.moved_bytes, line.state_bytes or 0)
            for line in lines
            if line.moved_bytes is not None
        }
    known = {task.key: seen[task.hash] for task in suite.tasks if task.hash in seen}
    return {**known, **audit.sizes(rows)}
