"""The same work on an existing Ray cluster: a task takes one GPU (or the processor's threads) and may run anywhere.

A task's folder travels with it and comes back with its line, so no disk need be shared. Ray starts a task again
elsewhere when its worker is lost; a line is taken once, when it arrives here.
"""

from __future__ import annotations

import importlib.util
import logging
import tempfile
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

from kernelskill import scratch
from kernelskill.errors import ConfigError, MissingExtraError, RunError
from kernelskill.records import TaskResult
from kernelskill.suites.job import JOB, LOG, Job
from kernelskill.suites.parcel import packed, unpack
from kernelskill.suites.place import Place
from kernelskill.suites.process import TaskProcess

LOOK_S = 60.0
"""Seconds after which the cluster is looked at, where no task has ended."""
RETRIES = 3
"""Workers that a task may lose before it is given up."""


class RayPool:
    """An existing cluster.

    Args:
        address: "auto" for the cluster of this machine, or HOST:PORT, or ray://HOST:PORT.
        takes: resources of one task, e.g. {"GPU": 1} or {"CPU": 8}.

    Raises:
        MissingExtraError: Ray is not installed.
        RunError: there is no cluster, or no node of it has what a task takes.
    """

    def __init__(self, address: str, takes: dict[str, float]) -> None:
        if importlib.util.find_spec("ray") is None:
            raise MissingExtraError("Ray is not installed: pip install 'kernelskill[ray]'")
        import ray

        self._ray: Any = ray
        self._takes = takes
        self.name = f"ray {address}"
        try:
            self._ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise RunError(
                f"no Ray cluster at {address}: {error}; start one with: ray start --head"
            ) from error
        able = self._able()
        if not able:
            has = _resources(self._ray.nodes())
            self._ray.shutdown()
            raise RunError(f"no node of the Ray cluster has {takes}; it has {has}")
        self.places = sum(_at_a_time(node["Resources"], takes) for node in able)
        self.devices = tuple(
            f"{node['NodeManagerAddress']}: {_at_a_time(node['Resources'], takes)} at a time" for node in able
        )

    def results(self, jobs: Sequence[Job], home: Path) -> Generator[TaskResult, None, None]:
        """The line of every job, each once, as they come."""
        ray = self._ray
        cpus, gpus = self._takes.get("CPU", 0), self._takes.get("GPU", 0)
        others = {name: value for name, value in self._takes.items() if name not in ("CPU", "GPU")}
        remote = ray.remote(num_cpus=cpus, num_gpus=gpus, resources=others, max_retries=RETRIES)(work)
        pending = {remote.remote(packed(home / job.task.key), bool(gpus)): job for job in jobs}
        try:
            while pending:
                found, _ = ray.wait(list(pending), num_returns=1, timeout=LOOK_S)
                if not found and not self._able():
                    raise RunError(
                        f"{self.name} has no node left for tasks; carry on when it has, with: suite resume"
                    )
                if not found:
                    continue
                (ready,) = found
                job = pending.pop(ready)
                try:
                    line, parcel = ray.get(ready)
                except (ray.exceptions.RayError, OSError) as error:
                    reason = str(error).strip().splitlines()[0]
                    yield job.failed(f"the cluster gave it up, {type(error).__name__}: {reason}"[:500])
                    continue
                unpack(parcel, home / job.task.key)
                yield TaskResult.model_validate_json(line).model_copy(update={"starved": False})
        finally:
            for reference in pending:
                ray.cancel(reference, force=True)

    def _able(self) -> list[dict[str, Any]]:
        """Nodes that a task fits on."""
        nodes = [node for node in self._ray.nodes() if node["Alive"]]
        return [node for node in nodes if _at_a_time(node["Resources"], self._takes)]

    def close(self) -> None:
        """Let go of the cluster, which lives on."""
        self._ray.shutdown()


def work(parcel: bytes, on_gpu: bool) -> tuple[str, bytes]:
    """Do a job on a node of the cluster, in a process of its own.

    Args:
        parcel: the task's folder, with its job.
        on_gpu: whether Ray has given this worker a GPU, which is then the only one that it sees.

    Returns:
        The task's line as JSON, and its folder.
    """
    scratch.sweep()
    with tempfile.TemporaryDirectory(prefix=scratch.prefix("ray")) as name:
        folder = Path(name)
        folder.chmod(0o755)
        unpack(parcel, folder)
        job = Job.model_validate_json((folder / JOB).read_text(encoding="utf-8"))
        place = Place(folder, folder / LOG, 0 if on_gpu else None)
        try:
            process = TaskProcess(job, folder, place, alone=True)
            while not process.ended and process.left_s > 0:
                _wait(place.fd, process.left_s)
            result, _ = process.collect()
        finally:  # a cancelled task must not leave its process behind
            place.end()
        return result.model_dump_json(), packed(folder)


def parse_takes(text: str | None, target: str, threads: int) -> dict[str, float]:
    """Resources of one task from "GPU=1,H200=1"; by default one GPU, or every thread that a task computes with.

    Raises:
        ConfigError: it is not NAME=NUMBER.
    """
    if not text:
        return {"GPU": 1.0} if target == "cuda" else {"CPU": float(threads)}
    takes = {}
    for item in text.split(","):
        name, _, value = item.partition("=")
        if not name.strip() or not value.strip().replace(".", "", 1).isdecimal():
            raise ConfigError(f"--ray-takes {item!r}: give NAME=NUMBER, e.g. GPU=1")
        takes[name.strip()] = float(value)
    return takes


def _wait(fd: int, seconds: float) -> None:
    import select

    poll = select.poll()
    poll.register(fd, select.POLLIN)
    poll.poll(min(seconds, 60.0) * 1e3)


def _resources(nodes: list[dict[str, Any]]) -> str:
    alive = [node["Resources"] for node in nodes if node["Alive"]]
    told = [f"CPU={item.get('CPU', 0):g}, GPU={item.get('GPU', 0):g}" for item in alive]
    return "; ".join(told) or "no node alive"


def _at_a_time(resources: dict[str, float], takes: dict[str, float]) -> int:
    """Tasks that a node works on at a time."""
    return min((int(resources.get(name, 0) // value) for name, value in takes.items() if value), default=0)
