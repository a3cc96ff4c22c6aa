"""What the tasks run on, told by a process of its own, so that the one that only waits holds no GPU memory."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from kernelskill.config import Config, require_torch
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
    done = subprocess.run(
        [sys.executable, "-m", "kernelskill.suites.machine"],
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
    return Machine.model_validate(told)


def _tell() -> dict[str, Any]:
    import torch

    config = Config.model_validate_json(sys.stdin.read())
    try:
        facts = describe_machine(config)
    except WorkerError as error:
        return {"error": str(error)}
    count = torch.cuda.device_count()
    memory = tuple(int(torch.cuda.get_device_properties(index).total_memory) for index in range(count))
    return Machine(facts=facts, gpu_bytes=memory).model_dump(mode="json")


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_tell()) + "\n")
