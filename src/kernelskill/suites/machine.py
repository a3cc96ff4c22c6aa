"""What the tasks run on, told by a process of its own, so that the one that only waits holds no GPU memory."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from kernelskill.config import Config, build_floor, require_torch
from kernelskill.errors import WorkerError
from kernelskill.records import Json, Record, Scalar
from kernelskill.session import describe_machine


class Machine(Record):
    """Devices, and what numbers measured on them depend on."""

    facts: dict[str, Scalar]
    gpu_bytes: tuple[int, ...] = ()
    """Memory of each GPU that torch sees; empty on a CPU."""


def machine_of(config: Config) -> Machine:
    """The machine, for this target.

    Raises:
        MissingExtraError: PyTorch is not installed.
        WorkerError: there is no GPU to write for.
    """
    require_torch()
    if config.target != "cuda":
        return Machine(facts=describe_machine(config))
    return Machine.model_validate(_told(config, "describe"))


def know_ceilings(config: Config) -> None:
    """Measure what the GPU can do at best, unless that is known: before tasks share it, while nothing runs on it.

    Raises:
        WorkerError: it cannot be measured.
    """
    if config.target == "cuda":
        _told(config, "ceilings")


def _told(config: Config, what: str) -> dict[str, Json]:
    done = subprocess.run(
        [sys.executable, "-m", "kernelskill.suites.machine", what],
        input=config.model_dump_json(),
        capture_output=True,
        text=True,
        check=False,
    )
    told: dict[str, Json] = json.loads(done.stdout.splitlines()[-1]) if done.stdout.strip() else {}
    if "error" in told or done.returncode:
        raise WorkerError(
            told.get("error") or f"the machine cannot be described: {done.stderr.strip()[-300:]}"
        )
    return told


def _tell(what: str) -> dict[str, Any]:
    config = Config.model_validate_json(sys.stdin.read())
    try:
        if what == "ceilings":
            return build_floor(config).ceilings().model_dump(mode="json")
        facts = describe_machine(config)
    except WorkerError as error:
        return {"error": str(error)}
    import torch

    count = torch.cuda.device_count()
    memory = tuple(int(torch.cuda.get_device_properties(index).total_memory) for index in range(count))
    return Machine(facts=facts, gpu_bytes=memory).model_dump(mode="json")


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_tell(sys.argv[1])) + "\n")
