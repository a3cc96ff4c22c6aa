"""Counters of a candidate's kernels: ncu watches a confined worker that follows a script and is never judged.

The worker has no channel to the judge, since ncu stands between the two; it reads its commands from a file, and what
ncu counted lies in a file that it cannot reach. It is confined as every worker on the GPU, with two differences: its
empty network has a loopback device, and Landlock leaves TCP alone, because ncu speaks with it over that device.
"""

from __future__ import annotations

import copy
import itertools
import json
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from kernelskill.evaluation.arms import Table
from kernelskill.evaluation.cuda import ncu
from kernelskill.evaluation.filesystem import WORKER
from kernelskill.evaluation.sandbox import Sandbox, Way
from kernelskill.records import Candidate, Json
from kernelskill.scratch import prefix

SCRIPT = "script.json"
END_S = 10.0
"""Longest time for a process tree to end after it was told to."""
TABLE = '"ID",'
"""How the first line of ncu's table begins."""
FINAL = ("ERR_NVGPUCTRPERM", "Failed to find metric")
"""Answers of ncu that stay the same however the worker is confined."""
MOST_BYTES = 16 << 30
"""Inputs and outputs of a call up to which it is counted: all that it can reach is restored before each replay."""
REASON = 500
"""Characters of what a worker printed that are told as a reason."""
_numbers = itertools.count(1 << 16)
_works: dict[str, Way] = {}
"""GPU -> the way in which ncu has reached a worker there."""


@dataclass(frozen=True)
class Watched:
    """What came of one run under ncu."""

    log: str
    """All that ncu printed."""
    said: str
    """All that the worker printed, its reply last."""

    @property
    def counted(self) -> bool:
        """Whether there is a table."""
        return any(line.startswith(TABLE) for line in self.log.splitlines())

    @property
    def failure(self) -> str:
        """Why the candidate could not be called; "" if it could, or nothing is known."""
        for line in reversed(self.said.splitlines()):
            if line.startswith('{"error"'):
                with suppress(ValueError, TypeError, KeyError):  # the worker is not trusted
                    return str(json.loads(line)["error"]["detail"])[:REASON]
        return ""


def count(table: Table, candidate: Candidate, metrics: Sequence[str]) -> Json:
    """Count one call of a candidate.

    Args:
        table: the task at a GPU.
        candidate: what is counted.
        metrics: names of ncu's.

    Returns:
        {"log": what ncu printed}, with "error" beside it where the candidate failed or nothing was counted.
    """
    program = ncu.find_ncu()
    if program is None:
        return {"log": "", "error": "ncu is not installed"}
    if table.moved > MOST_BYTES:
        return {"log": "", "error": f"a call moves {table.moved / 1e9:.0f} GB, too much to be replayed"}
    ways = _ways(table.sandbox)
    if not ways:
        return {"log": "", "error": f"ncu cannot reach a worker in this sandbox ({table.sandbox.way})"}
    watched, passed_over = Watched("", ""), list[str]()
    for sandbox in ways:
        try:
            with table.device.alone():
                watched = _watch(table, sandbox, candidate, program, metrics)
        except subprocess.TimeoutExpired as error:
            return {"log": "", "error": f"ncu took longer than {error.timeout:.0f} s"}
        except OSError as error:
            return {"log": "", "error": f"ncu could not be started: {error}"}
        if watched.counted:
            _works[sandbox.gpu] = sandbox.way
            return {"log": watched.log, **({"error": watched.failure} if watched.failure else {})}
        if watched.failure or any(word in watched.log for word in FINAL):
            return {"log": watched.log, "error": watched.failure}
        passed_over.append(f"{sandbox.way}: {_end(watched.log)}; the worker: {_end(watched.said)}")
    return {"log": watched.log, "error": f"ncu counted no kernel ({' / '.join(passed_over)})"}


def _end(text: str) -> str:
    """The last of what was printed, in one line."""
    return " | ".join(text.strip().splitlines())[-REASON:] or "nothing"


