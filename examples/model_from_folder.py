"""A model whose replies were written beforehand, for machines that nobody can talk to while a run goes on.

    # kernelskill.toml
    [llm.roles]
    planner = "command:python examples/model_from_folder.py FOLDER planner"
    optimizer = "command:python examples/model_from_folder.py FOLDER optimizer"

The replies of a role are `FOLDER/ROLE-1.md`, `FOLDER/ROLE-2.md`, ...; each is given once, in that order. One whose
first line is `only if: TEXT` is passed over while the question does not hold that text. `{first admitted of: A, B}`
stands for the first of these skills that the question admits, or else for the first that it admits at all. Where no
reply is left, a planner stops, a diagnoser sees nothing to mend, a reader states no fact, and whoever writes files
ends with an error.
"""

import re
import sys
from pathlib import Path

CONDITION = "only if: "
CHOICE = re.compile(r"\{first admitted of: ([^}]*)\}")
ADMITTED = re.compile(r"exactly one of these skills[^:]*: ([^.]*)\.")
NOTHING_LEFT = {
    "planner": '{"stop": "no reply was written for this question"}',
    "diagnoser": '{"cause": "unknown", "evidence": "not looked at", "remedy": "none", "repairable": false}',
    "feature-reader": '{"facts": []}',
}


def reply(folder: Path, role: str, question: str) -> str | None:
    """The next reply that fits the question, marked as given; None where none is left."""
    for path in sorted(folder.glob(f"{role}-*.md"), key=lambda path: int(path.stem.rpartition("-")[2])):
        condition, _, rest = path.read_text(encoding="utf-8").partition("\n")
        if condition.startswith(CONDITION):
            if condition.removeprefix(CONDITION).strip() not in question:
                continue
            text = rest
        else:
            text = f"{condition}\n{rest}"
        try:
            path.with_suffix(".given").touch(exist_ok=False)
        except FileExistsError:
            continue
        return CHOICE.sub(lambda found: chosen(found[1], question), text)
    return None


def chosen(wanted: str, question: str) -> str:
    """The first wanted skill that the question admits."""
    found = ADMITTED.search(question)
    admitted = [name.strip() for name in found[1].split(",")] if found else []
    names = [name.strip() for name in wanted.split(",")]
    return next((name for name in names if name in admitted), admitted[0] if admitted else names[0])


def main() -> None:
    """One question, one answer."""
    folder, role = Path(sys.argv[1]), sys.argv[2]
    text = reply(folder, role, sys.stdin.read()) or NOTHING_LEFT.get(role)
    if text is None:
        sys.exit(f"no reply of the {role} is left in {folder}")
    print(text)


if __name__ == "__main__":
    main()
