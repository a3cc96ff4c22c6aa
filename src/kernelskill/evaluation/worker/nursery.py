"""Imports torch once and forks workers, which then need not. It runs nobody's code and holds no secret.

    python -I nursery.py '{"fd": ..., "path": [...], "imports": [...]}'

It never touches a GPU: CUDA does not survive a fork. A worker is confined after the fork by what confines those that
are started afresh (`launch.py`, `main.py`).
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import signal
import sys
import tempfile
import traceback
import types
from pathlib import Path
from typing import Any, NoReturn

if __name__ == "__main__":  # as in main.py
    __package__ = "kernelskill_worker"
    _package = types.ModuleType(__package__)
    _package.__path__ = [str(Path(__file__).parent)]
    sys.modules[__package__] = _package

from . import launch, main
from .protocol import Closed, Connection

OWN = ("basics", "candidate", "failures", "inputs", "reference", "runner", "session", "state")
"""Files of this folder that nearly every worker loads."""
CHANNEL = 3
"""Descriptor of the judge's socket in a worker."""


def attend(connection: Connection) -> None:
    """Fork and reap as the judge says."""
    while True:
        request, fds = connection.receive()
        if request["command"] == "start":
            request["order"]["judge"] = os.getpid()
            pid = os.fork()
            if pid == 0:
                become(request, *fds)
            for fd in fds:
                os.close(fd)
            result = {"pid": pid}
        elif request["command"] == "reap":
            _, status = os.waitpid(request["pid"], 0)
            result = {"code": os.waitstatus_to_exitcode(status)}
        else:
            result = {"spoilt": is_spoilt()}
        connection.send({"id": request["id"], "result": result})


def end_all() -> None:
    """The judge is gone: have every launcher end its worker. One that was stopped must go on first, to hear of it."""
    own = os.getpid()
    text = Path(f"/proc/{own}/task/{own}/children").read_text(encoding="ascii")
    for pid in map(int, text.split()):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
            os.kill(pid, signal.SIGCONT)


def become(request: dict[str, Any], channel: int, output: int) -> NoReturn:
    """Turn a fresh child into the launcher of one worker; the server's own socket is closed before anything else."""
    code = 1
    try:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for target in (1, 2):
            os.dup2(output, target)
        os.dup2(channel, CHANNEL)
        os.closerange(CHANNEL + 1, os.sysconf("SC_OPEN_MAX"))
        os.chdir("/")
        os.environ.clear()
        os.environ.update(request["env"])
        tempfile.tempdir = None  # it was chosen for another environment
        plan = {**request["plan"], "fd": CHANNEL}
        code = launch.carry_out(request["order"], lambda: main.work(plan))
    except BaseException:  # noqa: BLE001  whatever it was, it must not go on as a second server
        traceback.print_exc()
    os._exit(code)


def is_spoilt() -> bool:
    """Whether something that was imported has asked the CUDA driver, so that no child could use it any more."""
    import torch

    pid = os.fork()
    if pid == 0:
        os._exit(int(torch.cuda._is_in_bad_fork()))
    return os.waitpid(pid, 0)[1] != 0


def warm(plan: dict[str, Any]) -> None:
    """Import what workers use."""
    sys.path.extend(path for path in plan["path"] if path not in sys.path)
    sys.dont_write_bytecode = True
    import torch

    asked = torch.cuda.is_available
    # To find out would wake the driver, or its management library; neither survives a fork.
    torch.cuda.is_available = lambda: bool(os.environ.get("CUDA_VISIBLE_DEVICES"))
    for name in plan["imports"]:
        importlib.import_module(name)
    torch.cuda.is_available = asked
    for name in OWN:
        importlib.import_module(f".{name}", __package__)
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    order = json.loads(sys.argv.pop())
    warm(order)
    with contextlib.suppress(Closed, ConnectionError):
        attend(Connection(order["fd"]))
    end_all()