def _ways(sandbox: Sandbox) -> tuple[Sandbox, ...]:
    """How a worker may be confined under ncu, best first; none where that would open the network to it."""
    if sandbox.way not in ("landlock", "plain") or (sandbox.way == "landlock" and not sandbox.own_network):
        return ()
    known = _works.get(sandbox.gpu)
    if known is not None:
        return (replace(sandbox, way=known),)
    # Without Landlock it is still a user of nobody's, who reads no private files.
    weaker = sandbox.way == "landlock" and sandbox.own_user
    return (sandbox, replace(sandbox, way="plain")) if weaker else (sandbox,)


def _watch(
    table: Table, sandbox: Sandbox, candidate: Candidate, program: Path, metrics: Sequence[str]
) -> Watched:
    """Run the script under ncu, once.

    Raises:
        OSError: something could not be started or written.
        subprocess.TimeoutExpired: it took too long.
    """
    with (
        tempfile.TemporaryDirectory(prefix=prefix("counters")) as kept,
        tempfile.TemporaryDirectory(prefix=prefix("worker"), ignore_cleanup_errors=True) as scratch,
    ):
        log = Path(kept) / "ncu.csv"
        (Path(scratch) / SCRIPT).write_text(json.dumps(_script(table, candidate)), encoding="utf-8")
        (Path(scratch) / SCRIPT).chmod(0o644)
        lock = Path(scratch) / ncu.LOCK
        lock.touch()
        lock.chmod(0o666)
        argv, env = _launch(table, sandbox, Path(scratch), ncu.command(program, metrics, log))
        said = _run(argv, env, table.patience_s)
        return Watched(log.read_text(encoding="utf-8", errors="replace") if log.exists() else "", said)


def _launch(
    table: Table, sandbox: Sandbox, scratch: Path, watcher: list[str]
) -> tuple[list[str], dict[str, str]]:
    """Command line and environment of the watcher around the confined worker."""
    reference = table.task.reference
    readable = [Path(folder) for folder in reference.search_path]
    readable += [Path(reference.path)] if reference.path else []
    launch = sandbox.launch(
        host_scratch=scratch,
        limits=table.limits,
        plan={"role": "counted", "threads": table.threads, "device": table.device.name, "script": SCRIPT},
        readable=[*readable, *ncu.install_folders(Path(watcher[0]))],
        number=next(_numbers),
    )
    plan = copy.deepcopy(launch.plan)
    if plan["confine"]["landlock"] is not None:
        plan["confine"]["landlock"]["tcp"] = True
    worker = [sys.executable, "-I", str(WORKER / "main.py"), json.dumps(plan)]
    order = {**(launch.order or {}), "loopback": sandbox.own_network, "argv": [*watcher, *worker]}
    return [sys.executable, "-I", "-S", str(WORKER / "launch.py"), json.dumps(order)], launch.env


def _script(table: Table, candidate: Candidate) -> list[dict[str, Json]]:
    """What the worker does: the reference, for its inputs; the candidate; one call that counts."""
    precision = table.task.precision.value
    return [
        {
            "command": "load_reference",
            "reference": table.task.reference.model_dump(mode="json"),
            "arm": "eager",
            "precision": precision,
        },
        {
            "command": "load_candidate",
            "source": candidate.source,
            "entry": candidate.entry,
            "init_tree": table.workload.init_args,
            "threads": table.threads,
            "precision": precision,
        },
        {"command": "count", "seed": secrets.randbits(62)},
    ]


def _run(argv: list[str], env: dict[str, str], seconds: float) -> str:
    """What the whole tree printed; it is gone when this returns.

    Raises:
        OSError: it could not be started.
        subprocess.TimeoutExpired: it took longer.
    """
    process = subprocess.Popen(
        argv,
        env=env,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        return process.communicate(timeout=seconds)[0].decode(errors="replace")
    finally:
        if process.poll() is None:
            process.terminate()  # the supervisor kills everything below it first
            with suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=END_S)
            process.kill()
            process.communicate()
