"""What this machine can do at best: measured once by a small program of ours, then read from the cache."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from pydantic import ValidationError

from kernelskill.errors import WorkerError
from kernelskill.records import Ceilings
from kernelskill.scratch import prefix

_FOLDER = Path(__file__).parent
_SOURCE = _FOLDER / "machine.cpp"
_SCRIPT = _FOLDER / "measure.py"
_GPU_SCRIPT = _FOLDER / "measure_gpu.py"
_FLAGS = ("-O3", "-march=native", "-mprefer-vector-width=512", "-fopenmp", "-shared", "-fPIC")
_LIMIT_S = 120.0
"""A machine that is this slow is not worth waiting for."""


def load_ceilings(cache_dir: Path, threads: int) -> Ceilings:
    """The ceilings of this processor with so many threads, from the cache or measured now (about 4 s).

    Raises:
        WorkerError: there is no C++ compiler, or the measuring program failed.
    """
    device = processor()
    path = cache_dir / f"ceilings-{_key(device, threads, _SOURCE, _SCRIPT)}.json"
    return _cached(path, lambda: measure_ceilings(device, threads))


def load_gpu_ceilings(
    cache_dir: Path,
    device: str,
    index: int,
    alone: Callable[[int], AbstractContextManager[None]] = lambda _: nullcontext(),
) -> Ceilings:
    """The ceilings of a GPU, from the cache or measured now (about 10 s).

    Args:
        cache_dir: where measurements are kept.
        device: its name.
        index: as torch counts it.
        alone: has the GPU with this index to oneself.

    Raises:
        WorkerError: the measuring program failed.
    """
    path = cache_dir / f"ceilings-{_key(device, 1, _GPU_SCRIPT)}.json"

    def measure() -> Ceilings:
        with alone(index):  # whoever had it until now may have measured just this
            return _known(path) or measure_gpu_ceilings(device, index)

    return _cached(path, measure)


def measure_gpu_ceilings(device: str, index: int) -> Ceilings:
    """Measure a GPU now, in a process of its own.

    Raises:
        WorkerError: the measuring program failed.
    """
    told = _run([sys.executable, "-I", str(_GPU_SCRIPT), str(index)], dict(os.environ))
    return Ceilings(device=device, threads=1, measured_on=_today(), **json.loads(told))


def _cached(path: Path, measure: Callable[[], Ceilings]) -> Ceilings:
    known = _known(path)
    if known is not None:
        return known
    ceilings = measure()
    cache_dir = path.parent
    cache_dir.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=cache_dir, delete=False, encoding="utf-8") as file:
        file.write(ceilings.model_dump_json(indent=1))
    Path(file.name).replace(path)
    return ceilings


def _known(path: Path) -> Ceilings | None:
    """What was measured before; None if nothing was, or the file was cut short."""
    try:
        return Ceilings.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, ValidationError):
        return None


def measure_ceilings(device: str, threads: int) -> Ceilings:
    """Measure now, in a process with the environment of a judged worker.

    Raises:
        WorkerError: there is no C++ compiler, or the measuring program failed.
    """
    with tempfile.TemporaryDirectory(prefix=prefix("floor")) as folder:
        library = Path(folder) / "machine.so"
        compiler = shutil.which("g++")
        if compiler is None:
            raise WorkerError("measuring this machine needs a C++ compiler; install one: apt-get install g++")
        _run([compiler, *_FLAGS, str(_SOURCE), "-o", str(library)], {**os.environ, "TMPDIR": folder})
        told = _run(
            [sys.executable, "-I", str(_SCRIPT), str(library), str(threads)], _environment(threads, folder)
        )
    return Ceilings(
        device=device,
        threads=threads,
        measured_on=_today(),
        cache_bytes=private_cache_bytes(threads),
        **json.loads(told),
    )


def processor() -> str:
    """Model name of the processor, as the kernel tells it."""
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return os.uname().machine


def private_cache_bytes(threads: int) -> int | None:
    """Second-level cache behind that many threads together, bytes; None where the system doesn't tell."""
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            level, size = ((index / name).read_text(encoding="ascii").strip() for name in ("level", "size"))
            sharers = _count((index / "shared_cpu_list").read_text(encoding="ascii").strip())
        except OSError:
            continue
        if level == "2" and size.endswith("K"):
            return int(size[:-1]) * 1024 * -(-threads // sharers)
    return None


def _count(processors: str) -> int:
    """How many processors a list such as "0-3,8" names."""
    ends = [part.partition("-") for part in processors.split(",")]
    return sum(int(last or first) - int(first) + 1 for first, _, last in ends)


def _environment(threads: int, folder: str) -> dict[str, str]:
    """As a worker has it: threads sleep while they wait, and nothing else of the user's settings counts."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "LANG": "C.UTF-8",
        "HOME": folder,
        "TMPDIR": folder,
        "OMP_NUM_THREADS": str(threads),
        "OMP_WAIT_POLICY": "PASSIVE",
    }


def _today() -> str:
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def _key(device: str, threads: int, *programs: Path) -> str:
    """Another device, thread count or measuring program is another entry of the cache."""
    text = "\n".join([device, str(threads), *(program.read_text(encoding="utf-8") for program in programs)])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _run(command: list[str], environment: dict[str, str]) -> str:
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True, timeout=_LIMIT_S
        )
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip().splitlines() or ["no message"])[-1]
        name = Path(command[0]).name
        raise WorkerError(
            f"measuring this machine failed in {name} ({last}); see: kernelskill doctor"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise WorkerError(
            f"measuring this machine took more than {_LIMIT_S:.0f} s; is it overloaded?"
        ) from error
    return done.stdout
