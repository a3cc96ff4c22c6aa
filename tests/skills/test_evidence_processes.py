"""Several processes on one store: nothing is lost or doubled, and a writer that is killed leaves a store that opens."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from kernelskill.skills import EvidenceStore

WRITER = """
import sys; sys.path.insert(0, sys.argv[1])
from pathlib import Path
from test_evidence import evidence
from kernelskill.skills import EvidenceStore
store = EvidenceStore(Path(sys.argv[2]))
for index in range(int(sys.argv[4])):
    assert store.add(evidence(index, run=sys.argv[3]))
    print(index, flush=True)
"""


def writer(path, run, count):
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(Path(__file__).parent), str(path), run, str(count)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_two_writers_lose_and_double_nothing(tmp_path):
    path = tmp_path / "shared.sqlite"
    both = [writer(path, run, 60) for run in ("a", "b")]
    for process in both:
        told, errors = process.communicate(timeout=240)
        assert process.returncode == 0, errors
        assert told.split()[-1] == "59"
    keys = [(row.run, row.attempt) for row in EvidenceStore(path).rows()]
    assert len(keys) == len(set(keys)) == 120
    assert set(keys) == {(run, index) for run in "ab" for index in range(60)}


def test_a_store_opens_after_its_writer_was_killed(tmp_path):
    path = tmp_path / "killed.sqlite"
    for round_index in range(3):
        process = writer(path, f"run-{round_index}", 100_000)
        told = [process.stdout.readline() for _ in range(8)]
        time.sleep(0.01 * round_index)  # another moment of the write each time
        os.kill(process.pid, signal.SIGKILL)
        process.wait(timeout=60)
        process.stdout.close()
        process.stderr.close()
        last = int(told[-1])
        kept = {row.attempt for row in EvidenceStore(path).rows() if row.run == f"run-{round_index}"}
        assert set(range(last + 1)) <= kept, "what was told is there"
        assert kept == set(range(len(kept))), "and no row is half there"
