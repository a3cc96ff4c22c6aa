"""A recording of `record_profiles.py` -> test data: `python benchmarks/keep_profiles.py ARCHIVE FOLDER`.

Of each kernel's table the columns that are asked for stay, all cells as ncu printed them; `whole.csv` is one log with
every column and line. `recording.json` holds device, ceilings, work, timelines and resources.
"""

from __future__ import annotations

import csv
import io
import json
import sys
import tarfile
from pathlib import Path
from typing import Any

from kernelskill.profiling.counters import COUNTERS

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
        about["timeline"] = {key: about["timeline"][key] for key in ("call_us", "kernels")}
        kernels.append(about)
        (folder / f"{name}.csv").write_text(trimmed(texts[Path(name) / "ncu.csv"]), encoding="utf-8")
    for name in PTX:
        # Debug sections follow, with paths of the machine.
        code, _, _ = texts[Path(name) / "kernel.ptx"].partition("\t.file")
        (folder / f"{name}.ptx").write_text(code, encoding="utf-8")
    whole = notes["whole_profile"]["counts"][0]["reply"]["log"]
    (folder / "whole.csv").write_text(whole, encoding="utf-8")
    document = {
        "device": {key: notes["device"][key] for key in ABOUT},
        "ceilings": notes["ceilings"],
        "kernels": kernels,
        "profile": notes["whole_profile"]["profile"],
    }
    (folder / "recording.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python benchmarks/keep_profiles.py ARCHIVE FOLDER")
    keep(Path(sys.argv[1]), Path(sys.argv[2]))
