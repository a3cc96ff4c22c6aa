"""The process of one task: reads job.json in its folder, leaves result.json, and ends with who started it.

python -m kernelskill.suites.child FOLDER PARENT [GPU]
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import traceback
from pathlib import Path

from kernelskill.journal import write_atomically
from kernelskill.report import live
from kernelskill.suites.job import JOB, RESULT, Job
from kernelskill.suites.kinds import do

PR_SET_PDEATHSIG = 1


def main(folder: Path, parent: int, gpu: int | None) -> None:
    """Do the job that lies in a folder.

    Args:
        folder: of the task, in the suite run's folder.
        parent: process to end with.
        gpu: index of the GPU to use, as torch counts them.
    """
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        return
    job = Job.model_validate_json((folder / JOB).read_text(encoding="utf-8"))
    progress = live()
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
    write_atomically(folder / RESULT, result.model_dump_json())


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else None)
