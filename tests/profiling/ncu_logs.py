"""Text as ncu prints it, for tests: `--csv --page raw`, with the lines that it puts around the table."""

from kernelskill.profiling.counters import COUNTERS

COLUMNS = ("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size",
           "Grid Size", "Device", "CC")  # fmt: skip
UNITS = {"percent": "%", "time": "ns", "bytes": "byte", "number": ""}
BEFORE = ["==PROF== Connected to process 4711 (/usr/bin/python3.12)"]
AFTER = ["==PROF== Disconnected from process 4711"]
REFUSED = """==PROF== Connected to process 4711 (/usr/bin/python3.12)
==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the target \
device 0. For instructions on enabling permissions and to get more information see \
https://developer.nvidia.com/ERR_NVGPUCTRPERM
==PROF== Disconnected from process 4711
==WARNING== No kernels were profiled.
"""
UNKNOWN = "==ERROR== Failed to find metric regex:^{}(\\.(sum|min|max|avg|pct|ratio|max_rate))?$\n"

METRIC = {counter.name: counter.metrics[0] for counter in COUNTERS}
UNIT = {metric: UNITS[counter.kind] for counter in COUNTERS for metric in counter.metrics}


def quoted(cells):
    return ",".join(f'"{cell}"' for cell in cells)


def log(*launches, units=None, before=BEFORE, after=AFTER):
    """A log of launches: (kernel, {counter or metric: cell}); cells that a launch lacks are "n/a"."""
    tables = [
        (kernel, {METRIC.get(name, name): cell for name, cell in cells.items()}) for kernel, cells in launches
    ]
    metrics = list(dict.fromkeys(name for _, cells in tables for name in cells))
    known = {**UNIT, **(units or {})}
    lines = [
        quoted((*COLUMNS, *metrics)),
        quoted([""] * len(COLUMNS) + [known.get(name, "") for name in metrics]),
    ]
    for number, (kernel, cells) in enumerate(tables):
        fixed = (
            number,
            4711,
            "python3.12",
            "127.0.0.1",
            kernel,
            1,
            7,
            "(256, 1, 1)",
            "(4096, 1, 1)",
            0,
            "9.0",
        )
        lines.append(quoted((*fixed, *(cells.get(name, "n/a") for name in metrics))))
    return "\n".join([*before, *lines, *after]) + "\n"
