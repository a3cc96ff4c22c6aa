"""The process behind a `Place`: does the jobs whose folders it is told, and ends with who started it.

python -m kernelskill.suites.child HOME PARENT SOCKET [GPU]
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import socket
import sys
import traceback
from pathlib import Path

from kernelskill import session
from kernelskill.journal import write_atomically
from kernelskill.report import live
from kernelskill.suites.job import JOB, LOG, RESULT, Job
from kernelskill.suites.kinds import do

PR_SET_PDEATHSIG = 1
ENDED = b"."
"""The answer to each folder, once its result lies there."""


def main(parent: int, answers: socket.socket, gpu: int | None) -> None:
    """Do jobs until nobody asks any more.

    Args:
        parent: process to end with.
        answers: tells the folders of tasks, in the suite run's folder, a line each.
        gpu: index of the GPU to use, as torch counts them.
    """
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        return
    for line in answers.makefile("r", encoding="utf-8"):
        folder = Path(line.removesuffix("\n"))
        _say_into(folder / LOG)
        _work(folder, gpu)
        gc.collect()  # what one task left must not lie in the next one's way
        answers.sendall(ENDED)


def _work(folder: Path, gpu: int | None) -> None:
    job = Job.model_validate_json((folder / JOB).read_text(encoding="utf-8"))
    progress = live()
    before = session.gpu_seconds()
    try:
        result = do(job, folder, gpu, progress)
    except Exception as error:  # noqa: BLE001  a fault of ours on one task must not end a suite of 250
        traceback.print_exc()
        where = traceback.extract_tb(error.__traceback__)[-1]
        result = job.failed(
            f"internal error, {type(error).__name__} in {Path(where.filename).name}:{where.lineno}: {error}"[
                :500
            ]
        )
    finally:
        progress.done()
    held = {how: round(total - before.get(how, 0.0), 3) for how, total in session.gpu_seconds().items()}
    result = result.model_copy(update={"gpu_s": held})
    write_atomically(folder / RESULT, result.model_dump_json())


def _say_into(log: Path) -> None:
    """What is printed from here on goes to a task's log."""
    sys.stdout.flush()
    sys.stderr.flush()
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for stream in (1, 2):
        os.dup2(file, stream)
    os.close(file)


if __name__ == "__main__":
    fd = int(sys.argv[3])
    os.set_inheritable(fd, False)  # a worker that held it would hide that this process has died
    main(int(sys.argv[2]), socket.socket(fileno=fd), int(sys.argv[4]) if len(sys.argv) > 4 else None)
