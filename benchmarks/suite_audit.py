"""Suite runs -> the table of what can prove nothing: `python benchmarks/suite_audit.py RUN_FOLDER... > NAME.tsv`.

Every kind of suite run audits its tasks before anything else. The first run that has a task counts; tasks whose work
broke off are left out. What is shipped for a known suite lies in src/kernelskill/suites/data/.
"""

from __future__ import annotations

import sys
from pathlib import Path

from kernelskill.records import TaskOutcome, TaskResult
from kernelskill.suites import audit
from kernelskill.suites.folder import SuiteFolder


def row(result: TaskResult) -> audit.AuditRow:
    """What a line of whatever kind of run says of its task; its reason is that of the findings."""
    found = audit.row_of(result)
    told = "; ".join(" ".join(item.message.split()) for item in result.findings)
    return found if found.set_aside else found.model_copy(update={"reason": told})


def main() -> None:
    """Print the table."""
    folders = [SuiteFolder(Path(name)) for name in sys.argv[1:]]
    known: dict[str, audit.AuditRow] = {}
    for folder in folders:
        for result in folder.results():
            if result.outcome is not TaskOutcome.FAILED:
                known.setdefault(result.key, row(result))
    keys = dict.fromkeys(task.key for folder in folders for task in folder.manifest.suite.tasks)
    sys.stdout.write(audit.table(known[key] for key in keys if key in known))


if __name__ == "__main__":
    main()
