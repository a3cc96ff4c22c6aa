"""Start of every worker: lock the process in, then answer the judge's commands until it hangs up.

    python -I main.py '<json>'

The JSON names the socket's descriptor (or a `script` of commands, where nobody asks), the role, folders, limits and
what is left to lock (see `confine.py`).
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import json
import os
import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

if __name__ == "__main__":  # started by path: a package name lets siblings import relatively
    __package__ = "kernelskill_worker"
    _package = types.ModuleType(__package__)
    _package.__path__ = [str(Path(__file__).parent)]
    sys.modules[__package__] = _package

from . import confine
from .protocol import Closed, Connection, Failure

if TYPE_CHECKING:
    from .session import Session

COMMANDS = {
    "ping": "basics",
    "slot": "basics",
    "drop": "basics",
    "trim": "basics",
    "touch": "basics",
    "load_candidate": "candidate",
    "load_reference": "reference",
    "describe": "examine",
    "time": "examine",
    "inputs": "inputs",
    "state": "state",
    "bind": "runner",
    "run": "runner",
    "null": "runner",
    "held": "held",
    "knocked": "knock",
    "smaller": "smaller",
    "run64": "twin",
    "state64": "twin",
    "operators": "observe",
    "profile": "steps",
    "count": "count",
}
"""Command -> the file here whose `handle_<command>` does it; loaded when first asked for."""


def serve(connection: Connection, session: Session) -> None:
    """Answer until the judge hangs up or says exit."""
    while True:
        message, fds = connection.receive()
        command, nonce = message["command"], message["id"]
        if command == "exit":
            connection.send({"id": nonce, "result": {}})
            return
        connection.send({"id": nonce, **answer(session, command, message, fds)})
        if session.broken:
            return


def follow(script: list[dict[str, Any]], session: Session) -> None:
    """Carry out commands that were written down, up to the first that fails, whose answer is printed."""
    for message in script:
        reply = answer(session, message["command"], message, [])
        if "error" in reply:
            print(json.dumps(reply), flush=True)  # noqa: T201  nobody listens but who reads this
            return


def answer(session: Session, command: str, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
    """Result or error of one command, as JSON."""
    try:
        if command not in COMMANDS:
            raise Failure("runtime-error", f"unknown command {command!r}")
        module = importlib.import_module(f".{COMMANDS[command]}", __package__)
        message["fds"] = fds
        return {"result": getattr(module, f"handle_{command}")(session, message)}
    except Failure as failure:
        told = {"status": failure.status, "detail": str(failure.detail), "hint": failure.hint}
    except BaseException as error:  # noqa: BLE001  anything that untrusted code raises, SystemExit included, is an answer
        from .failures import describe

        told = describe(error, session)
    if session.device == "cuda":
        from .cuda import is_broken

        session.broken = is_broken()
        if not session.broken:
            session.trim()
    return {"error": {**told, "broken": True} if session.broken else told}


def work(plan: dict[str, Any]) -> None:
    """Confine, connect, serve."""
    confine.enter(plan["confine"])
    faulthandler.enable(all_threads=False)
    sys.path.extend(path for path in plan["path"] if path not in sys.path)
    sys.dont_write_bytecode = True
    scratch = Path(plan["scratch"])
    os.chdir(scratch)
    if "probe" in plan:
        from .probe import report

        sys.stdout.write(json.dumps(report(plan["probe"])))
        return
    import torch

    torch.set_num_threads(plan["threads"])
    from . import basics, candidate, failures, held, knock, observe, runner, smaller  # noqa: F401  before any untrusted code
    from .session import Session

    if "fd" in plan:
        os.set_inheritable(plan["fd"], False)
    if plan.get("device") == "cuda":
        from . import cuda, graphs, kernels  # noqa: F401  likewise

        torch.empty(1, device="cuda")  # makes the context, before anything is timed or waited for
    cache = plan["trusted_cache"]
    session = Session(
        role=plan["role"],
        scratch=scratch,
        threads=plan["threads"],
        device=plan.get("device", "cpu"),
        trusted_cache=Path(cache) if cache else None,
    )
    if "script" in plan:
        follow(json.loads(Path(plan["script"]).read_text(encoding="utf-8")), session)
        os._exit(0)
    with contextlib.suppress(Closed, ConnectionError):
        serve(Connection(plan["fd"]), session)
    os._exit(0)  # no teardown: threads and atexit hooks of a candidate have nothing more to say


if __name__ == "__main__":
    work(json.loads(sys.argv.pop()))
