"""What killed processes left behind is removed, and nothing else."""

import os
import subprocess
import sys
import tempfile

from kernelskill import scratch


def test_only_folders_of_processes_that_are_gone_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    mine = tempfile.mkdtemp(prefix=scratch.prefix("worker"))
    (tmp_path / f"kernelskill-floor-{ended.pid}-abc" / "deep").mkdir(parents=True)
    for name in ("kernelskill-0", "kernelskill-notes", "other"):
        (tmp_path / name).mkdir()
    scratch.sweep()
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {os.path.basename(mine), "kernelskill-0", "kernelskill-notes", "other"}
