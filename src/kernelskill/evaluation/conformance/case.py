"""What a case says: a reference, a candidate, and what the judge must say about it.

Cases lie in `cases/*.toml`, references in `cases/tasks.toml`; both are written for this suite.
"""

from __future__ import annotations

import textwrap
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from kernelskill.records import Candidate, Reference, Task

Expected = Literal["refused", "uncredited", "not-allowed", "untestable", "accepted"]
Target = Literal["cpu", "cuda"]
FOLDER = Path(__file__).parent / "cases"
HEAD = "import torch\nfrom torch import nn\n"
BUILD = """
import ctypes, os, subprocess, tempfile
_folder = tempfile.mkdtemp()
with open(os.path.join(_folder, "native.cpp"), "w") as _file:
    _file.write({code!r})
subprocess.run(["g++", "-O2", "-fopenmp", "-shared", "-fPIC", "-o", "native.so", "native.cpp"], cwd=_folder, check=True)
native = ctypes.CDLL(os.path.join(_folder, "native.so"))
"""
"""How a candidate builds C++ of its own; calls go through `native`."""


@dataclass(frozen=True)
class Case:
    """One candidate and the verdict that is right."""

    id: str
    tries: str
    """What it does, in one sentence."""
    task: str
    """Name of its reference."""
    target: Target
    expect: Expected
    """refused: no PASSED; uncredited: may pass, with no more than its honest time; not-allowed: refused where only
    kernels of one's own may win; untestable: the task is refused before any candidate; accepted: must pass."""
    source: str
    honest_ratio: float
    """Speedup over the best stock arm that its honest work is worth; only more than that is credit too much."""
    labels: tuple[str, ...]
    """Kinds that an accepted candidate must be labelled with."""
    group: str
    """Name of the file that it stands in."""

    @property
    def is_control(self) -> bool:
        """Whether it is honest."""
        return self.expect == "accepted"

    @property
    def candidate(self) -> Candidate:
        """What the judge is given."""
        return Candidate(id=self.id, source=self.source, author="conformance")


@cache
def cases() -> tuple[Case, ...]:
    """All cases, in the order of the files.

    Raises:
        ValueError: a case names no known task, or an id stands twice.
    """
    found = [
        _case(entry, path.stem)
        for path in sorted(FOLDER.glob("*.toml"))
        if path.stem != "tasks"
        for entry in tomllib.loads(path.read_text(encoding="utf-8"))["case"]
    ]
    ids = [case.id for case in found]
    twice = sorted({name for name in ids if ids.count(name) > 1})
    if twice:
        raise ValueError(f"cases with the same id: {', '.join(twice)}")
    return tuple(found)


@cache
def task(name: str) -> Task:
    """The reference of that name."""
    entry = _tasks()[name]
    body = textwrap.indent(entry["model"].strip("\n"), "    ")
    source = (
        f"{HEAD}\n\nclass Model(nn.Module):\n{body}\n\n\n"
        f"def get_inputs():\n    return {entry['inputs']}\n\n\ndef get_init_inputs():\n    return []\n"
    )
    reference = Reference(
        loader="source", kind="module", entry="Model", source=source, init_entry="get_init_inputs",
        inputs_entry="get_inputs",
    )  # fmt: skip
    return Task(name=name, hash=f"conformance-{name}", reference=reference, origin=f"conformance/{name}.py")


def _tasks() -> dict[str, Any]:
    return tomllib.loads((FOLDER / "tasks.toml").read_text(encoding="utf-8"))


def _case(entry: dict[str, Any], group: str) -> Case:
    tasks = _tasks()
    if entry["task"] not in tasks:
        raise ValueError(f"case {entry['id']} names task {entry['task']!r}; known: {', '.join(tasks)}")
    return Case(
        id=entry["id"],
        tries=entry["tries"],
        task=entry["task"],
        target=tasks[entry["task"]].get("target", "cpu"),
        expect=entry.get("expect", "refused"),
        source=entry.get("source", "").lstrip("\n") or _source(entry),
        honest_ratio=entry.get("honest_ratio", 1.0),
        labels=tuple(entry.get("labels", ())),
        group=group,
    )


def _source(entry: dict[str, Any]) -> str:
    """A candidate file from what a case gives of it: head, native code, constructor and forward."""
    parts = [HEAD]
    if "native" in entry:
        parts.append(BUILD.format(code=entry["native"]))
    parts.append(entry.get("head", "").strip("\n"))
    lines = ["", "class ModelNew(nn.Module):"]
    if "init" in entry:
        lines += ["    def __init__(self):", "        super().__init__()", _indented(entry["init"]), ""]
    lines += [f"    def forward(self, {entry.get('arguments', 'x')}):", _indented(entry["forward"])]
    return "\n".join([*parts, *lines, ""])


def _indented(body: str) -> str:
    return textwrap.indent(body.strip("\n"), " " * 8)
