"""A recording of `record_profiles.py` -> test data: `python benchmarks/keep_profiles.py ARCHIVE FOLDER`.

Of each kernel's table the columns that are asked for stay, all cells as ncu printed them; `whole.csv` is one log with
every column and line. `recording.json` holds device, ceilings, work, timelines and resources.
"""

from __future__ import annotations

import csv
import io
import json
import re
import sys
import tarfile
from pathlib import Path
from typing import Any

from kernelskill.profiling.counters import COUNTERS
from kernelskill.profiling.ptx import code_facts

KEPT = ("ID", "Kernel Name", "Block Size", "Grid Size", "CC")
METRICS = frozenset(metric for counter in COUNTERS for metric in counter.metrics)
PTX = ("copy", "gather")
"""Kernels whose PTX is kept too."""
ABOUT = ("name", "compute_capability", "multiprocessors", "driver", "torch", "triton", "ncu_version", "date")


def trimmed(table: str) -> str:
    """The columns of a table that are asked for."""
    rows = list(csv.reader(table.splitlines()))
    places = [place for place, name in enumerate(rows[0]) if name in KEPT or name in METRICS]
    out = io.StringIO()
    kept = [[row[place] for place in places] for row in rows]
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(kept)
    return out.getvalue()


def launched(table: str) -> list[dict[str, Any]]:
    """Geometry of each launch as ncu tells it, in the form of a timeline's."""
    rows = list(csv.reader(table.splitlines()))
    found = []
    for row in rows[2:]:
        cell = dict(zip(rows[0], row, strict=True))

        def number(name: str, cell: dict[str, str] = cell) -> float:
            return float(cell[name].replace(",", ""))

        shared = [number(f"launch__shared_mem_per_block_{kind}") for kind in ("static", "dynamic")]
        found.append(
            {
                "name": cell["Kernel Name"],
                "time_us": number("gpu__time_duration.sum") / 1e3,
                "grid": [int(size) for size in re.findall(r"\d+", cell["Grid Size"])],
                "block": [int(size) for size in re.findall(r"\d+", cell["Block Size"])],
                "registers": round(number("launch__registers_per_thread")),
                "shared_bytes": round(sum(shared)),
            }
        )
    return found


def keep(archive: Path, folder: Path) -> None:
    """Write the test data."""
    with tarfile.open(archive) as packed:
        texts = {
            Path(item.name).relative_to("profiles"): (packed.extractfile(item) or io.BytesIO())
            .read()
            .decode()
            for item in packed.getmembers()
            if item.isfile()
        }
    notes: dict[str, Any] = json.loads(texts[Path("recording.json")])
    folder.mkdir(parents=True, exist_ok=True)
    kernels = []
    for name in notes["timelines"]:
        about = json.loads(texts[Path(name) / "kernel.json"])
        seen, table = about["timeline"], texts[Path(name) / "ncu.csv"]
        about["timeline"] = {key: seen[key] for key in ("call_us", "kernels")}
        about["timeline"]["launches"] = seen.get("launches") or launched(table)
        code = texts.get(Path(name) / "kernel.ptx", "")
        about["code"] = code_facts(code) if code else {}
        kernels.append(about)
        (folder / f"{name}.csv").write_text(trimmed(table), encoding="utf-8")
    for name in PTX:
        # Debug sections follow, with paths of the machine.
        code, _, _ = texts[Path(name) / "kernel.ptx"].partition("\t.file")
        (folder / f"{name}.ptx").write_text(code, encoding="utf-8")
    whole = notes.get("whole_profile", {})
    if "counts" in whole:
        (folder / "whole.csv").write_text(whole["counts"][0]["reply"]["log"], encoding="utf-8")
        profile = whole["profile"]
    else:  # there was no time for it: the one that is here stays
        profile = json.loads((folder / "recording.json").read_text(encoding="utf-8"))["profile"]
    document = {
        "device": {key: notes["device"][key] for key in ABOUT},
        "ceilings": notes["ceilings"],
        "kernels": kernels,
        "profile": profile,
    }
    (folder / "recording.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python benchmarks/keep_profiles.py ARCHIVE FOLDER")
    keep(Path(sys.argv[1]), Path(sys.argv[2]))
