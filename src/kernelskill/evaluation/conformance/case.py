"""What a case says: a reference, a candidate, and what the judge must say about it.

Cases lie in `cases/*.toml`, references in `cases/tasks.toml`; both are written for this suite. An entry names the
targets that it is played on; its table `cuda` says what is another on a GPU. Where the trick exists on the processor
alone, `cpu_only` says why.
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
TARGETS: tuple[Target, ...] = ("cpu", "cuda")
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
    """One candidate on one target, and the verdict that is right there."""

    id: str
    """The same on every target."""
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
    """All cases of all targets, in the order of the files.

    Raises:
        ValueError: a case names no known task, no target, no reason why it has one alone, or an id that another has.
    """
    return tuple(
        _case(entry, group, target)
        for entry, group in _entries()
        for target in TARGETS
        if target in entry["targets"]
    )


@cache
def left_out(target: str) -> dict[str, str]:
    """Id -> why the case is not played on a target; those that need a GPU have no reason on the processor."""
    return {
        entry["id"]: entry["cpu_only"]
        for entry, _ in _entries()
        if target == "cuda" and target not in entry["targets"]
    }


@cache
def task(name: str, target: Target = "cpu") -> Task:
    """The reference of that name; on a GPU its inputs are larger where `cuda_inputs` says so."""
    entry = _tasks()[name]
    larger = target == "cuda" and "cuda_inputs" in entry
    inputs = entry["cuda_inputs" if larger else "inputs"]
    body = textwrap.indent(entry["model"].strip("\n"), "    ")
    source = (
        f"{HEAD}\n\nclass Model(nn.Module):\n{body}\n\n\n"
        f"def get_inputs():\n    return {inputs}\n\n\ndef get_init_inputs():\n    return []\n"
    )
    reference = Reference(
        loader="source", kind="module", entry="Model", source=source, init_entry="get_init_inputs",
        inputs_entry="get_inputs",
    )  # fmt: skip
    return Task(
        name=name,
        hash=f"conformance-{name}{'-cuda' if larger else ''}",
        reference=reference,
        origin=f"conformance/{name}.py",
    )


@cache
def _tasks() -> dict[str, Any]:
    return tomllib.loads((FOLDER / "tasks.toml").read_text(encoding="utf-8"))


@cache
def _entries() -> tuple[tuple[dict[str, Any], str], ...]:
    """What stands in the files, each with its group."""
    found = tuple(
        (entry, path.stem)
        for path in sorted(FOLDER.glob("*.toml"))
        if path.stem != "tasks"
        for entry in tomllib.loads(path.read_text(encoding="utf-8"))["case"]
    )
    ids = [entry["id"] for entry, _ in found]
    twice = sorted({name for name in ids if ids.count(name) > 1})
    if twice:
        raise ValueError(f"cases with the same id: {', '.join(twice)}")
    for entry, _ in found:
        named = entry.get("targets", ())
        if not named or set(named) - set(TARGETS):
            raise ValueError(f"case {entry['id']} names targets {named}; known: {', '.join(TARGETS)}")
        if ("cuda" not in named) != bool(entry.get("cpu_only")):
            raise ValueError(f"case {entry['id']}: `cpu_only` says why a GPU is left out, where it is")
    return found


def _case(entry: dict[str, Any], group: str, target: Target) -> Case:
    if target == "cuda":  # native code is the processor's
        entry = {key: value for key, value in entry.items() if key != "native"} | entry.get("cuda", {})
    if entry["task"] not in _tasks():
        raise ValueError(f"case {entry['id']} names task {entry['task']!r}; known: {', '.join(_tasks())}")
    return Case(
        id=entry["id"],
        tries=entry["tries"],
        task=entry["task"],
        target=target,
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
