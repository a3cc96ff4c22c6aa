"""Rooms depend one way, torch stays behind its fence, files stay small, and every broad except has a reason."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "kernelskill"
FILES = sorted(PACKAGE.rglob("*.py"))

BASE = {"records", "errors", "protocols", "scratch"}
ALLOWED = {
    "records": {"records"},
    "errors": set(),
    "scratch": set(),
    "protocols": {"records"},
    "program": BASE | {"program"},
    "floor": BASE | {"program", "floor"},
    "features": BASE | {"program", "features"},
    "skills": BASE | {"program", "features", "skills"},
    "agents": BASE | {"program", "features", "skills", "agents"},
    "llm": BASE | {"llm"},
    "evaluation": BASE | {"evaluation"},
    "profiling": BASE | {"profiling"},
    "memory": BASE | {"memory"},
    "search": BASE | {"search"},
    "tasks": BASE | {"tasks"},
    "report": BASE | {"report"},
    "journal": BASE,
    "answer": BASE | {"program"},
    "loop": BASE | {"journal"},
    "suites": BASE | {"suites", "config", "session", "journal", "tasks", "report", "llm"},
}
"""Room -> what it may import. config, session, api, deliver, doctor and cli stand to the right of all."""


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path) -> set[str]:
    """Top-level names under kernelskill that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("kernelskill"):
            parts = node.module.split(".")
            names = [parts[1]] if len(parts) > 1 else [alias.name for alias in node.names]
            found.update(names)
        elif isinstance(node, ast.Import):
            found.update(
                alias.name.split(".")[1] for alias in node.names if alias.name.startswith("kernelskill.")
            )
    return found


def test_every_room_is_known():
    rooms = {room_of(path) for path in FILES} - {"__init__"}
    assert rooms - set(ALLOWED) == {
        "__main__",
        "api",
        "cli",
        "config",
        "deliver",
        "doctor",
        "doctor_gpu",
        "session",
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_one_way(path):
    room = room_of(path)
    if room in ALLOWED:
        assert imports(path) <= ALLOWED[room], f"{path} imports {imports(path) - ALLOWED[room]}"


@pytest.mark.parametrize(
    "path", sorted((PACKAGE / "evaluation" / "worker").glob("*.py")), ids=lambda p: p.name
)
def test_workers_import_stdlib_and_torch_only(path):
    siblings = {file.stem for file in path.parent.glob("*.py")}
    known = set(sys.stdlib_module_names) | siblings | {"torch", "numpy", "cloudpickle"}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            assert {alias.name.split(".")[0] for alias in node.names} <= known
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.module.split(".")[0] in known


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_files_are_small_and_broad_excepts_have_reasons(path):
    lines = path.read_text().splitlines()
    assert len(lines) <= 400
    for node in ast.walk(ast.parse("\n".join(lines))):
        if isinstance(node, ast.FunctionDef):
            assert node.end_lineno - node.lineno <= 80, f"{path}:{node.name} is too long"
        if isinstance(node, ast.ExceptHandler) and (
            node.type is None
            or (isinstance(node.type, ast.Name) and node.type.id in {"Exception", "BaseException"})
        ):
            near = lines[node.lineno - 2 : node.lineno + 2]
            assert any("#" in line for line in near), f"{path}:{node.lineno}: a broad except without a reason"


@pytest.mark.parametrize(
    "code",
    [
        "import kernelskill",
        "import kernelskill.loop, kernelskill.cli, kernelskill.config, kernelskill.session",
        "import sys; sys.argv = ['kernelskill', '--help']\n"
        "try:\n    from kernelskill.cli import main; main()\nexcept SystemExit: pass",
        "import kernelskill.program, kernelskill.skills, kernelskill.agents, kernelskill.floor, "
        "kernelskill.features, kernelskill.memory, kernelskill.search, kernelskill.tasks, kernelskill.report",
    ],
)
def test_torch_stays_behind_its_fence(code):
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; assert 'torch' not in sys.modules, 'torch was loaded'"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.timing
def test_import_and_help_are_instant():
    """No dearer than the light libraries that they stand on; the best of five counts."""

    def best(arguments):
        import time

        times = []
        for _ in range(5):
            began = time.perf_counter()
            subprocess.run([sys.executable, *arguments], capture_output=True, check=True)
            times.append(time.perf_counter() - began)
        return min(times)

    light = best(["-c", "import pydantic, typer, rich.console"])
    assert best(["-c", "import kernelskill"]) < 2 * light
    assert best(["-m", "kernelskill", "--help"]) < 2 * light
